package compile

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
)

// reachable is the tools of a stack of which some call can be the first: those that some call may
// be allowed of, and every call of which needs only approvals, attestations, and receipts of
// reachable tools. No call of the others can ever be allowed.
type reachable struct {
	tools map[string]*program.Tool
	known map[*program.Tool]bool
}

// refuseUnsatisfiable refuses requirements that no call can meet: those that wait for each other in
// a circle, or for a tool that is never allowed.
func refuseUnsatisfiable(tools map[string]*program.Tool, loaders []*loader) error {
	if !slices.ContainsFunc(loaders, func(l *loader) bool { return l.stated != nil }) {
		return nil
	}
	r := reachable{tools, map[*program.Tool]bool{}}
	var found []*program.Tool
	consider := func(t *program.Tool) {
		if !r.known[t] && callable(t) && r.unmet(t) == nil {
			r.known[t], found = true, append(found, t)
		}
	}
	waiting := map[*program.Tool][]*program.Tool{}
	for _, t := range r.tools {
		for _, x := range t.Requires {
			for _, n := range x.Needs {
				if e := r.earlier(n); e != nil && unconditional(x) {
					waiting[e] = append(waiting[e], t)
				}
			}
		}
		consider(t)
	}
	for len(found) > 0 {
		t := found[0]
		found = found[1:]
		for _, t := range waiting[t] {
			consider(t)
		}
	}
	for _, l := range loaders {
		for _, x := range l.stated {
			if at := slices.IndexFunc(x.tools, callable); at >= 0 && !r.satisfiable(x.Requirement) {
				why, remedy := r.circle(x.tools[at], x.Requirement)
				l.refuse(x.at, "can never be met: "+why, remedy)
				break // the first is enough
			}
		}
		if err := l.first(); err != nil {
			return err
		}
	}
	return nil
}

// callable reports whether some call of the tool may be allowed, for all that is known before it.
func callable(t *program.Tool) bool {
	always := func(x program.Rule) bool { return len(x.Tests) == 0 }
	never := func(c program.Clause) bool {
		return (c.Outside || c.Risky || slices.ContainsFunc(c.Rules, always)) && forEveryCall(c.Of)
	}
	decides := slices.IndexFunc(t.Rules, func(x program.Rule) bool { return x.Allow || always(x) })
	return t.Excluded.Reason == "" && len(t.Driver.Sandboxes) < 2 && decides >= 0 && t.Rules[decides].Allow &&
		!slices.ContainsFunc(t.Overlays, never) && !slices.ContainsFunc(t.Floors, never)
}

// forEveryCall reports whether a document is for every call of a session.
func forEveryCall(x *program.Terms) bool {
	return x.Session == "" && x.Caller == "" && x.Tenant == "" && !x.Narrows
}

// unconditional reports whether a requirement applies to every call of the tool.
func unconditional(x *program.Requirement) bool {
	return len(x.Tests) == 0 && (x.Of == nil || forEveryCall(x.Of))
}

// earlier returns the tool whose receipt is needed, if one is.
func (r reachable) earlier(n program.Need) *program.Tool {
	if n.Receipt.Op == 0 {
		return nil
	}
	return r.tools[n.Receipt.More.Prior.Tool]
}

// unmet returns a requirement of every call of the tool that cannot be met.
func (r reachable) unmet(t *program.Tool) *program.Requirement {
	for _, x := range t.Requires {
		if unconditional(x) && !r.satisfiable(x) {
			return x
		}
	}
	return nil
}

// waits reports whether a need is for the receipt of a tool that is not reachable.
func (r reachable) waits(n program.Need) bool {
	e := r.earlier(n)
	return e != nil && !r.known[e]
}

// satisfiable reports whether a requirement can be met.
func (r reachable) satisfiable(x *program.Requirement) bool {
	if x.Any {
		return slices.ContainsFunc(x.Needs, func(n program.Need) bool { return !r.waits(n) })
	}
	return !slices.ContainsFunc(x.Needs, r.waits)
}

// circle says why a requirement cannot be met: from tool to tool, until one comes again or is never
// allowed.
func (r reachable) circle(t *program.Tool, x *program.Requirement) (why, remedy string) {
	const most = 8 // the beginning of a longer one is enough to find it
	var links []string
	remedy = "need something else, or let it apply under a condition"
	for seen := map[*program.Tool]bool{}; x != nil && !seen[t]; x = r.unmet(t) {
		if len(seen) == most {
			links = append(links, "and so on")
			break
		}
		seen[t] = true
		e := r.earlier(x.Needs[slices.IndexFunc(x.Needs, r.waits)])
		links = append(links, t.Name+" needs a receipt of "+e.Name)
		if !callable(e) {
			links, remedy = append(links, "which is never allowed"), "allow "+e.Name+", or need something else"
			break
		}
		t = e
	}
	return strings.Join(links, ", "), remedy
}
