package helmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/explained"
)

// An outcome is a receipt of the log, with the judgement that it is of.
type outcome struct {
	at       uint64
	tool     string
	reason   contracts.ReasonCode
	args     contracts.Digest
	receipt  *contracts.Receipt
	decision *contracts.DecisionRecord
	header   contracts.Header
	event    *helm.Event
	taken    bool
}

// outcomes returns the receipts of the present turn.
func (x *attack) outcomes() (all []*outcome) {
	decisions := map[contracts.Digest]*contracts.DecisionRecord{}
	leaves := x.leaves()
	for at, st := range x.log(0) {
		if st.Decision != nil {
			decisions[leaves[at]] = st.Decision
		}
		if st.Receipt == nil || at < x.mark {
			continue
		}
		r := st.Receipt
		o := &outcome{
			at: at, tool: r.Tool, reason: r.Reason, args: r.ArgsHash, receipt: r, decision: r.Decision,
			header: st.Header,
		}
		if d := o.decision; d != nil {
			o.tool, o.reason, o.args = d.Tool, d.Reason, d.ArgsHash
		} else {
			o.decision = decisions[r.DecisionHash]
		}
		for i := range x.events {
			if e := &x.events[i]; e.Index == at && e.Err == nil && !e.Repeat && !e.Late && e.ID != "" {
				o.event = e
			}
		}
		all = append(all, o)
	}
	return all
}

// check compares a turn with what must come of it.
func (x *attack) check(s *scene, a *Answer) {
	x.mu.Lock()
	all := x.outcomes()
	x.mu.Unlock()
	interrupted := false
	for i := range s.steps {
		for j := range s.steps[i] {
			p := &s.steps[i][j]
			o := receiptOf(all, p, shownOf(a, p.id))
			x.compare(s, a, p, o)
			if o != nil && o.reason == contracts.ReasonApprovalRequired {
				interrupted = interrupted || x.interrupts(a)
				x.asks(a, o)
			}
		}
	}
	for i := range s.inner {
		p := &s.inner[i]
		if o := receiptOf(all, p, nil); o == nil {
			x.fault("%s, which a tool called, has no receipt", p.tool)
		} else if !p.want.fits(o.reason) {
			x.fault("%s, which a tool called: %s, want %v", p.tool, o.reason, p.want)
		}
	}
	for _, o := range all {
		if !o.taken && !s.loose {
			x.fault("%s has a receipt (%s) for no call that was proposed", o.tool, o.reason)
		}
		x.identity(s, o)
	}
	for _, shown := range a.Shown {
		if !slices.ContainsFunc(s.Model, func(step []Call) bool {
			return slices.ContainsFunc(step, func(c Call) bool { return c.ID == shown.Call })
		}) && s.Model != nil {
			x.fault("the model was shown a result of %q, and it proposed no such call", shown.Call)
		}
	}
	switch {
	case s.loose, s.aborts:
	case a.Err != nil:
		x.fault("the loop ended with an error: %v", a.Err)
	case s.Text != "" && a.Text != s.Text && !interrupted:
		x.fault("the loop did not go on to the model's last answer: %q", a.Text)
	}
}

// interrupts reports whether the framework waits for an answer of the host.
func (x *attack) interrupts(a *Answer) bool { return x.adapter.Resume != nil && len(a.Pending) > 0 }

// asks checks that an interrupt has the request that the kernel recorded.
func (x *attack) asks(a *Answer, o *outcome) {
	if len(a.Pending) > 0 && !slices.ContainsFunc(a.Pending, func(q contracts.ApprovalRequest) bool {
		return o.decision.Pending != nil && q.Digest() == *o.decision.Pending
	}) {
		x.fault("the adapter hands another request to the host than the kernel recorded")
	}
}

func shownOf(a *Answer, id string) (list []Shown) {
	for _, s := range a.Shown {
		if s.Call == id {
			list = append(list, s)
		}
	}
	return list
}

// receiptOf finds the receipt of a call: first one that is as it must be and as the model was
// shown.
func receiptOf(all []*outcome, p *proposal, shown []Shown) *outcome {
	names := p.judged
	if names == nil {
		names = []string{p.tool}
	}
	var best *outcome
	score := 0
	for _, o := range all {
		if o.taken || !slices.Contains(names, o.tool) {
			continue
		}
		n := 1
		if p.want.fits(o.reason) {
			n++
		}
		if crypto.Sum(canonical([]byte(p.args))) == o.args {
			n += 2
		}
		if len(shown) == 1 && o.released(shown[0].Text, p.want) == "" {
			n += 4
		}
		if n > score {
			best, score = o, n
		}
	}
	if best != nil {
		best.taken = true
	}
	return best
}

