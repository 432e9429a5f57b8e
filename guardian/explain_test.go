package guardian

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

var compared atomic.Int64 // judgements, with what Explain returns

// judged is what the tests of this package call in place of Judge. One in eight calls is explained,
// too: most of them are of random policies, by the thousand.
func (p *Policy) judged(in contracts.Inputs, trust *registry.State) (contracts.DecisionRecord, Why) {
	if compared.Add(1)%8 == 0 {
		return p.judgedAlike(in, trust)
	}
	return p.Judge(in, trust)
}

// judgedAlike is Judge for inputs that are explained, too: those of the fuzz corpora and of tables.
// It panics if Explain does not return what Judge does, or if a step has no place in the documents.
func (p *Policy) judgedAlike(in contracts.Inputs, trust *registry.State) (contracts.DecisionRecord, Why) {
	r, why := p.Judge(in, trust)
	again, whyAgain, trace := p.Explain(in, trust, ExplainOptions{Values: compared.Add(1)%2 == 0})
	if !reflect.DeepEqual(r, again) || !reflect.DeepEqual(why, whyAgain) {
		panic(fmt.Sprintf("Judge: %+v %+v\nExplain: %+v %+v", r, why, again, whyAgain))
	}
	if len(trace) == 0 || compared.Load()%16 != 0 {
		return r, why
	}
	docs := map[string]crypto.Value{}
	for _, d := range p.stack.Documents {
		var tree crypto.Tree
		if err := tree.Parse(d.Canonical, crypto.Limits{Bytes: len(d.Canonical), Depth: 128}); err != nil {
			panic(err)
		}
		docs[d.Name] = tree.Root()
	}
	unique := len(docs) == len(p.stack.Documents)
	for _, s := range trace {
		segments, ok := value.SplitPointer(s.Pointer)
		if _, known := docs[s.Document]; !ok || !known ||
			unique && value.Follow(docs[s.Document], segments).Kind() == crypto.Missing {
			panic(fmt.Sprintf("%+v is nowhere in the documents", s))
		}
		if s.Condition < 2 || s.Condition > max(r.Condition, 8) {
			panic(fmt.Sprintf("%+v at condition %d", s, r.Condition))
		}
	}
	return r, why
}

