package evidence

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// TestSameBytes: one store has one pack, and so have two logs of the same keys, clock and calls.
func TestSameBytes(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	first := m.pack()
	if !bytes.Equal(first, m.pack()) {
		t.Error("the same store gave two packs")
	}
	again := baseLog(t)
	again.checkpoint()
	if !bytes.Equal(first, again.pack()) {
		t.Error("the same log gave two packs")
	}
	m.denied(contracts.ReasonToolNotFound, ask{session: "main", tool: "x", args: `{}`}) // after the checkpoint
	if !bytes.Equal(first, m.pack()) {
		t.Error("a pack goes beyond its checkpoint")
	}
	m.checkpoint()
	if bytes.Equal(first, m.pack()) {
		t.Error("a pack does not reach the latest checkpoint")
	}
}

// TestArchiveOfOthers: the standard library reads the archive, and writes the same one.
func TestArchiveOfOthers(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	pack := m.pack()
	var again bytes.Buffer
	w := tar.NewWriter(&again)
	r := tar.NewReader(bytes.NewReader(pack))
	members := 0
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: h.Name, Size: int64(len(b)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		members++
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if members < 20 || !bytes.Equal(again.Bytes(), pack) {
		t.Errorf("package archive/tar writes the %d members otherwise", members)
	}
}

// TestCheckpointOfOthers: package note verifies the checkpoint in a pack.
func TestCheckpointOfOthers(t *testing.T) {
	m := smallLog(t, 0)
	vkey, err := note.NewEd25519VerifierKey(testOrigin, testPublic(t, seedL))
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(untar(t, m.pack())[checkpointMember].body, note.VerifierList(v))
	if err != nil || !strings.HasPrefix(n.Text, testOrigin+"\n6\n") {
		t.Errorf("%v, %v", n, err)
	}
}

// A store that is not as it should be.
type badStore struct {
	proofgraph.Store
	checkpoint func([]byte) []byte
	entries    func(i int, e contracts.Entry) (contracts.Entry, error)
	blob       func(d contracts.Digest, b []byte) ([]byte, error)

	mu    sync.Mutex // of blob, and calls
	calls int
}

func (s *badStore) Checkpoint(ctx context.Context) ([]byte, error) {
	b, err := s.Store.Checkpoint(ctx)
	if s.checkpoint != nil {
		b = s.checkpoint(b)
	}
	return b, err
}

func (s *badStore) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	if s.entries == nil {
		return s.Store.Entries(ctx, from, to)
	}
	return func(yield func(contracts.Entry, error) bool) {
		i := 0
		for e, err := range s.Store.Entries(ctx, from, to) {
			if e, err = s.entries(i, e); e == nil && err == nil {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
			i++
		}
	}
}

func (s *badStore) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	b, err := s.Store.Blob(ctx, d)
	if s.blob != nil && err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls++
		return s.blob(d, b)
	}
	return b, err
}

// A full writer has room for so many bytes.
type fullWriter struct{ room int }

func (w *fullWriter) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

