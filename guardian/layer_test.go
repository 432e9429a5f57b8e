package guardian

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// The house has tools for every gate of floors and overlays, and allows clerks everything but what
// its own deny names.
const house = `{
	"helm": "policy/v1", "layer": "P1", "bundle": {"name": "house", "version": 3}, "labels": ["web"],
	"sandboxes": {"wasi-strict": {"files": {"/tmp": "write"}, "memory": "1MiB"}},
	"lists": {"payees": ["GB29", "SE35"]},
	"tools": {
		"page.get": {"effect": "read", "trusted": false, "labels": ["web", "pii"], "connector": "net", "egress": true,
			"input": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}, "deep": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}}}},
		"mail.send": {"effect": "write", "connector": "mail", "limits": {"timeout": "1m", "args": "2KiB", "output": "2MiB"},
			"input": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}, "sum": {"type": "number"}}}},
		"mail.wipe": {"effect": "destructive", "connector": "mail", "input": {"type": "object", "properties": {"to": {"type": "string"}}}},
		"note.put": {"effect": "write", "egress": false, "risk": "low", "sandbox": "wasi-strict", "input": {"type": "object", "properties": {}}}
	},
	"rules": [
		{"id": "never", "deny": "mail.send", "when": {"arg": "/to", "eq": "eve@corp.com"}},
		{"id": "clerks", "allow": ["page.get", "mail.send", "mail.wipe", "note.put"], "when": {"caller": "roles", "has": "clerk"}}
	]
}`

// floor and overlay are documents with these further keys.
func floor(name, keys string) string {
	return `{"helm":"policy/v1","layer":"P0","name":"` + name + `","version":1` + keys + `}`
}

func overlay(name, keys string) string {
	return `{"helm":"policy/v1","layer":"P2","name":"` + name + `"` + keys + `}`
}

// housed makes a call one of a driver with these grants. Only one that is reported has none.
func housed(profile string, grants *contracts.Sandbox) func(*contracts.Inputs) {
	return func(in *contracts.Inputs) {
		in.Sandbox = &contracts.SandboxInfo{Grants: grants, Module: crypto.Sum([]byte("module")), Profile: profile}
		if grants != nil {
			in.Sandbox.Meter = 1
		}
	}
}

// strict are the grants of a driver that is within wasi-strict of the house.
var strict = &contracts.Sandbox{Files: map[string]string{"/tmp": "read"}, Memory: 16}

// floors of most cases below: what of them is not on the way of a call changes nothing.
const labelled = `,"labels":["pii"]`

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, c := range append(readCases(t, "layers", 85, append(callFields, "doc*")...),
		testCase{"name": "args over the ceiling", "doc": floor("f", `,"ceilings":{"args":"1KiB"}`), "tool": "mail.send",
			"args": `{"to":"` + strings.Repeat("a", 1020) + `"}`, "want": "SCHEMA_VIOLATION 2", "says": "longer than"},
		testCase{"name": "args over the tool's", "doc": floor("f", `,"ceilings":{"args":"4KiB"}`), "tool": "mail.send",
			"args": `{"to":"` + strings.Repeat("a", 2040) + `"}`, "want": "SCHEMA_VIOLATION 2"}) {
		t.Run(c["name"], func(t *testing.T) {
			c.judged(t, mustCompile(t, append(c.lines("doc"), house, floor("labels", labelled))...))
		})
	}
}

// A deny of a floor or overlay over arguments that are missing, null, of another type or unreadable
// never lets the call past.
func TestLayerArguments(t *testing.T) {
	t.Parallel()
	const input = `"v":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"},{"type":"array","items":{"type":"string"}}]}`
	base := bundle("b", toolText("t", input), `{"id":"all","allow":"t"}`)
	for _, layer := range []func(name, keys string) string{floor, overlay} {
		for _, c := range []struct{ args, deny string }{
			{`{}`, `{"arg":"/v","eq":"x","absent":true}`},
			{`{"v":null}`, `{"arg":"/v","eq":"x","absent":true}`},
			{`{"v":1}`, `{"arg":"/v","eq":"x","absent":false}`},
			{`{"v":["x"]}`, `{"arg":"/v","eq":"x","absent":false}`},
			{`{"v":["x"]}`, `{"not":{"arg":"/v","eq":"x","absent":false}}`},
			{`{"v":"1"}`, `{"arg":"/v","gt":0,"absent":false}`},
			{`{"v":"/srv/../etc"}`, `{"arg":"/v","within":"/etc","absent":false}`},
			{`{"v":"` + strings.Repeat("x", 5000) + `@corp.com, eve@evil.org"}`,
				`{"arg":"/v","email":"evil.org","absent":false}`},
			{`{"v":"x"}`, `{"some":"/v","that":{"eq":"x"},"absent":false}`},
		} {
			p := mustCompile(t, base, layer("l", `,"rules":[{"id":"r","deny":"t","when":`+c.deny+`}]`))
			r, why := p.judged(inputs(t, "t", c.args), nil)
			assert.Equal(t, contracts.Deny, r.Verdict, "%s on %s allows: %s", c.deny, c.args, why)
		}
	}
}

