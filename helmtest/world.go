package helmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/policytest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A World is a kernel to test with: a policy, a log in memory, a clock that the test moves, and
// keys and nonces that are the same each time. A tool that no function was given runs as a stub
// that returns null. It runs under the definition and the sandbox that the policy demands; nothing
// else is there that would allow a call.
//
// Worlds are made by [New]. Those that [World.As] and [World.In] return share the kernel and its
// clock. They are safe for concurrent use by multiple goroutines, but then their log is another
// each time.
type World struct {
	*bench
	caller  helm.Caller
	session string
}

// A bench is what worlds over one kernel share.
type bench struct {
	t      testing.TB
	policy *guardian.Policy
	kernel *helm.Kernel
	judge  func(context.Context, helm.Intent) (helm.Decision, helm.Receipt) // the kernel's Guard
	store  *proofgraph.Memory
	keys   map[string]crypto.PrivateKey

	mu    sync.Mutex // protects the fields below
	now   time.Time  // of the latest reading
	moved bool       // the next reading is now itself
	tools map[string]executor.Func
}

// An Option is a part of what [New] makes.
type Option func(*parts)

type parts struct {
	keys []registry.Key // without Public
}

// Key is a key that the kernel trusts for a role: that of an approver, for one, who then answers by
// [Result.Approve]. The key follows from its name, as in files of cases, so never trust it
// elsewhere.
func Key(name string, role registry.Role, roles ...string) Option {
	return func(p *parts) {
		p.keys = append(p.keys, registry.Key{Name: name, Role: role, Roles: slices.Sorted(slices.Values(roles))})
	}
}

// start is when each World begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes a World of a policy. Its caller is anonymous and its session is "test"; the time is
// 2026-01-01, and 1 ms passes with each call. When the test ends the kernel is closed, no run may
// be left, and the log is verified with replay.
func New(t testing.TB, p *guardian.Policy, o ...Option) *World {
	t.Helper()
	b, err := newBench(t, p, o)
	if err != nil {
		t.Fatalf("helmtest: %v", err)
	}
	t.Cleanup(func() {
		t.Helper()
		if err := b.settle(); err != nil {
			t.Errorf("helmtest: %v", err)
		}
	})
	return &World{bench: b, session: "test"}
}

const (
	origin    = "helm.test/world"
	kernelKey = "kernel"
	logKey    = "log"
)

func newBench(t testing.TB, p *guardian.Policy, o []Option) (*bench, error) {
	b := &bench{
		t: t, policy: p, store: proofgraph.NewMemory(), keys: map[string]crypto.PrivateKey{}, now: start, moved: true,
		tools: map[string]executor.Func{},
	}
	var all parts
	for _, f := range o {
		f(&all)
	}
	threshold := 0
	for i := range all.keys {
		k := &all.keys[i]
		if _, twice := b.keys[k.Name]; twice || k.Name == kernelKey || k.Name == logKey {
			return nil, fmt.Errorf("two keys named %s", k.Name)
		}
		if k.Role == registry.Root {
			threshold = 1
		}
		key := keyOf(k.Name)
		b.keys[k.Name], k.Public = key, public(key)
	}
	trust, err := registry.New(threshold, all.keys...)
	if err != nil {
		return nil, err
	}
	b.kernel, err = helm.New(helm.Options{
		Policy: p, Key: keyOf(kernelKey), LogKey: keyOf(logKey), Origin: origin, Store: b.store, Trust: trust,
		Now: b.clock, Rand: &nonces{},
	})
	b.judge = b.kernel.Guard
	return b, err
}

// keyOf returns the key of a name: the one that it has in files of cases.
func keyOf(name string) crypto.PrivateKey {
	seed := crypto.Sum([]byte("helm test key v1\n" + name))
	key, err := crypto.NewKeyFromSeed(seed[:])
	if err != nil {
		panic(err) // a seed has 32 bytes
	}
	return key
}

func public(key crypto.PrivateKey) crypto.PublicKey {
	p, err := crypto.PublicOf(key)
	if err != nil {
		panic(err) // the key is in memory
	}
	return p
}

// nonces are the same each time.
type nonces struct{ last contracts.Digest }

func (n *nonces) Read(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n.last = crypto.Sum(n.last[:])
		rest = rest[copy(rest, n.last[:]):]
	}
	return len(b), nil
}

// clock is that of the kernel.
func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// tick lets 1 ms pass, unless the time was set.
func (b *bench) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.moved {
		b.now = b.now.Add(time.Millisecond)
	}
	b.moved = false
}

// settle closes the kernel and has the log verified with replay.
func (b *bench) settle() error {
	return explained.Verified(context.Background(), b.kernel, b.store, origin)
}

