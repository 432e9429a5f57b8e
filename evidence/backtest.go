package evidence

import (
	"context"
	"io"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
)

// BackTest verifies a pack as [Verify] does, and has a candidate judge its calls: what would have
// become of them under that stack. The section on back-tests in the package comment says what is
// taken from the log, and what is not known.
//
// When the whole pack is verified, and not before, each is called with every change in the order of
// the log. It is called also if the pack is no success (UNPINNED or STALE, say), so check the
// Report before using what it was called with. An error that each returns ends that, and is
// returned as it is. A nil each is not called; the numbers are counted all the same. With any
// error, also one of [Verify], the Differences hold nothing but a Report of what is wrong with the
// pack, and each may not have been called with all changes.
func BackTest(
	ctx context.Context, r io.ReaderAt, size int64, o Options, candidate *guardian.Policy, each func(Change) error,
) (Differences, error) {
	v := newVerifier(ctx, o)
	b := newBackTest(&v.replay, candidate, each != nil)
	var err error = newError(ErrInput, "candidate", "no policy was given: make one with guardian.Compile")
	if candidate.Hash() != (contracts.Digest{}) {
		err = v.inPack(r, size)
	}
	b.found.Report, err = v.answer(err)
	if err != nil {
		return Differences{Report: b.found.Report}, err
	}
	for _, x := range b.changes {
		if err := v.ctx.Err(); err != nil {
			return Differences{}, err
		}
		st, f := v.reread.statement(uint64(x.index))
		if f != nil {
			report, err := v.answer(f)
			return Differences{Report: report}, err
		}
		d, now := st.Judgement(), b.said[x.said]
		if err := each(Change{uint64(x.index), d.ID, d.Tool, judgedOf(d), now,
			lacksOnlyApprovals(d, now)}); err != nil {
			return Differences{}, err
		}
	}
	return b.found, nil
}
