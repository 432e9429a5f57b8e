package guardian

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// calls compiles {session: calls, of: TOOL}: how many ALLOWs the session has had so far.
func (c *compiler) calls(p part) (node, bool) {
	n := node{op: opCalls, slot: noSlot, ref: noSlot, absent: failed, more: &operand{prior: &prior{}}}
	subject := p.get("session")
	if word := subject.v.Text(); word == "tainted" || word == "labels" {
		c.l.unsupported(subject.at, "session: "+word)
		return n, false
	}
	if _, ok := c.l.oneOf(subject, "calls"); !ok {
		return n, false
	}
	keys := slices.Concat([]string{"session", "of"}, comparisons, []string{"absent"})
	if before := len(c.l.errs); !c.l.object(p, keys, nil) || len(c.l.errs) > before {
		return n, false
	}
	maybe, ok := c.counted(p, &n)
	if !ok {
		return n, false
	}
	if of := p.get("of"); of.there() {
		t, ok := c.earlier(of)
		if !ok {
			return n, false
		}
		n.more.prior.of = t
	}
	n.absent, ok = c.absent(p, maybe)
	return n, ok
}

// had answers a predicate over calls.
func (s *scratch) had(n *node) answer {
	tool := ""
	if of := n.more.prior.of; of != nil {
		tool = of.name
	}
	count, what := s.allowed(tool)
	if what != "" {
		return s.fail(n, what)
	}
	return s.comparedCount(n, float64(count))
}

// allowed gives how many ALLOWs the session has had, asking at most once, or why it cannot be told.
func (s *scratch) allowed(tool string) (count uint64, what string) {
	if s.session == "" || s.session == contracts.DefaultSession {
		return 0, unnamed
	}
	for i := range s.calls {
		if s.calls[i].Of == tool {
			return s.calls[i].Count, ""
		}
	}
	if s.past == nil {
		return 0, "the inputs lack the number of calls"
	}
	count = s.past.Calls(tool)
	s.calls = append(s.calls, contracts.CallCount{Count: count, Of: tool})
	return count, ""
}
