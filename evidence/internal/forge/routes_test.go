package forge

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
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
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, got, want)
		}
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
			if size, serr := p.Size(t.Context()); size != n || serr != nil || err != nil || !bytes.Equal(note, s.Note) {
				t.Fatalf("%d of %d, %v, %v, %q", size, n, serr, err, note)
			}
			for _, r := range [][2]uint64{{0, n}, {0, 0}, {n, n}, {0, 1}, {n - 1, n}, {n / 2, n}, {n / 2, n/2 + 1},
				{min(7, n), min(9, n)}, {min(8, n), n}} {
				list, err := gathered(t.Context(), p, r[0], r[1])
				if err != nil || uint64(len(list)) != r[1]-r[0] {
					t.Fatalf("%d: %d, %v", r, len(list), err)
				}
				for i, e := range list {
					assert.True(t, bytes.Equal(e, s.Lines[r[0]+uint64(i)]), "%d: another entry %d", r, i)
				}
			}
			for _, r := range [][2]uint64{{1, 0}, {0, n + 1}, {n + 1, n + 1}, {n, 0}, {1 << 63, 1<<64 - 1}} {
				if list, err := gathered(t.Context(), p, r[0], r[1]); err == nil || len(list) > 0 ||
					errors.Is(err, evidence.ErrArchive) {
					t.Errorf("%d: %d entries, %v", r, len(list), err)
				}
			}
			for d, want := range s.Blobs {
				if b, err := p.Blob(t.Context(), d); err != nil || !bytes.Equal(b, want) || b == nil {
					t.Errorf("%s: %d bytes, %v", d, len(b), err)
				}
				d[31] ^= 1
				if b, err := p.Blob(t.Context(), d); b != nil || !errors.Is(err, proofgraph.ErrNoBlob) {
					t.Errorf("a blob that is not there: %d bytes, %v", len(b), err)
				}
			}
			if b, err := p.Blob(t.Context(), contracts.Digest{1}); b != nil || !errors.Is(err, proofgraph.ErrNoBlob) {
				t.Errorf("a blob that is not there: %d bytes, %v", len(b), err)
			}
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
				if got, err := evidence.VerifyStore(t.Context(), x.store, x.o); err != nil ||
					!reflect.DeepEqual(got, want) {
					t.Errorf("%s: %+v, %v\nof the pack: %+v", kind, got, err, want)
				}
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
	w := newTampered(t)
	compared, step := 0, Sample(3)
	for i, x := range tamperings() {
		if i%step > 0 || x.want == evidence.ErrArchive || x.want == evidence.ErrManifest || x.name == "no LF" {
			continue // a store has none of these
		}
		t.Run(strings.TrimSuffix(x.id+"/"+x.name, "/"), func(t *testing.T) {
			_, pack, o := w.falsify(t, x)
			of, want := verifyBytes(t, pack, o)
			s := Shelve(t, pack)
			got, err := evidence.VerifyStore(t.Context(), s, o)
			switch f := of.Fault; {
			case f != nil && f.What == "no entry names it": // nor can anybody see it
			// what is more is not what was verified
			case f != nil && f.Field == "checkpoint.size" && verifiable(s) < len(s.Lines):
				if err == nil && got.Size+got.Behind != uint64(len(s.Lines)) ||
					err != nil && !errors.Is(err, evidence.ErrMerkle) {
					t.Errorf("%+v, %v", got, err)
				}
			case fmt.Sprint(err) != fmt.Sprint(want) || !reflect.DeepEqual(got, of):
				t.Errorf("%+v, %v\nof the pack: %+v, %v", got, err, of, want)
			default:
				compared++
			}
		})
	}
	assert.GreaterOrEqual(t, compared, 300/step-5*(step-1), "rows were compared")
}
