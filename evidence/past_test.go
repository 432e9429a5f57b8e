package evidence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// deskPolicy asks for everything that there is of a session's past, and for what others sign.
const deskPolicy = `{"bundle":{"name":"desk","version":1},"helm":"policy/v1","layer":"P1",
"requires":[
 {"id":"looked","tools":["act"],"any":[{"receipt":"open"},{"receipt":"look","same":["/path"],"max_age":"30m"}]},
 {"id":"opened","tools":["shut"],"all":[{"receipt":"open","max_age":"1h"}]},
 {"id":"asked","tools":["pay"],"when":{"arg":"/amount","ge":10},"any":[{"attestation":{"type":"dual-control","bind":{"amount":"/amount"},"max_age":"10m"}},{"approval":{"roles":["lead","owner"],"quorum":2,"ttl":"15m"}}]},
 {"id":"told","tools":["pay"],"all":[{"approval":{"roles":["lead"],"ttl":"15m"}}]}],
"rules":[
 {"id":"often","deny":"act","when":{"session":"calls","of":"look","gt":8}},
 {"id":"long","deny":["act","look"],"when":{"session":"calls","gt":40}},
 {"id":"all","allow":["act","look","open","pay","shut"]}],
"tools":{
 "act":{"effect":"write","input":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},
 "look":{"effect":"read","input":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},
 "open":{"effect":"read","input":{"type":"object"}},
 "pay":{"effect":"write","risk":"high","input":{"properties":{"amount":{"type":"number"}},"required":["amount"],"type":"object"}},
 "shut":{"effect":"write","input":{"type":"object"}}}}`

// A desk is where the calls of one session are made.
type desk struct {
	*maker
	session string
	who     contracts.Caller
}

func newDesk(t testing.TB) *desk {
	m := newMaker(t)
	m.use(deskPolicy)
	m.add(seedA2, "zoe", registry.Approver, "lead", "owner")
	return &desk{m, "s1", contracts.Caller{ID: "agent"}}
}

func (d *desk) ask(tool, args string, with ...contracts.Envelope) ask {
	a := ask{session: d.session, tool: tool, args: args, who: d.who}
	for _, e := range with {
		sealed, err := new(contracts.Reader).Open(e)
		if err != nil {
			d.Fatal(err)
		}
		if sealed.Kind == contracts.KindAttestation {
			a.with.Attestations = append(a.with.Attestations, e)
		} else {
			a.with.Approvals = append(a.with.Approvals, e)
		}
	}
	return a
}

func (d *desk) look(path string) *called {
	d.Helper()
	c := d.allowed(d.ask("look", fmt.Sprintf(`{"path":%q}`, path)))
	c.ran(`1`)
	return c
}

// pay asks, and gives what is to be signed.
func (d *desk) pending(args string, with ...contracts.Envelope) contracts.ApprovalRequest {
	d.Helper()
	c := d.denied(contracts.ReasonApprovalRequired, d.ask("pay", args, with...))
	if c.why.Pending == nil || c.decision.Pending == nil || *c.decision.Pending != c.why.Pending.Digest() {
		d.Fatalf("pending %v, %+v", c.decision.Pending, c.why.Pending)
	}
	return *c.why.Pending
}

func (m *maker) approve(seed byte, r contracts.ApprovalRequest) contracts.Envelope {
	m.Helper()
	return m.answered(seed, r, 0, contracts.Allow)
}

// answered is an approver's answer, some time after the question.
func (m *maker) answered(seed byte, r contracts.ApprovalRequest, after contracts.Time, v contracts.Verdict) contracts.Envelope {
	m.Helper()
	e, err := contracts.Approval{Request: r, Time: r.NotBefore + after, Verdict: v}.Sign(testKey(m, seed))
	m.must(err)
	return e
}

func (m *maker) attest(claims string) contracts.Envelope {
	m.Helper()
	e, err := contracts.Attestation{Claims: valuesOf(m, claims), Time: m.now, Type: "dual-control"}.Sign(testKey(m, seedB))
	m.must(err)
	return e
}

