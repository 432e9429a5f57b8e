package helm

import (
	"context"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// With gives a context in which an Intent takes the fields that it leaves zero from in: never Tool, Args or Driver. With in.Tool set that
// holds for this tool only. With over With: the inner one fills first.
//
// A driver's context already carries the Caller, Session and Delegation of its call, and that call's decision as After, so that a tool
// which calls Guard is chained to the call that runs it. And it is of the kernel that runs it: see [Kernel.Context].
func With(ctx context.Context, in Intent) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	in.Args, in.Driver = nil, nil
	h := held(ctx)
	h.layer = &layer{in: in.clone(), up: h.layer}
	return context.WithValue(ctx, contextKey{}, &h)
}

// carried is what HELM keeps in a context.
type carried struct {
	layer *layer // innermost first
	calls *running
	used  *used
}

type layer struct {
	in  Intent
	log *proofgraph.Log // a driver's: in.After is for this log only; nil: for any
	up  *layer
}

// running is a call under whose driver we are.
type running struct {
	session *session
	key     string // its idempotency key
	up      *running
	over    bool // protected by session.mu: what its driver left behind is inside no more
}

type contextKey struct{}

func held(ctx context.Context) carried {
	if h, ok := ctx.Value(contextKey{}).(*carried); ok {
		return *h
	}
	return carried{}
}

// look takes what matters of a context, whose methods may panic: then it has ended. One that has ended is an error.
func look(ctx context.Context) (h carried, done <-chan struct{}, err error) {
	if trouble := contained("the context", func() {
		h = held(ctx)
		_, _ = ctx.Deadline()
		done = ctx.Done()
		err = ctx.Err()
	}); trouble != nil {
		ended := make(chan struct{})
		close(ended)
		done, err = ended, trouble
	}
	return h, done, err
}

// inside tells whether one of the calls that still run is of that session, whose mu the caller holds.
func (r *running) inside(s *session) bool {
	for ; r != nil; r = r.up {
		if r.session == s && !r.over {
			return true
		}
	}
	return false
}

// holds tells whether one of the running calls of that session has that key: who waited for it would wait for itself.
func (r *running) holds(s *session, key string) bool {
	for ; r != nil; r = r.up {
		if r.session == s && r.key == key {
			return true
		}
	}
	return false
}

// driven is the context of a driver: that of the caller, with what calls inside this one inherit.
type driven struct {
	context.Context
	carried carried
	layer   layer
	call    running
	used    used
	after   [1]contracts.Ref
	roles   [4]string // room for those of most callers
}

// Value gives what HELM keeps in a context, and what else the caller's has.
func (d *driven) Value(key any) any {
	if key == (contextKey{}) {
		return &d.carried
	}
	return d.Context.Value(key)
}

// drive makes the context of a driver. What an outer With gave to any tool was for the call that is running now and ends here, its
// idempotency key above all; what it gave to one tool by name stays.
func (c *call) drive(s *session, decision contracts.Ref) *driven {
	in := &c.inputs
	d := &driven{Context: c.ctx, call: running{session: s, key: in.Idempotency, up: c.outer}, after: [1]contracts.Ref{decision}}
	caller := in.Caller
	caller.Roles = append(d.roles[:0], caller.Roles...) // those of the record are handed out
	d.layer = layer{Intent{Caller: caller, Session: in.Session, Delegation: in.Envelopes.Delegation, After: d.after[:]}, c.log, c.layer.named()}
	d.carried = carried{&d.layer, &d.call, c.used}
	if c.parent != nil && (c.used == nil || c.used.kernel != c.Kernel) {
		d.used = used{c.Kernel, c.used}
		d.carried.used = &d.used
	}
	return d
}

// named gives the layers that are for one tool.
func (l *layer) named() *layer {
	if l == nil {
		return nil
	}
	up := l.up.named()
	if l.in.Tool == "" {
		return up
	}
	return &layer{l.in, l.log, up}
}
