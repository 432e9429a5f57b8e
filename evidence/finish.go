package evidence

import (
	"cmp"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/trust/registry"
)

// finish does the checks that come after the entries.
func (v *verifier) finish() error {
	r := &v.report
	if v.size() == 0 {
		return v.fault(ErrChain, "", "no genesis")
	}
	r.MerkleRoot = v.log.tree.Root()
	note, f := v.checkpointed()
	if f != nil {
		return f
	}
	r.ProofGraphHash = v.graphHash()
	if f := v.manifest(note); f != nil {
		return f
	}
	if f := v.unnamed(); f != nil {
		return f
	}
	if v.badReplay != nil {
		return v.badReplay
	}
	r.Checkpoint = note
	r.Origin, r.Size, r.Sessions, r.Trust = v.origin, v.size(), uint64(len(v.chains)), v.state.Digest()
	for at, call := range v.pending {
		r.Open = append(r.Open, Call{at, call.id()})
	}
	slices.SortFunc(r.Open, func(a, b Call) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortFunc(r.Erased, entry.Compare)
	r.Erased = slices.Compact(r.Erased)
	slices.SortFunc(r.Replay.Engines, func(a, b contracts.Engine) int {
		return cmp.Or(cmp.Compare(a.Rules, b.Rules), cmp.Compare(a.Threat, b.Threat))
	})
	if v.last != nil && r.History == None {
		r.History = Stale
	}
	return nil
}

// checkpointed is MERKLE and CHECKPOINT. It sets the level, and gives the member.
func (v *verifier) checkpointed() ([]byte, *Error) {
	bad := func(field, what string) ([]byte, *Error) { return nil, &Error{ErrCheckpoint, -1, field, what, nil} }
	b, f := v.from.checkpoint()
	if f != nil {
		return nil, f
	}
	c, err := parseSigned(b)
	switch {
	case err != nil:
		return bad(ustar.Members[ustar.Checkpoint], err.Error())
	case c.Size != v.size():
		return nil, &Error{ErrMerkle, -1, "checkpoint.size", "not the log's", nil}
	case c.Root != v.report.MerkleRoot:
		return nil, &Error{ErrMerkle, -1, "checkpoint.root", "not the log's", nil}
	case c.Origin != v.origin:
		return bad("origin", otherOrigin(c.Origin, v.origin))
	}
	v.report.Level = Intact
	keys := v.state.Keys(registry.Log, v.size())
	for i, l := range c.lines {
		claimed, valid := c.by(l, keys)
		switch {
		case !claimed:
		case !valid:
			return bad("signature", "a line of a log key does not verify")
		case i > 0 && v.report.Level == Intact:
			return bad("signature", "a line of a log key is not the first")
		default:
			v.report.Level = Logged
		}
	}
	return b, nil
}

// manifest is MANIFEST, of which only a pack has one.
func (v *verifier) manifest(note []byte) *Error {
	if v.pack == nil {
		return nil
	}
	bad := func(field, what string) *Error { return &Error{ErrManifest, -1, field, what, nil} }
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
	if field, what := v.crossedSealed(b, sealed); what != "" {
		return bad(field, what)
	}
	public, ok := v.state.Key(sealed.KeyID, registry.Kernel, v.size())
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
		Blobs:          contracts.Blobs{Bytes: v.pack.Bytes, Count: uint64(len(v.pack.Blobs)), Root: v.pack.Root},
		Checkpoint:     crypto.Sum(note),
		Entries:        contracts.Bytes{Bytes: uint64(v.pack.Members[ustar.Entries].Size), SHA256: contracts.Digest(v.pack.sum.Sum(nil))},
		Key:            sealed.KeyID,
		MerkleRoot:     v.report.MerkleRoot,
		Origin:         v.origin,
		ProofGraphHash: v.report.ProofGraphHash,
		Sessions:       v.sessions(),
		Size:           v.size(),
	}
	if field := unequal(m, &want); field != "" {
		return bad(field, "not that of the pack")
	}
	return nil
}

// unequal is the first field in which two manifests differ, or "".
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

// unnamed ends BLOB: what was noted with the entries, and blobs of a pack that none of them names.
func (v *verifier) unnamed() *Error {
	p := v.pack
	if v.badBlob != nil || p == nil {
		return v.badBlob
	}
	i := slices.Index(p.named, 0)
	if i < 0 {
		return nil
	}
	field := "blobs"
	if name, ok := p.NameAt(i, p.wide); ok {
		field = ustar.BlobPrefix + name.String()
	}
	return &Error{ErrBlob, -1, field, "no entry names it", nil}
}
