package evidence

import (
	"errors"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/condense"
	"github.com/helmkernel/helm/internal/entry"
)

// setOf computes the set of a condense entry from a log that has all entries below its size. lines
// returns lines of the log as they were when they were folded; an error is the last pair.
func setOf(
	l *log, c *contracts.Condense, policies map[contracts.Digest]uint64, terms *termReader,
	lines func(from, to uint64) iter.Seq2[contracts.Entry, error],
) (*condense.Set, error) {
	from, at := l.times.before(c.From)
	how := condense.Log{
		Gone: l.gone.has,
		Closed: func(session string, size uint64) bool {
			x := l.chains[session]
			return x != nil && x.closed && x.index < size
		},
		Policy: func(hash contracts.Digest) (uint64, bool) {
			at, ok := policies[hash]
			return at, ok
		},
		Terms: func(policy uint64) (*condense.Terms, error) {
			p, err := terms.of(policy)
			switch {
			case err != nil:
				return nil, err
			case p == nil:
				return nil, errors.New("of a policy that the log has no entry of")
			}
			return p.terms, nil
		},
		Latest: at,
	}
	var r contracts.Reader
	for b, err := range lines(from, c.From) {
		if err != nil {
			return nil, err
		}
		at, err := timeOf(&r, b)
		if err != nil {
			return nil, err
		}
		how.Latest = max(how.Latest, at)
	}
	set := condense.NewRange(c.From, c.To, c.Size, c.Until, how)
	for b, err := range lines(c.From, c.To) {
		if err == nil {
			err = set.Add(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return set.Set(), nil
}

// timeOf returns the time of a line.
func timeOf(r *contracts.Reader, b contracts.Entry) (contracts.Time, error) {
	if contracts.IsStub(b) {
		s, err := r.Stub(b)
		if err != nil {
			return 0, err
		}
		return s.Time, nil
	}
	st, err := entry.Open(r, b)
	if err != nil {
		return 0, err
	}
	return st.Time, nil
}

// letGo notes the members of a set. It returns how many of them are stubs.
func (l *log) letGo(set *condense.Set) (stubs uint64) {
	i := -1
	for at := range set.Members() {
		l.gone.set(at)
		if i < 0 {
			i, _ = l.findStub(at)
		}
		for ; i < len(l.stubs) && uint64(l.stubs[i].index) <= at; i++ {
			if uint64(l.stubs[i].index) == at {
				stubs++
			}
		}
	}
	return stubs
}
