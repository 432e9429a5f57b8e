package sandbox

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// Each ending of a guest is recorded by its reason, with the gas, the module and the grants, over a
// log in memory and over one in files; and what the record says, an auditor's run says too.
func TestRecords(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rerun := newRoom(t).Rerun(nil)
	rows := map[string]struct {
		wasm   []byte
		grants contracts.Sandbox
		want   kerneltest.Want
	}{
		"released": {prints(1, `{"b": 1, "a": 2}`).bytes(), contracts.Sandbox{}, kerneltest.Executed(`{"a":2,"b":1}`)},
		"text":     {prints(1, `1.10 and more`).bytes(), contracts.Sandbox{}, kerneltest.Executed("1.10 and more")},
		"clock":    {clocks(1), contracts.Sandbox{}, kerneltest.Want{Verdict: contracts.Allow, Reason: contracts.ReasonAllow, Outcome: contracts.Executed}},
		"gas":      limited(command(forever()).bytes(), contracts.Sandbox{Gas: 1e6}, contracts.ReasonGasExhausted),
		"sleep":    limited(clocks(365*24*3600*1e9), contracts.Sandbox{}, contracts.ReasonGasExhausted),
		"memory":   limited(command(forever(i32(1), grow, drop)).bytes(), contracts.Sandbox{Memory: 9}, contracts.ReasonMemoryExhausted),
		"stack":    limited(build{memory: 1, funcs: []fn{{code: call(0)}}}.bytes(), contracts.Sandbox{}, contracts.ReasonMemoryExhausted),
		"output":   limited(prints(1, "12345").bytes(), contracts.Sandbox{Output: 4}, contracts.ReasonOutputExhausted),
	}
	endless := r.load(command(forever()).bytes(), contracts.Sandbox{Gas: 1e12}, Host{})
	for _, on := range []string{"memory", "files"} {
		w := kerneltest.New(t, func(o *helm.Options) {
			if on == "files" {
				store, err := filestore.Open(t.TempDir(), filestore.Options{})
				require.NoError(t, err)
				t.Cleanup(func() { store.Close() })
				kerneltest.Faulty(o.Store).Store = store
			}
			o.Drivers["slow"] = endless
			o.Keep.Modules = true
		})
		for name, row := range rows {
			m := r.load(row.wasm, row.grants, Host{})
			d, receipt := w.Call("unbound", "{}", kerneltest.WithDriver(m))
			assert.Equal(t, row.want.Reason, receipt.Record.Reason, "%s: %v", name, d.Err())
			assert.Equal(t, row.want.Outcome, receipt.Record.Outcome, name)
			if row.want.Output != "" {
				assert.Equal(t, row.want.Output, string(receipt.Output), name)
			}
			use := receipt.Record.Sandbox
			require.NotNil(t, use, name)
			assert.True(t, use.Module == crypto.Sum(row.wasm) && use.Profile == "box" && use.Grants != nil, "%+v", use)
			assert.True(t, use.Gas > 0 && use.Gas <= m.grants.Gas, "%s: %d", name, use.Gas)
			assert.Equal(t, row.want.Reason == contracts.ReasonGasExhausted, use.Gas == m.grants.Gas, name)

			decision := w.Entry(receipt.Index - 1)
			intent := contracts.AuthorizedExecutionIntent{Decision: decision}
			hash, at, err := intent.Decided()
			require.NoError(t, err)
			grants := row.grants
			grants.Gas = use.Gas
			again, err := rerun(context.Background(), contracts.Rerunnable{Module: use.Module, Bytes: row.wasm, Meter: 1,
				Grants: grants, Tool: "unbound", Args: []byte("{}"), Decision: hash, Time: at})
			require.NoError(t, err)
			assert.True(t, again.Reason == receipt.Record.Reason && again.Gas == use.Gas, "%s: %+v", name, again)
			if name == "clock" {
				assert.Equal(t, string(receipt.Output), string(again.Output))
			}
		}
		trap := r.load(prints(2, "why", unreachable).bytes(), contracts.Sandbox{}, Host{})
		d, receipt := w.Call("unbound", "{}", kerneltest.WithDriver(trap))
		assert.True(t, receipt.Record.Reason == contracts.ReasonToolError && receipt.Record.Sandbox != nil, "%v", d.Err())
		assert.ErrorContains(t, d.Err(), `sandbox: trap: unreachable: "why"`)

		_, receipt = w.Call("slow", "{}")
		assert.Equal(t, contracts.ReasonTimeExhausted, receipt.Record.Reason)
		assert.True(t, receipt.Record.Sandbox != nil && receipt.Record.Sandbox.Gas > 1e6, "%+v", receipt.Record.Sandbox)
		w.MustVerify()

		// An auditor with nothing but the pack runs all of them again.
		pack := w.Pack()
		report, err := evidence.Verify(context.Background(), bytes.NewReader(pack), int64(len(pack)),
			evidence.Options{Trust: w.Kernel.Trust(), Origin: kerneltest.Origin, Rerun: newRoom(t).Rerun(nil)})
		require.NoError(t, err)
		same := uint64(len(rows) + 1)
		assert.Equal(t, evidence.Rerun{Same: same, Unpinned: same, Ended: 1}, report.Rerun)
	}
}

func limited(wasm []byte, grants contracts.Sandbox, reason contracts.ReasonCode) (row struct {
	wasm   []byte
	grants contracts.Sandbox
	want   kerneltest.Want
}) {
	row.wasm, row.grants = wasm, grants
	row.want = kerneltest.Withheld(reason, contracts.Failed)
	if reason == contracts.ReasonOutputExhausted {
		row.want.Outcome = contracts.Withheld
	}
	return row
}

// A module that is wrapped, embedded or copied does not run.
func TestOnlyTheModuleItselfRuns(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	m := r.load(prints(1, "x").bytes(), contracts.Sandbox{}, Host{})
	w := kerneltest.New(t)
	copied := *m
	for name, d := range map[string]helm.Driver{
		"embedded": struct{ *Module }{m}, "copied": &copied, "zero": new(Module), "nil": (*Module)(nil),
	} {
		d, receipt := w.Call("unbound", "{}", kerneltest.WithDriver(d))
		assert.ErrorIs(t, d.Err(), helm.ErrDenied, name)
		assert.True(t, receipt.Record.Outcome == contracts.Denied && receipt.Record.Sandbox == nil, "%s: %+v", name, receipt.Record)
	}
	_, receipt := w.Call("unbound", "{}", kerneltest.WithDriver(m))
	assert.Equal(t, "x", string(receipt.Output))
	w.MustVerify()
}
