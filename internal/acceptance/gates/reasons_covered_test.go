package gates

import (
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/stretchr/testify/assert"
)

// gates are all tables of attacks, in published order.
func gates() []gate {
	return []gate{gateRequest(), gateSurface(), gateArguments(), gateBudgets(), gateRequirements(), gateRules(),
		gateDelegation(), gateFloors(), gateErrors(), gateOutcomes()}
}

// uncovered are the reasons that no call can end with, why, and whether one can by now: then a
// table lacks an attack.
var uncovered = map[contracts.ReasonCode]struct {
	why        string
	producible func() bool
}{
	contracts.ReasonThreatSignalDetected: {"the threat scan is refused by name",
		func() bool { return guardian.Engine().Threat != 0 }},
}

// Each code of the registry ends at least one attack, or an exception says why none can.
func TestReasonsCovered(t *testing.T) {
	t.Parallel()
	attacks := map[contracts.ReasonCode]int{contracts.ReasonAllow: 1} // every attack's good call
	for _, g := range gates() {
		assert.NotEqual(t, 0, len(g.attacks), "%s: no attacks", g.name)
		for _, a := range g.attacks {
			attacks[a.reason]++
		}
	}
	for reason := range contracts.Reasons() {
		exception, excepted := uncovered[reason]
		switch {
		case attacks[reason] == 0 && !excepted:
			t.Errorf("no attack ends with %s", reason)
		case attacks[reason] > 0 && excepted:
			t.Errorf("%s is no exception: an attack ends with it", reason)
		case excepted && (exception.why == "" || exception.producible()):
			t.Errorf("%s can be produced by now (it could not, because %s): add an attack that ends with it", reason,
				exception.why)
		}
		delete(attacks, reason)
	}
	for reason := range attacks {
		t.Errorf("%s is no code of the registry", reason)
	}
}
