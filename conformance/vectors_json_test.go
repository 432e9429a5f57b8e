package conformance

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"filippo.io/edwards25519"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/vectorfile"
)

// A reading is a JSON text with its canonical form, or with the class of its error in brackets.
type reading struct{ about, text, want string }

// common are limits of no text below.
var common = canonicalLimits{Bytes: 1 << 20, Canonical: 1 << 20, Depth: 64}

// canonicalReadings come first; a case once published stays.
var canonicalReadings = []reading{
	{"RFC 8785 section 3.2.2: the sample, a number of which no double holds", `{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`, "[number]"},
	{"RFC 8785 section 3.2.2: the sample, with numbers that doubles hold", `{
  "numbers": [333333333.3333333, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
		`"string":"€$\u000f\nA'B\"\\\\\"/"}`},
	{"RFC 8785 section 3.2.3: keys by UTF-16 code units", `{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
}`, `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
		`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
	{"keys that differ by letter case", `{"b":{"F":5,"f":"hi"},"B":1,"a":2}`, `{"B":1,"a":2,"b":{"F":5,"f":"hi"}}`},
	{"a key that is the beginning of another", `{"aa":1,"a":2,"":3}`, `{"":3,"a":2,"aa":1}`},
	{"U+E000 and U+FFFF come after surrogate pairs", "{\"\uffff\":1,\"\U00010000\":2,\"\ue000\":3,\"\ud7ff\":4}",
		"{\"\ud7ff\":4,\"\U00010000\":2,\"\ue000\":3,\"\uffff\":1}"},
	{"text is not normalized", `"A\u030a"`, "\"A\u030a\""},
	{"white space of all four kinds", " [ 1 ,\t2\r\n, { } ] ", "[1,2,{}]"},
	{"a number alone", "0", "0"},
	{"a text alone", `"x"`, `"x"`},
	{"null", " null", "null"},
	{"escapes that need none", `"\u0041\/\u00e9\u007f"`, "\"A/é\u007f\""},
	{"control characters", `"\u0000\u0001\b\t\n\u000b\f\r\u001f"`, `"\u0000\u0001\b\t\n\u000b\f\r\u001f"`},
	{"quote and backslash", `"\"\\"`, `"\"\\"`},
	{"a surrogate pair, escaped", `"\ud834\udd1e"`, `"𝄞"`},
	{"noncharacters", `"\ufffe\uffff"`, "\"\ufffe\uffff\""},
	{"line separators are not escaped", "\"\u2028\u2029\"", "\"\u2028\u2029\""},
	{"minus zero", "[-0,-0.0,-0e5]", "[0,0,0]"},
	{"trailing zeros and exponents", "[1.0,1e2,1E+2,0.10,100e-2]", "[1,100,100,0.1,1]"},
	{"the bounds of the exponential form", "[1e20,1e21,1e-6,1e-7]", "[100000000000000000000,1e+21,0.000001,1e-7]"},
	{"nested arrays", "[[],[[]],{\"a\":[]}]", "[[],[[]],{\"a\":[]}]"},
	{"nothing", "", "[syntax]"},
	{"two values", "{}{}", "[syntax]"},
	{"a comma too many", "[1,]", "[syntax]"},
	{"a comma too many in an object", `{"a":1,}`, "[syntax]"},
	{"a comment", "{}//", "[syntax]"},
	{"a key without quotes", "{a:1}", "[syntax]"},
	{"a single quote", "{'a':1}", "[syntax]"},
	{"a byte order mark", "\ufeff{}", "[syntax]"},
	{"a form feed", "\f1", "[syntax]"},
	{"a bare control character in a text", "\"a\nb\"", "[syntax]"},
	{"a text without end", `"a`, "[syntax]"},
	{"an unknown escape", `"\x41"`, "[syntax]"},
	{"a short escape", `"\u12"`, "[syntax]"},
	{"NaN", "NaN", "[syntax]"},
	{"Infinity", "-Infinity", "[syntax]"},
	{"True", "True", "[syntax]"},
	{"a leading zero", "01", "[syntax]"},
	{"a leading plus", "+1", "[syntax]"},
	{"no digit after the point", "1.", "[syntax]"},
	{"no digit before the point", ".5", "[syntax]"},
	{"no digit in the exponent", "1e", "[syntax]"},
	{"hexadecimal", "0x10", "[syntax]"},
	{"more digits than a double holds", "[9007199254740993]", "[number]"},
	{"17 digits that are not shortest", "[0.10000000000000001]", "[number]"},
	{"too large", "[1e400]", "[number]"},
	{"too small", "[1e-400]", "[number]"},
	{"a key twice", `{"a":1,"b":2,"a":1}`, "[key]"},
	{"a key twice, once escaped", `{"a":1,"\u0061":2}`, "[key]"},
	{"a key twice, deep", `[{"x":{"":1,"":2}}]`, "[key]"},
	{"a high surrogate alone", `"\ud83d"`, "[surrogate]"},
	{"a low surrogate alone", `"\ude00"`, "[surrogate]"},
	{"a pair in the wrong order", `"\ude00\ud83d"`, "[surrogate]"},
	{"a surrogate in a key", `{"\ud83d":1}`, "[surrogate]"},
	{"a byte that begins nothing", "\"\xff\"", "[utf8]"},
	{"an overlong slash", "\"\xc0\xaf\"", "[utf8]"},
	{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", "[utf8]"},
	{"beyond U+10FFFF", "\"\xf4\x90\x80\x80\"", "[utf8]"},
	{"a sequence cut off", "\"\xe2\x82\"", "[utf8]"},
}

// canonicalVectors are the readings, and what depends on limits.
func canonicalVectors(t *testing.T) (cases []vectorfile.Case) {
	add := func(r reading, limits canonicalLimits) {
		var tree crypto.Tree
		err := tree.Parse([]byte(r.text), crypto.Limits{Bytes: limits.Bytes, Depth: limits.Depth, Object: limits.Object,
			Fold: limits.Fold})
		got := ""
		switch {
		case err != nil:
			got = "[" + errorClass(err) + "]"
		case len(tree.Root().Append(nil)) > limits.Canonical:
			got = "[size]"
		default:
			got = string(tree.Root().Append(nil))
		}
		require.Equal(t, r.want, got, r.about)
		b, err := json.Marshal(limits)
		require.NoError(t, err)
		cases = append(cases, vectorfile.Case{About: r.about,
			Files: map[string][]byte{"input": []byte(r.text), "limits.json": append(b, '\n')}})
	}
	for _, r := range canonicalReadings {
		add(r, common)
	}
	args := common
	args.Fold, args.Object = true, true
	add(reading{"arguments: an object", `{"b":1,"a":2}`, `{"a":2,"b":1}`}, args)
	add(reading{"arguments: an array", `[]`, "[root]"}, args)
	add(reading{"arguments: null", `null`, "[root]"}, args)
	add(reading{"arguments: keys equal but for letter case", `{"path":1,"Path":2}`, "[key]"}, args)
	add(reading{"arguments: keys equal under U+017F", `{"sum":1,"\u017fum":2}`, "[key]"}, args)
	add(reading{"arguments: keys equal under U+212A", `{"key":1,"\u212aey":2}`, "[key]"}, args)
	add(reading{"arguments: keys equal but for letter case, deep", `{"x":[{"a":1,"A":2}]}`, "[key]"}, args)
	add(reading{"arguments: other letters do not fold", `{"é":1,"É":2}`, `{"É":2,"é":1}`}, args)
	add(reading{"arguments: equal keys of different objects", `{"a":{"A":1}}`, `{"a":{"A":1}}`}, args)
	deep := common
	deep.Depth = 3
	add(reading{"as deep as may be", `[[[1]]]`, `[[[1]]]`}, deep)
	add(reading{"one deeper", `[[[[]]]]`, "[depth]"}, deep)
	add(reading{"objects count too", `{"a":{"a":{"a":{}}}}`, "[depth]"}, deep)
	deep.Depth = 64
	add(reading{"64 deep", strings.Repeat("[", 64) + strings.Repeat("]", 64),
		strings.Repeat("[", 64) + strings.Repeat("]", 64)}, deep)
	add(reading{"65 deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), "[depth]"}, deep)
	short := common
	short.Bytes, short.Canonical = 12, 8
	add(reading{"as long as may be", `["abcd"]    `, `["abcd"]`}, short)
	add(reading{"one byte longer", `["abcd"]     `, "[size]"}, short)
	add(reading{"the canonical form is longer", `[1e20]`, "[size]"}, short)
	return cases
}

// numberVectors are the edges of numbers that a double holds.
func numberVectors(t *testing.T) (cases []vectorfile.Case) {
	add := func(text string, want bool) {
		var tree crypto.Tree
		err := tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: 1})
		require.Equal(t, want, err == nil && tree.Root().Kind() == crypto.Number, text)
		about := text
		if len(about) > 40 {
			about = fmt.Sprintf("%s... of %d bytes", about[:20], len(about))
		}
		cases = append(cases, vectorfile.Case{About: about, Files: map[string][]byte{"input": []byte(text)}})
	}
	for _, good := range strings.Fields("0 -0 1 -1 0.1 1.0 1e2 6.022e23 9007199254740991 9007199254740992 -9007199254740991 " +
		"9007199254740994 1e21 1e-7 1.7976931348623157e308 5e-324 2.2250738585072014e-308 0.000001 123456789012345680000 " +
		"1e23 0e999 4.35 333333333.3333333 0.30000000000000004 100000000000000000000000") {
		add(good, true)
	}
	for _, bad := range strings.Fields("9007199254740993 0.10000000000000001 1e400 -1e400 1e-400 1.7976931348623159e308 2e-324 " +
		"123456789012345678 0.1000000000000000055511151231257827 3.14159265358979323846 00 01 -01 +1 1. .1 1e 1e+ - 0x1 " +
		"1_000 Infinity NaN 1,5 true \"1\"") {
		add(bad, false)
	}
	add("0."+strings.Repeat("0", 400)+"1", false)
	add("1"+strings.Repeat("0", 308), true)
	add("1"+strings.Repeat("0", 309), false)
	add("1."+strings.Repeat("0", 1000), true)
	return cases
}

// pointVectors are public keys, and what is none.
func pointVectors(t *testing.T) (cases []vectorfile.Case) {
	add := func(about string, key []byte, want bool) {
		require.Equal(t, want, crypto.CheckPublicKey(key) == nil, about)
		cases = append(cases, vectorfile.Case{About: about, Files: map[string][]byte{"input": key}})
	}
	var good []byte
	for i := range 4 {
		seed := make([]byte, 32)
		seed[0] = byte(i)
		k, err := crypto.NewKeyFromSeed(seed)
		require.NoError(t, err)
		good, err = crypto.PublicOf(k)
		require.NoError(t, err)
		add("the key of the seed "+hex.EncodeToString(seed[:1])+" 00...", good, true)
	}
	for _, bad := range []struct{ about, hex string }{
		{"the identity", "01" + strings.Repeat("00", 31)},
		{"order 2", "ec" + strings.Repeat("ff", 30) + "7f"},
		{"order 4", strings.Repeat("00", 32)},
		{"order 4, the other", strings.Repeat("00", 31) + "80"},
		{"order 8", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"},
		{"order 8, the second", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"},
		{"order 8, the third", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"},
		{"order 8, the fourth", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"},
		{"the identity, x = -0", "01" + strings.Repeat("00", 30) + "80"},
		{"order 2, x = -0", "ec" + strings.Repeat("ff", 31)},
		{"y = p", "ed" + strings.Repeat("ff", 30) + "7f"},
		{"y = p, x = -0", "ed" + strings.Repeat("ff", 31)},
		{"y = p + 1", "ee" + strings.Repeat("ff", 30) + "7f"},
		{"y = p + 3", "f0" + strings.Repeat("ff", 30) + "7f"},
		{"no point has this y", "02" + strings.Repeat("00", 31)},
		{"all ones", strings.Repeat("ff", 32)},
		{"no bytes", ""},
		{"31 bytes", strings.Repeat("01", 31)},
		{"33 bytes", strings.Repeat("01", 33)},
	} {
		b, err := hex.DecodeString(bad.hex)
		require.NoError(t, err)
		add(bad.about, b, false)
	}
	torsion, err := hex.DecodeString("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
	require.NoError(t, err)
	p, err := new(edwards25519.Point).SetBytes(good)
	require.NoError(t, err)
	q, err := new(edwards25519.Point).SetBytes(torsion)
	require.NoError(t, err)
	for _, about := range []string{"first", "second", "third", "fourth"} {
		p.Add(p, q)
		add("mixed order: a good key and a point of small order, "+about, p.Bytes(), false)
	}
	return cases
}
