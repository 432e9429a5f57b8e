package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A stack holds the policy that a kernel judges by. A swap stores the next stack of each kernel,
// which counts from the next epoch on, and then moves the epoch. So all kernels change at once, and
// readers take no lock.
type stack struct {
	policy *guardian.Policy
	since  uint64           // the epoch from which it counts
	before *guardian.Policy // it counts until then
}

// current returns the policy that judges now.
func (k *Kernel) current() *guardian.Policy {
	epoch := k.shared.epoch.Load() // first: a stack loaded after it is at least that of this epoch
	s := k.stack.Load()
	if s.since > epoch {
		return s.before
	}
	return s.policy
}

// judgesBy reports whether k judges by that policy now, under that trust state.
func (k *Kernel) judgesBy(policy *guardian.Policy, state *registry.State) bool {
	return k.current() == policy && k.shared.trust.Load() == state
}

// A policyLog knows the policies that have entries in the log.
type policyLog struct {
	// mu is held while stacks are put in force, but not while their entries become durable. It is
	// locked before that of a session.
	mu sync.Mutex

	known     sync.Mutex                            // held for a few look-ups; protects the fields below
	slots     map[contracts.Digest]*proofgraph.Slot // by PolicyHash; nil once the entry is durable
	versions  map[string]uint64                     // the highest of each document, by layer and name
	documents map[contracts.Digest]bool             // their bytes are blobs of these entries
	added     func(*contracts.PolicyRecord)         // is told of each entry; may be nil
}

func newPolicyLog() *policyLog {
	return &policyLog{
		slots:     map[contracts.Digest]*proofgraph.Slot{},
		versions:  map[string]uint64{},
		documents: map[contracts.Digest]bool{},
	}
}

// add notes an entry.
func (l *policyLog) add(r *contracts.PolicyRecord, slot *proofgraph.Slot) {
	if l.added != nil {
		l.added(r)
	}
	l.known.Lock()
	defer l.known.Unlock()
	l.slots[r.Policy] = slot
	for _, d := range r.Documents {
		key := d.Layer + ":" + d.Name
		// A narrowed kernel that follows a swap keeps its overlay, even if others had a later one.
		l.versions[key] = max(l.versions[key], d.Version)
		l.documents[d.Digest] = true
	}
}

// checkVersions returns an error if the version of one of the documents goes back.
func (l *policyLog) checkVersions(documents []contracts.PolicyDocument) error {
	l.known.Lock()
	defer l.known.Unlock()
	for _, d := range documents {
		if had := l.versions[d.Layer+":"+d.Name]; d.Version < had {
			return fmt.Errorf("policy %s %s: version %d goes back: the log has had version %d",
				d.Layer, d.Name, d.Version, had)
		}
	}
	return nil
}

// has reports whether the log has the policy's entry, durable or not.
func (l *policyLog) has(p *guardian.Policy) bool {
	l.known.Lock()
	defer l.known.Unlock()
	_, ok := l.slots[p.Hash()]
	return ok
}

// awaitDurable waits until the entries of these policies are durable, even if another caller
// signed them.
func (l *policyLog) awaitDurable(policies ...contracts.Digest) error {
	for _, hash := range policies {
		l.known.Lock()
		slot := l.slots[hash]
		l.known.Unlock()
		if slot == nil {
			continue
		}
		if err := slot.Wait(); err != nil {
			return err
		}
		l.known.Lock()
		l.slots[hash] = nil
		l.known.Unlock()
	}
	return nil
}

