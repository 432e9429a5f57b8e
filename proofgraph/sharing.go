package proofgraph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/keys"
)

// Remembered is what a process remembers of a log in a [Shared] store, besides its sessions: what
// [Draft].Take reads and changes. It may be old. What it says is guessed, and if the guess is wrong
// it is set to what holds. Its methods are called by one goroutine at a time, and must be quick.
type Remembered interface {
	// Spent returns the balance, of which Spent is not read.
	Spent(b contracts.Balance) uint64

	// SetSpent sets the balance.
	SetSpent(b contracts.Balance)

	// SetUsed says whether the nonce of an approval is used.
	SetUsed(nonce string, used bool)
}

// A sharing is what a log over a [Shared] store has besides.
type sharing struct {
	log        *Log
	store      Shared
	remembered Remembered
	each       func(Line) error // of the entries of the session ""

	// lead is full while a goroutine leads: it appends for all that wait. The leader alone uses the
	// fields after it, and moves chains.
	lead   chan struct{}
	writer Writer
	left   bool
	moving map[contracts.Balance]int // balances that others move: for so many batches more they take turns
	wrong  int                       // how many batches take turns since the last guess was wrong
	turns  int                       // how many of these are left

	waiting []*Slot // in the order in which they came; protected by log.mu

	mark  Checkpoint                   // the store's, when the log was opened
	ours  bool                         // the log's key has signed mark
	found map[contracts.Digest]EntryAt // some of those that Find has found; protected by log.indexMu
}

// maxFound is how many entries a log over a shared store remembers that it has found.
const maxFound = 1 << 14

// A joining is what a [Slot] of a log over a [Shared] store has besides.
type joining struct {
	draft   *Draft
	seq     uint64 // the session's next seq when the draft was placed
	parents []contracts.Digest
	lamport uint64               // the greatest of the parents
	record  *contracts.Statement // until it is signed
	end     End                  // of the session with this entry
	done    chan struct{}        // closed when the entry is durable, or was given back
	err     error                // why it was given back
	tries   int
}

var errNotShared = errors.New("proofgraph: a shared store does not let go of entries")

// openShared opens the log in a shared store, or begins one.
func (l *Log) openShared(ctx context.Context, s Shared, o Options, each func(Line) error) (err error) {
	if o.Prefix != nil {
		return errors.New("a shared store has no state: its log is opened without a prefix")
	}
	w, err := s.Join(ctx, o.Origin)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Leave(context.WithoutCancel(ctx))
		}
	}()
	l.older = older{store: s, known: map[contracts.Digest]EntryAt{}}
	l.sharing = &sharing{log: l, store: s, remembered: o.Remembered, each: each, lead: make(chan struct{}, 1),
		writer: w, moving: map[contracts.Balance]int{}, found: map[contracts.Digest]EntryAt{}}
	c := l.Chain(contracts.SessionKernel)
	for tries := 0; c.next == 0; tries++ {
		if err := l.sharing.follow(ctx, c, each); err != nil {
			return err
		}
		if c.next > 0 {
			break
		}
		switch err := l.sharing.begin(ctx, o); {
		case errors.Is(err, ErrMoved) && tries >= maxTries:
			return fmt.Errorf("the store has refused the first entry %d times, and has none: %w", tries+1, err)
		case err != nil && !errors.Is(err, ErrMoved): // else another one has begun it
			return err
		}
	}
	note, err := s.Checkpoint(ctx)
	if err != nil {
		return err
	}
	if note != nil {
		mark, lines, err := ParseCheckpoint(note)
		if err != nil {
			return err
		}
		l.marked, l.sharing.mark = mark.Size, mark
		l.sharing.ours = mark.Origin == o.Origin && slices.ContainsFunc(lines, func(line SignatureLine) bool {
			return mark.SignedBy(line, l.notes.pub)
		})
	}
	l.size, err = s.Size(ctx)
	return err
}

// begin writes genesis.
func (sh *sharing) begin(ctx context.Context, o Options) error {
	s, _, err := sh.log.genesisSlot(o)
	if err != nil {
		return err
	}
	end := map[string]End{contracts.SessionKernel: {Next: 1, Last: s.hash, Time: o.Now}}
	_, err = sh.writer.Put(ctx, State{Sessions: map[string]End{contracts.SessionKernel: {}}},
		Change{Batch: Batch{Entries: []contracts.Entry{s.entry}, Blobs: [][]byte{o.Trust}},
			Of: []string{contracts.SessionKernel}, Sessions: end})
	return err
}

