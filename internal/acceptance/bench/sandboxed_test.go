//go:build unix

package bench

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/require"
)

// A sandboxed driver returns at once: what the guest takes is left out.
type sandboxed struct{ cell *cell.Cell }

func (s *sandboxed) Cell() *cell.Cell { return s.cell }

func (s *sandboxed) Run(context.Context, contracts.Call) (executor.Result, error) {
	panic("the driver's own Run")
}

// BenchmarkSandboxed calls a function and a driver in a sandbox that does the same, in turn, and
// reports the medians' difference and the allocations of each.
func BenchmarkSandboxed(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	output := json.RawMessage(`{"exit":0}`)
	box := new(sandboxed)
	module := []byte("module")
	box.cell = cell.New(box, contracts.SandboxInfo{Profile: "box", Module: crypto.Sum(module), Meter: 1,
		Grants: &contracts.Sandbox{Env: []string{"LANG"}, Files: map[string]string{"/tmp": "read"}}}, module,
		func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: output, Gas: 7}, nil
		})
	drivers := []executor.Driver{
		helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { return output, nil }), box}
	k, err := helm.New(helm.Options{Policy: kerneltest.Compile(b, benchPolicy), Key: kerneltest.SeedKey(b, 1),
		Store: proofgraph.NewMemory()})
	require.NoError(b, err)
	in := helm.Intent{Tool: "code.run", Args: benchArgs(b), Caller: helm.Caller{ID: "ada", Roles: []string{"dev"}},
		Session: "bench"}
	call := func(driver executor.Driver) {
		in.Driver = driver
		d, r := k.Guard(context.Background(), in)
		if d.Err() != nil || (driver == executor.Driver(box)) != (r.Record.Sandbox != nil) {
			b.Fatal(d.Err())
		}
	}
	var taken [2][]time.Duration
	for b.Loop() {
		for i := range drivers {
			t0 := time.Now()
			call(drivers[i])
			taken[i] = append(taken[i], time.Since(t0))
		}
	}
	for i := range taken {
		slices.Sort(taken[i])
	}
	middle := len(taken[0]) / 2
	b.ReportMetric(float64(taken[0][middle].Nanoseconds()), "ns/func")
	b.ReportMetric(float64((taken[1][middle] - taken[0][middle]).Nanoseconds()), "ns-more")
	for i, unit := range []string{"allocs/func", "allocs/sandboxed"} {
		b.ReportMetric(testing.AllocsPerRun(100, func() { call(drivers[i]) }), unit)
	}
}
