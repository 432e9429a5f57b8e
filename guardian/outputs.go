package guardian

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/guardian/threat"
)

// Facts returns the facts document of an output that is valid by the schema which the tool pins:
// the values that the tool's facts have in it, in canonical form. It returns false if the tool
// declares no facts; if it declares that there are none, the document is {}.
func (p *Policy) Facts(tool string, output crypto.Value) (document []byte, declared bool) {
	t := p.tool(tool)
	if t == nil || t.Output.Facts == nil {
		return nil, false
	}
	return t.Output.Facts.Append(nil, output), true
}

// CheckFacts reports whether a facts document may be that of an output of the tool: it has the
// facts that the tool declares, and each has values that its pointer may have.
func (p *Policy) CheckFacts(tool string, document crypto.Value) bool {
	t := p.tool(tool)
	return t != nil && t.Output.Facts != nil && t.Output.Facts.Check(document)
}

// Source returns what the policy asks of a source of values: user, or tool#fact. It returns false
// if the stack declares no such fact, or one that is a count or may not vouch.
func (p *Policy) Source(name string) (past.Source, bool) {
	if name == "user" {
		return past.Source{}, true
	}
	tool, fact, _ := strings.Cut(name, "#")
	t := p.tool(tool)
	if t == nil {
		return past.Source{}, false
	}
	f := t.Output.Facts.Named(fact)
	if f == nil || f.Count || !f.Vouches {
		return past.Source{}, false
	}
	return t.Output.Facts.Source(tool, f).Ask, true
}

// Asked returns what the tool declares of its facts if the policy asks for them as sources, and nil
// if it does not: see [past.Session.WatchFacts]. What only overlays ask for that [Policy.Narrow]
// added is left out: the session reads it at the first question.
func (p *Policy) Asked(tool string) *past.Declaration {
	t := p.tool(tool)
	if t == nil || t.Output.Facts == nil || !t.Output.Facts.Asked {
		return nil
	}
	return t.Output.Facts.Declared()
}

// Marks returns what a receipt of the tool that is EXECUTED, FAILED or INDETERMINATE, with these
// signals, brings to its session: taint, and labels, sorted. The labels must not be modified.
func (p *Policy) Marks(tool string, signals []string) (taints bool, labels []string) {
	t := p.tool(tool)
	if t == nil {
		return true, nil
	}
	labels = t.Output.Labels
	if len(signals) == 0 || t.Output.Given == nil {
		return !t.Output.Trusted, labels
	}
	var seen threat.Set
	for _, id := range signals {
		set, _ := threat.Lookup(id)
		seen |= set
	}
	for _, g := range t.Output.Given {
		if g.Signals&seen != 0 {
			labels = append(slices.Clip(labels), g.Label)
		}
	}
	if len(labels) > len(t.Output.Labels) {
		slices.Sort(labels)
		labels = slices.Compact(labels)
	}
	return !t.Output.Trusted, labels
}

// ScansOutputs reports whether the outputs of a tool are scanned for signals.
func (p *Policy) ScansOutputs(tool string) bool {
	t := p.tool(tool)
	return t != nil && t.Output.Given != nil && p.record.Engine.Threat > 0
}

// Signals returns the ids of the signals in the strings and keys of a tool's output, sorted. There
// are none if the tool's outputs are not scanned.
func (p *Policy) Signals(tool string, output crypto.Value) []string {
	if !p.ScansOutputs(tool) {
		return nil
	}
	return slices.Collect(scan(output).IDs())
}

// RawSignals is like [Policy.Signals] for an output that is not JSON.
func (p *Policy) RawSignals(tool string, output []byte) []string {
	if !p.ScansOutputs(tool) {
		return nil
	}
	return slices.Collect(threat.Scan(output).IDs())
}
