package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/internal/callindex"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/handoff"
)

// A books has what the answers of a process have in common.
type books struct {
	kernel    *helm.Kernel
	desk      *handoff.Desk
	index     *callindex.Index
	approvals Approvals // nil: nobody is asked
	wait      time.Duration
	tell      state.Telemetry
	limit     interface {
		MayAsk(helm.Caller) bool
		Denied(helm.Caller)
		Use(c helm.Caller, session string) (done func())
	}

	mu    sync.Mutex
	open  map[opened]held
	taken map[opened]bool // ids of calls that are judged now, or that a request lets the provider run
	sweep int             // the size at which those that are no longer open are looked for
}

// An opened names a call that the app was told to run.
type opened struct{ owner, id string }

// A held is the id of a ticket, and what says that its session is no longer used by it.
type held struct {
	ticket string
	done   func()
}

// owner returns a name of a caller, that no other caller has.
func owner(c helm.Caller) string {
	name, _, _ := strings.Cut(auth.SessionName(c, "a"), "/")
	return name
}

// An answering judges the calls of one request, and of its answer.
type answering struct {
	*books
	caller  helm.Caller
	session string
	offer   *offer
	answer  string // the id under which the provider keeps the answer
	given   []*handoff.Ticket
	noted   []opened // of those that are given
	told    []auth.ToldCall
	denied  int
	first   *denial // the first call that was denied
}

// A denial is what is told of a call that was denied.
type denial struct{ code, text string }

// tooMany is what a model is told of a call that is not judged.
const tooMany = "too many calls were denied in this minute; try again in the next one"

// decide has the kernel judge a call, and permits it if it is admissible. Without a ticket it was
// denied, and the refusal says what the model is told. A call that is not to be permitted is judged
// without a driver.
func (a *answering) decide(
	ctx context.Context, id string, in helm.Intent, definition contracts.Digest, permit bool,
) (ticket *handoff.Ticket, t auth.ToldCall, refusal string) {
	in.Caller, in.Session = a.caller, a.session
	if !a.limit.MayAsk(a.caller) {
		a.tell.Tell(state.Fact{Kind: state.Refused, Name: "helm_unavailable"})
		t = auth.ToldCall{ID: id, Tool: in.Tool, Verdict: contracts.Deny, Why: tooMany}
		return nil, a.deny(t, "[helm] "+tooMany), "[helm] " + tooMany
	}
	d, receipt, ticket := a.guard(ctx, in, definition, permit)
	nonce := ""
	if ticket == nil && d.Pending != nil && a.approvals != nil {
		if nonce, _ = a.approvals.Ask(d.Pending, d.Args); nonce != "" && a.waited(ctx, nonce) {
			a.limit.Denied(a.caller)
			nonce = ""
			if d, receipt, ticket = a.guard(ctx, in, definition, permit); ticket == nil && d.Pending != nil {
				nonce, _ = a.approvals.Ask(d.Pending, d.Args)
			}
		}
	}
	t = auth.Tell(id, d, receipt)
	t.Tool = in.Tool
	if ticket != nil {
		t.Verdict, t.Reason, t.Why = contracts.Allow, "", ""
		a.given = append(a.given, ticket)
		a.told = append(a.told, t)
		return ticket, t, ""
	}
	a.limit.Denied(a.caller)
	text, _ := d.ForModel(receipt)
	refusal = "[helm] " + text
	if nonce != "" {
		refusal += " An approver must answer request " + nonce + "; make the same call again then."
	}
	return nil, a.deny(t, refusal), refusal
}

func (a *answering) deny(t auth.ToldCall, refusal string) auth.ToldCall {
	a.denied++
	a.told = append(a.told, t)
	if a.first == nil {
		code := string(t.Reason)
		if code == "" {
			code = "helm_forbidden"
		}
		a.first = &denial{code, refusal}
	}
	return t
}

