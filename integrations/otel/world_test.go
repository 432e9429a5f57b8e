package otel

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
)

const worldPolicy = `
helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
sandboxes: {box: {output: 16MiB}}
tools:
  look: {effect: read, input: {type: object, properties: {a: {type: string}}}}
  find: {effect: read, input: {type: object, properties: {a: {type: string}}}}
  slow: {effect: read, input: {type: object, properties: {a: {type: string}}}, limits: {timeout: 1s}}
  typed: {effect: read, input: {type: object}, output: {type: object, properties: {ok: {type: boolean}}}}
  known: {effect: read, input: {type: object}, definition: "DEFINITION"}
  boxed: {effect: read, input: {type: object, properties: {a: {type: string}}}, sandbox: box}
  mail: {effect: destructive, risk: low, input: {type: object, properties: {a: {type: string}}}, sandbox: reported}
  never: {effect: read, input: {type: object, properties: {a: {type: string}}}}
rules:
  - {id: most, allow: [look, find, slow, typed, known, boxed, mail]}
`

// secret is in arguments, outputs and errors, and must be nowhere else.
const secret = "xyzzy"

// A tool is a driver that does what a test says.
type tool func(context.Context, contracts.Call) (executor.Result, error)

func (f tool) Run(ctx context.Context, c contracts.Call) (executor.Result, error) { return f(ctx, c) }

func echo(_ context.Context, c contracts.Call) (executor.Result, error) {
	return executor.Result{Output: c.Args}, nil
}

func fails(context.Context, contracts.Call) (executor.Result, error) {
	return executor.Result{}, errors.New("no " + secret)
}

// defined is a tool with a definition.
type definedTool struct {
	tool
	digest contracts.Digest
}

func (d definedTool) Definition() contracts.Digest { return d.digest }

// A collector keeps what was told.
type collector struct {
	*testing.T
	spans   *tracetest.InMemoryExporter
	metrics *sdkmetric.ManualReader
	traces  *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{T: t, spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader()}
	c.traces = sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.spans), sdktrace.WithIDGenerator(new(counted)))
	c.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(c.metrics))
	return c
}

func (c *collector) telemetry() *Telemetry {
	c.Helper()
	t, err := New(Options{TracerProvider: c.traces, MeterProvider: c.meters})
	require.NoError(c, err)
	return t
}

// counted numbers traces and spans.
type counted struct{ n atomic.Uint64 }

func (c *counted) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	binary.BigEndian.PutUint64(t[8:], c.n.Add(1))
	return t, c.NewSpanID(ctx, t)
}

func (c *counted) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], c.n.Add(1))
	return s
}

// named returns the spans of that name.
func (c *collector) named(name string) (list tracetest.SpanStubs) {
	for _, s := range c.spans.GetSpans() {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

// text returns the spans as a tree, with their events, in the order in which they ended, and the
// metrics: all but times, ids and what SDKs say of themselves.
func (c *collector) text() string {
	c.Helper()
	var b strings.Builder
	all := c.spans.GetSpans()
	known := map[trace.SpanID]bool{}
	for _, s := range all {
		known[s.SpanContext.SpanID()] = true
	}
	var write func(parent trace.SpanID, roots bool, indent string)
	write = func(parent trace.SpanID, roots bool, indent string) {
		for _, s := range all {
			if up := s.Parent.SpanID(); roots == known[up] || !roots && up != parent {
				continue
			}
			fmt.Fprintf(&b, "%sspan %s, %s%s\n", indent, s.Name, s.SpanKind, listed(s.Attributes))
			if s.Status.Code != 0 {
				fmt.Fprintf(&b, "%s  status %s\n", indent, strings.TrimSpace(s.Status.Code.String()+" "+s.Status.Description))
			}
			for _, l := range s.Links {
				fmt.Fprintf(&b, "%s  link%s\n", indent, listed(l.Attributes))
			}
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s  event %s%s\n", indent, e.Name, listed(e.Attributes))
			}
			write(s.SpanContext.SpanID(), false, indent+"  ")
		}
	}
	write(trace.SpanID{}, true, "")
	var rm metricdata.ResourceMetrics
	require.NoError(c, c.metrics.Collect(context.Background(), &rm))
	var lines []string
	for _, s := range rm.ScopeMetrics {
		for _, m := range s.Metrics {
			lines = append(lines, points(m)...)
		}
	}
	slices.Sort(lines)
	return b.String() + strings.Join(lines, "")
}

// points returns a line for each set of labels.
func points(m metricdata.Metrics) (lines []string) {
	head := func(kind string, a attribute.Set) string {
		return fmt.Sprintf("%s %s, %s%s", kind, m.Name, m.Unit, listed(a.ToSlice()))
	}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		kind := "counter"
		if !d.IsMonotonic {
			kind = "gauge"
		}
		for _, p := range d.DataPoints {
			lines = append(lines, fmt.Sprintf("%s = %d\n", head(kind, p.Attributes), p.Value))
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			lines = append(lines, fmt.Sprintf("%s = %d times\n", head("histogram", p.Attributes), p.Count))
		}
	}
	return lines
}

func listed(list []attribute.KeyValue) string {
	var b strings.Builder
	for _, a := range list {
		value := a.Value.Emit()
		if a.Value.Type() == attribute.FLOAT64 {
			value = "(seconds)"
		}
		fmt.Fprintf(&b, " %s=%s", a.Key, value)
	}
	return b.String()
}

// A world is a kernel that a collector hears of.
type world struct {
	*collector
	*kerneltest.World
	tell    *Telemetry
	drivers map[string]executor.Driver // of calls that bring none
}

// newWorld returns a world in which find, slow and known are wrapped, and look and typed are not.
func newWorld(t *testing.T, tell *Telemetry, c *collector) *world {
	t.Helper()
	digest := contracts.Digest{1}
	w := &world{collector: c, tell: tell, drivers: map[string]executor.Driver{"look": tool(echo), "typed": tool(echo)}}
	for name, d := range map[string]executor.Driver{
		"find": tool(echo), "slow": tool(echo), "known": definedTool{echo, digest},
	} {
		wrapped, err := tell.Driver(d)
		require.NoError(t, err)
		w.drivers[name] = wrapped
	}
	w.World = kerneltest.New(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, strings.ReplaceAll(worldPolicy, "DEFINITION", digest.String()))
		o.Observe, o.Drivers, o.Keep.Outputs = tell.Observe, nil, true
	})
	return w
}

// guard makes a call within the session s.
func (w *world) guard(ctx context.Context, name, args string, change ...func(*helm.Intent)) contracts.ReasonCode {
	in := helm.Intent{Tool: name, Args: json.RawMessage(args), Session: "s", Driver: w.drivers[name]}
	for _, f := range change {
		f(&in)
	}
	d, _ := w.Kernel.Guard(ctx, in)
	return d.Reason
}

// does has a call run this driver, wrapped or as it is.
func (w *world) does(f tool, wrap bool) func(*helm.Intent) {
	return func(in *helm.Intent) {
		in.Driver = f
		if wrap {
			d, err := w.tell.Driver(f)
			require.NoError(w.collector, err)
			in.Driver = d
		}
	}
}