// TestWriteRefuses: a pack that would not verify is not written, and the error says why.
func TestWriteRefuses(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	whole := len(m.pack())
	model := takeApart(t, m.pack())
	doc := document(model)
	inputs := model.the("a1").d()["inputsHash"].(string)
	is := func(d contracts.Digest, name string) bool { return d.String() == name }
	for name, x := range map[string]struct {
		store *badStore
		key   crypto.Signer
		to    io.Writer
		want  string
	}{
		"no checkpoint":    {store: &badStore{checkpoint: func([]byte) []byte { return nil }}, want: "make one with Kernel.Checkpoint"},
		"a bad checkpoint": {store: &badStore{checkpoint: func(b []byte) []byte { return b[1:] }}, want: "the entries are not those of the checkpoint"},
		"no note":          {store: &badStore{checkpoint: func([]byte) []byte { return []byte("x") }}, want: "checkpoint: "},
		"a later one": {store: &badStore{checkpoint: func(b []byte) []byte {
			return lastOf(model, len(model.nodes)+1, [32]byte{}, testOrigin)
		}}, want: "entry 0: proofgraph"},
		"another root": {store: &badStore{checkpoint: func(b []byte) []byte {
			return lastOf(model, len(model.nodes), [32]byte{}, testOrigin)
		}}, want: "the store is damaged"},
		"fewer entries": {store: &badStore{entries: func(i int, e contracts.Entry) (contracts.Entry, error) {
			if i == 7 {
				return nil, nil
			}
			return e, nil
		}}, want: "the store has 7 entries"},
		"no genesis": {store: &badStore{entries: func(i int, e contracts.Entry) (contracts.Entry, error) {
			return contracts.Entry(model.nodes[max(i, 1)].line), nil
		}}, want: "entry 0: proofgraph: index"},
		"a damaged entry": {store: &badStore{entries: func(i int, e contracts.Entry) (contracts.Entry, error) {
			if i == 7 {
				e = append(bytes.Clone(e), ' ')
			}
			return e, nil
		}}, want: "entry 7: contracts: ENCODING"},
		"an unreadable entry": {store: &badStore{entries: func(i int, e contracts.Entry) (contracts.Entry, error) { return e, errDisk }}, want: "the disk is gone"},
		"no document": {store: &badStore{blob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, doc) {
				return nil, proofgraph.ErrNoBlob
			}
			return b, nil
		}}, want: "blob " + doc},
		"no trust state": {store: &badStore{blob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if d == m.trust.Digest() {
				return nil, proofgraph.ErrNoBlob
			}
			return b, nil
		}}, want: "no blob of that digest"},
		"other inputs": {store: &badStore{blob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, inputs) {
				b = append(b, ' ')
			}
			return b, nil
		}}, want: "other content"},
		"fewer bytes of inputs": {store: &badStore{blob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, inputs) {
				b = b[:len(b)-1]
			}
			return b, nil
		}}, want: "other content"},
		"unreadable inputs": {store: &badStore{blob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, inputs) {
				return nil, errDisk
			}
			return b, nil
		}}, want: "the disk is gone"},
		"no key":        {key: nil, want: "signer"},
		"a stranger":    {key: testKey(t, seedX), want: "no kernel key of this log"},
		"the log key":   {key: testKey(t, seedL), want: "no kernel key of this log"},
		"a full disk":   {to: &fullWriter{100}, want: "the disk is gone"},
		"nearly enough": {to: &fullWriter{whole - 1}, want: "the disk is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			if x.store == nil {
				x.store = &badStore{}
			}
			x.store.Store = m.store
			if x.key == nil && name != "no key" {
				x.key = testKey(t, m.by)
			}
			if x.to == nil {
				x.to = io.Discard
			}
			err := Write(t.Context(), x.to, x.store, x.key)
			if err == nil || !strings.HasPrefix(err.Error(), "evidence: write: ") || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
			if strings.Contains(x.want, "disk") && !errors.Is(err, errDisk) {
				t.Error("the cause is lost")
			}
		})
	}
	if err := Write(t.Context(), io.Discard, proofgraph.NewMemory(), testKey(t, seedK1)); err == nil || !strings.Contains(err.Error(), "Checkpoint first") {
		t.Errorf("an empty store: %v", err)
	}
	if err := Write(t.Context(), io.Discard, nil, testKey(t, seedK1)); err == nil {
		t.Error("no store")
	}
	if err := Write(t.Context(), nil, m.store, testKey(t, seedK1)); err == nil {
		t.Error("no writer")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ctx, io.Discard, m.store, testKey(t, seedK1)); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if err := Write(t.Context(), &fullWriter{whole}, m.store, testKey(t, m.by)); err != nil { // or all of the above were refused for nothing
		t.Error(err)
	}
}

// TestErasedWhileWritten: a blob that is erased between the two readings is an error, not a pack without it.
func TestErasedWhileWritten(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	total := -1
	for n := 0; total < 0 || n < total; n++ {
		s := &badStore{Store: m.store}
		s.blob = func(_ contracts.Digest, b []byte) ([]byte, error) {
			if s.calls > n {
				return nil, proofgraph.ErrNoBlob
			}
			return b, nil
		}
		var b bytes.Buffer
		err := Write(t.Context(), &b, s, testKey(t, m.by))
		if total < 0 {
			total = 2*len(untar(t, m.pack())) - 6
		}
		if err == nil {
			if r, verr := verifyBytes(t, b.Bytes(), Options{Trust: m.trust}); verr != nil {
				t.Fatalf("erased after %d reads: %+v, %v", n, r, verr)
			}
		}
	}
	s := &badStore{Store: m.store}
	s.blob = func(_ contracts.Digest, b []byte) ([]byte, error) {
		if s.calls > len(untar(t, m.pack()))-2 {
			return nil, proofgraph.ErrNoBlob
		}
		return b, nil
	}
	if err := Write(t.Context(), io.Discard, s, testKey(t, m.by)); err == nil || !strings.Contains(err.Error(), "write again") {
		t.Errorf("erased in between: %v", err)
	}
}

// TestChangedWhileWritten has each reading of a blob give something else: what is written is what the manifest says, or there is an error.
func TestChangedWhileWritten(t *testing.T) {
	race.Alone(t)
	m := baseLog(t)
	m.checkpoint()
	whole := &badStore{Store: m.store, blob: func(_ contracts.Digest, b []byte) ([]byte, error) { return b, nil }}
	if err := Write(t.Context(), io.Discard, whole, testKey(t, m.by)); err != nil {
		t.Fatal(err)
	}
	readings := whole.calls
	for name, change := range map[string]func(b []byte) []byte{
		"a byte more":  func(b []byte) []byte { return append(b, '\n') },
		"a byte less":  func(b []byte) []byte { return b[:len(b)-1] },
		"another byte": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"nothing":      func([]byte) []byte { return nil },
	} {
		refused, written := 0, 0
		for n := range readings {
			s := &badStore{Store: m.store}
			s.blob = func(_ contracts.Digest, b []byte) ([]byte, error) {
				if s.calls == n+1 {
					return change(b), nil
				}
				return b, nil
			}
			var b bytes.Buffer
			if err := Write(t.Context(), &b, s, testKey(t, m.by)); err != nil {
				refused++
			} else if written++; !bytes.Equal(b.Bytes(), m.pack()) {
				t.Fatalf("%s in reading %d: another pack", name, n)
			}
		}
		if refused < readings/2 || name != "another byte" && written > 0 {
			t.Errorf("%s: %d refused, %d written", name, refused, written)
		}
	}
}
