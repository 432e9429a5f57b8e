package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// verifyWith has so many goroutines open entries, so many bytes of them at a time.
func verifyWith(ctx context.Context, r io.ReaderAt, size int64, o Options, workers, batch int) (Report, error) {
	v := newVerifier(ctx, o)
	v.workers, v.batch = workers, batch
	return v.answer(v.inPack(r, size))
}

// shapes are goroutines and batches: each entry by itself, a few together, all at once.
var shapes = [...]struct{ workers, batch int }{{2, 1}, {3, 4 << 10}, {8, 1}, {2, batchBytes}}

// mustAgree verifies a pack by one goroutine, and in some of the shapes: whatever is scheduled how, the answer is the same.
func mustAgree(t testing.TB, pack []byte, o Options, shape int) (Report, error) {
	t.Helper()
	want, wantErr := verifyWith(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, 1, 0)
	x := shapes[shape%len(shapes)]
	got, err := verifyWith(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, x.workers, x.batch)
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(err, wantErr) {
		t.Errorf("%d goroutines, %d bytes: %+v, %v; one alone: %+v, %v", x.workers, x.batch, got, err, want, wantErr)
	}
	return want, wantErr
}

// TestAheadOfTampering has each row of the catalogue, and each pack that passes, in the shapes.
func TestAheadOfTampering(t *testing.T) {
	w := newTampered(t)
	tried := 0
	for i, x := range tamperings() {
		if race.Enabled && i%16 > 0 {
			continue
		}
		m, o, pack := takeApart(t, w.pack), w.o, w.pack
		if x.cut != nil {
			x.cut(m)
			pack = m.build()
		}
		if x.pack != nil {
			pack = x.pack(m, bytes.Clone(pack))
		}
		if x.o != nil {
			x.o(m, &o)
		}
		r, err := mustAgree(t, pack, o, tried)
		if tried++; x.want != nil {
			mustRefuse(t, r, err, x.want)
		}
	}
	for name, x := range testPacks(t) {
		if r, err := mustAgree(t, x.pack, Options{Trust: x.trust, Last: x.last}, tried); err != nil || !r.Success(Logged) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		tried++
	}
	if tried < 30 || !race.Enabled && tried < 200 {
		t.Errorf("only %d packs were tried", tried)
	}
}

// spoilt are faults that one entry shows, in the order of their checks.
var spoilt = []struct {
	name  string
	spoil func(line []byte) []byte
	want  error
}{
	{"a space", func(b []byte) []byte { return append(b, ' ') }, ErrEncoding},
	{"a member", func(b []byte) []byte { return bytes.Replace(b, []byte(`{"payload"`), []byte(`{"a":1,"payload"`), 1) }, ErrEnvelope},
	{"a stranger", func(b []byte) []byte { return another(b, `"keyid":"`) }, ErrKey},
	{"a signature", func(b []byte) []byte { return another(b, `"sig":"`) }, ErrSignature},
	{"the one before", nil, ErrChain},
}

// another is a line with another character behind those.
func another(b []byte, behind string) []byte {
	b = bytes.Clone(b)
	i := bytes.Index(b, []byte(behind)) + len(behind)
	if b[i]++; b[i] == '9'+1 || b[i] == 'Z'+1 || b[i] == 'z'+1 || b[i] == '+'+1 || b[i] == 'f'+1 {
		b[i] = '0'
	}
	return b
}

// TestFirstFault spoils two entries of a longer log, or one twice: the answer is the first of them in the log, and the first check of it.
func TestFirstFault(t *testing.T) {
	m := longLog(t, 64)
	pack := m.pack()
	ms := untar(t, pack)
	lines := bytes.Split(bytes.TrimSuffix(ms[entriesMember].body, []byte("\n")), []byte("\n"))
	pick := rand.New(rand.NewPCG(5, 6))
	rounds := 60
	if race.Enabled {
		rounds = 12
	}
	for n := range rounds {
		i, j := 1+pick.IntN(len(lines)-1), 1+pick.IntN(len(lines)-1)
		a, b := pick.IntN(len(spoilt)), pick.IntN(len(spoilt))
		if j < i || j == i && b < a {
			i, j, a, b = j, i, b, a
		}
		bad := bytes.Clone(ms[entriesMember].body)[:0]
		for k, line := range lines {
			switch kind := map[int]int{j: b, i: a}; {
			case k != i && k != j:
			case spoilt[kind[k]].spoil == nil:
				line = lines[k-1]
			default:
				line = spoilt[kind[k]].spoil(line)
			}
			bad = append(append(bad, line...), '\n')
		}
		changed := untar(t, pack)
		if changed[entriesMember].body = bad; n%2 == 0 {
			changed[entriesMember].body = bad[:len(bad)-1] // and the last line has no end
		}
		_, err := mustAgree(t, tarOf(changed), Options{Trust: m.trust}, n)
		var e *Error
		if !errors.As(err, &e) || e.Entry != int64(i) || e.Check != spoilt[a].want {
			t.Errorf("%s in %d, %s in %d: %v", spoilt[a].name, i, spoilt[b].name, j, err)
		}
	}
}

