package letgo

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A desk is a world in which an owner is asked before some calls, and answers now and then, late or
// twice.
type desk struct {
	*world
	r       *rand.Rand
	asked   []asked
	heard   []bool
	reasons map[contracts.ReasonCode]int
}

// An asked is a call for which an approval was asked.
type asked struct {
	intent  helm.Intent
	request contracts.ApprovalRequest
}

func newDesk(t testing.TB, seed uint64) *desk {
	trust, err := registry.New(1, registry.Key{Name: "root", Public: kerneltest.Public(t, 50), Role: registry.Root},
		registry.Key{Name: "ann", Public: kerneltest.Public(t, 41), Role: registry.Approver, Roles: []string{"owner"}})
	require.NoError(t, err)
	w := newWorld(t, proofgraph.NewMemory(), func(o *helm.Options) {
		o.Trust, o.Keep.Outputs = trust, true
		o.Policy = kerneltest.Compile(t, floor, kerneltest.Edit(t, bundle, "requires:\n",
			"requires:\n  - {id: owner, tools: [wipe, book, pay], all: [{approval: {roles: [owner], ttl: 100h}}]}\n"))
	})
	return &desk{w, rand.New(rand.NewPCG(seed, 9)), nil, nil, map[contracts.ReasonCode]int{}}
}

// over is the same desk over another store. What comes depends on the seed, and on the answers.
func (d *desk) over(store proofgraph.Store, seed uint64) (*desk, func() []helm.Event) {
	d.Helper()
	x, events := d.quiet(store)
	return &desk{x, rand.New(rand.NewPCG(seed, 9)), slices.Clone(d.asked), nil, map[contracts.ReasonCode]int{}}, events
}

func (d *desk) do(in helm.Intent) helm.Decision {
	d.Helper()
	got, _ := d.kernel.Guard(context.Background(), in)
	d.reasons[got.Reason]++
	return got
}

func (d *desk) steps(n int) {
	d.Helper()
	for range n {
		d.now.Add(int64(d.r.IntN(5000)))
		session := fmt.Sprint("chat-", d.r.IntN(3))
		q := d.r.IntN(3)
		switch d.r.IntN(9) {
		case 0:
			err := d.kernel.UserMessage(context.Background(), session, fmt.Sprint("pay ACC-", q))
			d.heard = append(d.heard, err == nil) // texts may be erased
		case 1, 2:
			d.do(intentOf("notes", session, q))
		case 3, 4, 5:
			in := intentOf("book", session, q)
			switch d.r.IntN(3) {
			case 0:
				in.Tool, in.Args = "wipe", json.RawMessage(`{}`)
			case 1:
				in.Tool, in.Args = "pay", fmt.Appendf(nil, `{"to":"ACC-%d"}`, q)
			}
			if got := d.do(in); got.Pending != nil {
				d.asked = append(d.asked, asked{in, *got.Pending})
			}
		default:
			if len(d.asked) == 0 {
				continue
			}
			x := d.asked[d.r.IntN(len(d.asked))]
			e, err := x.request.Approve(kerneltest.SeedKey(d, 41))
			require.NoError(d, err)
			x.intent.Approvals = []contracts.Envelope{e}
			d.do(x.intent)
		}
	}
}

// Whatever of what calls were about is erased since a state was made, inputs with approvals too, a
// kernel from the state answers as one does that has read the whole log.
func TestFromAStateAfterErasure(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	reasons := map[contracts.ReasonCode]int{}
	inputs := 0
	for seed := range uint64(12) {
		d := newDesk(t, seed)
		d.steps(120)
		half := len(lines(t, d.store))
		d.steps(40)
		all := lines(t, d.store)
		size := len(all)
		early := d.stateAt(d.store, half, nil)
		late := d.stateAt(d.store, size, early)
		require.Equal(t, string(late), string(d.stateAt(d.store, size, nil)))
		for round := range uint64(4) {
			var erased []contracts.Digest
			for _, line := range all {
				st := statement(t, line)
				if st.Decision == nil && st.Receipt == nil && st.Message == nil {
					continue
				}
				entry.Blobs(st, func(x contracts.Digest, _ entry.Role) {
					if d.r.IntN(2+int(round)) == 0 {
						erased = append(erased, x)
						if st.Decision != nil && len(st.Decision.Approvals) > 0 {
							inputs++
						}
					}
				})
			}
			var want []contracts.Entry
			for i, state := range [][]byte{nil, early, late, nil} {
				store := &keeping{fork: newFork(t, d.store), state: state}
				for _, x := range erased {
					store.blobs[x] = nil
				}
				if i == 3 { // a state that was made after the erasure
					y, _ := d.over(store, round)
					require.NoError(t, y.kernel.Close())
					require.NotNil(t, store.state)
				}
				y, events := d.over(store, round)
				y.steps(60)
				require.Empty(t, events())
				require.NoError(t, y.kernel.Close())
				got := lines(t, store)[size:]
				if i == 0 {
					want = got
					for reason, n := range y.reasons {
						reasons[reason] += n
					}
				}
				require.Equal(t, len(want), len(got), "seed %d, round %d, store %d", seed, round, i)
				for n := range want {
					require.Equal(t, string(want[n]), string(got[n]), "seed %d, round %d, store %d", seed, round, i)
				}
			}
		}
		require.NoError(t, d.kernel.Close())
	}
	assert.Greater(t, inputs, 50, "inputs with approvals that were erased")
	for _, reason := range []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonApprovalInvalid,
		contracts.ReasonApprovalRequired} {
		assert.Greater(t, reasons[reason], 50, "%s: %v", reason, reasons)
	}
}
