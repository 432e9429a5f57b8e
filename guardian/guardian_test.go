package guardian

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// noon is a Wednesday.
var noon = contracts.TimeOf(time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC))

// canonical returns JSON text in canonical form.
func canonical(t testing.TB, text string) []byte {
	t.Helper()
	var tree crypto.Tree
	if err := tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 28, Depth: 128}); err != nil {
		t.Fatalf("the test's own JSON: %v\n%s", err, text)
	}
	return tree.Root().Append(nil)
}

func document(t testing.TB, name, text string) contracts.Document {
	t.Helper()
	return contracts.Document{Name: name, Canonical: canonical(t, text)}
}

func mustCompile(t testing.TB, texts ...string) *Policy {
	t.Helper()
	var docs []contracts.Document
	for _, text := range texts {
		docs = append(docs, document(t, "", text))
	}
	p, err := Compile(docs...)
	require.NoError(t, err, "Compile")
	return p
}

// bundle is a document of one bundle. tools and rules are the insides of an object and of a list.
func bundle(name, tools, rules string) string {
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"` + name + `","version":1},"tools":{` + tools +
		`},"rules":[` + rules + `]}`
}

// tool is a read tool with input of these properties, of which the listed ones are required.
func toolText(name, properties string, required ...string) string {
	list, _ := json.Marshal(append([]string{}, required...))
	return `"` + name + `":{"effect":"read","input":{"type":"object","properties":{` + properties + `},"required":` +
		string(list) + `}}`
}

// atLeast checks that a random test has met each of these kinds n times.
func atLeast[K comparable](t testing.TB, seen map[K]int, n int, kinds []K) {
	t.Helper()
	for _, k := range kinds {
		assert.True(t, seen[k] >= n, "only %d of %v in %v", seen[k], k, seen)
	}
}

// rounds returns n or, in a short run, a fifth of it.
func rounds(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

// inputs are those of a call by clerk ann of acme, at noon, with one driver bound.
func inputs(t testing.TB, tool, args string) contracts.Inputs {
	t.Helper()
	in := contracts.Inputs{
		Caller: contracts.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk", "editor"}}, Drivers: 1,
		Session: "main", Time: noon, Tool: tool,
	}
	tree := new(crypto.Tree)
	form, err := tree.ParseArgs(nil, []byte(args))
	if err != nil {
		in.ArgsForm = "raw"
		in.ArgsHash = crypto.Sum([]byte(args))
		return in
	}
	in.Args, in.ArgsHash = tree.Root(), crypto.Sum(form)
	return in
}

// want says how a call must end.
type want struct {
	reason    contracts.ReasonCode
	condition int
	rule      string
}

func (w want) check(t testing.TB, p *Policy, in contracts.Inputs) (contracts.DecisionRecord, Why) {
	t.Helper()
	r, why := p.judgedAlike(in, nil)
	got := want{r.Reason, r.Condition, r.Rule}
	assert.Equal(t, w, got, "%s: got %v, want %v (%s)", in.Tool, got, w, why)
	assert.Equal(t, w.reason == contracts.ReasonAllow, bool(r.Verdict), "%s: verdict %v with reason %v", in.Tool,
		r.Verdict, r.Reason)
	assert.False(t, r.Verdict == contracts.Deny && why.What == "", "%s: %v without Why", in.Tool, r.Reason)
	return r, why
}

// mustRefuse compiles what must not compile, and returns the error.
func mustRefuse(t testing.TB, docs ...contracts.Document) *LoadError {
	t.Helper()
	p, err := Compile(docs...)
	var e *LoadError
	require.ErrorAs(t, err, &e, "Compile gave %v, want a LoadError", err)
	assert.Nil(t, p, "a policy beside the error")
	assert.NotEqual(t, "", e.What, "%v says nothing", e)
	return e
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		assert.Contains(t, text, part, "%q does not say", text)
	}
}
