package helmtest

import (
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// story: a support agent with six tools of all kinds, one of which answers in pieces. A call is
// denied, a tool does not exist, an approval is given and another one refused. An auditor who
// has the pack makes every verdict again.
func story(x *attack) {
	tools := []*ScriptedTool{
		x.tool("order_find"), x.does("order_track", answers("packed, ", "sent, ", "run-%d")), x.tool("price_list"),
		x.tool("note_add"), x.tool("mail_send"), x.tool("refund"),
	}
	kinds := x.adapter.Kinds
	first := slices.Index(kinds, x.kind)
	for i, t := range tools { // one agent has tools of all kinds
		t.Kind = kinds[(first+i)%len(kinds)]
	}
	session := "story"
	turn := func(list ...proposal) (Answer, bool) {
		return x.play(scene{Turn: Turn{Tools: tools}, steps: steps(list...), session: session})
	}
	if _, ok := turn(
		one("order_find", `{"number":"4711"}`, runs),
		one("order_track", `{"number":"4711"}`, runs),
		one("mail_send", `{"to":"eve@example.com","text":"an address"}`, because(contracts.ReasonPolicyViolation)),
		one("order_cancel", `{"number":"4711"}`, because(contracts.ReasonToolNotFound)),
		one("refund", `{"to":"ann","amount":50}`, runs),
	); !ok {
		return
	}
	answer := func(args string, say func(contracts.ApprovalRequest) (contracts.Envelope, error), w want) bool {
		p := one("refund", args, askFirst)
		s := scene{Turn: Turn{Tools: tools}, steps: steps(p), session: session}
		a, ok := x.play(s)
		if !ok {
			return false
		}
		q, ok := x.request(a, ann, session, args)
		if !ok {
			return false
		}
		e, err := say(q)
		if err != nil {
			x.breach("%v", err)
			return false
		}
		s.steps = steps(one("refund", args, w))
		if x.adapter.Resume == nil {
			s.present.Approvals = []contracts.Envelope{e}
			_, ok = x.play(s)
			return ok
		}
		_, ok = x.resume(s, a, Reply{Call: fmt.Sprintf("call-%d", x.calls), Payload: envelopes(e)})
		return ok
	}
	approve := func(q contracts.ApprovalRequest) (contracts.Envelope, error) { return q.Approve(keyOf(owner)) }
	refuse := func(q contracts.ApprovalRequest) (contracts.Envelope, error) { return q.Refuse(keyOf(owner)) }
	if !answer(`{"to":"ann","amount":900}`, approve, runs) ||
		!answer(`{"to":"eve","amount":800}`, refuse, because(contracts.ReasonApprovalRefused)) {
		return
	}
	if _, ok := turn(
		one("price_list", `{}`, runs),
		one("note_add", `{"text":"paid 900"}`, runs),
		one("mail_send", `{"to":"ann@example.org","text":"it is paid"}`, runs),
	); !ok {
		return
	}
	want := []string{"order_find", "order_track", "refund", "refund", "price_list", "note_add", "mail_send"}
	var ran []string
	for _, e := range x.runs {
		ran = append(ran, e.tool)
	}
	if !slices.Equal(ran, want) {
		x.breach("these ran: %v, want %v", ran, want)
	}
	if err := x.audit(); err != nil {
		x.breach("%v", err)
	}
}
