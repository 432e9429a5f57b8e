package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/cell"
)

// The lines of the outcome table that are the executor's to decide, one case a line.
func TestOutcomeTable(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	defer close(held)
	hang := driver(func(context.Context, contracts.Call) (Result, error) { <-held; return Result{}, nil })
	heed := driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
		<-ctx.Done()
		return Result{}, ctx.Err()
	})
	pinned := func(ok bool) Limits { l := ample; l.Check = func(crypto.Value) bool { return ok }; return l }

	// goes is a case in which the caller goes away while the driver runs.
	goes := func(then driver, l Limits) func(*testing.T) Outcome {
		return func(t *testing.T) Outcome {
			ctx, cancel := context.WithCancel(context.Background())
			return try(t, ctx, driver(func(ctx context.Context, c contracts.Call) (Result, error) {
				cancel()
				<-ctx.Done()
				return then(ctx, c)
			}), l)
		}
	}
	plain := func(d Driver, l Limits) func(*testing.T) Outcome {
		return func(t *testing.T) Outcome { return try(t, context.Background(), d, l) }
	}
	for _, c := range []struct {
		name   string
		do     func(*testing.T) Outcome
		reason contracts.ReasonCode
		output string
		form   string
		err    error // what Err Is; nil: any or none
	}{
		{"ran", plain(returns(`{"b":1,"a":2}`, nil), ample), contracts.ReasonAllow, `{"a":2,"b":1}`, "jcs", nil},
		{"ran, not JSON", plain(returns(`hello`, nil), ample), contracts.ReasonAllow, `hello`, "raw", nil},
		{"ran, no output", plain(returns(``, nil), ample), contracts.ReasonAllow, `null`, "jcs", nil},
		{"the tool's own error", plain(returns(`{"a":1}`, errOwn), ample), contracts.ReasonToolError, "", "", errOwn},
		{"schema kept", plain(returns(`{"a":1}`, nil), pinned(true)), contracts.ReasonAllow, `{"a":1}`, "jcs", nil},
		{"schema broken", plain(returns(`{ "a":1}`, nil), pinned(false)), contracts.ReasonContractDrift, `{"a":1}`,
			"jcs", nil},
		{"schema and not JSON", plain(returns(`{"a":1`, nil), pinned(true)), contracts.ReasonContractDrift, `{"a":1`,
			"raw", nil},
		{"output over its limit", plain(returns(`{"a":1}`, nil), Limits{Timeout: time.Hour, Output: 6}),
			contracts.ReasonOutputExhausted, "", "", nil},
		{"gas", plain(boxed(returns("", LimitError{contracts.ReasonGasExhausted})), ample),
			contracts.ReasonGasExhausted, "", "", LimitError{contracts.ReasonGasExhausted}},
		{"time of a sandbox", plain(boxed(returns("", &LimitError{contracts.ReasonTimeExhausted})), ample),
			contracts.ReasonTimeExhausted, "", "", LimitError{contracts.ReasonTimeExhausted}},
		{"memory", plain(boxed(returns("", fmt.Errorf("guest: %w", LimitError{contracts.ReasonMemoryExhausted}))),
			ample), contracts.ReasonMemoryExhausted, "", "", nil},
		{"output of a sandbox", plain(boxed(returns("x", LimitError{contracts.ReasonOutputExhausted})), ample),
			contracts.ReasonOutputExhausted, "", "", nil},
		{"time limit, error", plain(heed, brief), contracts.ReasonToolTimeout, "", "", context.DeadlineExceeded},
		{"time limit, no return", plain(hang, brief), contracts.ReasonToolTimeout, "", "", context.DeadlineExceeded},
		{"no time at all", plain(hang, Limits{}), contracts.ReasonToolTimeout, "", "", context.DeadlineExceeded},
		{"caller gone, error", goes(returns("", errOwn), ample), contracts.ReasonToolCanceled, "", "",
			context.Canceled},
		{"caller gone, no return", goes(hang, Limits{Timeout: 20 * time.Millisecond}), contracts.ReasonToolCanceled, "",
			"", context.Canceled},
		{"caller gone, no error", goes(returns("1", nil), ample), contracts.ReasonAllow, "1", "jcs", nil},
		{"panic", plain(driver(func(context.Context, contracts.Call) (Result, error) { panic("ouch") }), ample),
			contracts.ReasonToolPanic, "", "", nil},
		{"Goexit",
			plain(driver(func(context.Context, contracts.Call) (Result, error) {
				runtime.Goexit()
				return Result{}, nil
			}), ample), contracts.ReasonToolPanic, "", "", errGoexit},
		{"caller gone, panic", goes(func(context.Context, contracts.Call) (Result, error) { panic("ouch") }, ample),
			contracts.ReasonToolPanic, "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.do(t)
			assert.True(t, o.Reason == c.reason && string(o.Output) == c.output && o.Form == c.form &&
				(o.Output == nil) == (c.form == ""), "%s %q %q, want %s %q %q", o.Reason, o.Output, o.Form, c.reason,
				c.output, c.form)
			assert.True(t, c.err == nil || errors.Is(o.Err, c.err), "error %v, want %v", o.Err, c.err)
			assert.True(t, c.reason != contracts.ReasonAllow && c.reason != contracts.ReasonContractDrift ||
				o.Err == nil, "error %v with %s", o.Err, c.reason)
			_, verdict := o.Reason.Ending()
			assert.True(t, o.Reason.Ran() && (verdict != contracts.Allow || c.reason == contracts.ReasonAllow ||
				c.reason == contracts.ReasonToolError), "%s: verdict %s", o.Reason, verdict)
		})
	}
}

