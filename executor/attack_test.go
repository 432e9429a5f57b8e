package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// counter is a driver that counts its runs.
type counter struct{ runs atomic.Int64 }

func (c *counter) Run(context.Context, contracts.Call) (Result, error) {
	c.runs.Add(1)
	return Result{}, nil
}

func TestAdmitTakesTheDurableAllowOfThisCallOnly(t *testing.T) {
	t.Parallel()
	good, call := permitted()
	p, err := Admit(good, call)
	require.True(t, err == nil && p != nil, "%v", err) // or the refusals below would prove nothing
	notDurable := errors.New("not durable")
	for name, spoil := range map[string]func(*slot, *contracts.Call){
		"not durable": func(s *slot, _ *contracts.Call) { s.err = notDurable },
		"no decision": func(s *slot, _ *contracts.Call) { s.decision = nil },
		"no entry":    func(s *slot, _ *contracts.Call) { s.entry = nil },
		"denied":      func(s *slot, _ *contracts.Call) { s.decision.Verdict = contracts.Deny },
		"denied, reason left": func(s *slot, _ *contracts.Call) {
			s.decision.Reason = contracts.ReasonPolicyViolation
		},
		"arguments never understood": func(s *slot, _ *contracts.Call) { s.decision.ArgsForm = "raw" },
		"other tool":                 func(_ *slot, c *contracts.Call) { c.Tool = "fs.write" },
		"other arguments": func(_ *slot, c *contracts.Call) {
			c.Args = []byte(`{"path":"/etc/shadow"}`)
		},
		"same arguments, spelt otherwise": func(_ *slot, c *contracts.Call) { c.Args = []byte(`{"path": "/srv/a"}`) },
		"no arguments":                    func(_ *slot, c *contracts.Call) { c.Args = nil },
		"other caller":                    func(_ *slot, c *contracts.Call) { c.Caller.ID = "mallory" },
		"other tenant":                    func(_ *slot, c *contracts.Call) { c.Caller.Tenant = "evil" },
		"more roles": func(_ *slot, c *contracts.Call) {
			c.Caller.Roles = []string{"clerk", "owner", "root"}
		},
		"other session":            func(_ *slot, c *contracts.Call) { c.Session = "chat/2" },
		"session that is a prefix": func(_ *slot, c *contracts.Call) { c.Session = "chat" },
		"no session":               func(_ *slot, c *contracts.Call) { c.Session = "" },
		"decision without id":      func(s *slot, c *contracts.Call) { s.decision.ID, c.Session = "x", "x" },
	} {
		s, call := permitted()
		spoil(s, &call)
		p, err := Admit(s, call)
		assert.True(t, err != nil && p == nil, "%s: admitted", name)
		assert.True(t, s.err == nil || errors.Is(err, notDurable), "%s: %v", name, err)
	}
	if p, err := Admit(nil, call); err == nil || p != nil {
		t.Error("no slot: admitted")
	}
}

func TestPermitIsWhatTheDriverCanProve(t *testing.T) {
	t.Parallel()
	s, call := permitted()
	var got contracts.Call
	Run(context.Background(), admit(t),
		driver(func(_ context.Context, c contracts.Call) (Result, error) { got = c; return Result{}, nil }), ample)
	assert.True(t, got.Permit.DecisionID == s.decision.ID && got.Permit.Expires == s.decision.Expires &&
		bytes.Equal(got.Permit.Decision, s.entry), "%+v", got.Permit)
	assert.True(t, got.Tool == call.Tool && bytes.Equal(got.Args, call.Args) && got.Session == call.Session &&
		got.Caller.Equal(call.Caller), "%+v", got)
}

