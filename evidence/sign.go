package evidence

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// begin reads the trust state that the log began with. It does so before the entries are read: a
// store may have to do one thing at a time.
func (p *packer) begin(ctx context.Context) error {
	var r contracts.Reader
	var trust *contracts.Digest
	for e, err := range p.store.Entries(ctx, 0, min(p.size, 1)) {
		if err != nil {
			return err
		}
		st, err := entry.Open(&r, e)
		if err != nil {
			return err
		}
		if st.Genesis != nil {
			trust = &st.Genesis.Trust
		}
	}
	if trust == nil {
		return nil // read says what is wrong
	}
	b, err := readBlob(ctx, p.store, *trust)
	if err != nil {
		return err
	}
	p.state, err = registry.ParseState(b)
	return err
}

// governed folds the trust events, since the later states say who may sign.
func (p *packer) governed(st *contracts.Statement) error {
	switch {
	case st.Genesis != nil && st.Genesis.Trust != p.state.Digest():
		return errors.New("another genesis than was read before: the store is damaged")
	case st.Trust != nil:
		next, err := p.state.Apply(st.Trust, p.log.origin, p.log.size())
		if err != nil {
			return err
		}
		p.state = next
		if e := &st.Trust.Event; e.Type == "revoke" && *e.ID == crypto.KeyID(p.public) {
			p.revoked = p.log.size()
		}
	}
	return nil
}

// sign makes the manifest. No verifier would accept it from a key that may not sign it.
func (p *packer) sign() error {
	id := crypto.KeyID(p.public)
	switch _, ok := p.state.Key(id, registry.Kernel, p.size); {
	case ok:
	case p.revoked > 0:
		return fmt.Errorf("the key was revoked by entry %d: give the one that the kernel signs with now", p.revoked)
	default:
		return errors.New("the key is no kernel key of this log up to its checkpoint: give the one that the kernel " +
			"signs with; one that was added later needs a new checkpoint")
	}
	m := contracts.EvidencePack{
		Checkpoint: crypto.Sum(p.note), Entries: p.entries, Key: id, MerkleRoot: p.log.tree.Root(),
		Origin: p.log.origin, ProofGraphHash: p.log.graphHash(), Sessions: p.log.sessions(), Size: p.size,
	}
	var names proofgraph.Tree
	for _, b := range p.blobs {
		m.Blobs.Bytes += uint64(b.size)
		names.Append(crypto.LeafHash(b.name[:]))
	}
	m.Blobs.Count, m.Blobs.Root = uint64(len(p.blobs)), names.Root()
	payload := m.Append(nil)
	sig, err := crypto.Sign(p.key, crypto.AppendPAE(nil, contracts.PayloadType, payload))
	if err != nil {
		return err
	}
	p.manifest = crypto.AppendEnvelope(nil, contracts.PayloadType, payload, m.Key, sig)
	return nil
}
