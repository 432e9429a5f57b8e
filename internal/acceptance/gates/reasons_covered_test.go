package gates

import (
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/stretchr/testify/assert"
)

// gates are all tables of attacks, in published order.
func gates() []gate {
	return []gate{gateRequest(), gateSurface(), gateArguments(), gateBudgets(), gateRequirements(), gateRules(),
		gateDelegation(), gateSignals(), gateFloors(), gateErrors(), gateOutcomes()}
}

// Each code of the registry ends at least one attack.
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
		assert.Positive(t, attacks[reason], "no attack ends with %s", reason)
		delete(attacks, reason)
	}
	for reason := range attacks {
		t.Errorf("%s is no code of the registry", reason)
	}
}
