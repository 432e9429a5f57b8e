package guardian

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A good floor and overlay over the house, of which each case below spoils one thing.
const goodFloor = `{
	"ceilings": {"args": "64KiB", "depth": 8, "output": "4MiB", "risk": "medium", "timeout": "30s"},
	"expires": "2099-01-01T00:00:00Z",
	"helm": "policy/v1",
	"labels": ["pii"],
	"layer": "P0",
	"lists": {"bad": ["eve@corp.com"]},
	"name": "floor",
	"only": ["mail.*", "page.get"],
	"profile": {"connectors": ["mail", "net"], "effects": ["read", "write"], "sandbox": {"write": "wasi"}},
	"rules": [
		{"deny": ["mail.send"], "id": "one", "when": {"arg": "/to", "eq": "a"}},
		{"deny": {"effects": ["read"]}, "id": "two", "when": {"arg": "/path", "eq": "a"}}
	],
	"version": 4
}`

const goodOverlay = `{
	"expires": "2099-01-01T00:00:00Z",
	"for": {"caller": "ann", "session": "chat-1", "tenant": "acme"},
	"helm": "policy/v1",
	"layer": "P2",
	"lists": {"bad": ["eve@corp.com"]},
	"name": "task",
	"only": ["mail.*", "page.get"],
	"rules": [
		{"deny": ["mail.send"], "id": "one", "when": {"arg": "/to", "eq": "a"}},
		{"deny": {"effects": ["read"]}, "id": "two", "when": {"arg": "/path", "eq": "a"}}
	],
	"version": 2
}`

