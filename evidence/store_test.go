package evidence

import (
	"context"
	"encoding/json"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// TestBehind: entries after the checkpoint are counted and not verified.
func TestBehind(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	want, err := VerifyStore(t.Context(), m.Store, Options{Trust: m.Trust})
	require.True(t, err == nil && want.Behind == 0, "%+v, %v", want, err)
	s := forge.Shelve(t, m.Pack(Write))
	s.Lines = append(s.Lines, contracts.Entry("not an entry"), contracts.Entry("another"))
	var never context.Context // which never ends
	got, err := VerifyStore(never, s, Options{Trust: m.Trust})
	want.Behind = 2
	assert.True(t, err == nil && reflect.DeepEqual(got, want), "%+v, %v", got, err)
}

// TestStoreWhileItIsWritten: a log is verified in its directory, and in the store itself, while a
// kernel goes on writing it.
func TestStoreWhileItIsWritten(t *testing.T) {
	t.Parallel()
	policy, err := guardian.Compile(contracts.Document{Name: "files", Canonical: []byte(forge.FilesPolicy(1))})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "log")
	w, err := filestore.Open(dir, filestore.Options{})
	require.NoError(t, err)
	defer w.Close()
	k, err := helm.New(helm.Options{Policy: policy, Key: forge.Key(t, forge.SeedK1), Store: w, Origin: forge.Origin})
	require.NoError(t, err)
	driver := helm.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })
	call := func() {
		k.Guard(t.Context(), helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: forge.Reader,
			Driver: driver})
	}
	checkpoint := func() {
		_, err := k.Checkpoint(t.Context())
		assert.NoError(t, err)
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
		assert.True(t, err == nil && r.Success(Logged) && r.Allows != 0 && (last == nil || r.History == Fresh),
			"%+v, %v", r, err)
		return r
	}
	var last []byte
	for range 8 {
		turns <- struct{}{}
		auditor, err := filestore.OpenReadOnly(dir)
		require.NoError(t, err)
		r := verify(auditor, last)
		size, err := auditor.Size(t.Context())
		assert.True(t, r.Size+r.Behind == size && err == nil, "%d and %d of %d, %v", r.Size, r.Behind, size, err)
		require.NoError(t, auditor.Close())
		// not r's: a checkpoint is in the directory a moment before the store returns it
		last = verify(w, last).Checkpoint
	}
	close(turns)
	<-done
	checkpoint()
	r := verify(w, last)
	assert.Equal(t, uint64(0), r.Behind, "%d behind the last checkpoint", r.Behind)
}

// TestStoreMemory: a store is verified in the memory that a pack is, whatever the store itself
// holds.
func TestStoreMemory(t *testing.T) {
	race.Alone(t)
	m := forge.LongLog(t, 4_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold goes with the second one
	runtime.ReadMemStats(&before)
	v := newVerifier(t.Context(), Options{Trust: m.Trust})
	require.NoError(t, v.inStore(m.Store))
	v.reread.second, v.fold.buf, v.replay.text = nil, nil, nil // constant
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(after.HeapAlloc) - float64(before.HeapAlloc) - 128<<10 - float64(32*len(v.report.Erased))
	if held /= float64(v.fold.size()); held > 64 || v.fold.size() < 4_000 {
		t.Errorf("%.1f bytes for each of %d entries are held", held, v.fold.size())
	}
	runtime.KeepAlive(v)
	runtime.KeepAlive(m)
}
