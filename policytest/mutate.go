package policytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/internal/keyed"
)

// A Mutant is a copy of the stack with one change, and what the cases made of it.
type Mutant struct {
	Document string `json:"document"`
	Line     int    `json:"line,omitempty"`
	Pointer  string `json:"pointer"`
	Kind     string `json:"kind"`
	Change   string `json:"change,omitempty"`
	Survived bool   `json:"survived"`
	Cases    int    `json:"cases"`             // that touched the unit, and were run
	Killer   string `json:"killer,omitempty"`  // the first case that failed
	Ignored  string `json:"ignored,omitempty"` // why it may survive
}

// String returns place, kind and change.
func (m Mutant) String() string {
	s := fmt.Sprintf("%s:%d %s: %s", m.Document, m.Line, m.Pointer, m.Kind)
	if m.Change != "" {
		s += ": " + m.Change
	}
	return s
}

// A change of one value of a document. Without a new value it is dropped.
type change struct {
	at, kind, says string
	unit           string // whose cases may notice it
	list           string // the name of the list that is changed, which many units refer to
	to             func(old any) (any, bool)
}

// mutants makes those of all documents, and runs each against the cases that touched its unit.
func (s *Suite) mutants(ctx context.Context, o Options, c *counter, ok map[int]bool) []Mutant {
	var list []Mutant
	var run []func() (killer string, cases int, loads bool)
	docs := s.policy.Documents()
	for at := range len(docs) + len(s.overlays) {
		var doc contracts.Document
		if at < len(docs) {
			doc = docs[at]
		} else {
			doc = s.overlays[keysOf(s.overlays)[at-len(docs)]]
		}
		for _, x := range changesOf(doc, s.policy) {
			line := explained.Position(doc.Lines, x.at).Line
			m := Mutant{Document: doc.Name, Line: line, Pointer: x.at, Kind: x.kind, Change: x.says}
			cases := c.touching(doc, x, ok)
			list = append(list, m)
			run = append(run, func() (string, int, bool) { return s.try(ctx, doc, x, cases) })
		}
	}
	type tried struct {
		killer string
		cases  int
		loads  bool
	}
	results := make([]tried, len(run))
	var wg sync.WaitGroup
	next := make(chan int)
	n := o.Parallel
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	for range min(n, len(run)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				results[i].killer, results[i].cases, results[i].loads = run[i]()
			}
		}()
	}
	for i := range run {
		next <- i
	}
	close(next)
	wg.Wait()

	var loaded []Mutant
	for i, m := range list {
		if r := results[i]; r.loads {
			m.Killer, m.Cases, m.Survived = r.killer, r.cases, r.killer == ""
			for _, x := range s.ignored {
				if x.fits(m) {
					m.Ignored, m.Survived = x.why, false
				}
			}
			loaded = append(loaded, m)
		}
	}
	return loaded
}

// fits reports whether it ignores a mutant: all of its kind there, or the one with its change.
func (x ignored) fits(m Mutant) bool {
	kind := x.mutant == m.Kind || x.mutant == m.Kind+": "+m.Change
	return kind && x.pointer == m.Document+"#"+m.Pointer
}

// idleMutants returns the ignores of mutants that fit none.
func (s *Suite) idleMutants(list []Mutant) (faults []string) {
	for _, x := range s.ignored {
		if x.mutant != "" && !slices.ContainsFunc(list, x.fits) {
			line := explained.Position(s.doc.Lines, x.at).Line
			fault := fmt.Sprintf("%s:%d: %s: ignores no mutant %q", s.doc.Name, line, x.pointer, x.mutant)
			faults = append(faults, fault)
		}
	}
	return faults
}

// touching returns the cases that passed, and whose traces touched what a change is about.
func (c *counter) touching(doc contracts.Document, x change, ok map[int]bool) (cases []int) {
	var root crypto.Value
	if x.list != "" {
		root = parsed(doc)
	}
	for i := range c.units {
		u := &c.units[i]
		if u.Document != doc.Name {
			continue
		}
		touched := u.Pointer == x.unit || strings.HasPrefix(u.Pointer, x.unit+"/")
		if x.list != "" {
			touched = u.Kind == "predicate" && refersTo(follow(root, u.Pointer), x.list)
		}
		if !touched {
			continue
		}
		for _, n := range u.Cases {
			if ok[n-1] && !slices.Contains(cases, n-1) {
				cases = append(cases, n-1)
			}
		}
	}
	slices.Sort(cases)
	return cases
}

// follow returns the value at a pointer.
func follow(v crypto.Value, pointer string) crypto.Value {
	for _, seg := range segments(pointer) {
		if v.Kind() == crypto.Array {
			i, err := strconv.Atoi(seg)
			if err != nil {
				return crypto.Value{}
			}
			v = v.At(i)
		} else {
			v = v.Get(seg)
		}
	}
	return v
}

