package guardian

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// A knowing past also knows what the user said, what facts there are, and the marks of the session.
type knowing struct {
	*told
	t         testing.TB
	texts     []string
	documents map[string][]string         // facts, by tool
	of        map[contracts.Digest]string // facts of receipts; "" is none
	tainted   bool
	labels    []string
	fails     map[string]bool // what cannot be read: user, the facts of a tool, receipt, marks
	panics    map[string]bool // sources that panic if they are asked for a value
	bytes     map[string]int  // of texts, by source
	full      map[string]bool
	questions []string
}

func newKnowing(t testing.TB) *knowing {
	return &knowing{told: newTold(), t: t, documents: map[string][]string{}, of: map[contracts.Digest]string{},
		fails: map[string]bool{}, panics: map[string]bool{}, bytes: map[string]int{}, full: map[string]bool{}}
}

// looked notes a run of a tool whose output had these facts.
func (k *knowing) looked(n int, tool, args, facts string, at contracts.Time) {
	k.ran(k.t, n, tool, args, at)
	k.of[crypto.Sum([]byte{byte(n), byte(n >> 8)})] = facts
	if facts != "" {
		k.documents[tool] = append(k.documents[tool], facts)
	}
}

func (k *knowing) Facts(r *contracts.PriorReceipt) (crypto.Value, error) {
	k.questions = append(k.questions, "facts "+r.Tool)
	require.NotNil(k.t, r.Entry)
	facts := k.of[*r.Entry]
	switch {
	case k.fails["receipt"]:
		return crypto.Value{}, errUntold
	case facts == "":
		return crypto.Value{}, nil
	}
	v, err := contracts.ParseFacts(canonical(k.t, facts))
	require.NoError(k.t, err)
	return v, nil
}

func (k *knowing) Marks() (bool, []string, error) {
	k.questions = append(k.questions, "marks")
	if k.fails["marks"] {
		return false, nil, errUntold
	}
	return k.tainted, k.labels, nil
}

func (k *knowing) Source(s past.Source) (past.Supply, error) {
	name, said := "user", k.texts
	if s.Tool != "" {
		require.NotNil(k.t, s.Declared)
		name, said = s.Tool+" "+s.Fact, k.documents[s.Tool]
	}
	k.questions = append(k.questions, name)
	if k.fails[name] || k.fails[s.Tool] {
		return past.Supply{}, errUntold
	}
	x := past.Supply{Count: uint64(len(said)), Full: k.full[name], Bytes: k.bytes[name]}
	for _, text := range said {
		d := crypto.Sum([]byte(text))
		x.State = crypto.Sum(append(x.State[:], d[:]...))
	}
	x.Values = holding{k, name, s.Fact, said}
	return x, nil
}

// A holding is what a source said: texts that have a value somewhere, or documents that list it.
type holding struct {
	k          *knowing
	name, fact string
	said       []string
}

func (h holding) Has(v crypto.Value) bool {
	if h.k.panics[h.name] {
		panic("a source")
	}
	return slices.ContainsFunc(h.said, func(text string) bool {
		if h.name == "user" {
			return strings.Contains(text, strings.Trim(string(v.Raw()), `"`))
		}
		values := valueOf(h.k.t, text).Get(h.fact)
		return slices.ContainsFunc(slices.Collect(values.Elements()), func(x crypto.Value) bool { return x.Equal(v) })
	})
}

// payee is a bundle of tools to pay and to look, with facts, and with these rules, requirements and
// budgets.
func payee(rules, requires, budgets string) string {
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"bank","version":1},"labels":["pii","web"],"lists":{"known":["kim"]},"tools":{
		"pay":{"effect":"write","input":{"type":"object","required":["to","sum","cc","any","id","rows"],"properties":{
			"to":{"type":"string"},"sum":{"type":"number"},"urgent":{"type":"boolean"},"note":{"type":"string"},"id":{"type":"integer"},"cc":{"type":"array","items":{"type":"string"}},
			"rows":{"type":"array","items":{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"sum":{"type":"number"}}}},
			"any":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"}]}}}},
		"look":{"effect":"read","input":{"type":"object","properties":{"id":{"type":"integer"}}},"output":{"type":"object","required":["to","sum","late","at","sums"],"properties":{
			"to":{"type":"string"},"sum":{"type":"number"},"late":{"type":"boolean"},"at":{"type":"string"},"memo":{"type":["string","null"]},"either":{"type":["string","number"]},
			"all":{"type":"array","items":{"type":"string"}},"sums":{"type":"array","items":{"type":"number"}},"flags":{"type":"array","items":{"type":"boolean"}},"maybe":{"type":["array","null"],"items":{"type":"string"}}}},
			"facts":{"to":{"at":"/to","trusted":true},"sum":{"at":"/sum","trusted":true},"late":{"at":"/late","trusted":true},"at":"/at","memo":"/memo","either":{"at":"/either","trusted":true},
				"all":{"at":"/all/*","trusted":true},"sums":"/sums/*","flags":"/flags/*","count":{"count":"/sums"},"maybes":{"count":"/maybe"}}},
		"book":{"effect":"read","trusted":true,"input":{"type":"object","properties":{}},"output":{"type":"array","items":{"type":"string"}},"facts":{"name":"/*"}},
		"read":{"effect":"read","input":{"type":"object","properties":{}}}},
		"rules":[` + rules + `{"id":"all","allow":["pay","look","book","read"]}],"requires":[` + requires + `],"budgets":[` + budgets + `]}`
}

const payBob = `{"to":"bob","sum":5,"cc":["bob","eve"],"any":"x","id":7,"rows":[{"to":"bob"},{"to":"eve","sum":1}]}`

const lookedAt = `{"/all/*":["bob","kim"],"/at":["2026-07-15T11:59:00Z"],"/either":[5],"/flags/*":[true],"/late":[false],"/memo":[],"/sum":[5],"/sums/*":[5,6],"/to":["bob"],"count:/maybe":[],"count:/sums":[2]}`
