package guardian

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/past"
)

// Charges and balances belong to the caller that they were returned to: no later judgement writes
// them, and nothing that is done to them, or appended to them, shows in those of another call.
func TestChargesOwned(t *testing.T) {
	t.Parallel()
	two := goodBudget +
		`,{"cost":{"arg":"/amount"},"id":"a","limit":100000,"per":"all","tools":["pay"],"window":"total"}`
	p := mustCompile(t, bank(two))
	past := onlyLedger{new(past.Ledger)}
	var wg sync.WaitGroup
	for caller := range 4 {
		wg.Go(func() {
			type kept struct{ record, inputs string }
			var charges [][]contracts.Charge
			var all []contracts.DecisionRecord
			var ins []contracts.Inputs
			var want []kept
			for i := range 200 {
				in := inputs(t, "pay", fmt.Sprintf(`{"amount":%d,"mixed":1,"usual":5}`, caller*1000+i))
				in.Caller.ID = fmt.Sprint(caller, "-", i)
				r, why := judgeBy(p, &in, nil, past)
				if len(r.Charges) != 2 || len(in.State.Budgets) != 2 || r.Charges[0].Amount != uint64(caller*1000+i) ||
					r.Charges[1].Of != payer(in.Caller.ID, "acme") {
					t.Errorf("%s: %+v", why, r.Charges)
					return
				}
				charges, all, ins = append(charges, r.Charges), append(all, r), append(ins, in)
				want = append(want, kept{string(r.Append(nil)), string(in.Append(nil))})
				if i%3 == 0 { // their owner may change them
					_ = append(r.Charges, contracts.Charge{Budget: "mine"})
					_ = append(in.State.Budgets, contracts.Balance{Budget: "mine"})
				}
				if i%5 == 0 { // and a call that is denied leaves no trace
					in := inputs(t, "pay", `{"amount":1000000,"mixed":1,"usual":5}`)
					r, _ := judgeBy(p, &in, nil, past)
					assert.True(t, r.Reason == contracts.ReasonBudgetExceeded && r.Charges == nil &&
						len(in.State.Budgets) == 2, "%v %+v", r.Reason, r.Charges)
				}
			}
			for i := range all {
				got := kept{string(all[i].Append(nil)), string(ins[i].Append(nil))}
				assert.True(t, got == want[i] && slices.Equal(charges[i], all[i].Charges), "call %d became %s", i, got)
			}
		})
	}
	wg.Wait()
}
