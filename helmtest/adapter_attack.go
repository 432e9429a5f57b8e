package helmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
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

func (x *attack) ran() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.runs)
}

// leaves returns the hash of each entry.
func (x *attack) leaves() (list []contracts.Digest) {
	ctx := context.Background()
	for e := range x.store.Entries(ctx, 0, x.size()) {
		list = append(list, crypto.LeafHash(e))
	}
	return list
}
