package guardian

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// Terms are what a P0 or P2 document says of every tool.
type terms struct {
	session, caller, tenant string         // of the calls that it is for; "": of any
	expires                 contracts.Time // 0: never
	reason                  contracts.ReasonCode
	calls                   uint64 // ALLOWs that a session may have; 0: any number
	narrows                 bool   // it was put over a stack, under which its sessions may have had other calls

	ceilings, only, expired string // rules that it denies with
}

// concern tells whether a document is for a call. The others it does not touch. One that is for the caller, or for whoever made one of the
// grants, is for the call: no grant takes anybody out of it, nor does passing it on.
func (x *terms) concern(in *contracts.Inputs, grants []contracts.Delegation) bool {
	return (x.session == "" || x.session == in.Session) && (x.tenant == "" || x.tenant == in.Caller.Tenant) &&
		(x.caller == "" || x.caller == in.Caller.ID || slices.ContainsFunc(grants, func(g contracts.Delegation) bool { return g.Delegator == x.caller }))
}

// everyone tells whether a document is for every call of a session.
func (x *terms) everyone() bool {
	return x.session == "" && x.caller == "" && x.tenant == "" && !x.narrows
}

// A clause is what a P0 or P2 document says of one tool. Tools of which it says nothing have none, so a document costs nothing there.
type clause struct {
	of      *terms
	rules   []rule
	risky   bool // the tool's risk is over the ceiling
	outside bool // the tool is not among those of only
}

// Sharing keeps one copy of clauses that are the same for many tools, as those of a floor mostly are: what is judged at every call then
// stays in the processor's caches, however many tools there are.
type sharing map[shared][]clause

// What is shared is told by its documents and rules, and by the shape of the tools where a rule looks at a value of the call.
type shared struct {
	shape *shape
	text  string
}

func (s sharing) clauses(of *shape, list []clause) []clause {
	var key shared
	var text []byte
	for i := range list {
		c := &list[i]
		text = append(append(text, c.of.only...), flag(c.risky), flag(c.outside))
		for i := range c.rules {
			x := &c.rules[i]
			if !x.general {
				key.shape = of
			}
			text = append(append(text, ' '), x.name...)
		}
		text = append(text, '\n')
	}
	if len(list) == 0 {
		return nil
	}
	key.text = string(text)
	if s[key] == nil {
		s[key] = list
	}
	return s[key]
}

func flag(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

// clause gives the document's own of a tool, a new one if need be.
func (l *loader) clause(t *tool) *clause {
	list := &t.overlays
	if l.layer == floorLayer {
		list = &t.floors
	}
	if n := len(*list); n == 0 || (*list)[n-1].of != l.terms {
		*list = append(*list, clause{of: l.terms})
	}
	return &(*list)[len(*list)-1]
}

func (l *loader) readTerms() *terms {
	x := &terms{
		expires: l.expires, reason: contracts.ReasonPolicyViolation, narrows: l.narrows,
		ceilings: l.prefix + "ceilings", only: l.prefix + "only", expired: l.prefix + "expires",
	}
	if l.layer == floorLayer {
		x.reason = contracts.ReasonCeilingViolation
	}
	p := l.root.get("for")
	keys := []string{"session", "caller", "tenant"}
	if l.layer != overlayLayer || !p.there() || !l.object(p, keys, nil) {
		return x
	}
	if p.v.Len() == 0 {
		l.refuse(p.at, "for nobody", "write one of session, caller, tenant; or remove it, for every call")
	}
	words := func(s string) bool { return contracts.IsWords(s, contracts.MaxCallerID) }
	x.session = l.maybe(p.get("session"), contracts.IsSession, "a name of a session")
	x.caller = l.maybe(p.get("caller"), words, "1 to 256 bytes without control characters")
	x.tenant = l.maybe(p.get("tenant"), words, "1 to 256 bytes without control characters")
	return x
}

// maybe is a word that may be left out.
func (l *loader) maybe(p part, is func(string) bool, form string) string {
	if !p.there() {
		return ""
	}
	s, _ := l.word(p, is, form)
	return s
}

// readOnly bars every tool that is not named.
func (l *loader) readOnly(p part) {
	named := map[*tool]bool{}
	for _, t := range l.selected(p, false) {
		named[t] = true
	}
	for _, name := range l.names {
		if t := l.tools[name]; !named[t] {
			l.clause(t).outside = true
		}
	}
}
