package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
)

// A marker says what receipts of tools bring to their sessions: a policy, or what documents say
// that were for another engine.
type marker interface {
	Marks(tool string, signals []string) (tainted bool, labels []string)
}

// marks are what the entries of a log make of their sessions, by what some documents say.
type marks struct {
	past.Marks
	above []uint64 // entries that the next one names
}

// before returns the indexes of the entries that the next one of a session names.
func (m *marks) before(l *log, c *chain, parents []contracts.Digest) []uint64 {
	m.above = m.above[:0]
	if c.count > 0 {
		m.above = append(m.above, c.index)
	}
	for _, p := range parents {
		if at, _, ok := l.index.Lookup(p); ok { // GRAPH has found it
			m.above = append(m.above, at)
		}
	}
	return m.above
}

// told returns whether the session of the next entry is tainted, and its labels: by the entries
// before it, and by its parents.
func (m *marks) told(l *log, c *chain, parents []contracts.Digest) (tainted bool, labels []string) {
	var s past.Session // of no entries but those that are named
	return m.Read(s.Marks(&m.Marks, m.before(l, c, parents)))
}

// fold takes in the next entry, which brings taint and labels itself.
func (m *marks) fold(l *log, st *contracts.Statement, c *chain, tainted bool, labels []string) {
	if st.Session != contracts.SessionKernel && st.Session != contracts.SessionRefused {
		var s past.Session
		s.Mark(&m.Marks, l.size(), m.before(l, c, st.Parents), tainted, labels)
	}
}

// released reports whether something of a tool may have come into the session.
func released(x *contracts.Receipt) bool {
	return x != nil && (x.Outcome == contracts.Executed || x.Outcome == contracts.Failed ||
		x.Outcome == contracts.Indeterminate)
}
