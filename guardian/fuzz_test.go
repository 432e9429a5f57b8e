package guardian

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/race"
)

// Whatever text is handed in as a document, and whatever as arguments: no panic, an error that says
// where, and no ALLOW unless a rule of the document allows that very tool.
func FuzzCompileAndJudge(f *testing.F) {
	for _, text := range []string{good, office, late} {
		f.Add([]byte(text), []byte(`{"path":"/srv/data/a"}`))
		f.Add([]byte(strings.ReplaceAll(text, `"allow"`, `"deny"`)), []byte(`{"path":"/srv/data/a"}`))
	}
	f.Add([]byte(bankText(goodRequirement, ``)), []byte(toBob))
	for _, text := range knowingSeeds() {
		f.Add([]byte(text), []byte(payBob))
	}
	f.Add([]byte(goodBoxes), []byte(`{}`))
	f.Add([]byte(boxed(`"s":{`+demanded+modules("module")+`}`, "s")), []byte(`{}`))
	for _, c := range readOperators(f) {
		for v := range c.answers {
			f.Add([]byte(around(c.schema, `{"id":"x","allow":"t","when":`+c.pred+`}`)), []byte(argsWith(v)))
			break
		}
	}
	f.Fuzz(func(t *testing.T, text, args []byte) { compileAndJudge(t, text, string(args)) })
}

// knowingSeeds are bundles that ask what a session knows: sources, facts, marks and signals.
func knowingSeeds() []string {
	const from = `{"arg":"/to","from":["user","look#to","look#all"]}`
	return []string{
		payee(`{"id":"d","deny":"pay","unless":{"any":[`+from+`,{"every":"/cc","that":{"from":["book#name"]}}]}},`,
			`{"id":"q","tools":"pay","unless":`+from+`,"all":[{"receipt":"look","that":{"fact":"to","eq":{"arg":"/to"}}}]}`,
			`{"id":"b","tools":"pay","limit":9,"per":"all","window":"day","cost":1,"unless":`+from+`}`),
		payee(`{"id":"t","deny":"pay","when":{"session":"tainted","eq":true}},`+
			`{"id":"l","deny":"pay","when":{"all":[{"session":"labels","has":"pii"},{"receipt":"look","same":["/id"],`+
			`"that":{"all":[{"every":"/cc","that":{"in":{"fact":"all"}}},{"fact":"count","ge":2}]}}]}},`, ``, ``),
		vaultWith(`{"deny":"medium","except":[{"arg":"/list/*/text","signals":["control"]}],` +
			`"outputs":{"suspect":["instruction"]}}`),
	}
}

// compileAndJudge reports whether the document compiles.
func compileAndJudge(t *testing.T, text []byte, args string) bool {
	var tree crypto.Tree
	doc := contracts.Document{Name: "f", Canonical: text}
	if tree.Parse(text, crypto.Limits{Bytes: 1 << 20, Depth: 128}) == nil {
		doc.Canonical = tree.Root().Append(nil)
	}
	p, err := Compile(doc)
	if err != nil {
		var e *LoadError
		require.True(t, errors.As(err, &e) && e.What != "" && p == nil, "%v", err)
		if v := value.Follow(tree.Root(), mustSplit(t, e.Pointer)); tree.Root().Kind() == crypto.Object &&
			v.Kind() == crypto.Missing {
			t.Fatalf("%v points to nothing in\n%s", err, text)
		}
		return false
	}
	root := tree.Root()
	for it := root.Get("tools").Iter(); it.Next(); {
		name := string(it.Key())
		in := inputs(t, name, args)
		housed("any", strict)(&in)
		r, why := p.judgedAlike(in, nil)
		again, whyAgain := p.judgedAlike(in, nil)
		require.True(t, reflect.DeepEqual(r, again) && reflect.DeepEqual(why, whyAgain), "%s: %v, then %v", name,
			r.Reason, again.Reason)
		inPast(t, p, in)
		require.NotContains(t, why.What, "panic", "%s: %s in\n%s", name, why, text)
		c := r.Reason.Condition()
		require.True(t, (c == r.Condition || c == contracts.AnyCondition) && r.Reason.NamesRule() == (r.Rule != "") &&
			bool(r.Verdict) == (r.Reason == contracts.ReasonAllow), "%s: %+v", name, r)
		require.False(t, r.Verdict == contracts.Allow && !allows(root, r.Rule, name), "%s is allowed by %s in\n%s",
			name, r.Rule, text)
	}
	return true
}

