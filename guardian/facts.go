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
