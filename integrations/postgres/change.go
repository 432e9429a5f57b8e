package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// What of a state and of a change is sent: a list for each column.

// A columns makes the lists, and notes if a number is too large for the database.
type columns struct {
	ends  map[string]proofgraph.End // of the sessions of the change; set by changed
	names []string                  // of ends, in the order of the lists
	err   error
}

func (c *columns) number(n uint64) int64 {
	i, err := signed(n)
	c.err = errors.Join(c.err, err)
	return i
}

// guessed returns the arguments of put that are the guess. Its lists of sessions begin as those of
// the change do, so that the server looks each session up once.
func (c *columns) guessed(g proofgraph.State) []any {
	n := len(g.Sessions)
	names, next, last := make([]string, 0, n), make([]int64, 0, n), make([][]byte, 0, n)
	add := func(name string, end proofgraph.End) {
		names, next, last = append(names, name), append(next, c.number(end.Next)), append(last, end.Last[:])
	}
	for _, name := range c.names {
		if end, ok := g.Sessions[name]; ok {
			add(name, end)
		}
	}
	for name, end := range g.Sessions {
		if _, ok := c.ends[name]; !ok {
			add(name, end)
		}
	}
	return append([]any{c.number(g.Kernel), names, next, last}, c.balances(g.Spent)...)
}

// balances returns four lists: budgets, subjects, windows and what is spent.
func (c *columns) balances(list []contracts.Balance) []any {
	n := len(list)
	budgets, of, windows, spent := make([]string, 0, n), make([]string, 0, n), make([]string, 0, n), make([]int64, 0, n)
	for _, b := range list {
		budgets, of, windows = append(budgets, b.Budget), append(of, b.Of), append(windows, b.Window)
		spent = append(spent, c.number(b.Spent))
	}
	return []any{budgets, of, windows, spent}
}

// changed returns the arguments of put and write that are the change. The long lists are the last
// ones, since a buffer that grows copies what it has: that of a turn, and of a put larger than the
// ones before.
func (c *columns) changed(x *proofgraph.Change) []any {
	c.ends, c.names = x.Sessions, slices.AppendSeq(make([]string, 0, len(x.Sessions)), maps.Keys(x.Sessions))
	seqs, err := seqsOf(x)
	c.err = errors.Join(c.err, err)
	bodies := make([][]byte, 0, len(x.Entries))
	for _, e := range x.Entries {
		bodies = append(bodies, e)
	}
	digests, blobs := make([][]byte, 0, len(x.Blobs)), make([][]byte, 0, len(x.Blobs))
	for _, b := range x.Blobs {
		d := crypto.Sum(b)
		digests, blobs = append(digests, d[:]), append(blobs, b)
	}
	opened, settled := make([]int64, 0, len(x.Opened)), make([]int64, 0, len(x.Settled))
	for _, i := range x.Opened {
		opened = append(opened, int64(i))
	}
	for _, i := range x.Settled {
		settled = append(settled, c.number(i))
	}
	args := append(c.sessions(), c.balances(x.Spent)...)
	return append(args, list(x.Used), opened, settled, x.Checkpoint, c.number(sizeOf(x.Checkpoint)),
		list(x.Of), seqs, bodies, digests, blobs)
}

// sessions returns seven lists: names, and what is in their ends.
func (c *columns) sessions() []any {
	n := len(c.names)
	next, last := make([]int64, 0, n), make([][]byte, 0, n)
	lamport, times := make([]int64, 0, n), make([]int64, 0, n)
	open, closed := make([]int32, 0, n), make([]bool, 0, n)
	for _, name := range c.names {
		end := c.ends[name]
		next, last = append(next, c.number(end.Next)), append(last, end.Last[:])
		lamport, times = append(lamport, c.number(end.Lamport)), append(times, int64(end.Time))
		open, closed = append(open, int32(end.Open)), append(closed, end.Closed)
	}
	return []any{c.names, next, last, lamport, times, open, closed}
}

// list returns texts that are not nil.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// sizeOf returns the number of entries that a checkpoint covers, and 0 if it is none.
func sizeOf(checkpoint []byte) uint64 {
	c, _, err := proofgraph.ParseCheckpoint(checkpoint)
	if err != nil {
		return 0
	}
	return c.Size
}

// seqsOf returns the seq of each entry of a change, which follow from the ends of their sessions.
// It returns an error if the parts of the change contradict each other.
func seqsOf(x *proofgraph.Change) ([]int64, error) {
	n := len(x.Entries)
	if len(x.Of) != n {
		return nil, fmt.Errorf("postgres: change: %d entries, and the sessions of %d", n, len(x.Of))
	}
	left := make(map[string]uint64, len(x.Sessions))
	seqs := make([]int64, n)
	for i := n - 1; i >= 0; i-- {
		end, ok := x.Sessions[x.Of[i]]
		left[x.Of[i]]++
		if !ok || left[x.Of[i]] > end.Next {
			return nil, fmt.Errorf("postgres: change: session %q does not end after its entries", x.Of[i])
		}
		seqs[i] = int64(end.Next - left[x.Of[i]])
	}
	if len(left) < len(x.Sessions) {
		return nil, errors.New("postgres: change: the end of a session that has no entry in the batch")
	}
	if !ascends(x.Opened) || !ascends(x.Settled) ||
		len(x.Opened) > 0 && (x.Opened[0] < 0 || x.Opened[len(x.Opened)-1] >= n) {
		return nil, errors.New("postgres: change: decisions are not in ascending order, or beyond the batch")
	}
	return seqs, nil
}

func ascends[T int | uint64](list []T) bool {
	return slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list)
}

// empty reports whether a change changes nothing.
func empty(x *proofgraph.Change) bool {
	return len(x.Entries)+len(x.Blobs)+len(x.Of)+len(x.Sessions)+len(x.Spent)+len(x.Used)+len(x.Opened)+
		len(x.Settled) == 0 && x.Checkpoint == nil
}
