package delegation

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call under grants that are wrong in any way is denied, with a receipt that names the leaf, and
// nothing runs. The pack replays, with both implementations.
func TestDelegationGuarded(t *testing.T) {
	t.Parallel()
	noon := contracts.TimeOf(kerneltest.Noon)
	passed := []contracts.Delegation{{Delegator: "ann", Delegate: "bob", Depth: 1},
		{Delegator: "bob", Delegate: "agent"}}
	with := func(change func(g []contracts.Delegation)) []contracts.Envelope {
		g := slices.Clone(passed)
		change(g)
		return kerneltest.Chain(t, g...)
	}
	asks := func(link int, text string) []contracts.Envelope {
		return with(func(g []contracts.Delegation) { g[link].When = kerneltest.Value(t, text) })
	}
	by := func(signer string, g contracts.Delegation) []contracts.Envelope {
		g.Nonce, g.Expires, g.Only = "n", 4e12, []string{"echo"}
		e, err := g.Sign(kerneltest.NamedKey(t, signer))
		require.NoError(t, err)
		return []contracts.Envelope{e}
	}
	good := kerneltest.Chain(t, passed...)
	other := kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 2})
	called := func(id string) func(*helm.Intent) { return func(in *helm.Intent) { in.Caller.ID = id } }
	const (
		invalid = contracts.ReasonDelegationInvalid
		outside = contracts.ReasonDelegationScopeViolation
		errs    = contracts.ReasonFailClosedError
	)
	w := newAgent(t)
	allowed := uint64(0)
	for _, c := range []struct {
		name   string
		chain  []contracts.Envelope
		change func(*helm.Intent)
		reason contracts.ReasonCode
		at     int
		says   string
	}{
		{"no grant", nil, nil, contracts.ReasonNoPolicyDefined, 5, "no rule"},
		{"a grant", kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "agent"}), nil,
			contracts.ReasonAllow, 8, ""},
		{"passed on", good, nil, contracts.ReasonAllow, 8, ""},
		{"dear, for ann", good, kerneltest.WithArgs(`{"sum":1001,"text":"x"}`), contracts.ReasonAllow, 8, ""},
		{"with a when",
			asks(0, `{"all":[{"arg":"/sum","le":5},{"caller":"id","eq":"agent","absent":false},`+
				`{"time":"utc","in":["Wed 12:00-13:00"]}]}`), nil, contracts.ReasonAllow, 8, ""},

		{"for another caller", good, called("agent 2"), invalid, 6, "the leaf grant is not for the caller"},
		{"for the delegator", good, called("ann"), invalid, 6, "the leaf grant is not for the caller"},
		{"anonymous", good,
			func(in *helm.Intent) { in.Caller, in.Tool, in.Args = helm.Caller{}, "outer", []byte(`{}`) }, invalid, 6,
			"the leaf grant is not for the caller"},
		{"the parent alone", good[1:], nil, invalid, 6, "the leaf grant is not for the caller"},
		{"expired", with(func(g []contracts.Delegation) { g[1].Expires = noon }), nil, invalid, 6,
			"grant 0 has expired"},
		{"the parent expired", with(func(g []contracts.Delegation) { g[0].Expires = noon }), nil, invalid, 6,
			"grant 1 has expired"},
		{"not yet", with(func(g []contracts.Delegation) { g[1].NotBefore = noon + 1 }), nil, invalid, 6,
			"grant 0 does not hold yet"},
		{"the parent not yet", with(func(g []contracts.Delegation) { g[0].NotBefore = noon + 1 }), nil, invalid, 6,
			"grant 1 does not hold yet"},
		{"not to be passed on", with(func(g []contracts.Delegation) { g[0].Depth = 0 }), nil, invalid, 6,
			"grant 1 may not be passed on"},
		{"too deep at an inner link",
			kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 9},
				contracts.Delegation{Delegator: "bob", Delegate: "carl"},
				contracts.Delegation{Delegator: "carl", Delegate: "agent"}), nil, invalid, 6,
			"grant 1 may not be passed on"},
		{"no parent", good[:1], nil, invalid, 6, "has a parent"},
		{"another parent", []contracts.Envelope{good[0], other[0]}, nil, invalid, 6, "grant 1: not the parent"},
		{"swapped", []contracts.Envelope{good[1], good[0]}, nil, invalid, 6, "grant 1"},
		{"of two chains", append(slices.Clone(good), other...), nil, invalid, 6, "grant 2"},
		{"signed by the delegate", by("agent", passed[1]), nil, invalid, 6, "KEY"},
		{"signed by another delegator", by("carl", passed[1]), nil, invalid, 6, "not the delegator who signed"},
		{"passed on by somebody else", with(func(g []contracts.Delegation) { g[1].Delegator = "carl" }), nil, invalid,
			6, "not for the delegator"},
		{"by an approver", kerneltest.Chain(t, contracts.Delegation{Delegator: "dora", Delegate: "agent"}), nil,
			invalid, 6, "KEY"},
		{"by the kernel's key", func() []contracts.Envelope {
			g := contracts.Delegation{Delegator: "kernel", Delegate: "agent", Nonce: "n", Expires: 4e12,
				Only: []string{"echo"}}
			e, err := g.Sign(w.Key)
			require.NoError(t, err)
			return []contracts.Envelope{e}
		}(), nil, invalid, 6, "KEY"},
		{"a pointer that the tool lacks", asks(1, `{"arg":"/amount","le":5}`), nil, invalid, 6,
			`no "/amount" in the input of echo`},
		{"what no grant may ask", asks(0, `{"session":"calls","lt":5}`), nil, invalid, 6, "session in a grant"},
		{"a when that is none", asks(0, `{}`), nil, invalid, 6, "grant 1: /when"},

		{"another tool", with(func(g []contracts.Delegation) { g[1].Only = []string{"outer"} }), nil, outside, 6,
			"grant 0 does not cover the tool"},
		{"another tool at an inner link", with(func(g []contracts.Delegation) { g[0].Only = []string{"outer"} }), nil,
			outside, 6, "grant 1 does not cover the tool"},
		{"no tool", with(func(g []contracts.Delegation) { g[0].Only = []string{} }), nil, outside, 6,
			"grant 1 does not cover the tool"},
		{"when false", asks(1, `{"arg":"/sum","lt":5}`), nil, outside, 6, "grant 0 does not cover the call"},
		{"when false at an inner link", asks(0, `{"arg":"/text","in":["y"]}`), nil, outside, 6,
			"grant 1 does not cover the call"},
		{"when of the delegator", asks(0, `{"caller":"id","eq":"ann","absent":false}`), nil, outside, 6,
			"grant 1 does not cover the call"},
		{"when that errs", asks(0, `{"arg":"/text","host":"a.b"}`), kerneltest.WithArgs(`{"sum":5,"text":"no host"}`),
			errs, 6, "/text: grant 1"},
		{"when that errs under not", asks(1, `{"not":{"arg":"/text","host":"a.b"}}`),
			kerneltest.WithArgs(`{"sum":5,"text":"no host"}`), errs, 6, "/text: grant 0"},

		{"what the delegator may not", kerneltest.Chain(t, contracts.Delegation{Delegator: "carl", Delegate: "agent"}),
			nil, contracts.ReasonNoPolicyDefined, 5, "no rule"},
		{"what the caller alone may", kerneltest.Chain(t, contracts.Delegation{Delegator: "carl", Delegate: "agent"}),
			func(in *helm.Intent) { in.Caller.Roles = []string{"clerk"} }, contracts.ReasonNoPolicyDefined, 5,
			"no rule"},
		{"dear, for bob", kerneltest.Chain(t, contracts.Delegation{Delegator: "bob", Delegate: "agent"}),
			kerneltest.WithArgs(`{"sum":1001,"text":"x"}`), contracts.ReasonPolicyViolation, 5, "P1:shop:dear"},
		{"dear, for bob through ann",
			kerneltest.Chain(t, contracts.Delegation{Delegator: "bob", Delegate: "ann", Depth: 1},
				contracts.Delegation{Delegator: "ann", Delegate: "agent"}),
			kerneltest.WithArgs(`{"sum":1001,"text":"x"}`), contracts.ReasonPolicyViolation, 5, "P1:shop:dear"},

		{"no envelope", []contracts.Envelope{contracts.Envelope(`{}`)}, nil, contracts.ReasonIntentMalformed, 0,
			"delegation"},
		{"an empty one after it", append(slices.Clone(good), nil), nil, contracts.ReasonIntentMalformed, 0,
			"delegation"},
		{"a byte more", []contracts.Envelope{append(bytes.Clone(good[0]), ' '), good[1]}, nil,
			contracts.ReasonIntentMalformed, 0, "delegation"},
		{"seventeen", slices.Repeat(good[:1], 17), nil, contracts.ReasonIntentMalformed, 0, "delegation: more than 16"},
	} {
		d, r := under(w, c.chain, func(in *helm.Intent) {
			if c.change != nil {
				c.change(in)
			}
		})
		x := kerneltest.Denied(c.reason)
		if c.reason == contracts.ReasonAllow {
			x, allowed = kerneltest.Want{Verdict: contracts.Allow, Reason: c.reason, Outcome: contracts.Executed,
				Output: string(r.Output), Runs: 1}, allowed+1
		}
		w.MustBe(d, r, x)
		assert.Equal(t, c.at, d.Record.Condition, c.name)
		assert.Contains(t, d.Why, c.says, c.name)
		if c.reason != contracts.ReasonIntentMalformed {
			var leaf *contracts.Digest
			if c.chain != nil {
				digest := c.chain[0].Digest()
				leaf = &digest
			}
			assert.Equal(t, leaf, d.Record.Delegation, "%s: the leaf that is recorded", c.name)
		}
		if c.reason == contracts.ReasonAllow {
			assert.Equal(t, "agent", d.Record.Caller.ID, c.name)
			require.Len(t, d.Record.Charges, 1, c.name)
			assert.Equal(t, `{"id":"ann","tenant":"acme"}`, d.Record.Charges[0].Of, c.name)
		}
	}
	report := w.MustVerify()
	assert.Zero(t, report.Replay.NotReplayable)
	assert.Equal(t, allowed, report.Allows)
	assert.GreaterOrEqual(t, allowed, uint64(4))
	w.MustAgree(report)
}