// What a tool may take is the lower of its own limits and of every ceiling, and so is when its
// permission expires.
func TestCeilingLimits(t *testing.T) {
	t.Parallel()
	const kib, mib = 1 << 10, 1 << 20
	for _, c := range []struct {
		docs []string
		want Limits
	}{
		{nil, Limits{2 * kib, 2 * mib, time.Minute}},
		{[]string{floor("f", `,"ceilings":{}`)}, Limits{2 * kib, 2 * mib, time.Minute}},
		{[]string{floor("f", `,"ceilings":{"args":"1KiB","output":"1MiB","timeout":"5s"}`)},
			Limits{1 * kib, 1 * mib, 5 * time.Second}},
		{[]string{floor("f", `,"ceilings":{"args":"1MiB","output":"16MiB","timeout":"10m","depth":64,"risk":"high"}`)},
			Limits{2 * kib, 2 * mib, time.Minute}},
		{[]string{floor("f", `,"ceilings":{"timeout":"5s"}`),
			floor("g", `,"ceilings":{"timeout":"7s","output":"1MiB"}`)}, Limits{2 * kib, 1 * mib, 5 * time.Second}},
	} {
		p := mustCompile(t, append(c.docs, house, floor("labels", labelled))...)
		got, ok := p.Limits("mail.send")
		assert.True(t, ok && got == c.want, "%v: limits %+v, want %+v", c.docs, got, c.want)
		r, _ := p.judged(inputs(t, "mail.send", `{"to":"a"}`), nil)
		assert.Equal(t, noon.Add(c.want.Timeout), r.Expires, "%v: expires", c.docs)
	}
}

