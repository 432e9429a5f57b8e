package log

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// keep copies the first n entries of a log, with all their blobs, into a store in memory.
func keep(t *testing.T, w *kerneltest.World, n uint64) proofgraph.Store {
	t.Helper()
	m := proofgraph.NewMemory()
	b := proofgraph.Batch{}
	for i := range n {
		b.Entries = append(b.Entries, w.Entry(i))
	}
	b.Blobs = append(b.Blobs, w.Kernel.Trust().Canonical())
	for _, d := range w.Options.Policy.Documents() {
		b.Blobs = append(b.Blobs, d.Canonical)
	}
	require.NoError(t, m.Append(t.Context(), b))
	return m
}

// New refuses a store whose log does not extend the checkpoint that was kept elsewhere, before it
// writes anything.
func TestLastCheckpoint(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	for range 3 {
		w.Call("echo", `{}`)
	}
	old, size := keep(t, w, w.Size()), w.Size()
	last, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, size, last.Size)
	w.Call("echo", `{}`)
	later, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	w.Close()

	fork := kerneltest.New(t, func(o *helm.Options) { o.Store = old })
	fork.Call("echo", `{"text":"another course"}`)
	fork.Close()
	other := kerneltest.New(t)
	for range 4 {
		other.Call("echo", `{}`)
	}
	other.Close()

	lines := strings.SplitAfter(string(last.Note), "\n")
	require.Len(t, lines, 6) // the last is empty
	cosigned := func(line string) []byte { return []byte(strings.Join(lines[:4], "") + line) }
	unknown := "— a.witness " + string(crypto.AppendBase64(nil, make([]byte, 68))) + "\n"
	changed := strings.Replace(lines[4], lines[4][len(lines[4])-8:len(lines[4])-4], "AAAA", 1)
	empty := proofgraph.Checkpoint{Origin: kerneltest.Origin, Root: crypto.Sum(nil)}
	none := []byte(empty.Origin + "\n0\n" + string(crypto.AppendBase64(nil, empty.Root[:])) + "\n\n" + unknown)
	for name, x := range map[string]struct {
		store proofgraph.Store
		last  []byte
		says  string // "" if New goes on
	}{
		"this log, longer":     {w.Store.Store, last.Note, ""},
		"this log":             {w.Store.Store, later.Note, ""},
		"no line of a log key": {w.Store.Store, cosigned(unknown), ""},
		"of an empty log":      {w.Store.Store, none, ""},
		"an older copy":        {keep(t, w, size), later.Note, "an older copy was put back"},
		"an empty store":       {proofgraph.NewMemory(), last.Note, "the store has 0 entries"},
		"a copy that went on":  {old, later.Note, "the store has another history of this log"},
		"another log":          {other.Store.Store, last.Note, "not those of the checkpoint"},
		"an empty file":        {w.Store.Store, []byte{}, "Options.Last: proofgraph: checkpoint"},
		"no checkpoint":        {w.Store.Store, []byte("none\n"), "Options.Last: proofgraph: checkpoint"},
		"of another name": {w.Store.Store,
			[]byte(strings.Replace(string(last.Note), kerneltest.Origin, "b.test", 1)), "the log b.test"},
		"a changed line of the log key": {w.Store.Store, cosigned(changed), "a line of a log key does not verify"},
	} {
		before, err := x.store.Size(t.Context())
		require.NoError(t, err)
		o := w.Options
		o.Store, o.Last = x.store, x.last
		k, err := helm.New(o)
		if x.says == "" {
			require.NoError(t, err, name)
			require.NoError(t, k.Close())
			continue
		}
		assert.ErrorContains(t, err, x.says, name)
		assert.ErrorContains(t, err, "Options.Last: ", name)
		after, err := x.store.Size(t.Context())
		require.NoError(t, err)
		assert.Equal(t, before, after, "%s: something was written", name)
	}
}

// A copy of a log in files that is put back is refused, and with it a second run of what was bound
// by an idempotency key after the copy was made.
func TestCopyPutBack(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "log")
	s, err := filestore.Open(dir, filestore.Options{})
	require.NoError(t, err)
	w := kerneltest.New(t, func(o *helm.Options) { o.Store = s })
	w.Call("echo", `{}`)
	require.NoError(t, s.Copy(t.Context(), filepath.Join(base, "copy")))
	w.Call("echo", `{}`, kerneltest.WithKey("once"))
	last, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	w.Close()
	require.NoError(t, s.Close())

	s, err = filestore.Open(filepath.Join(base, "copy"), filestore.Options{})
	require.NoError(t, err)
	defer s.Close()
	o := w.Options
	o.Store, o.Last = s, last.Note
	_, err = helm.New(o)
	assert.ErrorContains(t, err, "an older copy was put back")
	o.Last = nil // and this is what the option is for
	k, err := helm.New(o)
	require.NoError(t, err)
	defer k.Close()
	runs := w.Runs.Load()
	d, _ := k.Guard(t.Context(), helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s", Idempotency: "once"})
	assert.Equal(t, contracts.ReasonAllow, d.Reason)
	assert.Equal(t, runs+1, w.Runs.Load())
}

// Two kernels over one store in memory would write over each other's entries: the second is refused
// until the first is closed or sealed. One that was refused itself does not count.
func TestTwoKernelsOverOneMemory(t *testing.T) {
	t.Parallel()
	m := proofgraph.NewMemory()
	o := kerneltest.New(t).Options
	o.Store = m
	wrong := o
	wrong.Last = []byte("none")
	_, err := helm.New(wrong)
	require.Error(t, err)
	first, err := helm.New(o)
	require.NoError(t, err)
	_, err = helm.New(o)
	require.ErrorContains(t, err, "another kernel is open over this memory store")
	d, _ := first.Guard(t.Context(), helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s"})
	assert.NoError(t, d.Err(), "the first one goes on")
	require.NoError(t, first.Close())
	wrong = o
	wrong.Key = kerneltest.SeedKey(t, 9)
	_, err = helm.New(wrong)
	require.Error(t, err, "a kernel that reads the log and is refused then")
	key := &kerneltest.FaultySigner{PrivateKey: kerneltest.SeedKey(t, 1)}
	o.Key = key
	second, err := helm.New(o)
	require.NoError(t, err)
	key.FailIn(1)
	d, _ = second.Guard(t.Context(), helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s"})
	assert.ErrorIs(t, d.Err(), helm.ErrDenied)
	o.Key = kerneltest.SeedKey(t, 1)
	third, err := helm.New(o)
	require.NoError(t, err, "over a store whose kernel is sealed")
	require.NoError(t, third.Close())
}
