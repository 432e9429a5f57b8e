package crypto

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRefusals has cases for each rule of arguments, with the message and the offset.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, src, what string
		offset          int
	}{
		{"nothing", "", "not an object", 0},
		{"white space", " \t\r\n", "not an object", 4},
		{"an array", "[]", "not an object", 0},
		{"a number", "1", "not an object", 0},
		{"a string", `"{}"`, "not an object", 0},
		{"null", " null", "not an object", 1},
		{"a byte order mark", "\xef\xbb\xbf{}", "not an object", 0},
		{"UTF-16", "\xff\xfe{\x00}\x00", "not an object", 0},
		{"other white space before", "\u00a0{}", "not an object", 0},
		{"a form feed before", "\f{}", "not an object", 0},
		{"a NUL before", "\x00{}", "not an object", 0},

		{"a second value", "{}{}", "more than one value", 2},
		{"a comma after", "{} ,", "more than one value", 3},
		{"a NUL after", "{}\x00", "more than one value", 2},
		{"a comment after", "{}//", "more than one value", 2},
		{"a bracket too many", "{}}", "more than one value", 2},
		{"a byte order mark after", "{}\xef\xbb\xbf", "more than one value", 2},

		{"an open object", "{", "expected a key", 1},
		{"no key", "{1:2}", "expected a key", 1},
		{"a key without quotes", "{a:2}", "expected a key", 1},
		{"a key in single quotes", "{'a':2}", "expected a key", 1},
		{"a null key", "{null:2}", "expected a key", 1},
		{"a comment", "{/**/}", "expected a key", 1},
		{"a comma alone", "{,}", "expected a key", 1},
		{"a comma at the end", `{"a":1,}`, "expected a key", 7},
		{"two commas", `{"a":1,,"b":2}`, "expected a key", 7},
		{"the wrong bracket", "{]", "expected a key", 1},
		{"no colon", `{"a" 1}`, "expected ':'", 5},
		{"a key alone", `{"a"}`, "expected ':'", 4},
		{"an equals sign", `{"a"=1}`, "expected ':'", 4},
		{"an end after a key", `{"a"`, "expected ':'", 4},
		{"two colons", `{"a"::1}`, "expected a value", 5},
		{"no value", `{"a":}`, "expected a value", 5},
		{"an end after a colon", `{"a":`, "expected a value", 5},
		{"no comma", `{"a":1 "b":2}`, "expected ',' or '}'", 7},
		{"a semicolon", `{"a":1;"b":2}`, "expected ',' or '}'", 6},
		{"an end after a value", `{"a":1`, "expected ',' or '}'", 6},
		{"brackets crossed", `{"a":[1}]`, "expected ',' or ']'", 7},
		{"brackets crossed the other way", `{"a":{"b":1]}`, "expected ',' or '}'", 11},

		{"an open array", `{"a":[`, "expected a value", 6},
		{"an open array after a value", `{"a":[1`, "expected ',' or ']'", 7},
		{"a comma in an empty array", `{"a":[,]}`, "expected a value", 6},
		{"a comma at an array's end", `{"a":[1,]}`, "expected a value", 8},
		{"an array without comma", `{"a":[1 2]}`, "expected ',' or ']'", 8},
		{"a colon in an array", `{"a":["b":1]}`, "expected ',' or ']'", 9},

		{"True", `{"a":True}`, "expected a value", 5},
		{"tru", `{"a":tru}`, "expected a value", 5},
		{"truee", `{"a":truee}`, "expected ',' or '}'", 9},
		{"nul at the end", `{"a":nul`, "expected a value", 5},
		{"undefined", `{"a":undefined}`, "expected a value", 5},
		{"NaN", `{"a":NaN}`, "expected a value", 5},
		{"Infinity", `{"a":Infinity}`, "expected a value", 5},
		{"-Infinity", `{"a":-Infinity}`, "bad number", 6},

		{"+1", `{"a":+1}`, "expected a value", 5},
		{".5", `{"a":.5}`, "expected a value", 5},
		{"01", `{"a":01}`, "bad number", 7},
		{"-01", `{"a":-01}`, "bad number", 8},
		{"00", `{"a":00}`, "bad number", 7},
		{"-", `{"a":-}`, "bad number", 6},
		{"--1", `{"a":--1}`, "bad number", 6},
		{"1.", `{"a":1.}`, "bad number", 7},
		{"1.e1", `{"a":1.e1}`, "bad number", 7},
		{"1e", `{"a":1e}`, "bad number", 7},
		{"1e+", `{"a":1e+}`, "bad number", 8},
		{"1e1.5", `{"a":1e1.5}`, "expected ',' or '}'", 8},
		{"1.2.3", `{"a":1.2.3}`, "expected ',' or '}'", 8},
		{"0x10", `{"a":0x10}`, "expected ',' or '}'", 6},
		{"1_000", `{"a":1_000}`, "expected ',' or '}'", 6},
		{"digits of another script", `{"a":٣}`, "expected a value", 5},
		{"a number cut short", `{"a":-`, "bad number", 6},
		{"a fraction cut short", `{"a":1.`, "bad number", 7},
		{"an exponent cut short", `{"a":1e-`, "bad number", 8},

		{"2^53+1", `{"a":9007199254740993}`, "number that a double cannot hold", 5},
		{"18 digits", `{"a":0.10000000000000001}`, "number that a double cannot hold", 5},
		{"the number of RFC 8785's own example", `{"a":333333333.33333329}`, "number that a double cannot hold", 5},
		{"too small", `{"a":1e-400}`, "number that a double cannot hold", 5},
		{"too large", `{"a":1e400}`, "number out of range", 5},
		{"too large and negative", `{"a":[-1e309]}`, "number out of range", 6},

		{"an open string", `{"a":"b`, "string without end", 7},
		{"an open key", `{"a`, "string without end", 3},
		{"a quote escaped", `{"a":"\"`, "string without end", 8},
		{"an open string that is rewritten", `{"a":"\/b`, "string without end", 9},
		{"a backslash at the end", `{"a":"\`, "string without end", 7},
		{"a line end in a string", "{\"a\":\"b\n\"}", "control character in a string", 7},
		{"a tab in a key", "{\"a\tb\":1}", "control character in a string", 3},
		{"a NUL in a string", "{\"a\":\"12345678\x00\"}", "control character in a string", 14},
		{"U+001F in a rewritten string", "{\"a\":\"\\/\x1f\"}", "control character in a string", 8},
		{`\x41`, `{"a":"\x41"}`, "bad escape", 6},
		{`\'`, `{"a":"\'"}`, "bad escape", 6},
		{`\U`, `{"a":"\U0041"}`, "bad escape", 6},
		{`\0`, `{"a":"\0"}`, "bad escape", 6},
		{`\ and an end of line`, "{\"a\":\"\\\n\"}", "bad escape", 6},
		{`\u with 3 digits`, `{"a":"\u004"}`, "bad escape", 6},
		{`\u with a bad digit`, `{"a":"1\u00g0"}`, "bad escape", 7},
		{`\u with a sign`, `{"a":"\u+041"}`, "bad escape", 6},
		{`\u cut short`, `{"a":"\u00`, "bad escape", 6},
		{`\u001 cut short`, `{"a":"\u001`, "bad escape", 6},

		{"a high surrogate", `{"a":"\ud800"}`, "lone surrogate", 6},
		{"a low surrogate", `{"a":"\udc00"}`, "lone surrogate", 6},
		{"surrogates in the wrong order", `{"a":"\ude00\ud83d"}`, "lone surrogate", 6},
		{"two high surrogates", `{"a":"\ud83d\ud83d\ude00"}`, "lone surrogate", 6},
		{"a high surrogate and a letter", `{"a":"\ud83d\u0041"}`, "lone surrogate", 6},
		{"a high surrogate and text", `{"a":"b\ud83dABCDEFGH"}`, "lone surrogate", 7},
		{"a high surrogate and another escape", `{"a":"\ud83d\nABCDEF"}`, "lone surrogate", 6},
		{"half of a low surrogate", `{"a":"\ud83d\ude0"}`, "lone surrogate", 6},
		{"a surrogate in a key", `{"\ud800":1}`, "lone surrogate", 2},

		{"FF", "{\"a\":\"\xff\"}", "invalid UTF-8", 6},
		{"a continuation alone", "{\"a\":\"b\x80\"}", "invalid UTF-8", 7},
		{"half a character", "{\"a\":\"\xe2\x82\"}", "invalid UTF-8", 6},
		{"half a character at the end", "{\"a\":\"\xe2\x82", "invalid UTF-8", 6},
		{"an overlong slash", "{\"a\":\"\xc0\xaf\"}", "invalid UTF-8", 6},
		{"an overlong NUL", "{\"a\":\"\xc0\x80\"}", "invalid UTF-8", 6},
		{"a surrogate in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", "invalid UTF-8", 6},
		{"above U+10FFFF", "{\"a\":\"\xf4\x90\x80\x80\"}", "invalid UTF-8", 6},
		{"Latin-1 in a key", "{\"caf\xe9\":1}", "invalid UTF-8", 5},
		{"FF in a rewritten string", "{\"a\":\"\\/\xff\"}", "invalid UTF-8", 8},

		{"a duplicate key", `{"a":1,"a":2}`, "duplicate key", 7},
		{"a duplicate with another between", `{"b":1,"a":1,"b":2}`, "duplicate key", 13},
		{"an empty key twice", `{"":1,"":2}`, "duplicate key", 6},
		{"a duplicate in another spelling", `{"a":1,"\u0061":2}`, "duplicate key", 7},
		{"a duplicate with the escape first", `{"\u0061":1,"a":2}`, "duplicate key", 12},
		{"a duplicate of escapes", `{"\n":1,"\u000A":2}`, "duplicate key", 8},
		{"a duplicate as a surrogate pair", `{"😀":1,"\ud83d\ude00":2}`, "duplicate key", 10},
		{"a duplicate below", `{"x":[{"y":{"a":1,"a":1}}]}`, "duplicate key", 18},
		{"a long duplicate", `{"abcdefghijklmnop":1,"abcdefghijklmnop":2}`, "duplicate key", 22},
		{"letter case", `{"a":1,"A":2}`, "key that differs from another only by letter case", 7},
		{"letter case in canonical order", `{"A":1,"a":2}`, "key that differs from another only by letter case", 7},
		{"letter case at the end of a long key", `{"abcdefghij":1,"abcdefghiJ":2}`,
			"key that differs from another only by letter case", 16},
		{"letter case in an escape", `{"path":1,"\u0050ath":2}`, "key that differs from another only by letter case",
			10},
		{"long s", `{"s":1,"ſ":2}`, "key that differs from another only by letter case", 7},
		{"long s and S", `{"ſ":1,"S":2}`, "key that differs from another only by letter case", 8},
		{"long s as an escape", `{"class":1,"cla\u017fs":2}`, "key that differs from another only by letter case", 11},
		{"Kelvin sign", "{\"k\":1,\"\u212a\":2}", "key that differs from another only by letter case", 7},
		{"Kelvin sign and K", "{\"K\":1,\"\u212a\":2}", "key that differs from another only by letter case", 7},
		{"letter case beside an escape", `{"a\n":1,"A\n":2}`, "key that differs from another only by letter case", 9},
		{"letter case far apart", `{"user":1,"b":2,"c":3,"User":4}`,
			"key that differs from another only by letter case", 22},
		{"letter case below", `{"x":{"user":1,"b":{},"USER":3}}`, "key that differs from another only by letter case",
			22},
	} {
		var tree Tree
		dst, err := tree.ParseArgs([]byte("before"), []byte(test.src))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: accepted as %s", test.name, dst)
			continue
		}
		assert.True(t, syntax.What == test.what && syntax.Offset == test.offset, "%s: %v, want %s at byte %d",
			test.name, err, test.what, test.offset)
		assert.True(t, string(dst) == "before" && tree.Root().Kind() == Missing, "%s: something is left of it: %s",
			test.name, dst)
		if secret, _, _ := strings.Cut(test.src, "\x00"); len(secret) > 12 && strings.Contains(err.Error(),
			secret[6:]) {
			t.Errorf("%s: the error quotes the text", test.name)
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
	for src, want := range map[string]string{
		`{"a":1,"b":1}`: `{"a":1,"b":1}`, `{"a":{"a":{"a":1}}}`: `{"a":{"a":{"a":1}}}`,
		`{"é":1,"É":2}`: `{"É":2,"é":1}`, `{"A":1,"b":2}`: `{"A":1,"b":2}`,
		`{"ß":1,"ss":2,"SS2":3}`: `{"SS2":3,"ss":2,"ß":1}`, `{"a":1,"a ":2}`: `{"a":1,"a ":2}`,
		`{"@":1,"` + "`" + `":2,"[":3,"{":4}`: `{"@":1,"[":3,"` + "`" + `":2,"{":4}`,
		`{"i":1,"ı":2,"İ":3}`:                 `{"i":1,"İ":3,"ı":2}`, `{"Ka":1,"kb":2}`: `{"Ka":1,"kb":2}`,
		`{"a":"` + "\u007f\u0080\ufeff" + `"}`:           `{"a":"` + "\u007f\u0080\ufeff" + `"}`,
		`{"\ufeff":1}`:                                   "{\"\ufeff\":1}",
		`{"\u0000":1,"\u0001":2}`:                        `{"\u0000":1,"\u0001":2}`,
		`{"maxResults":1,"max_results":2,"MAXRESULT":3}`: `{"MAXRESULT":3,"maxResults":1,"max_results":2}`,
	} {
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
