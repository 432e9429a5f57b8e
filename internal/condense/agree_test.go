package condense_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/condense"
	"github.com/helmkernel/helm/internal/race"
)

// A span is what a condense entry says of its range.
type span struct {
	from, to, size uint64
	until          contracts.Time
}

// ledger is the log as the second implementation reads it, with some lines in the place of others.
func (j *journal) ledger(lines []contracts.Entry) *ledger {
	l := &ledger{gone: j.gone, said: j.said, documents: map[string][]byte{}}
	for d, text := range j.documents {
		l.documents[d.String()] = text
	}
	for _, line := range lines {
		if _, ok := j.read[string(line)]; !ok {
			j.read[string(line)] = read(j.t, line)
		}
		l.records = append(l.records, j.read[string(line)])
	}
	return l
}

// log is what a range asks of the journal.
func (j *journal) log(from uint64) condense.Log {
	l := condense.Log{
		Gone: func(index uint64) bool {
			return slices.ContainsFunc(j.gone, func(set map[uint64]bool) bool { return set[index] })
		},
		Closed: func(session string, size uint64) bool {
			c := j.chains[session]
			return c.closed && c.end < size
		},
		Policy: func(hash contracts.Digest) (uint64, bool) {
			i := slices.IndexFunc(j.policies, func(p policy) bool { return p.Policy == hash })
			if i < 0 {
				return 0, false
			}
			return j.policies[i].index, true
		},
		Terms: func(index uint64) (*condense.Terms, error) {
			i := slices.IndexFunc(j.policies, func(p policy) bool { return p.index == index })
			if i < 0 {
				return nil, errors.New("not a policy entry")
			}
			var documents []condense.Document
			for _, d := range j.policies[i].Documents {
				documents = append(documents, condense.Document{Layer: d.Layer, Canonical: j.documents[d.Digest]})
			}
			return condense.ReadTerms(documents), nil
		},
	}
	for _, at := range j.times[:from] {
		l.Latest = max(l.Latest, at)
	}
	return l
}

// set computes the set of a range.
func (j *journal) set(s span, lines []contracts.Entry) *condense.Set {
	r := condense.NewRange(s.from, s.to, s.size, s.until, j.log(s.from))
	for _, line := range lines[s.from:s.to] {
		assert.Nil(j.t, r.Set(), "before the last line")
		require.NoError(j.t, r.Add(line))
	}
	return r.Set()
}

// agree compares a set with that of the second implementation. whole are the entries themselves.
func (j *journal) agree(s span, lines []contracts.Entry, w wanted, what string) {
	got := j.set(s, lines)
	require.NotNil(j.t, got)
	about := fmt.Sprintf("%s of %+v", what, s)
	require.Equal(j.t, w.members, slices.Collect(got.Members()), about)
	require.Equal(j.t, uint64(len(w.members)), got.Dropped, about)
	require.Equal(j.t, w.stubs, got.Stubs.String(), about)
}

// span returns a random range of the log so far, mostly a long one.
func (j *journal) span() span {
	n := uint64(len(j.lines))
	s := span{from: j.Uint64N(n), size: n - j.Uint64N(4)}
	if j.one(2) {
		s.from = 0
	}
	s.size = max(s.size, s.from+1)
	s.to = s.from + 1 + j.Uint64N(s.size-s.from)
	if j.one(2) {
		s.to = s.size
	}
	s.until = j.clock - contracts.Time(j.Int64N(int64(j.clock-start)+1))
	if !j.one(4) {
		s.until = j.clock
	}
	return s
}

// some returns the lines with stubs in the place of some that are in the sets so far, in w, or, if
// all is true, that can have a stub at all.
func (j *journal) some(l *ledger, w wanted, all bool) []contracts.Entry {
	lines := slices.Clone(j.lines)
	for i := range lines {
		index := uint64(i)
		in := all || slices.Contains(w.members, index) || slices.ContainsFunc(j.gone, func(set map[uint64]bool) bool { return set[index] })
		if !in || j.one(2) {
			continue
		}
		_, _, paired := l.pair(i)
		x := l.records[i]
		outcome := x.body["outcome"]
		if paired && (x.kind == "decision" || outcome == "EXECUTED" || outcome == "FAILED") {
			lines[i] = l.stubOf(i)
		}
	}
	return lines
}

