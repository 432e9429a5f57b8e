package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// Narrow gives a kernel that judges by the stack of k and, behind it, one more overlay: a document of layer P2, written for one task, one
// session, one caller. An overlay can only deny, so what the new kernel allows k allows, too. It may be narrowed further.
//
// Everything but the stack is that of k: the log, sessions, keys, drivers, the room in front of the store; and idempotency keys, so a key
// that one of them bound gives the others the first outcome, too, even what their overlay would deny: a task that must not see that needs a
// session of its own. A seal, and the Close of the kernel that [New] made, are for all. Else
// each is closed by itself: close a narrowed kernel when its task is over, for [Kernel.Swap] compiles it anew, and its memory is that of a
// whole policy.
//
// The policy entry is durable when Narrow returns; a PolicyHash that the log has is not written again. What is refused, with nothing written
// and nothing changed: a document of another layer, or one that does not load over this stack; a name that the stack has already, or a
// version lower than the log has had of that name; a stack in which something has expired; a kernel that is closed or sealed. For a policy's
// fault the error has a *[guardian.LoadError].
func (k *Kernel) Narrow(overlay contracts.Document) (*Kernel, error) {
	if k.none() {
		return nil, errNoKernel
	}
	if err := k.enter(0); err != nil {
		return nil, err
	}
	defer k.leave()
	overlay = contracts.Document{Name: overlay.Name, Canonical: bytes.Clone(overlay.Canonical), Lines: maps.Clone(overlay.Lines)}
	n, hash, err := k.narrow(overlay)
	if err != nil {
		return nil, fmt.Errorf("helm: narrow: %w", err)
	}
	if err := k.lasting(hash); err != nil {
		n.forget()
		return nil, fmt.Errorf("helm: narrow: %w", err)
	}
	return n, nil
}

// narrow makes the kernel, whose policy stands in the log then, but may not be durable.
func (k *Kernel) narrow(overlay contracts.Document) (*Kernel, contracts.Digest, error) {
	none := contracts.Digest{}
	now, err := k.now()
	if err != nil {
		return nil, none, err
	}
	e := &k.enacted
	for {
		base := k.current()
		p, err := base.Narrow(overlay) // which takes a while, so without a lock
		if err != nil {
			return nil, none, err
		}
		if err := p.Expired(now); err != nil {
			return nil, none, err
		}
		e.mu.Lock()
		if k.current() != base { // swapped meanwhile
			e.mu.Unlock()
			continue
		}
		defer e.mu.Unlock()
		documents := p.Record().Documents
		if err := e.forward(documents[len(documents)-1:]); err != nil { // those of k are in force
			return nil, none, err
		}
		if err := k.enact(p, nil); err != nil {
			return nil, none, err
		}
		n := &Kernel{common: k.common, parent: k, overlays: append(slices.Clone(k.overlays), overlay)}
		n.stack.Store(&stack{policy: p})
		k.kin.Lock()
		defer k.kin.Unlock()
		n.open = k.narrowed.PushBack(n)
		return n, p.Hash(), nil
	}
}

// forget lets swaps pass a kernel by whose last call has left. It may be said twice.
func (k *Kernel) forget() {
	k.kin.Lock()
	defer k.kin.Unlock()
	k.narrowed.Remove(k.open)
}

// Context gives a context under which calls of the kernels that k was narrowed from, [Kernel.Guard] and wrapped functions alike, are calls
// of k: so functions that were wrapped once ([Wrap]) serve every task under the overlay of its own. Calls of other kernels are left alone:
// each is judged by its own.
//
// A driver's context has that of the kernel that runs it, so that what a tool calls stays under the overlay that the tool was called under,
// with whichever kernel above it the tool was written.
//
// Of several contexts the innermost that is of the called kernel's descendants counts; and from there on, it is as if that kernel had been
// called. So no context leads back to a wider kernel: with a under root and b under a, a call of root or of a is one of b under
// a.Context(b.Context(ctx)) as under b.Context(a.Context(ctx)). Of two kernels of which neither was narrowed from the other the inner
// counts, as it would if its Guard were called.
//
// It is no wall against the host's own code: who has a wider kernel can call it under another context.
//
// A closed kernel's context denies what a closed kernel does. Under the context of a nil or zero Kernel every call is denied: an error of
// Narrow that nobody looked at must not widen anything.
func (k *Kernel) Context(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	h := held(ctx)
	h.used = &used{k, h.used}
	return context.WithValue(ctx, contextKey{}, &h)
}

// used is a kernel whose context one is.
type used struct {
	kernel *Kernel
	up     *used // innermost first
}

var errOrphan = errors.New("helm: the context is of no kernel: what Narrow gave was nil")

// under gives the kernel that judges the calls of k under a context; nil where that has one that is none.
func (k *Kernel) under(u *used) *Kernel {
	for ; u != nil; u = u.up {
		if u.kernel.none() {
			return nil
		}
		if u.kernel.from(k) {
			k = u.kernel
		}
	}
	return k
}

// from tells whether k is the other kernel, or was narrowed from it.
func (k *Kernel) from(other *Kernel) bool {
	for ; k != nil; k = k.parent {
		if k == other {
			return true
		}
	}
	return false
}
