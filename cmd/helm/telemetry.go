package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/helmkernel/helm/faces/state"
	helmotel "github.com/helmkernel/helm/integrations/otel"
)

// endpoint is the variable without which nothing is exported. The exporters read it, and the others
// of its kind: headers, certificates, time limits.
const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// flushTime is how long what was not exported yet may take when the process ends.
const flushTime = 3 * time.Second

// An export is where telemetry goes. The nil export is none.
type export struct {
	*helmotel.Telemetry
	traces *sdktrace.TracerProvider
	meters *sdkmetric.MeterProvider
}

// exporting returns what exports spans and metrics by OTLP over HTTP, if the environment says where
// to.
func exporting(ctx context.Context, log *slog.Logger) (*export, error) {
	if os.Getenv(endpoint) == "" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	otel.SetErrorHandler(&complaints{log: log})
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: spans: %w", endpoint, err)
	}
	metrics, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: metrics: %w", endpoint, err)
	}
	// What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say stands above the name.
	of, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "helm")),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	x := &export{
		traces: sdktrace.NewTracerProvider(sdktrace.WithResource(of), sdktrace.WithBatcher(safeSpans{spans})),
		meters: sdkmetric.NewMeterProvider(sdkmetric.WithResource(of),
			sdkmetric.WithReader(sdkmetric.NewPeriodicReader(safeMetrics{metrics}))),
	}
	x.Telemetry, err = helmotel.New(helmotel.Options{TracerProvider: x.traces, MeterProvider: x.meters})
	return x, err
}

// options sets what a state tells.
func (x *export) options(o *state.Options) {
	if x != nil {
		o.Observe, o.Telemetry = x.Observe, x.Telemetry
	}
}

// telemetry returns what faces tell; nil: nothing.
func (x *export) telemetry() state.Telemetry {
	if x == nil {
		return nil
	}
	return x.Telemetry
}

// served returns a handler within spans.
func (x *export) served(h http.Handler) http.Handler {
	if x == nil {
		return h
	}
	return x.Handler(h)
}

// flush exports what is left, within flushTime.
func (x *export) flush(ctx context.Context) {
	if x == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	var both sync.WaitGroup
	for _, end := range []func(context.Context) error{x.traces.Shutdown, x.meters.Shutdown} {
		both.Go(func() {
			if err := end(ctx); err != nil {
				otel.Handle(err)
			}
		})
	}
	both.Wait()
}

// safeSpans is an exporter whose panics, on a goroutine of the SDK, do not end the process.
type safeSpans struct{ sdktrace.SpanExporter }

func (e safeSpans) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) (err error) {
	defer told(&err)
	return e.SpanExporter.ExportSpans(ctx, list)
}

// safeMetrics is the same for metrics.
type safeMetrics struct{ sdkmetric.Exporter }

func (e safeMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) (err error) {
	defer told(&err)
	return e.Exporter.Export(ctx, m)
}

// told makes an error of a panic. It is called by defer.
func told(err *error) {
	if x := recover(); x != nil {
		*err = fmt.Errorf("the exporter panicked with a %T", x)
	}
}

// complaints logs what the SDK says of exports that failed, once a minute.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= time.Minute {
		c.last = now
		c.log.Warn("telemetry is not exported", "error", err)
	}
}
