package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/sandbox"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A faultyKernel is a kernel with one fault.
type faultyKernel struct {
	kernel
	guard guard
}

// A gullibleKernel says of every trust event that it was taken.
type gullibleKernel struct{ kernel }

func (k *gullibleKernel) Govern(ctx context.Context, e contracts.Envelope) error {
	_ = k.kernel.Govern(ctx, e)
	return nil
}

// A lyingDriver declares the definition that the policy pins.
type lyingDriver struct{ executor.Driver }

func (lyingDriver) Definition() contracts.Digest { return published }

// onceMore is a Guard that takes an approval again that it took before.
func onceMore() guard {
	type answered struct {
		d helm.Decision
		r helm.Receipt
	}
	var mu sync.Mutex // protects taken
	taken := map[string]answered{}
	return func(k kernel, ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
		d, r := k.Guard(ctx, in)
		if len(in.Approvals) == 0 {
			return d, r
		}
		mu.Lock()
		defer mu.Unlock()
		key := string(in.Args) + string(in.Approvals[0])
		if before, ok := taken[key]; ok && d.Reason == contracts.ReasonApprovalInvalid {
			return before.d, before.r
		}
		if d.Err() == nil {
			taken[key] = answered{d, r}
		}
		return d, r
	}
}

func (k *faultyKernel) Guard(ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
	return k.guard(k.kernel, ctx, in)
}

type guard = func(k kernel, ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt)

// guarding has every kernel of a subject judge otherwise.
func guarding(g guard) func(s *subject) { return guardingBy(func() guard { return g }) }

// guardingBy has every kernel of a subject judge by a guard of its own.
func guardingBy(guards func() guard) func(s *subject) {
	return func(s *subject) {
		open := s.open
		s.open = func(o helm.Options) (kernel, error) {
			k, err := open(o)
			if err != nil {
				return nil, err
			}
			return &faultyKernel{k, guards()}, nil
		}
	}
}

// examining has the verifier of logs say something else.
func examining(change func(r evidence.Report, err error) (evidence.Report, error)) func(s *subject) {
	return func(s *subject) {
		verify := s.verifyStore
		s.verifyStore = func(log proofgraph.Store, o evidence.Options) (evidence.Report, error) {
			return change(verify(log, o))
		}
	}
}

