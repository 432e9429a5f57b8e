package gates

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a policy demands of a sandbox, by what the driver was granted.

// Each field alone, one step more than is demanded, is SANDBOX_VIOLATION, and nothing runs. Why
// names demand and field, the inputs have the grants, and the receipt replays from them.
func TestSandboxOneStepMore(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, w *kerneltest.World) {
		for _, field := range slices.Sorted(maps.Keys(beyond)) {
			d := w.Sandboxed(boxedAs("wasi", beyond[field]), nil)
			said, r := w.MustCall(kerneltest.Denied(contracts.ReasonSandboxViolation), "put", `{}`, kerneltest.WithDriver(d))
			assert.True(t, strings.HasPrefix(said.Why, "the driver does not meet the sandbox P0:acme:wasi: its "),
				"%s: %s", field, said.Why)
			assert.Contains(t, said.Why, field)
			want := d.Cell().Info()
			in := judgedOf(t, w, said)
			assert.True(t, in.Sandbox.Module == want.Module && fmt.Sprint(*in.Sandbox.Grants) == fmt.Sprint(want.Grants.Filled()),
				"%s: %+v", field, in.Sandbox.Grants)
			assert.True(t, r.Record.Outcome == contracts.Denied && r.Record.Sandbox == nil, field)
		}
		assert.Zero(t, w.Runs.Load())
		exact := w.Sandboxed(boxedAs("of any name", func(*contracts.SandboxInfo) {}), kerneltest.Returns("1", nil))
		w.MustCall(kerneltest.Executed("1"), "put", `{}`, kerneltest.WithDriver(exact)) // or it would prove nothing
		report := w.MustVerify()
		assert.Zero(t, report.Replay.KernelsOwn)
		w.MustAgree(report)
	}, func(o *helm.Options) { o.Policy = kerneltest.Compile(t, surfaceFloor, claimsBundle) })
}

// Two demands are met only by what is within both. Another policy that demands less is in force
// from the call after the swap, also for the kernel of a task, whose overlay changes no demand.
func TestSandboxOfTwoDocuments(t *testing.T) {
	t.Parallel()
	bundle := strings.Replace(claimsBundle, "put:  {effect: write,", "put:  {effect: write, sandbox: small,", 1) +
		"sandboxes: {small: {gas: 500, files: {/in: write}, env: [LANG, HOME], random: real}}\n"
	eachStore(t, func(t *testing.T, w *kerneltest.World) {
		call := func(k *helm.Kernel, gas uint64, access, says string) {
			t.Helper()
			d := w.Sandboxed(boxedAs("wasi", func(x *contracts.SandboxInfo) {
				x.Grants.Gas, x.Grants.Files["/in"] = gas, access
			}), kerneltest.Returns("1", nil))
			said, _ := k.Guard(t.Context(), helm.Intent{Tool: "put", Args: []byte(`{}`), Session: "s", Driver: d})
			if says == "" {
				require.NoError(t, said.Err())
				return
			}
			assert.True(t, said.Reason == contracts.ReasonSandboxViolation && strings.Contains(said.Why, says), "%s: %s",
				said.Reason, said.Why)
		}
		task, err := w.Kernel.Narrow(kerneltest.Document(t, "helm: policy/v1\nlayer: P2\nname: task\nonly: [put]\n"))
		require.NoError(t, err)
		for _, k := range []*helm.Kernel{w.Kernel, task} {
			call(k, 500, "read", "")
			call(k, 501, "read", "P1:test:small: its grant of gas")
			call(k, 500, "write", "P0:acme:wasi: its grant of files")
			call(k, 1001, "read", "P0:acme:wasi: its grant of gas")
		}
		more := strings.NewReplacer("version: 1}", "version: 2}", "gas: 500", "gas: 1000").Replace(bundle)
		require.NoError(t, w.Kernel.Swap(t.Context(), kerneltest.Compile(t, surfaceFloor, more)))
		for _, k := range []*helm.Kernel{w.Kernel, task} {
			call(k, 501, "read", "")
			call(k, 1001, "read", "P0:acme:wasi: its grant of gas")
		}
		w.MustAgree(w.MustVerify())
	}, func(o *helm.Options) { o.Policy = kerneltest.Compile(t, surfaceFloor, bundle) })
}
