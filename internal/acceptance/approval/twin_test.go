package approval

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
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
	t.Parallel()
	race.Alone(t)
	reasons := map[contracts.ReasonCode]int{}
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { twins(t, rand.New(rand.NewPCG(seed, 11)), reasons) })
	}
	for _, r := range []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonToolError,
		contracts.ReasonApprovalRequired, contracts.ReasonApprovalInvalid, contracts.ReasonBudgetExceeded,
		contracts.ReasonMissingRequirement, contracts.ReasonCeilingViolation, contracts.ReasonSystemFrozen,
		contracts.ReasonSessionClosed, contracts.ReasonIdempotencyConflict, contracts.ReasonPolicyViolation} {
		assert.NotEqual(t, 0, reasons[r], "nothing was %s: %v", r, reasons)
	}
}

func twins(t *testing.T, random *rand.Rand, reasons map[contracts.ReasonCode]int) {
	const budgets = `budgets:
  - {id: paid, tools: [pay], limit: 1800, per: session, window: day, cost: {arg: /amount}, refund: error}
  - {id: moved, tools: [move, tell], limit: 9, per: caller, window: hour, cost: 1}
`
	floor := "helm: policy/v1\nlayer: P0\nname: floor\nversion: 1\nrules: [{id: enough, deny: [tell], when: " +
		"{session: calls, of: tell, ge: 4}}]\n"
	stack := func(version int) string {
		return strings.Replace(kerneltest.BankPolicy, "version: 1", fmt.Sprint("version: ", version), 1) + budgets
	}
	played := &tape{}
	b := kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, stack(1), floor)
		played.Store = o.Store.(*kerneltest.FaultyStore).Store
		o.Store = played
	})
	b.Store = &kerneltest.FaultyStore{Store: played}
	fails := false
	b.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		if fails {
			return executor.Result{}, kerneltest.ErrTool
		}
		return executor.Result{Output: c.Args}, nil
	}
	task := b.Narrow(b.Kernel,
		kerneltest.Document(t,
			"helm: policy/v1\nlayer: P2\nname: task\nversion: 1\nrules: [{id: none, deny: [refund]}]\n"))
	var yes []contracts.Envelope
	version, owners, closed := 1, []byte{kerneltest.Ann, kerneltest.Bob}, 0
	intent := func() helm.Intent {
		pick := func(list ...string) string { return list[random.IntN(len(list))] }
		in := helm.Intent{Session: pick("a", "b", "c", fmt.Sprint("d", closed), ""),
			Caller: helm.Caller{ID: pick("kim", "lee"), Roles: []string{"clerk"}}}
		switch in.Tool = pick("look", "pay", "pay", "refund", "move", "tell", "tell"); in.Tool {
		case "look":
			in.Args = []byte(look(pick("16", "17")))
		case "pay", "refund":
			in.Args = []byte(fmt.Sprintf(`{"to":"landlord","amount":%s}`, pick("900", "1")))
		case "move":
			in.Args = []byte(pick(there, `{"from":"17","to":"16"}`))
		default:
			in.Args = []byte(`{}`)
		}
		if random.IntN(4) == 0 {
			in.Idempotency = pick("k1", "k2")
		}
		for range min(random.IntN(5), len(yes)) {
			in.Approvals = append(in.Approvals, yes[len(yes)-1-random.IntN(min(len(yes), 12))])
		}
		return in
	}
	step := func() {
		switch random.IntN(16) {
		case 0:
			b.Pass(time.Duration(random.IntN(40)) * time.Minute)
		case 1:
			version++
			b.Swap(kerneltest.Compile(t, stack(version), floor))
		case 2:
			if b.TrustState().Frozen() {
				b.Govern(b.Unfreezing(), kerneltest.BankRoot)
			} else if random.IntN(3) == 0 {
				b.Govern(b.Freezing(), kerneltest.BankRoot)
			}
		case 3:
			if len(owners) < 5 {
				owners = append(owners, byte(130+len(owners)))
				b.Govern(b.Adding(owners[len(owners)-1], fmt.Sprint("owner ", len(owners)), registry.Approver, "owner"),
					kerneltest.BankRoot)
			}
		case 4:
			require.NoError(t, b.Kernel.CloseSession(context.Background(), fmt.Sprint("d", closed)))
			closed += random.IntN(2)
		default:
			k := b.Kernel
			if random.IntN(4) == 0 {
				k = task
			}
			fails = random.IntN(4) == 0
			d, _ := k.Guard(context.Background(), intent())
			reasons[d.Reason]++
			if d.Pending != nil {
				for range 1 + random.IntN(2) {
					yes = append(yes, b.Approve(*d.Pending, owners[random.IntN(len(owners))]))
				}
			}
		}
	}
	for range 6 {
		for range 30 {
			step()
		}
		o := b.Options
		o.Store, o.Policy = played.again(t), kerneltest.Compile(t, stack(version), floor)
		twin, err := helm.New(o)
		require.NoError(t, err)
		fails = false
		for i := range 25 {
			in := intent()
			here, r := b.Kernel.Guard(context.Background(), in)
			there, s := twin.Guard(context.Background(), in)
			reasons[here.Reason]++
			require.Equal(t, there.Reason, here.Reason, "call %d", i)
			require.Equal(t, there.Why, here.Why, "call %d", i)
			require.Equal(t, s.Index, r.Index, "call %d", i)
			require.Equal(t, there.Record.Append(nil), here.Record.Append(nil), "call %d", i)
		}
		require.NoError(t, twin.Close())
	}
	b.Runs.Store(0)
	b.MustPass()
}
