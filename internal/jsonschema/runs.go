package jsonschema

import (
	"math"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// A run is from min to max bytes of one class of ASCII characters.
type run struct {
	class    class
	min, max int
	rest     int // number of bytes that the runs after it need at least
}

// class is a set of ASCII characters.
type class [2]uint64

func (c *class) has(b byte) bool { return b < utf8.RuneSelf && c[b>>6]&(1<<(b&63)) != 0 }

func (c *class) add(lo, hi rune) {
	for r := lo; r <= hi; r++ {
		c[r>>6] |= 1 << (r & 63)
	}
}

// runsOf compiles patterns of the form ^[class]{m,n}literal[class]+…$ that can be matched without
// backtracking: each run of variable length is the last such, or shares no character with the runs
// that could follow it. It returns nil for other patterns.
func runsOf(pattern string) []run {
	re, err := syntax.Parse(pattern, syntax.Perl) // like package regexp
	if err != nil || re.Op != syntax.OpConcat || len(re.Sub) < 2 {
		return nil
	}
	last := len(re.Sub) - 1
	if re.Sub[0].Op != syntax.OpBeginText || re.Sub[last].Op != syntax.OpEndText {
		return nil
	}
	runs := make([]run, 0, last)
	for _, sub := range re.Sub[1:last] {
		var ok bool
		runs, ok = appendRuns(runs, sub)
		if !ok {
			return nil
		}
	}
	for i, rest := len(runs)-1, 0; i >= 0; i-- {
		runs[i].rest = rest
		rest += runs[i].min
	}
	if !forced(runs) {
		return nil
	}
	return runs
}

func appendRuns(runs []run, re *syntax.Regexp) ([]run, bool) {
	lo, hi, whole := 1, 1, re
	switch re.Op {
	case syntax.OpStar:
		lo, hi, re = 0, math.MaxInt, re.Sub[0]
	case syntax.OpPlus:
		lo, hi, re = 1, math.MaxInt, re.Sub[0]
	case syntax.OpQuest:
		lo, hi, re = 0, 1, re.Sub[0]
	case syntax.OpRepeat:
		lo, hi = re.Min, re.Max
		if hi < 0 {
			hi = math.MaxInt
		}
		re = re.Sub[0]
	}
	switch {
	case re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0 && (re == whole || len(re.Rune) == 1):
		for _, r := range re.Rune {
			if r >= utf8.RuneSelf {
				return nil, false
			}
			x := run{min: lo, max: hi}
			x.class.add(r, r)
			runs = append(runs, x)
		}
		return runs, true
	case re.Op == syntax.OpCharClass && len(re.Rune) > 0 && re.Rune[len(re.Rune)-1] < utf8.RuneSelf:
		x := run{min: lo, max: hi}
		for i := 0; i < len(re.Rune); i += 2 {
			x.class.add(re.Rune[i], re.Rune[i+1])
		}
		return append(runs, x), true
	}
	return nil, false
}

// forced reports whether the text determines the length of every run.
func forced(runs []run) bool {
	for i := range runs {
		if runs[i].min == runs[i].max || !slices.ContainsFunc(runs[i+1:], func(r run) bool { return r.min != r.max }) {
			continue
		}
		for j := i + 1; j < len(runs); j++ {
			if c, d := &runs[i].class, &runs[j].class; c[0]&d[0] != 0 || c[1]&d[1] != 0 { // they share a character
				return false
			}
			if runs[j].min > 0 {
				break
			}
		}
	}
	return true
}

// matchRuns assigns each run as many bytes as it can have, except those that later runs need.
// The last run of variable length gets the rest. An earlier one stops at a byte that no following
// run can have, unless it is right to stop there.
func matchRuns(runs []run, b []byte) bool {
	for i := range runs {
		r := &runs[i]
		most := min(r.max, len(b)-r.rest)
		n := 0
		for n < most && r.class.has(b[n]) {
			n++
		}
		if n < r.min {
			return false
		}
		b = b[n:]
	}
	return len(b) == 0
}
