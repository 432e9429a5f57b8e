package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// The policy, the tools and the calls of the kernel that crashes.
const policyText = `
helm: policy/v1
layer: P1
bundle: {name: crash, version: 1}
tools:
  pay:
    effect: write
    input: {type: object, required: [to], properties: {to: {type: string}, memo: {type: string, default: none}}}
  fail:
    effect: write
    input: {type: object}
  raw:
    effect: read
    input: {type: object, properties: {zeros: {type: integer, minimum: 0}}}
  drift:
    effect: write
    risk: high
    input: {type: object}
    output: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  nest:
    effect: read
    input: {type: object}
rules:
  - {id: no-thieves, deny: pay, when: {arg: /to, eq: thief}}
  - {id: all, allow: [pay, fail, raw, drift, nest]}
`

// The floor that lets entries go.
const floorText = `
helm: policy/v1
layer: P0
name: floor
version: 1
condense: {kept: high, after: 24h}
`

const origin = "crash.test/helm"

// A process is a kernel over a store, with tools whose effects are recorded outside of it.
type process struct {
	number  int // 1, 2, 3 … over one directory
	k       *helm.Kernel
	events  recorder
	runs    atomic.Int64
	during  func(moment string)                     // is called at moments of a run; nil: nothing is
	through func(proofgraph.Store) proofgraph.Store // wraps the kernel's store; nil: nothing does
	floor   bool                                    // the policy lets entries go
	store   proofgraph.Store

	mu        sync.Mutex
	secrets   []secretCall // not erased yet
	stateless error        // why a state was not taken, or not saved
}

const (
	momentRun    = "run"    // the driver was called and has done nothing
	momentEffect = "effect" // its effect is done, and its receipt is not made
)

// The keys are fixed, so that an auditor knows them.
var key, trustState = func() (crypto.PrivateKey, *registry.State) {
	key, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		panic(err)
	}
	public := func(k crypto.PrivateKey) crypto.PublicKey {
		p, err := crypto.PublicOf(k)
		if err != nil {
			panic(err)
		}
		return p
	}
	state, err := (*registry.Registry)(nil).Initial(public(key), public(crypto.DeriveLogKey(key)))
	if err != nil {
		panic(err)
	}
	return key, state
}()

func compilePolicy(floor bool) (*guardian.Policy, error) {
	texts := []string{policyText}
	if floor {
		texts = append(texts, floorText)
	}
	var docs []contracts.Document
	for _, text := range texts {
		doc, err := policy.Parse("crash.yaml", []byte(text))
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return guardian.Compile(docs...)
}

// start makes the kernel over a store. Without a clock and nonces it uses the machine's.
func (l *process) start(s proofgraph.Store, now func() time.Time, random io.Reader) error {
	p, err := compilePolicy(l.floor)
	if err != nil {
		return err
	}
	l.store = s
	if l.through != nil {
		s = l.through(s)
	}
	drivers := map[string]executor.Driver{}
	for _, tool := range []string{"pay", "fail", "raw", "drift", "nest"} {
		drivers[tool] = l
	}
	l.k, err = helm.New(helm.Options{Policy: p, Key: key, Origin: origin, Store: s, Drivers: drivers,
		Keep: helm.Keep{Outputs: true}, Now: now, Rand: random, Observe: l.observe})
	if err != nil {
		return err
	}
	for e, err := range s.Entries(context.Background(), 0, 1) {
		if err != nil {
			return err
		}
		l.record(event{Kind: eventBegun, Hash: e.Hash().String()})
	}
	return nil
}

func (l *process) observe(_ context.Context, e helm.Event) {
	if e.Why == "state" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stateless = errors.Join(l.stateless, e.Err)
	}
}

func (l *process) record(n event) {
	n.Process = l.number
	l.events.add(n)
}

func (l *process) reached(moment string) {
	if l.during != nil {
		l.during(moment)
	}
}

var errTool = errors.New("the tool failed")

// Run is every tool. Its effect on the world is to record an event that names the decision in its
// permit.
func (l *process) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	l.reached(momentRun)
	l.runs.Add(1)
	l.record(event{Kind: eventEffect, ID: c.Permit.DecisionID, Hash: c.Permit.Decision.Hash().String()})
	l.reached(momentEffect)
	switch c.Tool {
	case "fail":
		return executor.Result{}, errTool
	case "drift":
		return executor.Result{Output: []byte(`{"ok":1}`)}, nil
	case "raw":
		var args struct{ Zeros int }
		err := json.Unmarshal(c.Args, &args)
		return executor.Result{Output: append(make([]byte, args.Zeros), "end"...)}, err
	case "nest":
		l.call(ctx, helm.Intent{Tool: "pay", Args: json.RawMessage(`{"to":"inner"}`)})
	}
	return executor.Result{Output: c.Args}, nil
}

// call makes a call and records the answer.
func (l *process) call(ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
	d, r := l.k.Guard(ctx, in)
	err := d.Err()
	denied, withheld := errors.Is(err, helm.ErrDenied), errors.Is(err, helm.ErrWithheld)
	if (err == nil) != (r.Output != nil) || err != nil && denied == withheld &&
		!(d.Reason == contracts.ReasonToolError && d.Allowed()) {
		l.record(event{Kind: eventTrouble, What: fmt.Sprintf("%s: output released: %v, with the answer %s: %v", in.Tool,
			r.Output != nil, d.Reason, err)})
	}
	switch {
	case len(r.Entry) > 0:
		l.record(event{Kind: eventReceipt, ID: d.Record.ID, Session: in.Session, Index: r.Index,
			Hash: r.Entry.Hash().String(), Reason: d.Reason, Released: r.Output != nil})
	case denied && (d.Record.Verdict == contracts.Deny || d.Reason == contracts.ReasonFailClosedError ||
		d.Reason == contracts.ReasonKernelSealed):
		if d.Record.ID != "" {
			l.record(event{Kind: eventDenied, ID: d.Record.ID, Reason: d.Reason})
		}
	case withheld && (d.Reason == contracts.ReasonReceiptNotStored || d.Reason == contracts.ReasonOutputNotKept):
	default:
		l.record(event{Kind: eventTrouble, What: fmt.Sprintf("%s: no receipt, and the answer %s: %v", in.Tool, d.Reason,
			err)})
	}
	return d, r
}

func (l *process) checkpoint() error {
	c, err := l.k.Checkpoint(context.Background())
	if err == nil {
		l.record(event{Kind: eventCheckpoint, Index: c.Size, Checkpoint: string(c.Note)})
	}
	return err
}

func (l *process) closeSession(ctx context.Context, name string) error {
	err := l.k.CloseSession(ctx, name)
	if err == nil {
		l.record(event{Kind: eventClosed, Session: name})
	}
	return err
}

// pack returns the evidence of a store, up to its latest checkpoint.
func pack(s proofgraph.Store) ([]byte, error) {
	var b bytes.Buffer
	err := evidence.Write(context.Background(), &b, s, key)
	return b.Bytes(), err
}