// TestAheadOfKeys adds a kernel key, signs under it at once, and takes it away again: those who open ahead know of it too late, and too long.
func TestAheadOfKeys(t *testing.T) {
	m := newMaker(t)
	m.use(testPolicy(1))
	calls := func() {
		for range 6 {
			m.denied(contracts.ReasonToolNotFound, ask{session: "a", tool: "x", args: `{}`})
		}
	}
	calls()
	m.add(seedK2, "kernel 2", registry.Kernel)
	m.open(seedK2, [16]byte{})
	calls()
	m.revoke(seedK1)
	calls()
	m.checkpoint()
	pack := m.pack()
	for shape := range shapes {
		if r, err := mustAgree(t, pack, Options{Trust: m.trust}, shape); err != nil || !r.Success(Logged) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	late := takeApart(t, pack)
	n := late.nodes[len(late.nodes)-1]
	n.by = seedK1
	bad := late.build()
	for shape := range shapes {
		r, err := mustAgree(t, bad, Options{Trust: m.trust}, shape)
		mustRefuse(t, r, err, ErrKey)
	}
}

// mustHaveEnded looks for goroutines of a pipeline.
func mustHaveEnded(t testing.TB, when string) {
	t.Helper()
	b := make([]byte, 1<<20)
	if b = b[:runtime.Stack(b, true)]; strings.Contains(string(b), "(*pipeline).") {
		t.Errorf("%s: goroutines are left:\n%s", when, b)
	}
}

// TestAheadEnds: whatever ends a verification, its goroutines end before it does; and a panic is the caller's own.
func TestAheadEnds(t *testing.T) {
	m := longLog(t, 60)
	pack := m.pack()
	spoiled := bytes.Replace(pack, []byte(`"}]}`+"\n"+`{"payload"`), []byte(`"]}}`+"\n"+`{"payload"`), 1)
	size := int64(len(pack))
	verify := func(ctx context.Context, r io.ReaderAt, o Options) (panicked any, err error) {
		defer func() { panicked = recover() }()
		o.Trust = m.trust
		_, err = verifyWith(ctx, r, size, o, 4, 1)
		return nil, err
	}
	for range 20 {
		if p, err := verify(t.Context(), bytes.NewReader(pack), Options{}); err != nil || p != nil {
			t.Fatal(err, p)
		}
		mustHaveEnded(t, "a good pack")
		if p, err := verify(t.Context(), bytes.NewReader(spoiled), Options{}); !errors.Is(err, ErrEncoding) || p != nil {
			t.Fatal(err, p)
		}
		mustHaveEnded(t, "a bad pack")
	}
	reads, ended := 0, 0
	for n := 0; ; n++ {
		f := &failing{bytes.NewReader(pack), n, func([]byte, int, error) (int, error) { panic("the disk") }}
		if p, _ := verify(t.Context(), f, Options{}); p == nil {
			break
		} else if p != "the disk" {
			t.Fatalf("read %d: %v", n, p)
		}
		mustHaveEnded(t, "a reader that panics")
		reads++
	}
	for n := 0; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		f := &failing{bytes.NewReader(pack), n, func(_ []byte, n int, err error) (int, error) { cancel(); return n, err }}
		p, err := verify(ctx, f, Options{})
		cancel()
		if err == nil && p == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || p != nil {
			t.Fatalf("read %d: %v, %v", n, err, p)
		}
		mustHaveEnded(t, "an ended context")
		ended++
	}
	if reads < 20 || ended < 20 {
		t.Errorf("only %d reads panicked, %d ended the context", reads, ended)
	}
	if p, _ := verify(t.Context(), bytes.NewReader(pack), Options{Progress: func(uint64, uint64) { panic("told") }}); p != "told" {
		t.Errorf("a panic in Progress: %v", p)
	}
	mustHaveEnded(t, "a panic in Progress")
}

// TestOneProcessor: alone, no goroutine is started.
func TestOneProcessor(t *testing.T) {
	m := longLog(t, 60)
	pack := m.pack()
	for workers, want := range map[int]bool{1: false, 2: true} {
		started := false
		spy := func(b []byte, n int, err error) (int, error) {
			stack := make([]byte, 1<<20)
			started = started || strings.Contains(string(stack[:runtime.Stack(stack, true)]), "(*pipeline).start")
			return n, err
		}
		if _, err := verifyWith(t.Context(), &failing{bytes.NewReader(pack), 0, spy}, int64(len(pack)), Options{Trust: m.trust}, workers, 1); err != nil {
			t.Fatal(err)
		}
		if started != want {
			t.Errorf("%d: goroutines were started: %v", workers, started)
		}
	}
}

// TestPanicAhead: what panics when it is opened ahead is nothing, and is opened again in its turn.
func TestPanicAhead(t *testing.T) {
	p := &pipeline{v: newVerifier(t.Context(), Options{}), ring: make([]batch, 2), filled: 1}
	p.changed.L = &p.mu
	p.ring[0] = batch{lines: make([]line, 2), opened: make([]early, 2)}
	p.mu.Lock()
	p.open(nil)
	p.mu.Unlock()
	if b := p.ring[0]; !b.ready || p.taken != 1 || b.opened[0].statement != nil {
		t.Errorf("%+v", b)
	}
}