// bothLayers may be spoilt alike.
var bothLayers = []refusal{
	{`"helm": "policy/v1"`, `"helm": "policy/v2"`, "/helm", "policy/v1"},
	{`"expires"`, `"expire"`, "/expire", "did you mean expires?"},
	{`"2099-01-01T00:00:00Z"`, `null`, "/expires", "null|quote it"},
	{`"2099-01-01T00:00:00Z"`, `"tomorrow"`, "/expires", "RFC 3339"},
	{`"name": `, `"nmae": `, "/nmae", "did you mean name?"},
	{`"name": "`, `"name": "a:`, "/name", "1 to 64 of"},
	{`"version": `, `"version": -`, "/version", "integer from 1"},
	{`"version": `, `"version": 0.`, "/version", "integer from 1"},
	{`"version": `, `"bundle": {"name": "b", "version": 1}, "version": `, "/bundle",
		`unknown key "bundle"|remove it: bundle is a key of P1`},
	{`"version": `, `"tools": {}, "version": `, "/tools", `remove it: tools is a key of P1`},
	{`"version": `, `"requires": {}, "version": `, "/requires", "not a list"},
	{`"version": `, `"budgets": {}, "version": `, "/budgets", "not a list"},
	{`"version": `,
		`"budgets": [{"cost": 1, "id": "one", "limit": 1, "per": "all", "tools": "mail.send", "window": "day"}], ` +
			`"version": `, "/budgets/0/id", "second rule of id"},
	{`"version": `,
		`"budgets": [{"cost": 1, "id": "b", "limit": 1, "per": "all", "tools": "mail.sned", "window": "day"}], ` +
			`"version": `, "/budgets/0/tools", "no tool"},
	{`"lists": {"bad": ["eve@corp.com"]}`, `"lists": {"bad": []}`, "/lists/bad", "1 to 10000"},

	// only.
	{`"only": ["mail.*", "page.get"]`, `"only": []`, "/only", "an empty list"},
	{`"only": ["mail.*", "page.get"]`, `"only": null`, "/only", "null"},
	{`"only": ["mail.*", "page.get"]`, `"only": {"effects": ["read"]}`, "/only",
		"only rules of the layers P0 and P2 select tools by effect|name the tools"},
	{`"only": ["mail.*", "page.get"]`, `"only": ["mail.*", "page.get", "page.get"]`, "/only/2", "twice"},
	{`"only": ["mail.*", "page.get"]`, `"only": ["mail.*", "page.gett"]`, "/only/1",
		"no tool \"page.gett\" in this stack|did you mean page.get?"},
	{`"only": ["mail.*", "page.get"]`, `"only": ["mail.*", "bank.*"]`, "/only/1", "covers no tool of this stack"},
	{`"only": ["mail.*", "page.get"]`, `"only": ["*.get"]`, "/only/0", "no tool"},
	{`"only": ["mail.*", "page.get"]`, `"only": ["mail*.*"]`, "/only/0", "one * at the end"},
	{`"only": ["mail.*", "page.get"]`, `"only": [7]`, "/only/0", "not a string"},

	// Rules, and what they select.
	{`{"deny": ["mail.send"], "id": "one"`, `{"allow": ["mail.send"], "id": "one"`, "/rules/0/allow",
		"allow in layer P|allow it in a bundle"},
	{`{"deny": ["mail.send"], "id": "one"`, `{"allow": ["mail.send"], "deny": ["mail.send"], "id": "one"`, "/rules/0",
		"neither or both"},
	{`{"deny": ["mail.send"], "id": "one"`, `{"id": "one"`, "/rules/0", "neither or both"},
	{`{"deny": ["mail.send"], "id": "one"`, `{"deny": ["mail.send"]`, "/rules/0", "no id"},
	{`"id": "one"`, `"id": "two"`, "/rules/1/id", "a second rule of id"},
	{`"id": "one"`, `"id": "ceilings"`, "/rules/0/id", "reserved"},
	{`"id": "one"`, `"id": "one", "requires": []`, "/rules/0/requires", "unknown key"},
	{`"deny": ["mail.send"]`, `"deny": ["mail.sned"]`, "/rules/0/deny/0",
		"no tool \"mail.sned\" in this stack|did you mean mail.send?"},
	{`"deny": ["mail.send"]`, `"deny": "bank.*"`, "/rules/0/deny", "covers no tool of this stack|must cover one"},
	{`"deny": ["mail.send"]`, `"deny": {}`, "/rules/0/deny", "neither effects nor egress"},
	{`"deny": ["mail.send"]`, `"deny": {"egress": false}`, "/rules/0/deny/egress", "write egress: true"},
	{`"deny": ["mail.send"]`, `"deny": {"egress": "yes"}`, "/rules/0/deny/egress", "true or false"},
	{`"deny": ["mail.send"]`, `"deny": {"effect": ["write"]}`, "/rules/0/deny/effect", "did you mean effects?"},
	{`"deny": ["mail.send"]`, `"deny": {"effects": "write"}`, "/rules/0/deny/effects", "not a list"},
	{`"deny": ["mail.send"]`, `"deny": {"effects": []}`, "/rules/0/deny/effects", "a list of 0"},
	{`"deny": ["mail.send"]`, `"deny": {"effects": ["wirte"]}`, "/rules/0/deny/effects/0", "did you mean write?"},
	{`"deny": ["mail.send"]`, `"deny": {"effects": ["write", "write"]}`, "/rules/0/deny/effects/1", "twice"},
	{`"deny": ["mail.send"], "id": "one", "when": {"arg": "/to", "eq": "a"}`,
		`"deny": {"effects": ["write"]}, "id": "one", "when": {"arg": "/to", "eq": "a"}`, "/rules/0/when/arg",
		`no "/to" in the input of note.put`},
	{`"deny": ["mail.send"], "id": "one", "when": {"arg": "/to", "eq": "a"}`,
		`"deny": "mail.*", "id": "one", "when": {"arg": "/to", "eq": "a"}`, "/rules/0/when",
		`may be missing or null in a call of mail.wipe`},
	{`"deny": ["mail.send"], "id": "one", "when": {"arg": "/to", "eq": "a"}`,
		`"deny": "mail.send", "id": "one", "when": {"arg": "/to", "eq": "a", "absent": true}`, "/rules/0/when/absent",
		`never missing or null in a call of mail.send|remove absent`},
	{`"deny": ["mail.send"], "id": "one", "when": {"arg": "/to", "eq": "a"}`,
		`"deny": "*", "id": "one", "when": {"caller": "roles", "has": 5}`, "/rules/0/when/has", "not a string"},

	// Predicates, polarity and lists.
	// the bundle's
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"arg": "/to", "in": {"list": "payees"}}`, "/rules/0/when/in/list",
		`no list "payees" in this document`},
	{`"when": {"arg": "/to", "eq": "a"}`, `"unless": {"arg": "/to", "finds": "a"}`, "/rules/0/unless/finds",
		"use regex"},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"not": {"arg": "/to", "finds": "a"}}`, "/rules/0/when/not/finds",
		"use regex"},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"arg": "/too", "eq": "a"}`, "/rules/0/when/arg",
		`no "/too" in the input of mail.send`},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"arg": "/to", "eq": 5}`, "/rules/0/when/eq", "takes number"},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"arg": "/to", "eq": "a", "ne": "b"}`, "/rules/0/when/ne",
		"two operators"},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"session": "labels", "has": "pii"}`, "/rules/0/when/session",
		"session: labels is not supported"},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"receipt": "page.get", "that": {"fact": "x", "eq": 1}}`,
		"/rules/0/when/that", "that is not supported"},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"arg": "/to", "from": ["user"]}`, "/rules/0/when/from",
		"from is not supported"},
	{`"when": {"arg": "/to", "eq": "a"}`, `"when": {"arg": "/to", "eq": {"fact": "x"}}`, "/rules/0/when/eq/fact",
		"fact is not supported"},
	{`{"deny": {"effects": ["read"]}, "id": "two", "when": {"arg": "/path", "eq": "a"}}`,
		`{"deny": "mail.send", "id": "two", "when": {"all": [{"arg": "/sum", "gt": 5, "absent": false}, {"arg": ` +
			`"/to", "eq": "a"}]}}`, "/rules/1",
		`the rule can never decide: whenever it matches, "one" has matched before it`},
}