// IsShared reports whether the store is a [Shared], so that others write to the log too.
func (l *Log) IsShared() bool { return l.sharing != nil }

// Follow reads what was added to a chain and not read yet, and calls each for every entry. Over a
// store that is not [Shared] there is nothing: only this log adds to it. Parents in a [Line] of it
// are nil, because an entry names them by their hashes: see [Log.Search].
//
// Like the chain it is for one goroutine at a time. After an error it may be called again, and goes
// on after the last entry of which each returned nil.
func (l *Log) Follow(ctx context.Context, c *Chain, each func(Line) error) error {
	if l.sharing == nil {
		return nil
	}
	return l.sharing.follow(ctx, c, each)
}

func (sh *sharing) follow(ctx context.Context, c *Chain, each func(Line) error) (err error) {
	defer contain.Error(&err, "proofgraph: follow: the store")
	var reader contracts.Reader
	there := c.Next()
	for p, err := range sh.store.Session(ctx, c.session, c.seen.Next) {
		if err != nil {
			return fmt.Errorf("proofgraph: follow: %w", &unreadError{err})
		}
		end := c.seen
		line, err := sh.line(&reader, c.session, &end, p)
		if err == nil {
			err = each(line)
		}
		if err != nil {
			return fmt.Errorf("proofgraph: follow: entry %d: %w", p.Index, err)
		}
		if p.Index == 0 {
			sh.log.genesis = line.Hash
		}
		sh.log.mu.Lock()
		c.seen = end
		if end.Next > c.next {
			c.setEnd(end)
		}
		sh.log.mu.Unlock()
	}
	if c.seen.Next < there {
		return fmt.Errorf("proofgraph: follow: the store says that the session %q has %d entries, and has %d",
			c.session, there, c.seen.Next)
	}
	sh.log.mu.Lock()
	defer sh.log.mu.Unlock()
	c.unknown = false
	return nil
}

// An unreadError is an error of a store that was read.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

// line reads an entry of a session, and checks that it follows from the one before.
func (sh *sharing) line(r *contracts.Reader, session string, end *End, p Placed) (Line, error) {
	line := Line{Index: p.Index, Bytes: p.Entry, Hash: p.Entry.Hash()}
	st, err := openEntry(r, p.Entry)
	if err != nil {
		return line, err
	}
	line.Statement = st
	h, prev := &st.Header, end.Last
	if end.Next == 0 {
		prev = sh.log.genesis
	}
	switch {
	case (st.Genesis != nil) != (p.Index == 0):
		return line, errors.New("genesis is the first entry and no other")
	case st.Genesis != nil:
		if err := isFirst(st, sh.log.notes.Name()); err != nil {
			return line, err
		}
	case end.Closed:
		return line, ErrClosed
	case h.Session != session:
		return line, errors.New("session: another one")
	case h.Seq != end.Next:
		return line, errors.New("seq: not the next of its session")
	case h.Prev != prev:
		return line, errors.New("prev: not the last of its session")
	case h.Lamport <= end.Lamport:
		return line, errors.New("lamport: not more than that of what is named")
	case h.Time < end.Time:
		return line, errors.New("time: runs back within its session")
	}
	end.advance(h, line.Hash, st)
	return line, nil
}

// advance makes an entry the last one.
func (e *End) advance(h *contracts.Header, hash contracts.Digest, st *contracts.Statement) {
	e.Next, e.Last, e.Lamport, e.Time, e.Closed = h.Seq+1, hash, h.Lamport, h.Time, st.Close != nil
	switch {
	case st.Decision != nil:
		e.Open++
	case st.Receipt != nil && st.Receipt.Decision == nil: // of a decision, and no denial
		e.Open--
	}
}

// Search returns the index of the entry with that hash, which an entry at index below names. It
// reads the log back from there until it finds it: most entries name what was not long before.
func (l *Log) Search(ctx context.Context, hash contracts.Digest, below uint64) (index uint64, err error) {
	defer contain.Error(&err, "proofgraph: search: the store")
	const step = 1024
	for to := below; to > 0; to -= min(to, step) {
		from := to - min(to, step)
		at := from
		for e, err := range l.store.Entries(ctx, from, to) {
			if err != nil {
				return 0, fmt.Errorf("proofgraph: search: %w", err)
			}
			if e.Hash() == hash {
				return at, nil
			}
			at++
		}
	}
	return 0, ErrUnknownParent
}

