package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// history is what a kernel takes from the log that it continues.
type history struct {
	origin  string
	trust   *registry.State             // at first that in which the log must have begun
	revoked map[contracts.Digest]uint64 // keys, and by which entry
	size    uint64
	enacted *enacted
	ledger  *past.Ledger
	open    map[contracts.Digest]openCall
	keys    map[string]map[string]*once
	pasts   map[string]*past.Session
	asked   []approved
}

// approved is an ALLOW that consumed approvals, which are in its inputs.
type approved struct {
	session string
	at      contracts.Time
	record  *contracts.DecisionRecord
}

// openCall was permitted and has no receipt.
type openCall struct {
	index   uint64
	session string
	record  *contracts.DecisionRecord
}

// add folds one entry.
func (h *history) add(index uint64, _ contracts.Entry, hash contracts.Digest, st *contracts.Statement) error {
	h.size = index + 1
	if st.Genesis != nil && st.Genesis.Trust != h.trust.Digest() {
		return errors.New("entry 0: the log began with another trust state")
	}
	if _, ok := h.trust.Key(st.Key, registry.Kernel, index); !ok {
		return fmt.Errorf("entry %d: not of a kernel key of the log's trust state there", index)
	}
	switch {
	case st.Genesis != nil:
	case st.Trust != nil:
		return h.govern(st.Trust, index)
	case st.Policy != nil:
		h.enacted.add(st.Policy, nil)
	case st.Decision != nil:
		d := st.Decision
		if err := h.ledger.Charge(d.Charges); err != nil {
			return fmt.Errorf("entry %d: charges: %w", index, err)
		}
		h.open[hash] = openCall{index, st.Session, d}
		if past := h.past(st.Session); len(d.Approvals) == 0 {
			past.Allow(d, st.Time, nil)
		} else {
			h.asked = append(h.asked, approved{st.Session, st.Time, d})
		}
		if d.Idempotency != "" {
			if h.keys[st.Session] == nil {
				h.keys[st.Session] = map[string]*once{}
			}
			h.keys[st.Session][d.Idempotency] = &once{caller: d.Caller, tool: d.Tool, args: d.ArgsHash, decision: index}
		}
	case st.Receipt != nil && st.Receipt.Decision == nil:
		r := st.Receipt
		call := h.open[r.DecisionHash]
		if call.record != nil {
			if err := h.ledger.Settle(call.record.Charges, r.Settled, r.Reason); err != nil {
				return fmt.Errorf("entry %d: settled: %w", index, err)
			}
		}
		if !h.close(st.Receipt.DecisionHash, st.Session, index) {
			return fmt.Errorf("entry %d: a receipt of no decision of its session that lacks one", index)
		}
		if r.Outcome == contracts.Executed && st.Session != contracts.DefaultSession {
			h.past(st.Session).Execute(past.Run{Tool: r.Tool, Decision: call.index, Receipt: index, Entry: hash, Time: st.Time}, crypto.Value{})
		}
	case st.Close != nil:
		delete(h.keys, st.Session)
		delete(h.pasts, st.Session)
	case st.Receipt == nil:
		return fmt.Errorf("entry %d: %s entries are not supported by this version of helm", index, st.Kind())
	}
	return nil
}

// past gives what the session's later calls are judged by.
func (h *history) past(session string) *past.Session {
	s := h.pasts[session]
	if s == nil {
		s = new(past.Session)
		h.pasts[session] = s
	}
	return s
}

// consume uses up what was consumed. Which requests that were is in the inputs. Where these were dropped or erased it is not known, to
// verifiers neither, and then more count as used, not fewer. Where they cannot be read a verifier, who can, would know better than the kernel.
func (h *history) consume(p *prepared, all *nonces) error {
	var reader contracts.Reader
	for _, a := range h.asked {
		var nonces []string
		var err error
		if trouble := contained("Options.Store", func() {
			var in *contracts.Inputs
			if in, err = p.inputsOf(&reader, a.record.InputsHash); err == nil {
				nonces = noncesOf(&reader, in.Envelopes.Approvals, a.record.Approvals)
			}
		}); trouble != nil {
			err = trouble
		}
		if err != nil && !errors.Is(err, proofgraph.ErrNoBlob) {
			return fmt.Errorf("inputs of decision %s, by which approvals are known that were used: %w", a.record.ID, err)
		}
		all.add(nonces)
		if s := h.pasts[a.session]; s != nil { // it was not closed
			s.Allow(a.record, a.at, nonces)
		}
	}
	return nil
}

// govern folds a trust event.
func (h *history) govern(t *contracts.TrustRecord, index uint64) error {
	next, err := h.trust.Apply(t, h.origin, index)
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	if h.trust = next; t.Event.Type == "revoke" {
		h.revoked[*t.Event.ID] = index
	}
	return nil
}

// close notes the receipt of an open call. It is false where there is no such call.
func (h *history) close(decision contracts.Digest, session string, receipt uint64) bool {
	call, ok := h.open[decision]
	if !ok || call.session != session {
		return false
	}
	delete(h.open, decision)
	if o := h.keys[session][call.record.Idempotency]; o != nil {
		o.receipt = receipt
	}
	return true
}

// settle writes a receipt OUTCOME_UNKNOWN for each call that the process before permitted and did not finish, in log order.
func (k *Kernel) settle(h *history) error {
	hashes := make([]contracts.Digest, 0, len(h.open))
	for hash := range h.open {
		hashes = append(hashes, hash)
	}
	slices.SortFunc(hashes, func(a, b contracts.Digest) int { return int(h.open[a].index) - int(h.open[b].index) })
	for _, hash := range hashes {
		call := h.open[hash]
		receipt := receipts.Unknown(call.record, hash)
		s := k.session(call.session)
		s.mu.Lock()
		slot, err := k.record(s, &contracts.Statement{Receipt: receipt}, []contracts.Digest{hash}, k.giveBack(call.record.Charges, receipt))
		s.mu.Unlock()
		if err == nil {
			err = slot.Wait()
		}
		if err != nil {
			return err
		}
		h.close(hash, call.session, slot.Index())
		k.observe(context.Background(), Event{Tool: receipt.Tool, Session: call.session, ID: call.record.ID, Verdict: receipt.Verdict, Reason: receipt.Reason, Index: slot.Index()})
	}
	return nil
}
