package otel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	notraces "go.opentelemetry.io/otel/trace/noop"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// TestMain drops what the SDK says of exporters that fail.
func TestMain(m *testing.M) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	os.Exit(m.Run())
}

func TestNewNeedsAProvider(t *testing.T) {
	t.Parallel()
	_, err := New(Options{})
	assert.ErrorContains(t, err, "nothing would be told")
	_, err = New(Options{MeterProvider: refusing{}})
	assert.ErrorContains(t, err, "no instruments")
	c := newCollector(t)
	for _, o := range []Options{{TracerProvider: c.traces}, {MeterProvider: c.meters}} {
		tell, err := New(o)
		require.NoError(t, err)
		w := newWorld(t, tell, c)
		assert.Equal(t, contracts.ReasonAllow, w.guard(t.Context(), "find", args))
		assert.Equal(t, contracts.ReasonAllow, w.guard(t.Context(), "look", args))
	}
	assert.Len(t, c.spans.GetSpans(), 2, "those of the first")
}

// An event that is of no call is no decision.
func TestNoCall(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tell := c.telemetry()
	ctx, span := c.traces.Tracer("").Start(t.Context(), "host")
	tell.Observe(ctx, helm.Event{Why: "checkpoint", Err: errors.New("the token was pulled")})
	span.End()
	assert.Equal(t, "span host, internal\n", c.text())
}

// refusing is a meter that has no instruments.
type refusing struct{ nometrics.MeterProvider }

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

type refusingMeter struct{ nometrics.Meter }

func (refusingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errors.New("no instruments")
}

// An exporter fails in one way.
type exporter struct {
	fails func() error
	calls chan struct{} // one for each export, as long as there is room
}

func (e *exporter) export() error {
	select {
	case e.calls <- struct{}{}:
	default:
	}
	return e.fails()
}

func (e *exporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error  { return e.export() }
func (e *exporter) Export(context.Context, *metricdata.ResourceMetrics) error   { return e.export() }
func (e *exporter) Shutdown(context.Context) error                              { return nil }
func (e *exporter) ForceFlush(context.Context) error                            { return nil }
func (e *exporter) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality { return 1 }
func (e *exporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

// broken are a tracer and a meter whose every method panics.
type (
	brokenTraces  struct{ notraces.TracerProvider }
	brokenTracer  struct{ notraces.Tracer }
	brokenSpan    struct{ notraces.Span }
	brokenMetrics struct{ nometrics.MeterProvider }
	brokenMeter   struct{ nometrics.Meter }
	brokenCounter struct{ nometrics.Int64Counter }
	brokenUpDown  struct{ nometrics.Int64UpDownCounter }
	brokenTimes   struct{ nometrics.Float64Histogram }
	// halfTracer has spans, and they panic
	halfTraces struct{ notraces.TracerProvider }
	halfTracer struct{ notraces.Tracer }
)

func (brokenTraces) Tracer(string, ...trace.TracerOption) trace.Tracer { return brokenTracer{} }
func (brokenTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic(secret)
}
func (halfTraces) Tracer(string, ...trace.TracerOption) trace.Tracer { return halfTracer{} }
func (halfTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return trace.ContextWithSpan(ctx, brokenSpan{}), brokenSpan{}
}
func (brokenSpan) End(...trace.SpanEndOption)                          { panic(secret) }
func (brokenSpan) IsRecording() bool                                   { panic(secret) }
func (brokenSpan) AddEvent(string, ...trace.EventOption)               { panic(secret) }
func (brokenMetrics) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }
func (brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return brokenCounter{}, nil
}
func (brokenMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return brokenUpDown{}, nil
}
func (brokenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return brokenTimes{}, nil
}
func (brokenCounter) Enabled(context.Context) bool                          { return true }
func (brokenCounter) Add(context.Context, int64, ...metric.AddOption)       { panic(secret) }
func (brokenUpDown) Add(context.Context, int64, ...metric.AddOption)        { panic(secret) }
func (brokenTimes) Enabled(context.Context) bool                            { return true }
func (brokenTimes) Record(context.Context, float64, ...metric.RecordOption) { panic(secret) }

// failing are providers that do not do what they should. A slow exporter, and one that panics, is
// what the SDK calls at once; in the background it is the SDK's own.
func failing(t *testing.T) map[string]Options {
	t.Helper()
	at := func(fails func() error) Options {
		e := &exporter{fails: fails, calls: make(chan struct{}, 1)}
		return Options{
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(e)),
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		}
	}
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	slow := &exporter{fails: func() error { <-forever; return nil }, calls: make(chan struct{}, 1)}
	return map[string]Options{
		"an exporter fails":  at(func() error { return errors.New("no collector") }),
		"an exporter panics": at(func() error { panic(secret) }),
		"a tracer panics":    {TracerProvider: brokenTraces{}},
		"its spans panic":    {TracerProvider: halfTraces{}},
		"a meter panics":     {MeterProvider: brokenMetrics{}},
		"all of them panic":  {TracerProvider: halfTraces{}, MeterProvider: brokenMetrics{}},
		"an exporter never ends": {
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithBatcher(slow, sdktrace.WithMaxExportBatchSize(1),
				sdktrace.WithMaxQueueSize(4), sdktrace.WithBatchTimeout(time.Millisecond))),
			MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(slow,
				sdkmetric.WithInterval(time.Millisecond)))),
		},
	}
}

