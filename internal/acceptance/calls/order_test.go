package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call with two or more faults is denied for the first in the published order, whatever the
// others are: every set of faults is tried.
func TestOrderOfReasons(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	type call struct {
		in     helm.Intent
		cancel bool
		seal   bool
	}
	faults := []struct {
		reason contracts.ReasonCode
		make   func(c *call)
	}{
		{contracts.ReasonKernelSealed, func(c *call) { c.seal = true }},
		{contracts.ReasonIntentMalformed, func(c *call) { c.in.Caller.Tenant = "a\nb" }},
		{contracts.ReasonArgsCanonicalization, func(c *call) { c.in.Args = append(c.in.Args, '}') }},
		{contracts.ReasonSessionClosed, func(c *call) { c.in.Session = "closed" }},
		{contracts.ReasonIdempotencyConflict, func(c *call) { c.in.Idempotency = "bound" }},
		{contracts.ReasonFailClosedError, func(c *call) { c.cancel = true }},
		{contracts.ReasonToolNotFound, func(c *call) { c.in.Tool = "nobody" }},
		{contracts.ReasonDriverNotBound, func(c *call) { c.in.Driver = nil }},
		{contracts.ReasonSchemaViolation, func(c *call) { c.in.Args = json.RawMessage(`{"path":"/etc","text":true}`) }},
		{contracts.ReasonDestinationNotAllowed, func(c *call) {
			c.in.Args = json.RawMessage(strings.Replace(string(c.in.Args), `"/srv"`, `"/etc"`, 1))
		}},
		{contracts.ReasonPolicyViolation, func(c *call) {
			c.in.Args = json.RawMessage(strings.Replace(string(c.in.Args), `"plain"`, `"secret"`, 1))
		}},
		{contracts.ReasonDelegationInvalid, func(c *call) {
			c.in.Delegation = kerneltest.Chain(t, contracts.Delegation{Delegator: "ann", Delegate: "somebody else"})
		}},
	}
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Trust = kerneltest.Delegators(t)
		o.Policy = kerneltest.Compile(t, `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  move:
    effect: write
    input: {type: object, required: [path, text], properties: {path: {type: string}, text: {type: string}}}
    scope: [{arg: /path, within: [/srv]}]
rules:
  - {id: no-secrets, deny: move, when: {arg: /text, finds: secret}}
  - {id: all, allow: move}
`)
	})
	other := kerneltest.New(t, func(o *helm.Options) { o.Policy = w.Options.Policy })
	other.Kernel.Close()
	good := func() helm.Intent {
		return helm.Intent{Tool: "move", Args: json.RawMessage(`{"path":"/srv","text":"plain"}`), Session: "open",
			Driver: helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
				w.Runs.Add(1)
				return nil, nil
			})}
	}
	first := good()
	for _, first.Session = range []string{"open", "closed"} {
		first.Idempotency, first.Caller.ID = "bound", "somebody else"
		d, _ := w.Kernel.Guard(context.Background(), first)
		require.NoError(t, d.Err())
	}
	require.NoError(t, w.Kernel.CloseSession(context.Background(), "closed"))
	d, _ := w.Kernel.Guard(context.Background(), good())
	require.NoError(t, d.Err())
	w.Runs.Store(0)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for set := 1; set < 1<<len(faults); set++ {
		if testing.Short() && bits.OnesCount(uint(set)) > 3 { // a full run has all sets
			continue
		}
		c := call{in: good()}
		want := contracts.ReasonCode("")
		// from the last, so that each fault finds the arguments of those after it
		for i := len(faults) - 1; i >= 0; i-- {
			if set>>i&1 == 1 {
				want = faults[i].reason
				faults[i].make(&c)
			}
		}
		k, ctx := w.Kernel, context.Background()
		if c.seal {
			k = other.Kernel
		}
		if c.cancel {
			ctx = ended
		}
		d, r := k.Guard(ctx, c.in)
		require.Equal(t, want, d.Reason, "faults %012b", set)
		require.False(t, d.Allowed(), "faults %012b", set)
		require.ErrorIs(t, d.Err(), helm.ErrDenied, "faults %012b", set)
		require.NotErrorIs(t, d.Err(), helm.ErrWithheld, "faults %012b", set)
		require.Equal(t, c.seal, len(r.Entry) == 0, "faults %012b", set)
		require.Equal(t, want == contracts.ReasonFailClosedError, errors.Is(d.Err(), context.Canceled), "faults %012b",
			set)
	}
	assert.Zero(t, w.Runs.Load(), "runs of the tool")
	w.MustVerify()
}

