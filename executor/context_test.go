package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

type key struct{}

// The driver's context has the caller's values, the earlier deadline, and an end of its own.
func TestDriversContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that times can be compared exactly
		start := time.Now()
		for _, c := range []struct {
			name    string
			callers time.Duration // 0: none
			limit   time.Duration
			want    time.Duration
			err     error
			reason  contracts.ReasonCode
		}{
			{"limit", 0, time.Minute, time.Minute, context.DeadlineExceeded, contracts.ReasonToolTimeout},
			{"limit first", time.Hour, time.Minute, time.Minute, context.DeadlineExceeded, contracts.ReasonToolTimeout},
			{"caller first", time.Second, time.Minute, time.Second, context.Canceled, contracts.ReasonToolCanceled},
		} {
			ctx := context.WithValue(context.Background(), key{}, "the caller's")
			if c.callers > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.callers)
				defer cancel()
			}
			from := time.Now()
			o := try(t, ctx, driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
				if at, ok := ctx.Deadline(); !ok || at.Sub(from) != c.want {
					t.Errorf("%s: deadline after %v, %v", c.name, at.Sub(from), ok)
				}
				assert.True(t, ctx.Value(key{}) == "the caller's" && ctx.Err() == nil, "%s: value %v, error %v", c.name,
					ctx.Value(key{}), ctx.Err())
				derived, cancel := context.WithTimeout(ctx, 24*time.Hour)
				defer cancel()
				<-derived.Done()
				assert.True(t, ctx.Err() == c.err && derived.Err() == c.err && time.Since(from) == c.want,
					"%s: ended with %v, the derived one with %v, after %v", c.name, ctx.Err(), derived.Err(),
					time.Since(from))
				<-ctx.Done()
				return Result{}, derived.Err()
			}), Limits{Timeout: c.limit})
			assert.Equal(t, c.reason, o.Reason, "%s", c.name)
		}
		assert.NotEqual(t, time.Duration(0), time.Since(start), "no time passed: nothing was checked")
	})
}

// A caller that goes away does not free the driver: it has until its limit, and then it is
// abandoned.
func TestAbandonedAtTheLimitNotBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		held := make(chan struct{})
		from := time.Now()
		o := try(t, ctx, driver(func(context.Context, contracts.Call) (Result, error) {
			cancel()
			<-held
			return Result{}, nil
		}), Limits{Timeout: time.Minute})
		assert.True(t, o.Reason == contracts.ReasonToolCanceled && time.Since(from) == time.Minute, "%s after %v",
			o.Reason, time.Since(from))
		close(held)

		// One that ends late, but before the limit, is not: its outcome is known.
		ctx, cancel = context.WithCancel(context.Background())
		o = try(t, ctx, driver(func(context.Context, contracts.Call) (Result, error) {
			cancel()
			<-time.After(59 * time.Second)
			return Result{Output: []byte("1")}, nil
		}), Limits{Timeout: time.Minute, Output: 1})
		assert.Equal(t, contracts.ReasonAllow, o.Reason, "%+v", o)
	})
}

// When the run is over its context ends, and so does everything that was derived from it; nothing
// is left running.
func TestContextEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is still running
		var own, derived context.Context
		calls := make(chan string, 8)
		var stopped, kept func() bool
		o := try(t, context.Background(), driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
			before := runtime.NumGoroutine()
			own = ctx
			var cancel context.CancelFunc
			derived, cancel = context.WithCancel(ctx)
			_ = cancel // not called: the run must end it
			stopped = context.AfterFunc(ctx, func() { calls <- "stopped" })
			kept = context.AfterFunc(derived, func() { calls <- "kept" })
			n := runtime.NumGoroutine()
			assert.Equal(t, before, n, "%d goroutines more for derived contexts", n-before)
			assert.True(t, stopped() && !stopped(), "stop does not tell whether it stopped")
			return Result{}, nil
		}), ample)
		synctest.Wait()
		assert.True(t, o.Reason == contracts.ReasonAllow && own.Err() == context.Canceled &&
			derived.Err() == context.Canceled, "%s: %v, %v", o.Reason, own.Err(), derived.Err())
		<-own.Done()
		got := <-calls
		assert.True(t, got == "kept" && len(calls) == 0 && !kept(), "%s was called, %d more", got, len(calls))
		late := make(chan bool)
		stop := context.AfterFunc(own, func() { close(late) })
		assert.False(t, stop(), "stopped what follows at once")
		<-late
	})
}

// A function that is registered after the end is called at once, in its own goroutine. Package
// context registers one only before the end.
func TestAfterFuncAfterTheEnd(t *testing.T) {
	t.Parallel()
	l := runContext{caller: context.Background()}
	require.True(t, l.end(errOwn) && !l.end(context.Canceled) && l.Err() == errOwn, "a context ends once")
	called := make(chan bool)
	stop := l.AfterFunc(func() { called <- true })
	assert.True(t, !stop() && <-called && !stop(), "stopped what was called")
}

// The cause of the caller's end reaches the driver.
func TestCauseOfTheCallersEnd(t *testing.T) {
	t.Parallel()
	why := errors.New("the user pressed stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	var got, derived error
	try(t, ctx, driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
		inner, stop := context.WithCancel(ctx)
		defer stop()
		cancel(why)
		<-inner.Done()
		got, derived = context.Cause(ctx), context.Cause(inner)
		return Result{}, nil
	}), ample)
	assert.True(t, got == why && derived == why, "causes %v and %v", got, derived)
}

// A context that is printed shows no arguments.
func TestContextShowsNoArguments(t *testing.T) {
	t.Parallel()
	var text string
	try(t, context.Background(), driver(func(ctx context.Context, _ contracts.Call) (Result, error) {
		text = fmt.Sprint(ctx, context.WithValue(ctx, key{}, 1))
		return Result{}, nil
	}), ample)
	assert.True(t, text != "" && !strings.Contains(text, "/srv") && strings.Contains(text, "executor.run"), "%v", text)
}

// The clock counts as much as an end of the context: see runContext.endedBy.
func TestOverByTheClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		callers, limit time.Duration
		want           error
	}{
		"neither":      {time.Hour, time.Hour, nil},
		"limit":        {time.Hour, -1, context.DeadlineExceeded},
		"caller's":     {-1, time.Hour, context.Canceled},
		"caller first": {-2, -1, context.Canceled},
		"limit first":  {-1, -2, context.DeadlineExceeded},
	} {
		l := runContext{caller: odd{deadline: now.Add(c.callers)}, deadline: now.Add(c.limit)}
		err := l.endedBy()
		assert.True(t, err == c.want && l.Err() == nil, "%s: %v, want %v", name, err, c.want)
	}
}
