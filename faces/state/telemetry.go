package state

import (
	"context"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/handoff"
)

// A Telemetry is told by the faces, and by the desk of calls that are handed over, what an observer
// of the kernel does not hear. That of package integrations/otel makes metrics and spans of it. Its
// methods are called from many goroutines, while a caller waits: they are to return soon. If it
// also has the method
//
//	Driver(executor.Driver) (executor.Driver, error)
//
// a gateway runs its calls by the driver that it returns, unless that is nil.
type Telemetry interface {
	// Tell is told one thing that happened.
	Tell(Fact)

	// Call begins the span of a call that a client makes at a gateway. done ends it, with what went
	// wrong or "". The context is that of the call.
	Call(ctx context.Context, c ToolCall) (within context.Context, done func(failure string))

	// Carry returns the trace context, by the names of W3C, that goes with a request made under a
	// context: traceparent and, if there is one, tracestate. It may be nil. Other names go nowhere.
	Carry(ctx context.Context) map[string]string

	// Answered is told what a proxy answered to a request under that context, when it has ended.
	Answered(ctx context.Context, a ModelAnswer)
}

// A Fact is one thing that happened. It has no id, no argument and no output.
type Fact struct {
	Kind Kind
	Name string        // which of its kind; see there
	Took time.Duration // of Judged
	More int           // how many more of the same there were
}

// A Kind is what a Fact is about. There may be more of them in a later version.
type Kind int

// Kinds of facts, with the name that a fact has.
const (
	Refused Kind = iota + 1 // HELM answered a request with an error, and not with a denial; its code, as helm_forbidden
	Unknown                 // a result was reported of a call that is not open
	Opened                  // a call was handed over
	Settled                 // one that was handed over has an outcome; the contracts.Outcome, such as EXECUTED
	Judged                  // a face had a call judged, and the decision was durable after Took
	Drifted                 // a pinned tool is listed otherwise, or no more; the server
)

// A ToolCall is a call of an MCP client.
type ToolCall struct {
	Tool     string            // as the client names it, which may be any text
	Session  string            // the id of the MCP session; "" if it has none
	Protocol string            // its version
	Request  string            // the id of the request; "" if it is not known
	Carried  map[string]string // the client's trace context: traceparent, tracestate
}

// A ModelAnswer is what a proxy answered to a request for a model.
type ModelAnswer struct {
	Model         string        // as the app names it, which may be any text
	Input, Output int64         // tokens, as the provider counted them; 0 if it did not say
	Calls, Denied int           // that the answer, and the request, had
	FirstByte     time.Duration // from the request to the first byte of the answer; 0 if there was none
	Held          time.Duration // for which a part of the answer was held back
}

// Contained returns a Telemetry that calls t and drops its panics. If t is nil it does nothing.
func Contained(t Telemetry) Telemetry {
	if c, ok := t.(contained); ok {
		return c
	}
	return contained{t}
}

// WatchOf returns what tells t of the calls of a desk. Open does so for the desk of a State.
func WatchOf(t Telemetry) handoff.Watch {
	if t == nil {
		return handoff.Watch{}
	}
	t = Contained(t)
	return handoff.Watch{
		Opened:  func() { t.Tell(Fact{Kind: Opened}) },
		Settled: func(o contracts.Outcome) { t.Tell(Fact{Kind: Settled, Name: string(o)}) },
	}
}

// A contained telemetry may be called with none, and with one that panics.
type contained struct{ t Telemetry }

func (c contained) Tell(f Fact) {
	if c.t != nil {
		defer dropPanic()
		c.t.Tell(f)
	}
}

func (c contained) Call(ctx context.Context, call ToolCall) (within context.Context, done func(string)) {
	if c.t == nil {
		return ctx, func(string) {}
	}
	defer func() {
		if recover() != nil || within == nil {
			within = ctx
		}
		ends := done
		done = func(failure string) {
			if ends != nil {
				defer dropPanic()
				ends(failure)
			}
		}
	}()
	return c.t.Call(ctx, call)
}

func (c contained) Carry(ctx context.Context) (carried map[string]string) {
	if c.t == nil {
		return nil
	}
	defer dropPanic()
	said := c.t.Carry(ctx)
	for _, name := range [...]string{"traceparent", "tracestate"} {
		if value := said[name]; value != "" {
			if carried == nil {
				carried = map[string]string{}
			}
			carried[name] = value
		}
	}
	return carried
}

func (c contained) Answered(ctx context.Context, a ModelAnswer) {
	if c.t != nil {
		defer dropPanic()
		c.t.Answered(ctx, a)
	}
}

// dropPanic is called by defer.
func dropPanic() { _ = recover() }
