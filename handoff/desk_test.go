package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
)

func nothing(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }

// TestLastWords: each way in which a call that was handed over ends has one receipt, which every
// report gets.
func TestLastWords(t *testing.T) {
	t.Parallel()
	const allow, deny = contracts.Allow, contracts.Deny
	settled := func(o Outcome) func(*Ticket) { return func(t *Ticket) { t.Settle(o) } }
	for name, x := range map[string]struct {
		tool    string
		end     func(*Ticket)
		verdict contracts.Verdict
		reason  contracts.ReasonCode
		outcome contracts.Outcome
		output  string
		form    string
	}{
		"JSON":      {"mail", settled(Outcome{Output: []byte(`{"b": 1.0}`)}), allow, contracts.ReasonAllow, contracts.Executed, `{"b":1}`, "jcs"},
		"text":      {"mail", settled(Outcome{Output: []byte(`1.10`), Raw: true}), allow, contracts.ReasonAllow, contracts.Executed, `1.10`, "raw"},
		"nothing":   {"mail", settled(Outcome{}), allow, contracts.ReasonAllow, contracts.Executed, `null`, "jcs"},
		"failed":    {"mail", settled(Outcome{Output: []byte(`no`), Failed: true}), allow, contracts.ReasonToolError, contracts.Failed, `no`, "raw"},
		"error":     {"mail", settled(Outcome{Output: []byte(`no`), Err: errors.New("down")}), allow, contracts.ReasonToolError, contracts.Failed, "", ""},
		"limit":     {"mail", settled(Outcome{Err: executor.LimitError{Reason: contracts.ReasonGasExhausted}}), allow, contracts.ReasonToolError, contracts.Failed, "", ""},
		"drift":     {"typed", settled(Outcome{Output: []byte(`{"no":1}`)}), deny, contracts.ReasonContractDrift, contracts.Withheld, "", "jcs"},
		"as pinned": {"typed", settled(Outcome{Output: []byte(`{"ok":true}`)}), allow, contracts.ReasonAllow, contracts.Executed, `{"ok":true}`, "jcs"},
		"too long":  {"ask", settled(Outcome{Output: []byte(strings.Repeat("x", 2000))}), deny, contracts.ReasonOutputExhausted, contracts.Withheld, "", ""},
		"dropped":   {"mail", func(t *Ticket) { t.Drop() }, deny, contracts.ReasonToolCanceled, contracts.Indeterminate, "", ""},
		"no report": {"ask", func(t *Ticket) { <-t.Done() }, deny, contracts.ReasonToolTimeout, contracts.Indeterminate, "", ""},
		"closed": {"mail", func(t *Ticket) { _ = t.desk.Close(context.Background()) }, deny, contracts.ReasonToolCanceled,
			contracts.Indeterminate, "", ""},
		"session dropped": {"mail", func(t *Ticket) { t.desk.DropSession("x"); t.desk.DropSession("s"); <-t.Done() }, deny,
			contracts.ReasonToolCanceled, contracts.Indeterminate, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			ticket := w.must(x.tool)
			require.Len(t, ticket.ID(), 64)
			require.Same(t, ticket, w.Ticket(ticket.ID()))
			x.end(ticket)
			d, r, mine := ticket.Settle(Outcome{Output: []byte("late")})
			assert.False(t, mine, "the second report was recorded")
			assert.Equal(t, x.verdict, d.Verdict)
			assert.True(t, d.Reason == x.reason && r.Record.Reason == x.reason && r.Record.Outcome == x.outcome, "%+v", r.Record)
			assert.Equal(t, x.output, string(r.Output))
			assert.Equal(t, x.form, r.Record.OutputForm)
			use := r.Record.Sandbox
			assert.True(t, use != nil && use.Profile == Profile && use.Module == definition && use.Grants == nil && use.Gas == 0, "%+v", use)
			assert.Equal(t, ticket.ID(), r.Record.DecisionHash.String())
			again, same := ticket.Drop()
			assert.True(t, again.Reason == d.Reason && same.Index == r.Index)
			assert.Same(t, ticket, w.Ticket(ticket.ID()), "known after it is settled")
			<-ticket.Done()
			w.ends()
			reported := uint64(1)
			if x.outcome == contracts.Indeterminate { // nobody did
				reported = 0
			}
			report := w.MustVerify()
			assert.Equal(t, reported, report.Reported)
			assert.Equal(t, reported > 0, strings.Contains(report.String(), "as they were reported"))
		})
	}
}