// guard judges a call with the answers that people gave to it.
func (a *answering) guard(
	ctx context.Context, in helm.Intent, definition contracts.Digest, permit bool,
) (d helm.Decision, r helm.Receipt, t *handoff.Ticket) {
	if p := a.kernel.Policy(); p != nil && a.approvals != nil {
		in.Approvals = a.approvals.For(ctx, a.caller, a.session, in.Tool, in.Args, p.Hash())
	}
	defer a.judged(time.Now())
	if permit {
		return a.desk.Begin(ctx, in, definition)
	}
	d, r = a.kernel.Guard(ctx, in)
	return d, r, nil
}

// judged tells how long a decision took that was asked for then.
func (b *books) judged(began time.Time) {
	b.tell.Tell(state.Fact{Kind: state.Judged, Took: time.Since(began)})
}

// waited waits for a person, as long as is configured, and reports whether the request is decided.
func (a *answering) waited(ctx context.Context, nonce string) bool {
	if a.wait <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	return a.approvals.Wait(ctx, nonce) == nil
}

// judge judges a call of an answer. What was not offered to the model, as it was forwarded, is
// denied, and so is what has an id that cannot stand.
func (a *answering) judge(ctx context.Context, c call) ruling {
	who, id, legal := owner(a.caller), c.id, true
	if c.legacy {
		id = legacyID(a.session, c.tool)
		if earlier := a.ticket(opened{who, id}); earlier != nil {
			earlier.Drop() // a result names the function alone: it cannot be of both
		}
	} else if !isID(id) || !a.take(opened{who, id}) {
		if legal = !c.fixed; legal {
			id = newID()
		}
	} else {
		defer a.free(opened{who, id})
	}
	definition, offered := a.offer.tools[c.tool]
	if c.server != "" {
		definition, offered = contracts.Digest{}, a.offer.servers[c.server]
	}
	ticket, t, refusal := a.decide(ctx, id, helm.Intent{Tool: c.tool, Args: c.args}, definition, offered && legal)
	switch {
	case ticket != nil:
		a.noted = append(a.noted, opened{who, id})
		a.note(opened{who, id}, held{ticket.ID(), a.limit.Use(a.caller, a.session)})
		a.index.Put(who, id, callindex.Entry{Session: a.session, Tool: c.tool})
		return ruling{allowed: true, id: id, args: ticket.Call().Args, member: told(t)}
	case !c.legacy && legal:
		a.index.Put(who, id, callindex.Entry{Session: a.session, Denied: true, Kind: c.kind, Refusal: refusal,
			Answer: a.answer})
	}
	return ruling{id: id, refusal: refusal, member: told(t)}
}

func told(t auth.ToldCall) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		return []byte("{}")
	}
	return b
}

// take reports whether the id of a call is its first use by the caller, so that a result is of one
// call.
func (b *books) take(o opened) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, used := b.index.Get(o.owner, o.id); used || b.taken[o] {
		return false
	}
	if b.taken == nil {
		b.taken = map[opened]bool{}
	}
	b.taken[o] = true
	return true
}

// free ends what take began: the id is in the index now.
func (b *books) free(o opened) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.taken, o)
}

// note remembers the ticket of a call until it has an outcome, and drops one of before: that of a
// legacy call, which another answer has had at the same time.
func (b *books) note(o opened, h held) {
	if earlier := b.swap(o, h); earlier != "" {
		if t := b.desk.Ticket(earlier); t != nil {
			t.Drop()
		}
	}
}

func (b *books) swap(o opened, h held) (earlier string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, ok := b.open[o]; ok {
		was.done()
		earlier = was.ticket
	}
	b.open[o] = h
	if len(b.open) < max(b.sweep, 4096) {
		return earlier
	}
	for o, h := range b.open {
		if t := b.desk.Ticket(h.ticket); t == nil || settled(t) {
			h.done()
			delete(b.open, o)
		}
	}
	b.sweep = 2 * len(b.open)
	return earlier
}

