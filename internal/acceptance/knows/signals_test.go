package knows

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Watched are a floor and a bundle by which outputs with some shapes give their session a label.
const (
	watchedFloor = `
helm: policy/v1
layer: P0
name: floor
version: 1
labels: [suspect]
threat: {outputs: {suspect: [hidden-tag, bidi-override]}}
`
	watchedBundle = `
helm: policy/v1
layer: P1
bundle: {name: watched, version: 1}
labels: [loud]
tools:
  web:  {effect: read, trusted: true, input: {type: object, properties: {}}, limits: {timeout: 1s}}
  page: {effect: read, trusted: true, input: {type: object, properties: {}}, output: {type: object}, threat: {outputs: {loud: [control]}}}
  post: {effect: write, trusted: true, input: {type: object, properties: {}}}
  save: {effect: write, trusted: true, input: {type: object, properties: {}}}
rules:
  - {id: suspect, deny: post, when: {session: labels, has: suspect}}
  - {id: loud, deny: save, when: {session: labels, has: loud}}
  - {id: all, allow: [web, page, post, save]}
`
)

func newWatched(t *testing.T, change ...func(*helm.Options)) office {
	t.Helper()
	return office{kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, watchedFloor, watchedBundle)
		for _, tool := range []string{"web", "page", "post", "save"} {
			o.Drivers[tool] = o.Drivers["echo"]
		}
		for _, tool := range []string{"echo", "pinned", "slow", "scoped", "closed"} {
			delete(o.Drivers, tool)
		}
	}}, change...)...)}
}

// labels returns which labels a session has, as two tools are told.
func (w office) labels(session string, after ...helm.Receipt) (labels string) {
	w.T.Helper()
	w.Tool = kerneltest.Returns(`{}`, nil)
	for _, x := range []struct{ tool, label string }{{"post", "suspect "}, {"save", "loud "}} {
		if d, r := w.do(session, x.tool, after...); d.Reason != contracts.ReasonAllow {
			require.Equal(w.T, contracts.ReasonPolicyViolation, d.Reason)
			require.Equal(w.T, contracts.Denied, r.Record.Outcome)
			labels += x.label
		}
	}
	return labels
}

// Signals in an output that is released are in its receipt and label the session, whether the tool
// failed or not. What is not released has no signals, and brings no label.
func TestSignalsOfOutputs(t *testing.T) {
	t.Parallel()
	const tag, bidi = "\U000E0041", "\u202E"
	result := func(r executor.Result, err error) kerneltest.Tool {
		return func(context.Context, contracts.Call) (executor.Result, error) { return r, err }
	}
	out := func(s string) executor.Result { return executor.Result{Output: []byte(s)} }
	raw := func(s string) executor.Result { return executor.Result{Output: []byte(s), Raw: true} }
	failed := func(r executor.Result) executor.Result { r.Failed = true; return r }
	for name, c := range map[string]struct {
		tool    string
		does    kerneltest.Tool
		outcome contracts.Outcome
		signals string
		labels  string
	}{
		"nothing":               {"page", result(out(`{"a":"b"}`), nil), contracts.Executed, "[]", ""},
		"in a value":            {"page", result(out(`{"a":"`+tag+`"}`), nil), contracts.Executed, "[hidden-tag]", "suspect "},
		"in a key":              {"page", result(out(`{"`+bidi+`":1}`), nil), contracts.Executed, "[bidi-override]", "suspect "},
		"escaped":               {"page", result(out(`{"a":["\u0001"]}`), nil), contracts.Executed, "[control]", "loud "},
		"without a label":       {"page", result(out(`{"a":"\u0000"}`), nil), contracts.Executed, "[nul]", ""},
		"several":               {"page", result(out(`{"a":"`+bidi+`","b":"\u0001"}`), nil), contracts.Executed, "[bidi-override control]", "suspect loud "},
		"label of another tool": {"web", result(out(`{"a":"\u0001"}`), nil), contracts.Executed, "[control]", ""},
		"not JSON":              {"web", result(out(`{`+tag), nil), contracts.Executed, "[hidden-tag]", "suspect "},
		"text":                  {"web", result(raw(`"\u202e"`+bidi), nil), contracts.Executed, "[bidi-override]", "suspect "},
		"text with escapes":     {"web", result(raw(`"\u202e"`), nil), contracts.Executed, "[]", ""},
		"not UTF-8":             {"web", result(raw("\xff"+tag), nil), contracts.Executed, "[hidden-tag]", "suspect "},
		"a failed output":       {"page", result(failed(out(`{"a":"`+tag+`"}`)), nil), contracts.Failed, "[hidden-tag]", "suspect "},
		"a failed text":         {"web", result(failed(raw(tag)), nil), contracts.Failed, "[hidden-tag]", "suspect "},
		"an error":              {"web", result(out(tag), fmt.Errorf("%s", tag)), contracts.Failed, "[]", ""},
		"drift":                 {"page", result(out(`["`+tag+`"]`), nil), contracts.Withheld, "[]", ""},
		"over the limit":        {"web", result(out(strings.Repeat(tag, 1<<19)), nil), contracts.Withheld, "[]", ""},
		"a panic":               {"web", func(context.Context, contracts.Call) (executor.Result, error) { panic(tag) }, contracts.Failed, "[]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t)
			require.Empty(t, w.labels("s"))
			w.Tool = c.does
			_, r := w.do("s", c.tool)
			require.Equal(t, c.outcome, r.Record.Outcome)
			assert.Equal(t, c.signals, fmt.Sprint(r.Record.Signals))
			for range 2 {
				assert.Equal(t, c.labels, w.labels("s"))
				assert.Equal(t, c.labels, w.labels("t", r))
				w.Reopen()
			}
			w.MustVerify()
		})
	}
}

// An output under Keep.Outputs that its key recalls has brought its label when it was released.
func TestSignalsOfARecalledOutput(t *testing.T) {
	t.Parallel()
	w := newWatched(t, func(o *helm.Options) { o.Keep.Outputs = true })
	w.Tool = kerneltest.Returns(`{"a":"`+"\u202E"+`"}`, nil)
	_, first := w.Call("page", `{}`, kerneltest.WithKey("k"))
	require.Len(t, first.Record.Signals, 1)
	for range 2 {
		_, again := w.Call("page", `{}`, kerneltest.WithKey("k"))
		assert.Equal(t, string(first.Output), string(again.Output))
		assert.Equal(t, first.Record.Signals, again.Record.Signals)
		assert.Equal(t, "suspect ", w.labels("s"))
		assert.Equal(t, "suspect ", w.labels("t", again))
		w.Reopen()
	}
	w.MustVerify()
}
