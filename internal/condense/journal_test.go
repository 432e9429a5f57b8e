package condense_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

const (
	hour  = contracts.Time(3600e3)
	day   = 24 * hour
	start = contracts.Time(1767225600000) // 2026
)

// A journal is a random log whose entries nobody signed. It does what kernels may do, and what they
// do not do but the format allows: close the session main.
type journal struct {
	*rand.Rand
	t         testing.TB
	lines     []contracts.Entry
	chains    map[string]*chain
	sessions  []string // that calls go on in; main is the first
	documents map[contracts.Digest][]byte
	policies  []policy
	gone      []map[uint64]bool // sets of the condense entries
	clock     contracts.Time
	times     []contracts.Time // of the entries

	read map[string]record // lines that the second implementation has read
	said map[string]said   // and terms
}

// A policy is a policy entry.
type policy struct {
	*contracts.PolicyRecord
	index uint64
}

// A chain is a session.
type chain struct {
	name   string
	seq    uint64
	prev   contracts.Digest
	at     contracts.Time
	high   uint64 // lamport
	open   []ran
	keys   int
	closed bool
	end    uint64 // index of the close
}

// A ran is a call without a receipt.
type ran struct {
	entry contracts.Digest
	*contracts.DecisionRecord
}

// main is the session of calls that name none.
const main = contracts.DefaultSession

func newJournal(t testing.TB, seed uint64) *journal {
	j := &journal{Rand: rand.New(rand.NewPCG(seed, 5)), t: t, chains: map[string]*chain{},
		documents: map[contracts.Digest][]byte{}, clock: start + 4*day,
		read: map[string]record{}, said: map[string]said{}}
	j.chains[contracts.SessionKernel] = &chain{}
	j.append("", &contracts.Statement{Genesis: &contracts.Genesis{Nonce: strings.Repeat("0", 32), Origin: "log", Version: 1}})
	for _, name := range []string{contracts.SessionRefused, main, "chat", "a/b:c", "tickets@7"} {
		j.session(name)
	}
	j.sessions = j.sessions[1:]
	j.policy()
	return j
}

// session begins a session.
func (j *journal) session(name string) {
	j.chains[name] = &chain{name: name, prev: j.lines[0].Hash()}
	j.sessions = append(j.sessions, name)
}

// one reports true once in n times.
func (j *journal) one(n int) bool { return j.IntN(n) == 0 }

func pick[T any](j *journal, of ...T) T { return of[j.IntN(len(of))] }

func (j *journal) digest() (d contracts.Digest) {
	for i := range d {
		d[i] = byte(j.Uint32())
	}
	return d
}

// append adds an entry to a session, at a time that other sessions may be ahead of.
func (j *journal) append(session string, st *contracts.Statement) contracts.Digest {
	c := j.chains[session]
	j.clock += contracts.Time(j.Int64N(int64(8 * hour)))
	at := j.clock
	if len(j.sessions) > 0 {
		at -= contracts.Time(j.Int64N(int64(pick(j, hour, hour, day, 4*day))))
	}
	c.at = max(c.at, at)
	st.Session, st.Seq, st.Prev, st.Time, st.Lamport = session, c.seq, c.prev, c.at, c.high
	switch d := st.Judgement(); {
	case d != nil:
		d.Expires = 0
		if d.Verdict == contracts.Allow {
			d.Expires = c.at + 1000
		}
		d.Seal(session, c.seq, j.digest())
	case st.Close != nil:
		st.Close.Count, st.Close.Last = c.seq, c.prev
	case st.Receipt != nil && st.Receipt.DecisionHash != c.prev:
		st.Parents = append(st.Parents, st.Receipt.DecisionHash)
	}
	for range min(j.IntN(3), len(j.sessions)) { // calls of any session may have caused it
		if other := j.chains[pick(j, j.sessions...)]; other.seq > 0 {
			st.Parents = append(st.Parents, other.prev)
		}
	}
	slices.SortFunc(st.Parents, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	st.Parents = slices.Compact(st.Parents)
	st.Parents = slices.DeleteFunc(st.Parents, func(d contracts.Digest) bool { return d == c.prev })
	e := contracts.Entry(crypto.AppendEnvelope(nil, contracts.PayloadType, st.Append(nil), contracts.Digest{}, make([]byte, 64)))
	var r contracts.Reader
	sealed, err := r.Open(e)
	require.NoError(j.t, err)
	_, err = sealed.Statement()
	require.NoError(j.t, err, "%s", st.Append(nil))
	j.lines, j.times = append(j.lines, e), append(j.times, c.at)
	c.prev, c.seq, c.high = e.Hash(), c.seq+1, uint64(len(j.lines))
	return c.prev
}

// policy adds a policy entry. Most have terms, some of them more than one, or malformed ones.
func (j *journal) policy() {
	p := &contracts.PolicyRecord{Engine: contracts.Engine{Rules: uint64(1 + j.IntN(2)), Threat: uint64(j.IntN(2))}}
	add := func(layer, name, text string) {
		var tree crypto.Tree
		require.NoError(j.t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: 64, Object: true}), text)
		b := tree.Root().Append(nil)
		j.documents[crypto.Sum(b)] = b
		p.Documents = append(p.Documents, contracts.PolicyDocument{Digest: crypto.Sum(b), Layer: layer, Name: name, Version: 1})
	}
	for i := range pick(j, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 0) {
		add("P0", fmt.Sprintf("floor-%d", i), `{"name":"f`+fmt.Sprint(len(j.policies))+`"`+j.condensing()+`}`)
	}
	for i := range pick(j, 1, 2, 2) {
		add("P1", fmt.Sprintf("bundle-%d", i), `{"tools":{`+j.tools()+`}}`)
	}
	if j.one(3) {
		add("P2", "overlay", `{"condense":{"kept":"medium","after":"9d"},"tools":{"read":{"risk":"high"}}}`)
	}
	if p.Policy = p.Hash(); slices.ContainsFunc(j.policies, func(q policy) bool { return q.Policy == p.Policy }) {
		return
	}
	j.policies = append(j.policies, policy{p, uint64(len(j.lines))})
	j.append("", &contracts.Statement{Policy: p})
}