// written is a trace as text, without what every line would repeat.
func written(trace Trace) string {
	var b strings.Builder
	for _, s := range trace {
		fmt.Fprintf(&b, "%d %s %s %s %v", s.Condition, s.Document, s.Rule, s.Pointer, s.Result)
		for _, x := range s.Reads {
			fmt.Fprintf(&b, " [%s %s %s]", x.Pointer, x.Type, x.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func explainedText(t *testing.T, p *Policy, in contracts.Inputs, values bool) string {
	t.Helper()
	_, _, trace := p.Explain(in, nil, ExplainOptions{values})
	return written(trace)
}

const traced = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},
	"tools":{"pay":{"effect":"write","limits":{"args":"1KiB"},
		"scope":[{"arg":"/to","email":["corp.com"]},{"arg":"/cc/*","host":["a.org"],"absent":true}],
		"input":{"type":"object","required":["to","sum"],"properties":{"to":{"type":"string"},"sum":{"type":"number"},
			"cc":{"type":"array","items":{"type":"string"}},"note":{"type":"string"}}}}},
	"rules":[
		{"id":"some","deny":"pay","when":{"some":"/cc","that":{"eq":"c.org"},"absent":false}},
		{"id":"no","deny":"pay","unless":{"any":[{"arg":"/sum","lt":9},{"caller":"roles","has":"boss"}]}},
		{"id":"yes","allow":"pay","when":{"all":[{"caller":"id","eq":"ann","absent":false},{"not":{"arg":"/note","exists":true}}]}}],
	"requires":[{"id":"early","tools":"pay","when":{"arg":"/sum","gt":99},"all":[{"approval":{"roles":["owner"]}}]},
		{"id":"asked","tools":"pay","any":[{"attestation":{"type":"x","max_age":"1h"}},{"approval":{"roles":["owner"]}}]}],
	"budgets":[{"id":"day","tools":"pay","limit":9,"per":"all","window":"day","cost":{"arg":"/sum"}}]}`

// A trace has each thing that was evaluated, in its place, and nothing else.
func TestExplainSteps(t *testing.T) {
	t.Parallel()
	docs := []contracts.Document{
		document(t, "b.yaml", traced),
		document(t, "f.yaml", floor("f", `,"ceilings":{"risk":"high","depth":2,"args":"64KiB"},"only":"pay","rules":[{"id":"x","deny":"pay","when":{"time":"utc","in":["Sat 00:00-24:00"]}}]`)),
		document(t, "g.yaml", floor("g", `,"ceilings":{"calls":3},"expires":"2099-01-01T00:00:00Z"`)),
		document(t, "o.yaml", overlay("o", `,"for":{"session":"chat"},"only":"pay"`)),
		document(t, "z.yaml", overlay("z", `,"for":{"session":"other"},"only":"pay"`)),
	}
	p, err := Compile(docs...)
	require.NoError(t, err)
	in := inputs(t, "pay", `{"cc":["a.org","x.a.org"],"sum":5,"to":"bob@corp.com"}`)
	in.Session = "chat"
	past := newTold()
	record, _ := judgeBy(p, &in, nil, past)
	require.Equal(t, contracts.ReasonDestinationNotAllowed, record.Reason)
	before := "2 b.yaml  /tools/pay/limits/args true\n2 b.yaml P1:b:scope /tools/pay/scope/0 true [/to string %s]\n"
	assert.Equal(t, fmt.Sprintf(before, "")+"2 b.yaml P1:b:scope /tools/pay/scope/1 false [/cc/* string ] [/cc/* string ] [/cc array ]\n",
		explainedText(t, p, in, false))

	in = inputs(t, "pay", `{"cc":["a.org"],"sum":5,"to":"bob@corp.com"}`)
	in.Session = "chat"
	record, _ = judgeBy(p, &in, nil, past)
	require.Equal(t, contracts.ReasonApprovalRequired, record.Reason)
	assert.Equal(t, fmt.Sprintf(before, `"bob@corp.com"`)+
		`2 b.yaml P1:b:scope /tools/pay/scope/1 true [/cc/* string "a.org"] [/cc array ["a.org"]]
3 b.yaml P1:b:day /budgets/0 true
4 b.yaml P1:b:early /requires/0/when false [/sum number 5]
4 b.yaml P1:b:asked /requires/1 false
4 b.yaml P1:b:asked /requires/1/any/0 false
5 b.yaml P1:b:some /rules/0 false
5 b.yaml P1:b:some /rules/0/when false [/cc array ["a.org"]]
5 b.yaml P1:b:some /rules/0/when/that false [/cc/* string "a.org"]
5 b.yaml P1:b:no /rules/1 false
5 b.yaml P1:b:no /rules/1/unless true
5 b.yaml P1:b:no /rules/1/unless/any/0 true [/sum number 5]
5 b.yaml P1:b:yes /rules/2 true
5 b.yaml P1:b:yes /rules/2/when true
5 b.yaml P1:b:yes /rules/2/when/all/0 true [caller id string "ann"]
5 b.yaml P1:b:yes /rules/2/when/all/1 true
5 b.yaml P1:b:yes /rules/2/when/all/1/not false [/note missing ]
5 o.yaml P2:o:only /only true
8 f.yaml P0:f:ceilings /ceilings/risk true
8 f.yaml P0:f:x /rules/0 false
8 f.yaml P0:f:x /rules/0/when false [time string "2026-07-15T12:00:00.000Z"]
8 f.yaml P0:f:only /only true
8 g.yaml P0:g:ceilings /ceilings/calls true
8 g.yaml P0:g:expires /expires true
4 b.yaml P1:b:asked /requires/1/any/1 false
`, explainedText(t, p, in, true))

	narrowed, err := mustCompile(t, traced, floor("f", `,"only":"pay"`)).Narrow(document(t, "n.yaml",
		overlay("n", `,"only":"pay","rules":[{"id":"n","deny":"pay","when":{"arg":"/sum","ge":5}}]`)))
	require.NoError(t, err)
	assert.Contains(t, explainedText(t, narrowed, in, false),
		"5 n.yaml P2:n:n /rules/0 true\n5 n.yaml P2:n:n /rules/0/when true [/sum number ]\n")
	assert.NotContains(t, explainedText(t, narrowed, in, false), "only", "it denies before")
}

// What ends a judgement ends its trace, and a step that was begun only is not in it.
func TestExplainEnds(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, traced)
	assert.Empty(t, explainedText(t, p, inputs(t, "nobody", `{}`), true), "a refusal before anything is evaluated")
	in := inputs(t, "pay", `{"sum":50,"to":"bob@corp.com"}`)
	text := explainedText(t, p, in, true)
	assert.True(t, strings.HasSuffix(text, "3  P1:b:day /budgets/0 error\n"), "no balance in the inputs: %s", text)
	record, _ := judgeBy(p, &in, nil, newTold())
	require.Equal(t, contracts.ReasonBudgetExceeded, record.Reason)
	text = explainedText(t, p, in, true)
	assert.True(t, strings.HasSuffix(text, "3  P1:b:day /budgets/0 false\n"), text)
	var none *Policy
	_, why, trace := none.Explain(in, nil, ExplainOptions{})
	assert.Empty(t, trace)
	assert.Equal(t, "no bundle declares the tool", why.What)
}

// An error is a step, and with it the trace ends.
func TestExplainError(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bundle("b", toolText("t", `"path":{"type":"string"}`, "path"),
		`{"id":"a","allow":"t","when":{"any":[{"not":{"arg":"/path","within":"/srv"}},{"arg":"/path","eq":"x"}]}}`))
	assert.Equal(t, `5  P1:b:a /rules/0 error
5  P1:b:a /rules/0/when error
5  P1:b:a /rules/0/when/any/0 error
5  P1:b:a /rules/0/when/any/0/not error [/path string "rel"]
`, explainedText(t, p, inputs(t, "t", `{"path":"rel"}`), true))
}

// What is asked of receipts, facts and sources is read as it was recorded.
func TestExplainPast(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bankText(`{"id":"x","tools":["pay"],"when":{"session":"calls","of":"look","lt":9},"all":[{"receipt":"look","same":{"/payee":"/to"}}]}`,
		`,"budgets":[{"id":"b","tools":["pay"],"limit":9,"per":"session","window":"total","cost":1,"unless":{"receipt":"pay"}}]`))
	in := inChat(t, "pay", toBob)
	past := newTold()
	past.ran(t, 0, "look", `{"payee":"bob"}`, noon)
	record, _ := judgeBy(p, &in, nil, past)
	require.Equal(t, contracts.ReasonAllow, record.Reason)
	text := explainedText(t, p, in, true)
	assert.Contains(t, text, "P1:bank:b /budgets/0/unless false [receipt pay  ]\n")
	assert.Contains(t, text, "P1:bank:x /requires/0/when true [session calls of look number 1]\n")
	assert.Contains(t, text, "P1:bank:x /requires/0/all/0 true [receipt look  ]\n")
	assert.Contains(t, text, "4  P1:bank:x /requires/0 true\n")
}

func TestTraceNearest(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bundle("b", toolText("t", `"a":{"type":"number"},"b":{"type":"number"}`, "a", "b"), `
		{"id":"deny","deny":"t","when":{"all":[{"arg":"/a","ge":0},{"arg":"/b","ge":0},{"arg":"/a","gt":50}]}},
		{"id":"one","allow":"t","when":{"all":[{"arg":"/a","gt":1},{"arg":"/b","gt":9}]}},
		{"id":"also","allow":"t","when":{"all":[{"arg":"/a","gt":2},{"arg":"/b","gt":8}]}},
		{"id":"deep","allow":"t","when":{"all":[{"all":[{"arg":"/a","gt":3},{"arg":"/b","gt":3}]},{"arg":"/b","gt":7}]}},
		{"id":"not","allow":"t","when":{"arg":"/a","gt":4},"unless":{"any":[{"arg":"/b","lt":3},{"arg":"/b","lt":6}]}}`))
	for _, c := range []struct {
		args, rule string
		ok         bool
	}{
		{`{"a":0,"b":0}`, "P1:b:one", true},
		{`{"a":2,"b":0}`, "P1:b:one", true},
		{`{"a":3,"b":0}`, "P1:b:one", true}, // also has one, too, and comes later
		{`{"a":4,"b":5}`, "P1:b:deep", true},
		{`{"a":9,"b":2}`, "P1:b:one", true},
		{`{"a":9,"b":7}`, "", false},  // allowed
		{`{"a":60,"b":0}`, "", false}, // denied by a rule
	} {
		_, _, trace := p.Explain(inputs(t, "t", c.args), nil, ExplainOptions{})
		rule, ok := trace.Nearest()
		assert.Equal(t, c.rule, rule, c.args)
		assert.Equal(t, c.ok, ok, c.args)
	}
	_, ok := Trace(nil).Nearest()
	assert.False(t, ok)
}

// Without Values a trace has no value of a call, in text or JSON; with them it has.
func TestExplainHidesValues(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	p := mustCompile(t, traced)
	words := bundle("w", toolText("put", `"a":{"type":"string"},"b":{"type":"array","items":{"type":"string"}},"c":{"type":"object","properties":{"d":{"type":"string"}},"required":["d"]}`, "a", "b", "c"), `
		{"id":"eq","deny":"put","when":{"any":[{"arg":"/a","eq":"x"},{"arg":"/c/d","finds":"^x$"},{"arg":"/a","eq":{"arg":"/c/d"}}]}},
		{"id":"each","deny":"put","when":{"every":"/b","that":{"in":["x","y"]}}},
		{"id":"err","deny":"put","when":{"arg":"/a","prefix":"cidr"},"unless":{"arg":"/c/d","cidr":"10.0.0.0/8"}},
		{"id":"yes","allow":"put","when":{"caller":"id","ne":{"arg":"/a"},"absent":false}}`)
	q := mustCompile(t, words)
	r, shown := rand.New(rand.NewPCG(3, 4)), 0
	for range rounds(10_000) {
		secret := fmt.Sprintf("s3cr3t%x", r.Uint64())
		in := inputs(t, "put", fmt.Sprintf(`{"a":%q,"b":["x",%q],"c":{"d":%q}}`, secret, secret, secret))
		of := q
		if r.IntN(2) == 0 {
			of, in = p, inputs(t, "pay", fmt.Sprintf(`{"cc":[%q],"sum":5,"to":%q}`, secret, secret))
		}
		in.Caller.ID = secret + "c"
		for _, values := range []bool{false, true} {
			_, why, trace := of.Explain(in, nil, ExplainOptions{values})
			b, err := json.Marshal(trace)
			require.NoError(t, err)
			text := fmt.Sprintf("%s %+v %s %v", b, trace, written(trace), why)
			if !values {
				require.NotContains(t, text, "s3cr3t")
			} else if strings.Contains(text, secret) {
				shown++
			}
		}
	}
	assert.Equal(t, rounds(10_000), shown, "or the test would prove nothing")
}

// The JSON of a trace is for other programs.
func TestTraceJSON(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bundle("b", toolText("t", `"a":{"type":"number"}`, "a"), `{"id":"x","allow":"t","when":{"arg":"/a","gt":1}}`))
	_, _, trace := p.Explain(inputs(t, "t", `{"a":2}`), nil, ExplainOptions{Values: true})
	b, err := json.Marshal(trace)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"condition":5,"document":"","rule":"P1:b:x","pointer":"/rules/0","result":"true"},
		{"condition":5,"document":"","rule":"P1:b:x","pointer":"/rules/0/when","result":"true",
			"reads":[{"pointer":"/a","type":"number","value":2}]}]`, string(b))
}

// Explain must not change what later judgements return: what it looked at is looked up in the same
// scratch memory.
func TestExplainLeavesNothing(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	p := mustCompile(t, thousand(2), ungated)
	in := inputs(t, "t", `{"path":"/srv/data/report.txt","n":7}`)
	r, why := p.Judge(in, nil)
	for range 100 {
		_, _, trace := p.Explain(in, nil, ExplainOptions{Values: true})
		require.True(t, len(trace) > 3000, len(trace))
		again, whyAgain := p.Judge(in, nil)
		require.Equal(t, r, again)
		require.Equal(t, why, whyAgain)
	}
}

// BenchmarkExplain is Explain and Judge in turn, over 1,000 rules of which the last matches.
func BenchmarkExplain(b *testing.B) {
	for _, tests := range []int{1, 2} {
		b.Run(fmt.Sprint(tests, "tests"), func(b *testing.B) {
			p := mustCompile(b, thousand(tests), ungated)
			in := inputs(b, "t", `{"path":"/srv/data/report.txt","n":7}`)
			least := [2]time.Duration{1 << 62, 1 << 62}
			for b.Loop() {
				start := time.Now()
				p.Judge(in, nil)
				middle := time.Now()
				_, _, trace := p.Explain(in, nil, ExplainOptions{})
				least[0], least[1] = min(least[0], middle.Sub(start)), min(least[1], time.Since(middle))
				if len(trace) < 2000 {
					b.Fatal(len(trace))
				}
			}
			b.ReportMetric(float64(least[0]), "ns/judged")
			b.ReportMetric(float64(least[1]), "ns/explained")
			b.ReportMetric(float64(least[1])/float64(least[0]), "x/judged")
		})
	}
}