// findShared is Find over a shared store.
func (l *Log) findShared(ctx context.Context, ref contracts.Ref) (found bool, err error) {
	defer contain.Error(&err, "proofgraph: find: the store")
	if index, ok := l.Lookup(ref.Hash); ok {
		return index == ref.Index, nil
	}
	size, err := l.store.Size(ctx)
	if err != nil || ref.Index >= size {
		return false, err
	}
	e, _, err := l.older.readAt(ctx, ref.Index)
	if err != nil {
		return false, fmt.Errorf("proofgraph: find: entry %d: %w", ref.Index, err)
	}
	if e.Hash != ref.Hash {
		return false, nil
	}
	l.indexMu.Lock()
	defer l.indexMu.Unlock()
	if len(l.sharing.found) >= maxFound {
		clear(l.sharing.found)
	}
	l.sharing.found[e.Hash] = e
	return true, nil
}

// Dead declares the writers dead that are, and returns the indexes of all open decisions of dead
// writers: their calls will get no receipt from them. Over a store that is not [Shared] there are
// none.
func (l *Log) Dead(ctx context.Context) (open []uint64, err error) {
	if l.sharing == nil {
		return nil, nil
	}
	err = l.sharing.alone(ctx, "dead", func() (err error) {
		open, err = l.sharing.writer.Dead(ctx)
		return err
	})
	return open, err
}

// Leave ends the log's part in a [Shared] store: others settle what it leaves open. It is for a log
// that is sealed, and Seal calls it; it waits until that is done.
func (l *Log) Leave(ctx context.Context) error {
	if l.sharing == nil {
		return nil
	}
	return l.sharing.leave(ctx)
}

func (sh *sharing) leave(ctx context.Context) error {
	return sh.led(ctx, "leave", func() error { return sh.leaveNow(ctx) })
}

func (sh *sharing) leaveNow(ctx context.Context) error {
	if sh.left {
		return nil
	}
	err := sh.writer.Leave(ctx)
	sh.left = err == nil
	return err
}

// leaveSoon leaves a store that nothing is written to any more, so that others do not wait for what
// it has open.
func (sh *sharing) leaveSoon() {
	_ = sh.led(context.Background(), "leave", func() error { // else it is found dead
		ctx, stop := context.WithTimeout(context.Background(), keys.Patience)
		defer stop()
		return sh.leaveNow(ctx)
	})
}

// Confirm commits a change of nothing, and reads what others have added to the session "". So until
// then nobody has found this log's writer dead. Over a store that is not [Shared] it does nothing.
func (l *Log) Confirm(ctx context.Context) error {
	if l.sharing == nil {
		return nil
	}
	return l.sharing.alone(ctx, "confirm", func() error {
		err := l.sharing.put(ctx, Change{})
		if err != nil && ctx.Err() == nil && !errors.As(err, new(*unreadError)) {
			l.Seal(err)
		}
		return err
	})
}

// Refresh reads what others have added to the session "". Over a store that is not [Shared] there
// is nothing.
func (l *Log) Refresh(ctx context.Context) error {
	if l.sharing == nil {
		return nil
	}
	return l.sharing.alone(ctx, "refresh", func() error {
		var bad error
		each := func(x Line) error {
			bad = l.sharing.each(x)
			return bad
		}
		err := l.sharing.follow(ctx, l.Chain(contracts.SessionKernel), each)
		if bad != nil { // the log goes on without this one
			l.Seal(bad)
		}
		return err
	})
}

// put writes a change that says nothing of the log. After an unreadError nothing was written.
func (sh *sharing) put(ctx context.Context, c Change) error {
	guess := State{Kernel: sh.log.Chain(contracts.SessionKernel).Next()}
	_, err := sh.writer.Put(ctx, guess, c)
	for n := 0; n < maxTries && errors.Is(err, ErrMoved); n++ {
		b := &joint{sharing: sh}
		var state State
		if state, err = sh.writer.Turn(ctx, Ask{}); err != nil {
			continue
		}
		err = func() (err error) {
			defer func() {
				if ended := sh.writer.End(ctx, Change{}); ended != nil {
					err = ended
				}
			}()
			return b.adopt(nil, nil, &state)
		}()
		if err == nil {
			guess.Kernel = state.Kernel
			_, err = sh.writer.Put(ctx, guess, c)
		}
	}
	return err
}