// TestTicket: it has what was judged, and the permission, which is durable.
func TestTicket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	ticket := w.must("mail")
	call := ticket.Call()
	assert.True(t, call.Tool == "mail" && string(call.Args) == `{"a":1}` && call.Session == "s" && call.Caller.ID == "ann")
	assert.Equal(t, w.Entry(w.Size()-1), call.Permit.Decision, "the ALLOW is durable")
	_, r, mine := ticket.Settle(Outcome{Output: []byte("1")})
	assert.True(t, mine && string(r.Output) == "1")
	w.ends()

	var none *Ticket
	d, r, mine := none.Settle(Outcome{})
	assert.True(t, d.Err() != nil && !mine && r.Entry == nil && none.ID() == "" && none.Call().Args == nil)
	d, _ = none.Drop()
	assert.ErrorIs(t, d.Err(), helm.ErrDenied)
	<-none.Done()
}

// TestDenied: without an admissible call there is no ticket, and where something was judged there
// is a receipt.
func TestDenied(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for name, x := range map[string]struct {
		tool   string
		change func(*helm.Intent)
		ctx    context.Context
		def    contracts.Digest
		want   contracts.ReasonCode
		why    string
	}{
		"no rule":            {tool: "never", want: contracts.ReasonNoPolicyDefined},
		"no tool":            {tool: "none", want: contracts.ReasonToolNotFound},
		"arguments":          {tool: "mail", change: func(in *helm.Intent) { in.Args = []byte(`{"a":1,"a":2}`) }, want: contracts.ReasonArgsCanonicalization},
		"bound":              {tool: "here", want: contracts.ReasonDriverNotBound},
		"another sandbox":    {tool: "boxed", want: contracts.ReasonSandboxViolation},
		"another definition": {tool: "known", def: contracts.Digest{9}, want: contracts.ReasonDriverNotBound},
		"own driver": {tool: "ask", change: func(in *helm.Intent) { in.Driver = executor.Func(nothing) }, want: contracts.ReasonDriverNotBound,
			why: "handoff: in.Driver must be nil: the call runs elsewhere"},
		"own driver, no function": {tool: "ask", change: func(in *helm.Intent) { in.Driver = executor.Func(nil) }, want: contracts.ReasonDriverNotBound},
		"own driver, bound":       {tool: "here", change: func(in *helm.Intent) { in.Driver = executor.Func(nothing) }, want: contracts.ReasonDriverNotBound},
		"own driver, reported":    {tool: "mail", change: func(in *helm.Intent) { in.Driver = executor.Func(nothing) }, want: contracts.ReasonSandboxViolation},
		"the context is over":     {tool: "ask", ctx: over, want: contracts.ReasonFailClosedError},
		"the context panics":      {tool: "ask", ctx: hostile{}, want: contracts.ReasonFailClosedError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			in := w.intent(x.tool)
			if x.change != nil {
				x.change(&in)
			}
			if x.def == (contracts.Digest{}) {
				x.def = definition
			}
			d, r, ticket := w.Begin(x.ctx, in, x.def)
			assert.Nil(t, ticket)
			assert.ErrorIs(t, d.Err(), helm.ErrDenied)
			assert.True(t, d.Reason == x.want && r.Record.Outcome == contracts.Denied && r.Record.Decision.Reason == x.want, "%s: %s", d.Reason, d.Why)
			if x.why != "" {
				assert.Equal(t, x.why, d.Why)
			}
			w.ends()
		})
	}
}

// A hostile context panics.
type hostile struct{ context.Context }

