package graph

import (
	"bytes"
	"testing"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// Wherever a log is, it has the same graph.
func TestSources(t *testing.T) {
	w := newWorld(t, 5).calls(12)
	dir := t.TempDir()
	files, err := filestore.Open(dir, filestore.Options{})
	must(t, err)
	must(t, files.Append(t.Context(), proofgraph.Batch{Entries: entries(t, w.store)}))
	must(t, files.Close())
	read, err := filestore.OpenReadOnly(dir)
	must(t, err)
	defer read.Close()
	var want []byte
	for name, s := range map[string]Source{"memory": w.store, "files": read} {
		g, err := Read(t.Context(), s)
		must(t, err)
		var out bytes.Buffer
		for _, set := range []Set{g.All(), g.Ancestors(g.Size()-1, Causes), g.Descendants(g.Size()/2, Causes)} {
			must(t, g.WriteJSON(t.Context(), &out, set))
			must(t, g.WriteDOT(t.Context(), &out, set))
		}
		if want == nil {
			want = out.Bytes()
		}
		if !bytes.Equal(out.Bytes(), want) || len(want) < 10_000 {
			t.Errorf("%s: another graph", name)
		}
	}
}
