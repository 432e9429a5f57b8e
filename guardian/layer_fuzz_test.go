package guardian

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/race"
)

// Whatever text is handed in next to a bundle: no panic, an error that points to something in it,
// and no ALLOW of what the bundle denies.
func FuzzLayer(f *testing.F) {
	for _, text := range layerSeeds() {
		f.Add([]byte(text), []byte(`{"to":"ann@corp.com"}`))
	}
	bare := mustCompile(f, house, floor("labels", labelled))
	f.Fuzz(func(t *testing.T, text, args []byte) { layerAndJudge(t, bare, text, string(args)) })
}

func layerSeeds() []string {
	seeds := []string{goodFloor, goodOverlay, floor("f", labelled), overlay("o", ``)}
	for _, rules := range []string{
		`{"id":"a","deny":"mail.*","when":{"caller":"id","in":["ann","bob"],"absent":true}},{"id":"b","deny":"mail.send","when":{"arg":"/sum","gt":5,"absent":false},"unless":{"arg":"/to","suffix":"@corp.com"}}`,
		`{"id":"a","deny":{"egress":true},"unless":{"time":"utc","in":["Mon-Fri ` +
			`06:00-20:00"]}},{"id":"b","deny":"page.get","when":{"arg":"/path","within":["/srv","/etc"]}}`,
		`{"id":"a","deny":"page.get","when":{"all":[{"arg":"/path","prefix":"/a"},{"count":"/deep","gt":2,"absent":false}]}},{"id":"b","deny":"page.get","when":{"arg":"/path","eq":"/ab"}}`,
	} {
		seeds = append(seeds, floor("f", `,"rules":[`+rules+`]`), overlay("o", `,"rules":[`+rules+`]`))
	}
	requires := `,"requires":[{"id":"q","tools":"mail.*","any":[{"approval":{"roles":["owner"]}},{"receipt":"page.get","max_age":"1h"}]},` +
		`{"id":"s","tools":["mail.send"],"when":{"session":"calls","gt":2},"all":[{"receipt":"page.get","same":{"/path":"/to"}},{"attestation":{"type":"x","max_age":"1m","bind":{"a":"/to"}}}]}]`
	knowing := `,"rules":[{"id":"a","deny":"mail.send","unless":{"arg":"/to","from":["user"]}},` +
		`{"id":"b","deny":{"egress":true},"when":{"any":[{"session":"tainted","eq":true},{"session":"labels","has":"web"}]}}]`
	threat := `,"labels":["web"],"threat":{"deny":"medium",` +
		`"except":[{"tools":"mail.send","arg":"/to","signals":["secret"]}],` +
		`"outputs":{"web":["nul"]}}`
	seeds = append(seeds, demanding("f", "s", `"files":{"/tmp":"read"},"env":["A"],`+modules("module")),
		demanding("f", "reported", ``))
	return append(seeds, floor("f", requires+`,"ceilings":{"calls":2}`), overlay("o", requires),
		floor("f", threat+knowing), overlay("o", knowing))
}

// layerAndJudge reports whether the document compiles in a stack with the house, which is bare
// without it.
func layerAndJudge(t *testing.T, bare *Policy, text []byte, args string) bool {
	var tree crypto.Tree
	doc := contracts.Document{Name: "f", Canonical: text}
	if tree.Parse(text, crypto.Limits{Bytes: 1 << 20, Depth: 128}) == nil {
		doc.Canonical = tree.Root().Append(nil)
	}
	p, err := Compile(append(bare.Documents(), doc)...)
	if err != nil {
		var e *LoadError
		require.True(t, errors.As(err, &e) && e.What != "" && p == nil, "%v", err)
		if v := value.Follow(tree.Root(), mustSplit(t, e.Pointer)); e.Document == "f" &&
			tree.Root().Kind() == crypto.Object && v.Kind() == crypto.Missing {
			t.Fatalf("%v points to nothing in\n%s", err, text)
		}
		return false
	}
	if layer := tree.Root().Get("layer").Text(); layer == "P1" {
		return false // a bundle of its own: another test's business
	}
	for _, tool := range []string{"page.get", "mail.send", "mail.wipe", "note.put"} {
		in := inputs(t, tool, args)
		housed("wasi-strict", strict)(&in)
		inPast(t, p, in)
		r, why := p.judgedAlike(in, nil)
		b, _ := bare.judgedAlike(in, nil)
		require.False(t, bool(r.Verdict) && !bool(b.Verdict), "%s: %v without, ALLOW with\n%s", tool, b.Reason, text)
		require.NotContains(t, why.What, "panic", "%s: %s in\n%s", tool, why, text)
		c := r.Reason.Condition()
		require.True(t, (c == r.Condition || c == contracts.AnyCondition) && r.Reason.NamesRule() == (r.Rule != "") &&
			bool(r.Verdict) == (r.Reason == contracts.ReasonAllow), "%s: %+v", tool, r)
	}
	return true
}

// Floors and overlays with a few values, keys or elements replaced, lost or moved.
func TestMutatedLayers(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(51, 52))
	var seeds []any
	for _, text := range layerSeeds() {
		var v any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		seeds = append(seeds, v)
	}
	var pool []any
	var keys []string
	visitAll(seeds, func(v any) {
		pool = append(pool, v)
		if o, ok := v.(map[string]any); ok {
			keys = append(keys, slices.Sorted(maps.Keys(o))...)
		}
	})
	bare, compiled := mustCompile(t, house, floor("labels", labelled)), 0
	for range rounds(5_000) {
		text, err := json.Marshal(mutate(r, seeds[r.IntN(len(seeds))], pool, keys, 1+r.IntN(3)))
		require.NoError(t, err)
		if layerAndJudge(t, bare, text, pick(generator{r}, `{"to":"ann@corp.com"}`, `{"path":"/srv/a"}`,
			`{"to":"a","sum":9}`, `{}`)) {
			compiled++
		}
	}
	assert.True(t, compiled >= rounds(500), "only %d documents compiled", compiled)
}
