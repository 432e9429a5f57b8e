package evidence

import (
	"context"
	"errors"
	"io"
	"runtime"

	"github.com/gowebpki/jcs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/evidence/internal/ustar"
)

// A verifier is the state of one verification. All in it is constant, or of the sizes that the
// package comment promises. Its parts know no more than they need: the fold the entries, blobs what
// entries name, reread what was verified before, replay all of these.
type verifier struct {
	ctx context.Context
	o   Options

	opener      // of the entry at hand
	workers int // how many goroutines open entries at the same time, the one that folds them included
	batch   int // bytes of entries that one of them takes at a time

	from   source
	pack   *packed // the source, if it is one
	fold   fold
	blobs  blobs
	reread rereader
	replay replayer
	report Report

	witnessed witnessed
	unsaid    int // bytes of entries since Progress was called
	held      holdings
	ranges    ranges
}

// Verify reads a pack of that size and reports what it proves. The error is that of the first check
// that failed, an [*Error]; the Report is then INVALID and has it too. Without an error a pack may
// still prove too little: check [Report.Success]. Verify reads r forwards, entries and headers
// once, blobs when they are named, and holds none of it. A large pack takes long; Verify ends when
// ctx does. A nil ctx never ends. Verify may be called by many goroutines at once, also with the
// same r and Options.
func Verify(ctx context.Context, r io.ReaderAt, size int64, o Options) (Report, error) {
	v := newVerifier(ctx, o)
	return v.answer(v.inPack(r, size))
}

// answer returns the report: without an error what was proved, with one what is wrong.
func (v *verifier) answer(err error) (Report, error) {
	if ended := v.ctx.Err(); ended != nil && errors.Is(err, ended) {
		err = ended // no fault of what was read
	}
	asked := v.o.asked()
	if err == nil {
		v.report.Asked = asked
		return v.report, nil
	}
	// Nothing else is proved.
	report := Report{Asked: asked, Replay: Replay{Differing: v.replay.report.Differing}}
	if errors.As(err, &report.Fault) && report.Fault.Check == ErrRerun { // else not all were run
		report.Rerun.Differing = v.replay.runs.report.Differing
	}
	return report, err
}

func newVerifier(ctx context.Context, o Options) *verifier {
	if ctx == nil {
		ctx = context.Background()
	}
	shape := inorder.Of(ctx, inorder.Shape{Workers: min(runtime.GOMAXPROCS(0), maxWorkers), Batch: batchBytes})
	v := &verifier{ctx: ctx, o: o, workers: shape.Workers, batch: shape.Batch}
	if o.CrossCheck {
		v.canonical = jcs.Transform
	}
	v.fold = fold{
		o:        &v.o,
		pending:  map[uint64]*pending{},
		bound:    map[bound]claim{},
		approved: map[half]struct{}{},
		policies: map[contracts.Digest]uint64{},
	}
	v.blobs.at = v.fold.size
	v.reread = rereader{ctx: ctx, log: &v.fold.log, blobs: &v.blobs}
	v.fold.terms = v.reread.termsOf()
	v.held = holdings{fold: &v.fold}
	v.ranges = ranges{fold: &v.fold, reread: &v.reread, held: &v.held}
	v.replay = replayer{
		runs:     newRerunner(&v.replay, &o, v.workers),
		fold:     &v.fold,
		blobs:    &v.blobs,
		reread:   &v.reread,
		sessions: sessionCache{most: maxSessions, limit: allSessions},
		nonces:   map[[16]byte]uint32{},
	}
	return v
}

// inPack verifies a pack.
func (v *verifier) inPack(r io.ReaderAt, size int64) error {
	if f := isReader(r, size); f != nil {
		return f
	}
	if f := v.given(); f != nil {
		return f
	}
	p, err := openPacked(v.ctx, r, size, ustar.Pack)
	if err != nil {
		return err
	}
	v.pack = p
	return v.verify(p)
}

// isReader does the check INPUT of a reader.
func isReader(r io.ReaderAt, size int64) *Error {
	switch {
	case r == nil:
		return newError(ErrInput, "r", "no reader was given")
	case size < 0:
		return newError(ErrInput, "size", "negative: give the size in bytes of what r reads")
	}
	return nil
}

// given does the check INPUT of the options.
func (v *verifier) given() (f *Error) {
	if v.fold.last, f = v.o.check(); f != nil {
		return f
	}
	if v.witnessed, f = newWitnessed(&v.o); f != nil {
		return f
	}
	if f = v.held.take(&v.o, &v.opener); f != nil {
		return f
	}
	v.fold.state = v.o.Trust
	if v.o.Trust != nil {
		v.blobs.trust = v.o.Trust.Canonical()
	}
	if v.o.Trust != nil || v.o.Kernel != nil {
		v.report.Signer = Trusted
	}
	return f
}

// verify does all checks from the entries on.
func (v *verifier) verify(from source) error {
	v.replay.runs.begin(v.ctx)
	defer v.replay.runs.end()
	v.from, v.reread.from, v.blobs.from = from, from, from
	v.blobs.far, v.blobs.canonical = from.view(), v.canonical
	if err := v.entries(); err != nil {
		return err
	}
	if err := v.finish(); err != nil {
		return err
	}
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if v.o.Progress != nil {
		v.o.Progress(from.total(), from.total())
	}
	return nil
}

// next folds one entry, or fails with the fault that is in its place.
func (v *verifier) next(l line, x early, f *Error) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if f == nil {
		f = v.entry(l, x)
	}
	if f != nil {
		return f
	}
	v.progress(l)
	return nil
}

// progress calls Options.Progress, but not at the end.
func (v *verifier) progress(l line) {
	v.unsaid += len(l.bytes)
	if v.o.Progress != nil && v.unsaid >= 1<<20 && l.end < v.from.total() {
		v.unsaid = 0
		v.o.Progress(l.end, v.from.total())
	}
}
