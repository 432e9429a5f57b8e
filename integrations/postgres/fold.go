package postgres

import (
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A fold is what the derived tables have to hold after the entries that were added.
type fold struct {
	reader  contracts.Reader
	blob    func(contracts.Digest) ([]byte, error)
	size    uint64
	ends    map[string]proofgraph.End
	spent   map[contracts.Balance]uint64 // by balances without Spent
	nonces  map[string]bool
	unknown int                          // approvals that were used and whose nonces cannot be read
	decided []uint64                     // the indexes of all decisions, ascending
	settled []bool                       // which of them have a receipt
	open    map[contracts.Digest]openOne // those without, by the hash of their entry
}

// An openOne is a decision that has no receipt yet.
type openOne struct {
	place   int // in decided
	charges []contracts.Charge
}

// newFold returns the fold of no entries. blob returns the bytes of a blob, or ErrNoBlob.
func newFold(blob func(contracts.Digest) ([]byte, error)) *fold {
	return &fold{blob: blob, ends: map[string]proofgraph.End{}, spent: map[contracts.Balance]uint64{},
		nonces: map[string]bool{}, open: map[contracts.Digest]openOne{}}
}

// add adds the next entry, and returns its header. It does not verify the signature.
func (f *fold) add(e contracts.Entry) (*contracts.Header, error) {
	sealed, err := f.reader.Open(e)
	if err != nil {
		return nil, err
	}
	st, err := sealed.Statement()
	if err != nil {
		return nil, err
	}
	end := f.ends[st.Session]
	if end.Next != st.Seq {
		return nil, fmt.Errorf("its seq in session %q is %d, and the next one is %d", st.Session, st.Seq, end.Next)
	}
	hash := e.Hash()
	end = proofgraph.End{Next: st.Seq + 1, Last: hash, Lamport: st.Lamport, Time: st.Time, Open: end.Open,
		Closed: st.Close != nil}
	switch {
	case st.Decision != nil:
		end.Open++
		if err := f.decide(hash, st.Decision); err != nil {
			return nil, err
		}
	case st.Receipt != nil && st.Receipt.Decision == nil:
		end.Open--
		if err := f.settle(st.Receipt); err != nil {
			return nil, err
		}
	}
	f.ends[st.Session] = end
	f.size++
	return &st.Header, nil
}

func balanceOf(c *contracts.Charge) contracts.Balance {
	return contracts.Balance{Budget: c.Budget, Of: c.Of, Window: c.Window}
}

func (f *fold) decide(hash contracts.Digest, d *contracts.DecisionRecord) error {
	for i := range d.Charges {
		f.spent[balanceOf(&d.Charges[i])] += d.Charges[i].Amount
	}
	f.open[hash] = openOne{len(f.decided), d.Charges}
	f.decided, f.settled = append(f.decided, f.size), append(f.settled, false)
	if len(d.Approvals) == 0 {
		return nil
	}
	b, err := f.blob(d.InputsHash)
	if err == nil && crypto.Sum(b) != d.InputsHash {
		err = proofgraph.ErrDamaged
	}
	if errors.Is(err, proofgraph.ErrNoBlob) || errors.Is(err, proofgraph.ErrDamaged) {
		f.unknown += len(d.Approvals)
		return nil
	}
	if err != nil {
		return err
	}
	in, err := contracts.ParseInputs(b)
	if err != nil {
		return err
	}
	found := 0
	for _, e := range in.Envelopes.Approvals {
		if !slices.Contains(d.Approvals, e.Digest()) {
			continue
		}
		sealed, err := new(contracts.Reader).Open(e)
		if err != nil {
			continue
		}
		if a, err := sealed.Approval(); err == nil {
			f.nonces[a.Request.Nonce] = true
			found++
		}
	}
	f.unknown += len(d.Approvals) - found
	return nil
}

func (f *fold) settle(r *contracts.Receipt) error {
	o, ok := f.open[r.DecisionHash]
	if !ok || len(o.charges) != len(r.Settled) {
		return errors.New("a receipt of no decision that lacks one, or of other charges")
	}
	for i := range o.charges {
		if stays := r.Settled[i].Amount; stays <= o.charges[i].Amount {
			f.spent[balanceOf(&o.charges[i])] -= o.charges[i].Amount - stays
		}
	}
	f.settled[o.place] = true
	delete(f.open, r.DecisionHash)
	return nil
}