// unfolds is an argument whose type seals the kernel while it is encoded: the call was admitted
// before.
type unfolds struct{}

var whileReading func()

func (unfolds) MarshalJSON() ([]byte, error) { return []byte(`{"n":1}`), nil }

func (*unfolds) UnmarshalJSON([]byte) error { whileReading(); return nil }

// A kernel that seals while a call waits for the lock of its session denies the call as sealed, and
// writes nothing.
func TestSealedOnTheWay(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"echo", "nobody"} {
		w := kerneltest.NewUnbound(t)
		whileReading = func() {
			w.Store.FailIn(1)
			w.Call("slow", `{}`, kerneltest.InSession("another"))
		}
		_, err := helm.Wrap(w.Kernel, tool, func(context.Context, unfolds) (int, error) {
			w.Runs.Add(1)
			return 0, nil
		})(context.Background(), unfolds{})
		var refused *helm.Error
		require.ErrorAs(t, err, &refused, tool)
		assert.Equal(t, contracts.ReasonKernelSealed, refused.Reason, tool)
		assert.ErrorIs(t, err, kerneltest.ErrDisk, tool)
		assert.ErrorIs(t, err, helm.ErrDenied, tool)
		assert.Zero(t, w.Runs.Load(), tool)
		w.MustBeSealed()
		w.MustRecover(nil)
	}
}

// A cause that wraps an answer of HELM, or that matches every error, does not make an error both
// ErrDenied and ErrWithheld.
func TestNeverBothSentinels(t *testing.T) {
	kerneltest.OneWriter(t, "it counts the appends of New")
	t.Parallel()
	for name, cause := range map[string]error{
		"denied":   fmt.Errorf("quota: %w", helm.ErrDenied),
		"withheld": &helm.Error{Tool: "disk", Reason: contracts.ReasonToolTimeout},
		"yes":      yes{},
		"approval": helm.ErrApprovalRequired,
	} {
		for n := 1; n <= 2; n++ {
			w := kerneltest.New(t)
			w.Store.OnFail = func(error) error { return cause }
			w.Store.FailIn(n)
			d, _ := w.Call("echo", `{}`)
			sealed, _ := w.Call("echo", `{}`)
			for _, d := range []helm.Decision{d, sealed} {
				err := d.Err()
				assert.NotEqual(t, errors.Is(err, helm.ErrWithheld), errors.Is(err, helm.ErrDenied), "%s, append %d",
					name, n)
				assert.NotEqual(t, d.Reason.Ran(), errors.Is(err, helm.ErrDenied), "%s, append %d", name, n)
				assert.NotErrorIs(t, err, helm.ErrApprovalRequired, "%s, append %d", name, n)
				assert.Contains(t, err.Error(), cause.Error(), "%v does not name its cause", err)
			}
		}
	}
}

type yes struct{}

func (yes) Error() string { return "yes" }

func (yes) Is(error) bool { return true }

// chatty is a context that has ended, whose error is private, and whose Err makes a call of its
// own.
type chatty struct {
	context.Context
	w    *kerneltest.World
	done chan struct{}
	busy *bool
}

func (c chatty) Done() <-chan struct{} { return c.done }

func (c chatty) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if !*c.busy {
		*c.busy = true
		c.w.Call("pinned", `{}`)
	}
	return chattyError{c}
}

type chattyError struct{ c chatty }

