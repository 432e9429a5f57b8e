package program

import (
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/threat"
)

// A Gate denies calls that have threat signals in their arguments.
type Gate struct {
	Floor  string // the document that it is of; "" if it is the tool's own
	Denies threat.Set
	Except []Exception
}

// An Exception is signals that a gate permits in a value, and in all below it.
type Exception struct {
	Path    []string // may have stars
	Signals threat.Set
	At      string // where the document has the signals
}

// A Given is a label that an output with one of some signals brings to its session.
type Given struct {
	Label   string
	Signals threat.Set
}

// Denied returns those of the signals at a place that the gate denies.
func (g *Gate) Denied(seen threat.Set, at []string) threat.Set {
	seen &= g.Denies
	for i := range g.Except {
		if x := &g.Except[i]; seen&x.Signals != 0 && covers(x.Path, at) {
			seen &^= x.Signals
		}
	}
	return seen
}

// covers reports whether a place is that of a pointer, or below it. The place may have stars, too.
func covers(path, at []string) bool {
	if len(path) > len(at) {
		return false
	}
	for i, seg := range path {
		if seg != value.Star && seg != at[i] {
			return false
		}
	}
	return true
}
