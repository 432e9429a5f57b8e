package value

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Fits reports whether the charge fits the limit of its budget. It is a subtraction after a
// comparison, so it cannot overflow, even if the limit was lowered below the balance or the cost is
// greater than any limit.
func Fits(c *contracts.Charge) bool { return c.Before <= c.Limit && c.Amount <= c.Limit-c.Before }

// Unaffordable is the amount of a cost that no limit can hold.
const Unaffordable = crypto.MaxInt + 1

// Scaled returns a number, given as its canonical text, times ten to a power; or what is wrong, if
// it is not whole or below zero.
func Scaled(text []byte, power int) (n uint64, what string) {
	if text[0] == '-' {
		return 0, "the cost is below zero"
	}
	mantissa, exponent, _ := bytes.Cut(text, []byte{'e'})
	for i, c := range exponent {
		if c == '+' || c == '-' {
			continue
		}
		e := int(c - '0') // at most three digits: the greatest double is 1.8e308
		for _, c := range exponent[i+1:] {
			e = e*10 + int(c-'0')
		}
		if exponent[0] == '-' {
			e = -e
		}
		power += e
		break
	}
	point := false
	for _, c := range mantissa { // at most 21 digits, of which the last ones may be zeros
		if c == '.' {
			point = true
			continue
		}
		if point {
			power--
		}
		if n = n*10 + uint64(c-'0'); n > Unaffordable && power >= 0 && !point {
			n = Unaffordable
		}
	}
	for ; power < 0 && n > 0; power++ {
		if n%10 != 0 {
			return 0, "the cost is not a whole number of the budget's units"
		}
		n /= 10
	}
	for ; power > 0 && n > 0 && n < Unaffordable; power-- {
		n *= 10
	}
	return min(n, Unaffordable), ""
}
