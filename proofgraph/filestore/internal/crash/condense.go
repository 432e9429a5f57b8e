package crash

import (
	"context"
	"fmt"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A condensedLog is a store under a load without a kernel: batches that follow from their numbers
// are appended, condensed and erased. Everything that is begun and acknowledged is recorded.
type condensedLog struct {
	s      Store
	events recorder
	during func(moment string) // nil: nothing is called
}

// The events of such a load. Index is the number of a batch, or of a round of condensing, and Upto
// of how many batches.
const (
	eventStoring    = "storing"
	eventStored     = "stored"
	eventCondensing = "condensing" // Condense will be called
	eventCondenses  = "condenses"  // it was called
	eventCondensed  = "condensed"
)

const momentCondensed = "condensed" // Condense has ended, and the caller does not know it yet

// The batch of a number has two entries, a blob of its own and one that is erased later. Every
// third has the blob of an earlier batch, too: it is there already, or there again.
func entriesOf(n int) []contracts.Entry {
	return []contracts.Entry{
		fmt.Appendf(nil, "entry %d: %0*d", 2*n, 200+n*97%900, n), fmt.Appendf(nil, "entry %d: %0300d", 2*n+1, n),
	}
}

func blobOf(n int) []byte { return fmt.Appendf(nil, "blob %d: %0*d", n, 300+n*131%900, n) }

func secretOf(n int) []byte { return fmt.Appendf(nil, "secret of batch %d. %0400d", n, n) }

func blobsOf(n int) [][]byte {
	list := [][]byte{blobOf(n), secretOf(n)}
	if n%3 == 0 {
		list = append(list, blobOf(n/2))
	}
	return list
}

func stubOf(e contracts.Entry) []byte {
	s := contracts.Stub{Entry: e.Hash(), Session: "main", Decision: &contracts.DecisionStub{Tool: "pay"}}
	return s.Append(nil)
}

// goes reports whether a round condenses a batch. Later rounds condense more.
func goes(round, n int) bool { return n*7%5 < round%5 }

func (l *condensedLog) append(n int) error {
	l.events.add(event{Kind: eventStoring, Index: uint64(n)})
	b := proofgraph.Batch{At: uint64(2 * n), Entries: entriesOf(n), Blobs: blobsOf(n)}
	if n%4 == 0 {
		b.Checkpoint = fmt.Appendf(nil, "checkpoint %d", n)
	}
	err := l.s.Append(context.Background(), b)
	if err == nil {
		l.events.add(event{Kind: eventStored, Index: uint64(n)})
	}
	return err
}

// condense condenses the batches of a round that are below upto.
func (l *condensedLog) condense(round, upto int) error {
	what := event{Kind: eventCondensing, Index: uint64(round), ID: strconv.Itoa(upto)}
	l.events.add(what)
	err := l.s.(proofgraph.Condenser).Condense(context.Background(), func(yield func(uint64, []byte) bool) {
		for n := range upto {
			if !goes(round, n) {
				continue
			}
			for i, e := range entriesOf(n) {
				if !yield(uint64(2*n+i), stubOf(e)) {
					return
				}
			}
		}
	}, func(yield func(contracts.Digest) bool) {
		l.events.add(event{Kind: eventCondenses, Index: what.Index, ID: what.ID})
		for n := range upto {
			if goes(round, n) && !yield(crypto.Sum(blobOf(n))) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if l.during != nil {
		l.during(momentCondensed)
	}
	what.Kind = eventCondensed
	l.events.add(what)
	return nil
}

func (l *condensedLog) erase(n int) error {
	d := crypto.Sum(secretOf(n))
	l.events.add(event{Kind: eventErasing, Hash: d.String()})
	if err := l.s.EraseBlob(context.Background(), d); err != nil {
		return err
	}
	l.events.add(event{Kind: eventErased, Hash: d.String()})
	l.events.add(event{Kind: eventForgotten, Secret: fmt.Sprintf("secret of batch %d.", n)})
	return nil
}

// script is a small load with everything in it. It ends if failed returns true for an error.
func (l *condensedLog) script(failed func(error) bool) {
	n := 0
	grow := func(to int) func() error {
		return func() error {
			for ; n < to; n++ {
				if err := l.append(n); err != nil {
					return err
				}
			}
			return nil
		}
	}
	condense := func(round, upto int) func() error { return func() error { return l.condense(round, upto) } }
	erase := func(n int) func() error { return func() error { return l.erase(n) } }
	for _, do := range []func() error{
		grow(12), erase(1), condense(1, 8), erase(5), grow(16), condense(2, 16), // with the last segment
		erase(15), condense(2, 16), grow(19), condense(3, 17), erase(0), grow(21),
	} {
		if err := do(); err != nil && failed(err) {
			return
		}
	}
}
