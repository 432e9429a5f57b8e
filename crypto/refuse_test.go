package crypto

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/table"
)

// TestRefusals has cases for each rule of arguments, with the message and the offset.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range table.Read[struct {
		Name, Src, What string
		Offset          int
	}](t, "refusals", 137) {
		var tree Tree
		dst, err := tree.ParseArgs([]byte("before"), []byte(test.Src))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: accepted as %s", test.Name, dst)
			continue
		}
		assert.True(t, syntax.What == test.What && syntax.Offset == test.Offset, "%s: %v, want %s at byte %d",
			test.Name, err, test.What, test.Offset)
		assert.True(t, string(dst) == "before" && tree.Root().Kind() == Missing, "%s: something is left of it: %s",
			test.Name, dst)
		if secret, _, _ := strings.Cut(test.Src, "\x00"); len(secret) > 12 && strings.Contains(err.Error(),
			secret[6:]) {
			t.Errorf("%s: the error quotes the text", test.Name)
		}
	}
}

// TestFoldedAnywhere tries keys of every length that differ in the case of one letter, at every
// place.
func TestFoldedAnywhere(t *testing.T) {
	t.Parallel()
	var tree Tree
	for size := 1; size <= 26; size++ {
		for at := range size {
			key := "abcdefghijklmnopqrstuvwxyz"[:size]
			other := key[:at] + strings.ToUpper(key[at:at+1]) + key[at+1:]
			for _, src := range []string{`{"` + key + `":1,"` + other + `":2}`, `{"` + other + `":1,"` + key + `":2}`} {
				_, err := tree.ParseArgs(nil, []byte(src))
				assert.True(t, err != nil && strings.Contains(err.Error(), "letter case"), "%s: %v", src, err)
			}
			_, err := tree.ParseArgs(nil, []byte(`{"`+other+`":1,"x`+key+`":2}`))
			assert.NoError(t, err)
		}
	}
}

// TestNotRefused has texts that are close to refused ones, but accepted.
func TestNotRefused(t *testing.T) {
	t.Parallel()
	for src, want := range table.Map[string, string](t, "not_refused", 13) {
		mustBe(t, src, want, argsLimits)
	}
	mustBe(t, `{"a":1,"A":2}`, `{"A":2,"a":1}`, otherLimits) // letter case counts among arguments alone
	mustBe(t, `[[1],2]`, `[[1],2]`, otherLimits)
}

// TestTruncated cuts good texts short at each byte: no part of an object is one.
func TestTruncated(t *testing.T) {
	t.Parallel()
	texts := [][]byte{toolArgs(), records(2000), []byte(`{"a":"\u00e9\n","b":[-1.5e-3,{"c":null}],"é":"😀"}`)}
	var tree Tree
	for _, src := range texts {
		_, err := tree.ParseArgs(nil, src)
		require.NoError(t, err)
		for i := range src {
			_, err := tree.ParseArgs(nil, src[:i:i])
			var syntax *SyntaxError
			require.True(t, errors.As(err, &syntax) && syntax.Offset <= i, "the first %d bytes: %v", i, err)
		}
	}
}