// condensing returns a member of a P0 document.
func (j *journal) condensing() string {
	if j.one(14) {
		return ""
	}
	after, kept := pick(j, "24h", "1d", "1440m", "86400s", "30h", "2d", "3d"), pick(j, "medium", "high", "high", "high")
	if j.one(14) {
		return pick(j, `,"condense":{}`, `,"condense":null`, `,"condense":{"kept":"high"}`, `,"condense":{"after":"1d"}`,
			`,"condense":{"kept":"low","after":"1d"}`, `,"condense":{"kept":"high","after":"23h"}`,
			`,"condense":{"kept":"high","after":"0d"}`, `,"condense":{"kept":"high","after":"01d"}`,
			`,"condense":{"kept":"high","after":1}`, `,"condense":{"kept":"high","after":"1w"}`,
			`,"condense":{"kept":"high","after":"d"}`, `,"condense":{"kept":"high","after":"+1d"}`,
			`,"condense":{"kept":"high","after":"1d","until":"2d"}`, `,"condense":[{"kept":"high","after":"1d"}]`,
			`,"condense":{"kept":"high","after":"99999999999999999999d"}`, `,"condense":{"kept":"high","after":"400000d"}`)
	}
	return `,"condense":{"kept":"` + kept + `","after":"` + after + `"}`
}

var (
	tools = []string{"read", "write", "wipe", "odd", "other"} // other is never declared
	calls = []string{"read", "read", "read", "read", "read", "read", "read", "write", "write", "write", "wipe", "odd", "other"}
)

// tools returns the members of the tools of a P1 document.
func (j *journal) tools() string {
	var list []string
	for _, tool := range tools {
		effect := map[string]string{"read": "read", "write": "write", "wipe": "destructive"}[tool]
		switch {
		case tool == "odd":
			list = append(list, pick(j, `"odd":{"risk":"none"}`, `"odd":{"effect":"peek"}`, `"odd":{}`, `"odd":null`,
				`"odd":{"effect":"read","risk":null}`, `"odd":{"effect":"peek","risk":"low"}`))
		case j.one(12) || effect == "": // not declared here
		case j.one(12):
			list = append(list, fmt.Sprintf(`%q:{"effect":%q,"risk":%q}`, tool, effect, pick(j, "low", "medium", "high")))
		default:
			list = append(list, fmt.Sprintf(`%q:{"effect":%q}`, tool, effect))
		}
	}
	return strings.Join(list, ",")
}

// decide adds an ALLOW.
func (j *journal) decide(c *chain) {
	d := &contracts.DecisionRecord{ArgsHash: j.digest(), Condition: 8, Reason: contracts.ReasonAllow, Rule: "P1:b:r",
		EffectType: contracts.Read, Risk: contracts.Low, Tool: pick(j, calls...),
		PolicyHash: j.policies[max(j.IntN(len(j.policies)), j.IntN(len(j.policies)))].Policy, Verdict: contracts.Allow}
	if j.one(8) {
		c.keys++
		d.Idempotency = fmt.Sprintf("key \"%d\" \\ é 😀", c.keys)
	}
	if j.one(16) {
		d.Approvals = []contracts.Digest{j.digest()}
	}
	if j.one(16) {
		d.Signals = []string{"instruction"}
	}
	if j.one(3) {
		d.Charges = []contracts.Charge{{Amount: 1, Before: 2, Budget: "P1:b:day", Limit: 9, Of: `{"id":"é"}`, Window: start.String()}}
	}
	if j.one(5) {
		d.Charges = append(d.Charges, contracts.Charge{Amount: 3, Budget: "P1:b:runs", Limit: 1 << 52, Of: c.name, Window: "session"})
	}
	st := &contracts.Statement{Decision: d}
	if len(c.open) > 0 && j.one(2) { // a nested call
		st.Parents = append(st.Parents, pick(j, c.open...).entry)
	}
	c.open = append(c.open, ran{j.append(c.name, st), d})
}

