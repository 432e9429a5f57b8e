package evidence

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence/internal/forge"
)

// TestBackTestKnows: a candidate asks what nobody asked then, of texts and facts that were kept,
// and of what its own declarations make of the sessions. What hangs on what was erased is not
// judged.
func TestBackTestKnows(t *testing.T) {
	t.Parallel()
	made := forge.KnowsLog(t)
	pack := made.Pack(Write)
	erased := forge.TakeApart(t, pack)
	for _, n := range erased.Nodes {
		for _, k := range []string{"factsHash", "textHash"} {
			delete(erased.Blobs, n.Text(k))
		}
	}
	change := func(old, now string) string {
		require.Equal(t, 1, strings.Count(forge.KnowsBundle, old), "%s is not once in the bundle", old)
		return strings.Replace(forge.KnowsBundle, old, now, 1)
	}
	for _, x := range []struct {
		name, bundle string
		pack         []byte
		want         string // index, verdict of then and now
		unjudged     int
	}{
		{name: "the same", bundle: change(`"version":1`, `"version":2`)},
		{name: "the same, of what is erased", bundle: change(`"version":1`, `"version":2`), pack: erased.Build(),
			unjudged: 9},
		{name: "another source", bundle: change(`"from":["list#amount"]`, `"from":["user"]`),
			want: "ALLOW DENY note; DENY ALLOW note"},
		{name: "a fact of a receipt", bundle: change(`{"fact":"bags","ge":3}`, `{"fact":"bags","eq":0}`),
			want: "ALLOW DENY cancel; DENY ALLOW cancel"},
		{name: "a tool that is trusted",
			bundle: change(`"labels":["bank"],"trusted":false`, `"labels":["pii"],"trusted":false`),
			want:   "ALLOW DENY mail; ALLOW DENY mail"},
		{name: "a label that is none", bundle: change(`"labels":["pii"],"trusted":true`, `"trusted":true`),
			want: "DENY ALLOW mail; DENY ALLOW mail"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			b := x.pack
			if b == nil {
				b = pack
			}
			var got []string
			d, err := BackTest(t.Context(), strings.NewReader(string(b)), int64(len(b)),
				Options{Trust: made.Trust, Origin: forge.Origin}, forge.Compiled(t, forge.KnowsFloor, x.bundle),
				func(c Change) error {
					got = append(got, fmt.Sprintf("%s %s %s", c.Then.Verdict, c.Now.Verdict, c.Tool))
					return nil
				})
			require.NoError(t, err)
			assert.Equal(t, x.want, strings.Join(got, "; "))
			assert.Len(t, d.Unjudged, x.unjudged)
			assert.Equal(t, uint64(39), d.Judged+uint64(len(d.Unjudged)))
		})
	}
}
