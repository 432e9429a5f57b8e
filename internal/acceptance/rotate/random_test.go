package rotate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
)

// Events, calls and restarts in any order, with any of the keys: the kernel does as the trust state
// of the log says, and the whole log verifies under the state that it began with.
func TestRotateAtRandom(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	entered, refused, turned, ended := 0, 0, 0, 0
	seeds := uint64(8)
	least := func(n int) int { return n }
	if testing.Short() {
		seeds, least = 2, func(int) int { return 1 }
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			w := kerneltest.NewGoverned(t, func(o *helm.Options) { o.LogKey = kerneltest.SeedKey(t, 120) })
			pool := map[registry.Role][]byte{registry.Kernel: {1, 101, 102, 103}, registry.Log: {120, 121, 122, 123}}
			pick := func(role registry.Role) byte { return pool[role][random.IntN(4)] }
			key, log := byte(1), byte(120)
			valid := func(seed byte, role registry.Role) bool {
				_, ok := w.TrustState().Key(*kerneltest.KeyID(t, seed), role, w.Size())
				return ok
			}
			alive := true
			for range 60 {
				role := registry.Kernel
				if random.IntN(2) == 0 {
					role = registry.Log
				}
				of := pick(role)
				var e contracts.TrustEvent
				switch n := random.IntN(10); {
				case !alive || n < 3: // the next process
					k, l := pick(registry.Kernel), pick(registry.Log)
					w.Close()
					w.UseKeys(k, l)
					if !valid(k, registry.Kernel) || !valid(l, registry.Log) {
						w.MustRefuseNew(fmt.Sprint("keys ", k, " and ", l), "key")
						refused++
						w.UseKeys(key, log)
						if !valid(key, registry.Kernel) || !valid(log, registry.Log) {
							alive = false
							continue
						}
						k, l = key, log
					}
					if k != key || l != log {
						turned++
					}
					key, log, alive = k, l, true
					w.Open()
					continue
				case n < 5:
					d, _ := w.Echo(w.Kernel, 1)
					frozen := w.TrustState().Frozen()
					assert.NotEqual(t, frozen, d.Allowed())
					assert.Equal(t, d.Reason == contracts.ReasonSystemFrozen, frozen)
					continue
				case n < 7:
					e = w.Adding(of, fmt.Sprint("key ", of), role)
				case n < 9:
					e = w.Revoking(of)
				case w.TrustState().Frozen():
					e = w.Unfreezing()
				default:
					e = w.Freezing()
				}
				before := w.TrustState()
				record := kerneltest.Must(contracts.ParseTrust(kerneltest.SignEvent(t, e, kerneltest.Root1,
					kerneltest.Root3)))
				_, want := before.Apply(record, kerneltest.Origin, w.Size())
				err := w.Kernel.Govern(context.Background(),
					kerneltest.SignEvent(t, e, kerneltest.Root1, kerneltest.Root3))
				if (err == nil) != (want == nil) || err != nil && !strings.Contains(err.Error(), want.Error()) {
					t.Errorf("%s: %v, want %v", e.Type, err, want)
				}
				if err != nil {
					refused++
					continue
				}
				entered++
				if alive = valid(key, registry.Kernel) && valid(log, registry.Log); !alive {
					ended++
					w.Runs.Store(0)
					w.MustBeSealed()
				}
			}
			w.Close()
			for _, k := range pool[registry.Kernel] {
				for _, l := range pool[registry.Log] {
					if valid(k, registry.Kernel) && valid(l, registry.Log) {
						key, log = k, l
					}
				}
			}
			w.UseKeys(key, log)
			w.Open()
			w.MustFollowTrust()
			report := w.MustVerify()
			if seed == 0 { // it takes a while to build
				w.MustAgree(report)
			}
		})
	}
	assert.GreaterOrEqual(t, entered, least(60))
	assert.GreaterOrEqual(t, refused, least(60))
	assert.GreaterOrEqual(t, turned, least(10))
	assert.GreaterOrEqual(t, ended, least(5))
	t.Logf("%d events entered, %d refusals, %d turns, %d kernels ended", entered, refused, turned, ended)
}
