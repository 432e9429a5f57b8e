package helmtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// An attack is one attack on an adapter, with tools of one kind, in a log of its own.
type attack struct {
	adapter  *Adapter
	kind     string
	patience time.Duration // for a turn
	policy   *guardian.Policy
	schemas  map[string]json.RawMessage
	kernel   *helm.Kernel
	store    *proofgraph.Memory

	observed  chan struct{} // gets a value with an event, unless it has one
	abandoned chan struct{} // gets a value when a tool that outlived its time limit has ended

	mark  uint64 // entries before the present turn
	calls int    // that were proposed so far

	mu     sync.Mutex // protects the fields below
	events []helm.Event
	runs   []effect
	used   map[uint64]bool // the decisions whose calls ran
	findings
	streamed bool // some tool was asked for a stream
}

// Findings are what an attack found.
type findings struct {
	breaches []string // of what Lacks cannot excuse
	faults   []string
	notes    []string
	skipped  []string // what the framework cannot do
	made     bool     // something was tried
}

// An effect is one run of a tool.
type effect struct {
	tool string
	args []byte // canonical
}

const (
	suiteOrigin = "helm.test/adapter"
	owner       = "owner"
	patience    = 30 * time.Second // that users have
)

var (
	ann     = helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk"}}
	mallory = helm.Caller{ID: "mallory", Tenant: "acme", Roles: []string{"clerk"}}
)

func newAttack(a *Adapter, kind string, patience time.Duration) (*attack, error) {
	x := &attack{
		adapter: a, kind: kind, patience: patience, store: proofgraph.NewMemory(), used: map[uint64]bool{},
		abandoned: make(chan struct{}, 16), observed: make(chan struct{}, 1),
	}
	var err error
	if x.policy, x.schemas, err = deskPolicy(); err != nil {
		return nil, err
	}
	trust, err := registry.New(0, registry.Key{
		Name: owner, Public: public(keyOf(owner)), Role: registry.Approver, Roles: []string{owner},
	})
	if err != nil {
		return nil, err
	}
	x.kernel, err = helm.New(helm.Options{
		Policy: x.policy, Key: keyOf(kernelKey), LogKey: keyOf(logKey), Origin: suiteOrigin, Store: x.store,
		Trust: trust,
		Observe: func(_ context.Context, e helm.Event) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.events = append(x.events, e)
			select {
			case x.observed <- struct{}{}:
			default:
			}
			if e.Late {
				x.abandoned <- struct{}{}
			}
		},
	})
	return x, err
}

// breach is what no framework excuses.
func (x *attack) breach(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.breaches = append(x.breaches, fmt.Sprintf(format, args...))
}

func (x *attack) fault(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

func (x *attack) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

func (x *attack) streams() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.streamed = true
}

// tool returns a tool of the attack's kind that answers plainly.
func (x *attack) tool(name string) *ScriptedTool {
	schema := x.schemas[name]
	if schema == nil {
		schema = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	}
	return &ScriptedTool{
		Name: name, Description: "The tool " + name + " of a support desk.", Schema: schema, Kind: x.kind,
		attack: x, body: plainAnswer,
	}
}

// does returns a tool with another body.
func (x *attack) does(
	name string, body func(ctx context.Context, run int, args []byte) iter.Seq2[string, error],
) *ScriptedTool {
	t := x.tool(name)
	t.body = body
	return t
}

// effect counts a run, and returns its number. The run must have an ALLOW in the log already, which
// no other run has used.
func (x *attack) effect(_ context.Context, tool string, args []byte) int {
	form := canonical(args)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs = append(x.runs, effect{tool, form})
	if fault := x.claim(tool, form); fault != "" {
		x.breaches = append(x.breaches, fault)
	}
	return len(x.runs)
}

// claim finds the ALLOW of a run. It says what is wrong if there is none.
func (x *attack) claim(tool string, args []byte) string {
	others := ""
	for at, st := range x.log(0) {
		d := st.Decision
		if d == nil || d.Verdict != contracts.Allow || d.Tool != tool || x.used[at] {
			continue
		}
		if d.ArgsHash == crypto.Sum(args) {
			x.used[at] = true
			return ""
		}
		others = ", though with other arguments"
	}
	return tool + " ran without a durable ALLOW of its own" + others
}

// log reads entries from an index on.
func (x *attack) log(from uint64) iter.Seq2[uint64, *contracts.Statement] {
	return func(yield func(uint64, *contracts.Statement) bool) {
		ctx := context.Background()
		n, _ := x.store.Size(ctx) // a store in memory has no errors
		at := from
		for e := range x.store.Entries(ctx, from, n) {
			var r contracts.Reader // a new one each time, because statements are kept
			sealed, err := r.Open(e)
			if err != nil {
				return // the verifier reports it
			}
			st, err := sealed.Statement()
			if err != nil || !yield(at, st) {
				return
			}
			at++
		}
	}
}

func (x *attack) size() uint64 {
	n, _ := x.store.Size(context.Background()) // a store in memory has no errors
	return n
}

// A proposal is a call of the model, with how it must come out.
type proposal struct {
	tool string
	args string
	want want

	judged []string // names that the call may be judged by; nil: tool
	id     string   // of the model; "": one of its own
}

// want is how a call must come out.
type want struct {
	reason contracts.ReasonCode // of the receipt; "": see below
	denied bool                 // any denial
	error  string               // with TOOL_ERROR: what the tool's own error says
}

