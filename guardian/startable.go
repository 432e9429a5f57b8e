package guardian

import (
	"slices"
	"strings"
)

// Whether the requirements of a stack can ever be met. A tool can start if it is callable and all that each of its calls needs are receipts
// of tools that can start, approvals and attestations. Whatever needs the receipt of another waits for ever.

type startable map[*tool]bool

// meetable refuses requirements that no call can meet: those that wait for each other in a circle, or for a tool that is never allowed.
func (p *Policy) meetable(loaders []*loader) error {
	if !slices.ContainsFunc(loaders, func(l *loader) bool { return l.stated != nil }) {
		return nil
	}
	start := p.startable()
	for _, l := range loaders {
		for _, x := range l.stated {
			if at := slices.IndexFunc(x.tools, (*tool).callable); at >= 0 && !start.meet(x.requirement) {
				why, remedy := start.circle(x.tools[at], x.requirement)
				l.refuse(x.at, "can never be met: "+why, remedy)
				break // one is enough, and the first
			}
		}
		if err := l.first(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) startable() startable {
	start := startable{}
	var begun []*tool
	consider := func(t *tool) {
		if !start[t] && t.callable() && start.waits(t) == nil {
			start[t], begun = true, append(begun, t)
		}
	}
	waiting := map[*tool][]*tool{}
	for _, t := range p.tools {
		for _, x := range t.requires {
			for _, n := range x.needs {
				if e := n.earlier(); e != nil && x.always() {
					waiting[e] = append(waiting[e], t)
				}
			}
		}
		consider(t)
	}
	for len(begun) > 0 {
		t := begun[0]
		begun = begun[1:]
		for _, t := range waiting[t] {
			consider(t)
		}
	}
	return start
}

// callable tells whether some call of the tool may be allowed, for all that is known before it.
func (t *tool) callable() bool {
	always := func(x rule) bool { return len(x.tests) == 0 }
	never := func(c clause) bool {
		return (c.outside || c.risky || slices.ContainsFunc(c.rules, always)) && c.of.everyone()
	}
	decides := slices.IndexFunc(t.rules, func(x rule) bool { return x.allow || always(x) })
	return t.barred == "" && len(t.sandboxes) < 2 && decides >= 0 && t.rules[decides].allow &&
		!slices.ContainsFunc(t.overlays, never) && !slices.ContainsFunc(t.floors, never)
}

// always tells whether a requirement applies to every call of the tool.
func (x *requirement) always() bool { return len(x.tests) == 0 && (x.of == nil || x.of.everyone()) }

// earlier is the tool whose receipt is needed, if one is.
func (n *need) earlier() *tool {
	if n.receipt.op == 0 {
		return nil
	}
	return n.receipt.more.prior.of
}

// waits gives a requirement of every call of the tool that cannot be met.
func (start startable) waits(t *tool) *requirement {
	for _, x := range t.requires {
		if x.always() && !start.meet(x) {
			return x
		}
	}
	return nil
}

// meet tells whether a requirement can be met.
func (start startable) meet(x *requirement) bool {
	can := func(n need) bool { return n.earlier() == nil || start[n.earlier()] }
	if x.any {
		return slices.ContainsFunc(x.needs, can)
	}
	return !slices.ContainsFunc(x.needs, func(n need) bool { return !can(n) })
}

// circle tells why a requirement cannot be met: from tool to tool, until one comes again or is never allowed.
func (start startable) circle(t *tool, x *requirement) (why, remedy string) {
	const most = 8 // of a longer one the beginning is enough to find it
	var links []string
	remedy = "need something else, or let it apply under a condition"
	for seen := map[*tool]bool{}; x != nil && !seen[t]; x = start.waits(t) {
		if len(seen) == most {
			links = append(links, "and so on")
			break
		}
		seen[t] = true
		at := slices.IndexFunc(x.needs, func(n need) bool { return n.earlier() != nil && !start[n.earlier()] })
		e := x.needs[at].earlier()
		links = append(links, t.name+" needs a receipt of "+e.name)
		if !e.callable() {
			links, remedy = append(links, "which is never allowed"), "allow "+e.name+", or need something else"
			break
		}
		t = e
	}
	return strings.Join(links, ", "), remedy
}
