package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// A shelf is a store of whatever bytes, under whatever names.
type shelf struct {
	entries []contracts.Entry
	blobs   map[contracts.Digest][]byte
	note    []byte
}

// shelve puts the members of a pack on a shelf.
func shelve(t testing.TB, pack []byte) *shelf {
	t.Helper()
	s := &shelf{blobs: map[contracts.Digest][]byte{}}
	for i, x := range untar(t, pack) {
		switch i {
		case manifestMember:
		case checkpointMember:
			s.note = x.body
		case entriesMember:
			for line := range bytes.Lines(x.body) {
				s.entries = append(s.entries, bytes.TrimSuffix(line, lineEnd))
			}
		default:
			d, ok := blobName([]byte(x.name))
			if !ok {
				t.Fatal(x.name)
			}
			s.blobs[d] = x.body
		}
	}
	return s
}

func (s *shelf) Append(context.Context, proofgraph.Batch) error { return errors.ErrUnsupported }

func (s *shelf) Size(context.Context) (uint64, error) { return uint64(len(s.entries)), nil }

func (s *shelf) Entries(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for _, e := range s.entries[from:to] {
			if !yield(bytes.Clone(e), nil) {
				return
			}
		}
	}
}

func (s *shelf) Blob(_ context.Context, d contracts.Digest) ([]byte, error) {
	if b, ok := s.blobs[d]; ok {
		return bytes.Clone(b), nil
	}
	return nil, proofgraph.ErrNoBlob
}

func (s *shelf) Checkpoint(context.Context) ([]byte, error) { return bytes.Clone(s.note), nil }

// fill appends all of it to a store that keeps things in order.
func (s *shelf) fill(t testing.TB, to proofgraph.Store) proofgraph.Store {
	t.Helper()
	b := proofgraph.Batch{Entries: s.entries, Checkpoint: s.note}
	for _, x := range s.blobs {
		b.Blobs = append(b.Blobs, x)
	}
	if err := to.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestStoreIsItsPack: of a store is reported what is reported of its pack, whatever the log, and whoever keeps it.
func TestStoreIsItsPack(t *testing.T) {
	race.Alone(t)
	for name, p := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			s := shelve(t, p.pack)
			dir := filepath.Join(t.TempDir(), "log")
			w, err := filestore.Open(dir, filestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			s.fill(t, w)
			files, err := filestore.OpenReadOnly(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			for kind, x := range map[string]struct {
				store proofgraph.Store
				o     Options
			}{
				"memory": {s.fill(t, proofgraph.NewMemory()), Options{Kernel: testPublic(t, seedK1)}},
				"files":  {files, Options{Trust: p.trust, Origin: testOrigin, Last: p.last}},
				"shelf":  {s, Options{}},
			} {
				want, err := verifyBytes(t, p.pack, x.o)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := VerifyStore(t.Context(), x.store, x.o); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %+v, %v\nof the pack: %+v", kind, got, err, want)
				}
			}
		})
	}
}

// verifiable is how many entries the checkpoint has.
func verifiable(s *shelf) int {
	c, _, err := proofgraph.ParseCheckpoint(s.note)
	if err != nil {
		return len(s.entries)
	}
	return int(c.Size)
}

// TestTamperedStore: a falsification of what a store has too is refused by the same check, of the same entry and field.
func TestTamperedStore(t *testing.T) {
	race.Alone(t)
	w := newTampered(t)
	compared := 0
	for _, x := range tamperings() {
		if x.want == ErrArchive || x.want == ErrManifest || x.name == "no LF" {
			continue // a store has none of these
		}
		t.Run(strings.TrimSuffix(x.id+"/"+x.name, "/"), func(t *testing.T) {
			_, pack, o := w.falsify(t, x)
			of, want := verifyBytes(t, pack, o)
			s := shelve(t, pack)
			got, err := VerifyStore(t.Context(), s, o)
			switch f := of.Fault; {
			case f != nil && f.What == "no entry names it": // nor can anybody see it
			case f != nil && f.Field == "checkpoint.size" && verifiable(s) < len(s.entries): // what is more is not what was verified
				if err == nil && got.Size+got.Behind != uint64(len(s.entries)) || err != nil && !errors.Is(err, ErrMerkle) {
					t.Errorf("%+v, %v", got, err)
				}
			case fmt.Sprint(err) != fmt.Sprint(want) || !reflect.DeepEqual(got, of):
				t.Errorf("%+v, %v\nof the pack: %+v, %v", got, err, of, want)
			default:
				compared++
			}
		})
	}
	if compared < 300 {
		t.Errorf("only %d rows were compared", compared)
	}
}