// Stack order is P0 by name, P1 by name, P2 by name where they came at once and in order of
// narrowing where not. The hash is over all.
func TestStackOrder(t *testing.T) {
	t.Parallel()
	docs := []string{overlay("z", ``), overlay("a", `,"version":7`), bundle("n", toolText("t", ``), ``),
		bundle("m", toolText("u", ``), ``), floor("y", ``), floor("b", ``)}
	p := mustCompile(t, docs...)
	names := func(p *Policy) string {
		var out []string
		for _, d := range p.Record().Documents {
			out = append(out, d.Layer+d.Name)
		}
		return strings.Join(out, " ")
	}
	assert.Equal(t, "P0b P0y P1m P1n P2a P2z", names(p), "stack order")
	for i, d := range p.Record().Documents {
		version := uint64(1)
		if d.Name == "a" {
			version = 7
		}
		assert.True(t, d.Version == version && d.Digest == crypto.Sum(p.Documents()[i].Canonical), "%+v", d)
	}
	record := p.Record()
	assert.True(t, record.Policy == record.Hash() && record.Policy == p.Hash(), "the hash is not over the record")
	doc := func(i int) contracts.Document { return document(t, "", docs[i]) }
	one, err := p.Narrow(document(t, "", overlay("c", ``)), document(t, "", overlay("b", ``)))
	assert.True(t, err == nil && names(one) == "P0b P0y P1m P1n P2a P2z P2c P2b", "narrowed: %v, %v", names(one), err)
	base := mustCompile(t, docs[2:]...)
	za, err := base.Narrow(doc(0), doc(1))
	assert.True(t, err == nil && names(za) == "P0b P0y P1m P1n P2z P2a" && za.Hash() != p.Hash(), "narrowed: %v, %v",
		names(za), err)
	step, err := base.Narrow(doc(1))
	require.NoError(t, err)
	if step, err = step.Narrow(doc(0)); err != nil || step.Hash() != p.Hash() { // in the order of names: the same stack
		t.Errorf("narrowed by steps: %v, %v", names(step), err)
	}
	assert.Equal(t, "P0b P0y P1m P1n", names(base), "narrowing changed the policy")
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, house, floor("labels", labelled))
	q, err := p.Narrow(document(t, "", overlay("o", `,"only":["page.get"]`)))
	require.NoError(t, err)
	in := inputs(t, "mail.send", `{"to":"ann@corp.com"}`)
	want{contracts.ReasonPolicyViolation, 5, "P2:o:only"}.check(t, q, in)
	want{contracts.ReasonAllow, 8, "P1:house:clerks"}.check(t, p, in)
	for _, c := range []struct{ text, at, says string }{
		{floor("x", ``), "/layer", "layer P0 over a stack|write P2"},
		{bundle("x", ``, ``), "/layer", "layer P1 over a stack"},
		{overlay("o", ``), "/name", `second P2 document "o"`},
		{overlay("x", `,"only":["page.gte"]`), "/only/0", `no tool "page.gte" in this stack|did you mean page.get?`},
		{overlay("x", `,"rules":[{"id":"r","allow":"page.get"}]`), "/rules/0/allow", "allow in layer P2"},
	} {
		_, err := q.Narrow(document(t, "o.yaml", c.text))
		var e *LoadError
		if !errors.As(err, &e) || e.Pointer != c.at || e.Document != "o.yaml" {
			t.Errorf("%s gives %v", c.text, err)
			continue
		}
		contains(t, e.Error(), strings.Split(c.says, "|")...)
	}
	for _, p := range []*Policy{nil, {}} {
		q, err := p.Narrow(document(t, "", overlay("o", ``)))
		assert.True(t, err != nil && q == nil, "no policy was narrowed")
	}
	var many []contracts.Document
	for i := range contracts.MaxDocuments - 1 {
		many = append(many, document(t, "", overlay("o"+strings.Repeat("x", i), ``)))
	}
	_, err = p.Narrow(many...)
	assert.True(t, err != nil && strings.Contains(err.Error(), "65 documents"), "65 documents: %v", err)
}

// Expired names the first document that has expired, of every layer; New refuses such a stack, and
// one that expires later denies.
func TestExpiredLayers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{floor("x", `,"expires":"2026-07-15T12:00:00Z"`),
		overlay("x", `,"for":{"caller":"nobody"},"expires":"2026-07-15T12:00:00Z"`)} {
		doc := document(t, "x.yaml", text)
		doc.Lines = map[string]contracts.Pos{"/expires": at(7, 10)}
		p, err := Compile(doc, document(t, "", house), document(t, "", floor("labels", labelled)))
		require.NoError(t, err)
		assert.NoError(t, p.Expired(noon-1))
		err = p.Expired(noon)
		require.Error(t, err, "%s has not expired", text)
		contains(t, err.Error(), "x.yaml:7:10: /expires: the document P", ":x expired at 2026-07-15T12:00:00.000Z")
	}
}

// A stack without bundles denies every call.
func TestNoBundle(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, floor("f", `,"ceilings":{"risk":"low"},"profile":{"effects":["read"],"connectors":["mail"]}`),
		overlay("o", `,"expires":"2099-01-01T00:00:00Z"`))
	want{contracts.ReasonToolNotFound, 1, ""}.check(t, p, inputs(t, "mail.send", `{}`))
}

