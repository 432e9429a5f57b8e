package knows

import (
	"context"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A log of before there were threat signals goes on: the same documents are another policy, whose
// entry is written, and sessions have what the tools brought by the documents of then.
func TestLogOfAnEarlierEngineGoesOn(t *testing.T) {
	t.Parallel()
	doc := kerneltest.Document(t, Mail)
	old, err := guardian.CompileFor(contracts.Engine{Rules: 2}, doc)
	require.NoError(t, err)
	w := newOffice(t, func(o *helm.Options) { o.Policy = old })
	w.Tool = kerneltest.Returns(`{}`, nil)
	w.mustDo("s", "web")
	r := w.mustDo("s", "crm")
	require.NoError(t, w.Kernel.UserMessage(context.Background(), "s", "hello"))
	w.Options.Policy = kerneltest.Compile(t, Mail)
	for range 2 {
		w.Reopen()
		assert.Equal(t, "Tpw", w.marks("s"))
		assert.Equal(t, "Tpw", w.marks("t", r))
	}
	w.MustVerify()
	var engines []contracts.Engine
	for _, st := range w.Statements() {
		if st.Policy != nil {
			engines = append(engines, st.Policy.Engine)
		}
	}
	assert.Equal(t, []contracts.Engine{{Rules: 2}, {Rules: 2, Threat: 1}}, engines)
}

// What was judged before there were threat signals replays with nothing scanned, next to calls of
// the same documents that are scanned.
func TestSignalsOfAnEarlierEngine(t *testing.T) {
	t.Parallel()
	const hidden = "ACC\u202e1000"
	doc := kerneltest.Document(t, Attacked)
	old, err := guardian.CompileFor(contracts.Engine{Rules: 2}, doc)
	require.NoError(t, err)
	w, _ := newAttacked(t, false)
	w.Close()
	w.Options.Policy = old
	w.Open()
	w.Tool = kerneltest.Returns(`{}`, nil)
	w.say("s", "pay "+hidden)
	args := argsOf("to", hidden)
	d, r := w.Call("pay", args)
	require.NoError(t, d.Err())
	assert.Empty(t, d.Record.Signals)
	assert.Empty(t, r.Record.Signals)
	w.Options.Policy = kerneltest.Compile(t, Attacked)
	w.Reopen()
	d, r = w.Call("pay", args)
	assert.Equal(t, contracts.ReasonThreatSignalDetected, d.Reason)
	assert.Equal(t, "/to: signal bidi-override", d.Why)
	assert.Equal(t, contracts.Denied, r.Record.Outcome)
	assert.Equal(t, []string{"bidi-override"}, r.Record.Decision.Signals)
	report := w.MustVerify()
	assert.EqualValues(t, 2, report.Replay.Replayed)
	assert.Zero(t, report.Replay.NotReplayable)
	w.mustReplay(old)
}