// tally is what the test has met.
type tally struct {
	sync.Mutex
	sets, empty, members, mixed, overlaps int
	kept                                  map[string]int
}

// check compares the sets of one range: over entries, with stubs of sets, and with stubs of entries
// that are in no set, as a forger may write them.
func (j *journal) check(n *tally) (span, wanted) {
	s, l := j.span(), j.ledger(j.lines)
	kept := map[string]int{}
	w := l.set(int(s.from), int(s.to), int(s.size), s.until.Time(), kept)
	j.agree(s, j.lines, w, "the set")
	mixed := j.some(l, w, false)
	again := j.ledger(mixed).set(int(s.from), int(s.to), int(s.size), s.until.Time(), map[string]int{})
	require.Equal(j.t, w, again, "with stubs of its own, %+v", s)
	j.agree(s, mixed, w, "with stubs, the set")
	forged := j.some(l, w, true)
	j.agree(s, forged, j.ledger(forged).set(int(s.from), int(s.to), int(s.size), s.until.Time(), map[string]int{}), "forged, the set")

	n.Lock()
	defer n.Unlock()
	for what, times := range kept {
		n.kept[what] += times
	}
	if n.sets++; len(w.members) == 0 {
		n.empty++
	}
	n.members += len(w.members)
	for _, i := range w.members {
		if contracts.IsStub(mixed[i]) {
			n.mixed++
		}
	}
	return s, w
}

// condense writes a condense entry, if the set of a random range has members enough.
func (j *journal) condense(n *tally) {
	s, w := j.check(n)
	if len(w.members) == 0 || s.to-s.from > 64*uint64(len(w.members)) {
		return
	}
	set := map[uint64]bool{}
	for _, i := range w.members {
		set[i] = true
	}
	got := j.set(s, j.lines)
	kernel := j.chains[contracts.SessionKernel]
	kernel.at = max(kernel.at, s.until)
	j.append("", &contracts.Statement{Condense: &contracts.Condense{Dropped: got.Dropped, From: s.from, Size: s.size,
		Stubs: got.Stubs, To: s.to, Until: s.until}})
	j.gone = append(j.gone, set)
}

// The set is that of the rules, whichever of its members are stubs.
func TestSetsAgree(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	logs := 1000
	if testing.Short() {
		logs = 200
	}
	n := tally{kept: map[string]int{}}
	t.Run("logs", func(t *testing.T) {
		const groups = 4
		for group := range groups {
			t.Run(fmt.Sprint(group), func(t *testing.T) {
				t.Parallel()
				for seed := group; seed < logs; seed += groups {
					n.journal(newJournal(t, uint64(seed)))
				}
			})
		}
	})
	t.Logf("%d sets, %d of them empty, of %d members, %d of them given as stubs; %d logs with two condense entries or more",
		n.sets, n.empty, n.members, n.mixed, n.overlaps)
	assert.GreaterOrEqual(t, n.sets-n.empty, logs)
	assert.GreaterOrEqual(t, n.members, 5*logs)
	assert.GreaterOrEqual(t, n.mixed, 2*logs)
	assert.GreaterOrEqual(t, n.overlaps, logs/8)
	for _, what := range []string{
		"gone before", "1: no pair", "1: decision below the range", "1: receipt above the range", "1: outcome", "1: reason",
		"2: key of main", "2: last of main", "2: open", "3: approvals", "3: signals", "3: signals of the receipt",
		"4: not declared", "4: no terms", "4: risk", "4: age", "4: dated back",
	} {
		t.Logf("%-28s kept %d alone", what, n.kept[what])
		assert.GreaterOrEqual(t, n.kept[what], logs/20, what)
		delete(n.kept, what)
	}
	assert.Empty(t, n.kept, "causes that the test does not know")
}

// journal fills a journal, and compares the sets of ranges meanwhile.
func (n *tally) journal(j *journal) {
	for range 60 + j.IntN(60) {
		j.step()
		if len(j.lines) > 30 && j.one(20) {
			j.condense(n)
		}
	}
	j.check(n)
	if len(j.gone) > 1 {
		n.Lock()
		n.overlaps++
		n.Unlock()
	}
}
