package contracts

import (
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// Delegation is a grant of rights to another caller: the rights of the delegator, restricted by
// Only and When.
//
// Grants form chains. A delegate may grant a part of their rights on; the new grant names its
// parent by the digest of the parent's envelope. A chain is presented leaf first, each grant
// followed by its parent, up to the grant that has none.
type Delegation struct {
	Delegate  string // caller id, like Delegator
	Delegator string
	Depth     uint64 // number of grants that may follow below it
	Expires   Time
	Key       Digest
	Nonce     string
	NotBefore Time
	Only      []string     // names of tools
	Parent    *Digest      // digest of the parent grant's envelope
	When      crypto.Value // a predicate over the call; Missing if there is none
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

// Sign signs the grant with the delegator's key and sets Key. The order of Only does not matter.
func (d Delegation) Sign(key crypto.Signer) (Envelope, error) {
	d.Only = set(d.Only)
	return seal(KindDelegation, key, &d.Key, d.visit, new(Delegation).visit)
}

// Delegation returns the predicate of a grant. Verify the signature first. When is valid until the
// Reader opens another envelope.
func (s *Sealed) Delegation() (*Delegation, error) {
	d := new(Delegation)
	if err := s.presented(KindDelegation, d.visit); err != nil {
		return nil, err
	}
	return d, nil
}

// set returns a sorted copy of the list without repeats, as records have it.
func set(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
