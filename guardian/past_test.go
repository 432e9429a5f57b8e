package guardian

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// A pastGenerator makes stacks that ask for what was before, calls, what was before them, and what
// is presented with them.
type pastGenerator struct {
	generator
	t testing.TB
}

// seen is a predicate, or a need, over the session's past.
func (g pastGenerator) seen(tool string) string {
	same := map[string][]string{
		"pay":  {``, `,"same":["/to"]`, `,"same":{"/to":"/kind"}`, `,"same":["/amount","/kind"]`},
		"look": {``, `,"same":{"/payee":"/to"}`, `,"same":{"/n":"/amount","/payee":"/to"}`},
	}[tool]
	return fmt.Sprintf(`{"receipt":%q%s%s}`, tool, pick(g.generator, same...),
		pick(g.generator, ``, ``, `,"max_age":"1m"`))
}

func (g pastGenerator) test() string {
	return pick(g.generator, g.seen("look"), g.seen("pay"), `{"not":`+g.seen("look")+`}`,
		fmt.Sprintf(`{"session":"calls","%s":%d}`, pick(g.generator, "eq", "ne", "lt", "le", "gt", "ge"), g.r.IntN(6)),
		fmt.Sprintf(`{"session":"calls","of":"%s","lt":%d}`, pick(g.generator, "pay", "look"), g.r.IntN(4)),
		`{"session":"calls","lt":{"arg":"/amount"}}`, `{"arg":"/amount","gt":3}`)
}

func (g pastGenerator) tests() string {
	return pick(g.generator, ``, ``, `,"when":`+g.test(), `,"unless":`+g.test(),
		`,"when":{"any":[`+g.test()+`,`+g.test()+`]}`, `,"when":`+g.test()+`,"unless":`+g.test())
}

func (g pastGenerator) requires(ids string) string {
	var list []string
	for i := range g.r.IntN(3) {
		var needs []string
		for range 1 + g.r.IntN(3) {
			needs = append(needs, pick(g.generator, g.seen("look"), `{"attestation":{"type":"seen","max_age":"1m"}}`,
				`{"attestation":{"type":"bound","max_age":"1m","bind":{"payee":"/to"}}}`,
				fmt.Sprintf(`{"approval":{"roles":[%s],"quorum":%d,"ttl":"%dm"}}`,
					pick(g.generator, `"owner"`, `"owner","cfo"`, `"cfo"`), 1+g.r.IntN(4)/3, 5+5*g.r.IntN(2))))
		}
		list = append(list, fmt.Sprintf(`{"id":"%s%d","tools":["pay"],"%s":[%s]%s}`, ids, i,
			pick(g.generator, "all", "any"), strings.Join(needs, ","), g.tests()))
	}
	return strings.Join(list, ",")
}

func (g pastGenerator) stack() []string {
	bundle := bankText(g.requires("b"), ``)
	if g.r.IntN(2) == 0 {
		bundle = strings.Replace(bundle, `{"id":"all"`, `{"id":"w","deny":"pay"`+g.tests()+`},{"id":"all"`, 1)
	}
	budget := `,"budgets":[{"id":"few","tools":["pay"],"limit":5,"per":"session","window":"total","cost":1` +
		g.tests() + `}]`
	ceiling := pick(g.generator, ``, ``, `,"ceilings":{"calls":4}`, `,"ceilings":{"calls":20}`)
	return []string{bundle, floor("f", `,"requires":[`+g.requires("f")+`]`+ceiling+pick(g.generator, ``, budget)),
		overlay("o", `,"requires":[`+g.requires("o")+`]`)}
}

func (g pastGenerator) past() *told {
	past := newTold()
	for n := range g.r.IntN(5) {
		tool, args := "look", fmt.Sprintf(`{"n":%d,"payee":"%s"}`, g.r.IntN(3), pick(g.generator, "bob", "eve"))
		if g.r.IntN(3) == 0 {
			tool, args = "pay", fmt.Sprintf(`{"amount":%d,"kind":"%s","to":"bob"}`, g.r.IntN(3),
				pick(g.generator, "sepa", "bob"))
		}
		past.ran(g.t, n, tool, args, noon-contracts.Time(g.r.IntN(90_000)))
		if g.r.IntN(12) == 0 {
			delete(past.args, uint64(2*n))
		}
	}
	return past
}

