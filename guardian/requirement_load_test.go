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
	receipt := `{"receipt": "look", "max_age": "30m", "same": {"/payee": "/to", "/n": "/amount", "/deep/to": "/kind"}}`
	approval := `{"approval": {"roles": ["owner", "cfo"], "quorum": 2, "ttl": "15m"}}`
	var many []string
	for i := range contracts.MaxRoles + 1 {
		many = append(many, fmt.Sprintf(`"r%d"`, i))
	}
	for _, c := range []struct{ old, new, at, says string }{
		{`"id": "r", `, ``, "", "no id"},
		{`"id": "r"`, `"id": "dear"`, "/id", "second rule"},
		{`"id": "r"`, `"id": "only"`, "/id", "reserved"},
		{`"tools": ["pay"], `, ``, "", "no tools"},
		{`["pay"]`, `["pya"]`, "/tools/0", "did you mean pay?"},
		{`["pay"]`, `{"effects": ["write"]}`, "/tools", "name the tools"},
		{`["pay"]`, `["x*"]`, "/tools/0", "covers no tool"},
		{`"when"`, `"if"`, "/if", "unknown key"},
		{`"when"`, `"requires"`, "/requires", "unknown key"},
		{`"any"`, `"some"`, "/some", "unknown key"},
		{`"any": [`, `"all": [{"receipt": "look"}], "any": [`, "", "neither or both"},
		{"\"any\": [\n\t\t" + approval + ",\n\t\t" +
			`{"attestation": {"type": "seen", "max_age": "5m", "bind": {"payee": "/to", "how": "/kind"}}}` + ",\n\t\t" +
			receipt + "\n\t]", `"any": []`, "/any", "a list of 0"},
		{"\"any\": [\n\t\t" + approval + ",\n\t\t" +
			`{"attestation": {"type": "seen", "max_age": "5m", "bind": {"payee": "/to", "how": "/kind"}}}` + ",\n\t\t" +
			receipt + "\n\t]", `"any": ` + approval, "/any", "not a list"},
		{approval, `{}`, "/any/0", "approval, attestation, receipt"},
		{approval, `"owner"`, "/any/0", "not an object"},
		{approval, `{"aproval": {"roles": ["owner"]}}`, "/any/0/aproval", "did you mean approval?"},
		{approval, `{"arg": "/to", "eq": "bob"}`, "/any/0/arg", "approval, attestation, receipt"},
		{approval, `{"all": [{"receipt": "look"}]}`, "/any/0/all", "approval, attestation, receipt"},
		{approval, `{"not": {"receipt": "look"}}`, "/any/0/not", "approval, attestation, receipt"},
		{approval, `{"approval": {"roles": ["owner"]}, "attestation": {"type": "x", "max_age": "1m"}}`,
			"/any/0/attestation", "write approval alone"},
		{approval, `{"approval": {"roles": ["owner"]}, "receipt": "look"}`, "/any/0/approval", "unknown key"},
		{approval, `{"approval": null}`, "/any/0/approval", "not an object"},
		{approval, `{"approval": ["owner"]}`, "/any/0/approval", "not an object"},
		{`"roles": ["owner", "cfo"], `, ``, "/any/0/approval", "no roles"},
		{`["owner", "cfo"]`, `[]`, "/any/0/approval/roles", "a list of 0"},
		{`["owner", "cfo"]`, `"owner"`, "/any/0/approval/roles", "not a list"},
		{`["owner", "cfo"]`, `["owner", "owner"]`, "/any/0/approval/roles/1", "twice"},
		{`["owner", "cfo"]`, `["owner", 5]`, "/any/0/approval/roles/1", "quote it"},
		{`["owner", "cfo"]`, `["owner", ""]`, "/any/0/approval/roles/1", "1 to 64 bytes"},
		{`["owner", "cfo"]`, `[` + strings.Join(many, ",") + `]`, "/any/0/approval/roles", "at most 32"},
		{`"quorum": 2`, `"quorum": 0`, "/any/0/approval/quorum", "from 1 to 16"},
		{`"quorum": 2`, `"quorum": 17`, "/any/0/approval/quorum", "from 1 to 16"},
		{`"quorum": 2`, `"quorum": 1.5`, "/any/0/approval/quorum", "from 1 to 16"},
		{`"quorum": 2`, `"quorum": "2"`, "/any/0/approval/quorum", "from 1 to 16"},
		{`"quorum": 2`, `"count": 2`, "/any/0/approval/count", "unknown key"},
		{`"15m"`, `15`, "/any/0/approval/ttl", "a number is no duration"},
		{`"15m"`, `"0m"`, "/any/0/approval/ttl", "no duration"},
		{`"15m"`, `"15"`, "/any/0/approval/ttl", "no duration"},
		{`"type": "seen", `, ``, "/any/1/attestation", "no type"},
		{`"seen"`, `""`, "/any/1/attestation/type", "1 to 128"},
		{`"seen"`, `null`, "/any/1/attestation/type", "null"},
		{`"max_age": "5m", `, ``, "/any/1/attestation", "no max_age"},
		{`"5m"`, `"soon"`, "/any/1/attestation/max_age", "no duration"},
		{`{"payee": "/to", "how": "/kind"}`, `{}`, "/any/1/attestation/bind", "binds nothing"},
		{`{"payee": "/to", "how": "/kind"}`, `["/to"]`, "/any/1/attestation/bind", "not an object"},
		{`{"payee": "/to", "how": "/kind"}`, `{"payee": "/too"}`, "/any/1/attestation/bind/payee", "no \"/too\""},
		{`{"payee": "/to", "how": "/kind"}`, `{"payee": "/note"}`, "/any/1/attestation/bind/payee",
			"may be missing or null"},
		{`{"payee": "/to", "how": "/kind"}`, `{"payee": 5}`, "/any/1/attestation/bind/payee", "quote it"},
		{`{"receipt": "look"`, `{"receipt": "lok"`, "/any/2/receipt", "did you mean look?"},
		{`{"receipt": "look"`, `{"receipt": "l*"`, "/any/2/receipt", "no tool"},
		{`{"receipt": "look"`, `{"receipt": ["look"]`, "/any/2/receipt", "an array"},
		{`"max_age": "30m", `, `"max_age": "30", `, "/any/2/max_age", "no duration"},
		{`"max_age": "30m", `, `"age": "30m", `, "/any/2/age", "unknown key"},
		{`"max_age": "30m", `, `"absent": false, `, "/any/2/absent", "unknown key"},
		{`"max_age": "30m", `, `"that": {"fact": "x", "eq": 1}, `, "/any/2/that", "that is not supported"},
		{`"same": {"/payee": "/to", "/n": "/amount", "/deep/to": "/kind"}`, `"same": {}`, "/any/2/same", "0 pointers"},
		{`"same": {"/payee": "/to", "/n": "/amount", "/deep/to": "/kind"}`, `"same": []`, "/any/2/same", "a list of 0"},
		{`"same": {"/payee": "/to", "/n": "/amount", "/deep/to": "/kind"}`, `"same": "/to"`, "/any/2/same",
			"not a list"},
		{`"same": {"/payee": "/to", "/n": "/amount", "/deep/to": "/kind"}`, `"same": ["/to"]`, "/any/2/same/0",
			`no "/to" in the input of look`},
		{`"same": {"/payee": "/to", "/n": "/amount", "/deep/to": "/kind"}`, `"same": ["/payee"]`, "/any/2/same/0",
			`no "/payee" in the input of pay`},
		{`"/payee": "/to"`, `"/payer": "/to"`, "/any/2/same/~1payer", `no "/payer" in the input of look`},
		{`"/payee": "/to"`, `"/payee": "/two"`, "/any/2/same/~1payee", `no "/two" in the input of pay`},
		{`"/payee": "/to"`, `"payee": "/to"`, "/any/2/same/payee", "no JSON Pointer"},
		{`"/payee": "/to"`, `"/list/*": "/to"`, "/any/2/same/~1list~1*", "no JSON Pointer to one value"},
		{`"/payee": "/to"`, `"/payee": "/*"`, "/any/2/same/~1payee", "a * in a pointer to one value"},
		{`"/payee": "/to"`, `"/payee": "/note"`, "/any/2/same/~1payee", "may be missing or null"},
		{`"/payee": "/to"`, `"/payee": "/from"`, "/any/2/same/~1payee", "may be missing or null"},
		{`"/payee": "/to"`, `"/payee": "/amount"`, "/any/2/same/~1payee", "compare values that can be equal"},
		{`"/payee": "/to"`, `"/payee": null`, "/any/2/same/~1payee", "null"},
		{`{"arg": "/to", "in": {"list": "known"}}`, `{"arg": "/to", "finds": "b"}`, "/unless/finds", "use regex"},
		{`{"arg": "/to", "in": {"list": "known"}}`, `{"any": [{"receipt": "look"}, {"arg": "/to", "finds": "b"}]}`,
			"/unless/any/1/finds", "use regex"},
		{`{"arg": "/to", "in": {"list": "known"}}`, `{"arg": "/to", "from": ["user"]}`, "/unless/from",
			"from is not supported"},
		{`{"arg": "/amount", "gt": 1}`, `{"not": {"arg": "/to", "finds": "b"}}`, "/when/not/finds", "use regex"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "tainted", "eq": true}`, "/when/session",
			"session: tainted is not supported"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls"}`, "/when", "no operator"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls", "gt": 1, "lt": 5}`, "/when/gt", "two operators"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls", "in": [1]}`, "/when/in", "unknown key"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls", "gt": "1"}`, "/when/gt", "compare a count with a number"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls", "gt": {"arg": "/to"}}`, "/when/gt", "never a number"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls", "gt": 1, "absent": true}`, "/when/absent",
			"remove absent"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls", "gt": 1, "of": "lok"}`, "/when/of", "did you mean look?"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "call", "gt": 1}`, "/when/session", "did you mean calls?"},
		{`{"arg": "/amount", "gt": 1}`, `{"session": "calls", "arg": "/amount", "gt": 1}`, "/when/arg", "unknown key"},
		{`{"arg": "/amount", "gt": 1}`, `{"recipt": "look"}`, "/when/recipt", "did you mean receipt?"},
		{`{"arg": "/amount", "gt": 1}`, `{"every": "/list", "that": {"receipt": "look"}}`, "/when/every",
			"no \"/list\""},
	} {
		require.Equal(t, 1, strings.Count(goodRequirement, c.old), "%q is not once in the requirement", c.old)
		e := mustRefuse(t, document(t, "b.yaml", bankText(strings.Replace(goodRequirement, c.old, c.new, 1), ``)))
		if e.Pointer != "/requires/0"+c.at || !strings.Contains(e.Error(), c.says) || e.Remedy == "" {
			t.Errorf("%s:\n\t%v\n\twant it at %s, saying %s", c.new, e, "/requires/0"+c.at, c.says)
		}
	}
	quantified := bankText(`{"id":"r","tools":["look"],"when":{"every":"/list","that":{"receipt":"look"},"absent":false},"all":[{"receipt":"pay"}]}`, ``)
	if e := mustRefuse(t, document(t, "", quantified)); e.Pointer != "/requires/0/when/that/receipt" ||
		!strings.Contains(e.Error(), "inside every") {
		t.Error(e)
	}
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
			if (err != nil) != bad || bad && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %s: %v", c.needs, sel, err)
			}
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
	of := func(id, tool, needs string) string {
		return `{"id":"` + id + `","tools":["` + tool + `"],` + needs + `}`
	}
	receipt := func(tools ...string) string {
		return `"all":[{"receipt":"` + strings.Join(tools, `"},{"receipt":"`) + `"}]`
	}
	either := func(tools ...string) string { return strings.Replace(receipt(tools...), "all", "any", 1) }
	when := `"when":{"arg":"/n","gt":1,"absent":false},`
	for _, c := range []struct {
		name string
		docs []string
		at   string
		says string // "": it loads
	}{
		{"a line", []string{bankText(of("a", "pay", receipt("look"))+`,`+of("b", "close", receipt("pay")), ``)}, "",
			""},
		{"itself", []string{bankText(of("a", "pay", receipt("pay")), ``)}, "/requires/0",
			"can never be met: pay needs a receipt of pay; need something else"},
		{"itself, at times", []string{bankText(of("a", "look", when+receipt("look")), ``)}, "", ""},
		{"itself, or something", []string{bankText(of("a", "pay", either("pay", "look")), ``)}, "", ""},
		{"itself, or somebody",
			[]string{bankText(of("a", "pay", `"any":[{"receipt":"pay"},{"approval":{"roles":["owner"]}}]`), ``)}, "",
			""},
		{"itself, and somebody",
			[]string{bankText(of("a", "pay", `"all":[{"approval":{"roles":["owner"]}},{"receipt":"pay"}]`), ``)},
			"/requires/0", "pay needs a receipt of pay"},
		{"each other", []string{bankText(of("a", "pay", receipt("look"))+`,`+of("b", "look", receipt("pay")), ``)},
			"/requires/0", "can never be met: pay needs a receipt of look, look needs a receipt of pay;"},
		{"each other, at times",
			[]string{bankText(of("a", "pay", receipt("look"))+`,`+of("b", "look", when+receipt("pay")), ``)}, "", ""},
		{"each other, one with a choice",
			[]string{bankText(of("a", "pay", receipt("look"))+`,`+of("b", "look", either("pay", "close")), ``)}, "",
			""},
		{"three",
			[]string{bankText(of("a", "pay", receipt("look"))+`,`+of("b", "look", receipt("close"))+`,`+of("c", "close",
				receipt("pay")), ``)}, "/requires/0",
			"pay needs a receipt of look, look needs a receipt of close, close needs a receipt of pay;"},
		{"behind a circle",
			[]string{bankText(of("a", "pay", receipt("look"))+`,`+of("b", "look", receipt("close"))+`,`+of("c", "close",
				receipt("look")), ``)}, "/requires/0",
			"pay needs a receipt of look, look needs a receipt of close, close needs a receipt of look;"},
		{"what nothing allows", []string{bankText(of("a", "pay", receipt("idle")), ``)}, "/requires/0",
			"pay needs a receipt of idle, which is never allowed;"},
		{"what nothing allows, at times", []string{bankText(of("a", "look", when+receipt("idle")), ``)}, "/requires/0",
			"look needs a receipt of idle, which is never allowed;"},
		{"of what nothing allows", []string{bankText(of("a", "idle", receipt("idle")), ``)}, "", ""},
		{"what a profile bars", []string{bankText(of("a", "pay", receipt("close")), ``),
			floor("f", `,"profile":{"effects":["read","write"]}`)}, "/requires/0",
			"pay needs a receipt of close, which is never allowed;"},
		{"of what a profile bars", []string{bankText(of("a", "close", receipt("close")), ``),
			floor("f", `,"profile":{"effects":["read","write"]}`)}, "", ""},
		{"what a ceiling bars", []string{bankText(of("a", "pay", receipt("close")), ``),
			floor("f", `,"ceilings":{"risk":"medium"}`)}, "/requires/0",
			"pay needs a receipt of close, which is never allowed;"},
		{"what a floor denies", []string{bankText(of("a", "pay", receipt("look")), ``),
			floor("f", `,"rules":[{"id":"no","deny":"look"}]`)}, "/requires/0",
			"pay needs a receipt of look, which is never allowed; allow look"},
		{"what a floor denies, at times", []string{bankText(of("a", "pay", receipt("look")), ``),
			floor("f", `,"rules":[{"id":"no","deny":"look",`+strings.TrimSuffix(when, ",")+`}]`)}, "", ""},
		{"what an overlay denies", []string{bankText(of("a", "pay", receipt("look")), ``),
			overlay("o", `,"rules":[{"id":"no","deny":"look"}]`)}, "/requires/0", "which is never allowed;"},
		{"what an overlay denies, of one session", []string{bankText(of("a", "pay", receipt("look")), ``),
			overlay("o", `,"for":{"session":"chat"},"rules":[{"id":"no","deny":"look"}]`)}, "", ""},
		{"what the bundle denies first",
			[]string{strings.Replace(bankText(of("a", "pay", receipt("look")), ``), `{"id":"all"`,
				`{"id":"no","deny":"look"},{"id":"all"`, 1)}, "/requires/0", "which is never allowed;"},
		{"what the bundle denies last",
			[]string{strings.Replace(bankText(of("a", "pay", receipt("look")), ``), `"has":"clerk"}}]`,
				`"has":"clerk"}},{"id":"no","deny":"look"}]`, 1)}, "", ""},
		{"what needs two sandboxes",
			[]string{strings.Replace(bankText(of("a", "pay", receipt("look")), ``), `"look":{"effect":"read",`,
				`"look":{"effect":"read","sandbox":"wasi",`, 1), floor("f", `,"profile":{"sandbox":{"read":"other"}}`)},
			"/requires/0", "which is never allowed;"},
		{"what an overlay leaves out", []string{bankText(of("a", "pay", receipt("look")), ``),
			overlay("o", `,"only":["pay"]`)}, "/requires/0", "pay needs a receipt of look, which is never allowed;"},
		{"what an overlay leaves out, of one session", []string{bankText(of("a", "pay", receipt("look")), ``),
			overlay("o", `,"for":{"session":"chat"},"only":["pay"]`)}, "", ""},
		{"two documents", []string{bankText(of("a", "pay", receipt("look")), ``),
			floor("f", `,"requires":[`+of("b", "look", receipt("pay"))+`]`)}, "/requires/0",
			"look needs a receipt of pay, pay needs a receipt of look;"},
		{"an overlay of some", []string{bankText(of("a", "pay", receipt("look")), ``),
			overlay("o", `,"for":{"tenant":"acme"},"requires":[`+of("b", "look", receipt("pay"))+`]`)}, "", ""},
		{"an overlay of all", []string{bankText(of("a", "pay", receipt("look")), ``),
			overlay("o", `,"requires":[`+of("b", "look", receipt("pay"))+`]`)}, "/requires/0",
			"pay needs a receipt of look"},
	} {
		var docs []contracts.Document
		for _, text := range c.docs {
			docs = append(docs, document(t, "", text))
		}
		_, err := Compile(docs...)
		e, _ := err.(*LoadError)
		if c.says == "" && err != nil || c.says != "" && (e == nil || e.Pointer != c.at ||
			!strings.Contains(e.Error(), c.says) || e.Remedy == "") {
			t.Errorf("%s: %v, want %s", c.name, err, c.says)
		}
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
	if e.Pointer != "/requires/0" || !strings.HasSuffix(e.What, "and so on") || len(e.What) > 400 {
		t.Errorf("%d bytes at %s", len(e.What), e.Pointer)
	}
}