// recordPolicy signs the policy's entry, unless the log has it: there is one for each PolicyHash.
// The store already has the documents of earlier entries. Over a shared store the versions of the
// new documents must not be lower than those that the log has there. If steps are not nil, they
// count from the entry on. The caller holds policies.mu.
func (sh *shared) recordPolicy(p *guardian.Policy, news []contracts.PolicyDocument, steps []swapStep) error {
	l := sh.policies
	if l.has(p) {
		return nil
	}
	record := p.Record()
	r := &recording{statement: contracts.Statement{Policy: &record}}
	if steps != nil {
		r.take = func(proofgraph.Place) error { sh.move(steps); return nil }
		r.undo = sh.moveBack
	}
	l.known.Lock()
	for i, d := range record.Documents {
		if !l.documents[d.Digest] {
			r.blobs = append(r.blobs, p.Document(i).Canonical)
		}
	}
	l.known.Unlock()
	if sh.joined {
		move := r.take
		r.take = func(at proofgraph.Place) error {
			if l.has(p) { // another kernel has written it meanwhile
				return errWritten
			}
			if err := l.checkVersions(news); err != nil {
				return err
			}
			if move != nil {
				return move(at)
			}
			return nil
		}
	}
	s := sh.session(contracts.SessionKernel)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, err := sh.record(s, r)
	if err == errWritten {
		if steps != nil {
			sh.move(steps)
		}
		return nil
	}
	if err == nil {
		l.add(&record, slot)
	}
	return err
}

// base returns the documents of a stack without its overlays, which stay when a stack is swapped.
func base(documents []contracts.PolicyDocument) []contracts.PolicyDocument {
	return slices.DeleteFunc(slices.Clone(documents), func(d contracts.PolicyDocument) bool { return d.Layer == "P2" })
}

var errWritten = errors.New("helm: the log has the policy's entry")

// begin puts the policy in force with which New makes its kernel.
func (k *Kernel) begin() error {
	sh := k.shared
	p := sh.options.Policy
	sh.options.Policy = nil // from now on current says which policy judges
	if err := sh.policies.checkVersions(p.Record().Documents); err != nil {
		return err
	}
	k.stack.Store(&stack{policy: p})
	if err := sh.recordPolicy(p, p.Record().Documents, nil); err != nil {
		return err
	}
	return sh.policies.awaitDurable(p.Hash())
}

// Swap replaces the policy that k judges by, for k and for all kernels narrowed from it, which keep
// their overlays. Only the kernel that [New] made can be swapped. Drivers stay as they are.
//
// All kernels change at once, at one place of the log: entries after the policy's entry, and every
// call made after Swap has returned, are judged by the new stacks alone. Swapping in the policy
// that is in force does nothing. A call is judged by one stack. A call that waited, for room or for
// a session that was closing, is judged by the stack in force when its turn comes, with its
// defaults and limits. A call that was permitted before runs on under the limits and the pinned
// output that it was permitted with, and repeats of its idempotency key get its outcome.
//
// Swap refuses, with nothing written and nothing changed: a nil or empty policy; one in which
// something has expired; a document with a version lower than the log has had of it; a policy that
// pins another definition of a tool than the driver in Options declares; a policy over which the
// overlay of an open kernel does not load, for instance because its tool is gone: close that kernel
// first. An overlay that has expired follows all the same, because it denies. If ctx ends before
// anything is written Swap returns an error, and nothing has changed; later ctx does not count.
//
// The entries of the new policies are durable when Swap returns nil. If they cannot be signed or
// stored the kernel seals. Swap may be called from inside a tool: that call goes on under its old
// stack, and the calls it makes are judged by the new one.
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
	_, done, err := inspect(ctx)
	if err != nil {
		return fmt.Errorf("helm: swap: nothing was changed: %w", err)
	}
	if err := k.enter(0); err != nil {
		return err
	}
	defer k.leave()
	policies, err := k.enact(p, done)
	if err == errEnded {
		err = fmt.Errorf("nothing was changed: %w", contextError(ctx))
	}
	if err == nil {
		err = k.shared.policies.awaitDurable(policies...)
	}
	if err != nil {
		return fmt.Errorf("helm: swap: %w", err)
	}
	return nil
}

var errEnded = errors.New("helm: the context ended")

// A swapStep pairs a kernel with the stack it will judge by after the swap.
type swapStep struct {
	kernel *Kernel
	stack  *stack
}