func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	list := strings.Split(pointer[1:], "/")
	for i, s := range list {
		list[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return list
}

// refersTo reports whether a predicate looks among the members of a list.
func refersTo(p crypto.Value, list string) bool {
	for _, op := range []string{"in", "not_in"} {
		if p.Get(op).Get("list").Text() == list {
			return true
		}
	}
	return false
}

// try runs cases by a stack with a change until one fails.
func (s *Suite) try(ctx context.Context, doc contracts.Document, x change, cases []int) (
	killer string, n int, loads bool,
) {
	mutated, ok := changed(doc, x)
	if !ok {
		return "", 0, false
	}
	t, pol := *s, s.policy
	var err error
	if _, over := s.overlays[doc.Name]; over {
		t.overlays = maps.Clone(s.overlays)
		t.overlays[doc.Name] = mutated
		_, err = pol.Narrow(mutated)
	} else {
		docs := s.policy.Documents()
		for i := range docs {
			if docs[i].Name == doc.Name {
				docs[i] = mutated
			}
		}
		pol, err = guardian.Compile(docs...)
	}
	if err != nil {
		return "", 0, false
	}
	for _, i := range cases {
		n++
		if t.fails(ctx, pol, s.cases[i]) {
			return s.cases[i].name, n, true
		}
	}
	return "", n, true
}

// fails reports whether a case does not come out as it says by a policy.
func (s *Suite) fails(ctx context.Context, pol *guardian.Policy, c *scenario) bool {
	w, err := s.newWorld(pol, c)
	if err != nil {
		return true
	}
	defer w.kernel.Close()
	for i := range c.steps {
		if _, failures := w.do(ctx, &c.steps[i]); failures != nil {
			return true
		}
	}
	return false
}

// changed returns a document with a change, if it is one.
func changed(doc contracts.Document, x change) (contracts.Document, bool) {
	d := json.NewDecoder(bytes.NewReader(doc.Canonical))
	d.UseNumber()
	var root any
	if d.Decode(&root) != nil {
		return doc, false
	}
	root, ok := replaced(root, segments(x.at), x.to)
	if !ok {
		return doc, false
	}
	text, err := json.Marshal(root)
	if err != nil {
		return doc, false
	}
	var tree crypto.Tree
	if tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: contracts.MaxRecordDepth}) != nil {
		return doc, false
	}
	return contracts.Document{Name: doc.Name, Canonical: tree.Root().Append(nil)}, true
}

// replaced returns v with another value at a place, or without it.
func replaced(v any, at []string, to func(any) (any, bool)) (any, bool) {
	if len(at) == 0 {
		return to(v)
	}
	switch v := v.(type) {
	case map[string]any:
		x, ok := replaced(v[at[0]], at[1:], to)
		if !ok {
			delete(v, at[0])
		} else {
			v[at[0]] = x
		}
		return v, true
	case []any:
		i, err := strconv.Atoi(at[0])
		if err != nil || i >= len(v) {
			return nil, false
		}
		x, ok := replaced(v[i], at[1:], to)
		if !ok {
			return slices.Delete(v, i, i+1), true
		}
		v[i] = x
		return v, true
	}
	return nil, false
}

func drop(any) (any, bool) { return nil, false }

// changesOf returns those that are made of a document, in its order.
func changesOf(d contracts.Document, pol *guardian.Policy) (list []change) {
	root := parsed(d)
	add := func(x change) { list = append(list, x) }
	m := mutator{add: add}
	for it := root.Get("lists").Iter(); it.Next(); {
		for i := range it.Value().Len() {
			at := fmt.Sprintf("/lists/%s/%d", keyed.Escape(string(it.Key())), i)
			add(change{at: at, kind: "entry dropped", list: string(it.Key()), to: drop})
		}
	}
	for it := root.Get("tools").Iter(); it.Next(); {
		for i := range it.Value().Get("scope").Len() {
			at := fmt.Sprintf("/tools/%s/scope", keyed.Escape(string(it.Key())))
			entry := fmt.Sprintf("%s/%d", at, i)
			x := change{at: entry, kind: "scope dropped", unit: entry, to: drop}
			if it.Value().Get("scope").Len() == 1 {
				x.at = at // an empty list does not load
			}
			add(x)
			m.leaf(it.Value().Get("scope").At(i), entry, false)
		}
	}
	for _, key := range []string{"rules", "requires", "budgets"} {
		kind := map[string]string{"rules": "rule", "requires": "requirement", "budgets": "budget"}[key]
		for i := range root.Get(key).Len() {
			x, at := root.Get(key).At(i), fmt.Sprintf("/%s/%d", key, i)
			m.unit = at
			add(change{at: at, kind: kind + " dropped", unit: at, to: drop})
			if key == "rules" {
				add(change{at: at, kind: "allow and deny swapped", unit: at, to: swapped})
			}
			for _, condition := range []string{"when", "unless"} {
				m.predicate(x.Get(condition), at+"/"+condition)
			}
			if key == "budgets" {
				m.bound(at+"/limit", at, x.Get("limit"))
			}
			for _, of := range []string{"all", "any"} {
				for k := range x.Get(of).Len() {
					m.need(x.Get(of).At(k), fmt.Sprintf("%s/%s/%d", at, of, k))
				}
			}
		}
	}
	if only := root.Get("only"); only.Exists() {
		for _, t := range pol.Tools() {
			if !selects(only, t.Name) {
				name := t.Name
				more := func(old any) (any, bool) {
					if list, ok := old.([]any); ok {
						return append(list, name), true
					}
					return []any{old, name}, true
				}
				add(change{at: "/only", kind: "only entry added", says: name, unit: "/only", to: more})
			}
		}
	}
	return list
}

