package crypto

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// compareReaders parses a text with Parse, jcs and encoding/json, and reports whether Parse accepts
// it. The three must agree, except:
//
//   - jcs rounds numbers; Parse refuses those whose value would change. jcs uses
//     strconv.ParseFloat, which does not read tokens whose exponent has six digits or more; Parse
//     does. jcs nests 10,000 deep, Parse as deep as the limit says.
//   - encoding/json also accepts duplicate keys, broken UTF-8 and lone surrogates, and numbers
//     beyond the range of doubles.
func compareReaders(t testing.TB, src []byte) bool {
	t.Helper()
	var tree Tree
	err := tree.Parse(src, otherLimits)
	theirs, jcsErr := jcs.Transform(append([]byte{}, src...))
	valid := json.Valid(src)
	if err != nil {
		var syntax *SyntaxError
		require.True(t, errors.As(err, &syntax) && syntax.Offset >= 0 && syntax.Offset <= len(src) &&
			tree.Root().Kind() == Missing, "%q: %v", src, err)
		switch what := syntax.What; {
		case strings.HasPrefix(what, "number"), what == "nested too deep":
		case what == "duplicate key", what == "lone surrogate", what == "invalid UTF-8":
			require.Error(t, jcsErr, "%q: %v, but jcs takes it", src, err)
		default:
			require.True(t, jcsErr != nil && !valid, "%q: %v, but others take it: jcs %v, encoding/json %v", src, err,
				jcsErr, valid)
		}
		return false
	}
	require.True(t, valid && utf8.Valid(src), "%q: accepted, but encoding/json does not take it", src)
	got := tree.Root().Append(nil)
	require.Equal(t, bytes.Equal(got, src), tree.Canonical(), "%q: canonical", src)
	if longExponent(src) {
		return true
	}
	require.NoError(t, jcsErr, "%q: accepted, but", src)
	require.True(t, bytes.Equal(got, theirs), "%q: %s, but jcs %s", src, got, theirs)
	var a, b any
	require.True(t, json.Unmarshal(src, &a) == nil && json.Unmarshal(got, &b) == nil,
		"%q: encoding/json does not read it, or not its canonical form", src)
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	zero := strings.NewReplacer("-0,", "0,", "-0]", "0]", "-0}", "0}")
	require.Equal(t, zero.Replace(string(y)+","), zero.Replace(string(x)+","),
		"%q: the canonical form has another value", src)
	err = tree.Parse(got, otherLimits)
	require.True(t, err == nil && bytes.Equal(tree.Root().Append(nil), got), "%q: %s is not its own canonical form, %v",
		src, got, err)
	return true
}

// longExponent reports whether the text may contain a token that strconv.ParseFloat reads wrong.
func longExponent(src []byte) bool {
	digits, after := 0, false
	for _, c := range src {
		switch {
		case c == 'e' || c == 'E':
			digits, after = 0, true
		case c >= '0' && c <= '9' && after:
			if digits++; digits > 5 {
				return true
			}
		case c == '+' || c == '-':
		default:
			after = false
		}
	}
	return false
}

func TestAgainstOtherReaders(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := newGenerator(1)
	var accepted, refused int
	count := func(src []byte) {
		if compareReaders(t, src) {
			accepted++
		} else {
			refused++
		}
	}
	for range 25000 {
		count(g.document())
		count(g.spoiled())
	}
	addSeeds(t, count)
	for _, src := range [][]byte{toolArgs(), records(10000), allEscapes(), allDoubles()} {
		count(src)
	}
	assert.True(t, accepted >= 20000 && refused >= 5000, "%d accepted, %d refused", accepted, refused)
}

// TestWhatAppendWritesIsRead takes strings and numbers from outside any text.
func TestWhatAppendWritesIsRead(t *testing.T) {
	t.Parallel()
	g := newGenerator(2)
	var tree Tree
	for range 5000 {
		key, s, f := g.text(), g.text(), g.r.NormFloat64()
		text := append(AppendString([]byte("{"), key), ':')
		text = append(AppendFloat(append(AppendString(append(text, '['), s), ','), f), "]}"...)
		require.NoError(t, tree.Parse(text, otherLimits), "%s", text)
		v := tree.Root().Get(key)
		if v.At(0).Text() != s || v.At(1).Float() != f || !bytes.Equal(tree.Root().Append(nil), text) {
			t.Fatalf("%s: %q %v", text, v.At(0).Text(), v.At(1).Float())
		}
	}
}

// TestKnownDifferences shows that the differences that compareReaders allows still exist.
func TestKnownDifferences(t *testing.T) {
	t.Parallel()
	for _, src := range []string{`9007199254740993`, `0.10000000000000001`, `1e-400`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200)} {
		assert.False(t, compareReaders(t, []byte(src)), "%.30s is accepted", src)
		_, err := jcs.Transform([]byte(src))
		assert.NoError(t, err, "%.30s: jcs refuses it now", src)
	}
	long := "0." + strings.Repeat("0", 200000) + "1e200001" // which is 1
	mustBe(t, long, "1", otherLimits)
	got, err := jcs.Transform([]byte(long))
	assert.False(t, err == nil && string(got) == "1", "jcs and strconv read long exponents now")
	for _, src := range []string{`{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, `1e400`} {
		assert.True(t, !compareReaders(t, []byte(src)) && json.Valid([]byte(src)),
			"%s: not a difference from encoding/json", src)
	}
}
