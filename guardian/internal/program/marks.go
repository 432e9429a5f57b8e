package program

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// marks are what one call was told of its session's taint and labels.
type marks struct {
	answered bool // by the past
	tainted  bool
	labels   []string

	readTaint, readLabels bool
}

const noMarks = "the taint and labels of the session cannot be read"

// ask asks the past, once.
func (r *recall) readMarks() (what string) {
	m := &r.marks
	r.deep = true
	switch {
	case r.nameless():
		return unnamed
	case m.answered || r.past == nil:
		return ""
	}
	var err error
	m.tainted, m.labels, err = r.past.Marks()
	if err != nil {
		return noMarks
	}
	m.answered = true
	return ""
}

// isTainted reports whether the session is tainted, or why that cannot be known.
func (r *recall) isTainted() (is bool, what string) {
	if what = r.readMarks(); what != "" {
		return false, what
	}
	if r.past == nil {
		if r.told.tainted == nil {
			return false, "the inputs lack whether the session is tainted"
		}
		return *r.told.tainted, ""
	}
	r.marks.readTaint = true
	return r.marks.tainted, ""
}

// hasLabel reports whether the session carries a label, or why that cannot be known.
func (r *recall) hasLabel(label string) (has bool, what string) {
	if what = r.readMarks(); what != "" {
		return false, what
	}
	labels := r.marks.labels
	if r.past == nil {
		if r.told.labels == nil {
			return false, "the inputs lack the labels of the session"
		}
		labels = *r.told.labels
	}
	if !r.marks.readLabels {
		size := 0
		for _, l := range labels {
			size += len(crypto.AppendString(nil, l)) + 1
		}
		if !r.spend(size) {
			return false, tooMuch
		}
		r.marks.readLabels = true
	}
	for _, l := range labels {
		if l == label {
			return true, ""
		}
	}
	return false, ""
}

// record notes what was read.
func (m *marks) record(state *contracts.SessionState) {
	if m.readTaint {
		tainted := m.tainted
		state.Tainted = &tainted
	}
	if m.readLabels {
		labels := m.labels
		state.Labels = &labels
	}
}