func (e chattyError) Error() string { e.c.w.Call("pinned", `{}`); return "private" }

// No method of the caller's is called while a lock is held, and what it returns goes to the caller
// alone.
func TestContextThatMakesCalls(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	ctx := chatty{context.Background(), w, make(chan struct{}), new(bool)}
	armed := false
	w.Options.Now = func() time.Time {
		if armed { // the context ends after it was read, and before the call is judged
			armed = false
			close(ctx.done)
		}
		return time.Now()
	}
	w.Open()
	armed = true
	kerneltest.Within(t, 10*time.Second, "a context that makes calls", func() {
		d, r := w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: "s"})
		assert.Equal(t, contracts.ReasonFailClosedError, d.Reason)
		assert.NotContains(t, d.Why, "private")
		assert.NotEmpty(t, d.Why)
		assert.NotEmpty(t, r.Entry)
		assert.ErrorAs(t, d.Err(), new(chattyError))
	})
	w.MustVerify()
}

// Only the two answers that have an output have no error.
func TestErrIsNilOnlyWithAnOutput(t *testing.T) {
	t.Parallel()
	for _, d := range []helm.Decision{{}, {Verdict: contracts.Allow},
		{Verdict: contracts.Allow, Reason: contracts.ReasonToolError}, {Reason: contracts.ReasonAllow},
		{Verdict: contracts.Allow, Reason: contracts.ReasonOutcomeUnknown}} {
		assert.Error(t, d.Err(), "%v %s has no error", d.Verdict, d.Reason)
	}
	assert.NoError(t, (helm.Decision{Verdict: contracts.Allow, Reason: contracts.ReasonAllow}).Err())
}

// The observer of a sealed kernel is told which call was denied, by a name that can be shown.
func TestSealedCallsHaveNames(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Kernel.Close()
	w.Events = nil
	ctx := helm.With(context.Background(), helm.Intent{Session: "s"})
	w.Kernel.Guard(ctx, helm.Intent{Tool: "echo"})
	d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "a\nb"})
	require.Len(t, w.Events, 2)
	assert.Equal(t, "echo", w.Events[0].Tool)
	assert.Equal(t, "s", w.Events[0].Session)
	assert.Equal(t, contracts.Hashed("a\nb"), w.Events[1].Tool)
	assert.NotContains(t, d.Err().Error(), "\n")
	var none *helm.Kernel
	d, _ = none.Guard(ctx, helm.Intent{Tool: "a\nb"})
	assert.NotContains(t, d.Err().Error(), "\n")
}

// A tool of one kernel that calls another kernel is chained in its own log alone.
func TestCallsIntoAnotherKernel(t *testing.T) {
	t.Parallel()
	w, other := kerneltest.New(t), kerneltest.New(t)
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		d, r := other.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`)})
		assert.NoError(t, d.Err())
		assert.Equal(t, "ada", d.Record.Caller.ID)
		assert.Equal(t, "s/0", d.Record.ID)
		return executor.Result{Output: r.Output}, nil
	}
	w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`, func(in *helm.Intent) { in.Caller.ID = "ada" })
}

// A goroutine that outlives its tool calls with the roles of the tool's caller, whatever the
// caller does with the answer.
func TestRolesOfWhatToolsLeaveBehind(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	behind, release := make(chan helm.Decision), make(chan struct{})
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "echo" {
			go func() {
				<-release
				d, _ := w.Kernel.Guard(context.WithoutCancel(ctx),
					helm.Intent{Tool: "pinned", Args: json.RawMessage(`{}`)})
				behind <- d
			}()
		}
		return executor.Result{Output: []byte(`{"ok":true}`)}, nil
	}
	d, _ := w.Call("echo", `{}`, func(in *helm.Intent) { in.Caller.Roles = []string{"clerk"} })
	d.Record.Caller.Roles[0] = "root"
	close(release)
	d = <-behind
	assert.NoError(t, d.Err())
	assert.Equal(t, "clerk", d.Record.Caller.Roles[0])
	w.MustVerify()
}
