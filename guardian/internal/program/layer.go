package program

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// A Rule of one tool. It matches a call if all tests hold.
type Rule struct {
	Name  string // layer:bundle:id
	Tests []Node
	Allow bool
	At    int32 // its place in the document

	General bool // it looks at no slot, so all tools share it
}

// Terms are what a P0 or P2 document says of every tool.
type Terms struct {
	Session, Caller, Tenant string // of the calls that it is for; "": of any
	Expiry                  Expiry
	Reason                  contracts.ReasonCode // that it denies for
	Calls                   uint64               // ALLOWs that a session may have; 0: any number

	Ceilings, Only string // rules that it denies with
	Risks, Closed  bool   // it has a ceiling of risk, or only
}

// Concern reports whether the document is for a call. A document that names a caller is for the
// calls of that caller, and for those made under a grant of that caller, first or passed on: no
// grant takes anybody out of it.
func (x *Terms) Concern(in *contracts.Inputs, grants []contracts.Delegation) bool {
	if x.Session != "" && x.Session != in.Session || x.Tenant != "" && x.Tenant != in.Caller.Tenant {
		return false
	}
	return x.Caller == "" || x.Caller == in.Caller.ID ||
		slices.ContainsFunc(grants, func(g contracts.Delegation) bool { return g.Delegator == x.Caller })
}

// A Clause is what a P0 or P2 document says of one tool. A tool of which it says nothing has none.
type Clause struct {
	Of      *Terms
	Rules   []Rule
	Risky   bool // the tool's risk is over the ceiling
	Outside bool // the tool is not among those of only
}
