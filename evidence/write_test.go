package evidence

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// TestSameBytes: one store has one pack, and so have two logs of the same keys, clock and calls.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	first := m.Pack(Write)
	assert.True(t, bytes.Equal(first, m.Pack(Write)), "the same store gave two packs")
	again := forge.BaseLog(t)
	again.Checkpoint()
	assert.True(t, bytes.Equal(first, again.Pack(Write)), "the same log gave two packs")
	m.Denied(contracts.ReasonToolNotFound, forge.Ask{Session: "main", Tool: "x", Args: `{}`}) // after the checkpoint
	assert.True(t, bytes.Equal(first, m.Pack(Write)), "a pack goes beyond its checkpoint")
	m.Checkpoint()
	assert.False(t, bytes.Equal(first, m.Pack(Write)), "a pack does not reach the latest checkpoint")
}

// TestArchiveOfOthers: the standard library reads the archive, and writes the same one.
func TestArchiveOfOthers(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	pack := m.Pack(Write)
	var again bytes.Buffer
	w := tar.NewWriter(&again)
	r := tar.NewReader(bytes.NewReader(pack))
	members := 0
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t,
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: h.Name, Size: int64(len(b)), Mode: 0o644,
				Format: tar.FormatUSTAR}))
		_, err = w.Write(b)
		require.NoError(t, err)
		members++
	}
	require.NoError(t, w.Close())
	assert.True(t, members >= 20 && bytes.Equal(again.Bytes(), pack),
		"package archive/tar writes the %d members otherwise", members)
}

// TestCheckpointOfOthers: package note verifies the checkpoint in a pack.
func TestCheckpointOfOthers(t *testing.T) {
	t.Parallel()
	m := forge.SmallLog(t, 0)
	vkey, err := note.NewEd25519VerifierKey(forge.Origin, forge.Public(t, forge.SeedL))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	n, err := note.Open(forge.Untar(t, m.Pack(Write))[forge.CheckpointAt].Body, note.VerifierList(v))
	assert.True(t, err == nil && strings.HasPrefix(n.Text, forge.Origin+"\n6\n"), "%v, %v", n, err)
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
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	whole := len(m.Pack(Write))
	model := forge.TakeApart(t, m.Pack(Write))
	doc := forge.Document(model)
	inputs := model.The("a1").D()["inputsHash"].(string)
	is := func(d contracts.Digest, name string) bool { return d.String() == name }
	readings := 0 // of entry 7
	for name, x := range map[string]struct {
		store *forge.FaultyStore
		key   crypto.Signer
		to    io.Writer
		want  string
	}{
		"no checkpoint": {store: &forge.FaultyStore{OnCheckpoint: func([]byte) []byte { return nil }},
			want: "make one with Kernel.Checkpoint"},
		"a bad checkpoint": {store: &forge.FaultyStore{OnCheckpoint: func(b []byte) []byte { return b[1:] }},
			want: "the entries are not those of the checkpoint"},
		"no note": {store: &forge.FaultyStore{OnCheckpoint: func([]byte) []byte { return []byte("x") }},
			want: "checkpoint: "},
		"a later one": {store: &forge.FaultyStore{OnCheckpoint: func(b []byte) []byte {
			return forge.LastOf(model, len(model.Nodes)+1, [32]byte{}, forge.Origin)
		}}, want: "entry 0: proofgraph"},
		"another root": {store: &forge.FaultyStore{OnCheckpoint: func(b []byte) []byte {
			return forge.LastOf(model, len(model.Nodes), [32]byte{}, forge.Origin)
		}}, want: "the store is damaged"},
		"fewer entries": {store: &forge.FaultyStore{OnEntry: func(i int, e contracts.Entry) (contracts.Entry, error) {
			if i == 7 {
				return nil, nil
			}
			return e, nil
		}}, want: "the store has 7 entries"},
		"no genesis": {store: &forge.FaultyStore{OnEntry: func(i int, e contracts.Entry) (contracts.Entry, error) {
			return contracts.Entry(model.Nodes[max(i, 1)].Line), nil
		}}, want: "entry 0: proofgraph: index"},
		"a damaged entry": {store: &forge.FaultyStore{OnEntry: func(i int, e contracts.Entry) (contracts.Entry, error) {
			if i == 7 {
				e = append(bytes.Clone(e), ' ')
			}
			return e, nil
		}}, want: "entry 7: contracts: ENCODING"},
		"another entry the second time": {store: &forge.FaultyStore{
			OnEntry: func(i int, e contracts.Entry) (contracts.Entry, error) {
				if i == 7 {
					readings++
				}
				if i == 7 && readings == 2 {
					e = append(bytes.Clone(e), ' ')
				}
				return e, nil
			}}, want: "changed below its checkpoint"},
		"an unreadable entry": {store: &forge.FaultyStore{
			OnEntry: func(_ int, e contracts.Entry) (contracts.Entry, error) { return e, errDisk },
		}, want: "the disk is gone"},
		"no document": {store: &forge.FaultyStore{OnBlob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, doc) {
				return nil, proofgraph.ErrNoBlob
			}
			return b, nil
		}}, want: "blob " + doc},
		"no trust state": {store: &forge.FaultyStore{OnBlob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if d == m.Trust.Digest() {
				return nil, proofgraph.ErrNoBlob
			}
			return b, nil
		}}, want: "no blob of that digest"},
		"other inputs": {store: &forge.FaultyStore{OnBlob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, inputs) {
				b = append(b, ' ')
			}
			return b, nil
		}}, want: "other content"},
		"fewer bytes of inputs": {store: &forge.FaultyStore{OnBlob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, inputs) {
				b = b[:len(b)-1]
			}
			return b, nil
		}}, want: "other content"},
		"unreadable inputs": {store: &forge.FaultyStore{OnBlob: func(d contracts.Digest, b []byte) ([]byte, error) {
			if is(d, inputs) {
				return nil, errDisk
			}
			return b, nil
		}}, want: "the disk is gone"},
		"no key":        {key: nil, want: "signer"},
		"a stranger":    {key: forge.Key(t, forge.SeedX), want: "no kernel key of this log"},
		"the log key":   {key: forge.Key(t, forge.SeedL), want: "no kernel key of this log"},
		"a full disk":   {to: &fullWriter{100}, want: "the disk is gone"},
		"nearly enough": {to: &fullWriter{whole - 1}, want: "the disk is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			if x.store == nil {
				x.store = &forge.FaultyStore{}
			}
			x.store.Store = m.Store
			if x.key == nil && name != "no key" {
				x.key = forge.Key(t, m.By)
			}
			if x.to == nil {
				x.to = io.Discard
			}
			err := Write(t.Context(), x.to, x.store, x.key)
			assert.True(t, err != nil && strings.HasPrefix(err.Error(), "evidence: write: ") &&
				strings.Contains(err.Error(), x.want), "%v, want %q", err, x.want)
			assert.False(t, strings.Contains(x.want, "disk") && !errors.Is(err, errDisk), "the cause is lost")
		})
	}
	err := Write(t.Context(), io.Discard, proofgraph.NewMemory(), forge.Key(t, forge.SeedK1))
	assert.True(t, err != nil && strings.Contains(err.Error(), "Checkpoint first"), "an empty store: %v", err)
	assert.Error(t, Write(t.Context(), io.Discard, nil, forge.Key(t, forge.SeedK1)), "no store")
	assert.Error(t, Write(t.Context(), nil, m.Store, forge.Key(t, forge.SeedK1)), "no writer")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, Write(ctx, io.Discard, m.Store, forge.Key(t, forge.SeedK1)), context.Canceled, "an ended context")
	// or all of the above were refused for nothing
	assert.NoError(t, Write(t.Context(), &fullWriter{whole}, m.Store, forge.Key(t, m.By)))
}