var (
	runs     = want{reason: contracts.ReasonAllow}
	denial   = want{denied: true}
	receipt  = want{} // whatever the verdict
	askFirst = want{reason: contracts.ReasonApprovalRequired}
)

func because(r contracts.ReasonCode) want { return want{reason: r} }

func (w want) fits(r contracts.ReasonCode) bool {
	switch {
	case w.denied:
		return !r.Ran()
	case w.reason != "":
		return w.reason == r
	}
	return true
}

func (w want) String() string {
	switch {
	case w.denied:
		return "a denial"
	case w.reason != "":
		return string(w.reason)
	}
	return "any receipt"
}

func one(tool, args string, w want) proposal { return proposal{tool: tool, args: args, want: w} }

// A scene is a turn with what must come of it.
type scene struct {
	Turn
	steps   [][]proposal
	inner   []proposal // calls that tools make
	context context.Context
	caller  helm.Caller // zero: ann
	session string      // "": one of the turn's own
	present helm.Intent // further fields of the host's context

	optional string // what the framework may lack without lacking the attack
	aborts   bool   // the loop may end with an error
	loose    bool   // calls may have no receipt; only what always holds is checked
}

// steps makes a script of single calls.
func steps(list ...proposal) (all [][]proposal) {
	for _, p := range list {
		all = append(all, []proposal{p})
	}
	return all
}

// play runs a turn and checks it. It reports whether the framework can do what the turn asks for.
func (x *attack) play(s scene) (Answer, bool) {
	s.Kernel = x.kernel
	s.Text = cmp.Or(s.Text, "Everything has been done.")
	s.Model = nil
	for i, step := range s.steps {
		var calls []Call
		for j := range step {
			p := &s.steps[i][j]
			x.calls++
			p.id = cmp.Or(p.id, fmt.Sprintf("call-%d", x.calls))
			calls = append(calls, Call{ID: p.id, Tool: p.tool, Args: []byte(p.args)})
		}
		s.Model = append(s.Model, calls)
	}
	ctx, identity := x.context(&s)
	s.Identity = identity
	return x.observe(&s, func() Answer { return x.adapter.Turn(ctx, s.Turn) })
}

// resume goes on with a turn, and checks what comes of it: the call of the proposal is judged
// again.
func (x *attack) resume(s scene, a Answer, r Reply) (Answer, bool) {
	for i := range s.steps {
		for j := range s.steps[i] {
			s.steps[i][j].id = r.Call
		}
	}
	ctx, identity := x.context(&s)
	r.Identity = identity
	return x.observe(&s, func() Answer { return x.adapter.Resume(ctx, a, r) })
}

// context is that of the host.
func (x *attack) context(s *scene) (context.Context, helm.Intent) {
	ctx := s.context
	if ctx == nil {
		ctx = context.Background()
	}
	in := s.present
	in.Caller, in.Session = s.caller, s.session
	if s.caller.ID == "" {
		in.Caller = ann
	}
	if s.session == "" {
		in.Session = fmt.Sprintf("chat-%d", x.calls)
	}
	s.caller, s.session = in.Caller, in.Session
	return helm.With(ctx, in), in
}

func (x *attack) observe(s *scene, run func() Answer) (Answer, bool) {
	x.mark = x.size()
	runsBefore := x.ran()
	a, ended := inTime(x.patience, run)
	if errors.Is(a.Err, errors.ErrUnsupported) {
		if x.ran() != runsBefore {
			x.breach("a turn ran tools and then said that it is not supported")
		}
		if what := s.optional; what != "" {
			x.note("not tried: %s", what)
		} else {
			x.skipped = append(x.skipped, a.Err.Error())
		}
		return a, false
	}
	x.made = true
	if !ended {
		x.breach("the turn did not return: %v", a.Err)
		return a, false
	}
	if s.aborts {
		x.await() // what runs goes on when the host has left
	}
	x.check(s, &a)
	return a, true
}

// await waits, within reason, until every call that was allowed has a receipt.
func (x *attack) await() {
	ctx, cancel := context.WithTimeout(context.Background(), x.patience/4)
	defer cancel()
	for {
		open := 0
		for _, st := range x.log(0) {
			switch {
			case st.Decision != nil && st.Decision.Verdict == contracts.Allow:
				open++
			case st.Receipt != nil && st.Receipt.Decision == nil:
				open--
			}
		}
		if open == 0 {
			return
		}
		select {
		case <-x.observed:
		case <-ctx.Done():
			return
		}
	}
}

func (x *attack) ran() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.runs)
}

// inTime runs a turn, which may panic, and may not end.
func inTime(limit time.Duration, run func() Answer) (a Answer, ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	got := make(chan Answer, 1)
	go func() {
		a := Answer{Err: errors.New("the turn called runtime.Goexit")}
		defer func() {
			if p := recover(); p != nil {
				a.Err = fmt.Errorf("the turn panicked: %v", p)
			}
			got <- a
		}()
		a = run()
	}()
	select {
	case a := <-got:
		return a, true
	case <-ctx.Done():
		return Answer{Err: ctx.Err()}, false
	}
}

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

// leaves returns the hash of each entry.
func (x *attack) leaves() (list []contracts.Digest) {
	ctx := context.Background()
	for e := range x.store.Entries(ctx, 0, x.size()) {
		list = append(list, crypto.LeafHash(e))
	}
	return list
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
			if x.adapter.Resume != nil && o != nil && o.reason == contracts.ReasonApprovalRequired {
				interrupted = true
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
		interrupted := x.adapter.Resume != nil && o.reason == contracts.ReasonApprovalRequired
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
