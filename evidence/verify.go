package evidence

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"

	"github.com/gowebpki/jcs"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/trust/registry"
)

// A verifier is the state of one verification. Whatever is in it is constant, or of the sizes that the package comment promises.
type verifier struct {
	ctx  context.Context
	r    io.ReaderAt
	o    Options
	last *signed // that the caller saw

	canonical func([]byte) ([]byte, error) // the second canonicaliser; nil: none is asked

	pack archive
	far  *far // for blobs
	buf  []byte

	// the fold of the entries
	log
	state    *registry.State  // for the entry at hand: the initial one, and what the trust events before it made of it
	lines    hash.Hash        // of entries.jsonl
	reader   contracts.Reader // of entries
	inputs   contracts.Reader
	json     crypto.Tree // of a blob
	pae      []byte
	text     []byte
	pending  map[uint64]*pending   // ALLOWs without a receipt, by index
	bound    map[bound]claim       // idempotency keys
	approved map[[16]byte]struct{} // approvals that an ALLOW consumed, by half their digest
	nonces   map[[16]byte]uint32   // of their requests, and which ALLOW it was
	unread   blanks                // where ALLOWs consumed approvals whose requests cannot be read
	stacks   stacks
	ledger   guardian.Ledger
	stories  stories
	marks    []int64   // where entries lie
	second   *rereader // of what was gone over before; nil: nothing was needed of it
	report   Report

	// the first faults of the checks that come after the entries, though found with them
	badBlob, badReplay *Error
}

// Verify reads a pack of that size and says what it proves. The error is that of the first check that failed, an [*Error]; the Report is then
// INVALID and has it too. Without an error a pack may still prove too little: ask [Report.Success]. Verify reads r forwards, entries and
// headers once, blobs where they are named, and holds none of it; it may be slow on a large pack, and ends when ctx does. A nil ctx never
// ends. Verify may be called by many goroutines at once, with the same r and Options too.
func Verify(ctx context.Context, r io.ReaderAt, size int64, o Options) (Report, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	v := newVerifier(ctx, r, o)
	err := v.verify(size)
	asked := o.Level
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

func newVerifier(ctx context.Context, r io.ReaderAt, o Options) *verifier {
	v := &verifier{ctx: ctx, r: r, o: o, lines: crypto.NewSum(), pending: map[uint64]*pending{}, bound: map[bound]claim{}, stories: stories{most: maxStories, limit: allStories},
		approved: map[[16]byte]struct{}{}, nonces: map[[16]byte]uint32{}}
	if o.CrossCheck {
		v.canonical = jcs.Transform
	}
	return v
}

func (v *verifier) verify(size int64) error {
	switch {
	case v.r == nil:
		return &Error{ErrInput, -1, "r", "no reader was given", nil}
	case size < 0:
		return &Error{ErrInput, -1, "size", "negative: give the size of the pack in bytes", nil}
	}
	last, fault := v.o.check()
	if fault != nil {
		return fault
	}
	v.last, v.state = last, v.o.Trust
	if v.state != nil || v.o.Kernel != nil {
		v.report.Signer = Trusted
	}
	w := newWindow(v.r, size, 256<<10)
	v.far = &far{window: newWindow(v.r, size, 4<<10)}
	if err := v.pack.open(v.ctx, w); err != nil {
		return err
	}
	if err := v.entries(w); err != nil {
		return err
	}
	if err := v.finish(); err != nil {
		return err
	}
	return v.ctx.Err()
}

// entries reads entries.jsonl line by line.
func (v *verifier) entries(w *window) error {
	x := v.pack.members[entriesMember]
	for at, end := x.at, x.at+x.size; at < end; {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		b, err := w.get(at, int(min(end-at, contracts.MaxEntry+1)))
		if err != nil {
			return &Error{ErrArchive, -1, members[entriesMember], "it cannot be read", err}
		}
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			return v.fault(ErrEncoding, "", "a line without end, or of more than 32,768 bytes")
		}
		v.lines.Write(b[:n+1])
		if f := v.entry(b[:n], at); f != nil {
			if err := v.ctx.Err(); err != nil && errors.Is(f, err) {
				return err // no fault of the pack's
			}
			return f
		}
		at += int64(n) + 1
	}
	return nil
}

// member reads one of the first members into memory; the caller has looked at its size.
func (v *verifier) member(i int) ([]byte, *Error) {
	x := v.pack.members[i]
	b := make([]byte, x.size)
	if err := readAt(v.r, b, x.at); err != nil {
		return nil, &Error{ErrArchive, -1, members[i], "it cannot be read", err}
	}
	return b, nil
}

// fault is one of the entry at hand.
func (v *verifier) fault(check error, field, what string) *Error {
	return &Error{check, int64(v.size()), field, what, nil}
}