// TestErasedWhileWritten: a blob that is erased between the two readings is an error, not a pack
// without it.
func TestErasedWhileWritten(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	total := -1
	for n := 0; total < 0 || n < total; n++ {
		s := &forge.FaultyStore{Store: m.Store}
		s.OnBlob = func(_ contracts.Digest, b []byte) ([]byte, error) {
			if s.Calls > n {
				return nil, proofgraph.ErrNoBlob
			}
			return b, nil
		}
		var b bytes.Buffer
		err := Write(t.Context(), &b, s, forge.Key(t, m.By))
		if total < 0 {
			total = 2*len(forge.Untar(t, m.Pack(Write))) - 6
		}
		if err == nil {
			r, verr := verifyBytes(t, b.Bytes(), Options{Trust: m.Trust})
			require.NoError(t, verr, "erased after %d reads: %+v", n, r)
		}
	}
	s := &forge.FaultyStore{Store: m.Store}
	s.OnBlob = func(_ contracts.Digest, b []byte) ([]byte, error) {
		if s.Calls > len(forge.Untar(t, m.Pack(Write)))-2 {
			return nil, proofgraph.ErrNoBlob
		}
		return b, nil
	}
	err := Write(t.Context(), io.Discard, s, forge.Key(t, m.By))
	assert.True(t, err != nil && strings.Contains(err.Error(), "write again"), "erased in between: %v", err)
}

// TestChangedWhileWritten has each reading of a blob give something else: what is written is what
// the manifest says, or there is an error.
func TestChangedWhileWritten(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m := forge.BaseLog(t)
	m.Checkpoint()
	whole := &forge.FaultyStore{Store: m.Store,
		OnBlob: func(_ contracts.Digest, b []byte) ([]byte, error) { return b, nil }}
	require.NoError(t, Write(t.Context(), io.Discard, whole, forge.Key(t, m.By)))
	readings := whole.Calls
	for name, change := range map[string]func(b []byte) []byte{
		"a byte more":  func(b []byte) []byte { return append(b, '\n') },
		"a byte less":  func(b []byte) []byte { return b[:len(b)-1] },
		"another byte": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"nothing":      func([]byte) []byte { return nil },
	} {
		refused, written := 0, 0
		for n := range readings {
			s := &forge.FaultyStore{Store: m.Store}
			s.OnBlob = func(_ contracts.Digest, b []byte) ([]byte, error) {
				if s.Calls == n+1 {
					return change(b), nil
				}
				return b, nil
			}
			var b bytes.Buffer
			if err := Write(t.Context(), &b, s, forge.Key(t, m.By)); err != nil {
				refused++
			} else if written++; !bytes.Equal(b.Bytes(), m.Pack(Write)) {
				t.Fatalf("%s in reading %d: another pack", name, n)
			}
		}
		assert.True(t, refused >= readings/2 && (name == "another byte" || written <= 0), "%s: %d refused, %d written",
			name, refused, written)
	}
}
