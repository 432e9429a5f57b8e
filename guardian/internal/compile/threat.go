package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/threat"
	"github.com/helmkernel/helm/internal/grammar"
)

// usualGates are those of a tool of which no document says what to deny.
var usualGates = []program.Gate{{Denies: threat.High.Signals()}}

var levels = []struct {
	name string
	threat.Level
}{{"high", threat.High}, {"medium", threat.Medium}, {"low", threat.Low}, {"none", threat.None}}

// A gateReader reads the threat of a floor, or of a tool.
type gateReader struct {
	*catalog
	floor string          // the name of the floor; "": of a tool
	tools []*program.Tool // that it is about
}

// read adds to each of the tools its gate, and the labels that signals in its outputs bring.
func (x gateReader) read(p docValue) {
	if !x.object(p, grammar.Threat) {
		return
	}
	deny, except, outputs := p.get("deny"), p.get("except"), p.get("outputs")
	gate := program.Gate{Floor: x.floor}
	level := ""
	switch {
	case deny.exists():
		var ok bool
		if level, ok = x.oneOf(deny, grammar.Levels...); !ok {
			return
		}
	case except.exists():
		x.refuse(except.at, "except without deny: write the gate that it is an exception of, deny: high",
			"write deny, or remove except")
		return
	case !outputs.exists():
		x.refuse(p.at, "neither deny nor outputs", "write one of them, or remove threat")
		return
	}
	if outputs.exists() {
		x.readOutputs(outputs)
	}
	if !deny.exists() {
		return
	}
	for _, l := range levels {
		if l.name == level {
			gate.Denies = l.Signals()
		}
	}
	for _, t := range x.tools {
		t.Gates = append(slices.Clip(t.Gates), gate)
	}
	if except.exists() {
		entries, _ := x.list(except, 1, maxListed)
		for _, e := range entries {
			x.except(e, level, gate.Denies)
		}
	}
}

// except reads an exception of a gate that denies some signals, and adds it to that gate of the
// tools that it is for.
func (x gateReader) except(p docValue, level string, denies threat.Set) {
	tools, keys := x.tools, grammar.ToolExcept
	if x.floor != "" {
		keys = grammar.FloorExcept
	}
	if !x.strict(p, keys) {
		return
	}
	arg, pointed := x.need(p, "arg")
	signals, listed := x.need(p, "signals")
	if x.floor != "" {
		sel, ok := x.need(p, "tools")
		if !ok {
			return
		}
		tools = x.selected(sel, true)
	}
	if !pointed || !listed {
		return
	}
	var set threat.Set
	for _, e := range x.distinct(signals, 1) {
		id, ok := x.signal(e)
		if !ok {
			continue
		}
		if id&denies == 0 {
			what := "the gate denies " + level + ", and " + e.v.Text() + " is " + levelOf(id) + ": it never denies here"
			x.refuse(e.at, what, "remove it from except")
			continue
		}
		set |= id
	}
	for _, t := range tools {
		if t.Input == nil {
			continue
		}
		path, _, ok := (&view{reader: x.reader, t: t}).place(arg, nil, true)
		if !ok {
			continue
		}
		gate := &t.Gates[len(t.Gates)-1]
		gate.Except = append(slices.Clip(gate.Except), program.Exception{Path: path, Signals: set, At: signals.at})
	}
}

// levelOf returns the name of the level of one signal.
func levelOf(id threat.Set) string {
	for _, l := range levels {
		if l.Signals()&id != 0 {
			return l.name
		}
	}
	return "none"
}

// signal reads the id of a signal.
func (x gateReader) signal(p docValue) (threat.Set, bool) {
	set, ok := threat.Lookup(p.v.Text())
	if !ok {
		all := slices.Collect(threat.Low.Signals().IDs())
		x.refuse(p.at, "no signal "+quote(p.v.Text()), "one of "+strings.Join(all, ", "))
	}
	return set, ok
}

// readOutputs reads which labels the signals in an output bring.
func (x gateReader) readOutputs(p docValue) {
	if p.isObject() && p.v.Len() == 0 {
		x.refuse(p.at, "no label", "write LABEL: [SIGNAL, …], or remove outputs")
	}
	var given []program.Given
	x.members(p, func(label string, p docValue) {
		x.declaredName(label, p.at)
		g := program.Given{Label: label}
		for _, e := range x.distinct(p, 1) {
			set, _ := x.signal(e)
			g.Signals |= set
		}
		given = append(given, g)
	})
	for _, t := range x.tools {
		t.Output.Given = joined(t.Output.Given, given)
	}
}

// refuseLoosening refuses what a tool's own gate permits and a gate of a floor denies: it would
// change nothing.
func refuseLoosening(loaders []*loader) {
	for _, l := range loaders {
		if l.layer != bundleLayer {
			continue
		}
		for _, name := range l.catalog.names {
			t := l.catalog.tools[name]
			for i := range t.Gates {
				if t.Gates[i].Floor == "" {
					l.refuseLoosening(t, t.Gates[i].Except)
				}
			}
		}
	}
}

// refuseLoosening refuses exceptions of a tool's own gate.
func (r *reader) refuseLoosening(t *program.Tool, own []program.Exception) {
	for _, x := range own {
		for i := range t.Gates {
			g := &t.Gates[i]
			if g.Floor == "" {
				continue
			}
			for id := range g.Denied(x.Signals, x.Path).IDs() {
				what := "the floor " + g.Floor + " denies " + id + " there: only it can except"
				r.refuse(x.At, what, "ask for it in "+g.Floor)
			}
		}
	}
}

// gates keeps one copy of gates without exceptions that are the same for many tools.
type gates map[string][]program.Gate

// settle returns the gates that a tool is scanned for; nil if none denies anything.
func (x gates) settle(list []program.Gate) []program.Gate {
	if list == nil {
		return usualGates
	}
	list = slices.DeleteFunc(slices.Clone(list), func(g program.Gate) bool { return g.Denies == 0 })
	if len(list) == 0 {
		return nil
	}
	var key []byte
	for i := range list {
		if list[i].Except != nil {
			return list
		}
		key = append(strconv.AppendUint(key, uint64(list[i].Denies), 10), ' ')
	}
	if x[string(key)] == nil {
		x[string(key)] = list
	}
	return x[string(key)]
}
