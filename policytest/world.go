package policytest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"

	"time"
)

// origin is the name of every case's log.
const origin = "helm.test/cases"

// A world is what one case runs in: a kernel, a log and a clock of its own.
type world struct {
	s        *Suite
	c        *scenario
	kernel   *helm.Kernel
	store    *proofgraph.Memory
	now      atomic.Int64 // milliseconds
	over     map[string]*helm.Kernel
	named    map[string]contracts.Ref // receipts of earlier steps
	ran      int                      // runs of the present call
	values   bool                     // verdicts have the arguments of calls
	verdicts *Verdicts                // of the transcript, if there is one
	drift    string                   // the tool whose unsaid output its schema refuses
}

// A dice is a source of nonces that follow from a seed.
type dice struct {
	seed contracts.Digest
	n    uint64
	rest []byte
}

func (d *dice) Read(b []byte) (int, error) {
	for i := range b {
		if len(d.rest) == 0 {
			d.n++
			sum := crypto.Sum(binary.BigEndian.AppendUint64(d.seed[:], d.n))
			d.rest = sum[:]
		}
		b[i], d.rest = d.rest[0], d.rest[1:]
	}
	return len(b), nil
}

// kernelKeys are the keys of every kernel: the one that signs entries, and that of checkpoints.
var kernelKeys = sync.OnceValues(func() (keys [2]crypto.PrivateKey, err error) {
	if keys[0], err = keyOf(kernelKey); err == nil {
		keys[1], err = keyOf(logKey)
	}
	return keys, err
})

func (s *Suite) newWorld(pol *guardian.Policy, c *scenario) (*world, error) {
	w := &world{
		s: s, c: c, store: proofgraph.NewMemory(), named: map[string]contracts.Ref{}, over: map[string]*helm.Kernel{},
	}
	w.now.Store(int64(s.start))
	keys, err := kernelKeys()
	if err != nil {
		return nil, err
	}
	bound := map[string]executor.Driver{}
	for i := range c.steps {
		if x := &c.steps[i]; x.driver == "two" {
			if _, declared := pol.Limits(x.tool); declared {
				bound[x.tool] = &driver{w: w, tool: x.tool, definition: definitionOf(pol, x)}
			}
		}
	}
	w.kernel, err = helm.New(helm.Options{
		Policy: pol, Key: keys[0], LogKey: keys[1], Origin: origin, Store: w.store, Trust: s.trust, Drivers: bound,
		Keep: helm.Keep{Outputs: true}, // a repeat of an idempotency key returns the first output
		Now:  func() time.Time { return contracts.Time(w.now.Load()).Time() },
		Rand: &dice{seed: crypto.Sum([]byte(c.name))},
	})
	return w, err
}

// A driver is the stub of one tool.
type driver struct {
	w          *world
	tool       string
	definition contracts.Digest
	stub       stub
	giveUp     context.CancelFunc
}

func definitionOf(pol *guardian.Policy, x *step) contracts.Digest {
	if x.definition != nil {
		return *x.definition
	}
	d, _ := pol.Definition(x.tool)
	return d
}

func (d *driver) Definition() contracts.Digest { return d.definition }

func (d *driver) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	d.w.ran++
	switch {
	case d.stub.panics:
		panic("the case says so")
	case d.stub.lost:
		d.giveUp()
		<-ctx.Done()
		return executor.Result{}, ctx.Err()
	case d.stub.fails != "":
		return executor.Result{}, errors.New(d.stub.fails)
	case d.stub.output != nil:
		return executor.Result{Output: d.stub.output}, nil
	}
	if p := d.w.kernel.Policy(); p.HasOutput(d.tool) {
		if _, ok := p.CheckOutput(d.tool, null); !ok {
			d.w.drift = d.tool
		}
	}
	return executor.Result{}, nil
}

// A sandboxed driver has a cell that declares a sandbox. What runs there is the stub.
type sandboxed struct {
	*driver
	cell *cell.Cell
}

func (d *sandboxed) Cell() *cell.Cell { return d.cell }

var null = func() crypto.Value {
	var tree crypto.Tree
	if err := tree.Parse([]byte("null"), crypto.Limits{Bytes: 4, Depth: 1}); err != nil {
		panic(err)
	}
	return tree.Root()
}()

// A call is one that a case made, and how it came out.
type call struct {
	step     *step
	decision helm.Decision
	receipt  helm.Receipt
	ran      int
}

// kernelFor returns the kernel that a step is judged by.
func (w *world) kernelFor(x *step) (*helm.Kernel, error) {
	k, name := w.kernel, ""
	for _, file := range x.overlays {
		name += file + "\n"
		n := w.over[name]
		if n == nil {
			var err error
			if n, err = k.Narrow(w.s.overlays[file]); err != nil {
				return nil, err
			}
			w.over[name] = n
		}
		k = n
	}
	return k, nil
}