// presented adds what was signed of a request, mostly rightly.
func (g pastGenerator) presented(in *contracts.Inputs, q *contracts.ApprovalRequest, past *told) {
	if q != nil {
		for range 1 + g.r.IntN(3) {
			r := *q
			switch g.r.IntN(12) {
			case 0:
				r.Expires++
			case 1, 5, 6:
				r.NotBefore++
			case 2:
				r.Session = "other"
			case 3:
				r = otherNonce(r)
			case 4:
				past.Allow(&contracts.DecisionRecord{Tool: "pay", Approvals: []contracts.Digest{{1}}}, noon,
					[]string{r.Nonce})
			}
			e := approvedBy(g.t, r, pick(g.generator, "olga", "olga", "olga 2", "otto", "pat", "pat", "carl"))
			if g.r.IntN(12) == 0 {
				e = refusedBy(g.t, r, "otto")
			}
			if !slices.ContainsFunc(in.Envelopes.Approvals,
				func(x contracts.Envelope) bool { return string(x) == string(e) }) {
				in.Envelopes.Approvals = append(in.Envelopes.Approvals, e)
			}
		}
	}
	if g.r.IntN(2) == 0 {
		in.Envelopes.Attestations = []contracts.Envelope{
			attested(g.t, "notary", contracts.Attestation{Time: noon - contracts.Time(g.r.IntN(80_000)), Type: "seen"}),
			attested(g.t, "notary",
				contracts.Attestation{Claims: valueOf(g.t, `{"payee":"`+pick(g.generator, "bob", "eve")+`"}`),
					Time: noon, Type: "bound"}),
		}
	}
}

// Whatever a stack asks of the past, the verdict follows from what that left in the inputs, and
// from all of it: without any part nothing is allowed, and what was not read changes nothing. A
// requirement never allows.
func TestPastReplays(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	trust := people(t)
	g := pastGenerator{generator{rand.New(rand.NewPCG(71, 72))}, t}
	seen, lacking := map[contracts.ReasonCode]int{}, 0
	for range 400 {
		docs := g.stack()
		p := compiled(t, docs)
		if p == nil {
			continue
		}
		bare := mustCompile(t, bankText(``, ``))
		for range 4 {
			in, past := inChat(t, "pay", fmt.Sprintf(`{"amount":%d,"kind":"sepa","to":"bob"}`, g.r.IntN(6))), g.past()
			_, why := judgeBy(p, &in, trust, past)
			g.presented(&in, why.Pending, past)
			r, why := settled(t, p, &in, trust, past)
			seen[r.Reason]++
			b, _ := bare.judged(in, trust)
			require.False(t, bool(r.Verdict) && !bool(b.Verdict), "%v by requirements, %v without", r.Reason, b.Reason)
			for name, state := range lessened(in.State) {
				less := in
				less.State = state
				if x, _ := p.judged(less, trust); x.Reason != contracts.ReasonFailClosedError {
					t.Fatalf("without %s: %v, with it %v (%s)\n%s", name, x.Reason, r.Reason, why, in.Append(nil))
				}
				lacking++
			}
			more := in
			more.State.Calls = append(slices.Clone(in.State.Calls), contracts.CallCount{Count: 99, Of: "close"})
			more.State.Receipts = append(slices.Clone(in.State.Receipts),
				contracts.PriorReceipt{Entry: &contracts.Digest{1}, Same: valueOf(t, `{"/x":1}`), Time: noon,
					Tool: "look"})
			x, _ := p.judged(more, trust)
			require.Equal(t, string(r.Append(nil)), string(x.Append(nil)), "%v where more is known, else %v", x.Reason,
				r.Reason)
		}
	}
	atLeast(t, seen, 10, []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonMissingRequirement,
		contracts.ReasonApprovalRequired, contracts.ReasonApprovalInvalid, contracts.ReasonApprovalExpired,
		contracts.ReasonCeilingViolation, contracts.ReasonPolicyViolation, contracts.ReasonFailClosedError})
	assert.True(t, lacking >= 1000, "only %d parts were left out", lacking)
}

// lessened is a state without each part of what was read, in turn.
func lessened(s contracts.SessionState) map[string]contracts.SessionState {
	out := map[string]contracts.SessionState{}
	for i := range s.Budgets {
		less := s
		less.Budgets = slices.Delete(slices.Clone(s.Budgets), i, i+1)
		out[fmt.Sprint("budget ", i)] = less
	}
	for i := range s.Calls {
		less := s
		less.Calls = slices.Delete(slices.Clone(s.Calls), i, i+1)
		out[fmt.Sprint("calls ", i)] = less
	}
	for i := range s.Receipts {
		less := s
		less.Receipts = slices.Delete(slices.Clone(s.Receipts), i, i+1)
		out[fmt.Sprint("receipt ", i)] = less
	}
	if s.Used != nil {
		less := s
		less.Used = nil
		out["used"] = less
	}
	return out
}