// Documents with a few values, keys or elements replaced, lost or moved, which a mutation of bytes
// seldom makes.
func TestMutatedDocuments(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(21, 22))
	var seeds []any
	add := func(text string) {
		var v any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		seeds = append(seeds, v)
	}
	add(good)
	add(office)
	add(goodBoxes)
	add(boxed(`"s":{"files":{"/tmp":"write"},`+modules("module", "other")+`},"w":{"clock":"real","gas":1e10}`, "s"))
	add(bankText(goodRequirement,
		`,"budgets":[{"id":"b","tools":["pay"],"limit":9,"per":"session","window":"total","cost":1,"unless":{"receipt":"look","same":{"/payee":"/to"}}}]`))
	add(bankText(`{"id":"x","tools":["look"],"when":{"session":"calls","of":"pay","le":3},"all":[{"receipt":"pay","max_age":"1h"},{"approval":{"roles":["owner"]}}]}`, ``))
	for _, text := range knowingSeeds() {
		add(text)
	}
	for _, c := range readOperators(t) {
		add(around(c.schema, `{"id":"x","allow":"t","when":`+c.pred+`}`))
	}
	var pool []any // every value of every seed
	var keys []string
	visitAll(seeds, func(v any) {
		pool = append(pool, v)
		if o, ok := v.(map[string]any); ok {
			keys = append(keys, slices.Sorted(maps.Keys(o))...)
		}
	})
	compiled := 0
	for range rounds(8_000) {
		doc := mutate(r, seeds[r.IntN(len(seeds))], pool, keys, 1+r.IntN(3))
		text, err := json.Marshal(doc)
		require.NoError(t, err)
		if compileAndJudge(t, text, pick(generator{r}, argsWith(`"a"`), argsWith(`"a"`), toBob, payBob)) {
			compiled++
		}
	}
	assert.True(t, compiled >= rounds(500), "only %d documents compiled", compiled)
}

// inPast judges a call in a session that has a past, and again from what that left in the inputs.
func inPast(t *testing.T, p *Policy, in contracts.Inputs) {
	t.Helper()
	in.Session = "chat"
	past := newKnowing(t)
	past.texts, past.tainted, past.labels = []string{"pay bob", "read /srv/a"}, true, []string{"pii"}
	for n, tool := range []string{"look", "pay", "page.get"} {
		past.looked(n, tool, `{"amount":5,"id":7,"path":"/srv/a","payee":"bob"}`, lookedAt, noon)
	}
	r, _ := judgeBy(p, &in, nil, past)
	again, _ := p.judgedAlike(in, nil)
	require.Equal(t, string(r.Append(nil)), string(again.Append(nil)), "%s: %s, then %s", in.Tool, r.Append(nil),
		again.Append(nil))
}

func visitAll(v any, visit func(any)) {
	visit(v)
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			visitAll(v[k], visit)
		}
	case []any:
		for _, e := range v {
			visitAll(e, visit)
		}
	}
}

// mutate copies v with about that many changes below it.
func mutate(r *rand.Rand, v any, pool []any, keys []string, changes int) any {
	size := 0
	visitAll(v, func(any) { size++ })
	var copied func(any) any
	copied = func(v any) any {
		if r.IntN(size) < changes {
			return pool[r.IntN(len(pool))]
		}
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				e := copied(v[k])
				switch {
				case r.IntN(2*size) < changes: // lost
				case r.IntN(2*size) < changes:
					out[keys[r.IntN(len(keys))]] = e
				default:
					out[k] = e
				}
			}
			return out
		case []any:
			out := []any{}
			for _, e := range v {
				if r.IntN(2*size) >= changes {
					out = append(out, copied(e))
				}
			}
			return out
		}
		return v
	}
	return copied(v)
}

func mustSplit(t *testing.T, pointer string) []string {
	segments, ok := value.SplitPointer(pointer)
	require.True(t, ok, "%q is no pointer", pointer)
	return segments
}

// allows reports whether the document has a rule of that name that allows the tool.
func allows(root crypto.Value, name, tool string) bool {
	for r := range root.Get("rules").Elements() {
		if !strings.HasSuffix(name, ":"+r.Get("id").Text()) {
			continue
		}
		if a := r.Get("allow"); a.Text() == tool {
			return true
		} else if bytes.Contains(a.Append(nil), []byte(tool)) {
			return true
		}
	}
	return false
}