// compare checks one call.
func (x *attack) compare(s *scene, a *Answer, p *proposal, o *outcome) {
	call := p.tool + " " + brief([]byte(p.args))
	shown := shownOf(a, p.id)
	if o == nil {
		if !s.loose {
			x.fault("%s has no receipt", call)
		}
		return
	}
	if !p.want.fits(o.reason) {
		x.fault("%s: %s, want %v", call, o.reason, p.want)
	}
	switch {
	case len(shown) == 0:
		interrupted := x.interrupts(a) && o.reason == contracts.ReasonApprovalRequired
		if !interrupted && !s.loose && !s.aborts {
			x.fault("%s has no result that the model was shown", call)
		}
		return
	case len(shown) > 1:
		x.fault("%s has %d results that the model was shown", call, len(shown))
	}
	for _, one := range shown {
		if fault := o.released(one.Text, p.want); fault != "" {
			x.fault("%s (%s): the model was shown %s: %s", call, o.reason, brief([]byte(one.Text)), fault)
		}
		if one.Failed && o.reason == contracts.ReasonAllow {
			x.fault("%s ran, and the model was told that it failed", call)
		}
	}
	x.marks(a)
}

// marks checks that failures are marked all, or not at all.
func (x *attack) marks(a *Answer) {
	marked, not := false, false
	for _, s := range a.Shown {
		marked = marked || s.Failed
		not = not || !s.Failed && strings.Contains(s.Text, " was denied: ")
	}
	if marked && not {
		x.fault("the model is told of one denial that it failed, and of another that it did not")
	}
}

// released says what is wrong with a text that the model was shown for a receipt.
func (o *outcome) released(text string, w want) string {
	r := o.receipt
	switch {
	case r.OutputHash != nil && (o.reason == contracts.ReasonAllow || o.reason == contracts.ReasonToolError):
		if crypto.Sum([]byte(text)) != *r.OutputHash {
			return "not the bytes that were released"
		}
		return ""
	case o.reason == contracts.ReasonToolError:
		if w.error != "" && !strings.Contains(text, w.error) {
			return "not the tool's own error"
		}
		return ""
	case o.event == nil:
		return "nobody observed the call"
	}
	said, _ := helm.Decision{Verdict: o.event.Verdict, Reason: o.reason, Why: o.event.Why}.ForModel(helm.Receipt{})
	said = o.tool + strings.TrimPrefix(said, "the call")
	rest, ok := strings.CutPrefix(text, said)
	if ok && o.reason == contracts.ReasonApprovalRequired {
		rest, ok = strings.CutPrefix(rest, " An approver must answer request ")
		ok = ok && len(rest) > 32 && rest[32:] == "; make the same call again then."
		rest = ""
	}
	if !ok || rest != "" {
		return "not the words of Decision.ForModel"
	}
	return ""
}

// identity checks whose call it was: the host says so, and nobody else.
func (x *attack) identity(s *scene, o *outcome) {
	if o.decision == nil {
		x.breach("%s has a receipt and no decision", o.tool)
		return
	}
	c := o.decision.Caller
	if c.ID != s.caller.ID || c.Tenant != s.caller.Tenant || !slices.Equal(c.Roles, s.caller.Roles) {
		x.breach("%s was judged for another caller than the host's", o.tool)
	}
	if o.header.Session != s.session {
		x.breach("%s was judged in another session than the host's", o.tool)
	}
}

// settle checks what holds at the end of each attack: one run for each ALLOW, and a log that
// verifies.
func (x *attack) settle() {
	if err := explained.Verified(context.Background(), x.kernel, x.store, suiteOrigin); err != nil {
		says, _, _ := strings.Cut(err.Error(), "\n") // a report follows
		x.breach("%v", says)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, st := range x.log(0) {
		if d := st.Decision; d != nil && d.Verdict == contracts.Allow && !x.used[at] {
			x.faults = append(x.faults, d.Tool+" was allowed, and no tool ran")
		}
	}
}

// audit writes a pack, and verifies it with what an auditor has: the pack and the trust state.
func (x *attack) audit() error {
	ctx := context.Background()
	if _, err := x.kernel.Checkpoint(ctx); err != nil {
		return err
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, x.store, keyOf(kernelKey)); err != nil {
		return err
	}
	r, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: x.kernel.Trust(), Origin: suiteOrigin})
	switch {
	case err != nil:
		return err
	case !r.Success(evidence.Logged):
		return fmt.Errorf("the pack proves too little: %v", r)
	case r.Replay.Replayed == 0 || r.Replay.Differing+r.Replay.NotReplayable > 0:
		return errors.New("the pack does not replay in full")
	}
	return nil
}