// A nil error wins over an ended context, and so does the limit that a sandbox reports: a driver
// that heeds its context is not abandoned at the moment at which the limit is reached.
func TestDriverThatHeedsItsLimitIsHeard(t *testing.T) {
	t.Parallel()
	limit := LimitError{contracts.ReasonTimeExhausted}
	for _, c := range []struct {
		name  string
		after time.Duration // after the limit
		err   error
		want  contracts.ReasonCode
	}{
		{"at once, no error", 0, nil, contracts.ReasonAllow},
		{"at once, error", 0, errOwn, contracts.ReasonToolTimeout},
		{"at once, sandbox stopped", 0, limit, contracts.ReasonTimeExhausted},
		{"soon, no error", grace - 1, nil, contracts.ReasonAllow},
		{"soon, sandbox stopped", grace - 1, limit, contracts.ReasonTimeExhausted},
		{"too late, no error", grace + 1, nil, contracts.ReasonToolTimeout},
		{"too late, sandbox stopped", grace + 1, limit, contracts.ReasonToolTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			over := make(chan struct{})
			o := Run(context.Background(), admit(t), boxed(func(ctx context.Context, _ contracts.Call) (Result, error) {
				defer close(over)
				<-ctx.Done()
				<-time.After(c.after)
				return Result{Output: []byte("1"), Gas: 9}, c.err
			}), Limits{Timeout: time.Minute, Output: 1})
			<-over
			assert.True(t, o.Reason == c.want && (string(o.Output) == "1") == (c.want == contracts.ReasonAllow),
				"%s: %+v, want %s", c.name, o, c.want)
		})
	}
}

// The driver ends at the moment at which it is abandoned: the outcome is one of the two, and
// nothing in between.
func TestEndAtTheMomentOfAbandonment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := make(chan bool, 1)
		for range 200 {
			o := Run(context.Background(), admit(t), driver(func(context.Context, contracts.Call) (Result, error) {
				<-time.After(time.Minute + grace)
				return Result{Output: []byte("1")}, nil
			}), Limits{Timeout: time.Minute, Output: 1})
			switch {
			case o.Reason == contracts.ReasonAllow && string(o.Output) == "1" && o.Err == nil && o.Late == nil:
			case o.Reason == contracts.ReasonToolTimeout && o.Output == nil && o.Err == context.DeadlineExceeded:
				o.Late(func(Result, error) { late <- true })
				<-late
			default:
				t.Fatalf("%+v", o)
			}
		}
		synctest.Wait()
		assert.Empty(t, late, "told twice")
	})
}

// A driver that reads the deadline and keeps to it has met the tool's limit, though its context may
// not have ended yet.
func TestDeadlineThatTheDriverMetItself(t *testing.T) {
	t.Parallel()
	past := time.Unix(0, 0)
	for _, c := range []struct {
		name string
		ctx  context.Context
		l    Limits
		want contracts.ReasonCode
	}{
		{"limit", context.Background(), brief, contracts.ReasonToolTimeout},
		{"caller's", odd{deadline: past}, ample, contracts.ReasonToolCanceled},
		{"neither", context.Background(), ample, contracts.ReasonToolError},
	} {
		o := try(t, c.ctx, driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
			at, ok := ctx.Deadline()
			for ok && c.want == contracts.ReasonToolTimeout && time.Now().Before(at) {
				runtime.Gosched()
			}
			return Result{}, errOwn
		}), c.l)
		assert.Equal(t, c.want, o.Reason, "%s", c.name)
	}
}

// The cell of a driver runs. Without one of the driver's own nothing runs, and the permit is not
// spent if that was known before.
func TestCellRuns(t *testing.T) {
	t.Parallel()
	ran := 0
	d := boxed(func(context.Context, contracts.Call) (Result, error) {
		ran++
		return Result{Output: []byte("1"), Gas: 5}, nil
	})
	other := boxed(returns("2", nil))
	p := admit(t)
	for name, c := range map[string]*cell.Cell{"nil": nil, "zero": new(cell.Cell), "another's": cell.Take(d.cell, other)} {
		o := RunCell(t.Context(), p, c, ample)
		assert.True(t, o.Reason == contracts.ReasonFailClosedError && o.Err != nil, "%s: %+v", name, o)
	}
	taken := cell.Take(d.cell, d)
	*d.cell = *other.cell
	o := RunCell(t.Context(), p, taken, ample)
	assert.True(t, o.Reason == contracts.ReasonAllow && string(o.Output) == "1" && o.Gas == 5 && ran == 1, "%+v", o)
	o = RunCell(t.Context(), p, taken, ample)
	assert.True(t, o.Reason == contracts.ReasonFailClosedError && ran == 1, "the permit was used: %+v", o)
	o = Run(t.Context(), admit(t), d, ample)
	assert.True(t, o.Reason == contracts.ReasonFailClosedError && ran == 1, "the cell is another's now: %+v", o)
	assert.Equal(t, contracts.ReasonFailClosedError, RunCell(t.Context(), nil, taken, ample).Reason)
}