// As returns a World whose calls are made for a caller.
func (w *World) As(c helm.Caller) *World {
	c.Roles = slices.Sorted(slices.Values(c.Roles))
	return &World{bench: w.bench, caller: c, session: w.session}
}

// In returns a World whose calls are made in a session.
func (w *World) In(session string) *World {
	return &World{bench: w.bench, caller: w.caller, session: session}
}

// At sets the time of the next call. It does not run back.
func (w *World) At(t time.Time) *World {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Before(w.now) {
		w.t.Fatalf("helmtest: At %v: it is %v already", t.UTC(), w.now)
	}
	w.now, w.moved = t.UTC().Truncate(time.Millisecond), true
	return w
}

// User records words of the user in the session.
func (w *World) User(text string) *World {
	w.t.Helper()
	w.tick()
	if err := w.kernel.UserMessage(context.Background(), w.session, text); err != nil {
		w.t.Fatalf("helmtest: %v", err)
	}
	return w
}

// Tool says what runs when a tool is called, from now on and in all Worlds over the kernel; nil is
// the stub.
func (w *World) Tool(name string, fn executor.Func) *World {
	w.t.Helper()
	if _, declared := w.policy.Limits(name); !declared {
		w.t.Fatalf("helmtest: the policy declares no tool %s", name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tools[name] = fn
	return w
}

// Call calls a tool. Arguments that are a string are JSON as a model writes it; all others are
// marshalled. Nil is {}.
func (w *World) Call(tool string, args any) *Result {
	w.t.Helper()
	in := helm.Intent{Tool: tool, Caller: w.caller, Session: w.session}
	switch x := args.(type) {
	case nil:
		in.Args = json.RawMessage("{}")
	case string:
		in.Args = json.RawMessage(x)
	default:
		b, err := json.Marshal(x)
		if err != nil {
			w.t.Fatalf("helmtest: arguments of %s: %v", tool, err)
		}
		in.Args = b
	}
	return w.guard(in)
}

// guard makes a call, with a driver of its own: a stub, of which in.Driver runs if there is one.
func (b *bench) guard(in helm.Intent) *Result {
	b.t.Helper()
	r := b.call(in)
	if fault := misrun(&r.decision, r.runs); fault != "" {
		b.t.Errorf("helmtest: %s: %s", in.Tool, fault)
	}
	return r
}

// call makes a call, and says nothing of it.
func (b *bench) call(in helm.Intent) *Result {
	b.tick()
	s := b.stub(in.Tool)
	s.within = in.Driver
	in.Driver = s.driver()
	r := &Result{b: b, intent: in}
	r.intent.Driver = s.within
	r.decision, r.receipt = b.judge(context.Background(), in)
	r.runs = s.taken()
	return r
}

// misrun says what is wrong with the runs of a call: nothing, if they were as the kernel promises.
func misrun(d *helm.Decision, runs [][]byte) string {
	switch {
	case len(runs) > 1:
		return fmt.Sprintf("one call ran %d times", len(runs))
	case len(runs) == 1 && d.Record.Verdict != contracts.Allow:
		return "a call ran that was not permitted"
	case len(runs) == 1 && crypto.Sum(runs[0]) != d.Record.ArgsHash:
		return "what ran got other bytes than were judged"
	case len(runs) == 0 && d.Verdict == contracts.Allow:
		return "a call was allowed, and nothing ran"
	}
	return ""
}

// Coverage returns what the calls so far evaluated in the documents of the policy.
func (w *World) Coverage() policytest.Coverage {
	w.t.Helper()
	c, err := policytest.Cover(context.Background(), w.store, w.kernel.Trust(), w.policy)
	if err != nil {
		w.t.Fatalf("helmtest: coverage: %v", err)
	}
	return c
}

// MinCoverage fails the test if the calls of the worlds together cover less than a part of the
// policy, in percent. It says what is not covered. The worlds are of one policy.
func MinCoverage(t testing.TB, percent float64, ws ...*World) {
	t.Helper()
	if len(ws) == 0 {
		t.Fatalf("helmtest: coverage of no World")
	}
	all := ws[0].Coverage()
	counted := []*bench{ws[0].bench}
	for _, w := range ws[1:] {
		if w.policy.Hash() != ws[0].policy.Hash() {
			t.Fatalf("helmtest: coverage of Worlds of two policies")
		}
		if slices.Contains(counted, w.bench) {
			continue
		}
		counted = append(counted, w.bench)
		for i, u := range w.Coverage().Units { // in the order of the documents
			x := &all.Units[i]
			x.True, x.False, x.Error = x.True+u.True, x.False+u.False, x.Error+u.Error
		}
	}
	if p := all.Percent(); p < percent {
		list := strings.TrimSuffix(all.String(), "\n")
		t.Errorf("helmtest: covered %.1f %%, of at least %.1f %%\n%s", p, percent, list)
	}
}
