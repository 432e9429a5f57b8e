package evidence

import (
	"cmp"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
)

// finish does the checks that come after the entries, and completes the report.
func (v *verifier) finish() error {
	if v.fold.size() == 0 {
		return v.fold.fault(ErrChain, "", "no genesis")
	}
	if f := v.ranges.finish(); f != nil {
		return f
	}
	v.report.MerkleRoot = v.fold.tree.Root()
	note, f := v.checkpointed()
	if f != nil {
		return f
	}
	v.report.ProofGraphHash = v.fold.graphHash()
	if f := v.manifest(note); f != nil {
		return f
	}
	if v.blobs.bad != nil {
		return v.blobs.bad
	}
	if v.pack != nil {
		if f := v.pack.unnamed(); f != nil {
			return f
		}
	}
	if v.replay.bad != nil {
		return v.replay.bad
	}
	if f := v.replay.runs.finish(); f != nil {
		return f
	}
	v.report.Condensed = v.ranges.list
	if f := v.witnessed.check(); f != nil {
		return f
	}
	v.witnessed.report(&v.report)
	if f := v.witnessed.dated(&v.report, v.ranges.times); f != nil {
		return f
	}
	v.report.Checkpoint = note
	v.complete(&v.report)
	return nil
}

// complete fills in what was counted and listed while the entries were read.
func (v *verifier) complete(r *Report) {
	r.Origin, r.Size, r.Sessions = v.fold.origin, v.fold.size(), uint64(len(v.fold.chains))
	r.Trust = v.fold.state.Digest()
	r.Allows, r.Denials, r.Receipts = v.fold.allows, v.fold.denials, v.fold.receipts
	r.Reported = v.fold.reported
	for at, call := range v.fold.pending {
		r.Open = append(r.Open, Call{at, call.id()})
	}
	slices.SortFunc(r.Open, func(a, b Call) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortFunc(v.blobs.lacking, entry.Compare)
	r.Erased = slices.Compact(v.blobs.lacking)
	r.Strange = v.held.strange()
	r.Replay, r.Rerun = v.replay.report, v.replay.runs.report
	slices.SortFunc(r.Replay.Engines, func(a, b contracts.Engine) int {
		return cmp.Or(cmp.Compare(a.Rules, b.Rules), cmp.Compare(a.Threat, b.Threat))
	})
	r.History = v.fold.history
	if v.fold.last != nil && r.History == None {
		r.History = Stale
	}
}

// checkpointed does the checks MERKLE and CHECKPOINT. It sets the level, and returns the note.
func (v *verifier) checkpointed() ([]byte, *Error) {
	bad := func(field, what string) ([]byte, *Error) { return nil, newError(ErrCheckpoint, field, what) }
	b, f := v.from.checkpoint()
	if f != nil {
		return nil, f
	}
	c, err := parseSigned(b)
	switch {
	case err != nil:
		return bad(ustar.Members[ustar.Checkpoint], err.Error())
	case c.Size != v.fold.size():
		return nil, newError(ErrMerkle, "checkpoint.size", "not the log's")
	case c.Root != v.report.MerkleRoot:
		return nil, newError(ErrMerkle, "checkpoint.root", "not the log's")
	case c.Origin != v.fold.origin:
		return bad("origin", otherOrigin(c.Origin, v.fold.origin))
	}
	if f := v.witnessed.of(c); f != nil {
		return nil, f
	}
	v.report.Level, f = c.level(v.fold.state)
	return b, f
}