// deskLog has a verdict of each kind over the past, and over what others sign.
func deskLog(t testing.TB) *desk {
	d := newDesk(t)
	d.look("/a")
	d.look("/b")
	d.allowed(d.ask("act", `{"path":"/a"}`)).ran(`1`)
	d.denied(contracts.ReasonMissingRequirement, d.ask("act", `{"path":"/z"}`))
	d.denied(contracts.ReasonMissingRequirement, d.ask("shut", `{}`))
	d.allowed(d.ask("open", `{}`)).failed(contracts.ReasonToolError)
	d.denied(contracts.ReasonMissingRequirement, d.ask("shut", `{}`))
	d.allowed(d.ask("open", `{}`)).ran(`1`)
	d.allowed(d.ask("shut", `{}`)).ran(`1`)
	d.look("/b")
	d.allowed(d.ask("act", `{"path":"/b"}`)).ran(`1`)

	small := d.pending(`{"amount":1}`)
	yes := d.approve(seedA, small)
	d.denied(contracts.ReasonApprovalInvalid, d.ask("pay", `{"amount":2}`, yes))
	d.allowed(d.ask("pay", `{"amount":1}`, yes, d.attest(`{"amount":2}`))).ran(`1`) // which nobody asked for
	d.denied(contracts.ReasonApprovalInvalid, d.ask("pay", `{"amount":1}`, yes))
	d.denied(contracts.ReasonApprovalInvalid, d.ask("pay", `{"amount":1}`, d.answered(seedA2, small, 1, contracts.Allow)))
	again := d.pending(`{"amount":1}`)
	d.denied(contracts.ReasonApprovalInvalid, d.ask("pay", `{"amount":1}`, d.answered(seedA, again, 0, contracts.Deny)))
	d.now += 16 * 60_000
	d.denied(contracts.ReasonApprovalExpired, d.ask("pay", `{"amount":1}`, d.approve(seedA, again)))

	large := d.pending(`{"amount":10}`)
	d.pending(`{"amount":10}`, d.approve(seedA, large))
	d.allowed(d.ask("pay", `{"amount":10}`, d.approve(seedA, large), d.approve(seedA2, large))).ran(`1`)
	witnessed := d.pending(`{"amount":11}`, d.attest(`{"amount":11}`))
	d.allowed(d.ask("pay", `{"amount":11}`, d.attest(`{"amount":11}`), d.approve(seedA, witnessed))).ran(`1`)
	d.session = "s2"
	d.allowed(d.ask("open", `{}`)).ran(`1`)
	d.checkpoint()
	return d
}

// TestDesk: verdicts over the past and over what others sign verify, and replay.
func TestDesk(t *testing.T) {
	d := deskLog(t)
	r, err := verifyBytes(t, d.pack(), Options{Trust: d.trust, Origin: testOrigin})
	if err != nil || !r.Success(0) || r.Replay.Replayed != r.Allows+r.Denials || r.Allows != 12 || r.Denials != 13 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A liar tells the guardian another past. What it does not lie about is true.
type liar struct {
	past.Past
	calls   func(tool string, n uint64) uint64
	receipt func(r contracts.PriorReceipt) (contracts.PriorReceipt, error)
	used    func(bool) bool
}

func (l liar) Calls(tool string) uint64 {
	if n := l.Past.Calls(tool); l.calls == nil {
		return n
	} else {
		return l.calls(tool, n)
	}
}

func (l liar) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	r, err := l.Past.Receipt(tool, same)
	if l.receipt == nil || err != nil {
		return r, err
	}
	return l.receipt(r)
}

func (l liar) Used(e contracts.Digest, r *contracts.ApprovalRequest) bool {
	if u := l.Past.Used(e, r); l.used == nil {
		return u
	} else {
		return l.used(u)
	}
}

