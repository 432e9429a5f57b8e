package evidence

import (
	"encoding/hex"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// consumes notes the nonces that an ALLOW consumes, in whatever session, and reports whether they
// were free. Those of one ALLOW may be the same.
func (r *replayer) consumes(call *pending) bool {
	free := true
	for _, n := range call.nonces {
		nonce := nonceOf(n)
		at, ok := r.nonces[nonce]
		free = free && (!ok || uint64(at) == call.index)
		r.nonces[nonce] = uint32(call.index)
	}
	return free
}

// nonceOf returns the bytes of a nonce, which a request has as 32 digits.
func nonceOf(digits string) (b [16]byte) {
	_, _ = hex.Decode(b[:], []byte(digits))
	return b
}

// unreadable says in which session ALLOWs consumed approvals whose requests cannot be read, or that
// there are several such sessions.
type unreadable struct {
	chain   *chain
	several bool
}

func (u *unreadable) add(c *chain) {
	if u.chain == nil {
		u.chain = c
	}
	u.several = u.several || u.chain != c
}

// outside reports whether there is such a session other than c.
func (u *unreadable) outside(c *chain) bool { return u.several || u.chain != nil && u.chain != c }

// noncesOf returns the nonces of the requests whose approvals an ALLOW consumed, or nil if its
// inputs are not there.
func (x *rereader) noncesOf(d *contracts.DecisionRecord, in *contracts.Inputs) []string {
	if in == nil {
		return nil
	}
	nonces := []string{}
	for _, e := range in.Envelopes.Approvals {
		if !slices.Contains(d.Approvals, e.Digest()) {
			continue
		}
		if a := x.approval(e); a != nil {
			nonces = append(nonces, a.Request.Nonce)
		}
	}
	return nonces
}

// approval returns what an envelope says, or nil if it is no approval. Whether its signature counts
// is for the guardian to say.
func (x *rereader) approval(e contracts.Envelope) *contracts.Approval {
	sealed, err := x.memory().entry.Open(e)
	if err != nil {
		return nil
	}
	a, err := sealed.Approval()
	if err != nil {
		return nil
	}
	return a
}