// An implementation with one fault is FAILED at the gate of that fault, and at those that depend on
// it: the table of docs/CONFORMANCE.md has the same rows.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name   string
		seed   func(s *subject)
		failed []int // gates
	}{
		{"none", func(*subject) {}, nil},
		{"a wrong number form", func(s *subject) {
			canonical := s.canonical
			s.canonical = func(src []byte) ([]byte, error) {
				b, err := canonical(src)
				return bytes.ReplaceAll(b, []byte("e+"), []byte("e")), err
			}
		}, []int{1}},
		{"a key twice is the last one", func(s *subject) {
			arguments := s.arguments
			s.arguments = func(src []byte) ([]byte, error) {
				return arguments(bytes.ReplaceAll(src, []byte(`"a":1,"a":2`), []byte(`"a":2`)))
			}
		}, []int{1}},
		{"no receipt of what a floor denies", guarding(func(k kernel, ctx context.Context, in helm.Intent) (
			helm.Decision, helm.Receipt) {
			d, r := k.Guard(ctx, in)
			if d.Reason == contracts.ReasonCeilingViolation {
				r = helm.Receipt{}
			}
			return d, r
		}), []int{2}},
		{"a zero kernel that allows", func(s *subject) {
			s.closed = func() []kernel {
				allows := func(kernel, context.Context, helm.Intent) (helm.Decision, helm.Receipt) {
					return helm.Decision{Verdict: contracts.Allow}, helm.Receipt{}
				}
				return []kernel{&faultyKernel{nil, allows}, &faultyKernel{nil, allows}}
			}
		}, []int{2}},
		{"an approval that is used twice", guardingBy(onceMore), []int{4}},
		{"a verifier that follows no parents", examining(func(r evidence.Report, err error) (evidence.Report, error) {
			if errors.Is(err, evidence.ErrGraph) {
				return evidence.Report{Level: evidence.Logged, Signer: evidence.Trusted}, nil
			}
			return r, err
		}), []int{5}},
		{"a verifier that replays nothing", examining(func(r evidence.Report, err error) (evidence.Report, error) {
			if errors.Is(err, evidence.ErrReplay) {
				return evidence.Report{Level: evidence.Logged, Signer: evidence.Trusted}, nil
			}
			return r, err
		}), []int{8}},
		{"a verifier that counts what was erased as replayed", func(s *subject) {
			verify := s.verify
			s.verify = func(pack []byte, o evidence.Options) (evidence.Report, error) {
				r, err := verify(pack, o)
				r.Replay.Replayed, r.Replay.NotReplayable = r.Replay.Replayed+r.Replay.NotReplayable, 0
				return r, err
			}
		}, []int{8}},
		{"a verifier that trusts any signer", func(s *subject) {
			verify := s.verify
			s.verify = func(pack []byte, o evidence.Options) (evidence.Report, error) {
				r, err := verify(pack, o)
				r.Signer = evidence.Trusted
				return r, err
			}
		}, []int{7}},
		{"a verifier that does not look at the end of a pack", func(s *subject) {
			verify := s.verify
			s.verify = func(pack []byte, o evidence.Options) (evidence.Report, error) {
				return verify(pack[:len(pack)/block*block], o)
			}
		}, []int{7}},
		{"a trust event that nobody may sign", func(s *subject) {
			open := s.open
			s.open = func(o helm.Options) (kernel, error) {
				k, err := open(o)
				if err != nil {
					return nil, err
				}
				return &gullibleKernel{k}, nil
			}
		}, []int{6}},
		{"an output that is released, whatever is pinned", guarding(func(k kernel, ctx context.Context, in helm.Intent) (
			helm.Decision, helm.Receipt) {
			d, r := k.Guard(ctx, in)
			if d.Reason == contracts.ReasonContractDrift {
				d = helm.Decision{Verdict: contracts.Allow, Reason: contracts.ReasonAllow}
			}
			return d, r
		}), []int{9}},
		{"a definition that is not compared", guarding(func(k kernel, ctx context.Context, in helm.Intent) (
			helm.Decision, helm.Receipt) {
			if in.Tool == "pinned" {
				in.Driver = lyingDriver{in.Driver}
			}
			return k.Guard(ctx, in)
		}), []int{9}},
		{"an idempotency key that is used twice", guarding(func(k kernel, ctx context.Context, in helm.Intent) (
			helm.Decision, helm.Receipt) {
			if d, r := k.Guard(ctx, in); in.Idempotency != "k" || d.Err() != nil {
				return d, r
			}
			in.Idempotency = ""
			return k.Guard(ctx, in)
		}), []int{10}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject()
			x.seed(s)
			list := gates()
			for i := range list {
				if (testing.Short() || race.Enabled) && !slices.Contains(x.failed, i+1) {
					list[i] = nil
				}
			}
			r, err := run(t.Context(), Options{}, s, list)
			require.NoError(t, err)
			var failed []int
			for i, g := range r.Gates {
				if g.Result == Failed {
					failed = append(failed, i+1)
				}
			}
			assert.Equal(t, x.failed, failed, "%s", r)
		})
	}
}

// A sandbox that does not hold to what was granted fails the gate of the sandbox.
func TestSandboxFaults(t *testing.T) {
	t.Parallel()
	sandboxes, err := sandbox.New(sandbox.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { sandboxes.Close(context.Background()) })
	load := func(wasm []byte, name string, g contracts.Sandbox) (executor.Driver, error) {
		return sandboxes.Load(context.Background(), wasm, name, g, sandbox.Host{})
	}
	rerun := sandboxes.Rerun(nil)
	for name, x := range map[string]struct {
		o      Options
		failed []string // no: the gate is passed
	}{
		"none": {Options{Sandbox: load, Rerun: rerun}, nil},
		"more memory than was granted": {Options{Rerun: rerun,
			Sandbox: func(wasm []byte, name string, g contracts.Sandbox) (executor.Driver, error) {
				if g.Memory == 4 {
					g.Memory, g.Gas = 0, 1000
				}
				return load(wasm, name, g)
			}}, []string{"memory is stopped"}},
		"the clock of the host": {Options{Rerun: rerun,
			Sandbox: func(wasm []byte, name string, g contracts.Sandbox) (executor.Driver, error) {
				if g.Clock == "" && g.Random == "" && g.Gas+g.Memory+g.Output == 0 {
					g.Clock, name = "real", "box"
				}
				return load(wasm, name, g)
			}}, []string{"a floor that demands pure, look", "a floor that demands pure, put",
			"a floor that demands pure, wipe", "a run again gives the receipt's output", "unasked: the clock"}},
		"a run again that uses no gas": {Options{Sandbox: load,
			Rerun: func(ctx context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
				result, err := rerun(ctx, r)
				result.Gas = 0
				return result, err
			}}, nil},
	} {
		cases, why := sandboxCases(x.o)
		require.Empty(t, why, name)
		g := runGate(t.Context(), newSubject(), gateNames[2], cases)
		var failed []string
		for _, f := range g.Failed {
			failed = append(failed, f.Case)
		}
		if name == "a run again that uses no gas" {
			assert.Contains(t, failed, "a run again gives the receipt's output")
			assert.Contains(t, failed, "vectors/meter/0001")
			continue
		}
		assert.Equal(t, x.failed, failed, "%s: %v", name, g.Failed)
	}
}

