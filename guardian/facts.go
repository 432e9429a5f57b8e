package guardian

import (
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
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
