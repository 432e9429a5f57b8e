package proofgraph

import (
	"errors"
	"iter"
)

// forget has the index forget a set. It goes in small steps, so that nobody waits long for the
// index.
func (l *Log) forget(set iter.Seq[uint64], below uint64) error {
	var step [256]uint64
	n, next := 0, uint64(0)
	flush := func() {
		l.indexMu.Lock()
		defer l.indexMu.Unlock()
		for _, i := range step[:n] {
			if i < l.older.size {
				l.older.forget(i)
			} else {
				l.index.Forget(i)
			}
		}
		n = 0
	}
	for i := range set {
		if i < next || i >= below {
			return errors.New("proofgraph: forget: not indexes of entries before, ascending")
		}
		next = i + 1
		step[n] = i
		if n++; n == len(step) {
			flush()
		}
	}
	flush()
	return nil
}

// Closed reports whether the session has its close at an index below size.
func (l *Log) Closed(session string, size uint64) bool {
	l.chainsMu.RLock()
	c := l.chains[session]
	l.chainsMu.RUnlock()
	if c == nil {
		return false
	}
	l.mu.Lock() // held when an entry becomes the last of its chain
	defer l.mu.Unlock()
	return c.closed && c.end < size
}