// Without a sandbox its gate is not run: KERNEL is reached, and FULL is not.
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r, err := Run(t.Context(), Options{})
	require.NoError(t, err)
	assert.Equal(t, NotRun, r.Gates[2].Result)
	assert.Equal(t, Kernel, r.Level)
}

// A gate whose cases were all removed is FAILED.
func TestNoCases(t *testing.T) {
	t.Parallel()
	for i := range gateNames {
		var list [len(gateNames)]gate
		list[i] = func(Options) ([]gateCase, string) { return nil, "" }
		r, err := run(t.Context(), Options{}, newSubject(), list)
		require.NoError(t, err)
		assert.Equal(t, Failed, r.Gates[i].Result)
		assert.Equal(t, "no case ran", r.Gates[i].Why)
	}
}

// A run whose context has ended returns no report.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := run(ctx, Options{Key: keyOf("signer")}, newSubject(), gates())
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, r.Gates)
}

// No two cases of a gate have one name.
func TestCaseNames(t *testing.T) {
	t.Parallel()
	for i, g := range gates() {
		if g == nil {
			continue
		}
		cases, why := g(
			Options{Sandbox: func([]byte, string, contracts.Sandbox) (executor.Driver, error) { return nil, nil },
				Rerun: func(context.Context, contracts.Rerunnable) (contracts.RerunResult, error) {
					return contracts.RerunResult{}, nil
				}},
		)
		if i == 10 && why != "" {
			continue // the system permits no namespaces
		}
		seen := map[string]bool{}
		for _, c := range cases {
			assert.False(t, seen[c.name], "gate %d: %q twice", i+1, c.name)
			seen[c.name] = true
		}
		assert.NotEmpty(t, cases, "gate %d", i+1)
	}
}

// passing is a report in which gates have results.
func passing(change func(gates []Gate)) Report {
	r := Report{Implementation: Implementation{Name: "a kernel", Version: "v1"}, Time: contracts.TimeOf(noon),
		Vectors: contracts.Digest{1}}
	for i, name := range gateNames {
		r.Gates = append(r.Gates, newGate(name, []string{fmt.Sprint("case ", i), "another"}, nil))
	}
	if change != nil {
		change(r.Gates)
	}
	r.setLevel()
	return r
}

// A level is reached only if every gate that it needs is passed.
func TestLevels(t *testing.T) {
	t.Parallel()
	assert.Equal(t, Full, passing(nil).Level)
	for i := range gateNames {
		want := Level("")
		switch i + 1 {
		case 3, 11:
			want = Kernel
		case 2, 4, 9, 10:
			want = Format
		}
		for _, g := range []Gate{notRun(gateNames[i], "a reason"), newGate(gateNames[i], nil, nil),
			newGate(gateNames[i], []string{"a"}, []Failure{{"a", "what"}})} {
			r := passing(func(gates []Gate) { gates[i] = g })
			assert.Equal(t, want, r.Level, "gate %d is %s", i+1, g.Result)
		}
	}
	r := passing(nil)
	r.Vectors = contracts.Digest{}
	r.setLevel()
	assert.Equal(t, Level(""), r.Level, "without vectors")
	r = passing(nil)
	r.Gates = r.Gates[:10]
	r.setLevel()
	assert.Equal(t, Level(""), r.Level, "without a gate")
}
