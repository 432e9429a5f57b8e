package forge

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

// TestCrossCheck: every valid pack is as valid to the second canonicaliser, and the report the
// same.
func TestCrossCheck(t *testing.T) {
	t.Parallel()
	for name, p := range testPacks(t) {
		o := evidence.Options{Trust: p.trust, Last: p.last}
		want, err := verifyBytes(t, p.pack, o)
		require.NoError(t, err, name)
		o.CrossCheck = true
		got, err := verifyBytes(t, p.pack, o)
		assert.True(t, err == nil && reflect.DeepEqual(got, want), "%s: %v\n%+v\n%+v", name, err, got, want)
	}
}

// TestPackIsItsStore: an opened pack returns what the store returns from which it was written.
func TestPackIsItsStore(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for name, x := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			p, s := openBytes(t, x.pack, evidence.Options{Trust: x.trust}), Shelve(t, x.pack)
			n := uint64(len(s.Lines))
			note, err := p.Checkpoint(t.Context())
			size, serr := p.Size(t.Context())
			require.True(t, size == n && serr == nil && err == nil && bytes.Equal(note, s.Note), "%d of %d, %v, %v, %q",
				size, n, serr, err, note)
			for _, r := range [][2]uint64{{0, n}, {0, 0}, {n, n}, {0, 1}, {n - 1, n}, {n / 2, n}, {n / 2, n/2 + 1},
				{min(7, n), min(9, n)}, {min(8, n), n}} {
				list, err := gathered(t.Context(), p, r[0], r[1])
				require.True(t, err == nil && uint64(len(list)) == r[1]-r[0], "%d: %d, %v", r, len(list), err)
				for i, e := range list {
					assert.True(t, bytes.Equal(e, s.Lines[r[0]+uint64(i)]), "%d: another entry %d", r, i)
				}
			}
			for _, r := range [][2]uint64{{1, 0}, {0, n + 1}, {n + 1, n + 1}, {n, 0}, {1 << 63, 1<<64 - 1}} {
				list, err := gathered(t.Context(), p, r[0], r[1])
				assert.True(t, err != nil && len(list) == 0 && !errors.Is(err, errArchive),
					"%d: %d entries, %v", r, len(list), err)
			}
			for d, want := range s.Blobs {
				b, err := p.Blob(t.Context(), d)
				assert.True(t, err == nil && bytes.Equal(b, want) && b != nil, "%s: %d bytes, %v", d, len(b), err)
				d[31] ^= 1
				b, err = p.Blob(t.Context(), d)
				assert.True(t, b == nil && errors.Is(err, proofgraph.ErrNoBlob),
					"a blob that is not there: %d bytes, %v", len(b), err)
			}
			b, err := p.Blob(t.Context(), contracts.Digest{1})
			assert.True(t, b == nil && errors.Is(err, proofgraph.ErrNoBlob), "a blob that is not there: %d bytes, %v",
				len(b), err)
		})
	}
}

// TestStoreIsItsPack: of a store is reported what is reported of its pack, whatever the log and
// the store.
func TestStoreIsItsPack(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for name, p := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			s := Shelve(t, p.pack)
			dir := filepath.Join(t.TempDir(), "log")
			w, err := filestore.Open(dir, filestore.Options{})
			require.NoError(t, err)
			defer w.Close()
			s.Fill(t, w)
			files, err := filestore.OpenReadOnly(dir)
			require.NoError(t, err)
			defer files.Close()
			for kind, x := range map[string]struct {
				store proofgraph.Store
				o     evidence.Options
			}{
				"memory": {s.Fill(t, proofgraph.NewMemory()), evidence.Options{Kernel: Public(t, SeedK1)}},
				"files":  {files, evidence.Options{Trust: p.trust, Origin: Origin, Last: p.last}},
				"shelf":  {s, evidence.Options{}},
			} {
				want, err := verifyBytes(t, p.pack, x.o)
				require.NoError(t, err)
				got, err := evidence.VerifyStore(t.Context(), x.store, x.o)
				assert.True(t, err == nil && reflect.DeepEqual(got, want), "%s: %+v, %v\nof the pack: %+v", kind, got,
					err, want)
			}
		})
	}
}

// verifiable is how many entries the checkpoint has.
func verifiable(s *Shelf) int {
	c, _, err := proofgraph.ParseCheckpoint(s.Note)
	if err != nil {
		return len(s.Lines)
	}
	return int(c.Size)
}

