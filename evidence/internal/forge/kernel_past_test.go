package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// An erasing store forgets some of its blobs.
type erasing struct {
	proofgraph.Store
	mu   sync.Mutex
	gone map[contracts.Digest]bool
}

func (s *erasing) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone[d] {
		return nil, proofgraph.ErrNoBlob
	}
	return s.Store.Blob(ctx, d)
}

// A host is a kernel with FixturePolicy, over a store that outlives it.
type host struct {
	testing.TB
	store  *erasing
	trust  *registry.Registry
	kernel *helm.Kernel
	mu     sync.Mutex
	now    time.Time
	counts map[contracts.ReasonCode]int
	given  []contracts.Envelope // approvals
	nonces io.Reader            // nil: random ones
}

func (o *host) clock() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = o.now.Add(7 * time.Second)
	return o.now
}

var errTool = errors.New("the tool fails")

func (o *host) open(keep helm.Keep) {
	o.Helper()
	policy, err := guardian.Compile(contracts.Document{Name: "desk",
		Canonical: []byte(CanonicalText(o, FixturePolicy))})
	require.NoError(o, err)
	drivers := map[string]executor.Driver{}
	for i, tool := range []string{"act", "look", "open", "pay", "shut"} {
		n := i
		drivers[tool] = helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if n++; n%4 == 0 {
				return nil, errTool
			}
			return json.RawMessage(`1`), nil
		})
	}
	o.kernel, err = helm.New(helm.Options{Policy: policy, Key: Key(o, SeedK1), LogKey: Key(o, SeedL), Store: o.store,
		Origin: Origin, Trust: o.trust,
		Drivers: drivers, Keep: keep, Now: o.clock, Rand: o.nonces})
	require.NoError(o, err)
}

// guard makes a call, and keeps count.
func (o *host) guard(in helm.Intent) helm.Decision {
	d, _ := o.kernel.Guard(context.Background(), in)
	o.mu.Lock()
	o.counts[d.Reason]++
	o.mu.Unlock()
	return d
}

// work makes calls at random, and asks for approvals, of which some are used again, or elsewhere.
func (o *host) work(r *rand.Rand, n int) {
	for range n {
		in := helm.Intent{Session: fmt.Sprint("s", r.IntN(12)), Caller: contracts.Caller{ID: "agent"},
			Args: json.RawMessage(fmt.Sprintf(`{"path":"/%d"}`, r.IntN(4)))}
		switch r.IntN(12) {
		case 0:
			in.Tool, in.Args = "open", json.RawMessage(`{}`)
		case 1:
			in.Tool, in.Args = "shut", json.RawMessage(`{}`)
		case 2, 3, 4:
			in.Tool = "act"
		case 5, 6, 7, 8, 9:
			in.Tool = "look"
		default:
			o.pay(r, in)
			continue
		}
		o.guard(in)
	}
}

func (o *host) pay(r *rand.Rand, in helm.Intent) {
	in.Tool, in.Args = "pay", json.RawMessage(fmt.Sprintf(`{"amount":%d}`, 9+r.IntN(3)))
	o.mu.Lock()
	if len(o.given) > 0 && r.IntN(2) == 0 { // one of before
		in.Approvals = []contracts.Envelope{o.given[r.IntN(len(o.given))]}
	}
	o.mu.Unlock()
	d := o.guard(in)
	if d.Pending == nil {
		return
	}
	in.Approvals = nil
	for _, seed := range []byte{SeedA, seedA2} {
		e, err := contracts.Approval{Request: *d.Pending, Time: d.Pending.NotBefore + contracts.Time(r.IntN(3)),
			Verdict: r.IntN(9) > 0}.Sign(Key(o, seed))
		require.NoError(o, err)
		if r.IntN(4) > 0 {
			in.Approvals = append(in.Approvals, e)
		}
		o.mu.Lock()
		o.given = append(o.given, e)
		o.mu.Unlock()
	}
	o.guard(in)
}

// erase forgets the inputs of one call in three.
func (o *host) erase(r *rand.Rand) {
	o.Helper()
	size, err := o.store.Size(o.Context())
	require.NoError(o, err)
	var reader contracts.Reader
	for e, err := range o.store.Entries(o.Context(), 0, size) {
		require.NoError(o, err)
		sealed, err := reader.Open(e)
		require.NoError(o, err)
		if st, err := sealed.Statement(); err == nil && st.Judgement() != nil && r.IntN(3) == 0 {
			o.store.gone[st.Judgement().InputsHash] = true
		}
	}
}

// years runs four kernels over one store, one after the other. The second keeps no inputs. After
// each, some of the blobs are erased.
func years(t testing.TB, seed uint64, each func(o *host)) *host {
	t.Helper()
	keys := append(StateKeys(t, 0), registry.Key{Name: "zoe", Public: Public(t, seedA2), Role: registry.Approver,
		Roles: []string{"lead", "owner"}})
	trust, err := registry.New(2, keys...)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(seed, 0))
	o := &host{TB: t, store: &erasing{Store: proofgraph.NewMemory(), gone: map[contracts.Digest]bool{}}, trust: trust,
		now: Start.Time(), counts: map[contracts.ReasonCode]int{}}
	for _, keep := range []helm.Keep{{}, {DropInputs: true}, {}, {}} {
		o.open(keep)
		var wait sync.WaitGroup
		for range 3 {
			s := rand.New(rand.NewPCG(r.Uint64(), 0))
			wait.Go(func() { o.work(s, 60) })
		}
		wait.Wait()
		_, err := o.kernel.Checkpoint(t.Context())
		require.NoError(t, err)
		each(o)
		require.NoError(t, o.kernel.Close())
		o.erase(r)
	}
	return o
}

func (o *host) pack() ([]byte, evidence.Options) {
	o.Helper()
	var b bytes.Buffer
	require.NoError(o, evidence.Write(o.Context(), &b, o.store, Key(o, SeedK1)))
	return b.Bytes(), evidence.Options{Trust: o.kernel.Trust(), Origin: Origin}
}

// TestKernelPast: whatever calls are made, by many at once, whatever of their inputs is not kept or
// erased later, and however often the kernel starts again: what it read of the past is what the log
// says.
func TestKernelPast(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	ended := map[contracts.ReasonCode]int{}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := years(t, seed, func(o *host) {
				pack, options := o.pack()
				v, err := verifyBytes(t, pack, options)
				require.True(t, err == nil && v.Success(evidence.Logged) && v.Replay.Replayed != 0 &&
					v.Replay.Replayed+v.Replay.NotReplayable+v.Replay.KernelsOwn == v.Allows+v.Denials, "%+v, %v",
					v.Replay, err)
				t.Logf("%d entries, %+v", v.Size, v.Replay)
			})
			for reason, n := range o.counts {
				ended[reason] += n
			}
		})
	}
	for _, reason := range []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonMissingRequirement,
		contracts.ReasonApprovalRequired, contracts.ReasonApprovalInvalid,
		contracts.ReasonToolError, contracts.ReasonPolicyViolation, contracts.ReasonFailClosedError} {
		assert.NotEqual(t, 0, ended[reason], "no call ended in %s: %v", reason, ended)
	}
}

// TestOracleKernelPast has the second implementation verify them too.
func TestOracleKernelPast(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "packs of kernels with approvals, receipts and calls (TestKernelPast verifies them by itself)")
	years(t, 9, func(x *host) {
		pack, options := x.pack()
		o.agrees(pack, options.Trust)
	})
}
