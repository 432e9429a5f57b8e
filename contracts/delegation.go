package contracts

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// Delegation is a grant of rights to another caller: what the delegator may do, as far as Only and When let it.
//
// Grants form chains: whoever got one may grant less of it, naming it as the parent by the digest of its envelope. A chain is presented leaf
// first, each grant followed by its parent, up to the one that has none.
type Delegation struct {
	Delegate  string // caller ids
	Delegator string
	Depth     uint64 // how many grants may follow it below
	Expires   Time
	Key       Digest
	Nonce     string
	NotBefore Time
	Only      []string     // tools
	Parent    *Digest      // of the envelope of the grant that this one is made from
	When      crypto.Value // a predicate over the call; Missing where there is none
}

func (d *Delegation) visit(f *form) {
	f.text("delegate", required, &d.Delegate, words256)
	f.text("delegator", required, &d.Delegator, words256)
	f.count("depth", &d.Depth)
	f.time("expires", required, &d.Expires)
	f.signer(&d.Key)
	f.text("nonce", required, &d.Nonce, words128)
	f.time("notBefore", required, &d.NotBefore)
	f.texts("only", required, 0, 1<<20, &d.Only, toolName)
	f.maybe("parent", &d.Parent)
	f.value("when", optional, &d.When, crypto.Object)
}

// Sign signs the grant with the delegator's key, and fills in which it is. The order of Only makes no difference.
func (d Delegation) Sign(key crypto.Signer) (Envelope, error) {
	d.Only = set(d.Only)
	return seal(KindDelegation, key, &d.Key, d.visit, new(Delegation).visit)
}

// Delegation reads the predicate of a grant. Call it when the signature was verified. When is valid until the Reader opens another.
func (s *Sealed) Delegation() (*Delegation, error) {
	d := new(Delegation)
	if err := s.presented(KindDelegation, d.visit); err != nil {
		return nil, err
	}
	return d, nil
}

// set is a list as records have it, and another slice.
func set(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
