package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A condensedAudit compares a log with what was recorded of the load.
type condensedAudit struct {
	events       []event
	spans        map[int]span
	batches      int             // that the log has
	stubs, whole int             // of entries
	kept, gone   int             // of blobs
	rounds       map[[2]int]bool // begun: number of a round and of batches
	wrong        []string
}

func (a *condensedAudit) errorf(format string, args ...any) {
	if len(a.wrong) < 20 {
		a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
	}
}

// A span is the time of one call: the numbers of the events before it, in it, and when it was
// acknowledged; 0: there is none.
type span struct{ began, in, ended int }

// spans returns the calls that events are of, by the event with which each began.
func spans(events []event) map[int]span {
	began := map[string]string{
		eventStored: eventStoring, eventErased: eventErasing, eventCondensed: eventCondensing, eventCondenses: eventCondensing,
	}
	key := func(kind string, n event) string { return fmt.Sprint(kind, " ", n.Index, " ", n.ID, " ", n.Hash) }
	all, last := map[int]span{}, map[string]int{}
	for i, n := range events {
		if kind, ok := began[n.Kind]; ok {
			call := all[last[key(kind, n)]]
			if n.Kind == eventCondenses {
				call.in = i + 1
			} else {
				call.ended = i + 1
			}
			all[last[key(kind, n)]] = call
		} else {
			all[i], last[key(n.Kind, n)] = span{began: i + 1}, i
		}
	}
	return all
}

// A blobName names a blob: that of a batch, or its secret.
type blobName struct {
	batch  int
	secret bool
}

func (b blobName) bytes() []byte {
	if b.secret {
		return secretOf(b.batch)
	}
	return blobOf(b.batch)
}

// of returns the calls that append a blob, and those that forget or erase it.
func (a *condensedAudit) of(b blobName) (puts, forgets []span) {
	d := crypto.Sum(b.bytes()).String()
	for i, n := range a.events {
		switch n.Kind {
		case eventStoring:
			if k := int(n.Index); k == b.batch || !b.secret && k%3 == 0 && k/2 == b.batch {
				puts = append(puts, a.spans[i])
			}
		case eventCondensing:
			if upto, _ := strconv.Atoi(n.ID); !b.secret && b.batch < upto && goes(int(n.Index), b.batch) {
				forgets = append(forgets, a.spans[i])
			}
		case eventErasing:
			if n.Hash == d {
				forgets = append(forgets, a.spans[i])
			}
		}
	}
	return puts, forgets
}

// inspect reads everything.
func (a *condensedAudit) inspect(s proofgraph.Store) {
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil || size%2 != 0 {
		a.errorf("%d entries: %v", size, err)
		return
	}
	a.batches, a.rounds, a.spans = int(size/2), map[[2]int]bool{}, spans(a.events)
	acknowledged := map[[2]int]bool{}
	note := -1
	for _, n := range a.events {
		switch n.Kind {
		case eventStored:
			if int(n.Index) >= a.batches {
				a.errorf("batch %d was acknowledged, and there are %d", n.Index, a.batches)
			}
			if n.Index%4 == 0 {
				note = int(n.Index)
			}
		case eventCondensing, eventCondensed:
			upto, _ := strconv.Atoi(n.ID)
			what := [2]int{int(n.Index), upto}
			a.rounds[what] = true
			acknowledged[what] = acknowledged[what] || n.Kind == eventCondensed
		}
	}
	condensed := func(rounds map[[2]int]bool, n int) bool {
		for x, yes := range rounds {
			if yes && n < x[1] && goes(x[0], n) {
				return true
			}
		}
		return false
	}
	i := 0
	for e, err := range s.Entries(ctx, 0, size) {
		if err != nil {
			a.errorf("entry %d: %v", i, err)
			return
		}
		want := entriesOf(i / 2)[i%2]
		switch {
		case bytes.Equal(e, want):
			a.whole++
			if condensed(acknowledged, i/2) {
				a.errorf("entry %d was condensed, and is there again", i)
			}
		case bytes.Equal(e, stubOf(want)):
			a.stubs++
			if !condensed(a.rounds, i/2) {
				a.errorf("entry %d is a stub, and nobody condensed it", i)
			}
		default:
			a.errorf("entry %d is neither itself nor its stub: %q", i, e)
		}
		i++
	}
	for n := range a.batches {
		a.blob(s, blobName{n, false})
		a.blob(s, blobName{n, true})
	}
	if c, err := s.Checkpoint(ctx); err != nil || note >= 0 && !strings.HasPrefix(string(c), "checkpoint ") {
		a.errorf("the checkpoint is %q, and that of batch %d was acknowledged: %v", c, note, err)
	} else if got, _ := strconv.Atoi(strings.TrimPrefix(string(c), "checkpoint ")); got < note {
		a.errorf("the checkpoint is of batch %d, and that of batch %d was acknowledged", got, note)
	}
}

// blob looks for a blob. It must be there if an append of it was acknowledged that began when each
// call that forgets it had begun, and it must not be if a call that forgets it was acknowledged
// that began when each append of it had ended.
func (a *condensedAudit) blob(s proofgraph.Store, name blobName) {
	blob := name.bytes()
	puts, forgets := a.of(name)
	there, not := false, false
	for _, p := range puts {
		later := p.ended != 0
		for _, f := range forgets {
			later = later && (f.ended != 0 && f.ended < p.began || f.in != 0 && f.in < p.began)
		}
		there = there || later
	}
	for _, f := range forgets {
		later := f.ended != 0
		for _, p := range puts {
			later = later && p.ended != 0 && p.ended < f.began
		}
		not = not || later
	}
	b, err := s.Blob(context.Background(), crypto.Sum(blob))
	switch {
	case err == nil && !bytes.Equal(b, blob), err != nil && !errors.Is(err, proofgraph.ErrNoBlob):
		a.errorf("%.20q is %d bytes: %v", blob, len(b), err)
	case err != nil && there:
		a.errorf("%.20q is not there", blob)
	case err == nil && not:
		a.errorf("%.20q is there again", blob)
	case err == nil:
		a.kept++
	default:
		a.gone++
	}
}

// open opens a directory, inspects the log, and lets the load go on: what was begun is ended, and
// more is appended. Then all of it is inspected again.
func (a *condensedAudit) open(d disk.Disk, dir string, z Sizes, recorded recorder) {
	secrets := &audit{events: a.events}
	secrets.search(d, dir)
	s, err := Open(d, dir, z)
	if err != nil {
		a.errorf("%v", err)
		return
	}
	secrets.search(d, dir)
	a.wrong = append(a.wrong, secrets.wrong...)
	a.inspect(s)
	l := &condensedLog{s: s, events: recorded}
	byRound := func(x, y [2]int) int { return slices.Compare(x[:], y[:]) }
	for _, x := range slices.SortedFunc(maps.Keys(a.rounds), byRound) {
		if err := l.condense(x[0], min(x[1], a.batches)); err != nil {
			a.errorf("condensing again: %v", err)
		}
	}
	for n := a.batches; n < a.batches+2; n++ {
		if err := l.append(n); err != nil {
			a.errorf("appending again: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		a.errorf("%v", err)
	}
}
