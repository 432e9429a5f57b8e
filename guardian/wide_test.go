package guardian

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// A wideGenerator makes stacks of everything that a document may say, calls by several callers
// under several chains of grants, and what is added to a stack.
type wideGenerator struct {
	stackGenerator
	state  *registry.State
	chains [][]contracts.Envelope
	forged []contracts.Envelope // which does not open
	words  []contracts.Envelope // of a notary, about numbers
}

func newWide(t testing.TB, seed uint64) *wideGenerator {
	g := &wideGenerator{stackGenerator: stackGenerator{generator{rand.New(rand.NewPCG(seed, seed+1))}},
		state: trusted(t)}
	g.forged = chained(t, contracts.Delegation{Delegator: "a stranger", Delegate: "ann", Only: []string{"t", "w"}})
	for _, n := range []string{"1", "2"} {
		e, err := contracts.Attestation{Claims: valueOf(t, `{"n":`+n+`}`), Time: noon,
			Type: "dual"}.Sign(keyOf(t, "notary"))
		require.NoError(t, err)
		g.words = append(g.words, e)
	}
	for range 40 {
		delegate := pick(g.generator, "ann", "bob", "agent", "agent")
		leaf := contracts.Delegation{Delegator: pick(g.generator, "ann", "ann", "bob", "carl"), Delegate: delegate,
			Only: pick(g.generator, []string{"t", "w"}, []string{"t", "w"}, []string{"w"})}
		if g.r.IntN(2) == 0 {
			leaf.When = valueOf(t, g.test())
		}
		grants := []contracts.Delegation{leaf}
		if g.r.IntN(3) == 0 {
			grants = append([]contracts.Delegation{{Delegator: "ann", Delegate: leaf.Delegator,
				Depth: uint64(g.r.IntN(4)), Only: []string{"t", "w"}}}, leaf)
		}
		g.chains = append(g.chains, chained(t, grants...))
	}
	return g
}

// test is a predicate about arguments, caller or time.
func (g *wideGenerator) test() string {
	switch g.r.IntN(8) {
	case 0:
		return `{"caller":"id","` + pick(g.generator, `eq":"ann"`, `ne":"agent"`, `prefix":"a"`) + g.absent() + `}`
	case 1:
		return `{"time":"utc","in":["` + pick(g.generator, "Wed 11:00-13:00", "Sat-Sun 00:00-24:00") + `"]}`
	}
	return g.predicate(1)
}

// seen is a test, which may be one of the session's past.
func (g *wideGenerator) seen(d doc) string {
	if g.r.IntN(6) > 0 {
		return g.test()
	}
	return pick(g.generator, `{"session":"calls","lt":6}`, `{"session":"calls","of":`+d.tool()+`,"gt":1}`, g.receipt(d),
		`{"not":`+g.receipt(d)+`}`)
}

func (g *wideGenerator) receipt(d doc) string {
	return `{"receipt":` + d.tool() + pick(g.generator, `}`, `,"same":["/r"]}`, `,"same":{"/n":"/n"},"max_age":"1h"}`)
}

func (g *wideGenerator) need(d doc) string {
	switch g.r.IntN(4) {
	case 0:
		return g.receipt(d)
	case 1:
		return pick(g.generator, `{"attestation":{"type":"dual","max_age":"1h"}}`,
			`{"attestation":{"type":"dual","max_age":"1h","bind":{"n":"/n"}}}`)
	}
	return `{"approval":{"roles":` + pick(g.generator, `["owner"]`, `["owner"]`, `["clerk"]`,
		`["cfo","owner"]`) + pick(g.generator, `}}`, `}}`, `,"quorum":2}}`, `,"ttl":"5m"}}`)
}

func (g *wideGenerator) requirement(d doc, id string) string {
	text := `{"id":"` + id + `","tools":` + d.own(g)
	if g.r.IntN(4) > 0 {
		text += pick(g.generator, `,"when":`, `,"unless":`) + g.seen(d)
	}
	text += pick(g.generator, `,"all":[`, `,"any":[`) + g.need(d)
	if g.r.IntN(2) == 0 {
		text += "," + g.need(d)
	}
	return text + `]}`
}

// A doc is a document to change.
type doc map[string]any

func read(t testing.TB, text string) (d doc) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return d
}