// A LimitError is believed only from a cell with grants, and only about limits.
func TestLimitErrorIsBelievedFromASandboxOnly(t *testing.T) {
	t.Parallel()
	gas := LimitError{contracts.ReasonGasExhausted}
	for name, c := range map[string]struct {
		driver Driver
		want   contracts.ReasonCode
	}{
		"value":           {boxed(returns("", gas)), contracts.ReasonGasExhausted},
		"pointer":         {boxed(returns("", &gas)), contracts.ReasonGasExhausted},
		"joined":          {boxed(returns("", errors.Join(errOwn, &gas))), contracts.ReasonGasExhausted},
		"plain driver":    {returns("", gas), contracts.ReasonToolError},
		"ALLOW":           {boxed(returns("", LimitError{contracts.ReasonAllow})), contracts.ReasonToolError},
		"denial":          {boxed(returns("", LimitError{contracts.ReasonPolicyViolation})), contracts.ReasonToolError},
		"unknown":         {boxed(returns("", LimitError{"ERR_COMPUTE_LUCK_EXHAUSTED"})), contracts.ReasonToolError},
		"empty":           {boxed(returns("", LimitError{})), contracts.ReasonToolError},
		"nil pointer":     {boxed(returns("", (*LimitError)(nil))), contracts.ReasonToolError},
		"error that says": {boxed(returns("", hostileError{})), contracts.ReasonToolError},
		"no grants":       {inSandbox(reported, returns("", gas)), contracts.ReasonToolError},
		"wraps one":       {struct{ *sandboxed }{boxed(returns("", gas))}, contracts.ReasonFailClosedError},
	} {
		o := try(t, context.Background(), c.driver, ample)
		assert.Equal(t, c.want, o.Reason, "%s", name)
	}
}

func TestGasIsThatOfASandbox(t *testing.T) {
	t.Parallel()
	lots := boxed(func(context.Context, contracts.Call) (Result, error) { return Result{Gas: 1 << 63}, nil })
	for name, c := range map[string]struct {
		driver Driver
		gas    uint64
	}{
		"sandbox":            {boxed(returns("1", nil)), 7},
		"sandbox that fails": {boxed(returns("", errOwn)), 7},
		"sandbox, limit":     {boxed(returns("", LimitError{contracts.ReasonGasExhausted})), 7},
		"more than a record": {lots, 1 << 63},
		"plain driver":       {returns("1", nil), 0},
		"panic":              {boxed(func(context.Context, contracts.Call) (Result, error) { panic(1) }), 0},
	} {
		o := try(t, context.Background(), c.driver, ample)
		assert.Equal(t, c.gas, o.Gas, "%s", name)
	}
}

// The end of an abandoned driver is passed on, whatever it is, be it before or after the caller
// asks for it, and nothing in the caller's function can do harm.
func TestLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func() (Result, error)
		want string
	}{
		"result": {func() (Result, error) { return Result{Output: []byte("late")}, nil }, "late <nil>"},
		"error":  {func() (Result, error) { return Result{}, errOwn }, " no such file"},
		"panic":  {func() (Result, error) { panic("ouch") }, " executor: the driver panicked with a string"},
		"Goexit": {func() (Result, error) { runtime.Goexit(); return Result{}, nil },
			" executor: the driver ended its goroutine (runtime.Goexit)"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []string{"the call", "the driver"} {
				synctest.Test(t, func(t *testing.T) {
					release, seen := make(chan struct{}), make(chan string, 1)
					o := try(t, context.Background(), driver(func(context.Context, contracts.Call) (Result, error) {
						<-release
						return c.end()
					}), brief)
					require.True(t, o.Reason == contracts.ReasonToolTimeout && o.Output == nil, "%+v", o)
					if first == "the driver" {
						close(release)
						synctest.Wait()
					}
					o.Late(func(r Result, err error) {
						seen <- fmt.Sprintf("%s %v", r.Output, err)
						panic("in the observer")
					})
					if first == "the call" {
						assert.Empty(t, seen, "told of a driver that still runs")
						close(release)
					}
					assert.Equal(t, c.want, <-seen, first)
				})
			}
		})
	}
	o := try(t, context.Background(), returns("1", nil), ample)
	assert.Nil(t, o.Late, "of a driver in time")
}
