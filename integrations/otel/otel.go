package otel

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	notraces "go.opentelemetry.io/otel/trace/noop"
)

// scope is the name of the tracer and the meter.
const scope = "github.com/helmkernel/helm/integrations/otel"

// Options are where telemetry goes. New refuses the zero value.
type Options struct {
	TracerProvider trace.TracerProvider // nil: there are no spans and no events
	MeterProvider  metric.MeterProvider // nil: there are no metrics
}

// A Telemetry tells OpenTelemetry of a kernel and its faces. It is safe for concurrent use. Each
// kernel has its own, because the decisions of two may have the same id; those that were narrowed
// from one kernel share it.
type Telemetry struct {
	tracer trace.Tracer
	traces bool // the tracer is not one that does nothing
	live   live
	labels labels

	decisions metric.Int64Counter
	runs      metric.Float64Histogram
	judged    metric.Float64Histogram
	open      metric.Int64UpDownCounter
	settled   metric.Int64Counter
	unknown   metric.Int64Counter
	refused   metric.Int64Counter
	drifted   metric.Int64Counter
}

// New returns a Telemetry. It returns an error if there is no provider at all, or if the meter
// refuses an instrument.
func New(o Options) (*Telemetry, error) {
	if o.TracerProvider == nil && o.MeterProvider == nil {
		return nil, errors.New("otel: Options: no TracerProvider and no MeterProvider: nothing would be told")
	}
	if o.TracerProvider == nil {
		o.TracerProvider = notraces.NewTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = nometrics.NewMeterProvider()
	}
	t := &Telemetry{tracer: o.TracerProvider.Tracer(scope)}
	_, none := t.tracer.(notraces.Tracer)
	t.traces = !none
	m := o.MeterProvider.Meter(scope)
	var errs []error
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	seconds := func(name, description string, bounds ...float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	t.decisions = counter(metricDecisions, "{decision}", "Calls that were judged.")
	t.runs = seconds(metricRuns, "Runs of tools.",
		0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)
	t.judged = seconds(metricJudged, "From a call at a face to its durable decision.",
		0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1)
	var err error
	t.open, err = m.Int64UpDownCounter(metricOpen, metric.WithUnit("{call}"),
		metric.WithDescription("Calls that were handed over and have no outcome yet."))
	errs = append(errs, err)
	t.settled = counter(metricSettled, "{call}", "Calls that were handed over and have an outcome.")
	t.unknown = counter(metricUnknown, "{result}", "Results of calls that are not open.")
	t.refused = counter(metricRefused, "{request}", "Requests that HELM answered with an error of its own.")
	t.drifted = counter(metricDrifted, "{change}", "Pinned tools that a server lists otherwise, or no more.")
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("otel: %w", err)
	}
	return t, nil
}