// A past that fails is DENY, and so is one that panics; what it was asked before stands in the
// inputs.
func TestPastFails(t *testing.T) {
	t.Parallel()
	p := mustCompile(t,
		bankText(`{"id":"a","tools":["pay"],"when":{"session":"calls","lt":9},"all":[{"receipt":"look"},{"receipt":"look","same":{"/payee":"/to"}}]}`, ``))
	for name, f := range map[string]func() (contracts.PriorReceipt, error){
		"panics": func() (contracts.PriorReceipt, error) { panic("the log") },
		"fails": func() (contracts.PriorReceipt, error) {
			return contracts.PriorReceipt{Entry: &contracts.Digest{1}}, fmt.Errorf("the log")
		},
	} {
		past := newTold()
		past.ran(t, 1, "look", `{"payee":"bob"}`, noon)
		in := inChat(t, "pay", toBob)
		r, why := judgeBy(p, &in, nil, failing{past, f})
		assert.True(t, r.Reason == contracts.ReasonFailClosedError && r.Condition == 4 && why.What != "",
			"%s: %v at %d: %s", name, r.Reason, r.Condition, why)
		assert.True(t, len(in.State.Calls) == 1 && len(in.State.Receipts) == 1 &&
			in.State.Receipts[0].Same.Kind() == crypto.Missing, "%s: left %+v", name, in.State)
		again, _ := p.judged(in, nil)
		assert.Equal(t, string(r.Append(nil)), string(again.Append(nil)), "%s: judged again: %s", name,
			again.Append(nil))
	}
}

// A past that panics, at any question, leaves inputs that can be read, and the verdict follows
// from them.
func TestPastPanics(t *testing.T) {
	t.Parallel()
	trust := people(t)
	p := mustCompile(t,
		bankText(`{"id":"r","tools":["pay"],"all":[{"attestation":{"type":"seen","max_age":"1m"}},{"approval":{"roles":["owner"]}}]}`,
			`,"budgets":[{"id":"x","tools":["pay"],"limit":9,"per":"all","window":"day","cost":1},{"id":"y","tools":["pay"],"limit":9,"per":"all","window":"day","cost":1}]`), floor("f", `,"ceilings":{"calls":9}`))
	in := inChat(t, "pay", toBob)
	in.Envelopes.Attestations = []contracts.Envelope{attested(t, "notary",
		contracts.Attestation{Time: noon, Type: "seen"})}
	_, why := judgeBy(p, &in, trust, newTold())
	in.Envelopes.Approvals = []contracts.Envelope{approvedBy(t, *why.Pending, "olga"),
		approvedBy(t, *why.Pending, "otto")}
	for n, condition := range []int{3, 3, 8, 4, 4} {
		r, _ := settled(t, p, &in, trust, &panicking{newTold(), n})
		assert.True(t, r.Reason == contracts.ReasonFailClosedError && r.Condition == condition, "question %d: %v at %d",
			n, r.Reason, r.Condition)
	}
	r, _ := settled(t, p, &in, trust, &panicking{newTold(), 5})
	assert.Equal(t, contracts.ReasonAllow, r.Reason, "asked for more")
}

// panicking is a past that panics after some questions.
type panicking struct {
	*told
	left int
}

func (p *panicking) ask() {
	if p.left--; p.left < 0 {
		panic("the log")
	}
}

func (p *panicking) Spent(c contracts.Charge) uint64 { p.ask(); return p.told.Spent(c) }

func (p *panicking) Calls(tool string) uint64 { p.ask(); return p.told.Calls(tool) }

func (p *panicking) Used(d contracts.Digest, r *contracts.ApprovalRequest) bool {
	p.ask()
	return p.told.Used(d, r)
}

// However deep the values are by which calls are compared: what is recorded of a decision is within
// the depth of inputs, or the call is denied.
func TestAskedIsShallow(t *testing.T) {
	t.Parallel()
	for depth, w := range map[int]want{61: {contracts.ReasonAllow, 8, "P1:b:a"},
		62: {contracts.ReasonFailClosedError, 5, ""}} {
		nested := func(open, inner, end string) string {
			return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
		}
		p := mustCompile(t,
			bundle("b", toolText("t", `"x":`+nested(`{"type":"array","items":`, `{"type":"string"}`, `}`), "x"),
				`{"id":"again","deny":"t","when":{"receipt":"t","same":["/x"]}},{"id":"a","allow":"t"}`))
		past := newTold()
		past.ran(t, 1, "t", `{"x":`+nested(`[`, `"bob"`, `]`)+`}`, noon)
		w.settled(t, fmt.Sprint(depth), p, inChat(t, "t", `{"x":`+nested(`[`, `"eve"`, `]`)+`}`), nil, past)
	}
}

// failing is a past that fails where values must be the same.
type failing struct {
	*told
	fail func() (contracts.PriorReceipt, error)
}

func (p failing) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	if same.Kind() != crypto.Missing {
		return p.fail()
	}
	return p.told.Receipt(tool, same)
}
