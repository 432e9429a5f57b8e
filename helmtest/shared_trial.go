package helmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A sharedTrial is one promise of a shared store, tested in a place of its own. Its trial compares
// what readers see.
type sharedTrial struct {
	*trial
	shared proofgraph.Shared // opened last
	watch  proofgraph.Writer // of shared; sees what turns return
	log    sharedTwin

	patience time.Duration // with a call that must return
}

// A sharedTwin holds what turns must return.
type sharedTwin struct {
	ends    map[string]proofgraph.End
	indexes map[string][]uint64 // of each session's entries
	spent   map[contracts.Balance]uint64
	used    map[string]bool // false: of a change that was refused
}

func beginShared(r reporter, open func() proofgraph.Shared, short bool) *sharedTrial {
	r.Helper()
	t := &sharedTrial{patience: 10 * time.Second, log: sharedTwin{
		make(map[string]proofgraph.End), make(map[string][]uint64), make(map[contracts.Balance]uint64),
		make(map[string]bool),
	}}
	t.trial = begin(r, joining(r, open, func(s proofgraph.Shared, w proofgraph.Writer) proofgraph.Store {
		t.shared, t.watch = s, w
		return s
	}), short)
	ctx, cancel := context.WithTimeout(t.ctx, 5*time.Minute)
	t.Cleanup(cancel)
	t.ctx = ctx
	return t
}

// appenders returns a function that opens a shared store as an [appender].
func appenders(r reporter, open func() proofgraph.Shared) func() proofgraph.Store {
	return joining(r, open, func(s proofgraph.Shared, w proofgraph.Writer) proofgraph.Store {
		return &appender{Shared: s, writer: w}
	})
}

// joining returns a function that opens a store and joins its log, so that there is one to read.
func joining(r reporter, open func() proofgraph.Shared,
	as func(proofgraph.Shared, proofgraph.Writer) proofgraph.Store) func() proofgraph.Store {
	if open == nil {
		return nil
	}
	return func() proofgraph.Store {
		r.Helper()
		s := open()
		if s == nil {
			return nil
		}
		w, err := s.Join(context.Background(), sharedOrigin)
		if err != nil || w == nil {
			r.Fatalf("Join: %v", err)
		}
		return as(s, w)
	}
}

// join returns another writer of the store.
func (t *sharedTrial) join(s proofgraph.Shared) proofgraph.Writer {
	t.Helper()
	w, err := s.Join(t.ctx, sharedOrigin)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	return w
}

// another opens the store for another process, and returns how the first has it open.
func (t *sharedTrial) another() (first proofgraph.Shared) {
	t.Helper()
	first = t.shared
	if c, ok := as[io.Closer](first); ok {
		t.Cleanup(func() { c.Close() })
	}
	t.use(t.open())
	return first
}

// draft returns a change that is the next one of the log, and the guess that it needs. An entry is
// of the session that its text begins with, to the colon.
func (t *sharedTrial) draft(entries ...string) (guess proofgraph.State, c proofgraph.Change) {
	guess = proofgraph.State{Size: 1 << 40, Kernel: t.log.ends[""].Next, Sessions: map[string]proofgraph.End{}}
	c.Sessions = make(map[string]proofgraph.End)
	for _, text := range entries {
		name, _, _ := strings.Cut(text, ":")
		end, ok := c.Sessions[name]
		if !ok {
			end = t.log.ends[name]
			guess.Sessions[name] = proofgraph.End{Next: end.Next, Last: end.Last}
		}
		e := contracts.Entry(text)
		c.Entries, c.Of = append(c.Entries, e), append(c.Of, name)
		c.Sessions[name] = proofgraph.End{
			Next: end.Next + 1, Last: e.Hash(), Lamport: end.Lamport + 2, Time: end.Time + 1000,
			Open: len(c.Entries), Closed: strings.HasSuffix(text, "closed"),
		}
	}
	return guess, c
}

