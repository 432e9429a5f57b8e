package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// floats is a guest that does every operation of floats on operands of every kind, and prints the
// bits.
func floats() []byte {
	b := command(nil, "fd_write")
	b.memory = 8
	at := uint32(0x100)
	var body []byte
	emit := func(store string, wide bool, parts ...any) {
		body = append(body, ops(i32(int64(at)), ops(parts...), store, u32(0))...)
		if at += 4; wide {
			at += 4
		}
	}
	const store32, store64 = "\x38\x02", "\x39\x03" // f32.store, f64.store
	narrow := []uint32{0x7fc00000, 0xffc00000, 0x7fc00123, 0x7f800001, 0xffa00001, 0x7f800000, 0xff800000, 0, 1 << 31, 1,
		0x3f800000, 0x7f7fffff, 0xbfc00000}
	for _, x := range narrow {
		a := binary.LittleEndian.AppendUint32([]byte{0x43}, x)
		for op := 0x8b; op <= 0x91; op++ { // abs neg ceil floor trunc nearest sqrt
			emit(store32, false, a, op)
		}
		emit(store64, true, a, 0xbb) // promote
		for _, y := range narrow {
			for op := 0x92; op <= 0x98; op++ { // add sub mul div min max copysign
				emit(store32, false, a, binary.LittleEndian.AppendUint32([]byte{0x43}, y), op)
			}
		}
	}
	for _, x := range narrow {
		wide := func(n uint32) []byte {
			bits := math.Float64bits(float64(math.Float32frombits(n)))
			if n&0x7f800000 == 0x7f800000 && n&0x7fffff != 0 { // keeps what promotion would make quiet
				bits = uint64(n>>31)<<63 | 0x7ff<<52 | uint64(n&0x7fffff)<<29 | uint64(n&1)
			}
			return binary.LittleEndian.AppendUint64([]byte{0x44}, bits)
		}
		for op := 0x99; op <= 0x9f; op++ {
			emit(store64, true, wide(x), op)
		}
		emit(store32, false, wide(x), 0xb6) // demote
		for _, y := range narrow {
			for op := 0xa0; op <= 0xa6; op++ {
				emit(store64, true, wide(x), wide(y), op)
			}
		}
	}
	b.funcs[0].code = ops(body, i32(0), i32(0x100), i32store, i32(4), i32(int64(at-0x100)), i32store, callWith(0, 1, 0, 1, 8))
	return b.bytes()
}

// same are guests whose records must be the same wherever they run.
func same() map[string]struct {
	wasm   []byte
	grants contracts.Sandbox
} {
	return map[string]struct {
		wasm   []byte
		grants contracts.Sandbox
	}{
		"floats":  {floats(), contracts.Sandbox{}},
		"prints":  {prints(1, "hello").bytes(), contracts.Sandbox{}},
		"exits":   {prints(2, "oh", i32(2), call(1)).bytes(), contracts.Sandbox{}},
		"traps":   {command(ops(unreachable)).bytes(), contracts.Sandbox{}},
		"clocks":  {clocks(12345), contracts.Sandbox{}},
		"sleeps":  {clocks(365 * 24 * 3600 * 1e9), contracts.Sandbox{Gas: 1e6}},
		"loops":   {command(forever()).bytes(), contracts.Sandbox{Gas: 123_456}},
		"grows":   {command(forever(i32(1), grow, drop)).bytes(), contracts.Sandbox{Memory: 20}},
		"recurs":  {build{memory: 1, funcs: []fn{{code: call(0)}}}.bytes(), contracts.Sandbox{Gas: 5000}},
		"outputs": {prints(1, "123456").bytes(), contracts.Sandbox{Output: 5}},
		"segment": {build{funcs: []fn{{}}, memory: 1, data: "x", dataAt: 65536}.bytes(), contracts.Sandbox{}},
	}
}

// A NaN that an operation makes is the canonical one; what only moves bits moves them.
func TestFloats(t *testing.T) {
	t.Parallel()
	got := newRoom(t).runs(floats(), contracts.Sandbox{})
	require.Equal(t, contracts.ReasonAllow, got.reason, got.err)
	word := func(i int) uint32 { return binary.LittleEndian.Uint32([]byte(got.output[4*i:])) }
	assert.Equal(t, uint32(0x7fc00000), word(0), "abs of NaN")
	assert.Equal(t, uint32(0xffc00000), word(1), "neg of NaN moves bits")
	const each = 7 + 2 + 13*7                           // words for each first operand
	assert.Equal(t, uint32(0x7fc00123), word(2*each))   // abs of a NaN with a payload
	assert.Equal(t, uint32(0x7fc00000), word(2*each+2)) // and ceil
	for i := range 13 {
		for op := range 6 { // all but copysign
			assert.Equal(t, uint32(0x7fc00000), word(2*each+9+7*i+op), "%d %d", i, op)
		}
		assert.Equal(t, uint32(0x7fc00123), word(2*each+9+7*i+6)&^(1<<31), "copysign")
	}
}

const printRecords = "HELM_SANDBOX_RECORDS"

// records returns what is recorded of the guests of same, as text.
func (r *room) records() string {
	all := map[string]string{}
	for name, g := range same() {
		got := r.tell(context.Background(), r.load(g.wasm, g.grants, Host{}), "{}")
		all[name] = fmt.Sprintf("%s %d %x %s", got.reason, got.gas, got.output, got.err)
	}
	text, err := json.Marshal(all)
	require.NoError(r, err)
	return string(text)
}

// TestRecordsForAnother is what the next test runs in another process.
func TestRecordsForAnother(t *testing.T) {
	if to := os.Getenv(printRecords); to != "" {
		require.NoError(t, os.WriteFile(to, []byte(newRoom(t).records()), 0o600))
	}
}

// another runs a test binary that writes its records, and returns them.
func another(t *testing.T, command ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "records")
	cmd := exec.Command(command[0], append(command[1:], "-test.run=^TestRecordsForAnother$")...)
	cmd.Env = append(os.Environ(), printRecords+"="+to)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	got, err := os.ReadFile(to)
	require.NoError(t, err)
	return string(got)
}

// Another process makes the same records.
func TestSameInAnotherProcess(t *testing.T) {
	t.Parallel()
	own, err := os.Executable()
	require.NoError(t, err)
	want := newRoom(t).records()
	require.Equal(t, 11, strings.Count(want, `":"`), "records")
	assert.Equal(t, want, another(t, own))
}

// And another processor.
func TestSameOnAnotherProcessor(t *testing.T) {
	t.Parallel()
	other, emulator := "arm64", "qemu-aarch64"
	if runtime.GOARCH == other {
		other, emulator = "amd64", "qemu-x86_64"
	}
	if _, err := exec.LookPath(emulator); err != nil || testing.Short() {
		t.Skipf("not compared with %s: %s is not here, or the run is a short one", other, emulator)
	}
	built := filepath.Join(t.TempDir(), "other.test")
	build := exec.Command("go", "test", "-c", "-o", built, ".")
	build.Env = append(os.Environ(), "GOARCH="+other, "CGO_ENABLED=0")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Equal(t, newRoom(t).records(), another(t, emulator, built), other)
}
