package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/internal/callindex"
	"github.com/helmkernel/helm/handoff"
)

// Approvals are requests that wait for a person, and their answers.
type Approvals interface {
	Ask(request *contracts.ApprovalRequest, args json.RawMessage) (nonce string, err error)
	For(ctx context.Context, c helm.Caller, session, tool string, args []byte, policy contracts.Digest) []helm.Envelope
}

// A books has what the answers of a process have in common.
type books struct {
	kernel    *helm.Kernel
	desk      *handoff.Desk
	index     *callindex.Index
	approvals Approvals // nil: nobody is asked
	limit     interface {
		MayAsk(helm.Caller) bool
		Denied(helm.Caller)
	}

	mu   sync.Mutex
	open map[opened]string // ids of tickets
}

// An opened names a call that the app was told to run.
type opened struct{ owner, id string }

// owner returns a name of a caller, that no other caller has.
func owner(c helm.Caller) string {
	name, _, _ := strings.Cut(auth.SessionName(c, "a"), "/")
	return name
}

// An answering judges the calls of one answer.
type answering struct {
	*books
	caller  helm.Caller
	session string
	offer   *offer
	answer  string // the id under which the provider keeps the answer
	given   []*handoff.Ticket
	denied  int
}

// tooMany is what a model is told of a call that is not judged.
const tooMany = "too many calls were denied in this minute; try again in the next one"

// judge has the kernel judge a call, and permits it if it is admissible. What is not offered to the
// model, as it was forwarded, and what has an id that cannot stand, is denied with a receipt.
func (a *answering) judge(ctx context.Context, c call) ruling {
	who := owner(a.caller)
	id := c.id
	_, used := a.index.Get(who, id)
	legal := isID(id) && !used
	if !legal && !c.fixed {
		id, legal = newID(), true
	}
	if !a.limit.MayAsk(a.caller) {
		a.denied++
		t := auth.ToldCall{ID: id, Tool: c.tool, Verdict: contracts.Deny, Why: tooMany}
		return ruling{id: id, refusal: "[helm] " + tooMany, member: told(t)}
	}
	in := helm.Intent{Tool: c.tool, Args: c.args, Caller: a.caller, Session: a.session}
	if p := a.kernel.Policy(); p != nil && a.approvals != nil {
		in.Approvals = a.approvals.For(ctx, a.caller, a.session, c.tool, c.args, p.Hash())
	}
	definition, offered := a.offer.tools[c.tool]
	var d helm.Decision
	var receipt helm.Receipt
	var ticket *handoff.Ticket
	if offered && legal {
		d, receipt, ticket = a.desk.Begin(ctx, in, definition)
	} else {
		d, receipt = a.kernel.Guard(ctx, in) // without a driver
	}
	t := auth.Tell(id, d, receipt)
	if ticket != nil {
		t.Verdict, t.Reason, t.Why = contracts.Allow, "", ""
		a.given = append(a.given, ticket)
		a.note(opened{who, id}, ticket)
		a.index.Put(who, id, callindex.Entry{Session: a.session})
		return ruling{allowed: true, id: id, args: ticket.Call().Args, member: told(t)}
	}
	a.denied++
	a.limit.Denied(a.caller)
	text, _ := d.ForModel(receipt)
	refusal := "[helm] " + text
	if d.Pending != nil && a.approvals != nil {
		if nonce, err := a.approvals.Ask(d.Pending, d.Args); err == nil {
			refusal += " An approver must answer request " + nonce + "; make the same call again then."
		}
	}
	a.index.Put(who, id, callindex.Entry{Session: a.session, Denied: true, Kind: c.kind, Refusal: refusal,
		Answer: a.answer})
	return ruling{id: id, refusal: refusal, member: told(t)}
}

func told(t auth.ToldCall) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		return []byte("{}")
	}
	return b
}

func (b *books) note(o opened, t *handoff.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[opened]string{}
	}
	b.open[o] = t.ID()
	go func() { // until it has an outcome
		<-t.Done()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.open[o] == t.ID() {
			delete(b.open, o)
		}
	}()
}

// ticket returns the open ticket of a call of a caller, or nil.
func (b *books) ticket(o opened) *handoff.Ticket {
	b.mu.Lock()
	id := b.open[o]
	b.mu.Unlock()
	return b.desk.Ticket(id)
}

// delivered says that the app has what was released so far.
func (a *answering) delivered() { a.given = nil }

// failed drops what the app was not given.
func (a *answering) failed() {
	for _, t := range a.given {
		t.Drop()
	}
	a.given = nil
}

// settle settles the calls of whose results a request tells, before the request goes on. It returns
// how many it does not know, and an error if one is of a call that was denied.
func (b *books) settle(c helm.Caller, session string, results []result) (unknown int, err error) {
	who := owner(c)
	for _, r := range results {
		if e, ok := b.index.Get(who, r.id); ok && e.Denied && !r.drop {
			return 0, bad("a result of a call that was denied")
		}
	}
	p := b.kernel.Policy()
	for _, r := range results {
		id := r.id
		if id == "" {
			id = legacyID(session, r.name)
		}
		e, known := b.index.Get(who, id)
		t := b.ticket(opened{who, id})
		switch {
		case known && e.Session != session, !known && t == nil:
			unknown++
		case t == nil: // settled before
		case r.drop:
			t.Drop()
		default:
			raw := p == nil || !p.HasOutput(t.Call().Tool)
			t.Settle(handoff.Outcome{Output: r.output, Raw: raw, Failed: r.failed})
		}
	}
	return unknown, nil
}

// legacyID returns the id of a legacy function call, which has none: one may be open for each name.
func legacyID(session, name string) string { return "function:" + session + ":" + name }
