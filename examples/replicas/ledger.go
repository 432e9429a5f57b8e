package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
)

// A ledger is what a log says.
type ledger struct {
	ran    map[string]ran // by the id of the decision
	denied map[contracts.ReasonCode]int
	limit  uint64 // of the budget
}

// A ran is a call that was allowed.
type ran struct {
	tool    string
	version uint64 // of the policy that allowed it
	euros   uint64 // that stay charged
	by      string // the replica, as the output says; "" if it is unknown how the call ended
}

// read reads a pack that was verified.
func read(ctx context.Context, pack *evidence.Pack) (*ledger, error) {
	l := &ledger{ran: map[string]ran{}, denied: map[contracts.ReasonCode]int{}}
	size, err := pack.Size(ctx)
	if err != nil {
		return nil, err
	}
	var (
		reader    contracts.Reader
		versions  = map[contracts.Digest]uint64{} // by the hash of the policy
		decisions = map[contracts.Digest]string{} // by the hash of the entry
	)
	for e, err := range pack.Entries(ctx, 0, size) {
		if err != nil {
			return nil, err
		}
		sealed, err := reader.Open(e)
		if err != nil {
			return nil, err
		}
		st, err := sealed.Statement()
		if err != nil {
			return nil, err
		}
		switch {
		case st.Policy != nil:
			versions[st.Policy.Policy] = st.Policy.Documents[0].Version
		case st.Decision != nil:
			d := st.Decision
			decisions[e.Hash()] = d.ID
			l.ran[d.ID] = ran{tool: d.Tool, version: versions[d.PolicyHash]}
			for _, c := range d.Charges {
				l.limit = c.Limit
			}
		case st.Receipt != nil && st.Receipt.Decision != nil:
			l.denied[st.Receipt.Decision.Reason]++
		case st.Receipt != nil:
			id := decisions[st.Receipt.DecisionHash]
			call := l.ran[id]
			if err := call.end(ctx, pack, st.Receipt); err != nil {
				return nil, fmt.Errorf("call %s: %w", id, err)
			}
			l.ran[id] = call
		}
	}
	return l, nil
}

// end notes how the call ended.
func (r *ran) end(ctx context.Context, pack *evidence.Pack, receipt *contracts.Receipt) error {
	for _, s := range receipt.Settled {
		r.euros += s.Amount
	}
	switch receipt.Reason {
	case contracts.ReasonOutcomeUnknown:
		return nil
	case contracts.ReasonAllow:
		output, err := pack.Blob(ctx, *receipt.OutputHash)
		if err != nil {
			return err
		}
		var d done
		err = json.Unmarshal(output, &d)
		r.by = d.By
		return err
	}
	return fmt.Errorf("it has ended with %s", receipt.Reason)
}
