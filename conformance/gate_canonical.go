package conformance

import (
	"fmt"
	"math"
	"strings"
)

// Gate 1: the canonical form of JSON is RFC 8785, and what has no single meaning has none.

// rfc8785 are the examples of sections 3.2.2 and 3.2.3 of RFC 8785, and of its reference
// implementations.
var rfc8785 = []struct{ name, src, want string }{
	{"section 3.2.2", `{"numbers": [333333333.3333332500, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
		`{"literals":[null,true,false],"numbers":[333333333.33333325,1e+30,4.5,0.002,1e-27],` +
			`"string":"€$\u000f\nA'B\"\\\\\"/"}`},
	{"section 3.2.3", `{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
		"1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
		"\u00f6": "Latin Small Letter O With Diaeresis"}`,
		`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
			`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
	{"french", `{"peach":1,"péché":2,"pêche":3,"sin":4}`, `{"peach":1,"péché":2,"pêche":3,"sin":4}`},
	{
		"structures",
		`{"1":{"f":{"f":"hi","F":5} ,"\n":56.0},"10":{},"":"empty","a":{},"111":[{"e":"yes","E":"no"}],"A":{}}`,
		`{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}`,
	},
	{"unicode", `{"Unnormalized":"A\u030a"}`, `{"Unnormalized":"A` + "\u030a" + `"}`},
	{"arrays", "[ 56 , { \"d\": true, \"10\": null, \"1\": [ ] } ]", `[56,{"1":[],"10":null,"d":true}]`},
	{
		"control characters",
		`"\u0000\u0001\b\t\n\u000b\f\r\u001f\u007f"`,
		`"\u0000\u0001\b\t\n\u000b\f\r\u001f` + "\x7f" + `"`,
	},
	{"key order by UTF-16", `{"` + "\uffff" + `":1,"\ud83d\ude00":2,"` + "\ue000" + `":3,"a":4,"A":5,"":6,"aa":7}`,
		`{"":6,"A":5,"a":4,"aa":7,"😀":2,"` + "\ue000" + `":3,"` + "\uffff" + `":1}`},
	{"white space", "\t{ \"a\" :\r\n1 }\n", `{"a":1}`},
}

// doubles are the samples of appendix B of RFC 8785.
var doubles = []struct {
	bits uint64
	want string
}{
	{0, "0"}, {1 << 63, "0"}, {1, "5e-324"}, {1<<63 | 1, "-5e-324"},
	{0x7fefffffffffffff, "1.7976931348623157e+308"}, {0xffefffffffffffff, "-1.7976931348623157e+308"},
	{0x4340000000000000, "9007199254740992"}, {0xc340000000000000, "-9007199254740992"},
	{0x4430000000000000, "295147905179352830000"}, {0x44b52d02c7e14af5, "9.999999999999997e+22"},
	{0x44b52d02c7e14af6, "1e+23"}, {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
	{0x444b1ae4d6e2ef4e, "999999999999999700000"}, {0x444b1ae4d6e2ef4f, "999999999999999900000"},
	{0x444b1ae4d6e2ef50, "1e+21"}, {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"}, {0x3eb0c6f7a0b5ed8d, "0.000001"},
	{0x41b3de4355555553, "333333333.3333332"}, {0x41b3de4355555554, "333333333.33333325"},
	{0x41b3de4355555555, "333333333.3333333"}, {0x41b3de4355555556, "333333333.3333334"},
	{0x41b3de4355555557, "333333333.33333343"}, {0xbecbf647612f3696, "-0.0000033333333333333333"},
	{0x43143ff3c1cb0959, "1424953923781206.2"},
}

// numbers are texts of numbers, with their canonical form; "" if the number is refused, because its
// value would change.
var numbers = []struct{ src, want string }{
	{"0", "0"}, {"-0", "0"}, {"-0.0e5", "0"}, {"1.0", "1"}, {"1e2", "100"}, {"0.1", "0.1"}, {"6.022e23", "6.022e+23"},
	{"1E-7", "1e-7"}, {"0.000001", "0.000001"}, {"1e21", "1e+21"}, {"100000000000000000000", "100000000000000000000"},
	{"9007199254740991", "9007199254740991"}, {"9007199254740992", "9007199254740992"}, {"5e-324", "5e-324"},
	{"1.7976931348623157e308", "1.7976931348623157e+308"},
	{
		"9007199254740993",
		"",
	}, {"0.10000000000000001", ""}, {"1e400", ""}, {"-1e400", ""}, {"1e-400", ""}, {"2e-324", ""},
	{"01", ""}, {"+1", ""}, {"1.", ""}, {".5", ""}, {"1e", ""}, {"0x10", ""}, {"NaN", ""}, {"Infinity", ""}, {"-", ""},
	{"1e+", ""},
}

// refused are texts that are no strict JSON.
var refused = []struct{ name, src string }{
	{"nothing", ""}, {"white space", " \n"}, {"a byte order mark", "\ufeff{}"}, {"two values", "{}{}"},
	{
		"a comma too many",
		`{"a":1,}`,
	}, {"a comment", "{}//"}, {"a single quote", "'a'"}, {"a literal in capitals", "TRUE"},
	{"a key twice", `{"a":1,"a":2}`}, {"a key twice, once as an escape", `{"a":1,"\u0061":2}`},
	{"a key twice, deep inside", `[{"a":[{"b":0,"c":1,"b":0}]}]`},
	{
		"a high surrogate alone",
		`"\ud800"`,
	}, {"a low surrogate alone", `"\udc00"`}, {"surrogates the wrong way", `"\udc00\ud800"`},
	{
		"a surrogate in a key",
		`{"\udfff":1}`,
	}, {"bytes that are no UTF-8", "\"\xc0\xaf\""}, {"a surrogate in UTF-8", "\"\xed\xa0\x80\""},
	{
		"a control character",
		"\"\n\"",
	}, {"an unknown escape", `"\x41"`}, {"an escape cut short", `"\u00"`}, {"a string cut short", `"a`},
	{"an object cut short", `{"a":1`}, {"another white space", "\u00a01"}, {"a form feed", "\f1"},
}

func canonicalCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	for _, x := range rfc8785 {
		add("RFC 8785: "+x.name, func(t *trial) { becomes(t, t.canonical, x.src, x.want) })
	}
	for _, x := range doubles {
		add(fmt.Sprintf("the double %016x", x.bits), func(t *trial) {
			got := t.number(math.Float64frombits(x.bits))
			t.check(got == x.want, "%s, want %s", got, x.want)
			becomes(t, t.canonical, x.want, x.want)
		})
	}
	for _, x := range numbers {
		add("the number "+x.src, func(t *trial) {
			if x.want == "" {
				refuses(t, t.canonical, x.src)
				refuses(t, t.arguments, `{"n":`+x.src+`}`)
				return
			}
			becomes(t, t.canonical, x.src, x.want)
			becomes(t, t.arguments, `{"n":`+x.src+`}`, `{"n":`+x.want+`}`)
		})
	}
	for _, x := range refused {
		add("refused: "+x.name, func(t *trial) {
			refuses(t, t.canonical, x.src)
			refuses(t, t.arguments, x.src)
			refuses(t, t.arguments, `{"a":`+x.src+`}`)
		})
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	add("depth 128", func(t *trial) { becomes(t, t.canonical, nested(128), nested(128)) })
	add("refused: depth 129", func(t *trial) { refuses(t, t.canonical, nested(129)) })
	add("arguments: depth 64", func(t *trial) {
		text := `{"a":` + nested(63) + `}`
		becomes(t, t.arguments, text, text)
	})
	add("refused: arguments of depth 65", func(t *trial) { refuses(t, t.arguments, `{"a":`+nested(64)+`}`) })
	sized := func(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }
	add("arguments: 1 MiB", func(t *trial) { becomes(t, t.arguments, sized(1<<20), sized(1<<20)) })
	add("refused: arguments over 1 MiB", func(t *trial) { refuses(t, t.arguments, sized(1<<20+1)) })
	add("refused: arguments that come to over 1 MiB", func(t *trial) {
		refuses(t, t.arguments, `{"a":[`+strings.Repeat("1e20,", 100_000)+`1]}`)
	})
	for _, text := range []string{"[]", "null", `"{}"`, "1"} {
		add("refused: arguments that are "+text, func(t *trial) { refuses(t, t.arguments, text) })
	}
	for _, text := range []string{`{"a":1,"A":2}`, "{\"\u017f\":1,\"s\":2}", "{\"\u212a\":1,\"k\":2}"} {
		add("refused: arguments with keys that differ in case: "+text, func(t *trial) {
			refuses(t, t.arguments, text)
			_, err := t.canonical([]byte(text))
			t.must(err, "as JSON that is no arguments")
		})
	}
	return list
}

// becomes holds a text to its canonical form, which must be its own.
func becomes(t *trial, canonical func([]byte) ([]byte, error), src, want string) {
	for _, text := range []string{src, want} {
		got, err := canonical([]byte(text))
		t.must(err, "refused")
		t.check(string(got) == want, "another canonical form, of %d bytes, want %d", len(got), len(want))
	}
}

// refuses holds a text to being refused.
func refuses(t *trial, canonical func([]byte) ([]byte, error), src string) {
	_, err := canonical([]byte(src))
	t.check(err != nil, "accepted")
}