// Where a floor says the same of many tools, they share what is judged; rules about arguments are
// shared by those that have the same input and scope, whatever else is said of each.
func TestShared(t *testing.T) {
	t.Parallel()
	tools := toolText("a", `"v":{"type":"string"},"w":{"type":"string"}`, "v", "w") + "," + toolText("b",
		`"w":{"type":"string"},"v":{"type":"string"}`, "v", "w") + "," +
		toolText("c", `"u":{"type":"string"},"v":{"type":"string"},"w":{"type":"string"}`, "v", "w")
	rules := `{"id":"w","deny":["b","c"],"when":{"arg":"/w","eq":"x"}},{"id":"all","allow":["a","b","c"]}`
	p := mustCompile(t, bundle("m", tools, rules), floor("f",
		`,"rules":[{"id":"r","deny":"*","when":{"caller":"roles","has":"guest"}},{"id":"s","deny":"*","unless":{"time":"utc","in":["Mon-Fri 06:00-20:00"]}}]`),
		overlay("o", `,"rules":[{"id":"r","deny":"*","when":{"arg":"/v","eq":"x"}}]`))
	a, b, c := p.stack.Tools["a"], p.stack.Tools["b"], p.stack.Tools["c"]
	assert.True(t, &a.Floors[0] == &b.Floors[0] && &a.Floors[0] == &c.Floors[0] && len(a.Floors[0].Rules) == 2,
		"clauses that are the same are not shared")
	assert.True(t, a.Shape == b.Shape && &a.Overlays[0] == &b.Overlays[0],
		"tools of one input do not share rules about arguments")
	assert.True(t, a.Shape != c.Shape && &a.Overlays[0] != &c.Overlays[0],
		"a rule about arguments is shared by tools of different inputs")
	assert.True(t, len(b.Rules) == 2 && len(a.Rules) == 1, "a rule of one tool is another's")
	for _, tool := range []string{"a", "b", "c"} {
		want{contracts.ReasonPolicyViolation, 5, "P2:o:r"}.check(t, p, inputs(t, tool, `{"v":"x","w":"y"}`))
		in := inputs(t, tool, `{"v":"y","w":"y"}`)
		want{contracts.ReasonAllow, 8, "P1:m:all"}.check(t, p, in)
		in.Caller.Roles = []string{"guest"}
		want{contracts.ReasonCeilingViolation, 8, "P0:f:r"}.check(t, p, in)
	}
}

// Tools of one input and different scopes are not taken for each other: what a scope declares, and
// demands, is that of its tool.
func TestSharedScope(t *testing.T) {
	t.Parallel()
	path := `"path":{"type":"string"}`
	scoped := func(name, within string) string {
		return strings.TrimSuffix(toolText(name, path, "path"),
			"}") + `,"scope":[{"arg":"/path","within":"` + within + `"}]}`
	}
	tools := scoped("a", "/a") + "," + scoped("b", "/b") + "," + toolText("c", path, "path") + "," + scoped("d", "/a")
	all := `{"id":"all","allow":["a","b","c","d"]}`
	p := mustCompile(t, bundle("m", tools, all))
	assert.Same(t, p.stack.Tools["d"].Shape, p.stack.Tools["a"].Shape, "tools of one input and scope have two shapes")
	for _, c := range []struct {
		tool string
		want want
	}{
		{"a", want{contracts.ReasonDestinationNotAllowed, 2, "P1:m:scope"}},
		{"b", want{contracts.ReasonAllow, 8, "P1:m:all"}},
		{"c", want{contracts.ReasonAllow, 8, "P1:m:all"}}, {"d",
			want{contracts.ReasonDestinationNotAllowed, 2, "P1:m:scope"}},
	} {
		c.want.check(t, p, inputs(t, c.tool, `{"path":"/b/x"}`))
	}
	prefix := `{"id":"p","deny":%s,"when":{"arg":"/path","prefix":"/b"}},` + all
	mustCompile(t, bundle("m", tools, fmt.Sprintf(prefix, `"c"`)))
	for _, wrong := range []string{`["c","d"]`, `["b","c"]`, `"*"`} { // whichever of them comes first
		if e := mustRefuse(t,
			document(t, "", bundle("m", tools, fmt.Sprintf(prefix, wrong)))); !strings.Contains(e.What,
			"what scope declares") {
			t.Errorf("%s: %v", wrong, e)
		}
	}
	// What is wrong with one of several tools of one shape is said of each: the first error is the
	// same, whichever is read first.
	broken := func(name string) string {
		return `"` + name + `":{"effect":"read","input":{"type":"object","properties":{"x":{"type":"strong"}}}}`
	}
	for _, name := range []string{"a", "z"} {
		e := mustRefuse(t,
			document(t, "", bundle("m", broken("a")+","+broken("z"),
				`{"id":"all","allow":"`+name+`"}`)))
		assert.True(t, strings.HasPrefix(e.Pointer, "/tools/a/input"), "%v", e)
	}
}

// With a floor and an overlay, judging allocates nothing either.
func TestLayersAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates: this runs without it")
	}
	p := mustCompile(t, layered(3)...)
	in := inputs(t, "tool.0", `{"path":"/srv/data/report.txt","n":7}`)
	want{contracts.ReasonAllow, 8, "P1:b:c0"}.check(t, p, in)
	if n := testing.AllocsPerRun(100, func() { p.Judge(in, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
