package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
)

// secretWord is in the arguments of each call.
const secretWord = "xyzzy"

// holding runs the process over a new directory, whose policy denies every call, with a face that
// makes one. It returns what was logged.
func holding(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, state.Create(dir, state.CreateOptions{}))
	conf, err := state.ReadConfig(filepath.Join(dir, "helm.yaml"))
	require.NoError(t, err)
	var log lockedText
	a := &app{errs: &log, stdout: io.Discard}
	require.NoError(t, hold(t.Context(), a, conf, func(ctx context.Context, _ *app, h *held) error {
		in := helm.Intent{Tool: "pay", Args: []byte(`{"a": "` + secretWord + `"}`), Session: "s-" + secretWord}
		for range 3 {
			d, _ := h.Kernel().Guard(ctx, in)
			assert.Equal(t, contracts.ReasonToolNotFound, d.Reason)
		}
		served := httptest.NewRecorder()
		h.export.served(h.lets(http.NotFoundHandler())).ServeHTTP(served,
			httptest.NewRequest(http.MethodGet, "http://elsewhere.example/", nil))
		assert.Equal(t, http.StatusMisdirectedRequest, served.Code)
		return nil
	}))
	return log.String()
}

// TestExport has a collector hear what a process does until its end, and nothing without one.
func TestExport(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path+" "+r.Header.Get("Api-Key")] += string(b)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=key")
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		t.Setenv(name, collector.URL)
	}
	holding(t)
	assert.Empty(t, got, "no %s", endpoint)
	t.Setenv(endpoint, collector.URL)
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		require.NoError(t, os.Unsetenv(name)) // Setenv puts them back
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	holding(t)
	assert.Empty(t, got, "disabled")
	t.Setenv("OTEL_SDK_DISABLED", "false")

	log := holding(t)
	mu.Lock()
	defer mu.Unlock()
	metrics, traces := got["/v1/metrics key"], got["/v1/traces key"]
	for _, word := range []string{"helm.decisions", "DENY_TOOL_NOT_FOUND", "_other", "helm.requests.refused",
		"helm_wrong_host", "service.name", "helm"} {
		assert.Contains(t, metrics, word)
	}
	for _, word := range []string{"http.request.method", "GET", "service.name"} {
		assert.Contains(t, traces, word)
	}
	for path, b := range got {
		assert.NotContains(t, b, secretWord, path)
	}
	assert.NotContains(t, log, "telemetry")
	assert.NotContains(t, log, secretWord)
}

// TestExportOfTheEnvironment: what the environment calls the service stands above helm.
func TestExportOfTheEnvironment(t *testing.T) {
	var mu sync.Mutex
	var got strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&got, r.Body)
	}))
	defer collector.Close()
	t.Setenv(endpoint, collector.URL)
	t.Setenv("OTEL_SERVICE_NAME", "payments-of-acme")
	holding(t)
	mu.Lock()
	defer mu.Unlock()
	assert.Contains(t, got.String(), "payments-of-acme")
}

// TestExportThatHangs: a collector that does not answer, refuses or is not there holds up the end
// for as long as it may, and no call.
func TestExportThatHangs(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer refuses.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, url := range map[string]string{"hangs": hangs.URL, "refuses": refuses.URL, "gone": gone.URL} {
		t.Setenv(endpoint, url)
		began := time.Now()
		log := holding(t)
		assert.Less(t, time.Since(began), flushTime+5*time.Second, name)
		assert.Equal(t, 1, strings.Count(log, "telemetry is not exported"), "%s: %s", name, log)
		assert.NotContains(t, log, secretWord)
	}
}

// An exporter that panics makes errors.
func TestExporterThatPanics(t *testing.T) {
	t.Parallel()
	assert.ErrorContains(t, safeSpans{nil}.ExportSpans(t.Context(), nil), "the exporter panicked with a ")
	assert.Error(t, safeMetrics{nil}.Export(t.Context(), nil))
	assert.NoError(t, safeSpans{fineSpans{}}.ExportSpans(t.Context(), nil))
	assert.NoError(t, safeMetrics{fineMetrics{}}.Export(t.Context(), nil))
}

type fineSpans struct{ sdktrace.SpanExporter }

func (fineSpans) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

type fineMetrics struct{ sdkmetric.Exporter }

func (fineMetrics) Export(context.Context, *metricdata.ResourceMetrics) error { return nil }

func TestComplaintsAreFew(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := &complaints{log: slog.New(slog.NewTextHandler(&b, nil))}
	for range 100 {
		c.Handle(errors.New("no collector"))
	}
	c.last = c.last.Add(-2 * time.Minute)
	c.Handle(errors.New("no collector"))
	assert.Equal(t, 2, strings.Count(b.String(), "no collector"))
}