func (hostile) Done() <-chan struct{} { panic("Done") }
func (hostile) Err() error            { panic("Err") }
func (hostile) Value(any) any         { panic("Value") }

// TestDefinition: what the model was shown must be what the policy pins.
func TestDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	_, r, mine := w.must("known").Settle(Outcome{Output: []byte("1")})
	assert.True(t, mine && r.Record.Sandbox.Module == definition)
	w.ends()
}

// TestNoKernel: a desk of no kernel, and no desk, deny.
func TestNoKernel(t *testing.T) {
	t.Parallel()
	for _, desk := range []*Desk{nil, New(nil, 0)} {
		d, r, ticket := desk.Begin(context.Background(), helm.Intent{Tool: "mail"}, definition)
		assert.True(t, ticket == nil && r.Entry == nil && d.Reason == contracts.ReasonKernelSealed)
		assert.ErrorIs(t, d.Err(), helm.ErrDenied)
		desk.DropSession("s")
		assert.Nil(t, desk.Ticket(""))
		assert.NoError(t, desk.Close(context.Background()))
	}
}

// TestFull: of a full desk, and of one that is closed, nothing is judged.
func TestFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	first, second := w.must("mail"), w.must("mail")
	refused := func(why string) {
		t.Helper()
		before := w.Size()
		d, r, ticket := w.Begin(context.Background(), w.intent("mail"), definition)
		assert.True(t, ticket == nil && r.Entry == nil && d.Reason == contracts.ReasonFailClosedError && d.Why == why, "%+v", d)
		assert.ErrorIs(t, d.Err(), helm.ErrDenied)
		assert.Equal(t, before, w.Size())
	}
	refused("handoff: 2 calls are open")
	first.Drop()
	third := w.must("mail")
	refused("handoff: 2 calls are open")
	require.NoError(t, w.Desk.Close(context.Background()))
	for _, x := range []*Ticket{second, third} {
		d, _, mine := x.Settle(Outcome{})
		assert.True(t, d.Reason == contracts.ReasonToolCanceled && !mine)
	}
	refused("handoff: the desk is closed")
	w.ends()
}

// TestRequestIsOver: once there is a ticket the context of Begin counts no more.
func TestRequestIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	_, _, ticket := w.Begin(ctx, w.intent("mail"), definition)
	require.NotNil(t, ticket)
	cancel()
	select {
	case <-ticket.Done():
		t.Error("it ended with the request")
	case <-time.After(20 * time.Millisecond):
	}
	_, r, mine := ticket.Settle(Outcome{Err: errors.New("down")})
	assert.True(t, mine && r.Record.Reason == contracts.ReasonToolError, "%+v", r.Record)
	w.ends()
}

// TestDurableFirst: there is no ticket while the store has not made the permission durable, and the
// end of the request in that time does not end the call.
func TestDurableFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	await, release := w.gate.hold()
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan *Ticket)
	go func() {
		_, _, ticket := w.Begin(ctx, w.intent("mail"), definition)
		got <- ticket
	}()
	await()
	cancel()
	select {
	case <-got:
		t.Error("a ticket before its permission was durable")
	case <-time.After(20 * time.Millisecond):
	}
	release()
	ticket := <-got
	require.NotNil(t, ticket)
	_, r, mine := ticket.Settle(Outcome{Output: []byte("1")})
	assert.True(t, mine && r.Record.Outcome == contracts.Executed, "%+v", r.Record)
	w.ends()
}

