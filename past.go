package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// What a verdict depends on of what was before: balances, and the calls, receipts and approvals of the call's session. Each session folds its
// own entries, those of a decision when it is signed. What the fold does not keep, the arguments of earlier calls, is read from the store.

// priors is what the guardian asks for a call, under the lock of the session that it is judged in.
type priors struct{ *call }

var _ past.Past = priors{}

// Spent is the balance that a charge would be made on.
func (p priors) Spent(c contracts.Charge) uint64 { return p.ledger.Spent(c) }

// Calls counts the ALLOWs of the session.
func (p priors) Calls(tool string) uint64 { return p.here.past.Calls(tool) }

// Used tells whether an ALLOW consumed the request: one of the session or, where somebody signed one nonce for two, of another.
func (p priors) Used(_ contracts.Digest, r *contracts.ApprovalRequest) bool {
	return p.here.past.Used(r) || p.consumed.has(r.Nonce)
}

// Receipt is the latest one that fits.
func (p priors) Receipt(tool string, same crypto.Value) (r contracts.PriorReceipt, err error) {
	if p.inputs.Session == contracts.DefaultSession {
		err = errors.New("the session is the one of all calls that name none: name a session")
	} else {
		r, err = p.here.past.Receipt(tool, same, p.argsOf)
	}
	p.unread = err
	return r, err
}

// argsOf reads the arguments of an earlier call. They are valid until the next are read.
func (c *call) argsOf(r past.Run) (crypto.Value, error) {
	var in *contracts.Inputs
	var err error
	if c.earlier == nil {
		c.earlier = new(contracts.Reader)
	}
	if trouble := contained("Options.Store", func() {
		var d contracts.DecisionRecord
		if d, err = c.decisionAt(r.Decision); err == nil {
			in, err = c.inputsOf(c.earlier, d.InputsHash)
		}
	}); trouble != nil {
		err = trouble
	}
	if err != nil {
		return crypto.Value{}, fmt.Errorf("the arguments of an earlier call, which entry %d permitted: %w", r.Decision, err)
	}
	return in.Args, nil
}

// decisionAt reads the one of the entry that was written there.
func (c *call) decisionAt(index uint64) (d contracts.DecisionRecord, err error) {
	e, err := c.entry(context.Background(), index) // the caller's context is asked nothing under a lock
	if err != nil {
		return d, err
	}
	sealed, err := c.reader.Open(e)
	if err != nil {
		return d, err
	}
	st, err := sealed.Statement()
	switch {
	case err != nil:
		return d, err
	case st.Decision == nil:
		return d, errors.New("no decision")
	}
	return *st.Decision, nil
}

// inputsOf reads the inputs document with that hash, which may have been dropped or erased. The store is not trusted to give what it was given.
func (p *prepared) inputsOf(r *contracts.Reader, hash contracts.Digest) (*contracts.Inputs, error) {
	b, err := p.options.Store.Blob(context.Background(), hash)
	if err != nil {
		return nil, err
	}
	if crypto.Sum(b) != hash {
		return nil, errors.New("the store's inputs are not those that were decided on")
	}
	return r.Inputs(b)
}

// A nonces is those of all requests that were consumed in the log. A request is for one session, but its nonce is its author's: what two
// sessions have of it at once runs one call. It is written with the place of the call's entry taken, so that no two find it free.
type nonces struct {
	mu   sync.Mutex // held for a few look-ups; protects used
	used map[string]struct{}
}

func (n *nonces) has(list ...string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, nonce := range list {
		if _, ok := n.used[nonce]; ok {
			return true
		}
	}
	return false
}

func (n *nonces) add(list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.used == nil && len(list) > 0 {
		n.used = map[string]struct{}{}
	}
	for _, nonce := range list {
		n.used[nonce] = struct{}{}
	}
}

// executed folds the receipt of a run of the session, whose lock the caller holds. That of calls that name none is never asked for receipts.
func (s *session) executed(r past.Run, args crypto.Value) {
	if s.chain.Session() != contracts.DefaultSession {
		s.past.Execute(r, args)
	}
}

// noncesOf gives those of the requests that were answered by the approvals that counted. It is nil where one of these is not there.
func noncesOf(r *contracts.Reader, presented []contracts.Envelope, counted []contracts.Digest) (nonces []string) {
	if len(counted) == 0 {
		return nil
	}
	for _, e := range presented {
		if !slices.Contains(counted, e.Digest()) {
			continue
		}
		if sealed, err := r.Open(e); err == nil { // the guardian verified it before
			if a, err := sealed.Approval(); err == nil {
				nonces = append(nonces, a.Request.Nonce)
			}
		}
	}
	if len(nonces) < len(counted) {
		return nil
	}
	return nonces
}
