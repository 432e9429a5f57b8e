package approval

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tape is a store that can be copied.
type tape struct {
	proofgraph.Store
	all []proofgraph.Batch
}

func (x *tape) Append(ctx context.Context, b proofgraph.Batch) error {
	c := proofgraph.Batch{At: b.At, Checkpoint: bytes.Clone(b.Checkpoint)}
	for _, e := range b.Entries {
		c.Entries = append(c.Entries, bytes.Clone(e))
	}
	for _, blob := range b.Blobs {
		c.Blobs = append(c.Blobs, bytes.Clone(blob))
	}
	x.all = append(x.all, c)
	return x.Store.Append(ctx, b)
}

// again returns another store with the same contents.
func (x *tape) again(t *testing.T) proofgraph.Store {
	t.Helper()
	s := proofgraph.NewMemory()
	for _, b := range x.all {
		require.NoError(t, s.Append(context.Background(), b))
	}
	return s
}

// A kernel knows of its log what the next one reads from it. After any history of approvals,
// receipts, budgets, keys, swaps, overlays, trust events and closed sessions, the two judge the
// same calls to the byte, from the same balances, counts, receipts and used approvals.
func TestTwinOverRestart(t *testing.T) {
	kerneltest.OneWriter(t, "it is played again into a store of its own")
	t.Parallel()
	race.Alone(t)
	reasons := map[contracts.ReasonCode]int{}
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHistory(t, rand.New(rand.NewPCG(seed, 11)))
			for range 6 {
				for range 30 {
					h.step(reasons)
				}
				h.compare(reasons)
			}
			h.Runs.Store(0)
			h.MustPass()
		})
	}
	for _, r := range []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonToolError,
		contracts.ReasonApprovalRequired, contracts.ReasonApprovalInvalid, contracts.ReasonBudgetExceeded,
		contracts.ReasonMissingRequirement, contracts.ReasonCeilingViolation, contracts.ReasonSystemFrozen,
		contracts.ReasonSessionClosed, contracts.ReasonIdempotencyConflict, contracts.ReasonPolicyViolation} {
		assert.NotEqual(t, 0, reasons[r], "nothing was %s: %v", r, reasons)
	}
}

const twinBudgets = `budgets:
  - {id: paid, tools: [pay], limit: 1800, per: session, window: day, cost: {arg: /amount}, refund: error}
  - {id: moved, tools: [move, tell], limit: 9, per: caller, window: hour, cost: 1}
`

const twinFloor = `
helm: policy/v1
layer: P0
name: floor
version: 1
rules: [{id: enough, deny: [tell], when: {session: calls, of: tell, ge: 4}}]
`

// A history is a bank to which things happen at random.
type history struct {
	*kerneltest.Bank
	random  *rand.Rand
	played  *tape
	task    *helm.Kernel
	fails   bool                 // the tool
	yes     []contracts.Envelope // approvals so far
	owners  []byte               // who may approve
	version int                  // of the policy
	closed  int                  // the number of the session that is closed next
}

func newHistory(t *testing.T, random *rand.Rand) *history {
	h := &history{random: random, played: &tape{}, owners: []byte{kerneltest.Ann, kerneltest.Bob}, version: 1}
	h.Bank = kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy = h.policy(t)
		h.played.Store = kerneltest.Faulty(o.Store).Store
		o.Store = h.played
	})
	h.Store = &kerneltest.FaultyStore{Store: h.played}
	h.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		if h.fails {
			return executor.Result{}, kerneltest.ErrTool
		}
		return executor.Result{Output: c.Args}, nil
	}
	h.task = h.Narrow(h.Kernel, kerneltest.Document(t,
		"helm: policy/v1\nlayer: P2\nname: task\nversion: 1\nrules: [{id: none, deny: [refund]}]\n"))
	return h
}

func (h *history) policy(t *testing.T) *guardian.Policy {
	bundle := kerneltest.Edit(t, kerneltest.BankPolicy, "version: 1", fmt.Sprint("version: ", h.version))
	return kerneltest.Compile(t, bundle+twinBudgets, twinFloor)
}

