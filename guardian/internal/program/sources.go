package program

import (
	"bytes"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
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

// from answers whether a value is from a source: it asks one after the other.
func (e *Evaluator) from(n *Node, x *slot) Answer {
	if !n.More.Kinds.has(x.kind) {
		return e.fail(n, "of a type that the sources never have")
	}
	for i := range n.More.Sources {
		if i > 0 {
			e.Visits++
		}
		switch found, what := e.supplied(&n.More.Sources[i], x); {
		case what != "":
			return e.fail(n, what)
		case found:
			return Yes
		}
	}
	same := func(u Unfound) bool { return u.node == n }
	if !slices.ContainsFunc(e.unfound, same) {
		e.unfound = append(e.unfound, Unfound{e.PointerOf(n.Slot), n.More.Sources, n})
	}
	return No
}

// supplied asks one source for a value, or says why it cannot.
func (e *Evaluator) supplied(s *Source, x *slot) (found bool, what string) {
	if e.nameless() {
		return false, unnamed
	}
	e.deep = true
	a := e.source(s)
	text := (a.Bytes + 1<<10 - 1) >> 10
	e.Visits += text
	e.text += text
	switch {
	case a.what != "":
		return false, a.what
	case e.Visits > MaxVisits:
		return false, TooMany
	case e.recall.past == nil:
		_, found = slices.BinarySearchFunc(a.found, crypto.Sum(x.text), compareDigests)
	default:
		e.asking = s.Name
		found = a.Has(x.value)
		e.asking = ""
		if found {
			a.found = append(a.found, crypto.Sum(x.text))
		}
	}
	if found && !e.spend(foundSize) {
		return false, tooMuch
	}
	return found, ""
}

func compareDigests(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) }

// source returns a source, which is asked for once.
func (e *Evaluator) source(s *Source) *supply {
	for i := range e.all {
		if e.all[i].Name == s.Name {
			return &e.all[i]
		}
	}
	a := supply{Source: s}
	a.what = e.ask(&a)
	if a.what == "" && !e.spend(len(s.Name)+sourceSize) {
		a.what = tooMuch
	}
	e.all = append(e.all, a)
	return &e.all[len(e.all)-1]
}

func (e *Evaluator) ask(a *supply) (what string) {
	for _, x := range e.unread {
		if x.Name == a.Name {
			return x.What
		}
	}
	if e.recall.past == nil {
		for i := range e.state.From {
			if x := &e.state.From[i]; x.Source == a.Name {
				a.found = x.Found
				return ""
			}
		}
		return "the inputs lack the source " + a.Name
	}
	var err error
	a.Supply, err = e.recall.past.Source(a.Ask)
	switch {
	case err == nil:
		return ""
	case a.Ask.Tool == "":
		return "the texts of the user cannot be read"
	}
	return "the facts of " + a.Ask.Tool + " cannot be read"
}

// Unreadable returns the sources that a call cannot go by, if it must be judged again for them: one
// that panicked while it was asked, or those with texts if these took more visits than there are.
// Whoever judges by the inputs does not know the texts, so these sources are left out of them.
func (e *Evaluator) Unreadable() (list []Unread) {
	s := &e.supplies
	if s.asking != "" {
		list = append(list, Unread{s.asking, "a panic while judging"})
	}
	if s.text > 0 && e.Visits > MaxVisits {
		for i := range s.all {
			if s.all[i].Bytes > 0 {
				list = append(list, Unread{s.all[i].Name, TooMany})
			}
		}
	}
	if list != nil {
		list = append(list, s.unread...)
	}
	return list
}

// Leave has the call go without sources.
func (e *Evaluator) Leave(list []Unread) { e.unread, e.deep = list, true }

// Unfound appends those among the tests that did not find their value.
func (e *Evaluator) Unfound(list []Unfound, tests []Node) []Unfound {
	for i := range tests {
		for _, u := range e.unfound {
			if u.node == &tests[i] {
				list = append(list, u)
			}
		}
		list = e.Unfound(list, tests[i].Kids)
	}
	return list
}

// Full reports whether some of what a source supplied is none, since there was too much of it.
func (e *Evaluator) Full(source string) bool {
	return slices.ContainsFunc(e.all, func(a supply) bool { return a.Name == source && a.Full })
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