func settled(t *handoff.Ticket) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// ticket returns the ticket of a call of a caller that is open, or nil.
func (b *books) ticket(o opened) *handoff.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.open[o]
	t := b.desk.Ticket(h.ticket)
	if t == nil || settled(t) {
		if ok {
			h.done()
			delete(b.open, o)
		}
		return nil
	}
	return t
}

// delivered says that the app has what was released so far.
func (a *answering) delivered() { a.given, a.noted = nil, nil }

// failed drops what the app was not given.
func (a *answering) failed() {
	for _, t := range a.given {
		t.Drop()
	}
	for _, o := range a.noted {
		a.ticket(o) // forgets what has ended
	}
	a.delivered()
}

// settle settles the calls of whose results a request tells, before the request goes on. It returns
// how many it does not know, those that the app lets the provider run, and an error, before
// anything is settled, if one is of a call that was denied, or asks for what no open call permits.
// A strict one refuses what it does not know.
func (b *books) settle(
	c helm.Caller, session string, results []result, strict bool,
) (unknown int, agreed []opened, err error) {
	who := owner(c)
	defer func() {
		if err != nil {
			b.unspent(agreed)
		}
	}()
	ids := make([]string, len(results))
	tickets := make([]*handoff.Ticket, len(results))
	for i, r := range results {
		if ids[i] = r.id; r.id == "" {
			ids[i] = legacyID(session, r.name)
		}
		e, known := b.index.Get(who, ids[i])
		if known && e.Session == session || r.id == "" {
			tickets[i] = b.ticket(opened{who, ids[i]})
		}
		switch {
		case known && e.Denied && !r.drop:
			return 0, agreed, bad("a result of a call that was denied")
		case r.agreed && (tickets[i] == nil || !b.spend(opened{who, ids[i]})):
			return 0, agreed, bad("an approval of a call that is not open")
		case r.agreed:
			agreed = append(agreed, opened{who, ids[i]})
		case known && e.Session == session || tickets[i] != nil:
		case strict:
			return 0, agreed, bad("a result of a call that the session does not have")
		default:
			unknown++
		}
	}
	p := b.kernel.Policy()
	for i, r := range results {
		switch t := tickets[i]; {
		case t == nil, r.agreed: // settled before; open until the provider ran it
		case r.drop:
			t.Drop()
		default:
			raw := p == nil || !p.HasOutput(t.Call().Tool)
			t.Settle(handoff.Outcome{Output: r.output, Raw: raw, Failed: r.failed})
		}
	}
	if b.kernel.Err() != nil {
		return unknown, agreed, errClosed // not all of it may be on record
	}
	return unknown, agreed, nil
}

// spend reports whether no other request has the app's consent to a call that is open: its
// permission is for one run.
func (b *books) spend(o opened) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken[o] {
		return false
	}
	if b.taken == nil {
		b.taken = map[opened]bool{}
	}
	b.taken[o] = true
	return true
}

// unspent ends what spend began.
func (b *books) unspent(list []opened) {
	for _, o := range list {
		b.free(o)
	}
}

// withheld says why a result of a tool must not reach the model, or returns the empty string.
func withheld(p *guardian.Policy, tool string, output []byte, failed bool) string {
	if p == nil || tool == "" {
		return ""
	}
	limits, ok := p.Limits(tool)
	switch {
	case !ok:
		return ""
	case len(output) > limits.Output:
		return string(contracts.ReasonOutputExhausted)
	case failed, !p.HasOutput(tool):
		return "" // an error has no schema
	}
	var tree crypto.Tree
	if tree.Parse(output, crypto.Limits{Bytes: limits.Output, Depth: crypto.MaxDepth}) != nil {
		return string(contracts.ReasonContractDrift)
	}
	if _, ok := p.CheckOutput(tool, tree.Root()); !ok {
		return string(contracts.ReasonContractDrift)
	}
	return ""
}

// legacyID returns the id of a legacy function call, which has none: one may be open for each name.
func legacyID(session, name string) string { return "function:" + session + ":" + name }
