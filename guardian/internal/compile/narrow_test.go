package compile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// whole compiles a stack with overlays over it as one: what Narrow does without reading the stack.
func whole(docs, overlays []contracts.Document) (*Stack, error) {
	loaders := loadAll(docs)
	inStack(loaders)
	loaders = append(loaders, loadOverlays(overlays)...)
	s, err := assemble(loaders)
	if err != nil {
		return nil, err
	}
	return s, refuseUnsatisfiable(loaders, firstOf(s.Tools, false), map[string]bool{})
}

func parsed(t testing.TB, text string) contracts.Document {
	t.Helper()
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: 64}), text)
	return contracts.Document{Name: fmt.Sprint(len(text)), Canonical: tree.Root().Append(nil)}
}

// random are documents of tools that need each other's receipts.
type random struct{ *rand.Rand }

func (r random) pick(list ...string) string { return list[r.IntN(len(list))] }

func (r random) tool() string { return r.pick(`"a"`, `"b"`, `"c"`, `"d"`) }

func (r random) requires() string {
	var list []string
	for i := range r.IntN(3) {
		need := `{"receipt":` + r.tool() + `}`
		if r.IntN(3) == 0 {
			need += `,{"receipt":` + r.tool() + `}`
		}
		list = append(list, fmt.Sprintf(`{"id":"q%d","tools":%s,%s:[%s]%s}`, i, r.tool(), r.pick(`"all"`, `"any"`),
			need,
			r.pick("", "", `,"when":{"caller":"roles","has":"x"}`)))
	}
	return `,"requires":[` + strings.Join(list, ",") + `]`
}

func (r random) layer(layer, name string) string {
	text := fmt.Sprintf(`{"helm":"policy/v1","layer":%q,"name":%q,"version":1`, layer, name) + r.requires()
	if r.IntN(3) == 0 {
		text += `,"rules":[{"id":"r","deny":` + r.tool() + r.pick("", `,"when":{"caller":"roles","has":"x"}`) + `}]`
	}
	if r.IntN(4) == 0 {
		text += `,"only":[` + r.pick(`"a"`, `"a","b"`, `"b","c","d"`) + `]`
	}
	if layer == "P2" && r.IntN(3) == 0 {
		text += `,"for":{"session":"s"}`
	}
	return text + `}`
}

func (r random) bundle() string {
	var tools []string
	for _, name := range []string{"a", "b", "c", "d"} {
		tools = append(tools, `"`+name+`":{"effect":"read","input":{"type":"object","properties":{}}}`)
	}
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"m","version":1},"tools":{` + strings.Join(tools, ",") +
		`},"rules":[{"id":"all","allow":` + r.pick(`["a","b","c","d"]`, `["a","b","c"]`,
		`["a"]`) + `}]` + r.requires() + `}`
}

// wrong is a document that cannot be put over a stack, or no document.
func (r random) wrong(i int) string {
	return r.pick(`{"helm":"policy/v1","layer":"P0","name":"f","version":1}`,
		`{"helm":"policy/v1","layer":"P1","bundle":{"name":"m","version":1},"tools":{},"rules":[]}`,
		`{"helm":"policy/v2","layer":"P2","name":"x"}`, `{"layer":"P2","name":"x"}`,
		`{"helm":"policy/v1","layer":"P2"}`, `{"helm":"policy/v1","layer":"P2","labels":["pii",7],"name":"x"}`,
		`{"helm":"policy/v1","layer":"P2","name":"o`+fmt.Sprint(i/2)+`"}`,
		`{"helm":"policy/v1","layer":"P2","name":"z","only":"none","rules":[{"id":"r","deny":"none"}]}`)
}

// What an overlay cannot do is the same whether the stack below it is read again or shared: no
// requirement becomes one that no call can meet, since its calls may have had the others in a
// session under the wider stack; and the first error is the same, with its place.
func TestNarrowedRequirements(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := random{rand.New(rand.NewPCG(5, 6))}
	refused := map[string]int{}
	for n := 0; n < 4000; n++ {
		docs := []contracts.Document{parsed(t, r.bundle()), parsed(t, r.layer("P0", "f"))}
		if r.IntN(2) == 0 {
			docs = append(docs, parsed(t, r.layer("P2", "o0")))
		}
		s, err := Documents(docs)
		if err != nil {
			continue
		}
		var overlays []contracts.Document
		for i := range r.IntN(4) {
			text := r.layer("P2", fmt.Sprint("p", i))
			if r.IntN(6) == 0 {
				text = r.wrong(i)
			}
			overlays = append(overlays, parsed(t, text))
		}
		w, want := whole(docs, overlays)
		got, err := s.Narrow(overlays)
		if want != nil {
			var e *LoadError
			require.ErrorAs(t, want, &e)
			words := strings.Fields(e.What)
			refused[strings.Join(words[:min(3, len(words))], " ")]++
			require.Equal(t, want, err)
			require.Nil(t, got)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, w.Records, got.Records)
		if i := len(overlays); i > 0 {
			_, err = got.Narrow(overlays[i-1:])
			assert.ErrorContains(t, err, "a second P2 document")
		}
	}
	t.Log(refused)
	for _, what := range []string{"can never be", "layer P0 over", "layer P1 over", "a second P2", "no helm",
		"no name"} {
		assert.GreaterOrEqual(t, refused[what], 10, what)
	}
}

// A stack that is compiled with an overlay may load because of it. It cannot be narrowed.
func TestNarrowRefusedStack(t *testing.T) {
	t.Parallel()
	needs := `{"helm":"policy/v1","layer":"P0","name":"f","version":1,"requires":[{"id":"q","tools":"t","all":[{"receipt":"u"}]}]}`
	docs := []contracts.Document{
		parsed(t,
			`{"helm":"policy/v1","layer":"P1","bundle":{"name":"m","version":1},"tools":{"t":{"effect":"read","input":{"type":"object","properties":{}}},`+
				`"u":{"effect":"read","input":{"type":"object","properties":{}}}},"rules":[{"id":"all","allow":"t"}]}`),
		parsed(t, needs), parsed(t, `{"helm":"policy/v1","layer":"P2","name":"o","only":"u"}`)}
	_, err := Documents(docs[:2])
	require.ErrorContains(t, err, "can never be met")
	s, err := Documents(docs)
	require.NoError(t, err)
	for _, overlays := range [][]contracts.Document{nil, {parsed(t, `{"helm":"policy/v1","layer":"P2","name":"p"}`)}} {
		_, want := whole(docs, overlays)
		_, err = s.Narrow(overlays)
		assert.ErrorContains(t, want, "can never be met")
		assert.Equal(t, want, err)
	}
}