// Without an unspent permit, or without a driver, nothing is called, and the answer says so.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	c := new(counter)
	refused := func(name string, p *Permit, d Driver) {
		t.Helper()
		o := Run(context.Background(), p, d, ample)
		assert.True(t, o.Reason == contracts.ReasonFailClosedError && !o.Reason.Ran() && o.Err != nil &&
			o.Output == nil, "%s: %+v", name, o)
	}
	refused("no permit", nil, c)
	refused("zero permit", new(Permit), c)
	refused("no driver", admit(t), nil)
	refused("nil Func", admit(t), Func(nil))
	require.True(t, c.runs.Load() == 0, "ran %d times", c.runs.Load())

	p := admit(t)
	refused("no driver yet", p, nil)
	before := *p
	o := Run(context.Background(), p, c, ample)
	require.True(t, o.Reason == contracts.ReasonAllow && c.runs.Load() == 1, "a permit that met no driver runs: %+v", o)
	refused("used", p, c)
	refused("copy from before it was used", &before, c)
	after := *p
	refused("copy from after", &after, c)
	*p = before
	refused("restored", p, c)
	*p = Permit{}
	refused("wiped", p, c)
	assert.True(t, c.runs.Load() == 1, "ran %d times", c.runs.Load())
	_, err := Func(nil).Run(context.Background(), contracts.Call{})
	assert.Error(t, err, "a nil Func returned no error")
}

func TestPermitIsSpentOnce(t *testing.T) {
	t.Parallel()
	for range 50 {
		p, c := admit(t), new(counter)
		var ran, refused atomic.Int64
		var start, all sync.WaitGroup
		start.Add(1)
		for range 64 {
			all.Add(1)
			go func() {
				defer all.Done()
				mine := *p
				start.Wait()
				switch o := Run(context.Background(), &mine, c, ample); o.Reason {
				case contracts.ReasonAllow:
					ran.Add(1)
				case contracts.ReasonFailClosedError:
					refused.Add(1)
				}
			}()
		}
		start.Done()
		all.Wait()
		require.True(t, c.runs.Load() == 1 && ran.Load() == 1 && refused.Load() == 63,
			"%d runs, %d allowed, %d refused", c.runs.Load(), ran.Load(), refused.Load())
	}
}

// A tool that runs its own permit again, from inside its run, is refused.
func TestPermitIsSpentBeforeTheDriverRuns(t *testing.T) {
	t.Parallel()
	p := admit(t)
	var inner Outcome
	c := new(counter)
	Run(context.Background(), p, driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
		inner = Run(ctx, p, c, ample)
		return Result{}, nil
	}), ample)
	assert.True(t, inner.Reason == contracts.ReasonFailClosedError && c.runs.Load() == 0, "%+v, %d runs", inner,
		c.runs.Load())
}

// A driver that writes to everything it was given changes nothing of its caller's.
func TestTheCallIsTheDriversOwn(t *testing.T) {
	t.Parallel()
	s, call := permitted()
	want, wantCall := permitted()
	p, err := Admit(s, call)
	require.NoError(t, err)
	wreck := func(c contracts.Call) {
		for i := range c.Args {
			c.Args[i] = 'x'
		}
		for i := range c.Permit.Decision {
			c.Permit.Decision[i] = 'x'
		}
		for i := range c.Caller.Roles {
			c.Caller.Roles[i] = "root"
		}
	}
	var proof string
	o := Run(context.Background(), p, driver(func(_ context.Context, c contracts.Call) (Result, error) {
		_ = append(c.Args, "behind"...)
		proof = string(c.Permit.Decision)
		wreck(c)
		return Result{Output: c.Args}, nil
	}), ample)
	assert.Equal(t, string(want.entry), proof, "appending to the arguments reached the decision")
	// The driver wrote to it.
	require.True(t, o.Form == "raw" && strings.HasPrefix(string(o.Output), "xxx"), "%+v", o)
	assert.True(t, bytes.Equal(s.entry, want.entry) && bytes.Equal(call.Args, wantCall.Args) &&
		call.Caller.Equal(wantCall.Caller) && s.decision.Caller.Equal(wantCall.Caller),
		"the driver changed what it was given a copy of")

	// And the other way: the caller's buffer is used again for the next call while a driver still
	// runs.
	s, call = permitted()
	p, err = Admit(s, call)
	require.NoError(t, err)
	wreck(contracts.Call{Args: call.Args, Caller: call.Caller,
		Permit: contracts.AuthorizedExecutionIntent{Decision: s.entry}})
	o = Run(context.Background(), p, driver(func(_ context.Context, c contracts.Call) (Result, error) {
		assert.True(t, c.Caller.Roles[0] == "clerk" && bytes.Equal(c.Permit.Decision, want.entry),
			"the driver sees what became of the caller's memory")
		return Result{Output: c.Args}, nil
	}), ample)
	assert.Equal(t, string(wantCall.Args), string(o.Output), "%s", o.Output)
}