// spend adds to a change that it moves a balance, and to the guess what the balance is.
func (t *sharedTrial) spend(guess *proofgraph.State, c *proofgraph.Change, b contracts.Balance, by uint64) {
	b.Spent = t.log.spent[b]
	guess.Spent = append(guess.Spent, b)
	b.Spent += by
	c.Spent = append(c.Spent, b)
}

// put fails the test unless the store writes a guess that is right. It returns the index of its
// first entry.
func (t *sharedTrial) put(w proofgraph.Writer, guess proofgraph.State, c proofgraph.Change) uint64 {
	t.Helper()
	at, err := w.Put(t.ctx, guess, c)
	if err != nil {
		t.Fatalf("Put of %s: %v", shape(c.Batch), err)
	}
	if n := uint64(len(t.twin.entries)); at != n && len(c.Entries) > 0 {
		t.Errorf("Put returns the index %d, want %d", at, n)
	}
	t.wrote(c)
	return at
}

// takeTurn fails the test unless there is a turn.
func (t *sharedTrial) takeTurn(w proofgraph.Writer, a proofgraph.Ask) proofgraph.State {
	t.Helper()
	state, err := w.Turn(t.ctx, a)
	if err != nil {
		t.Fatalf("Turn: %v", err)
	}
	return state
}

// end fails the test unless a turn ends with the change.
func (t *sharedTrial) end(w proofgraph.Writer, c proofgraph.Change) {
	t.Helper()
	if err := w.End(t.ctx, c); err != nil {
		t.Fatalf("End with %s: %v", shape(c.Batch), err)
	}
	t.wrote(c)
}

// write writes a change in a turn.
func (t *sharedTrial) write(w proofgraph.Writer, c proofgraph.Change) {
	t.Helper()
	balances := slices.Clone(c.Spent)
	t.takeTurn(w, proofgraph.Ask{Sessions: slices.Collect(maps.Keys(c.Sessions)), Balances: balances, Nonces: c.Used})
	t.end(w, c)
}

// moved fails the test unless an error is ErrMoved, of a change that must not be there.
func (t *sharedTrial) moved(err error, c proofgraph.Change) {
	t.Helper()
	if !errors.Is(err, proofgraph.ErrMoved) {
		t.Fatalf("a change that is not of the log as it is: %v, want ErrMoved", err)
	}
	t.refused(c)
}

// wrote adds a change to the twin.
func (t *sharedTrial) wrote(c proofgraph.Change) {
	b := c.Batch
	kept, size := t.twin.checkpoint, sizeOf(b.Checkpoint)
	if size < sizeOf(kept) || size > 0 && bytes.HasPrefix(kept, b.Checkpoint) {
		b.Checkpoint = nil
	}
	for i, name := range c.Of {
		t.log.indexes[name] = append(t.log.indexes[name], uint64(len(t.twin.entries)+i))
	}
	t.twin.add(b)
	maps.Copy(t.log.ends, c.Sessions)
	for _, b := range c.Spent {
		spent := b.Spent
		b.Spent = 0
		t.log.spent[b] = spent
	}
	for _, nonce := range c.Used {
		t.log.used[nonce] = true
	}
}

// refused remembers what must not be there.
func (t *sharedTrial) refused(c proofgraph.Change) {
	t.twin.refuse(c.Batch)
	for name := range c.Sessions {
		know(t.log.ends, name)
	}
	for _, b := range c.Spent {
		b.Spent = 0
		know(t.log.spent, b)
	}
	for _, nonce := range c.Used {
		know(t.log.used, nonce)
	}
}

// know adds a key to a map, with the zero value, if it is not there.
func know[K comparable, V any](m map[K]V, key K) {
	if _, ok := m[key]; !ok {
		var zero V
		m[key] = zero
	}
}