// endings are the outcomes of calls that were let through.
var endings = []struct {
	contracts.Outcome
	contracts.ReasonCode
}{
	{contracts.Failed, contracts.ReasonToolError}, {contracts.Failed, contracts.ReasonToolPanic},
	{contracts.Failed, contracts.ReasonGasExhausted}, {contracts.Failed, contracts.ReasonTimeExhausted},
	{contracts.Failed, contracts.ReasonMemoryExhausted}, {contracts.Withheld, contracts.ReasonOutputExhausted},
	{contracts.Withheld, contracts.ReasonContractDrift}, {contracts.Indeterminate, contracts.ReasonToolTimeout},
	{contracts.Indeterminate, contracts.ReasonToolCanceled}, {contracts.Indeterminate, contracts.ReasonOutcomeUnknown},
}

// end adds the receipt of one of the calls that run.
func (j *journal) end(c *chain) {
	i := j.IntN(len(c.open))
	of := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	x := &contracts.Receipt{Outcome: contracts.Executed, Reason: contracts.ReasonAllow, ArgsHash: of.ArgsHash,
		DecisionHash: of.entry, EffectType: of.EffectType, Tool: of.Tool}
	if j.one(4) {
		ending := pick(j, endings...)
		x.Outcome, x.Reason = ending.Outcome, ending.ReasonCode
	}
	failed := x.Reason == contracts.ReasonToolError
	x.Verdict = contracts.Verdict(x.Outcome == contracts.Executed || failed)
	if x.Outcome == contracts.Executed || x.Reason == contracts.ReasonContractDrift || failed && j.one(2) {
		output := j.digest()
		x.OutputHash, x.OutputForm = &output, "jcs"
	}
	if x.Outcome == contracts.Executed && j.one(3) {
		facts := j.digest()
		x.FactsHash = &facts
	}
	if x.OutputHash != nil && x.Outcome != contracts.Withheld && j.one(12) {
		x.Signals = []string{"secret"}
	}
	if strings.HasPrefix(string(x.Reason), "ERR_COMPUTE_") && x.Outcome == contracts.Failed {
		grants := j.digest()
		x.Sandbox = &contracts.SandboxUse{Grants: &grants, Module: j.digest(), Profile: "pure"}
	}
	for _, charge := range of.Charges {
		x.Settled = append(x.Settled, contracts.Settlement{Amount: charge.Amount, Budget: charge.Budget, Of: charge.Of})
	}
	effect := x.Effect()
	x.EffectHash = effect.Hash()
	j.append(c.name, &contracts.Statement{Receipt: x})
}

// deny adds a denial, some of them of sessions that are closed.
func (j *journal) deny(c *chain) {
	d := &contracts.DecisionRecord{ArgsHash: j.digest(), Condition: 1, Reason: contracts.ReasonToolNotFound, Tool: "nothing",
		PolicyHash: pick(j, j.policies...).Policy}
	if c.closed {
		c, d.Condition, d.Reason = j.chains[contracts.SessionRefused], 0, contracts.ReasonSessionClosed
	}
	j.append(c.name, &contracts.Statement{Receipt: &contracts.Receipt{Outcome: contracts.Denied, Decision: d}})
}

// step adds an entry, mostly of a call, or ends a session.
func (j *journal) step() {
	c := j.chains[pick(j, j.sessions...)]
	switch n := j.IntN(100); {
	case c.closed, n < 6:
		j.deny(c)
	case n < 9:
		j.policy()
	case n < 13:
		j.append(c.name, &contracts.Statement{Message: &contracts.Message{TextHash: j.digest()}})
	case n < 20 && (c.name != main || j.one(12)):
		j.close(c)
	case len(c.open) > 3 || len(c.open) > 0 && j.one(2):
		j.end(c)
	default:
		j.decide(c)
	}
}

// close ends the calls of a session, and then the session. Mostly another one follows it.
func (j *journal) close(c *chain) {
	for len(c.open) > 0 {
		j.end(c)
	}
	j.append(c.name, &contracts.Statement{Close: &contracts.Close{}})
	c.closed, c.end = true, uint64(len(j.lines)-1)
	if c.name != main && !j.one(8) {
		j.sessions = slices.DeleteFunc(j.sessions, func(name string) bool { return name == c.name })
		j.session(fmt.Sprintf("chat-%d", len(j.lines)))
	}
}
