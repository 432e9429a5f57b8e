package compile

import "regexp/syntax"

// maxSteps bounds what the patterns of a chain of grants become, as visits bound what is tested:
// the authors of grants are not those of the policy.
const maxSteps = 10_000

// steps counts what the patterns of a chain have become so far.
type steps int

// take counts one more pattern. It returns its steps, and reports whether there are not too many
// yet. A text that is no pattern has none: it is refused when it is compiled.
func (s *steps) take(pattern string) (n int, ok bool) {
	if *s <= maxSteps {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return 0, true
		}
		n = stepsOf(re)
		*s += steps(n)
	}
	return n, *s <= maxSteps
}

// stepsOf returns about how many instructions a pattern becomes, repetitions written out. Over the
// limit it does not count on.
func stepsOf(re *syntax.Regexp) int {
	if re.Op == syntax.OpRepeat {
		return min(stepsOf(re.Sub[0])*max(re.Min, re.Max, 1), maxSteps+1)
	}
	n := max(len(re.Rune), 1)
	for _, sub := range re.Sub {
		n += stepsOf(sub)
	}
	return min(n, maxSteps+1)
}