var floorRefusals = []refusal{
	{`"version": 4`, `"Version": 4`, "/Version", "did you mean version?"},
	{"\n\t\"version\": 4", "\n\t\"for\": {\"caller\": \"ann\"}, \"version\": 4", "/for",
		"remove it: for is a key of P2"},
	{`"version": 4`, `"threat": {"deny": "high"}, "version": 4`, "/threat",
		"threat is not supported by this version of helm"},

	{`"labels": ["pii"]`, `"labels": []`, "/labels", "a list of 0"},
	{`"labels": ["pii"]`, `"labels": "pii"`, "/labels", "not a list"},
	{`"labels": ["pii"]`, `"labels": ["pii", "pii"]`, "/labels/1", "twice"},
	{`"labels": ["pii"]`, `"labels": ["pii", ""]`, "/labels/1", "a label"},
	{`"labels": ["pii"]`, `"labels": ["pii", 1]`, "/labels/1", "not a string"},

	{`"profile": {`, `"profile": {"effect": [], `, "/profile/effect", "did you mean effects?"},
	{`"effects": ["read", "write"]`, `"effects": []`, "/profile/effects", "a list of 0"},
	{`"effects": ["read", "write"]`, `"effects": "read"`, "/profile/effects", "not a list"},
	{`"effects": ["read", "write"]`, `"effects": ["read", "Write"]`, "/profile/effects/1", "did you mean write?"},
	{`"effects": ["read", "write"]`, `"effects": ["read", "read"]`, "/profile/effects/1", "twice"},
	{`"connectors": ["mail", "net"]`, `"connectors": null`, "/profile/connectors", "not a list"},
	{`"connectors": ["mail", "net"]`, `"connectors": ["mail*"]`, "/profile/connectors/0", "a connector"},
	{`"connectors": ["mail", "net"]`, `"connectors": ["mail", "mail"]`, "/profile/connectors/1", "twice"},
	{`"sandbox": {"write": "wasi"}`, `"sandbox": "wasi"`, "/profile/sandbox", "not an object|read, write, destructive"},
	{`"sandbox": {"write": "wasi"}`, `"sandbox": {"wirte": "wasi"}`, "/profile/sandbox/wirte", "did you mean write?"},
	{`"sandbox": {"write": "wasi"}`, `"sandbox": {"write": ""}`, "/profile/sandbox/write", "1 to 128 bytes"},
	{`"sandbox": {"write": "wasi"}`, `"sandbox": {"write": null}`, "/profile/sandbox/write", "null"},

	{`"args": "64KiB"`, `"arg": "64KiB"`, "/ceilings/arg", "did you mean args?"},
	{`"args": "64KiB"`, `"calls": 0`, "/ceilings/calls", "not a number of calls|from 1 on"},
	{`"args": "64KiB"`, `"args": "2MiB"`, "/ceilings/args",
		"higher than 1MiB, which holds without a ceiling|write a lower one"},
	{`"args": "64KiB"`, `"args": "64KB"`, "/ceilings/args", "no size"},
	{`"args": "64KiB"`, `"args": null`, "/ceilings/args", "null"},
	{`"output": "4MiB"`, `"output": "17MiB"`, "/ceilings/output", "higher than 16MiB"},
	{`"timeout": "30s"`, `"timeout": "11m"`, "/ceilings/timeout", "higher than 10m"},
	{`"timeout": "30s"`, `"timeout": 30`, "/ceilings/timeout", "a number"},
	{`"depth": 8`, `"depth": 65`, "/ceilings/depth", "higher than 64"},
	{`"depth": 8`, `"depth": 0`, "/ceilings/depth", "from 1 to 64"},
	{`"depth": 8`, `"depth": "8"`, "/ceilings/depth", "from 1 to 64"},
	{`"risk": "medium"`, `"risk": "middle"`, "/ceilings/risk", "low, medium, high"},
}

