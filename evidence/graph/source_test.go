package graph

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// Wherever a log is, it has the same graph. A pack that changes after it was verified is found out.
func TestSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5).calls(12)
	dir := t.TempDir()
	files, err := filestore.Open(dir, filestore.Options{})
	require.NoError(t, err)
	require.NoError(t, files.Append(t.Context(), proofgraph.Batch{Entries: entries(t, w.store)}))
	require.NoError(t, files.Close())
	read, err := filestore.OpenReadOnly(dir)
	require.NoError(t, err)
	defer read.Close()
	_, err = w.k.Checkpoint(t.Context())
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, evidence.Write(t.Context(), &file, w.store, w.key))
	pack, report, err := evidence.OpenPack(t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()),
		evidence.Options{Trust: w.k.Trust()})
	require.NoError(t, err)
	require.True(t, report.Success(evidence.Logged), "%v", report)
	var want []byte
	for name, s := range map[string]Source{"memory": w.store, "files": read, "a pack": pack} {
		g, err := Read(t.Context(), s)
		require.NoError(t, err)
		var out bytes.Buffer
		for _, set := range []Set{g.All(), g.Ancestors(g.Size()-1, Causes), g.Descendants(g.Size()/2, Causes)} {
			require.NoError(t, g.WriteJSON(t.Context(), &out, set))
			require.NoError(t, g.WriteDOT(t.Context(), &out, set))
		}
		if want == nil {
			want = out.Bytes()
		}
		assert.True(t, bytes.Equal(out.Bytes(), want) && len(want) >= 10_000, "%s: another graph", name)
	}
	g, err := Read(t.Context(), pack)
	require.NoError(t, err)
	clear(file.Bytes())
	assert.ErrorIs(t, g.WriteDOT(t.Context(), io.Discard, g.All()), evidence.ErrArchive, "of a pack that was changed")
}

// Many may ask and write at once.
func TestTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5).calls(8)
	g, err := Read(t.Context(), w.store)
	require.NoError(t, err)
	ask := func() string {
		var out bytes.Buffer
		for i := range g.Size() {
			name := fmt.Sprint(i)
			found, err := g.Find(name)
			assert.True(t, found == i && err == nil, "%s is %d, %v", name, found, err)
			fmt.Fprintln(&out, g.Ancestors(i, Causes).Len(), g.Descendants(i, Links).Len(), g.Path(i, 0, Links).Len())
		}
		assert.NoError(t, errors.Join(g.WriteDOT(t.Context(), &out, g.All()),
			g.WriteJSON(t.Context(), &out, g.Ancestors(g.Size()-1, Links))))
		return out.String()
	}
	want := ask()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			assert.Equal(t, want, ask(), "another answer")
		})
	}
	all.Wait()
}
