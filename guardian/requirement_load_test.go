package guardian

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

const goodRequirement = `{
	"id": "r", "tools": ["pay"], "when": {"arg": "/amount", "gt": 1}, "unless": {"arg": "/to", "in": {"list": "known"}},
	"any": [
		{"approval": {"roles": ["owner", "cfo"], "quorum": 2, "ttl": "15m"}},
		{"attestation": {"type": "seen", "max_age": "5m", "bind": {"payee": "/to", "how": "/kind"}}},
		{"receipt": "look", "max_age": "30m", "same": {"/payee": "/to", "/n": "/amount", "/deep/to": "/kind"}}
	]
}`

// A fault of a requirement is reported at its place, with a remedy.
func TestRequirementRefusals(t *testing.T) {
	t.Parallel()
	mustCompile(t, bankText(goodRequirement, ``)) // or the refusals would prove nothing
	var many []string
	for i := range contracts.MaxRoles + 1 {
		many = append(many, fmt.Sprintf(`"r%d"`, i))
	}
	for _, c := range append(readRefusals(t, "requirement_refusals", 84), refusal{`["owner", "cfo"]`,
		`[` + strings.Join(many, ",") + `]`, "/any/0/approval/roles", "at most 32"}) {
		require.Equal(t, 1, strings.Count(goodRequirement, c.old), "%q is not once in the requirement", c.old)
		e := mustRefuse(t, document(t, "b.yaml", bankText(strings.Replace(goodRequirement, c.old, c.new, 1), ``)))
		assert.True(t, e.Pointer == "/requires/0"+c.at && strings.Contains(e.Error(), c.says) && e.Remedy != "",
			"%s:\n\t%v\n\twant it at %s, saying %s", c.new, e, "/requires/0"+c.at, c.says)
	}
	quantified := bankText(`{"id":"r","tools":["look"],"when":{"every":"/list","that":{"receipt":"look"},"absent":false},"all":[{"receipt":"pay"}]}`, ``)
	e := mustRefuse(t, document(t, "", quantified))
	assert.True(t, e.Pointer == "/requires/0/when/that/receipt" && strings.Contains(e.Error(), "inside every"), "%v", e)
	budget := `,"budgets":[{"id":"r","tools":["pay"],"limit":1,"per":"all","window":"day","cost":1}]`
	if e := mustRefuse(t, document(t, "", bankText(goodRequirement, budget))); e.Pointer != "/budgets/0/id" {
		t.Errorf("a budget of a requirement's id: %v", e)
	}
	other := strings.Replace(bundle("other", toolText("o", ``), `{"id":"a","allow":"o"}`), `"rules"`,
		`"requires":[{"id":"x","tools":["o"],"all":[{"receipt":"pay"}]}],"rules"`, 1)
	if e := mustRefuse(t, document(t, "", bankText(goodRequirement, ``)),
		document(t, "", other)); e.Pointer != "/requires/0/all/0/receipt" ||
		!strings.Contains(e.Error(), "a bundle's rules name its own tools") {
		t.Errorf("another bundle's tool: %v", e)
	}
	mustCompile(t, bankText(``, ``), bundle("other", toolText("o", ``), `{"id":"a","allow":"o"}`),
		floor("f", `,"requires":[{"id":"x","tools":["o"],"all":[{"receipt":"pay"}]}]`))
}

// What is right for the first of several tools is not yet right for the others.
func TestRequirementOfEachTool(t *testing.T) {
	t.Parallel()
	tools := toolText("a", `"to":{"type":"string"}`, "to") + "," + toolText("b", `"to":{"type":"number"}`,
		"to") + "," + toolText("c", ``)
	all := `{"id":"all","allow":["a","b","c"]}`
	for _, c := range []struct{ needs, says string }{
		{`"all":[{"receipt":"a","same":["/to"]}],"when":{"caller":"roles","has":"guest"}`, "and number in one of b"},
		{`"all":[{"receipt":"c"},{"attestation":{"type":"x","max_age":"1m","bind":{"to":"/to"}}}]`,
			`no "/to" in the input of c`},
		{`"all":[{"receipt":"c"}],"when":{"receipt":"a","same":["/to"]}`, "and number in one of b"},
	} {
		for sel, bad := range map[string]bool{`["a"]`: false, `["a","b","c"]`: true, `"*"`: true} {
			text := strings.Replace(bundle("m", tools, all), `"rules"`,
				`"requires":[{"id":"r","tools":`+sel+`,`+c.needs+`}],"rules"`, 1)
			_, err := Compile(document(t, "", text))
			assert.True(t, (err != nil) == bad && (!bad || strings.Contains(err.Error(), c.says)), "%s of %s: %v",
				c.needs, sel, err)
		}
	}
	rule := `{"id":"r","deny":["a","b"],"when":{"receipt":"a","same":["/to"]}},` + all
	if e := mustRefuse(t, document(t, "", bundle("m", tools, rule))); e.Pointer != "/rules/0/when/same/0" {
		t.Errorf("a rule of two tools: %v", e)
	}
}