// enact checks the policy, puts it in force and returns the policies that all kernels judge by
// then. Their entries are in the log, but may not be durable.
func (k *Kernel) enact(p *guardian.Policy, done <-chan struct{}) ([]contracts.Digest, error) {
	sh, l := k.shared, k.shared.policies
	if err := sh.log.Refresh(context.Background()); err != nil {
		return nil, err
	}
	now, err := sh.options.clock.Now()
	if err != nil {
		return nil, err
	}
	if err := p.Expired(now); err != nil {
		return nil, err
	}
	if err := p.Unapprovable(sh.trust.Load()); err != nil {
		return nil, err
	}
	if err := sh.options.checkDefinitions(p, &sh.abandoned, done); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkVersions(p.Record().Documents); err != nil {
		return nil, err
	}
	if p.Hash() == k.current().Hash() {
		return []contracts.Digest{p.Hash()}, nil
	}
	steps, err := k.compileSteps(p, done)
	if err != nil {
		return nil, err
	}
	var hashes []contracts.Digest
	var fresh []*guardian.Policy // of which the log has no entry
	seen := map[contracts.Digest]bool{}
	for _, step := range steps {
		p := step.stack.policy
		if seen[p.Hash()] { // the same overlay twice
			continue
		}
		seen[p.Hash()] = true
		hashes = append(hashes, p.Hash())
		if !l.has(p) {
			fresh = append(fresh, p)
		}
	}
	if fresh == nil {
		sh.move(steps)
	}
	for i, p := range fresh {
		var last []swapStep
		if i == len(fresh)-1 {
			last = steps
		}
		if err := sh.recordPolicy(p, base(p.Record().Documents), last); err != nil {
			return nil, err
		}
	}
	for _, step := range steps {
		step.kernel.stack.Store(&stack{policy: step.stack.policy}) // drops the policy that judged before
	}
	return hashes, nil
}

// compileSteps compiles the stack of each kernel: of the narrowed ones in the order in which they
// were made, and last of k. Entries after that of k are judged by the new stacks. No kernel can be
// narrowed meanwhile, because the caller holds policies.mu.
func (k *Kernel) compileSteps(p *guardian.Policy, done <-chan struct{}) ([]swapStep, error) {
	next := k.shared.epoch.Load() + 1
	var steps []swapStep
	for _, n := range k.shared.descendants() {
		if ended(done) {
			return nil, errEnded
		}
		narrowed, err := p.Narrow(n.overlays...)
		if err != nil {
			return nil, fmt.Errorf("a kernel that was narrowed cannot follow: %w", err)
		}
		steps = append(steps, swapStep{n, &stack{narrowed, next, n.current()}})
	}
	if ended(done) {
		return nil, errEnded
	}
	return append(steps, swapStep{k, &stack{p, next, k.current()}}), nil
}

// descendants returns the narrowed kernels that are open.
func (sh *shared) descendants() (list []*Kernel) {
	sh.narrowedMu.Lock()
	defer sh.narrowedMu.Unlock()
	for e := sh.narrowed.Front(); e != nil; e = e.Next() {
		list = append(list, e.Value.(*Kernel))
	}
	return list
}

// move puts all stacks in force, at once.
func (sh *shared) move(steps []swapStep) {
	for _, step := range steps {
		step.kernel.stack.Store(step.stack)
	}
	sh.epoch.Add(1)
}

// moveBack takes move back. The stacks count from an epoch that is not there again, so those before
// them do.
func (sh *shared) moveBack() { sh.epoch.Add(^uint64(0)) }

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
	if err := sh.log.Refresh(context.Background()); err != nil {
		return nil, policy, err
	}
	now, err := sh.options.clock.Now()
	if err != nil {
		return nil, policy, err
	}
	l := sh.policies
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
		if err := sh.recordPolicy(p, documents[len(documents)-1:], nil); err != nil {
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
