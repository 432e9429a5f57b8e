package helm

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
)

// Swap puts another policy in the place of that which k judges by, for k and all kernels narrowed from it, which keep their overlays. Only
// the kernel that [New] made can be swapped. Drivers stay as they are.
//
// All kernels change at once, at one place of the log: what stands behind the policy's entry is judged by the new stacks alone, and so is
// every call that comes after Swap has returned. To swap in what is in force does nothing. A call is judged by one stack; one that waited,
// for room or for a session that was closing, by that which is in force when its turn comes, with the defaults and limits of that. What was
// permitted before runs on under the limits and the pinned output that it was permitted with, and repeats of its idempotency key get its
// outcome.
//
// Refused, with nothing written and nothing changed: a nil or empty policy; one in which something has expired; a document with a version
// lower than the log has had of it; a policy that pins another definition of a tool than the driver in Options declares; a policy over which
// the overlay of a kernel that is still open does not load, because its tool is gone, for instance: close that kernel first. An overlay that
// has expired follows all the same, for it denies. A ctx that ends before anything was written is an error, and nothing has changed; later it
// does not count.
//
// The entries of the new policies are durable when Swap returns nil. Where they cannot be signed or stored the kernel seals. Swap may be
// called from inside a tool; that call goes on under its old stack, and what it calls comes under the new one.
func (k *Kernel) Swap(ctx context.Context, p *guardian.Policy) error {
	if k.none() {
		return errNoKernel
	}
	if k.parent != nil {
		return errors.New("helm: swap: a narrowed kernel follows the kernel that New made: swap that one")
	}
	if len(p.Record().Documents) == 0 {
		return errors.New("helm: swap: no documents: make the policy with guardian.Compile or policy.Load")
	}
	if ctx == nil {
		ctx = context.Background()
	}
	_, done, err := look(ctx)
	if err != nil {
		return fmt.Errorf("helm: swap: nothing was changed: %w", err)
	}
	if err := k.enter(0); err != nil {
		return err
	}
	defer k.leave()
	now, err := k.now()
	if err == nil {
		err = p.Expired(now)
	}
	if err == nil {
		err = k.declare(p)
	}
	if err != nil {
		return fmt.Errorf("helm: swap: %w", err)
	}
	written, err := k.swap(p, done)
	if errors.Is(err, errEnded) {
		err = fmt.Errorf("nothing was changed: %w", contextError(ctx))
	}
	if err == nil {
		err = k.lasting(written...)
	}
	if err != nil {
		return fmt.Errorf("helm: swap: %w", err)
	}
	return nil
}

var errEnded = errors.New("helm: the context ended")

// A turn is what one kernel judges by after a swap.
type turn struct {
	kernel *Kernel
	stack  *stack
}

// swap gives the policies that are in force then, whose entries stand in the log, but may not be durable.
func (k *Kernel) swap(p *guardian.Policy, done <-chan struct{}) ([]contracts.Digest, error) {
	e := &k.enacted
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.forward(p.Record().Documents); err != nil {
		return nil, err
	}
	if p.Hash() == k.current().Hash() {
		return []contracts.Digest{p.Hash()}, nil
	}
	turns, err := k.turns(p, done)
	if err != nil {
		return nil, err
	}
	var hashes []contracts.Digest
	var fresh []*guardian.Policy // of which the log has no entry
	seen := map[contracts.Digest]bool{}
	for _, t := range turns {
		p := t.stack.policy
		if seen[p.Hash()] { // the same overlay twice
			continue
		}
		seen[p.Hash()] = true
		hashes = append(hashes, p.Hash())
		if !e.has(p) {
			fresh = append(fresh, p)
		}
	}
	if fresh == nil {
		k.move(turns)
	}
	for i, p := range fresh {
		var under func(uint64) error
		if i == len(fresh)-1 {
			under = func(uint64) error { k.move(turns); return nil }
		}
		if err := k.enact(p, under); err != nil {
			return nil, err
		}
	}
	for _, t := range turns {
		t.kernel.stack.Store(&stack{policy: t.stack.policy}) // what judged before is let go
	}
	return hashes, nil
}

// turns compiles what each kernel is to judge by: the narrowed ones in the order in which they were made, and last k, behind whose entry all
// is judged anew. There can be no more of them meanwhile, for the caller holds enacted.mu.
func (k *Kernel) turns(p *guardian.Policy, done <-chan struct{}) ([]turn, error) {
	next := k.epoch.Load() + 1
	var turns []turn
	for _, n := range k.descendants() {
		if over(done) {
			return nil, errEnded
		}
		narrowed, err := p.Narrow(n.overlays...)
		if err != nil {
			return nil, fmt.Errorf("a kernel that was narrowed cannot follow: %w", err)
		}
		turns = append(turns, turn{n, &stack{narrowed, next, n.current()}})
	}
	if over(done) {
		return nil, errEnded
	}
	return append(turns, turn{k, &stack{p, next, k.current()}}), nil
}

// descendants gives the narrowed kernels that are open.
func (k *Kernel) descendants() (list []*Kernel) {
	k.kin.Lock()
	defer k.kin.Unlock()
	for e := k.narrowed.Front(); e != nil; e = e.Next() {
		list = append(list, e.Value.(*Kernel))
	}
	return list
}

// move puts all stacks into force, at once.
func (k *Kernel) move(turns []turn) {
	for _, t := range turns {
		t.kernel.stack.Store(t.stack)
	}
	k.epoch.Add(1)
}