// TestRetry: a retry whose answer was lost gets the open ticket, and any other call does not.
func TestRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	keyed := func(in *helm.Intent) { in.Idempotency, in.Caller.Roles = "k", []string{"a", "b"} }
	first := w.must("mail", keyed)
	assert.Same(t, first, w.must("mail", keyed, func(in *helm.Intent) { in.Caller.Roles = []string{"b", "a"} }))
	for name, change := range map[string]func(*helm.Intent){
		"another session": func(in *helm.Intent) { in.Session = "t" },
		"another key":     func(in *helm.Intent) { in.Idempotency = "l" },
		"no key":          func(in *helm.Intent) { in.Idempotency = "" },
	} {
		other := w.must("mail", keyed, change)
		assert.NotSame(t, first, other, name)
		other.Drop()
	}
	for name, change := range map[string]func(*helm.Intent){
		"another tool":     func(in *helm.Intent) { in.Tool = "ask" },
		"another argument": func(in *helm.Intent) { in.Args = []byte(`{"a":2}`) },
		"another caller":   func(in *helm.Intent) { in.Caller.ID = "bob" },
		"another role":     func(in *helm.Intent) { in.Caller.Roles = []string{"a"} },
	} {
		in := w.intent("mail")
		keyed(&in)
		change(&in)
		d, _, ticket := w.Begin(context.Background(), in, definition)
		assert.True(t, ticket == nil && d.Reason == contracts.ReasonIdempotencyConflict, "%s: %+v", name, d)
	}
	in := w.intent("mail")
	keyed(&in)
	in.Caller.Roles, in.Args = []string{"a"}, append([]byte(`"b"`), in.Args...)
	d, _, ticket := w.Begin(context.Background(), in, definition)
	assert.True(t, ticket == nil && d.Reason == contracts.ReasonArgsCanonicalization, "a role in the arguments: %+v", d)
	_, r, _ := first.Settle(Outcome{Output: []byte("1")})
	in = w.intent("mail")
	keyed(&in)
	d, same, ticket := w.Begin(context.Background(), in, definition)
	assert.True(t, ticket == nil && d.Err() == nil && same.Index == r.Index && string(same.Output) == "1", "%+v", d)
	w.ends()
}

// TestRetryAtOnce: of many equal requests at the same time one call comes.
func TestRetryAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	await, release := w.gate.hold()
	got := make(chan *Ticket)
	over, cancel := context.WithCancel(context.Background())
	for i := range 20 {
		ctx := context.Background()
		if i%2 > 0 {
			ctx = over
		}
		go func() {
			in := w.intent("mail")
			in.Idempotency = "k"
			_, _, ticket := w.Begin(ctx, in, definition)
			got <- ticket
		}()
	}
	await()
	cancel()
	for range 9 { // at least: the tenth may be the one that was judged
		select {
		case ticket := <-got:
			assert.Nil(t, ticket)
		case <-time.After(5 * time.Second):
			t.Fatal("a request that is over waits")
		}
	}
	release()
	var first *Ticket
	for range 11 {
		ticket := <-got
		if ticket == nil {
			continue
		}
		if first == nil {
			first = ticket
		}
		assert.Same(t, first, ticket)
	}
	require.NotNil(t, first)
	first.Drop()
	w.ends()
}

// TestDropBeforeItOpens: a session that is dropped, or a desk that is closed, while a call is
// decided is told of no ticket.
func TestDropBeforeItOpens(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(*Desk){
		"session": func(d *Desk) { d.DropSession("s") },
		"desk": func(d *Desk) {
			over, cancel := context.WithCancel(context.Background())
			cancel()
			assert.ErrorIs(t, d.Close(over), context.Canceled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			await, release := w.gate.hold()
			type answer struct {
				d      helm.Decision
				r      helm.Receipt
				ticket *Ticket
			}
			got := make(chan answer)
			go func() {
				d, r, ticket := w.Begin(context.Background(), w.intent("mail"), definition)
				got <- answer{d, r, ticket}
			}()
			await()
			drop(w.Desk)
			release()
			a := <-got
			assert.True(t, a.ticket == nil && a.r.Record.Reason == contracts.ReasonToolCanceled, "%+v", a)
			assert.ErrorIs(t, a.d.Err(), helm.ErrWithheld)
			w.ends()
		})
	}
}

// TestCloseSession: after DropSession a session closes at once.
func TestCloseSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	ticket := w.must("mail")
	w.DropSession("s")
	require.NoError(t, w.Kernel.CloseSession(context.Background(), "s"))
	<-ticket.Done()
	w.ends()
}