func (d doc) text() string { b, _ := json.Marshal(d); return string(b) }

// insert puts one more into a list of the document, at some place.
func (d doc) insert(t testing.TB, g *wideGenerator, key, text string) {
	list, _ := d[key].([]any)
	d[key] = slices.Insert(slices.Clone(list), g.r.IntN(len(list)+1), any(read(t, text)))
}

// own is what a document of that kind may select.
func (d doc) own(g *wideGenerator) string {
	if d["layer"] != "P1" {
		return pick(g.generator, `"t"`, `"*"`, `["t","w"]`, `{"effects":["read","write"]}`, `{"egress":true}`)
	}
	return d.tool()
}

// tool is one that the document knows.
func (d doc) tool() string {
	tools, _ := d["tools"].(map[string]any)
	for name := range tools { // a bundle has one
		return `"` + name + `"`
	}
	return `"t"`
}

func (g *wideGenerator) rule(d doc, id string) string {
	text := `{"id":"` + id + `","deny":` + d.own(g)
	if g.r.IntN(8) > 0 {
		text += `,"when":{"all":[` + g.seen(d) + `,` + g.test() + `]}`
	}
	if g.r.IntN(4) == 0 {
		text += `,"unless":` + g.seen(d)
	}
	return text + `}`
}

func (g *wideGenerator) budget(d doc, id string) string {
	text := fmt.Sprintf(`{"id":%q,"tools":%s,"limit":%d,"per":%s,"cost":%s,"window":%s`, id, d.own(g), g.r.IntN(30),
		pick(g.generator, `"all"`, `"caller"`, `"tenant"`, `"tool"`),
		pick(g.generator, `1`, `1`, `{"arg":"/n"}`, `{"arg":"/n","scale":1}`),
		pick(g.generator, `"hour"`, `"month"`, `"total"`))
	if g.r.IntN(2) == 0 {
		text += `,"when":` + g.seen(d)
	}
	return text + `}`
}

// stack is a random stack without the rest of what may be added to it.
func (g *wideGenerator) stack(t testing.TB) (docs []doc) {
	for _, text := range g.bundles() {
		docs = append(docs, read(t, text))
	}
	for i := range 1 + g.r.IntN(3) {
		name := fmt.Sprint("x", i)
		docs = append(docs, g.layer(t, pick(g.generator, g.floor(name), g.overlay(name))))
	}
	for i, d := range docs {
		if g.r.IntN(2) == 0 {
			d.insert(t, g, "budgets", g.budget(d, fmt.Sprint("b", i)))
		}
		if g.r.IntN(4) == 0 {
			d.insert(t, g, "requires", g.requirement(d, fmt.Sprint("q", i)))
		}
	}
	return docs
}

// layer is a random floor or overlay, of that text and more.
func (g *wideGenerator) layer(t testing.TB, text string) doc {
	d := read(t, text)
	if ceilings, ok := d["ceilings"].(map[string]any); ok && g.r.IntN(2) == 0 {
		ceilings["calls"] = 4
	}
	return d
}

// An addition is something more to deny by.
type addition struct {
	name string
	add  func(t testing.TB, g *wideGenerator, docs []doc) []doc
}

func into(key string, make func(g *wideGenerator, d doc, id string) string) func(t testing.TB, g *wideGenerator,
	docs []doc) []doc {
	return func(t testing.TB, g *wideGenerator, docs []doc) []doc {
		i := g.r.IntN(len(docs))
		d := doc{}
		for k, v := range docs[i] {
			d[k] = v
		}
		d.insert(t, g, key, make(g, d, "added"))
		docs[i] = d
		return docs
	}
}

var additions = []addition{
	{"floor", func(t testing.TB, g *wideGenerator, docs []doc) []doc {
		return append(docs, g.layer(t, g.floor("added")))
	}},
	{"overlay", func(t testing.TB, g *wideGenerator, docs []doc) []doc {
		return append(docs, g.layer(t, g.overlay("added")))
	}},
	{"deny", into("rules", (*wideGenerator).rule)},
	{"budget", into("budgets", (*wideGenerator).budget)},
	{"requirement", into("requires", (*wideGenerator).requirement)},
}

// wide compiles; nil is for what random documents may be refused for.
func wide(t testing.TB, docs []doc) *Policy {
	var texts []string
	for _, d := range docs {
		texts = append(texts, d.text())
	}
	return compiled(t, texts)
}

