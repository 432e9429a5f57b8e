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
	return holdingBy(t, func(*state.Config) {}, func(ctx context.Context, _ *app, h *held) error {
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
	})
}

// holdingBy runs the process over a new directory with a face, and returns what was logged.
func holdingBy(t *testing.T, change func(*state.Config), serves face) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, state.Create(dir, state.CreateOptions{}))
	conf, err := state.ReadConfig(filepath.Join(dir, "helm.yaml"))
	require.NoError(t, err)
	change(conf)
	var log lockedText
	require.NoError(t, hold(t.Context(), &app{errs: &log, stdout: io.Discard}, conf, serves))
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

// TestExportOfAProxy: a request to the proxy is a span with the model, below the app's, and its
// trace goes on to the provider.
func TestExportOfAProxy(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] += string(b)
	}))
	defer collector.Close()
	t.Setenv(endpoint, collector.URL)
	const of = "4bf92f3577b34da6a3ce929d0e0e4736"
	carried := make(chan string, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		carried <- r.Header.Get("Traceparent")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w,
			`{"id":"c","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant",`+
				`"tool_calls":[{"id":"k","type":"function","function":{"name":"pay","arguments":"{\"a\":\"`+secretWord+`\"}"}}]}}],`+
				`"usage":{"prompt_tokens":7,"completion_tokens":9}}`)
	}))
	defer provider.Close()
	upstream := func(c *state.Config) {
		c.Proxy.Upstreams = map[string]state.Upstream{"chat": {URL: provider.URL + "/v1"}}
	}
	holdingBy(t, upstream, func(_ context.Context, _ *app, h *held) error {
		p, err := h.proxy()
		require.NoError(t, err)
		defer p.Close()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/chat/completions", strings.NewReader(
			`{"model":"gpt-9","messages":[{"role":"user","content":"`+secretWord+`"}],`+
				`"tools":[{"type":"function","function":{"name":"pay"}}]}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Traceparent", "00-"+of+"-00f067aa0ba902b7-01")
		served := httptest.NewRecorder()
		h.export.served(h.lets(p)).ServeHTTP(served, r)
		assert.Equal(t, http.StatusOK, served.Code, served.Body)
		return nil
	})
	assert.Regexp(t, "^00-"+of+"-[0-9a-f]{16}-01$", <-carried)
	mu.Lock()
	defer mu.Unlock()
	for _, word := range []string{"chat gpt-9", "gen_ai.request.model", "gen_ai.usage.input_tokens", "helm.calls",
		"helm.denied", "helm.time_to_first_byte", "helm.time_held", "helm.decision", "DENY_TOOL_NOT_FOUND"} {
		assert.Contains(t, got["/v1/traces"], word)
	}
	assert.Contains(t, got["/v1/metrics"], "helm.judge.duration")
	for path, b := range got {
		assert.NotContains(t, b, secretWord, path)
	}
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