// A driver that keeps the slice that it returned, and goes on writing to it, changes nothing.
func TestTheOutputIsACopy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":1}`, `{ "b":1, "a":2 }`, `not JSON`} {
		kept := []byte(text)
		l := ample
		l.Check = nil
		o := try(t, context.Background(),
			driver(func(context.Context, contracts.Call) (Result, error) { return Result{Output: kept}, nil }), l)
		want := string(o.Output)
		for i := range kept {
			kept[i] = 'x'
		}
		assert.True(t, string(o.Output) == want && !strings.Contains(want, "x"), "%s became %s", want, o.Output)
	}
	// Nor does one that writes while the output is checked: the bytes that were checked are
	// released.
	kept := []byte(`{"admin":false}`)
	l := ample
	l.Check = func(v crypto.Value) bool {
		copy(kept, `{"admin":true }`)
		return !v.Get("admin").Bool()
	}
	o := try(t, context.Background(),
		driver(func(context.Context, contracts.Call) (Result, error) { return Result{Output: kept}, nil }), l)
	assert.True(t, o.Reason == contracts.ReasonAllow && string(o.Output) == `{"admin":false}`, "%s %s", o.Reason,
		o.Output)
}

// hostileError is an error whose every method panics.
type hostileError struct{}

func (hostileError) Error() string   { panic("in Error") }
func (hostileError) As(any) bool     { panic("in As") }
func (hostileError) Is(error) bool   { panic("in Is") }
func (hostileError) Unwrap() []error { panic("in Unwrap") }

// An exitingError ends the goroutine that calls one of its methods.
type exitingError struct{}

func (exitingError) Error() string { runtime.Goexit(); return "" }
func (exitingError) As(any) bool   { runtime.Goexit(); return false }

type secretive struct{ Secret string }

type stringer struct{}

func (stringer) String() string { return "a word from a Stringer" }

// An error names the type of the value that a driver panicked with. It never has its text, which
// the tool wrote, unless that is the Go runtime's own.
func TestPanicIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		with any
		want string
	}{
		"string":   {"hunter2", "executor: the driver panicked with a string"},
		"error":    {errOwn, "executor: the driver panicked with a *errors.errorString"},
		"stringer": {stringer{}, "executor: the driver panicked with a executor.stringer"},
		"struct":   {secretive{"hunter2"}, "executor: the driver panicked with a executor.secretive"},
		"pointer":  {&secretive{"hunter2"}, "executor: the driver panicked with a *executor.secretive"},
		"bytes":    {[]byte("hunter2"), "executor: the driver panicked with a []uint8"},
		"number":   {4711, "executor: the driver panicked with a int"},
		"nil":      {nil, "executor: the driver panicked: panic called with nil argument"},
		"hostile":  {hostileError{}, "executor: the driver panicked with a executor.hostileError"},
		"exiting":  {exitingError{}, "executor: the driver panicked with a executor.exitingError"},
		"fault":    {contain.Fault("no form"), "executor: no form"},
	} {
		o := try(t, context.Background(),
			driver(func(context.Context, contracts.Call) (Result, error) { panic(c.with) }), ample)
		if o.Reason != contracts.ReasonToolPanic || o.Err == nil || o.Err.Error() != c.want {
			t.Errorf("%s: %s %v, want %s", name, o.Reason, o.Err, c.want)
		} else if !utf8.ValidString(o.Err.Error()) || errors.Is(o.Err, errOwn) {
			t.Errorf("%s: %q", name, o.Err)
		}
	}
	o := try(t, context.Background(), driver(func(context.Context, contracts.Call) (Result, error) {
		m := map[bool]map[string]int{}[true] // nil, where no linter sees it
		m["x"] = 1
		return Result{}, nil
	}), ample)
	assert.True(t, o.Reason == contracts.ReasonToolPanic && strings.Contains(o.Err.Error(), "nil map"), "%+v", o)
	var none *counter
	if o := try(t, context.Background(), none, ample); o.Reason != contracts.ReasonToolPanic {
		t.Errorf("a nil pointer as a driver: %+v", o)
	}
}