// TestBehind: what stands behind the checkpoint is counted, and not looked at.
func TestBehind(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	want, err := VerifyStore(t.Context(), m.store, Options{Trust: m.trust})
	if err != nil || want.Behind != 0 {
		t.Fatalf("%+v, %v", want, err)
	}
	s := shelve(t, m.pack())
	s.entries = append(s.entries, contracts.Entry("not an entry"), contracts.Entry("another"))
	var never context.Context // which never ends
	got, err := VerifyStore(never, s, Options{Trust: m.trust})
	if want.Behind = 2; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestStoreWhileItIsWritten: a log is verified in its directory, and in the store itself, while a kernel goes on writing it.
func TestStoreWhileItIsWritten(t *testing.T) {
	policy, err := guardian.Compile(contracts.Document{Name: "files", Canonical: []byte(testPolicy(1))})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "log")
	w, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	k, err := helm.New(helm.Options{Policy: policy, Key: testKey(t, seedK1), Store: w, Origin: testOrigin})
	if err != nil {
		t.Fatal(err)
	}
	driver := helm.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })
	call := func() {
		k.Guard(t.Context(), helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: reader, Driver: driver})
	}
	checkpoint := func() {
		if _, err := k.Checkpoint(t.Context()); err != nil {
			t.Error(err)
		}
	}
	call()
	checkpoint()
	turns, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range turns { // a log that grows as fast as it can would be verified for ever longer
			for range 8 {
				call()
				call()
				call()
				checkpoint()
			}
		}
	}()
	verify := func(s proofgraph.Store, last []byte) Report {
		r, err := VerifyStore(t.Context(), s, Options{Trust: k.Trust(), Last: last})
		if err != nil || !r.Success(Logged) || r.Allows == 0 || last != nil && r.History != Fresh {
			t.Errorf("%+v, %v", r, err)
		}
		return r
	}
	var last []byte
	for range 8 {
		turns <- struct{}{}
		auditor, err := filestore.OpenReadOnly(dir)
		if err != nil {
			t.Fatal(err)
		}
		r := verify(auditor, last)
		size, err := auditor.Size(t.Context())
		if r.Size+r.Behind != size || err != nil {
			t.Errorf("%d and %d of %d, %v", r.Size, r.Behind, size, err)
		}
		if err := auditor.Close(); err != nil {
			t.Fatal(err)
		}
		last = verify(w, last).Checkpoint // not r's: a checkpoint is in the directory a moment before the store gives it
	}
	close(turns)
	<-done
	checkpoint()
	if r := verify(w, last); r.Behind != 0 {
		t.Errorf("%d behind the last checkpoint", r.Behind)
	}
}

// TestStoreMemory: a store is verified in the memory that a pack is, whatever the store itself holds.
func TestStoreMemory(t *testing.T) {
	race.Alone(t)
	m := longLog(t, 4_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second one
	runtime.ReadMemStats(&before)
	v := newVerifier(t.Context(), Options{Trust: m.trust})
	if err := v.inStore(m.store); err != nil {
		t.Fatal(err)
	}
	v.second, v.buf, v.text = nil, nil, nil // constant
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(after.HeapAlloc) - float64(before.HeapAlloc) - 128<<10 - float64(32*len(v.report.Erased))
	if held /= float64(v.size()); held > 64 || v.size() < 4_000 {
		t.Errorf("%.1f bytes for each of %d entries are held", held, v.size())
	}
	runtime.KeepAlive(v)
	runtime.KeepAlive(m)
}
