package helm

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Trust, as it was and as it is. A log begins with one trust state, which Options.Trust gives with the keys that it was begun with; its trust
// entries make the others, each for what stands behind it. So the keys that the kernel of now signs with may be others than those of then.

// remember makes the initial trust state that of a log which was begun with other keys than those of now: they are in the registry, then. None
// is taken from the store, for whoever can write there can begin a log with a key of his own.
func (p *prepared) remember(ctx context.Context) error {
	began, err := p.began(ctx)
	if err != nil || began == nil || *began == p.initial.Digest() {
		return err
	}
	for _, key := range p.initial.Keys(registry.Kernel, 0) {
		for _, log := range p.initial.Keys(registry.Log, 0) {
			if s, err := p.options.Trust.Initial(key, log); err == nil && s.Digest() == *began {
				p.initial = s
				return nil
			}
		}
	}
	const other = "entry 0: the log began with another trust state than Options.Trust gives"
	if len(p.initial.Keys(registry.Root, 0)) == 0 {
		return errors.New(other + ", which has no roots, so no other is ever added: give Key, LogKey and the registry that it was begun with")
	}
	return errors.New(other + ": give the registry that it was begun with and, " +
		"where Key or LogKey are others now, in it those of then, under the names kernel and log; what changed since, its trust events say")
}

// began reads the digest of the trust state from the first entry. What else is wrong with a log, is found where all of it is read.
func (p *prepared) began(ctx context.Context) (*contracts.Digest, error) {
	size, err := p.options.Store.Size(ctx)
	if err != nil {
		return nil, err
	}
	var reader contracts.Reader
	for e, err := range p.options.Store.Entries(ctx, 0, min(size, 1)) {
		if err != nil {
			return nil, err
		}
		if sealed, bad := reader.Open(e); bad == nil {
			if st, bad := sealed.Statement(); bad == nil && st.Genesis != nil {
				return &st.Genesis.Trust, nil
			}
		}
	}
	return nil, nil
}

// entitled is an error where a key that this kernel is to sign with may not sign what comes next in the log.
func (p *prepared) entitled(h *history) error {
	for _, x := range []struct {
		option string
		id     contracts.Digest
		role   registry.Role
	}{{"Key", p.keyID, registry.Kernel}, {"LogKey", p.logID, registry.Log}} {
		if _, ok := h.trust.Key(x.id, x.role, h.size); ok {
			continue
		}
		option := "Options." + x.option
		if x.option == "LogKey" && p.derived {
			option += ", which is derived from Key where it is not given"
		}
		at, revoked := h.revoked[x.id]
		switch {
		case revoked:
			return fmt.Errorf("%s: entry %d revoked it: give %s", option, at, holders(h.trust, x.role))
		case len(h.trust.Keys(registry.Root, h.size)) == 0:
			return fmt.Errorf("%s: not a %s key of the log's trust state, which has no roots, so no other is ever added: give the one that it was begun with", option, x.role)
		default:
			return fmt.Errorf("%s: not a %s key of the log's trust state: no trust event of type key has added %v with the role %s: have one signed for Kernel.Govern, or give %s",
				option, x.role, x.id, x.role, holders(h.trust, x.role))
		}
	}
	return nil
}

// holders names the keys of a role that are not revoked.
func holders(s *registry.State, role registry.Role) (list string) {
	for i, k := range s.Keys(role, crypto.MaxInt) {
		if i > 0 {
			list += " or "
		}
		id := crypto.KeyID(k)
		h, _ := s.Holder(id, role, crypto.MaxInt)
		list += fmt.Sprintf("the key %v of %q", id, h.Name)
	}
	return list
}