var overlayRefusals = []refusal{
	{"\n\t\"version\": 2", "\n\t\"profile\": {}, \"version\": 2", "/profile", "remove it: profile is a key of P0"},
	{"\n\t\"version\": 2", "\n\t\"ceilings\": {}, \"version\": 2", "/ceilings", "remove it: ceilings is a key of P0"},
	{"\n\t\"version\": 2", "\n\t\"labels\": [\"pii\"], \"version\": 2", "/labels",
		"remove it: labels is a key of P0 and P1"},
	{"\n\t\"version\": 2", "\n\t\"threat\": {}, \"version\": 2", "/threat", "remove it: threat is a key of P0"},
	{`"for": {"caller": "ann", `, `"for": {"calller": "ann", `, "/for/calller", "did you mean caller?"},
	{`"for": {"caller": "ann", "session": "chat-1", "tenant": "acme"}`, `"for": {}`, "/for",
		"for nobody|write one of session, caller, tenant"},
	{`"for": {"caller": "ann", "session": "chat-1", "tenant": "acme"}`, `"for": "ann"`, "/for", "not an object"},
	{`"for": {"caller": "ann", "session": "chat-1", "tenant": "acme"}`, `"for": null`, "/for", "not an object"},
	{`"session": "chat-1"`, `"session": ""`, "/for/session", "a name of a session"},
	{`"session": "chat-1"`, `"session": "@refused"`, "/for/session", "a name of a session"},
	{`"session": "chat-1"`, `"session": null`, "/for/session", "null"},
	{`"session": "chat-1"`, `"session": ["chat-1"]`, "/for/session", "an array"},
	{`"caller": "ann"`, `"caller": ""`, "/for/caller", "1 to 256 bytes"},
	{`"caller": "ann"`, `"caller": "` + strings.Repeat("a", 257) + `"`, "/for/caller", "1 to 256 bytes"},
	{`"tenant": "acme"`, `"tenant": 5`, "/for/tenant", "a number"},
}

