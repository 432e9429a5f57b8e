package executor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func result(r Result, err error) driver {
	return func(context.Context, contracts.Call) (Result, error) { return r, err }
}

// What a driver says of its output decides how it is recorded: as text it is never read as JSON,
// and a failed one is the tool's own error, which no schema is asked about.
func TestResult(t *testing.T) {
	t.Parallel()
	never := func(crypto.Value) bool { return false }
	for _, x := range []struct {
		name   string
		r      Result
		limit  int // 0: ample
		check  func(crypto.Value) bool
		reason contracts.ReasonCode
		output string
		form   string
	}{
		{"text that reads as a number", Result{Output: []byte("1.10"), Raw: true}, 0, nil, contracts.ReasonAllow,
			"1.10", "raw"},
		{"text that reads as JSON", Result{Output: []byte(`{"b":1, "a":2}`), Raw: true}, 0, nil,
			contracts.ReasonAllow, `{"b":1, "a":2}`, "raw"},
		{"the empty text", Result{Raw: true}, 0, nil, contracts.ReasonAllow, "", "raw"},
		{"text, pinned", Result{Output: []byte(`{}`), Raw: true}, 0, func(crypto.Value) bool { return true },
			contracts.ReasonContractDrift, "{}", "raw"},
		{"the empty text, pinned", Result{Raw: true}, 0, never, contracts.ReasonContractDrift, "", "raw"},
		{"text over its limit", Result{Output: []byte("12345"), Raw: true}, 4, nil, contracts.ReasonOutputExhausted, "",
			""},
		{"failed", Result{Output: []byte(`{"b":1, "a":2}`), Failed: true}, 0, never, contracts.ReasonToolError,
			`{"a":2,"b":1}`, "jcs"},
		{"failed, not JSON", Result{Output: []byte("no such file"), Failed: true}, 0, never, contracts.ReasonToolError,
			"no such file", "raw"},
		{"failed, text", Result{Output: []byte("1.10"), Raw: true, Failed: true}, 0, never, contracts.ReasonToolError,
			"1.10", "raw"},
		{"failed, no output", Result{Failed: true}, 0, never, contracts.ReasonToolError, "", ""},
		{"failed, no text", Result{Failed: true, Raw: true}, 0, never, contracts.ReasonToolError, "", ""},
		{"failed, over its limit", Result{Output: []byte("12345"), Failed: true}, 4, nil,
			contracts.ReasonOutputExhausted,
			"", ""},
		{"failed, canonical form over", Result{Output: []byte("1e20"), Failed: true}, 20, nil,
			contracts.ReasonOutputExhausted, "", ""},
	} {
		l := Limits{Timeout: ample.Timeout, Output: ample.Output, Check: x.check}
		if x.limit > 0 {
			l.Output = x.limit
		}
		o := try(t, context.Background(), result(x.r, nil), l)
		assert.Equal(t, x.reason, o.Reason, x.name)
		assert.Equal(t, x.output, string(o.Output), x.name)
		assert.Equal(t, x.form, o.Form, x.name)
		assert.Equal(t, x.form != "", o.Output != nil, x.name)
		assert.Equal(t, x.reason == contracts.ReasonToolError, o.Err != nil, x.name)
		if o.Err != nil {
			assert.NotContains(t, o.Err.Error(), "no such file")
		}
	}
	o := try(t, context.Background(), result(Result{Output: []byte("half made"), Raw: true, Failed: true}, errOwn),
		ample)
	assert.True(t, o.Reason == contracts.ReasonToolError && o.Output == nil && o.Err == errOwn, "with an error: %+v", o)
}

// The output is the executor's own copy, text and failed ones too.
func TestResultIsCopied(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{{Raw: true}, {Failed: true}, {Raw: true, Failed: true}} {
		r.Output = []byte("hello")
		o := try(t, context.Background(), result(r, nil), ample)
		copy(r.Output, "HELLO")
		assert.Equal(t, "hello", string(o.Output))
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	version := Text(func(_ context.Context, args json.RawMessage) (string, error) {
		if !strings.Contains(string(args), "/srv/a") {
			return "", errOwn
		}
		return "1.10", nil
	})
	o := try(t, context.Background(), version, ample)
	assert.True(t, o.Reason == contracts.ReasonAllow && string(o.Output) == "1.10" && o.Form == "raw", "%+v", o)
	_, err := version.Run(context.Background(), contracts.Call{})
	require.ErrorIs(t, err, errOwn)
	_, err = Text(nil).Run(context.Background(), contracts.Call{})
	require.ErrorIs(t, err, errNoDriver)
	assert.Equal(t, contracts.ReasonFailClosedError, try(t, context.Background(), Text(nil), ample).Reason)
}
