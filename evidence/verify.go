package evidence

import (
	"context"
	"errors"
	"io"
	"runtime"

	"github.com/gowebpki/jcs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/inorder"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/trust/registry"
)

// A verifier is the state of one verification. Whatever is in it is constant, or of the sizes that the package comment promises.
type verifier struct {
	ctx  context.Context
	o    Options
	last *signed // that the caller saw

	opener      // of the entry at hand
	workers int // how many open entries at the same time, the one who folds them included
	batch   int // bytes of entries that one of them takes at a time

	from source
	pack *packed // the source, where it is one
	far  view    // for blobs
	buf  []byte

	// the fold of the entries
	log
	state    *registry.State // for the entry at hand: the initial one, and what the trust events before it made of it
	inputs   contracts.Reader
	json     crypto.Tree // of a blob
	text     []byte
	pending  map[uint64]*pending   // ALLOWs without a receipt, by index
	bound    map[bound]claim       // idempotency keys
	approved map[[16]byte]struct{} // approvals that an ALLOW consumed, by half their digest
	nonces   map[[16]byte]uint32   // of their requests, and which ALLOW it was
	unread   blanks                // where ALLOWs consumed approvals whose requests cannot be read
	stacks   stacks
	ledger   past.Ledger
	stories  stories
	marks    []int64   // places of entries
	absent   bits      // judgements whose inputs were not there with their entry, so they are not there for anybody
	back     *backTest // judges by another stack, too; nil: nobody asked for it
	second   *rereader // of what was gone over before; nil: nothing was needed of it
	report   Report
	unsaid   int // bytes of entries since Progress was told

	// the first faults of the checks that come after the entries, though found with them
	badBlob, badReplay *Error
}

// Verify reads a pack of that size and says what it proves. The error is that of the first check that failed, an [*Error]; the Report is then
// INVALID and has it too. Without an error a pack may still prove too little: ask [Report.Success]. Verify reads r forwards, entries and
// headers once, blobs where they are named, and holds none of it; it may be slow on a large pack, and ends when ctx does. A nil ctx never
// ends. Verify may be called by many goroutines at once, with the same r and Options too.
func Verify(ctx context.Context, r io.ReaderAt, size int64, o Options) (Report, error) {
	v := newVerifier(ctx, o)
	return v.answer(v.inPack(r, size))
}

// answer is what the caller is told: without an error what was proved, with one what is wrong.
func (v *verifier) answer(err error) (Report, error) {
	if ended := v.ctx.Err(); ended != nil && errors.Is(err, ended) {
		err = ended // no fault of what was read
	}
	asked := v.o.Level
	if asked == Invalid {
		asked = Logged
	}
	if err == nil {
		v.report.Asked = asked
		return v.report, nil
	}
	report := Report{Asked: asked, Replay: Replay{Differing: v.report.Replay.Differing}} // of all else nothing is proved
	errors.As(err, &report.Fault)
	return report, err
}

func newVerifier(ctx context.Context, o Options) *verifier {
	if ctx == nil {
		ctx = context.Background()
	}
	shape := inorder.Of(ctx, inorder.Shape{Workers: min(runtime.GOMAXPROCS(0), maxWorkers), Batch: batchBytes})
	v := &verifier{ctx: ctx, o: o, workers: shape.Workers, batch: shape.Batch, stories: stories{most: maxStories, limit: allStories},
		pending: map[uint64]*pending{}, bound: map[bound]claim{}, approved: map[[16]byte]struct{}{}, nonces: map[[16]byte]uint32{}}
	if o.CrossCheck {
		v.canonical = jcs.Transform
	}
	return v
}

// inPack verifies a pack.
func (v *verifier) inPack(r io.ReaderAt, size int64) error {
	switch {
	case r == nil:
		return &Error{ErrInput, -1, "r", "no reader was given", nil}
	case size < 0:
		return &Error{ErrInput, -1, "size", "negative: give the size of the pack in bytes", nil}
	}
	if f := v.given(); f != nil {
		return f
	}
	p, err := openPacked(v.ctx, r, size)
	if err != nil {
		return err
	}
	v.pack = p
	return v.verify(p)
}

// given is INPUT.
func (v *verifier) given() (f *Error) {
	v.last, f = v.o.check()
	v.state = v.o.Trust
	if v.state != nil || v.o.Kernel != nil {
		v.report.Signer = Trusted
	}
	return f
}

// verify does all checks from the entries on.
func (v *verifier) verify(from source) error {
	v.from, v.far = from, from.view()
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

// entries folds the log, entry by entry.
func (v *verifier) entries() error {
	if v.workers > 1 {
		return v.ahead()
	}
	for l, f := range v.from.lines() {
		if err := v.next(l, early{}, f); err != nil {
			return err
		}
	}
	return nil
}

// next folds one entry, or the fault that is in its place.
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
	v.said(l)
	return nil
}

// said tells the caller of progress, but for the end of it.
func (v *verifier) said(l line) {
	if v.unsaid += len(l.bytes); v.o.Progress != nil && v.unsaid >= 1<<20 && l.behind < v.from.total() {
		v.unsaid = 0
		v.o.Progress(l.behind, v.from.total())
	}
}

// fault is one of the entry at hand.
func (v *verifier) fault(check error, field, what string) *Error {
	return &Error{check, int64(v.size()), field, what, nil}
}
