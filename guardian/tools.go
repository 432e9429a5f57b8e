package guardian

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Tool is what the stack declares of a tool, for lists that models and clients get, so that no
// second copy of a schema is kept anywhere.
type Tool struct {
	Name       string
	Effect     contracts.EffectType
	Risk       contracts.Risk
	Connector  string
	Definition contracts.Digest // that it pins; zero: none
	Sandbox    string           // first profile that its driver must meet, see [Policy.Sandboxes]; "": none
	Input      json.RawMessage  // JSON Schema of the arguments, as the bundle has it
	Output     json.RawMessage  // of the output; nil: none is pinned
	Open       []string         // JSON Pointers into the input from which down it may be anything
}

// Tools returns the tools that the stack declares, in the order of their names, those that the
// floor permits no call of included.
func (p *Policy) Tools() []Tool {
	if p == nil {
		return nil
	}
	list := make([]Tool, 0, len(p.stack.Tools))
	for i := range p.stack.Documents {
		canonical := p.stack.Documents[i].Canonical
		var tree crypto.Tree // the document was read when the stack was compiled
		if tree.Parse(canonical, crypto.Limits{Bytes: len(canonical), Depth: contracts.MaxRecordDepth}) != nil {
			continue
		}
		for it := tree.Root().Get("tools").Iter(); it.Next(); {
			t := p.stack.Tools[string(it.Key())]
			if t == nil {
				continue
			}
			x := Tool{
				Name: t.Name, Effect: t.Effect, Risk: t.Risk, Connector: t.Surface.Connector,
				Definition: t.Driver.Definition,
				Input:      it.Value().Get("input").Append(nil), Output: it.Value().Get("output").Append(nil),
				Open: slices.Clone(t.Open),
			}
			if len(t.Driver.Demands) > 0 {
				x.Sandbox = t.Driver.Demands[0].Name
			}
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return list
}