// do takes one step. A failure is what went otherwise than the case says.
func (w *world) do(ctx context.Context, x *step) (*call, []string) {
	fault := func(err error) []string {
		if err == nil {
			return nil
		}
		return []string{err.Error()}
	}
	w.now.Add(1)
	switch x.does {
	case "after":
		w.now.Add(x.after.Milliseconds())
		return nil, nil
	case "user":
		return nil, fault(w.kernel.UserMessage(ctx, x.session, x.words))
	case "close":
		return nil, fault(w.kernel.CloseSession(ctx, x.session))
	case "freeze":
		return nil, fault(w.freeze(ctx))
	case "transcript":
		made, failures, err := w.replay(ctx, x)
		return made, append(failures, fault(err)...)
	}
	if x.freeze {
		if err := w.freeze(ctx); err != nil {
			return nil, fault(err)
		}
	}
	if x.close {
		if err := w.kernel.CloseSession(ctx, x.session); err != nil {
			return nil, fault(err)
		}
	}
	k, err := w.kernelFor(x)
	if err != nil {
		return nil, fault(err)
	}
	in, err := w.intent(x)
	if err != nil {
		return nil, fault(err)
	}
	c := w.guard(ctx, k, x, in)
	if q := c.decision.Pending; q != nil && len(x.approve)+len(x.refuse) > 0 {
		for _, name := range slices.Concat(x.approve, x.refuse) {
			answer := q.Approve
			if slices.Contains(x.refuse, name) {
				answer = q.Refuse
			}
			e, err := answer(w.s.keys[name].key)
			if err != nil {
				return c, fault(err)
			}
			in.Approvals = append(in.Approvals, e)
		}
		w.now.Add(1)
		c = w.guard(ctx, k, x, in)
	} else if len(x.approve)+len(x.refuse) > 0 {
		return c, append(c.unlike(x.want), "nobody was asked for an approval")
	}
	if x.name != "" && c.receipt.Entry != nil {
		w.named[x.name] = c.receipt.Ref()
	}
	failures := c.unlike(x.want)
	if w.drift != "" {
		failures = append(failures, w.drift+" has no output in the case, and the policy refuses null: write its output")
		w.drift = ""
	}
	return c, failures
}

// replay judges the calls of a transcript, and compares them with what the case says. It returns
// the first call that came out otherwise.
func (w *world) replay(ctx context.Context, x *step) (first *call, failures []string, err error) {
	k, err := w.kernelFor(x)
	if err != nil {
		return nil, nil, err
	}
	r := Replay{
		Policy: k.Policy(), Caller: x.caller, Session: x.session, Sandbox: x.sandbox, Values: w.values,
		Guard: func(ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
			w.now.Add(1)
			return k.Guard(ctx, in)
		},
	}
	if x.replay.words {
		r.Words = w.kernel.UserMessage
	}
	w.verdicts, err = r.Run(ctx, x.replay.turns)
	if err != nil {
		return nil, nil, err
	}
	for i := range w.verdicts.Calls {
		v := &w.verdicts.Calls[i]
		made := &call{step: &step{tool: v.Tool}, decision: v.Decision}
		if v.Ran {
			made.ran = 1
		}
		want, stated := x.replay.wants[v.Number]
		if !stated {
			want.verdict = contracts.Allow
		}
		for _, f := range made.unlike(want) {
			failures = append(failures, fmt.Sprintf("call %d, %s: %s", v.Number, v.Tool, f))
		}
		if first == nil && failures != nil {
			first = made
		}
	}
	return first, failures, nil
}

func (w *world) guard(ctx context.Context, k *helm.Kernel, x *step, in helm.Intent) *call {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stub := w.s.stubs[x.tool]
	if x.stub != nil {
		stub = *x.stub
	}
	two := slices.ContainsFunc(w.c.steps, func(y step) bool { return y.tool == x.tool && y.driver == "two" })
	if x.driver != "none" && (!two || x.driver == "two") {
		d := &driver{w: w, tool: x.tool, definition: definitionOf(k.Policy(), x), stub: stub, giveUp: cancel}
		in.Driver = d
		if x.sandbox != nil {
			s := &sandboxed{driver: d}
			s.cell = cell.New(s, *x.sandbox, nil, d.Run)
			in.Driver = s
		}
	}
	w.ran = 0
	c := &call{step: x}
	c.decision, c.receipt = k.Guard(ctx, in)
	c.ran = w.ran
	return c
}