func crashes(context.Context, contracts.Call) (executor.Result, error) { panic(secret) }

// TestCallsGoOn makes the calls of a story with providers that fail, and compares what they come to
// with what they come to without any.
func TestCallsGoOn(t *testing.T) {
	t.Parallel()
	calls := func(w *world) (list []string) {
		ctx, span := w.traces.Tracer("agent").Start(t.Context(), "agent")
		defer span.End()
		for range 20 {
			for _, name := range []string{"look", "find", "known", "never", "no_such_tool"} {
				given := args
				if name == "known" {
					given = `{}`
				}
				in := helm.Intent{Tool: name, Args: []byte(given), Session: "s", Driver: w.drivers[name]}
				d, r := w.Kernel.Guard(ctx, in)
				list = append(list, fmt.Sprint(d.Reason, r.Index, string(r.Output)))
			}
			for _, f := range []tool{fails, crashes} {
				for _, wrap := range []bool{false, true} {
					list = append(list, string(w.guard(ctx, "look", args, w.does(f, wrap))))
				}
			}
		}
		return list
	}
	c := newCollector(t)
	want := calls(newWorld(t, c.telemetry(), c))
	for name, o := range failing(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell, err := New(o)
			require.NoError(t, err)
			w := newWorld(t, tell, newCollector(t)) // which has the agent's own span
			began := time.Now()
			assert.Equal(t, want, calls(w))
			assert.Less(t, time.Since(began), 20*time.Second)
		})
	}
}

// TestObserveUnderASpanThatPanics has the context of the call hold such a span.
func TestObserveUnderASpanThatPanics(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	ctx := trace.ContextWithSpan(t.Context(), brokenSpan{})
	assert.NotPanics(t, func() { w.tell.Observe(ctx, ended) })
	assert.Equal(t, "counter helm.decisions, {decision} gen_ai.tool.name=look helm.reason=ALLOW helm.verdict=ALLOW = 1\n"+
		"histogram gen_ai.execute_tool.duration, s gen_ai.tool.name=look = 1 times\n", c.text())
	assert.Equal(t, contracts.ReasonAllow, w.guard(ctx, "look", args))
	assert.Equal(t, contracts.ReasonAllow, w.guard(ctx, "find", args))
}

// TestLabelsAreBounded measures more sets of labels than are kept.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	var l labels
	for i := range mostLabels + 100 {
		require.NotEmpty(t, l.of(labelled{tool: fmt.Sprint(i)}).add)
	}
	assert.EqualValues(t, mostLabels, l.count.Load())
	n := 0
	l.made.Range(func(any, any) bool { n++; return true })
	assert.Equal(t, mostLabels, n)
}

// An undeclared tool may have any name, and there may be any number of them.
func TestMetricsHaveNoNamesOfCallers(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := newWorld(t, c.telemetry(), c)
	for i := range 50 {
		w.guard(t.Context(), fmt.Sprintf("t%d", i), args, func(in *helm.Intent) {
			in.Session = fmt.Sprintf("s%d", i)
			in.Caller = helm.Caller{ID: fmt.Sprintf("c%d", i), Tenant: fmt.Sprintf("o%d", i)}
		})
	}
	assert.Equal(t, "counter helm.decisions, {decision} gen_ai.tool.name=_other helm.reason=DENY_TOOL_NOT_FOUND "+
		"helm.verdict=DENY = 50\n", c.text())
}

// silent is a Telemetry whose providers do nothing.
func silent(t testing.TB) *Telemetry {
	tell, err := New(Options{TracerProvider: notraces.NewTracerProvider(), MeterProvider: nometrics.NewMeterProvider()})
	require.NoError(t, err)
	return tell
}

func metricsAlone(t testing.TB) *Telemetry {
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	tell, err := New(Options{MeterProvider: provider})
	require.NoError(t, err)
	return tell
}

var ended = helm.Event{Tool: "look", Session: "s", ID: "s/1", Verdict: contracts.Allow, Reason: contracts.ReasonAllow,
	Rule: "P1:desk:most", Index: 5, Declared: true, Took: time.Millisecond}

func TestObserveAllocates(t *testing.T) {
	tell, ctx := silent(t), t.Context()
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { tell.Observe(ctx, ended) }), 4.0)
	// With metrics alone a set of labels is made once.
	metrics := metricsAlone(t)
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { metrics.Observe(ctx, ended) }), 4.0)
}

// BenchmarkObserve prints the time and the allocations of a call: at most 2 µs and 4 if providers
// do nothing.
func BenchmarkObserve(b *testing.B) {
	run := func(name string, tell *Telemetry, ctx context.Context) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tell.Observe(ctx, ended)
			}
		})
	}
	run("silent", silent(b), b.Context())
	run("metrics", metricsAlone(b), b.Context())
	traces := sdktrace.NewTracerProvider()
	both, err := New(Options{TracerProvider: traces})
	require.NoError(b, err)
	ctx, span := traces.Tracer("agent").Start(b.Context(), "agent")
	defer span.End()
	run("traces", both, ctx)
}
