package value

import (
	"testing"

	"github.com/helmkernel/helm/crypto"
)

func TestScaledCost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		scale int
		want  uint64
		err   bool
	}{
		{"0", 0, 0, false}, {"4.35", 2, 435, false}, {"1.1", 2, 110, false}, {"0.29", 2, 29, false},
		{"1e-7", 7, 1, false}, {"1.5e-7", 8, 15, false},
		{"7", 0, 7, false}, {"7", 2, 700, false}, {"100", 0, 100, false}, {"9007199254740991", 0, crypto.MaxInt, false},
		{"4.355", 2, 0, true}, {"0.001", 2, 0, true}, {"1e-7", 2, 0, true}, {"1.5", 0, 0, true}, {"-1", 0, 0, true},
		{"-0.5", 1, 0, true}, {"5e-324", 15, 0, true},
		{"9007199254740992", 0, Unaffordable, false}, {"9007199254740991", 1, Unaffordable, false},
		{"123456789012345680000", 0, Unaffordable, false},
		{"999999999999999900000", 15, Unaffordable, false}, {"1e+21", 0, Unaffordable, false},
		{"1.7976931348623157e+308", 15, Unaffordable, false}, {"1e+300", 0, Unaffordable, false},
		{"123456789012.34567", 5, Unaffordable, false}, // whole, and more than a record holds
	} {
		n, what := Scaled([]byte(c.text), c.scale)
		if n != c.want || (what != "") != c.err {
			t.Errorf("%s times 10^%d: %d, %q; want %d", c.text, c.scale, n, what, c.want)
		}
	}
}