// TestLies: a kernel that lied to its guardian about the past signed a verdict that follows from the lie, and all else is in order. The log
// tells, at that entry.
func TestLies(t *testing.T) {
	race.Alone(t)
	for name, x := range map[string]struct {
		story func(d *desk) (ask, liar)
		field string
	}{
		"one call fewer": {func(d *desk) (ask, liar) {
			for range 8 {
				d.look("/a")
			}
			return d.ask("act", `{"path":"/a"}`), liar{calls: func(_ string, n uint64) uint64 { return n - 1 }}
		}, "predicate.decision.condition"},
		"no call at all": {func(d *desk) (ask, liar) {
			d.look("/a")
			return d.ask("act", `{"path":"/a"}`), liar{calls: func(string, uint64) uint64 { return 0 }}
		}, "inputs.state.calls"},
		"too many of all": {func(d *desk) (ask, liar) {
			return d.ask("look", `{"path":"/a"}`), liar{calls: func(tool string, n uint64) uint64 {
				if tool == "" {
					return 41
				}
				return n
			}}
		}, "predicate.decision.condition"},
		"no receipt": {func(d *desk) (ask, liar) {
			d.allowed(d.ask("open", `{}`)).ran(`1`)
			return d.ask("shut", `{}`), liar{receipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
				return contracts.PriorReceipt{Tool: r.Tool, Same: r.Same}, nil
			}}
		}, "predicate.decision.condition"},
		"no receipt, and another instead": {func(d *desk) (ask, liar) {
			d.allowed(d.ask("open", `{}`)).ran(`1`)
			d.look("/a")
			return d.ask("act", `{"path":"/a"}`), liar{receipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
				if r.Tool == "open" {
					r.Entry, r.Time = nil, 0
				}
				return r, nil
			}}
		}, "inputs.state.receipts"},
		"an older receipt": {func(d *desk) (ask, liar) {
			d.allowed(d.ask("open", `{}`)).ran(`1`)
			first := d.memory.runs[0]
			d.allowed(d.ask("open", `{}`)).ran(`1`)
			return d.ask("shut", `{}`), named(first.Entry, first.Time)
		}, "inputs.state.receipts"},
		"an old receipt as a new one": {func(d *desk) (ask, liar) {
			d.allowed(d.ask("open", `{}`)).ran(`1`)
			d.now += 2 * 3_600_000
			return d.ask("shut", `{}`), liar{receipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
				r.Time = d.now
				return r, nil
			}}
		}, "predicate.decision.condition"},
		"a receipt of a call that failed": {func(d *desk) (ask, liar) {
			d.allowed(d.ask("open", `{}`)).failed(contracts.ReasonToolError)
			return d.ask("shut", `{}`), named(d.log.Chain("s1").Last(), d.log.Chain("s1").Time())
		}, "predicate.decision.condition"},
		"a receipt of another session": {func(d *desk) (ask, liar) {
			d.session = "s2"
			d.allowed(d.ask("open", `{}`)).ran(`1`)
			d.session = "s1"
			return d.ask("shut", `{}`), named(d.memory.runs[0].Entry, d.memory.runs[0].Time)
		}, "predicate.decision.condition"},
		"a receipt of another tool": {func(d *desk) (ask, liar) {
			d.look("/a")
			return d.ask("shut", `{}`), named(d.memory.runs[0].Entry, d.memory.runs[0].Time)
		}, "predicate.decision.condition"},
		"a receipt of no log": {func(d *desk) (ask, liar) {
			return d.ask("shut", `{}`), named(contracts.Digest{1}, d.now)
		}, "predicate.decision.condition"},
		"a receipt of other values": {func(d *desk) (ask, liar) {
			d.look("/a")
			r := d.memory.runs[0]
			return d.ask("act", `{"path":"/b"}`), lookedAt(r.Entry, r.Time)
		}, "predicate.decision.condition"},
		"an older receipt of these values": {func(d *desk) (ask, liar) {
			d.look("/a")
			r := d.memory.runs[0]
			d.look("/a")
			return d.ask("act", `{"path":"/a"}`), lookedAt(r.Entry, r.Time)
		}, "inputs.state.receipts"},
		"none of these values": {func(d *desk) (ask, liar) {
			d.look("/a")
			return d.ask("act", `{"path":"/a"}`), liar{receipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
				r.Entry, r.Time = nil, 0
				return r, nil
			}}
		}, "predicate.decision.condition"},
		"it cannot tell": {func(d *desk) (ask, liar) {
			return d.ask("shut", `{}`), liar{receipt: func(contracts.PriorReceipt) (contracts.PriorReceipt, error) {
				return contracts.PriorReceipt{}, errors.New("forgotten")
			}}
		}, "predicate.decision.reason"},
		"a used request is not": {func(d *desk) (ask, liar) {
			r := d.pending(`{"amount":1}`)
			d.allowed(d.ask("pay", `{"amount":1}`, d.approve(seedA, r))).ran(`1`)
			return d.ask("pay", `{"amount":1}`, d.answered(seedA, r, 1, contracts.Allow)), liar{used: func(bool) bool { return false }}
		}, "predicate.decision.approvals"},
		"a request is used that is not": {func(d *desk) (ask, liar) {
			r := d.pending(`{"amount":1}`)
			return d.ask("pay", `{"amount":1}`, d.approve(seedA, r)), liar{used: func(bool) bool { return true }}
		}, "predicate.decision.condition"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lies := range []bool{false, true} {
				d := newDesk(t)
				d.look("/x")
				d.memory.runs = nil
				a, l := x.story(d)
				if lies {
					d.memory.lie = func(p past.Past) past.Past { l.Past = p; return l }
				}
				at := d.call(a).index
				d.memory.lie = nil
				d.session = "s3"
				d.look("/x")
				d.checkpoint()
				r, err := verifyBytes(t, d.pack(), Options{Trust: d.trust, Origin: testOrigin})
				if !lies {
					if err != nil || !r.Success(0) {
						t.Fatalf("without the lie: %v", err)
					}
					continue
				}
				mustRefuse(t, r, err, ErrReplay)
				if r.Fault != nil && (r.Fault.Entry != int64(at) || r.Replay.Differing != 1 || r.Fault.Field != x.field) {
					t.Errorf("%v, %d differ; want entry %d, %s", r.Fault, r.Replay.Differing, at, x.field)
				}
			}
		})
	}
}

func named(entry contracts.Digest, at contracts.Time) liar {
	return liar{receipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
		r.Entry, r.Time = &entry, at
		return r, nil
	}}
}

// lookedAt lies of receipts with values alone.
func lookedAt(entry contracts.Digest, at contracts.Time) liar {
	return liar{receipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
		if r.Same.Kind() != crypto.Missing {
			r.Entry, r.Time = &entry, at
		}
		return r, nil
	}}
}