// selects reports whether a list of names and patterns has a tool.
func selects(list crypto.Value, tool string) bool {
	if list.Kind() != crypto.Array {
		prefix, pattern := strings.CutSuffix(list.Text(), "*")
		return prefix == tool && !pattern || pattern && strings.HasPrefix(tool, prefix)
	}
	for e := range list.Elements() {
		if selects(e, tool) {
			return true
		}
	}
	return false
}

func swapped(old any) (any, bool) {
	rule := old.(map[string]any)
	if x, ok := rule["allow"]; ok {
		delete(rule, "allow")
		rule["deny"] = x
	} else {
		rule["allow"] = rule["deny"]
		delete(rule, "deny")
	}
	return rule, true
}

// A mutator makes the changes of predicates.
type mutator struct {
	add  func(change)
	unit string
}

func (m *mutator) need(p crypto.Value, at string) {
	if q, ok := p.Get("approval").Get("quorum").Uint(); ok && q > 1 {
		m.add(change{at: at + "/approval/quorum", kind: "quorum less one", unit: m.unit, to: func(any) (any, bool) {
			return json.Number(strconv.FormatUint(q-1, 10)), true
		}})
	}
	if that := p.Get("that"); that.Exists() {
		m.predicate(that, at+"/that")
	}
}

// predicate goes through the predicates below one to the leaves.
func (m *mutator) predicate(p crypto.Value, at string) {
	if !p.Exists() {
		return
	}
	for _, key := range []string{"all", "any"} {
		if list := p.Get(key); list.Kind() == crypto.Array {
			for i := range list.Len() {
				m.predicate(list.At(i), fmt.Sprintf("%s/%s/%d", at, key, i))
			}
			return
		}
	}
	if not := p.Get("not"); not.Exists() {
		m.predicate(not, at+"/not")
		return
	}
	that := p.Get("that")
	if p.Get("receipt").Exists() || !that.Exists() {
		m.leaf(p, at, true)
	}
	m.predicate(that, at+"/that")
}

// leaf makes the changes of one predicate, or of an entry of scope, which has no negation.
func (m *mutator) leaf(p crypto.Value, at string, negates bool) {
	if negates {
		m.add(change{at: at, kind: "negated", unit: at, to: func(old any) (any, bool) {
			return map[string]any{"not": old}, true
		}})
	}
	for _, op := range []string{"lt", "le", "gt", "ge"} {
		m.bound(at+"/"+op, at, p.Get(op))
	}
	if a := p.Get("absent"); a.Kind() == crypto.Bool {
		turned := func(any) (any, bool) { return !a.Bool(), true }
		m.add(change{at: at + "/absent", kind: "absent turned", unit: at, to: turned})
	}
	for _, op := range []string{"in", "not_in", "within", "url", "host", "email", "cidr", "from"} {
		if list := p.Get(op); list.Kind() == crypto.Array && list.Len() > 1 {
			for i := range list.Len() {
				m.add(change{at: fmt.Sprintf("%s/%s/%d", at, op, i), kind: "entry dropped", unit: at, to: drop})
			}
		}
	}
}

// bound moves a number by one unit of its last digit, both ways.
func (m *mutator) bound(at, unit string, v crypto.Value) {
	if v.Kind() != crypto.Number {
		return
	}
	for _, by := range []int64{1, -1} {
		text, ok := moved(string(v.Raw()), by)
		if ok {
			to := func(any) (any, bool) { return json.Number(text), true }
			m.add(change{at: at, kind: "bound moved", says: string(v.Raw()) + " to " + text, unit: unit, to: to})
		}
	}
}

// moved returns a canonical number that is greater by so many units of its last digit.
func moved(text string, by int64) (string, bool) {
	whole, digits, _ := strings.Cut(text, ".")
	n, ok := new(big.Int).SetString(whole+digits, 10)
	if !ok {
		return "", false // with an exponent: a unit of it is no small step
	}
	n.Add(n, big.NewInt(by))
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(digits))), nil)
	return new(big.Rat).SetFrac(n, scale).FloatString(len(digits)), true
}
