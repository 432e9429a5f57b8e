package guardian

import (
	"github.com/helmkernel/helm/crypto"
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
