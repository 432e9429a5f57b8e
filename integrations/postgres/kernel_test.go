//go:build unix

package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
)

const budget = "budgets:\n  - {id: calls, tools: [echo], limit: 300, per: all, window: total, cost: 1}\n"

// Kernels over stores of their own, as processes have them, share one log and one budget. One dies
// while its call runs, and the others settle that.
func TestKernels(t *testing.T) {
	t.Parallel()
	ctx, b := context.Background(), newBase(t, server(t))
	origin := kerneltest.Origin // which the second implementation is told
	key := kerneltest.SeedKey(t, 1)
	var stores []*Store
	var kernels []*helm.Kernel
	var runs atomic.Int64
	for range 4 {
		s, err := Open(ctx, b.url(), Options{Origin: origin})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		k, err := helm.New(helm.Options{Policy: kerneltest.Compile(t, kerneltest.Policy+budget), Key: key,
			LogKey: crypto.DeriveLogKey(key), Origin: origin, Store: s, Drivers: map[string]executor.Driver{
				"echo": executor.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
					runs.Add(1)
					return args, nil
				})}})
		require.NoError(t, err)
		t.Cleanup(func() { k.Close() })
		stores, kernels = append(stores, s), append(kernels, k)
	}
	var executed, denied atomic.Int64
	var all sync.WaitGroup
	for i, k := range kernels {
		for g := range 16 {
			all.Go(func() {
				for range 6 {
					d, r := k.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: fmt.Sprintf("s%d-%d", i, g)})
					switch {
					case r.Record.Outcome == contracts.Executed:
						executed.Add(1)
					case d.Reason == contracts.ReasonBudgetExceeded:
						denied.Add(1)
					default:
						t.Errorf("%s: %s: %v", d.Reason, d.Why, d.Err())
					}
				}
			})
		}
	}
	all.Wait()
	assert.Equal(t, int64(300), executed.Load())
	assert.Equal(t, int64(4*16*6-300), denied.Load())
	assert.Equal(t, int64(300), runs.Load())
	require.NoError(t, stores[0].Check(ctx))

	_, err := kernels[1].Checkpoint(ctx)
	require.NoError(t, err)
	var pack bytes.Buffer
	require.NoError(t, evidence.Write(ctx, &pack, stores[2], key))
	r, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: kernels[3].Trust(), Origin: origin})
	require.NoError(t, err)
	require.True(t, r.Success(evidence.Logged), "%v", r)
	require.Zero(t, r.Replay.Differing)
	require.NotZero(t, r.Replay.Replayed)
	kerneltest.MustAgree(t, pack.Bytes(), kernels[3].Trust(), r)
}