// Requirements that wait for each other in a circle, or for what is never allowed, are refused with
// the way that they wait.
func TestUnmeetable(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t, "unmeetable", 29, "name", "needs", "old*", "new*", "doc*", "at", "says") {
		docs := []contracts.Document{document(t, "", strings.Replace(bankText(c["needs"], ``), c["old"], c["new"], 1))}
		for _, text := range c.lines("doc") {
			docs = append(docs, document(t, "", text))
		}
		_, err := Compile(docs...)
		if c["says"] == "" {
			assert.NoError(t, err, c["name"])
			continue
		}
		var e *LoadError
		require.ErrorAs(t, err, &e, c["name"])
		assert.Equal(t, c["at"], e.Pointer, "%s: %v", c["name"], e)
		assert.Contains(t, e.Error(), c["says"], c["name"])
		assert.NotEmpty(t, e.Remedy, c["name"])
	}
}

// An overlay that is put over a stack is for some calls of a session: it may have had the others
// that those need.
func TestNarrowedUnmeetable(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bankText(`{"id":"a","tools":["pay"],"all":[{"receipt":"look"}]}`, ``))
	only := overlay("only", `,"only":["pay"]`)
	for name, text := range map[string]string{
		"what the stack needs is left out": only,
		"and denied":                       overlay("o", `,"rules":[{"id":"no","deny":"look"}]`),
		"each other": overlay("o",
			`,"requires":[{"id":"b","tools":["look"],"all":[{"receipt":"pay"}]}]`),
	} {
		n, err := p.Narrow(document(t, "", text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err = n.Narrow(document(t, "", overlay("more", `,"only":["pay","close"]`)))
		assert.NoError(t, err, "%s, and narrowed again", name)
		past := newTold()
		missing4("P1:bank:a").settled(t, name, n, inChat(t, "pay", toBob), nil, past)
		past.ran(t, 1, "look", `{}`, noon) // by the stack that is not narrowed
		allowed.settled(t, name, n, inChat(t, "pay", toBob), nil, past)
	}
	const needs = `,"requires":[{"id":"b","tools":["close"],"all":[{"receipt":"idle"}]}]`
	if _, err := p.Narrow(document(t, "o.yaml", overlay("o", needs))); err == nil ||
		!strings.Contains(err.Error(),
			"o.yaml: /requires/0: can never be met: close needs a receipt of idle, which is never allowed; allow idle") {
		t.Errorf("what no call may have been: %v", err)
	}
}

// Tools in a long line wait for one another, and that is told soon.
func TestStartableIsFast(t *testing.T) {
	t.Parallel()
	const n = 3000
	var tools, rules, requires []string
	for i := range n {
		tools = append(tools, toolText(fmt.Sprintf("t%d", i), ``))
		if i > 0 {
			requires = append(requires, fmt.Sprintf(`{"id":"r%d","tools":["t%d"],"all":[{"receipt":"t%d"}]}`, i, i,
				i-1))
		}
	}
	rules = append(rules, `{"id":"all","allow":["t0"`)
	for i := 1; i < n; i++ {
		rules = append(rules, fmt.Sprintf(`"t%d"`, i))
	}
	text := func(more string) string {
		return strings.Replace(bundle("b", strings.Join(tools, ","), strings.Join(rules, ",")+"]}"), `"rules"`,
			`"requires":[`+strings.Join(requires, ",")+more+`],"rules"`, 1)
	}
	mustCompile(t, text(""))
	e := mustRefuse(t,
		document(t, "", text(fmt.Sprintf(`,{"id":"last","tools":["t0"],"all":[{"receipt":"t%d"}]}`, n-1))))
	assert.True(t, e.Pointer == "/requires/0" && strings.HasSuffix(e.What, "and so on") && len(e.What) <= 400,
		"%d bytes at %s", len(e.What), e.Pointer)
}