func (h *history) pick(list ...string) string { return list[h.random.IntN(len(list))] }

// intent is a call at random, with approvals at random of those so far.
func (h *history) intent() helm.Intent {
	in := helm.Intent{Session: h.pick("a", "b", "c", fmt.Sprint("d", h.closed), ""),
		Caller: helm.Caller{ID: h.pick("kim", "lee"), Roles: []string{"clerk"}}}
	switch in.Tool = h.pick("look", "pay", "pay", "refund", "move", "tell", "tell"); in.Tool {
	case "look":
		in.Args = []byte(look(h.pick("16", "17")))
	case "pay", "refund":
		in.Args = fmt.Appendf(nil, `{"to":"landlord","amount":%s}`, h.pick("900", "1"))
	case "move":
		in.Args = []byte(h.pick(there, `{"from":"17","to":"16"}`))
	default:
		in.Args = []byte(`{}`)
	}
	if h.random.IntN(4) == 0 {
		in.Idempotency = h.pick("k1", "k2")
	}
	for range min(h.random.IntN(5), len(h.yes)) {
		in.Approvals = append(in.Approvals, h.yes[len(h.yes)-1-h.random.IntN(min(len(h.yes), 12))])
	}
	return in
}

// step lets something happen, mostly a call.
func (h *history) step(reasons map[contracts.ReasonCode]int) {
	switch h.random.IntN(16) {
	case 0:
		h.Pass(time.Duration(h.random.IntN(40)) * time.Minute)
	case 1:
		h.version++
		h.Swap(h.policy(h.T))
	case 2:
		if h.TrustState().Frozen() {
			h.Govern(h.Unfreezing(), kerneltest.BankRoot)
		} else if h.random.IntN(3) == 0 {
			h.Govern(h.Freezing(), kerneltest.BankRoot)
		}
	case 3:
		if len(h.owners) < 5 {
			owner := byte(130 + len(h.owners))
			h.owners = append(h.owners, owner)
			name := fmt.Sprint("owner ", len(h.owners))
			h.Govern(h.Adding(owner, name, registry.Approver, "owner"), kerneltest.BankRoot)
		}
	case 4:
		require.NoError(h.T, h.Kernel.CloseSession(context.Background(), fmt.Sprint("d", h.closed)))
		h.closed += h.random.IntN(2)
	default:
		reasons[h.call()]++
	}
}

// call makes a call, whose request, if there is one, some approve.
func (h *history) call() contracts.ReasonCode {
	k := h.Kernel
	if h.random.IntN(4) == 0 {
		k = h.task
	}
	h.fails = h.random.IntN(4) == 0
	d, _ := k.Guard(context.Background(), h.intent())
	if d.Pending != nil {
		for range 1 + h.random.IntN(2) {
			h.yes = append(h.yes, h.Approve(*d.Pending, h.owners[h.random.IntN(len(h.owners))]))
		}
	}
	return d.Reason
}

// compare makes the same calls of the kernel and of one that reads its log.
func (h *history) compare(reasons map[contracts.ReasonCode]int) {
	o := h.Options
	o.Store, o.Policy = h.played.again(h.T), h.policy(h.T)
	twin, err := helm.New(o)
	require.NoError(h.T, err)
	h.fails = false
	for i := range 25 {
		in := h.intent()
		here, r := h.Kernel.Guard(context.Background(), in)
		there, s := twin.Guard(context.Background(), in)
		reasons[here.Reason]++
		require.Equal(h.T, there.Reason, here.Reason, "call %d", i)
		require.Equal(h.T, there.Why, here.Why, "call %d", i)
		require.Equal(h.T, s.Index, r.Index, "call %d", i)
		require.Equal(h.T, string(there.Record.Append(nil)), string(here.Record.Append(nil)), "call %d", i)
	}
	require.NoError(h.T, twin.Close())
}
