package pattern_test

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/pattern"
	"github.com/helmkernel/helm/internal/table"
)

// TestSteps: a character, a class, a dot and an assertion are a step each; a counted repetition
// multiplies what it follows.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct {
		Pattern string
		Steps   int
	}](t, "steps", 41) {
		_, err := regexp.Compile(c.Pattern)
		require.NoError(t, err, c.Pattern)
		n, err := pattern.Steps(c.Pattern)
		require.NoError(t, err, c.Pattern)
		assert.Equal(t, c.Steps, n, c.Pattern)
	}
}

// TestUnicodeTables: what a toolchain's tables decide is refused, and nothing else is.
func TestUnicodeTables(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct{ Pattern, Refused string }](t, "tables", 34) {
		_, err := regexp.Compile(c.Pattern)
		require.NoError(t, err, c.Pattern)
		_, err = pattern.Steps(c.Pattern)
		if c.Refused == "no" {
			assert.NoError(t, err, c.Pattern)
			continue
		}
		assert.ErrorContains(t, err, c.Refused, c.Pattern)
	}
}

// TestVisits: the worst pattern on the longest text costs some thousand times what a decision may
// cost, and a usual one on a usual text nothing.
func TestVisits(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 0, pattern.Visits(20, 400))
	assert.Equal(t, 1, pattern.Visits(8, 1024))
	assert.Equal(t, 64_000, pattern.Visits(500, 1<<20))
	long := strings.Repeat("(?:.{1000})", 93)
	_, err := regexp.Compile(long)
	require.NoError(t, err)
	worst, err := pattern.Steps(long)
	require.NoError(t, err)
	assert.Equal(t, 93_000, worst)
	assert.Equal(t, 11_904_000, pattern.Visits(worst, 1<<20))
}

// FuzzSteps: the steps of whatever compiles are at most those of its program and, if nothing of it
// is written in a shorter way, none is left out.
func FuzzSteps(f *testing.F) {
	for _, s := range []string{`^[a-z]{1,3}$`, `(?i)a\Qb.\E{2}`, `[[:^alpha:]\]x]|\x{41}`, `(?P<n>a|b)*?(?-i:c){0}`,
		"[]a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<10 {
			return
		}
		re, err := syntax.Parse(s, syntax.Perl)
		if err != nil {
			return
		}
		n, err := pattern.Steps(s)
		if err != nil {
			return
		}
		if least := literals(re); n < least {
			t.Errorf("%q has %d steps, and its tree %d", s, n, least)
		}
		if n > 1000*len(s) {
			t.Errorf("%q has %d steps", s, n)
		}
	})
}

// literals returns the longest text of single characters that must stand in the pattern.
func literals(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpConcat:
		n := 0
		for _, sub := range re.Sub {
			n += literals(sub)
		}
		return n
	case syntax.OpCapture, syntax.OpPlus:
		return literals(re.Sub[0])
	case syntax.OpRepeat:
		return literals(re.Sub[0]) * re.Min
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpCharClass:
		return 1
	}
	return 0
}
