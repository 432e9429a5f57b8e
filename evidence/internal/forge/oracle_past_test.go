package forge

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// TestOraclePast has the second implementation verify the log of FixtureLog, and spoil whatever it
// can of what was read of the past and presented.
func TestOraclePast(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "a log of approvals, receipts and calls, and its mutations (TestLies has its own)")
	d := FixtureLog(t)
	pack := d.Pack(evidence.Write)
	o.agrees(pack, d.Trust)
	words, step, at, asked := regexp.MustCompile("approval|^pending|^inputs-|^decision-|^receipt-"), Sample(3), 0,
		map[string]bool{}
	about := func(name string) bool {
		if words.MatchString(name) {
			at++
			asked[name] = at%step == 0
		}
		return asked[name]
	}
	idle := strings.Fields(`pending-of-another-reason receipt-unlinked-from-decision inputs-balance-dropped
		inputs-balance-other inputs-balances-order inputs-labels-order inputs-source-order inputs-source-of-facts
		inputs-source-of-the-user`)
	refused := 0
	var nothing []string
	for x := range o.spoil(pack, about, SeedK1, SeedL) {
		if x.pack == nil {
			nothing = append(nothing, x.name)
			continue
		}
		_, err := verifyBytes(t, x.pack, evidence.Options{Trust: d.Trust, Origin: Origin})
		var e *evidence.Error
		if !errors.As(err, &e) || e.Check.Error() != x.check {
			t.Errorf("%s: %v, want %s", x.name, err, x.check)
		}
		refused++
	}
	idle = slices.DeleteFunc(idle, func(name string) bool { return !asked[name] })
	assert.Equal(t, idle, nothing, "the mutations that find nothing")
	assert.GreaterOrEqual(t, refused, 50/step-step+1, "mutations were refused")
	t.Logf("%d refused", refused)
}
