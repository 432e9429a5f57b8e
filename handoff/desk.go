package handoff

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Profile is the sandbox profile of calls that ran elsewhere.
const Profile = contracts.ProfileReported

const (
	usualOpen = 1024             // calls that may wait at once
	retention = 10 * time.Minute // how long a settled ticket is known
	maxKept   = 64 << 20         // bytes that settled tickets hold, or the oldest are known no more
)

// A Desk hands calls over. Its methods may be called from many goroutines.
type Desk struct {
	kernel *helm.Kernel
	most   int
	watch  Watch

	mu      sync.Mutex // protects the rest
	closed  bool
	begun   map[*Ticket]struct{} // that have no last word yet
	retries map[retry]*Ticket    // those of begun that a retry can name
	known   map[string]*Ticket   // by id: open ones, and those in settled
	settled []*Ticket            // the oldest first
	kept    int                  // bytes that settled holds
	idle    chan struct{}        // closed when closed is set and begun is empty
}

// A retry is what two requests have in common if the second is sent because the answer to the first
// was lost.
type retry struct {
	session, key, tool string
	call               contracts.Digest // of caller and arguments, which may be long
}

// New returns a desk of k. At most open calls wait at once; 0 is 1,024, each of which takes some
// 50 KB. If k is nil every Begin denies.
func New(k *helm.Kernel, open int) *Desk {
	if open <= 0 {
		open = usualOpen
	}
	return &Desk{
		kernel: k, most: open, begun: map[*Ticket]struct{}{}, retries: map[retry]*Ticket{},
		known: map[string]*Ticket{}, idle: make(chan struct{}),
	}
}

// A Watch is told how many calls are open, and what becomes of them. Its functions may be nil. They
// are called from many goroutines while a caller waits, and their panics are dropped.
type Watch struct {
	Opened  func()                  // there is a Ticket
	Settled func(contracts.Outcome) // it has its last word; the outcome is empty if none could be recorded
}

// Watch has w told of all calls that are handed over. It must be called before the first Begin.
func (d *Desk) Watch(w Watch) {
	if d != nil {
		d.watch = w
	}
}