// The methods of a tool's error are the tool's: none of them is called if that could do harm.
func TestHostileErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d    Driver
		want contracts.ReasonCode
	}{
		"panics":             {returns("", hostileError{}), contracts.ReasonToolError},
		"panics, in a box":   {boxed(returns("", hostileError{})), contracts.ReasonToolError},
		"exits":              {returns("", exitingError{}), contracts.ReasonToolError},
		"exits, in a box":    {boxed(returns("", exitingError{})), contracts.ReasonToolPanic},
		"nil of a type":      {returns("", (*json.SyntaxError)(nil)), contracts.ReasonToolError},
		"claims a timeout":   {returns("", context.DeadlineExceeded), contracts.ReasonToolError},
		"claims to be ended": {returns("", context.Canceled), contracts.ReasonToolError},
	} {
		o := try(t, context.Background(), c.d, ample)
		assert.True(t, o.Reason == c.want && o.Err != nil, "%s: %+v, want %s", name, o, c.want)
	}
}

// An odd is a context of a type of the caller's own.
type odd struct {
	deadline                                       time.Time
	done                                           chan struct{}
	err                                            error
	panicDone, panicErr, panicValue, panicDeadline bool
}

func (o odd) Deadline() (time.Time, bool) {
	if o.panicDeadline {
		panic("in Deadline")
	}
	return o.deadline, !o.deadline.IsZero()
}

func (o odd) Done() <-chan struct{} {
	if o.panicDone {
		panic("in Done")
	}
	return o.done
}

func (o odd) Err() error {
	if o.panicErr {
		panic("in Err")
	}
	return o.err
}

func (o odd) Value(any) any {
	if o.panicValue {
		panic("in Value")
	}
	return nil
}

// A caller's context whose methods panic does no harm, not even on the goroutines that package
// context starts for derived contexts.
func TestHostileContexts(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	close(ended)
	all := odd{panicDone: true, panicErr: true, panicValue: true, panicDeadline: true}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want contracts.ReasonCode
	}{
		"nil, ran":                    {nil, nil, contracts.ReasonAllow},
		"nil, failed":                 {nil, errOwn, contracts.ReasonToolError},
		"everything panics, ran":      {all, nil, contracts.ReasonAllow},
		"everything panics, failed":   {all, errOwn, contracts.ReasonToolCanceled},
		"Err panics":                  {odd{panicErr: true}, errOwn, contracts.ReasonToolCanceled},
		"Value panics":                {odd{panicValue: true}, errOwn, contracts.ReasonToolError},
		"Deadline panics":             {odd{panicDeadline: true}, errOwn, contracts.ReasonToolError},
		"Err without Done":            {odd{err: errOwn}, errOwn, contracts.ReasonToolCanceled},
		"Done without Err":            {odd{done: ended}, nil, contracts.ReasonAllow},
		"never ends and never panics": {odd{}, errOwn, contracts.ReasonToolError},
	} {
		o := try(t, c.ctx, driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
			_ = ctx.Value("key")
			_, _ = ctx.Deadline()
			_ = ctx.Err()
			inner, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			_, stop := context.WithTimeout(inner, time.Hour)
			defer stop()
			_ = context.Cause(inner)
			return Result{}, c.err
		}), ample)
		assert.Equal(t, c.want, o.Reason, "%s", name)
	}
	// One that cannot be waited for counts as ended, at once.
	o := try(t, odd{panicDone: true}, driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
		<-ctx.Done()
		return Result{}, ctx.Err()
	}), Limits{Timeout: 10 * time.Second})
	assert.Equal(t, contracts.ReasonToolCanceled, o.Reason, "Done panics")
}