func TestLayerRefusals(t *testing.T) {
	t.Parallel()
	for _, layer := range []struct {
		good string
		own  []refusal
	}{{goodFloor, floorRefusals}, {goodOverlay, overlayRefusals}} {
		compile := func(text string) (*Policy, error) {
			return Compile(document(t, "layer.yaml", text), document(t, "house.yaml", house),
				document(t, "", floor("labels", labelled)))
		}
		if _, err := compile(layer.good); err != nil { // or the refusals would prove nothing
			t.Fatal(err)
		}
		cases := append(append([]refusal{}, bothLayers...), layer.own...)
		for _, c := range cases {
			require.Contains(t, layer.good, c.old, "%q is not in the good document", c.old)
			p, err := compile(strings.Replace(layer.good, c.old, c.new, 1))
			e, ok := err.(*LoadError)
			if !ok || p != nil {
				t.Errorf("%s\n\tgives %v", c.new, err)
				continue
			}
			if e.Pointer != c.at || e.Document != "layer.yaml" || e.Remedy == "" {
				t.Errorf("%s\n\tgives %v\n\twant it at %q of layer.yaml", c.new, e, c.at)
			}
			contains(t, e.Error(), strings.Split(c.says, "|")...)
		}
	}
}

// What a bundle says of its surface.
func TestSurfaceRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []refusal{
		{`"connector": "net"`, `"connector": ""`, "/tools/page.get/connector", "1 to 64 of"},
		{`"connector": "net"`, `"connector": null`, "/tools/page.get/connector", "null"},
		{`"connector": "net"`, `"connectors": "net"`, "/tools/page.get/connectors", "did you mean connector?"},
		{`"egress": true`, `"egress": "true"`, "/tools/page.get/egress", "true or false"},
		{`"trusted": false`, `"trusted": "no"`, "/tools/page.get/trusted", "true or false"},
		{`"sandbox": "wasi-strict"`, `"sandbox": ""`, "/tools/note.put/sandbox", "1 to 128 bytes"},
		{`"sandbox": "wasi-strict"`, `"sandbox": true`, "/tools/note.put/sandbox", "a boolean"},
		{`"labels": ["web", "pii"]`, `"labels": "web"`, "/tools/page.get/labels", "not a list"},
		{`"labels": ["web", "pii"]`, `"labels": ["web", "web"]`, "/tools/page.get/labels/1", "twice"},
		{`"labels": ["web", "pii"]`, `"labels": ["web", "pi"]`, "/tools/page.get/labels/1",
			`no document of the stack declares the label "pi"|did you mean pii?`},
		{`"labels": ["web", "pii"]`, `"labels": ["secret"]`, "/tools/page.get/labels/0",
			`declares the label "secret"|declare it under labels`},
		{`"labels": ["web"]`, `"labels": ["wbe"]`, "/tools/page.get/labels/0",
			`declares the label "web"|did you mean wbe?`},
		{`"labels": ["web"]`, `"labels": []`, "/labels", "a list of 0"},
	} {
		require.Contains(t, house, c.old, "%q is not in the house", c.old)
		e := mustRefuse(t, document(t, "house.yaml", strings.Replace(house, c.old, c.new, 1)),
			document(t, "", floor("labels", labelled)))
		if e.Pointer != c.at || e.Document != "house.yaml" || e.Remedy == "" {
			t.Errorf("%s\n\tgives %v\n\twant it at %q", c.new, e, c.at)
		}
		contains(t, e.Error(), strings.Split(c.says, "|")...)
	}
	// the floor declared it
	contains(t, mustRefuse(t, document(t, "house.yaml", house)).Error(), `declares the label "pii"`)
}