// Begin judges a call, as [helm.Kernel.Guard] does. If the call may run it returns its Ticket, once
// the permission is durable. Then the last word is open: Decision.Record is the ALLOW, Err Is
// [helm.ErrWithheld], and the Receipt is zero. Without a Ticket nothing may run, and Decision and
// Receipt are the last word.
//
// The definition is the digest of what the model was shown of the tool, or zero. in.Driver must be
// nil: anything else is DRIVER_NOT_BOUND, and so is a tool that Options.Drivers binds. If ctx ends
// before the call is decided it is denied. Once there is a Ticket, ctx counts no more.
//
// If as many calls are open as may be, or the desk is closed, nothing is judged: the decision is
// DENY FAIL_CLOSED_ERROR without a receipt. Begin again with the Session, Idempotency, Tool, Caller
// and Args of an open call returns the same Ticket. For that the Intent itself must name session
// and caller: those of a context are not looked at.
func (d *Desk) Begin(
	ctx context.Context, in helm.Intent, definition contracts.Digest,
) (helm.Decision, helm.Receipt, *Ticket) {
	if d == nil || d.kernel == nil {
		in.Driver = nil
		decision, receipt := (*helm.Kernel)(nil).Guard(ctx, in)
		return decision, receipt, nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	for {
		t, again, why := d.admit(&in)
		if why != "" {
			return unjudged(why), helm.Receipt{}, nil
		}
		if !again {
			t.begin(ctx, in, definition)
		} else if !t.await(ctx) {
			return unjudged("the context ended while the same call was decided"), helm.Receipt{}, nil
		}
		switch decision, receipt, opened := t.answer(); {
		case opened:
			return decision, receipt, t
		case !again:
			return decision, receipt, nil
		}
	}
}

func unjudged(why string) helm.Decision {
	return helm.Decision{Reason: contracts.ReasonFailClosedError, Why: "handoff: " + why}
}

// admit counts a call in. It returns the open one if the call repeats it, or why there is no room.
func (d *Desk) admit(in *helm.Intent) (t *Ticket, again bool, why string) {
	key, ok := retryOf(in)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	if t := d.retries[key]; ok && t != nil {
		return t, true, ""
	}
	switch {
	case d.closed:
		return nil, false, "the desk is closed"
	case len(d.begun) >= d.most:
		return nil, false, fmt.Sprintf("%d calls are open", d.most)
	}
	t = newTicket(d)
	d.begun[t] = struct{}{}
	if ok {
		t.retry = &key
		d.retries[key] = t
	}
	return t, false, ""
}

func retryOf(in *helm.Intent) (key retry, ok bool) {
	c := &in.Caller
	if in.Idempotency == "" || in.Session == "" || in.Driver != nil ||
		c.ID == "" && c.Tenant == "" && len(c.Roles) == 0 {
		return key, false
	}
	caller := crypto.AppendString(crypto.AppendString(nil, c.ID), c.Tenant)
	for _, role := range slices.Sorted(slices.Values(c.Roles)) {
		caller = crypto.AppendString(caller, role)
	}
	args := crypto.Sum(in.Args) // of a length of its own, so that no role is taken for a part of it
	return retry{in.Session, in.Idempotency, in.Tool, crypto.Sum(append(caller, args[:]...))}, true
}

// Ticket returns the ticket of that ID. It returns nil if there is none: it was settled more than
// 10 minutes ago, or so many were since that they hold more than 64 MiB, or it is of another
// process. Whose ticket it is, the caller must compare.
func (d *Desk) Ticket(id string) *Ticket {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	return d.known[id]
}

// Tickets returns the tickets of all calls that are open, in no order. Whose they are, the caller
// must compare.
func (d *Desk) Tickets() []*Ticket {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*Ticket
	for t := range d.begun {
		if t.id != "" && d.known[t.id] == t {
			list = append(list, t)
		}
	}
	return list
}

// DropSession drops the open calls of a session, and those that are about to open. Call it before
// [helm.Kernel.CloseSession], which would wait for them.
func (d *Desk) DropSession(session string) {
	if d != nil {
		d.drop(func(of string) bool { return of == session })
	}
}

// Close drops all calls that are open, and waits until they are recorded, or until ctx ends: then
// it returns the context's error, and may be called again. From its beginning on no call begins.
// Close the desk before its kernel.
func (d *Desk) Close(ctx context.Context) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		d.rest()
	}
	d.mu.Unlock()
	d.drop(func(string) bool { return true })
	select {
	case <-d.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop drops the calls of some sessions. Those that have no permission yet are dropped when they
// get it.
func (d *Desk) drop(of func(session string) bool) {
	var open []*Ticket
	d.mu.Lock()
	for t := range d.begun {
		if t.id == "" {
			t.unwanted = append(t.unwanted, of)
		} else if of(t.call.Session) {
			open = append(open, t)
		}
	}
	d.mu.Unlock()
	for _, t := range open {
		t.end(dropped)
	}
}

// open makes a ticket known that has its permission. It reports false if nobody wants it any more.
func (d *Desk) open(t *Ticket, id string, record contracts.DecisionRecord, call contracts.Call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range t.unwanted {
		if of(call.Session) {
			return false
		}
	}
	t.id, t.record, t.call = id, record, call
	d.known[id] = t
	return true
}

// settle counts a call out whose last word is known. It reports whether the call was open.
func (d *Desk) settle(t *Ticket) (opened bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.begun, t)
	if t.retry != nil {
		delete(d.retries, *t.retry)
	}
	if t.id != "" {
		t.settled = time.Now()
		d.settled = append(d.settled, t)
		d.kept += t.size()
		d.forget()
	}
	d.rest()
	return t.id != ""
}

// rest tells Close if nothing is open. The caller holds the lock.
func (d *Desk) rest() {
	if d.closed && len(d.begun) == 0 {
		select {
		case <-d.idle:
		default:
			close(d.idle)
		}
	}
}

// forget drops settled tickets that are too old, or too much. The caller holds the lock.
func (d *Desk) forget() {
	n := 0
	for _, t := range d.settled {
		if d.kept <= maxKept && time.Since(t.settled) < retention {
			break
		}
		delete(d.known, t.id)
		d.kept -= t.size()
		n++
	}
	d.settled = slices.Delete(d.settled, 0, n)
}
