package conformance

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/vectorfile"
)

// What the policies are made of: a floor, a bundle and an overlay.
const (
	vectorFloor = `{"ceilings":{"risk":"high"},"helm":"policy/v1","layer":"P0","name":"house",
"rules":[{"deny":"*","id":"blocked","when":{"caller":"roles","has":"blocked"}}],"version":1}
`
	vectorBundle = `{"budgets":[{"cost":{"arg":"/amount","scale":2},"id":"daily","limit":100000,"per":"caller",
"tools":["pay"],"window":"day"}],
"bundle":{"name":"bank","version":3},
"helm":"policy/v1",
"layer":"P1",
"lists":{"known":["DE1","DE2"]},
"requires":[{"all":[{"approval":{"roles":["owner"],"quorum":1,"ttl":"1h"}}],"id":"yes","tools":["pay"],
"when":{"arg":"/amount","gt":500}},
{"any":[{"receipt":"look","max_age":"30m"}],"id":"looked","tools":["pay"]}],
"rules":[
{"deny":"pay","id":"too-much","when":{"arg":"/amount","gt":1000}},
{"allow":["look","pay"],"id":"clerks","when":{"all":[{"caller":"roles","has":"clerk"},{"absent":false,"caller":"tenant","eq":"acme"}]}}],
"tools":{
"look":{"effect":"read","input":{"properties":{},"type":"object"}},
"pay":{"effect":"write","input":{"properties":{"amount":{"minimum":0,"type":"number"},"to":{"type":"string"}},
"required":["amount","to"],"type":"object"},
"limits":{"timeout":"10s"},"output":{"type":"object"},"risk":"high","scope":[{"arg":"/to","in":["DE1","DE2"]}]}}}
`
	vectorOverlay = `{"for":{"session":"s"},"helm":"policy/v1","layer":"P2","name":"task","only":["look"],"rules":[],"version":1}
`
)

// A spoiling replaces a part of the bundle, and says where the fault is then. With "-" there is
// none.
type spoiling struct{ about, old, new, at string }

var spoilings = []spoiling{
	{"another version of the bundle", `"version":3`, `"version":4`, "-"},
	{"keys in another order, and white space", `"helm":"policy/v1",
"layer":"P1",`, `"layer" :"P1", "helm": "policy/v1",`, "-"},
	{"a number in another form", `"gt":1000`, `"gt":1e3`, "-"},
	{"another format", "policy/v1", "policy/v2", "/helm"},
	{"no such layer", `"P1"`, `"P3"`, "/layer"},
	{"a version of 0", `"version":3`, `"version":0`, "/bundle/version"},
	{"a bundle's name with a colon", `"bank"`, `"ba:nk"`, "/bundle/name"},
	{"an unknown key", `"lists":{`, `"listss":{},"lists":{`, "/listss"},
	{"an unknown key in a rule", `"id":"too-much"`, `"id":"too-much","whenn":true`, "/rules/0/whenn"},
	{"a rule without an id", `"deny":"pay","id":"too-much",`, `"deny":"pay",`, "/rules/0"},
	{"an id twice", `"id":"clerks"`, `"id":"too-much"`, "/rules/1/id"},
	{"an id that is a word of the format", `"id":"clerks"`, `"id":"scope"`, "/rules/1/id"},
	{"a rule about no tool", `"deny":"pay"`, `"deny":"pays"`, "/rules/0/deny"},
	{"a rule that allows and denies", `"deny":"pay"`, `"allow":"pay","deny":"pay"`, "/rules/0"},
	{"a pointer that the input does not declare", `{"arg":"/amount","gt":1000}`, `{"arg":"/amounts","gt":1000}`,
		"/rules/0/when/arg"},
	{"an operator of another type", `"gt":1000`, `"gt":"1000"`, "/rules/0/when/gt"},
	{"an unknown operator", `{"arg":"/amount","gt":1000}`, `{"arg":"/amount","more":1000}`, "/rules/0/when/more"},
	{"two operators", `{"arg":"/amount","gt":1000}`, `{"arg":"/amount","gt":1000,"lt":5}`, "/rules/0/when/gt"},
	{
		"an empty conjunction",
		`{"all":[{"caller":"roles","has":"clerk"},{"absent":false,"caller":"tenant","eq":"acme"}]}`,
		`{"all":[]}`,
		"/rules/1/when/all",
	},
	{"a budget without a limit", `"limit":100000,`, ``, "/budgets/0"},
	{"a budget with an unknown window", `"window":"day"`, `"window":"fortnight"`, "/budgets/0/window"},
	{"a quorum of 0", `"quorum":1`, `"quorum":0`, "/requires/0/all/0/approval/quorum"},
	{"no effect", `"effect":"read",`, ``, "/tools/look"},
	{"an unknown effect", `"effect":"read"`, `"effect":"reads"`, "/tools/look/effect"},
	{"a schema with an unknown keyword", `"minimum":0`, `"minimal":0`, "/tools/pay/input/properties/amount/minimal"},
	{"a required property that is not declared", `"required":["amount","to"]`, `"required":["amount","two"]`,
		"/tools/pay/input/required"},
	{"a time limit of no unit", `"timeout":"10s"`, `"timeout":"10"`, "/tools/pay/limits/timeout"},
	{"a risk below the effect's", `"risk":"high"`, `"risk":"none"`, "/tools/pay/risk"},
}

// policyVectors are stacks, whole and with one fault.
func policyVectors(t *testing.T) (cases []vectorfile.Case) {
	add := func(about, at string, docs ...string) {
		files := map[string][]byte{}
		var list []contracts.Document
		for i, d := range docs {
			var tree crypto.Tree
			require.NoError(t, tree.Parse([]byte(d), crypto.Limits{Bytes: len(d), Depth: 128}), about)
			name := fmt.Sprint(i+1, ".json")
			files[name] = []byte(d)
			list = append(list, contracts.Document{Name: name, Canonical: tree.Root().Append(nil)})
		}
		_, err := guardian.Compile(list...)
		var fault *guardian.LoadError
		switch {
		case at == "-":
			assert.NoError(t, err, about)
		case errors.As(err, &fault):
			assert.Equal(t, at, fault.Pointer, "%s: %v", about, err)
		default:
			assert.Fail(t, "not refused", about)
		}
		cases = append(cases, vectorfile.Case{About: about, Files: files})
	}
	add("a bundle", "-", vectorBundle)
	add("floor and bundle", "-", vectorFloor, vectorBundle)
	add("floor, bundle, overlay", "-", vectorFloor, vectorBundle, vectorOverlay)
	for _, s := range spoilings {
		require.Equal(t, 1, strings.Count(vectorBundle, s.old), s.about)
		add(s.about, s.at, strings.Replace(vectorBundle, s.old, s.new, 1))
	}
	add(
		"a floor that allows",
		"/rules/0/allow",
		strings.Replace(vectorFloor, `"deny":"*"`, `"allow":"*"`, 1),
		vectorBundle,
	)
	add("an overlay that allows", "/rules/0/allow", vectorBundle,
		strings.Replace(vectorOverlay, `"rules":[]`, `"rules":[{"allow":"pay","id":"x"}]`, 1))
	add("an overlay for nobody", "/for", vectorBundle, strings.Replace(vectorOverlay, `{"session":"s"}`, `{}`, 1))
	add("a tool declared twice", "/tools/look", vectorBundle, strings.Replace(strings.Replace(vectorBundle, `"bank"`,
		`"bank2"`, 1), `"version":3`, `"version":1`, 1))
	return cases
}
