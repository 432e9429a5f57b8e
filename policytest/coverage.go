package policytest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/internal/keyed"
)

// Coverage is what cases made of the units of the documents.
type Coverage struct {
	Units []Unit `json:"units"`
}

// A Unit is one thing of a document that can be true or false.
type Unit struct {
	Document string `json:"document"`
	Line     int    `json:"line,omitempty"`
	Pointer  string `json:"pointer"`
	Kind     string `json:"kind"`
	True     int    `json:"true"`
	False    int    `json:"false"`
	Error    int    `json:"error"`
	Cases    []int  `json:"cases,omitempty"`   // numbers in the file from 1 on, of rows by themselves
	Always   bool   `json:"always,omitempty"`  // it has no condition, so it is covered when it is reached
	Ignored  string `json:"ignored,omitempty"` // why it does not count
}

// Covered reports whether some call had the unit true and some had it false. An error is neither.
func (u *Unit) Covered() bool { return u.True > 0 && (u.False > 0 || u.Always) }

// Lacks says what a unit that is not covered never was.
func (u *Unit) Lacks() string {
	switch {
	case u.Covered():
		return ""
	case u.True == 0 && u.False == 0:
		return "never reached"
	case u.True == 0:
		return "never true"
	}
	return "never false"
}

// count returns how many units count, and how many of them are covered.
func (c *Coverage) count() (covered, of int) {
	for i := range c.Units {
		if u := &c.Units[i]; u.Ignored == "" {
			of++
			if u.Covered() {
				covered++
			}
		}
	}
	return covered, of
}

// Percent returns how much of what counts is covered; 100 if nothing counts.
func (c *Coverage) Percent() float64 {
	covered, of := c.count()
	if of == 0 {
		return 100
	}
	return 100 * float64(covered) / float64(of)
}

// String lists what is not covered, and says how much is.
func (c Coverage) String() string {
	var b strings.Builder
	for i := range c.Units {
		u := &c.Units[i]
		if lacks := u.Lacks(); lacks != "" && u.Ignored == "" {
			fmt.Fprintf(&b, "%s:%d %s %s: %s\n", u.Document, u.Line, u.Kind, u.Pointer, lacks)
		}
	}
	covered, of := c.count()
	fmt.Fprintf(&b, "covered %d of %d (%.1f %%)\n", covered, of, c.Percent())
	return b.String()
}

// A counter counts what traces say of the units.
type counter struct {
	s     *Suite
	units []Unit
	at    map[place]int
	used  []bool // of the ignores
}

type place struct{ document, pointer string }

func newCounter(s *Suite) *counter {
	c := &counter{s: s, at: map[place]int{}, used: make([]bool, len(s.ignored))}
	docs := s.policy.Documents()
	for _, name := range keysOf(s.overlays) {
		docs = append(docs, s.overlays[name])
	}
	for _, d := range docs {
		c.document(d)
	}
	for i := range c.units {
		u := &c.units[i]
		for k, x := range s.ignored {
			if x.mutant == "" && x.pointer == u.Document+"#"+u.Pointer {
				u.Ignored, c.used[k] = x.why, true
			}
		}
	}
	return c
}

// document finds the units of a document.
func (c *counter) document(d contracts.Document) {
	root := parsed(d)
	add := func(pointer, kind string, always bool) {
		c.at[place{d.Name, pointer}] = len(c.units)
		line := explained.Position(d.Lines, pointer).Line
		c.units = append(c.units, Unit{Document: d.Name, Line: line, Pointer: pointer, Kind: kind, Always: always})
	}
	for _, key := range []string{"args", "depth", "calls", "risk"} {
		if root.Get("ceilings").Get(key).Exists() {
			add("/ceilings/"+key, "ceiling", false)
		}
	}
	for _, key := range []string{"only", "expires"} {
		if root.Get(key).Exists() {
			add("/"+key, key, false)
		}
	}
	for it := root.Get("tools").Iter(); it.Next(); {
		at := "/tools/" + keyed.Escape(string(it.Key()))
		add(at, "tool", false)
		for i := range it.Value().Get("scope").Len() {
			add(fmt.Sprintf("%s/scope/%d", at, i), "scope", false)
		}
	}
	for _, list := range []struct{ key, kind string }{
		{"rules", "rule"}, {"requires", "requirement"}, {"budgets", "budget"},
	} {
		for i := range root.Get(list.key).Len() {
			x, at := root.Get(list.key).At(i), fmt.Sprintf("/%s/%d", list.key, i)
			conditional := x.Get("when").Exists() || x.Get("unless").Exists()
			add(at, list.kind, list.kind == "rule" && !conditional)
			for _, key := range []string{"when", "unless"} {
				leaves(x.Get(key), at+"/"+key, add)
			}
			for _, key := range []string{"all", "any"} {
				for k := range x.Get(key).Len() {
					need := x.Get(key).At(k)
					leaves(need.Get("that"), fmt.Sprintf("%s/%s/%d/that", at, key, k), add)
				}
			}
		}
	}
}

// leaves finds the leaf predicates below one: those that have no other below them, and receipts.
func leaves(p crypto.Value, at string, add func(pointer, kind string, always bool)) {
	if !p.Exists() {
		return
	}
	for _, key := range []string{"all", "any"} {
		if list := p.Get(key); list.Kind() == crypto.Array {
			for i := range list.Len() {
				leaves(list.At(i), fmt.Sprintf("%s/%s/%d", at, key, i), add)
			}
			return
		}
	}
	if not := p.Get("not"); not.Exists() {
		leaves(not, at+"/not", add)
		return
	}
	if p.Get("receipt").Exists() || !p.Get("that").Exists() {
		add(at, "predicate", false)
	}
	leaves(p.Get("that"), at+"/that", add)
}

// add counts what one case left.
func (c *counter) add(number int, m marks) {
	count := func(at place, result guardian.Result) {
		i, ok := c.at[at]
		if !ok {
			return
		}
		u := &c.units[i]
		switch result {
		case guardian.True:
			u.True++
		case guardian.False:
			u.False++
		default:
			u.Error++
		}
		if n := len(u.Cases); n == 0 || u.Cases[n-1] != number+1 {
			u.Cases = append(u.Cases, number+1)
		}
	}
	for i, trace := range m.traces {
		for k := range trace {
			count(place{trace[k].Document, trace[k].Pointer}, trace[k].Result)
		}
		result := guardian.False
		if m.tools[i].verdict == contracts.Allow {
			result = guardian.True
		}
		for k := range c.units {
			if u := &c.units[k]; u.Kind == "tool" && u.Pointer == "/tools/"+keyed.Escape(m.tools[i].tool) {
				count(place{u.Document, u.Pointer}, result)
			}
		}
	}
}

func (c *counter) coverage() Coverage { return Coverage{Units: slices.Clone(c.units)} }

// idle returns the ignores of units that fit nothing.
func (c *counter) idle() (faults []string) {
	for k, x := range c.s.ignored {
		if x.mutant == "" && !c.used[k] {
			line := explained.Position(c.s.doc.Lines, x.at).Line
			fault := fmt.Sprintf("%s:%d: %s: ignores no unit of the documents", c.s.doc.Name, line, x.pointer)
			faults = append(faults, fault)
		}
	}
	return faults
}
