package guardian

import "slices"

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