// holds compares the store with the twin: what is read, and what a turn returns.
func (t *sharedTrial) holds() {
	t.Helper()
	t.same()
	a := proofgraph.Ask{
		Sessions: append(slices.Sorted(maps.Keys(t.log.ends)), "", "no-such-session"),
		Nonces:   append(slices.Sorted(maps.Keys(t.log.used)), "no-such-nonce"),
		Balances: append(slices.Collect(maps.Keys(t.log.spent)), contracts.Balance{Budget: "no-such-budget"}),
	}
	got := t.takeTurn(t.watch, a)
	t.end(t.watch, proofgraph.Change{})
	t.answered(a, got)
	for _, name := range a.Sessions {
		t.sameSession(name, 0)
	}
}

// answered compares what a turn has returned.
func (t *sharedTrial) answered(a proofgraph.Ask, got proofgraph.State) {
	t.Helper()
	want := proofgraph.State{
		Size: uint64(len(t.twin.entries)), Kernel: t.log.ends[""].Next, Sessions: make(map[string]proofgraph.End),
	}
	for _, name := range a.Sessions {
		want.Sessions[name] = t.log.ends[name]
	}
	for _, b := range a.Balances {
		b.Spent = 0
		b.Spent = t.log.spent[b]
		want.Spent = append(want.Spent, b)
	}
	for _, nonce := range a.Nonces {
		if t.log.used[nonce] {
			want.Used = append(want.Used, nonce)
		}
	}
	if got.Size != want.Size || got.Kernel != want.Kernel || !maps.Equal(got.Sessions, want.Sessions) ||
		!slices.Equal(got.Spent, want.Spent) || !slices.Equal(got.Used, want.Used) {
		t.Errorf("Turn returns %s, want %s", describe(got), describe(want))
	}
}

func describe(s proofgraph.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "size %d, kernel %d", s.Size, s.Kernel)
	for _, name := range slices.Sorted(maps.Keys(s.Sessions)) {
		end := s.Sessions[name]
		fmt.Fprintf(&b, ", session %q to %d (%.6s lamport %d time %d open %d closed %t)", name, end.Next, end.Last,
			end.Lamport, end.Time, end.Open, end.Closed)
	}
	for _, x := range s.Spent {
		fmt.Fprintf(&b, ", %s of %q in %q %d", x.Budget, x.Of, x.Window, x.Spent)
	}
	fmt.Fprintf(&b, ", used %q", s.Used)
	return b.String()
}

// sameSession compares the entries of a session from a seq on.
func (t *sharedTrial) sameSession(name string, from uint64) {
	t.Helper()
	want := t.log.indexes[name]
	want = want[min(from, uint64(len(want))):]
	list, err := placed(t.ctx, t.shared, name, from)
	fault := err != nil || len(list) != len(want)
	for i := 0; i < len(list) && !fault; i++ {
		fault = list[i].Index != want[i] || string(list[i].Entry) != t.twin.entries[want[i]]
	}
	if fault {
		t.Errorf("Session %q from %d returns entries %v (%v), want %v", name, from, indexesOf(list), err, want)
	}
}

// placed returns the entries of a session in order, up to the first error.
func placed(ctx context.Context, s proofgraph.Shared, name string, from uint64) (list []proofgraph.Placed, err error) {
	for p, err := range s.Session(ctx, name, from) {
		if err != nil {
			return list, err
		}
		list = append(list, p)
	}
	return list, nil
}

func indexesOf(list []proofgraph.Placed) (indexes []uint64) {
	for _, p := range list {
		indexes = append(indexes, p.Index)
	}
	return indexes
}

// sizeOf returns the size that a checkpoint says, and 0 if the bytes are no checkpoint.
func sizeOf(b []byte) uint64 {
	c, _, err := proofgraph.ParseCheckpoint(b)
	if err != nil {
		return 0
	}
	return c.Size
}

// pause reads, so that other goroutines come to do something.
func (t *sharedTrial) pause() {
	t.shared.Size(t.ctx)
	runtime.Gosched()
}

// linger pauses often, so that other goroutines come to do what they must not do. It ends after a
// second, because a store may end a turn that takes long.
func (t *sharedTrial) linger() {
	ctx, over := context.WithTimeout(t.ctx, time.Second)
	defer over()
	for n := 0; n < 50 && ctx.Err() == nil; n++ {
		t.pause()
	}
}
