package evidence

import (
	"cmp"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/trust/registry"
)

// manifest is the check MANIFEST; only a pack has one.
func (v *verifier) manifest(note []byte) *Error {
	if v.pack == nil {
		return nil
	}
	bad := func(field, what string) *Error { return newError(ErrManifest, field, what) }
	misshapen := func(err error) *Error {
		form := formatError(err)
		return bad(cmp.Or(form.Field, ustar.Members[ustar.Manifest]), form.What)
	}
	if v.pack.Members[ustar.Manifest].Size > contracts.MaxEntry {
		return bad(ustar.Members[ustar.Manifest], "longer than an envelope may be")
	}
	b, f := v.pack.member(ustar.Manifest)
	if f != nil {
		return f
	}
	sealed, err := v.reader.Open(b)
	if err != nil {
		return misshapen(err)
	}
	if field, what := v.canonical.checkSealed(b, sealed); what != "" {
		return bad(field, what)
	}
	public, ok := v.fold.state.Key(sealed.KeyID, registry.Kernel, v.fold.size())
	if !ok {
		return bad("signatures.keyid", "no kernel key that is valid at this size")
	}
	v.pae = crypto.AppendPAE(v.pae[:0], contracts.PayloadType, sealed.Payload)
	if !crypto.Verify(public, v.pae, sealed.Sig) {
		return bad("signatures.sig", "does not verify")
	}
	m, err := sealed.Manifest()
	if err != nil {
		return misshapen(err)
	}
	want := contracts.EvidencePack{
		Blobs:      contracts.Blobs{Bytes: v.pack.Bytes, Count: uint64(len(v.pack.Blobs)), Root: v.pack.Root},
		Checkpoint: crypto.Sum(note),
		Entries: contracts.Bytes{
			Bytes:  v.pack.total(),
			SHA256: contracts.Digest(v.pack.sum.Sum(nil)),
		},
		Key:            sealed.KeyID,
		MerkleRoot:     v.report.MerkleRoot,
		Origin:         v.fold.origin,
		ProofGraphHash: v.report.ProofGraphHash,
		Sessions:       v.fold.sessions(),
		Size:           v.fold.size(),
	}
	if field := unequal(m, &want); field != "" {
		return bad(field, "not that of the pack")
	}
	return nil
}

// unequal returns the first field in which two manifests differ, or "".
func unequal(a, b *contracts.EvidencePack) string {
	switch {
	case a.Blobs != b.Blobs:
		return "blobs"
	case a.Checkpoint != b.Checkpoint:
		return "checkpoint"
	case a.Entries != b.Entries:
		return "entries"
	case a.Key != b.Key:
		return "key"
	case a.MerkleRoot != b.MerkleRoot:
		return "merkleRoot"
	case a.Origin != b.Origin:
		return "origin"
	case a.ProofGraphHash != b.ProofGraphHash:
		return "proofGraphHash"
	case a.Sessions != b.Sessions:
		return "sessions"
	case a.Size != b.Size:
		return "size"
	}
	return ""
}
