package forge

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// shapes are goroutines and batches: each entry by itself, a few together, all at once.
var shapes = [...]inorder.Shape{{Workers: 2, Batch: 1}, {Workers: 3, Batch: 4 << 10}, {Workers: 8, Batch: 1},
	{Workers: 2, Batch: 64 << 10}}

// mustAgree verifies a pack by one goroutine, and in some of the shapes: whatever is scheduled how,
// the answer is the same.
func mustAgree(t testing.TB, pack []byte, o evidence.Options, shape int) (evidence.Report, error) {
	t.Helper()
	verify := func(s inorder.Shape) (evidence.Report, error) {
		return evidence.Verify(inorder.With(t.Context(), s), bytes.NewReader(pack), int64(len(pack)), o)
	}
	want, wantErr := verify(inorder.Shape{Workers: 1})
	x := shapes[shape%len(shapes)]
	got, err := verify(x)
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(err, wantErr) {
		t.Errorf("%+v: %+v, %v; one alone: %+v, %v", x, got, err, want, wantErr)
	}
	return want, wantErr
}

// TestAheadOfTampering has each row of the catalogue, and each pack that passes, in the shapes.
func TestAheadOfTampering(t *testing.T) {
	t.Parallel()
	w := newTampered(t)
	tried, step := 0, Sample(4)
	if race.Enabled {
		step = 16
	}
	for i, x := range tamperings() {
		if i%step > 0 {
			continue
		}
		m, o, pack := TakeApart(t, w.pack), w.o, w.pack
		if x.cut != nil {
			x.cut(m)
			pack = m.Build()
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
		if r, err := mustAgree(t, x.pack, evidence.Options{Trust: x.trust, Last: x.last}, tried); err != nil ||
			!r.Success(evidence.Logged) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		tried++
	}
	if tried < 30 || !race.Enabled && tried < 200/step {
		t.Errorf("only %d packs were tried", tried)
	}
}

// spoilt are faults that one entry shows, in the order of their checks.
var spoilt = []struct {
	name  string
	spoil func(line []byte) []byte
	want  error
}{
	{"a space", func(b []byte) []byte { return append(b, ' ') }, evidence.ErrEncoding},
	{"a member", func(b []byte) []byte { return bytes.Replace(b, []byte(`{"payload"`), []byte(`{"a":1,"payload"`), 1) },
		evidence.ErrEnvelope},
	{"a stranger", func(b []byte) []byte { return another(b, `"keyid":"`) }, evidence.ErrKey},
	{"a signature", func(b []byte) []byte { return another(b, `"sig":"`) }, evidence.ErrSignature},
	{"the one before", nil, evidence.ErrChain},
}

// another is a line with another character after those.
func another(b []byte, behind string) []byte {
	b = bytes.Clone(b)
	i := bytes.Index(b, []byte(behind)) + len(behind)
	if b[i]++; b[i] == '9'+1 || b[i] == 'Z'+1 || b[i] == 'z'+1 || b[i] == '+'+1 || b[i] == 'f'+1 {
		b[i] = '0'
	}
	return b
}

// TestFirstFault spoils two entries of a longer log, or one twice: the answer is the first of them
// in the log, and the first check of it.
func TestFirstFault(t *testing.T) {
	t.Parallel()
	m := LongLog(t, 64)
	pack := m.Pack(evidence.Write)
	ms := Untar(t, pack)
	lines := bytes.Split(bytes.TrimSuffix(ms[EntriesAt].Body, []byte("\n")), []byte("\n"))
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
		bad := bytes.Clone(ms[EntriesAt].Body)[:0]
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
		changed := Untar(t, pack)
		if changed[EntriesAt].Body = bad; n%2 == 0 {
			changed[EntriesAt].Body = bad[:len(bad)-1] // and the last line has no end
		}
		_, err := mustAgree(t, TarOf(changed), evidence.Options{Trust: m.Trust}, n)
		var e *evidence.Error
		if !errors.As(err, &e) || e.Entry != int64(i) || e.Check != spoilt[a].want {
			t.Errorf("%s in %d, %s in %d: %v", spoilt[a].name, i, spoilt[b].name, j, err)
		}
	}
}

// TestAheadOfKeys adds a kernel key, signs under it at once, and takes it away again: those who
// open ahead know of it too late, and too long.
func TestAheadOfKeys(t *testing.T) {
	t.Parallel()
	m := NewMaker(t)
	m.Use(FilesPolicy(1))
	calls := func() {
		for range 6 {
			m.Denied(contracts.ReasonToolNotFound, Ask{Session: "a", Tool: "x", Args: `{}`})
		}
	}
	calls()
	m.add(seedK2, "kernel 2", registry.Kernel)
	m.open(seedK2, [16]byte{})
	calls()
	m.Revoke(SeedK1)
	calls()
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	for shape := range shapes {
		if r, err := mustAgree(t, pack, evidence.Options{Trust: m.Trust}, shape); err != nil ||
			!r.Success(evidence.Logged) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	late := TakeApart(t, pack)
	n := late.Nodes[len(late.Nodes)-1]
	n.by = SeedK1
	bad := late.Build()
	for shape := range shapes {
		r, err := mustAgree(t, bad, evidence.Options{Trust: m.Trust}, shape)
		mustRefuse(t, r, err, evidence.ErrKey)
	}
}