// TestBudget: what is open counts, what failed is given back, and what was dropped is not.
func TestBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	first, second, third := w.must("pay"), w.must("pay"), w.must("pay")
	denied := func() {
		t.Helper()
		d, _, ticket := w.Begin(context.Background(), w.intent("pay"), definition)
		assert.True(t, ticket == nil && d.Reason == contracts.ReasonBudgetExceeded, "%+v", d)
	}
	denied()
	second.Settle(Outcome{Err: errors.New("down")})
	again := w.must("pay")
	denied()
	first.Drop()
	denied()
	third.Settle(Outcome{})
	again.Settle(Outcome{})
	w.ends()
}

// TestNextProcess: what was open when a process ended is OUTCOME_UNKNOWN, and the next desk knows
// nothing of it.
func TestNextProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	ticket := w.must("mail")
	w.gate.dead.Store(true)
	left := w.Desk
	t.Cleanup(func() { _ = left.Close(context.Background()) })
	w.Store = &kerneltest.FaultyStore{Store: w.gate.Store}
	w.Options.Store = w.Store
	w.Open()
	next := New(w.Kernel, 0)
	assert.Nil(t, next.Ticket(ticket.ID()))
	found := false
	for _, st := range w.Statements() {
		if st.Receipt != nil && st.Receipt.DecisionHash.String() == ticket.ID() {
			found = true
			assert.Equal(t, contracts.ReasonOutcomeUnknown, st.Receipt.Reason)
		}
	}
	assert.True(t, found)
	w.MustVerify()
}

// TestForgotten: a settled ticket is known for 10 minutes, and as long as there is room.
func TestForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	old, recent, open := w.must("mail"), w.must("mail"), w.must("mail")
	old.Settle(Outcome{})
	recent.Settle(Outcome{})
	w.Desk.mu.Lock()
	old.settled = old.settled.Add(-retention)
	w.Desk.mu.Unlock()
	assert.True(t, w.Ticket(old.ID()) == nil && w.Ticket(recent.ID()) == recent && w.Ticket(open.ID()) == open)
	w.Desk.mu.Lock()
	w.kept += maxKept
	w.Desk.mu.Unlock()
	assert.True(t, w.Ticket(recent.ID()) == nil && w.Ticket(open.ID()) == open)
	_, _, mine := recent.Settle(Outcome{})
	assert.False(t, mine)
	open.Drop()
	w.ends()
}

// TestMany: 1,024 open calls take less than 64 MiB, and leave no goroutine.
func TestMany(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t, 0)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	start := heap()
	for range usualOpen {
		w.must("mail")
	}
	more := heap() - start
	t.Logf("%d KB for each open call", more/usualOpen>>10)
	if !race.Enabled { // its frames are larger, and so are stacks
		assert.Less(t, more, uint64(64<<20))
	}
	require.NoError(t, w.Desk.Close(context.Background()))
	w.World.Close()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before+1, "a goroutine is left")
}

// TestTickets: the open calls are listed, and no others.
func TestTickets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	assert.Empty(t, w.Desk.Tickets())
	a, b := w.must("mail"), w.must("mail")
	assert.ElementsMatch(t, []*Ticket{a, b}, w.Desk.Tickets())
	a.Settle(Outcome{})
	assert.Equal(t, []*Ticket{b}, w.Desk.Tickets())
	await, release := w.gate.hold()
	begun := make(chan *Ticket)
	go func() {
		_, _, c := w.Begin(t.Context(), w.intent("mail"), definition)
		begun <- c
	}()
	await()
	assert.Equal(t, []*Ticket{b}, w.Desk.Tickets(), "one whose permission is not durable")
	release()
	c := <-begun
	assert.ElementsMatch(t, []*Ticket{b, c}, w.Desk.Tickets())
	b.Drop()
	c.Drop()
	assert.Empty(t, w.Desk.Tickets())
	assert.Empty(t, (*Desk)(nil).Tickets())
	w.ends()
}
