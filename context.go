package helm

import (
	"context"
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/proofgraph"
)

// With returns a context under which an Intent takes the fields that it leaves zero from in, except
// Tool, Args and Driver. If in.Tool is set this holds for that tool only. With over With: the inner
// one fills first.
//
// A driver's context already carries the Caller, Session and Delegation of its call, and that
// call's decision as After, so that a tool which calls Guard is chained to the call that runs it.
// It is also the context of the kernel that runs it: see [Kernel.Context].
func With(ctx context.Context, in Intent) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	in.Args, in.Driver = nil, nil
	c := fromContext(ctx)
	c.layer = &layer{in: in.clone(), outer: c.layer}
	return context.WithValue(ctx, contextKey{}, &c)
}

// carried holds the values of this package in a context. Each list has its innermost first.
type carried struct {
	layer  *layer       // from With and from drivers
	calls  *runningCall // the calls whose drivers run
	kernel *usedKernel  // from Kernel.Context and from drivers
}

// A layer fills fields that an Intent leaves zero.
type layer struct {
	in    Intent
	log   *proofgraph.Log // if a driver's: in.After is for this log only; nil: for any
	outer *layer
}

// A usedKernel names the kernel of a context.
type usedKernel struct {
	kernel *Kernel
	outer  *usedKernel
}

type contextKey struct{}

func fromContext(ctx context.Context) carried {
	if c, ok := ctx.Value(contextKey{}).(*carried); ok {
		return *c
	}
	return carried{}
}

// inspect reads a context. It returns an error if the context has ended. A context whose methods
// panic counts as ended.
func inspect(ctx context.Context) (c carried, done <-chan struct{}, err error) {
	defer func() {
		if x := recover(); x != nil {
			closed := make(chan struct{})
			close(closed)
			done, err = closed, contain.Describe("the context", x)
		}
	}()
	c = fromContext(ctx)
	_, _ = ctx.Deadline() // or its panic would come once the driver asks
	return c, ctx.Done(), ctx.Err()
}

// contextError returns the error of a context that has ended, whose methods may panic.
func contextError(ctx context.Context) (err error) {
	defer contain.Error(&err, "the context")
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("the context ended")
}

// ended reports whether done is closed.
func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// fill sets the fields that in leaves zero. It reports whether it took an idempotency key that is
// for every tool.
func (l *layer) fill(in *Intent, log *proofgraph.Log) (anyTool bool) {
	for ; l != nil; l = l.outer {
		from := &l.in
		if from.Tool != "" && from.Tool != in.Tool {
			continue
		}
		if in.Caller.ID == "" && in.Caller.Tenant == "" && len(in.Caller.Roles) == 0 {
			in.Caller = from.Caller
		}
		if in.Session == "" {
			in.Session = from.Session
		}
		if in.Idempotency == "" {
			in.Idempotency = from.Idempotency
			anyTool = from.Idempotency != "" && from.Tool == ""
		}
		if len(in.After) == 0 && (l.log == nil || l.log == log) {
			in.After = from.After
		}
		if len(in.Delegation) == 0 {
			in.Delegation = from.Delegation
		}
		if len(in.Approvals) == 0 {
			in.Approvals = from.Approvals
		}
		if len(in.Attestations) == 0 {
			in.Attestations = from.Attestations
		}
	}
	return anyTool
}

// forNamedTools returns the layers that are for one tool.
func (l *layer) forNamedTools() *layer {
	if l == nil {
		return nil
	}
	outer := l.outer.forNamedTools()
	if l.in.Tool == "" {
		return outer
	}
	return &layer{l.in, l.log, outer}
}

// under returns the kernel that judges calls of k: k, or the narrowest kernel that u leads to. It
// returns nil if one of the contexts is of no kernel.
func (u *usedKernel) under(k *Kernel) *Kernel {
	for ; u != nil; u = u.outer {
		if u.kernel.none() {
			return nil
		}
		for d := u.kernel; d != nil; d = d.parent {
			if d == k { // u.kernel is k, or was narrowed from it
				k = u.kernel
				break
			}
		}
	}
	return k
}

// A driverContext is the caller's context with the values that the driver's own calls inherit.
type driverContext struct {
	context.Context
	carried carried
	layer   layer
	call    runningCall
	kernel  usedKernel
	after   [1]contracts.Ref
	roles   [4]string // enough for most callers
}

// newDriverContext returns the context of a call's driver. A field that an outer With set for all
// tools was for this call and ends here, its idempotency key above all. One that it set for a named
// tool stays.
func newDriverContext(
	ctx context.Context, outer carried, k *Kernel, s *session, in *contracts.Inputs, decision contracts.Ref,
) *driverContext {
	d := &driverContext{Context: ctx, after: [1]contracts.Ref{decision}}
	d.call = runningCall{session: s, key: in.Idempotency, outer: outer.calls}
	caller := in.Caller
	caller.Roles = append(d.roles[:0], caller.Roles...) // the record's are handed out
	from := Intent{Caller: caller, Session: in.Session, Delegation: in.Envelopes.Delegation, After: d.after[:]}
	d.layer = layer{from, k.shared.log, outer.layer.forNamedTools()}
	d.carried = carried{&d.layer, &d.call, outer.kernel}
	if k.parent != nil && (outer.kernel == nil || outer.kernel.kernel != k) {
		d.kernel = usedKernel{k, outer.kernel}
		d.carried.kernel = &d.kernel
	}
	return d
}

// Value returns the values of this package, and then those of the caller's context.
func (d *driverContext) Value(key any) any {
	if key == (contextKey{}) {
		return &d.carried
	}
	return d.Context.Value(key)
}
