package guardian

import (
	"errors"
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
	"sandboxes": {"wasi": {"memory": "1MiB"}},
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

func TestLayerRefusals(t *testing.T) {
	t.Parallel()
	both := readRefusals(t, "layer_refusals", 56)
	overlays := append(readRefusals(t, "overlay_refusals", 15), refusal{`"caller": "ann"`,
		`"caller": "` + strings.Repeat("a", 257) + `"`, "/for/caller", "1 to 256 bytes"})
	for _, layer := range []struct {
		good string
		own  []refusal
	}{{goodFloor, readRefusals(t, "floor_refusals", 45)}, {goodOverlay, overlays}} {
		compile := func(text string) (*Policy, error) {
			return Compile(document(t, "layer.yaml", text), document(t, "house.yaml", house),
				document(t, "", floor("labels", labelled)))
		}
		if _, err := compile(layer.good); err != nil { // or the refusals would prove nothing
			t.Fatal(err)
		}
		for _, c := range append(layer.own, both...) {
			require.Contains(t, layer.good, c.old, "%q is not in the good document", c.old)
			p, err := compile(strings.Replace(layer.good, c.old, c.new, 1))
			var e *LoadError
			if !errors.As(err, &e) || p != nil {
				t.Errorf("%s\n\tgives %v", c.new, err)
				continue
			}
			assert.True(t, e.Pointer == c.at && e.Document == "layer.yaml" && e.Remedy != "",
				"%s\n\tgives %v\n\twant it at %q of layer.yaml", c.new, e, c.at)
			contains(t, e.Error(), strings.Split(c.says, "|")...)
		}
	}
}

// What a bundle says of its surface.
func TestSurfaceRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range readRefusals(t, "surface_refusals", 13) {
		require.Contains(t, house, c.old, "%q is not in the house", c.old)
		e := mustRefuse(t, document(t, "house.yaml", strings.Replace(house, c.old, c.new, 1)),
			document(t, "", floor("labels", labelled)))
		assert.True(t, e.Pointer == c.at && e.Document == "house.yaml" && e.Remedy != "",
			"%s\n\tgives %v\n\twant it at %q", c.new, e, c.at)
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
			r, why := p.judged(inputs(t, c.tool, c.args), nil)
			assert.True(t, (r.Reason == contracts.ReasonCeilingViolation) == c.deny && bool(r.Verdict) != c.deny,
				"%s of %s: %v (%s)", c.args, c.tool, r.Reason, why)
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
func TestPatternTwice(t *testing.T) { // alone: it counts what the process allocates
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
		require.True(t, err != nil && strings.Contains(err.Error(), "twice"), "%v", err)
		n := (after.TotalAlloc - before.TotalAlloc) >> 20
		assert.True(t, n <= 64, "%.20s: %d MiB to refuse %d KiB", keys, n, len(doc.Canonical)>>10)
	}
}
