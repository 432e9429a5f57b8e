package evidence

import (
	"context"
	"errors"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// VerifyStore verifies a log in its store, up to the store's latest checkpoint. It finds what
// [Verify] finds out of the pack that [Write] would make of the store, and counts the entries after
// that checkpoint without verifying them. A store has neither archive nor manifest,
// and blobs that no entry names cannot be seen in it. Nothing that the store says is believed: a
// store that fails, lies or panics is an error, and never a success. If another process has the
// kernel, open the store to be read (filestore.OpenReadOnly); a store that a kernel of this process
// writes to may be given too. If the store lets go of entries or erases blobs meanwhile that
// VerifyStore has read, it reads them all again, some times, and the report is of what is left.
// VerifyStore ends when ctx does; a nil ctx never ends.
func VerifyStore(ctx context.Context, s proofgraph.Store, o Options) (Report, error) {
	for again := 0; ; again++ {
		v := newVerifier(ctx, o)
		err := v.inStore(s)
		if again == mostAgain || !errors.Is(err, errLetGo) {
			return v.answer(err)
		}
	}
}

// inStore verifies a store.
func (v *verifier) inStore(s proofgraph.Store) error {
	if s == nil {
		return newError(ErrInput, "s", "no store was given")
	}
	if f := v.given(); f != nil {
		return f
	}
	l, f := openStored(v.ctx, s)
	if f != nil {
		return f
	}
	v.report.Behind = l.behind
	return v.verify(l)
}

// A stored is a log in a store. The bytes that a store returns are its caller's, so it is a view of
// itself.
type stored struct {
	ctx    context.Context
	store  proofgraph.Store
	note   []byte
	size   uint64 // entries to read: as many as the checkpoint has, if they are there
	behind uint64 // entries after them
}

var (
	_ source = (*stored)(nil)
	_ view   = (*stored)(nil)
)

var errMore = errors.New("it gives more entries than it was asked for")

// openStored asks how far the log goes. The checkpoint comes first, since the store may grow.
func openStored(ctx context.Context, store proofgraph.Store) (*stored, *Error) {
	s := &stored{ctx: ctx, store: store}
	err := s.ask(func() (err error) { s.note, err = store.Checkpoint(ctx); return })
	switch {
	case err != nil:
		return nil, cannotRead(ErrStore, "checkpoint", err)
	case len(s.note) == 0:
		return nil, newError(ErrCheckpoint, ustar.Members[ustar.Checkpoint],
			"the store has none, and a log is verified up to one: make it with Kernel.Checkpoint")
	}
	if err := s.ask(func() (err error) { s.size, err = store.Size(ctx); return }); err != nil {
		return nil, cannotRead(ErrStore, "size", err)
	}
	if c, err := parseSigned(s.note); err == nil && s.size > c.Size { // a malformed one is CHECKPOINT, in its turn
		s.behind, s.size = s.size-c.Size, c.Size
	}
	return s, nil
}

// ask makes a call of the store, which may panic. f calls nothing of this package that might.
func (s *stored) ask(f func() error) (err error) {
	defer contain.Error(&err, "it")
	return f()
}

// entries pulls the entries, so that panics of the store are not mixed up with those of the caller.
// An error is the last pair.
func (s *stored) entries(from, to uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		next, stop := iter.Pull2(func(yield func(contracts.Entry, error) bool) {
			s.store.Entries(s.ctx, from, to)(yield)
		})
		defer s.ask(func() error { stop(); return nil }) // a panic at the end changes nothing
		for index := from; ; index++ {
			var e contracts.Entry
			var more bool
			err := s.ask(func() (err error) { e, err, more = next(); return })
			switch {
			case err == nil && !more:
				return
			case err == nil && index == to:
				err = errMore
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (s *stored) lines() iter.Seq2[line, *Error] {
	return func(yield func(line, *Error) bool) {
		index := uint64(0)
		for e, err := range s.entries(0, s.size) {
			if err != nil {
				yield(line{}, s.unreadable(nil, err))
				return
			}
			if !yield(line{e, int64(index), index + 1}, nil) {
				return
			}
			index++
		}
	}
}

func (s *stored) total() uint64 { return s.size }

func (s *stored) checkpoint() ([]byte, *Error) { return s.note, nil }

func (s *stored) view() view { return s }

// names remembers nothing: a store need not have every blob named.
func (s *stored) names(int, entry.Role) {}

func (s *stored) unreadable(blob *contracts.Digest, err error) *Error {
	field := "entries"
	if blob != nil {
		field = ustar.BlobPrefix + blob.String()
	}
	return cannotRead(ErrStore, field, err)
}

func (s *stored) line(place int64, n int) (b []byte, err error) {
	defer contain.Error(&err, "it")
	at := uint64(place) + uint64(n)
	for e, err := range s.store.Entries(s.ctx, at, at+1) {
		return e, err
	}
	return nil, errChanged
}

func (s *stored) run(place int64, skip, n int) iter.Seq2[[]byte, error] {
	from := uint64(place) + uint64(skip)
	return s.entries(from, from+uint64(n))
}

func (s *stored) blob(d contracts.Digest) (b []byte, number int, err error) {
	defer contain.Error(&err, "it")
	b, err = s.store.Blob(s.ctx, d)
	switch {
	case errors.Is(err, proofgraph.ErrNoBlob):
		return nil, noBlob, nil
	case err != nil:
		return nil, noBlob, err
	case len(b) > maxBlob:
		return nil, 0, errLong
	}
	return b, 0, nil
}
