package compile

import (
	"slices"
	"strings"
	"sync"

	"github.com/helmkernel/helm/guardian/internal/program"
)

// reachable is the tools of a stack of which some call can be the first: those that some call may
// be allowed of, and every call of which needs only approvals, attestations, and receipts of
// reachable tools. No call of the others can ever be allowed.
type reachable struct {
	tools    map[string]*program.Tool
	overlays bool // what overlays say counts; it does not if sessions may have had calls under a wider stack
	known    map[*program.Tool]bool
}

// firstOf returns a function that finds the reachable tools when it is called first.
func firstOf(tools map[string]*program.Tool, overlays bool) func() *reachable {
	return sync.OnceValue(func() *reachable {
		r := &reachable{tools, overlays, map[*program.Tool]bool{}}
		r.explore()
		return r
	})
}

func (r *reachable) explore() {
	var found []*program.Tool
	consider := func(t *program.Tool) {
		if !r.known[t] && r.callable(t) && r.unmet(t) == nil {
			r.known[t], found = true, append(found, t)
		}
	}
	waiting := map[*program.Tool][]*program.Tool{}
	for _, t := range r.tools {
		for _, x := range t.Requires {
			for _, n := range x.Needs {
				if e := r.earlier(n); e != nil && r.unconditional(x) {
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
}

// refuseUnsatisfiable refuses requirements that no call can meet: those that wait for each other in
// a circle, or for a tool that is never allowed. It does not refuse one
// that the error of another tells of, nor one that waits for it: those that
// are in told, by name, or come to be.
func refuseUnsatisfiable(loaders []*loader, first func() *reachable, told map[string]bool) error {
	for _, l := range loaders {
		for _, x := range l.stated {
			if !slices.ContainsFunc(x.Needs, func(n program.Need) bool { return n.Receipt.Op != 0 }) {
				continue
			}
			r := first()
			at := slices.IndexFunc(x.tools, r.callable)
			if at < 0 || r.satisfiable(x.Requirement) {
				continue
			}
			e := r.earlier(x.Needs[slices.IndexFunc(x.Needs, r.waits)])
			if next := r.unmet(e); !told[x.Name] && (!r.callable(e) || next == nil || !told[next.Name]) {
				why, remedy := r.circle(r.tools[x.tools[at].Name], x.Requirement, told)
				l.refuse(x.at, "can never be met: "+why, remedy)
			}
			told[x.Name] = true
		}
	}
	return errorsOf(loaders)
}

// callable reports whether some call of the tool may be allowed, for all that is known before it.
func (r *reachable) callable(t *program.Tool) bool {
	always := func(x program.Rule) bool { return len(x.Tests) == 0 }
	never := func(c program.Clause) bool {
		return (c.Outside || c.Risky || slices.ContainsFunc(c.Rules, always)) && forEveryCall(c.Of)
	}
	decides := slices.IndexFunc(t.Rules, func(x program.Rule) bool { return x.Allow || always(x) })
	return t.Excluded.Reason == "" && t.Driver.Demands.Possible() && decides >= 0 && t.Rules[decides].Allow &&
		!(r.overlays && slices.ContainsFunc(t.Overlays, never)) && !slices.ContainsFunc(t.Floors, never)
}

// forEveryCall reports whether a document is for every call of a session.
func forEveryCall(x *program.Terms) bool { return x.Session == "" && x.Caller == "" && x.Tenant == "" }

// unconditional reports whether a requirement applies to every call of the tool.
func (r *reachable) unconditional(x *program.Requirement) bool {
	return len(x.Tests) == 0 && (x.Of == nil || r.overlays && forEveryCall(x.Of))
}

// earlier returns the tool whose receipt is needed, if one is.
func (r *reachable) earlier(n program.Need) *program.Tool {
	if n.Receipt.Op == 0 {
		return nil
	}
	return r.tools[n.Receipt.More.Prior.Tool]
}

// unmet returns a requirement of every call of the tool that cannot be met.
func (r *reachable) unmet(t *program.Tool) *program.Requirement {
	for _, x := range t.Requires {
		if r.unconditional(x) && !r.satisfiable(x) {
			return x
		}
	}
	return nil
}

// waits reports whether a need is for the receipt of a tool that is not reachable.
func (r *reachable) waits(n program.Need) bool {
	e := r.earlier(n)
	return e != nil && !r.known[e]
}

// satisfiable reports whether a requirement can be met.
func (r *reachable) satisfiable(x *program.Requirement) bool {
	if x.Any {
		return slices.ContainsFunc(x.Needs, func(n program.Need) bool { return !r.waits(n) })
	}
	return !slices.ContainsFunc(x.Needs, r.waits)
}

// circle says why a requirement cannot be met: from tool to tool, until one comes again or is never
// allowed. It adds the requirements on the way to told.
func (r *reachable) circle(t *program.Tool, x *program.Requirement, told map[string]bool) (why, remedy string) {
	const most = 8 // the beginning of a longer one is enough to find it
	var links []string
	remedy = "need something else, or let it apply under a condition"
	for seen := map[*program.Tool]bool{}; x != nil && !seen[t]; x = r.unmet(t) {
		if len(seen) == most {
			links = append(links, "and so on")
			break
		}
		seen[t], told[x.Name] = true, true
		e := r.earlier(x.Needs[slices.IndexFunc(x.Needs, r.waits)])
		links = append(links, t.Name+" needs a receipt of "+e.Name)
		if !r.callable(e) {
			links, remedy = append(links, "which is never allowed"), "allow "+e.Name+", or need something else"
			break
		}
		t = e
	}
	return strings.Join(links, ", "), remedy
}
