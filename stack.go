package helm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

// A stack is what a kernel judges by. When stacks are swapped each kernel gets its next one, which counts from the next epoch on; then the
// epoch moves. So all kernels change at once, and whoever looks takes no lock.
type stack struct {
	policy *guardian.Policy
	since  uint64           // the epoch from which on it counts
	before *guardian.Policy // what counts until then
}

// current is the policy that judges now.
func (k *Kernel) current() *guardian.Policy {
	epoch := k.epoch.Load() // first: a stack that is found after it is none of an epoch before
	s := k.stack.Load()
	if s.since > epoch {
		return s.before
	}
	return s.policy
}

var errMoved = errors.New("helm: another stack judges now, or under another trust state")

// stands is an error where the call was read for a stack that judges no more, or judged under a trust state that holds no more. It is asked
// with the place of the call's entry taken: what stands in the log behind a policy that was swapped in is judged by that, and what stands
// behind a trust event under the state that it made.
func (c *call) stands() error {
	if c.current() != c.policy || c.trust.Load() != c.state {
		return errMoved
	}
	return nil
}

// renew reads the call again, where another stack judges now: its defaults and limits may be others. The caller holds no lock.
func (c *call) renew() {
	p := c.current()
	if p == c.policy {
		return
	}
	c.policy = p
	limits, _ := c.policy.Limits(c.inputs.Tool)
	c.expect(limits.Timeout)
	c.inputs.ArgsForm, c.syntax, c.misfit = "", "", ""
	c.fit()
	c.parse()
	if c.holds != c.size() {
		c.vacate()
	}
}

// enacted is what the log has had of policies.
type enacted struct {
	mu        sync.Mutex                            // held while stacks are put into force, but not while their entries become durable; before that of a session
	policies  map[contracts.Digest]*proofgraph.Slot // by PolicyHash; nil once the entry is durable
	versions  map[string]uint64                     // the highest of each document, by layer and name
	documents map[contracts.Digest]bool             // whose bytes are blobs of these entries
}

func newEnacted() enacted {
	return enacted{policies: map[contracts.Digest]*proofgraph.Slot{}, versions: map[string]uint64{}, documents: map[contracts.Digest]bool{}}
}

// add notes an entry.
func (e *enacted) add(r *contracts.PolicyRecord, slot *proofgraph.Slot) {
	e.policies[r.Policy] = slot
	for _, d := range r.Documents {
		key := d.Layer + ":" + d.Name
		e.versions[key] = max(e.versions[key], d.Version) // a narrowed kernel that follows a swap keeps its overlay, though others had a later one
		e.documents[d.Digest] = true
	}
}

// forward is an error where the version of one of the documents goes back.
func (e *enacted) forward(documents []contracts.PolicyDocument) error {
	for _, d := range documents {
		if had := e.versions[d.Layer+":"+d.Name]; d.Version < had {
			return fmt.Errorf("policy %s %s: version %d goes back: the log has had version %d", d.Layer, d.Name, d.Version, had)
		}
	}
	return nil
}

// has tells whether the log has the policy's entry, durable or not.
func (e *enacted) has(p *guardian.Policy) bool {
	_, ok := e.policies[p.Hash()]
	return ok
}

// begin puts the policy into force with which New makes its kernel.
func (k *Kernel) begin() error {
	p := k.options.Policy
	k.options.Policy = nil // which policy judges is for current alone to say
	if err := k.enacted.forward(p.Record().Documents); err != nil {
		return err
	}
	k.stack.Store(&stack{policy: p})
	if err := k.enact(p, nil); err != nil {
		return err
	}
	return k.lasting(p.Hash())
}

// enact signs the policy's entry, unless the log has it: there is one of each PolicyHash. Documents that an earlier entry has brought stand
// in the store already. The caller holds enacted.mu.
func (k *Kernel) enact(p *guardian.Policy, under func(uint64) error) error {
	e := &k.enacted
	if e.has(p) {
		return nil
	}
	record := p.Record()
	var blobs [][]byte
	for i, d := range p.Documents() {
		if !e.documents[record.Documents[i].Digest] {
			blobs = append(blobs, d.Canonical)
		}
	}
	s := k.session(contracts.SessionKernel)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, err := k.record(s, &contracts.Statement{Policy: &record}, nil, under, blobs...)
	if err == nil {
		e.add(&record, slot)
	}
	return err
}

// lasting waits until the entries of these policies are durable, whoever signed them.
func (k *Kernel) lasting(policies ...contracts.Digest) error {
	e := &k.enacted
	for _, hash := range policies {
		e.mu.Lock()
		slot := e.policies[hash]
		e.mu.Unlock()
		if slot == nil {
			continue
		}
		if err := slot.Wait(); err != nil {
			return err
		}
		e.mu.Lock()
		e.policies[hash] = nil
		e.mu.Unlock()
	}
	return nil
}
