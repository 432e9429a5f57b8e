package calls

import (
	"context"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/receipts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An output that the tool calls failed is recorded and released as any other, in memory and on
// files, to repeats too; and text is released byte for byte.
func TestFailedOutputAndText(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]bool{"memory": false, "files": true} {
		for _, keep := range []bool{true, false} {
			t.Run(name, func(t *testing.T) { failedOutputAndText(t, files, keep) })
		}
	}
}

func failedOutputAndText(t *testing.T, files, keep bool) {
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Keep.Outputs = keep
		if files {
			s, err := filestore.Open(t.TempDir(), filestore.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			o.Store = &kerneltest.FaultyStore{Store: s}
		}
	})
	w.Store = kerneltest.Faulty(w.Options.Store)
	for _, x := range []struct {
		name, tool   string
		result       executor.Result
		reason       contracts.ReasonCode
		outcome      contracts.Outcome
		output, form string // of the receipt; "" is none
	}{
		{"failed", "echo", executor.Result{Output: []byte(`{"why":"no such file" }`), Failed: true},
			contracts.ReasonToolError, contracts.Failed, `{"why":"no such file"}`, "jcs"},
		{"failed-text", "echo", executor.Result{Output: []byte("1.10"), Failed: true, Raw: true},
			contracts.ReasonToolError, contracts.Failed, "1.10", "raw"},
		{"failed-pinned", "pinned", executor.Result{Output: []byte("no JSON"), Failed: true},
			contracts.ReasonToolError, contracts.Failed, "no JSON", "raw"},
		{"failed-pinned-fits", "pinned", executor.Result{Output: []byte(`{"ok":true}`), Failed: true},
			contracts.ReasonToolError, contracts.Failed, `{"ok":true}`, "jcs"},
		{"failed-nothing", "echo", executor.Result{Failed: true}, contracts.ReasonToolError, contracts.Failed, "", ""},
		{"failed-long", "echo", executor.Result{Output: make([]byte, 1025), Failed: true},
			contracts.ReasonOutputExhausted, contracts.Withheld, "", ""},
		{"text", "echo", executor.Result{Output: []byte(`{"b":1,"a":1.10}`), Raw: true}, contracts.ReasonAllow,
			contracts.Executed, `{"b":1,"a":1.10}`, "raw"},
		{"text-empty", "echo", executor.Result{Raw: true}, contracts.ReasonAllow, contracts.Executed, "", "raw"},
		{"text-pinned", "pinned", executor.Result{Output: []byte(`{"ok":true}`), Raw: true},
			contracts.ReasonContractDrift, contracts.Withheld, `{"ok":true}`, "raw"},
	} {
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) { return x.result, nil }
		d, r := w.Call(x.tool, `{}`, kerneltest.WithKey(x.name))
		assert.Equal(t, x.reason, d.Reason, x.name)
		record, err := receipts.Open(r.Entry, w.TrustState(), r.Index)
		require.NoError(t, err, x.name)
		assert.Equal(t, x.outcome, record.Outcome, x.name)
		assert.Equal(t, x.form, record.OutputForm, x.name)
		if x.form != "" {
			assert.Equal(t, crypto.Sum([]byte(x.output)), *record.OutputHash, x.name)
		}
		released := x.form != "" && x.outcome != contracts.Withheld
		assert.Equal(t, released, r.Output != nil, x.name)
		if released {
			assert.Equal(t, x.output, string(r.Output), x.name)
		}
		assert.Equal(t, x.reason == contracts.ReasonAllow, d.Err() == nil, x.name)
		if x.reason == contracts.ReasonToolError {
			assert.NotErrorIs(t, d.Err(), helm.ErrDenied)
			assert.NotErrorIs(t, d.Err(), helm.ErrWithheld)
			assert.NotContains(t, d.Err().Error(), "no such", "the tool's words are its output, not an error")
		}
		w.Reopen() // and a repeat, for which nothing runs
		w.Runs.Store(0)
		again, r2 := w.Call(x.tool, `{}`, kerneltest.WithKey(x.name))
		assert.Zero(t, w.Runs.Load(), x.name)
		switch {
		case keep || !released:
			assert.Equal(t, d.Reason, again.Reason, x.name)
			assert.Equal(t, string(r.Output), string(r2.Output), x.name)
			assert.Equal(t, r.Output != nil, r2.Output != nil, x.name)
		case x.reason == contracts.ReasonToolError:
			assert.Equal(t, contracts.ReasonToolError, again.Reason, x.name)
			assert.Nil(t, r2.Output, x.name)
			assert.Error(t, again.Err())
		default:
			assert.Equal(t, contracts.ReasonOutputNotKept, again.Reason, x.name)
		}
	}
	report := w.MustVerify()
	assert.Zero(t, report.Replay.Differing)
}