// Names are given once in each layer, and errors come in an order that is not that of the
// documents.
func TestLayerStackRefusals(t *testing.T) {
	t.Parallel()
	labels := document(t, "", floor("labels", labelled))
	bundle := document(t, "house.yaml", house)
	for _, make := range []func(name, keys string) string{floor, overlay} {
		a, b := document(t, "a.yaml", make("x", ``)), document(t, "b.yaml", make("x", `,"only":"*"`))
		for _, docs := range [][]contracts.Document{{a, b, bundle, labels}, {labels, b, bundle, a}} {
			e := mustRefuse(t, docs...)
			contains(t, e.Error(), "b.yaml: /name: a second P", `document "x"`)
		}
	}
	_, err := Compile(bundle, labels, document(t, "", floor("house", ``)), document(t, "", overlay("house", ``)))
	assert.NoError(t, err, "one name in three layers")
	// A bundle that is wrong is reported before the floor that can, for that, not find its tool;
	// and a floor before an overlay.
	wrong := document(t, "house.yaml", strings.Replace(house, `"mail.send": {"effect": "write"`,
		`"mail.sent": {"effekt": "write"`, 1))
	over := document(t, "over.yaml", overlay("x", `,"only":["nope"]`))
	under := document(t, "under.yaml", floor("x", `,"only":["nope"]`))
	for _, docs := range [][]contracts.Document{{over, under, wrong, labels}, {wrong, labels, over, under}} {
		contains(t, mustRefuse(t, docs...).Error(), "house.yaml: /tools/mail.sent/effekt")
	}
	for _, docs := range [][]contracts.Document{{over, under, bundle, labels}, {bundle, labels, over, under}} {
		contains(t, mustRefuse(t, docs...).Error(), "under.yaml: /only/0")
	}
}

// A rule about several tools needs absent if one of them may lack the value, and may have it then
// although another never does.
func TestAbsentOfSeveralTools(t *testing.T) {
	t.Parallel()
	base := bundle("b", toolText("always", `"v":{"type":"string"}`, "v")+","+toolText("maybe", `"v":{"type":"string"}`),
		`{"id":"all","allow":["always","maybe"]}`)
	for _, text := range []string{
		floor("f", `,"rules":[{"id":"r","deny":"*","when":{"arg":"/v","eq":"x","absent":true}}]`),
		floor("f",
			`,"rules":[{"id":"r","deny":"*","unless":{"arg":"/v","exists":true}},{"id":"s","deny":"*","when":{"arg":"/v","eq":"x","absent":false}}]`),
	} {
		p := mustCompile(t, base, text)
		for _, c := range []struct {
			tool, args string
			deny       bool
		}{{"always", `{"v":"x"}`, true}, {"always", `{"v":"y"}`, false}, {"maybe", `{"v":"x"}`, true},
			{"maybe", `{"v":"y"}`, false}, {"maybe", `{}`, true}} {
			if r, why := p.Judge(inputs(t, c.tool, c.args),
				nil); (r.Reason == contracts.ReasonCeilingViolation) != c.deny || bool(r.Verdict) == c.deny {
				t.Errorf("%s of %s: %v (%s)", c.args, c.tool, r.Reason, why)
			}
		}
	}
	for pred, says := range map[string]string{
		`{"arg":"/v","eq":"x"}`:                    "may be missing or null in a call of maybe",
		`{"arg":"/v","exists":true}`:               "",
		`{"arg":"/v","exists":true,"absent":true}`: "never missing",
	} {
		docs := []contracts.Document{document(t, "", base), document(t, "",
			floor("f", `,"rules":[{"id":"r","deny":["always","maybe"],"when":`+pred+`}]`))}
		if says == "" {
			_, err := Compile(docs...)
			assert.NoError(t, err)
			continue
		}
		contains(t, mustRefuse(t, docs...).Error(), says)
	}
}

// A pattern that stands in a list again is refused, and not followed: 20,000 of them over 1,000
// tools would be 20 million tools.
func TestPatternTwice(t *testing.T) {
	t.Parallel()
	var tools []string
	for i := range 1000 {
		tools = append(tools, toolText(fmt.Sprintf("t%d", i), ``))
	}
	base := document(t, "", bundle("b", strings.Join(tools, ","), ``))
	list := `"*"` + strings.Repeat(`,"*"`, 20_000)
	for _, keys := range []string{`,"only":[` + list + `]`, `,"rules":[{"id":"a","deny":[` + list + `]}]`} {
		var before, after runtime.MemStats
		doc := document(t, "", floor("f", keys))
		runtime.ReadMemStats(&before)
		_, err := Compile(base, doc)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "twice") {
			t.Fatalf("%v", err)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 64 {
			t.Errorf("%.20s: %d MiB to refuse %d KiB", keys, n, len(doc.Canonical)>>10)
		}
	}
}
