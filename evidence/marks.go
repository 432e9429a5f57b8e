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

// before returns the indexes of the entries that the next one of a session names. The decision of a
// receipt is of the same session, and so no more than what is before it there: it may be left out.
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

// fold takes in the next entry, which brings taint and labels itself. above are the indexes of the
// entries that it names.
func (m *marks) fold(l *log, c *chain, above []uint64, tainted bool, labels []string) {
	if c.name != contracts.SessionKernel && c.name != contracts.SessionRefused {
		var s past.Session
		s.Mark(&m.Marks, l.size(), above, tainted, labels)
	}
}

// A bringer is the receipt of a call of which something may have come into the session.
type bringer struct {
	policy  contracts.Digest
	tool    string
	signals []string
}

// bringerOf returns what a receipt is as one, or nil if nothing of its call came into the session.
func bringerOf(x *contracts.Receipt, call *pending) *bringer {
	if x == nil {
		return nil
	}
	switch x.Outcome {
	case contracts.Executed, contracts.Failed, contracts.Indeterminate:
		return &bringer{call.policy, x.Tool, x.Signals}
	}
	return nil
}