// TestTamperedStore: a falsification of what a store has too is refused by the same check, of the
// same entry and field.
func TestTamperedStore(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	compared, step := 0, Sample(3)
	for _, of := range catalogues(t) {
		for i, x := range of.rows {
			if i%step > 0 || x.want == errArchive || x.want == errManifest || x.name == "no LF" {
				continue // a store has none of these
			}
			t.Run(strings.TrimSuffix(x.id+"/"+x.name, "/"), func(t *testing.T) {
				if of.w.sameStore(t, x) {
					compared++
				}
			})
		}
	}
	assert.GreaterOrEqual(t, compared, 440/step-8*(step-1), "rows were compared")
}

// sameStore compares what is said of a row in a store with what is said of it in a pack. It reports
// false if they may differ.
func (w *tampered) sameStore(t *testing.T, x tampering) bool {
	_, pack, o := w.falsify(t, x)
	of, want := verifyBytes(t, pack, o)
	s := Shelve(t, pack)
	got, err := evidence.VerifyStore(t.Context(), s, o)
	switch f := of.Fault; {
	case f != nil && f.What == "no entry names it": // nor can anybody see it
		return false
	// what is more is not what was verified
	case f != nil && f.Field == "checkpoint.size" && verifiable(s) < len(s.Lines):
		assert.True(t, (err != nil || got.Size+got.Behind == uint64(len(s.Lines))) && (err == nil ||
			errors.Is(err, errMerkle)), "%+v, %v", got, err)
		return false
	}
	return assert.True(t, fmt.Sprint(err) == fmt.Sprint(want) && reflect.DeepEqual(got, of),
		"%+v, %v\nof the pack: %+v, %v", got, err, of, want)
}

// A catalogue is a base pack with the rows that are of it.
type catalogue struct {
	w    *tampered
	rows []tampering
}

// catalogues are the rows of the base log, and those of the condensed one.
func catalogues(t *testing.T) []catalogue {
	t.Helper()
	whole := newTampered(t)
	whole.witness()
	return []catalogue{{whole, tamperings()}, {newCondensed(t), condensedRows()}}
}

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
	assert.True(t, reflect.DeepEqual(got, want) && reflect.DeepEqual(err, wantErr), "%+v: %+v, %v; one alone: %+v, %v",
		x, got, err, want, wantErr)
	return want, wantErr
}

// TestAheadOfTampering has each row of the catalogue, and each pack that passes, in the shapes.
func TestAheadOfTampering(t *testing.T) {
	t.Parallel()
	tried, step := 0, Sample(4)
	if race.Enabled {
		step = 16
	}
	for _, of := range catalogues(t) {
		for i, x := range of.rows {
			if i%step > 0 {
				continue
			}
			_, pack, o := of.w.falsify(t, x)
			r, err := mustAgree(t, pack, o, tried)
			if tried++; x.want != nil {
				mustRefuse(t, r, err, x.want)
			}
		}
	}
	for name, x := range testPacks(t) {
		r, err := mustAgree(t, x.pack, evidence.Options{Trust: x.trust, Last: x.last}, tried)
		assert.True(t, err == nil && r.Success(evidence.Logged), "%s: %+v, %v", name, r, err)
		tried++
	}
	assert.True(t, tried >= 30 && (race.Enabled || tried >= 350/step), "only %d packs were tried", tried)
}

// spoilt are faults that one entry shows, in the order of their checks.
var spoilt = []struct {
	name  string
	spoil func(line []byte) []byte
	want  error
}{
	{"a space", func(b []byte) []byte { return append(b, ' ') }, errEncoding},
	{"a member", func(b []byte) []byte { return bytes.Replace(b, []byte(`{"payload"`), []byte(`{"a":1,"payload"`), 1) },
		errEnvelope},
	{"a stranger", func(b []byte) []byte { return another(b, `"keyid":"`) }, errKey},
	{"a signature", func(b []byte) []byte { return another(b, `"sig":"`) }, errSignature},
	{"the one before", nil, errChain},
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
		r, err := mustAgree(t, pack, evidence.Options{Trust: m.Trust}, shape)
		assert.True(t, err == nil && r.Success(evidence.Logged), "%+v, %v", r, err)
	}
	late := TakeApart(t, pack)
	n := late.Nodes[len(late.Nodes)-1]
	n.by = SeedK1
	bad := late.Build()
	for shape := range shapes {
		r, err := mustAgree(t, bad, evidence.Options{Trust: m.Trust}, shape)
		mustRefuse(t, r, err, errKey)
	}
}
