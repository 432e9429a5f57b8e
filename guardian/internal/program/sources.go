package program

import (
	"bytes"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
)

// Bytes of the inputs that a source takes apart from its name, and each value that was found.
const (
	sourceSize = 160
	foundSize  = 67
)

// An Unread source is one that a call cannot go by.
type Unread struct{ Name, What string }

// supplies are the sources that one call asked for values.
type supplies struct {
	unread  []Unread // answered with these errors, whatever the past says
	all     []supply
	asking  string // the source that is being asked for a value
	unfound []Unfound
	text    int // visits for the texts of sources
}

// Unfound is a test that looked for a value in its sources, and did not find it.
type Unfound struct {
	Pointer string
	Sources []Source
	node    *Node
}

// A supply is a source that was asked.
type supply struct {
	*Source
	past.Supply
	found []contracts.Digest // of values; of the inputs, sorted
	what  string             // why it cannot be asked
}

func compareDigests(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) }

// source returns a source, which is asked for once.
func (r *recall) source(s *Source) *supply {
	for i := range r.all {
		if r.all[i].Name == s.Name {
			return &r.all[i]
		}
	}
	a := supply{Source: s}
	a.what = r.ask(&a)
	if a.what == "" && !r.spend(len(s.Name)+sourceSize) {
		a.what = tooMuch
	}
	r.all = append(r.all, a)
	return &r.all[len(r.all)-1]
}

func (r *recall) ask(a *supply) (what string) {
	for _, x := range r.unread {
		if x.Name == a.Name {
			return x.What
		}
	}
	if r.past == nil {
		for i := range r.told.from {
			if x := &r.told.from[i]; x.Source == a.Name {
				a.found = x.Found
				return ""
			}
		}
		return "the inputs lack the source " + a.Name
	}
	var err error
	a.Supply, err = r.past.Source(a.Ask)
	switch {
	case err == nil:
		return ""
	case a.Ask.Tool == "":
		return "the texts of the user cannot be read"
	}
	return "the facts of " + a.Ask.Tool + " cannot be read"
}

// sources returns what the inputs hold of the sources that were asked.
func (x *supplies) sources() (list []contracts.Source) {
	for i := range x.all {
		if a := &x.all[i]; a.what == "" {
			slices.SortFunc(a.found, compareDigests)
			a.found = slices.Compact(a.found)
			list = append(list, contracts.Source{Count: a.Count, Found: a.found, Source: a.Name, State: a.State})
		}
	}
	slices.SortFunc(list, func(a, b contracts.Source) int { return strings.Compare(a.Source, b.Source) })
	return list
}