// A tool calls others under the grants of its own call, and never as itself.
func TestDelegationOfNestedCalls(t *testing.T) {
	t.Parallel()
	both := []string{"echo", "outer"}
	for _, c := range []struct {
		name   string
		only   []string // of the parent
		inner  func(*helm.Intent)
		reason contracts.ReasonCode
	}{
		{"both tools", both, nil, contracts.ReasonAllow},
		{"the outer one alone", []string{"outer"}, nil, contracts.ReasonDelegationScopeViolation},
		{"as somebody else", both, func(in *helm.Intent) { in.Caller.ID = "carl" }, contracts.ReasonDelegationInvalid},
		{"as the delegator", both, func(in *helm.Intent) { in.Caller.ID = "ann" }, contracts.ReasonDelegationInvalid},
		{"under another grant", both, func(in *helm.Intent) {
			in.Delegation = kerneltest.Chain(t, contracts.Delegation{Delegator: "carl", Delegate: "agent"})
		}, contracts.ReasonNoPolicyDefined},
	} {
		w := newAgent(t)
		chain := kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "bob", Depth: 1, Only: c.only},
			contracts.Delegation{Delegator: "bob", Delegate: "agent", Only: both})
		var inner helm.Decision
		w.Tool = func(ctx context.Context, call contracts.Call) (executor.Result, error) {
			if call.Tool == "outer" {
				in := helm.Intent{Tool: "echo", Args: []byte(`{"sum":5,"text":"x"}`)}
				if c.inner != nil {
					c.inner(&in)
				}
				inner, _ = w.Kernel.Guard(ctx, in)
			}
			return executor.Result{}, nil
		}
		ctx := helm.With(context.Background(), helm.Intent{Caller: helm.Caller{ID: "agent"}, Session: "s",
			Delegation: chain})
		d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "outer", Args: []byte(`{}`)})
		leaf := inner.Record.Delegation
		assert.True(t, d.Allowed(), c.name)
		assert.Equal(t, c.reason, inner.Reason, c.name)
		require.NotNil(t, leaf, c.name)
		assert.Equal(t, c.name != "under another grant", *leaf == chain[0].Digest(), c.name)
		ran := int64(1)
		if c.reason == contracts.ReasonAllow {
			ran = 2
		}
		assert.Equal(t, ran, w.Runs.Load(), "%s: runs of the tool", c.name)
		w.MustVerify()
	}
}

// newAgent is a world with delegators, whose agent has no rights of its own.
func newAgent(t *testing.T, layers ...string) *kerneltest.World {
	return kerneltest.New(t, withDelegators(t, layers...))
}

func withDelegators(t *testing.T, layers ...string) func(*helm.Options) {
	return func(o *helm.Options) {
		o.Trust, o.Policy = kerneltest.Delegators(t), kerneltest.Compile(t,
			append([]string{kerneltest.DelegationPolicy}, layers...)...)
		o.Now = func() time.Time { return kerneltest.Noon }
		o.Drivers = map[string]executor.Driver{"echo": o.Drivers["echo"], "outer": o.Drivers["echo"]}
	}
}

func under(w *kerneltest.World, chain []contracts.Envelope,
	change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	w.T.Helper()
	agent := func(in *helm.Intent) {
		in.Caller, in.Delegation = helm.Caller{ID: "agent", Tenant: "acme", Roles: []string{"bot"}}, chain
	}
	return w.Call("echo", `{"sum":5,"text":"x"}`, append([]func(*helm.Intent){agent}, change...)...)
}
