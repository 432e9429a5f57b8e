package rotate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
)

// counts are how often a random run did what it is for.
type counts struct{ entered, refused, turned, ended int }

// A rotation is a governed log whose kernel and log keys change at random.
type rotation struct {
	*kerneltest.World
	*counts
	random   *rand.Rand
	key, log byte // of the latest kernel
	alive    bool // that kernel has not been ended
}

// pool are the seeds of the keys of each role.
var pool = map[registry.Role][]byte{registry.Kernel: {1, 101, 102, 103}, registry.Log: {120, 121, 122, 123}}

func (r *rotation) pick(role registry.Role) byte { return pool[role][r.random.IntN(4)] }

// valid reports whether keys of these seeds may sign now.
func (r *rotation) valid(key, log byte) bool {
	s, size := r.TrustState(), r.Size()
	_, one := s.Key(*kerneltest.KeyID(r.T, key), registry.Kernel, size)
	_, other := s.Key(*kerneltest.KeyID(r.T, log), registry.Log, size)
	return one && other
}

// restart goes on with keys at random. If those are not valid it goes on with the latest, unless
// these are not valid either.
func (r *rotation) restart() {
	key, log := r.pick(registry.Kernel), r.pick(registry.Log)
	r.Close()
	r.UseKeys(key, log)
	if !r.valid(key, log) {
		r.MustRefuseNew(fmt.Sprint("keys ", key, " and ", log), "key")
		r.refused++
		r.UseKeys(r.key, r.log)
		if r.alive = r.valid(r.key, r.log); !r.alive {
			return
		}
		key, log = r.key, r.log
	}
	if key != r.key || log != r.log {
		r.turned++
	}
	r.key, r.log, r.alive = key, log, true
	r.Open()
}

// call makes a call, which must be allowed unless the system is frozen.
func (r *rotation) call() {
	d, _ := r.Echo(r.Kernel, 1)
	frozen := r.TrustState().Frozen()
	assert.NotEqual(r.T, frozen, d.Allowed())
	assert.Equal(r.T, frozen, d.Reason == contracts.ReasonSystemFrozen)
}

// event is an event at random, of a key of the pool or of the system.
func (r *rotation) event(role registry.Role, of byte, n int) contracts.TrustEvent {
	switch {
	case n < 7:
		return r.Adding(of, fmt.Sprint("key ", of), role)
	case n < 9:
		return r.Revoking(of)
	case r.TrustState().Frozen():
		return r.Unfreezing()
	}
	return r.Freezing()
}

// enter enters an event, which the kernel must accept or refuse as the trust state does.
func (r *rotation) enter(e contracts.TrustEvent) {
	envelope := kerneltest.SignEvent(r.T, e, kerneltest.Root1, kerneltest.Root3)
	_, want := r.TrustState().Apply(kerneltest.Must(contracts.ParseTrust(envelope)), kerneltest.Origin, r.Size())
	err := r.Kernel.Govern(context.Background(), envelope)
	if want != nil {
		assert.ErrorContains(r.T, err, want.Error(), e.Type)
	} else {
		assert.NoError(r.T, err, e.Type)
	}
	if err != nil {
		r.refused++
		return
	}
	r.entered++
	if r.alive = r.valid(r.key, r.log); !r.alive {
		r.ended++
		r.Runs.Store(0)
		r.MustBeSealed()
	}
}

func (r *rotation) step() {
	role := registry.Kernel
	if r.random.IntN(2) == 0 {
		role = registry.Log
	}
	of := r.pick(role)
	switch n := r.random.IntN(10); {
	case !r.alive || n < 3: // the next process
		r.restart()
	case n < 5:
		r.call()
	default:
		r.enter(r.event(role, of, n))
	}
}

// finish opens the log with valid keys.
func (r *rotation) finish() {
	r.Close()
	for _, k := range pool[registry.Kernel] {
		for _, l := range pool[registry.Log] {
			if r.valid(k, l) {
				r.key, r.log = k, l
			}
		}
	}
	r.UseKeys(r.key, r.log)
	r.Open()
}

// Events, calls and restarts in any order, with any of the keys: the kernel does as the trust state
// of the log says, and the whole log verifies under the state that it began with.
func TestRotateAtRandom(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	seeds, least := uint64(8), counts{60, 60, 10, 5}
	if testing.Short() {
		seeds, least = 2, counts{1, 1, 1, 1}
	}
	var n counts
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := kerneltest.NewGoverned(t, func(o *helm.Options) { o.LogKey = kerneltest.SeedKey(t, 120) })
			r := &rotation{World: w, counts: &n, random: rand.New(rand.NewPCG(seed, 7)), key: 1, log: 120, alive: true}
			for range 60 {
				r.step()
			}
			r.finish()
			r.MustFollowTrust()
			report := r.MustVerify()
			if seed == 0 {
				r.MustAgree(report)
			}
		})
	}
	assert.GreaterOrEqual(t, n.entered, least.entered, "events entered")
	assert.GreaterOrEqual(t, n.refused, least.refused, "refusals")
	assert.GreaterOrEqual(t, n.turned, least.turned, "changes of keys")
	assert.GreaterOrEqual(t, n.ended, least.ended, "kernels ended")
	t.Logf("%+v", n)
}