// ask is a random call; of some the first that the stack allows, for those are rare.
func (g *wideGenerator) ask(t testing.TB, p *Policy) (in contracts.Inputs) {
	for range 1 + g.r.IntN(4) {
		in = g.anyCall(t, p)
		asked := in
		if d, _ := judgeBy(p, &asked, g.state, onlyLedger{new(past.Ledger)}); d.Verdict == contracts.Allow {
			break
		}
	}
	return in
}

func (g *wideGenerator) anyCall(t testing.TB, p *Policy) contracts.Inputs {
	in := g.call(t, p)
	in.Envelopes.Delegation = nil
	in.Caller = pick(g.generator, in.Caller, in.Caller, contracts.Caller{ID: "agent", Tenant: "acme",
		Roles: []string{"bot"}}, contracts.Caller{ID: "bob", Tenant: "acme", Roles: []string{"clerk"}})
	switch g.r.IntN(12) {
	case 0, 1, 2, 3, 4:
		in.Envelopes.Delegation = pick(g.generator, g.chains...)
		if leaf, _, err := registry.OpenDelegation(g.state, in.Envelopes.Delegation); err == nil && g.r.IntN(8) > 0 {
			in.Caller = contracts.Caller{ID: leaf[0].Delegate, Tenant: "acme", Roles: []string{"bot"}}
		}
	case 5:
		in.Envelopes.Delegation = g.forged
	}
	if in.Session = "other"; g.r.IntN(6) == 0 {
		in.Session = contracts.DefaultSession
	}
	if g.r.IntN(2) == 0 {
		in.Envelopes.Attestations = []contracts.Envelope{pick(g.generator, g.words...)}
	}
	return in
}

// consult judges a call, and has those who are willing approve what is asked of them until nobody
// asks any more. An approval is for one policy, so everybody is asked again for another.
func (g *wideGenerator) consult(t testing.TB, p *Policy, in *contracts.Inputs, past past.Past,
	willing []string) (contracts.DecisionRecord, Why) {
	for {
		d, why := judgeBy(p, in, g.state, past)
		if why.Pending == nil {
			return d, why
		}
		asked := len(in.Envelopes.Approvals)
		for _, name := range willing {
			holder, _ := g.state.Holder(crypto.KeyID(publicOf(t, name)), registry.Approver, 1)
			if !slices.ContainsFunc(why.Pending.Roles,
				func(r string) bool { return slices.Contains(holder.Roles, r) }) {
				continue
			}
			e, err := why.Pending.Approve(keyOf(t, name))
			require.NoError(t, err)
			if !slices.ContainsFunc(in.Envelopes.Approvals,
				func(x contracts.Envelope) bool { return x.Digest() == e.Digest() }) {
				in.Envelopes.Approvals = append(in.Envelopes.Approvals, e)
			}
		}
		if len(in.Envelopes.Approvals) == asked {
			return d, why
		}
	}
}

var approvers = [][]string{nil, {"olga"}, {"dora"}, {"olga", "otto"}, {"dora", "olga", "otto"},
	{"dora", "olga", "otto"}}

// add appends what became of a call: an ALLOW was executed.
func (p *told) add(t testing.TB, in *contracts.Inputs, d *contracts.DecisionRecord) {
	t.Helper()
	if d.Verdict == contracts.Deny {
		return
	}
	require.True(t, p.Reserve(d.Charges, in.State.Budgets), "a charge that was judged to fit does not")
	nonces := []string{}
	for _, e := range in.Envelopes.Approvals {
		if !slices.Contains(d.Approvals, e.Digest()) {
			continue
		}
		sealed, err := new(contracts.Reader).Open(e)
		require.NoError(t, err)
		a, err := sealed.Approval()
		require.NoError(t, err)
		nonces = append(nonces, a.Request.Nonce)
	}
	at := uint64(2 * len(p.args))
	p.args[at] = in.Args
	p.Allow(d, in.Time, nonces)
	p.Execute(past.Run{Tool: d.Tool, Decision: at, Receipt: at + 1, Entry: crypto.Sum(fmt.Append(nil, at)),
		Time: in.Time}, crypto.Value{}, past.Facts{})
}
