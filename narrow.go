package helm

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// Narrow returns a kernel that judges by the stack of k and after it one more overlay: a document
// of layer P2, written for one task, one session, one caller. An overlay can only deny, so k allows
// whatever the new kernel allows. The new kernel may be narrowed further.
//
// It shares everything else with k: the log, sessions, keys, drivers, the admission queue, and
// idempotency keys. A key that one of them bound returns the first outcome to the others too,
// even one that their overlay would deny: a task that must not see that needs a session of its
// own. A seal, and the Close of the kernel that [New] made, are for all of them. Otherwise each
// is closed by itself. It shares the policy of k, and holds what its overlay says. Close a
// narrowed kernel when its task is over, because [Kernel.Swap] compiles its overlay again.
//
// The policy entry is durable when Narrow returns. A PolicyHash that the log has is not written
// again. Narrow refuses, with nothing written and nothing changed: a document of another layer, or
// one that does not load over this stack; a name that the stack has already, or a version lower
// than the log has had of that name; a stack in which something has expired; a kernel that is
// closed or sealed. If the policy is at fault the error has a *[guardian.LoadError].
func (k *Kernel) Narrow(overlay contracts.Document) (*Kernel, error) {
	if k.none() {
		return nil, errNoKernel
	}
	if err := k.enter(0); err != nil {
		return nil, err
	}
	defer k.leave()
	overlay.Canonical, overlay.Lines = bytes.Clone(overlay.Canonical), maps.Clone(overlay.Lines)
	n, policy, err := k.narrow(overlay)
	if err != nil {
		return nil, fmt.Errorf("helm: narrow: %w", err)
	}
	if err := k.shared.policies.awaitDurable(policy); err != nil {
		n.remove()
		return nil, fmt.Errorf("helm: narrow: %w", err)
	}
	return n, nil
}

// narrow makes the kernel and returns it with the hash of its policy, whose entry is in the log,
// but may not be durable.
func (k *Kernel) narrow(overlay contracts.Document) (n *Kernel, policy contracts.Digest, err error) {
	sh := k.shared
	now, err := sh.options.clock.Now()
	if err != nil {
		return nil, policy, err
	}
	l := &sh.policies
	for {
		base := k.current()
		p, err := base.Narrow(overlay) // takes a while, so without a lock
		if err != nil {
			return nil, policy, err
		}
		if err := p.Expired(now); err != nil {
			return nil, policy, err
		}
		if err := p.Unapprovable(sh.trust.Load()); err != nil {
			return nil, policy, err
		}
		l.mu.Lock()
		if k.current() != base { // swapped meanwhile
			l.mu.Unlock()
			continue
		}
		defer l.mu.Unlock()
		documents := p.Record().Documents
		if err := l.checkVersions(documents[len(documents)-1:]); err != nil { // those of k are in force
			return nil, policy, err
		}
		if err := sh.recordPolicy(p, nil); err != nil {
			return nil, policy, err
		}
		n := &Kernel{shared: sh, parent: k, overlays: append(slices.Clone(k.overlays), overlay)}
		n.stack.Store(&stack{policy: p})
		sh.narrowedMu.Lock()
		defer sh.narrowedMu.Unlock()
		n.listed = sh.narrowed.PushBack(n)
		return n, p.Hash(), nil
	}
}

// Context returns a context under which calls of the kernels that k was narrowed from are calls of
// k, through [Kernel.Guard] and wrapped functions alike. So functions that were wrapped once
// ([Wrap]) serve every task under the overlay of its own. Calls of other kernels are left alone:
// each is judged by its own kernel.
//
// A driver's context is that of the kernel that runs it. So the calls that a tool makes stay under
// the overlay that the tool was called under, even if the tool was written with a kernel above it.
//
// Of several contexts, the innermost one of a kernel that descends from the called kernel counts.
// From there on, it is as if that kernel had been called. So no context leads back to a wider
// kernel: with a narrowed from root and b from a, a call of root or of a is one of b, under
// a.Context(b.Context(ctx)) and under b.Context(a.Context(ctx)) alike. Of two kernels of which
// neither was narrowed from the other the inner one counts, as it would if its Guard were called.
//
// It is no wall against the host's own code, which can call a wider kernel under another context.
//
// The context of a closed kernel denies as a closed kernel does. Under the context of a nil or
// zero Kernel every call is denied, because an error of Narrow that nobody looked at must not widen
// anything.
func (k *Kernel) Context(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	c := fromContext(ctx)
	c.kernel = &usedKernel{k, c.kernel}
	return context.WithValue(ctx, contextKey{}, &c)
}