// intent makes the call of a step.
func (w *world) intent(x *step) (helm.Intent, error) {
	in := helm.Intent{
		Tool: x.tool, Args: json.RawMessage(x.args), Caller: x.caller, Session: x.session, Idempotency: x.idempotency,
	}
	for _, name := range x.afterRefs {
		ref, ok := w.named[name]
		if !ok {
			return in, fmt.Errorf("the step %s has no receipt", name)
		}
		in.After = append(in.After, ref)
	}
	for _, a := range x.attest {
		claims := a.claims
		if !claims.Exists() {
			claims = empty
		}
		now := contracts.Time(w.now.Load())
		e, err := contracts.Attestation{Claims: claims, Time: now, Type: a.kind}.Sign(w.s.keys[a.by].key)
		if err != nil {
			return in, err
		}
		in.Attestations = append(in.Attestations, e)
	}
	var err error
	in.Delegation, err = w.chain(x.delegation)
	return in, err
}

var empty = func() crypto.Value {
	var tree crypto.Tree
	if err := tree.Parse([]byte("{}"), crypto.Limits{Bytes: 2, Depth: 1}); err != nil {
		panic(err)
	}
	return tree.Root()
}()

// chain signs grants, which stand leaf first, from the root on.
func (w *world) chain(grants []grant) (chain []contracts.Envelope, err error) {
	for i := len(grants) - 1; i >= 0; i-- {
		g := &grants[i]
		d := contracts.Delegation{
			Delegate: g.to, Delegator: g.by, Depth: g.depth, Expires: w.s.start.Add(365 * 24 * time.Hour),
			Nonce: strconv.Itoa(i), NotBefore: w.s.start, Only: g.only, When: g.when,
		}
		if chain != nil {
			parent := chain[0].Digest()
			d.Parent = &parent
		}
		e, err := d.Sign(w.s.keys[g.by].key)
		if err != nil {
			return nil, err
		}
		chain = append([]contracts.Envelope{e}, chain...)
	}
	return chain, nil
}

// freeze enters a freeze, signed by the first key that may.
func (w *world) freeze(ctx context.Context) error {
	for _, name := range keysOf(w.s.keys) {
		k := w.s.keys[name]
		if k.Role != registry.Root && k.Role != registry.Freezer {
			continue
		}
		state, err := explained.Walk(ctx, w.store, w.kernel.Trust(), nil)
		if err != nil {
			return err
		}
		event := contracts.TrustEvent{Type: "freeze", Origin: origin, Version: state.Version() + 1, Why: "a case"}
		e, err := contracts.TrustRecord{Event: event}.Sign(k.key)
		if err != nil {
			return err
		}
		return w.kernel.Govern(ctx, e)
	}
	return errors.New("nobody can freeze")
}

// unlike compares how a call came out with how it must.
func (c *call) unlike(w want) (failures []string) {
	d := &c.decision
	differ := func(what, wanted, got string) {
		failures = append(failures, what+": want "+wanted+", got "+got)
	}
	if d.Verdict != w.verdict {
		differ("verdict", w.verdict.String(), d.Verdict.String())
	}
	if w.reason != "" && d.Reason != w.reason {
		differ("reason", string(w.reason), string(d.Reason))
	}
	if w.rule != "" && d.Record.Rule != w.rule {
		got := d.Record.Rule
		if got == "" {
			got = "none"
		}
		differ("rule", w.rule, got)
	}
	if w.why != "" && !strings.Contains(d.Why, w.why) {
		differ("why", strconv.Quote(w.why), strconv.Quote(d.Why))
	}
	if w.condition != nil && d.Record.Condition != *w.condition {
		differ("condition", strconv.Itoa(*w.condition), strconv.Itoa(d.Record.Condition))
	}
	if w.ran != nil && c.ran != *w.ran {
		differ("ran", strconv.Itoa(*w.ran), strconv.Itoa(c.ran))
	}
	if w.pending != nil {
		switch q := d.Pending; {
		case q == nil:
			differ("pending", "a request", "none")
		case !slices.Equal(q.Roles, w.pending.roles):
			differ("pending.roles", strings.Join(w.pending.roles, ", "), strings.Join(q.Roles, ", "))
		case w.pending.quorum != 0 && q.Quorum != w.pending.quorum:
			differ("pending.quorum", strconv.FormatUint(w.pending.quorum, 10), strconv.FormatUint(q.Quorum, 10))
		}
	}
	for _, budget := range keysOf(w.charges) {
		amount, charged := uint64(0), false
		for _, x := range d.Record.Charges {
			if x.Budget == budget {
				amount, charged = x.Amount, true
			}
		}
		if !charged || amount != w.charges[budget] {
			differ("charge of "+budget, strconv.FormatUint(w.charges[budget], 10), strconv.FormatUint(amount, 10))
		}
	}
	return failures
}

// verified has the log verified with replay.
func (w *world) verified(ctx context.Context) error {
	return explained.Verified(ctx, w.kernel, w.store, origin)
}
