package crypto

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	argsLimits  = Limits{Bytes: maxArgs, Depth: 64, Object: true, Fold: true}
	otherLimits = Limits{Bytes: 4 << 20, Depth: MaxDepth}
)

// mustBe parses a text and compares its canonical form, which must then be its own.
func mustBe(t *testing.T, src, want string, l Limits) {
	t.Helper()
	var tree Tree
	if err := tree.Parse([]byte(src), l); err != nil {
		t.Errorf("%.100q: %v", src, err)
		return
	}
	got := string(tree.Root().Append(nil))
	assert.Equal(t, want, got, "%.100q is %.200q, want %.200q", src, got, want)
	assert.Equal(t, src == want, tree.Canonical(), "%.100q: canonical", src)
	if err := tree.Parse([]byte(got), l); err != nil {
		t.Errorf("%.100q is canonical, but: %v", got, err)
	} else if again := string(tree.Root().Append(nil)); again != got {
		t.Errorf("%.100q became %.100q", got, again)
	} else if !tree.Canonical() {
		t.Errorf("%.100q is canonical, but not known to be", got)
	}
}

// TestRFC8785 has the examples of sections 3.2.2, 3.2.3 and of the reference implementations.
func TestRFC8785(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`{
		   "numbers": [333333333.3333332500, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		   "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		   "literals": [null, true, false]
		 }`: `{"literals":[null,true,false],"numbers":[333333333.33333325,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{
		   "\u20ac": "Euro Sign",
		   "\r": "Carriage Return",
		   "\ufb33": "Hebrew Letter Dalet With Dagesh",
		   "1": "One",
		   "\ud83d\ude00": "Emoji: Grinning Face",
		   "\u0080": "Control",
		   "\u00f6": "Latin Small Letter O With Diaeresis"
		 }`: "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\"," +
			"\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\"," +
			"\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		`{"peach":1,"péché":2,"pêche":3,"sin":4}`: `{"peach":1,"péché":2,"pêche":3,"sin":4}`,
		`{"1": {"f": {"f": "hi","F": 5} ,"\n": 56.0}, "10": { }, "": "empty", "a": { }, "111": [ {"e": "yes","E": ` +
			`"no" } ], "A": { }}`: `{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}`,
		`{"Unnormalized":"A\u030a"}`: "{\"Unnormalized\":\"A\u030a\"}",
		` 1 `:                        `1`, "\tnull\r\n": `null`, `"x"`: `"x"`, `[ ]`: `[]`, `{ }`: `{}`,
	} {
		mustBe(t, src, want, otherLimits)
	}
}

func TestCanonicalStrings(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`"\"\\\/\b\f\n\r\t"`: `"\"\\/\b\f\n\r\t"`,
		`"\u0022\u005C\u002f\u0008\u000c\u000A\u000d\u0009"`: `"\"\\/\b\f\n\r\t"`,
		`"\u0000\u001f\u001F\u000b"`:                         `"\u0000\u001f\u001f\u000b"`,
		`"\u007f\u0080\u2028"`:                               "\"\u007f\u0080\u2028\"",
		`"\ud83d\ude00\uD83D\uDE00\uffff\ufffd"`:             "\"😀😀\uffff\ufffd\"",
		`"\udbff\udfff\ud800\udc00"`:                         "\"\U0010ffff\U00010000\"",
		"\"é\\u0041€\\n😀\\/\"":                               "\"éA€\\n😀/\"",
		`"12345678\n12345678\u004112345678"`:                 `"12345678\n12345678A12345678"`,
		"\"\u007f\u0080\uffff\U0010ffff\"":                   "\"\u007f\u0080\uffff\U0010ffff\"",
	} {
		mustBe(t, src, want, otherLimits)
		mustBe(t, `{"k":[`+src+`],`+src+`:1}`, canonicalPair(want), otherLimits)
	}
}

// canonicalPair returns {"k":[s],s:1} in the order of the keys, if none starts with a k.
func canonicalPair(s string) string {
	if first, _ := utf8.DecodeRuneInString(s[1:]); first < 'k' {
		return `{` + s + `:1,"k":[` + s + `]}`
	}
	return `{"k":[` + s + `],` + s + `:1}`
}

// TestEveryEscape writes each character of the basic plane as an escape, and unescaped if JSON
// allows it.
func TestEveryEscape(t *testing.T) {
	t.Parallel()
	var tree Tree
	for r := rune(0); r < 0x10000; r++ {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		want := AppendString(nil, string(r))
		hex := []byte{hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15]}
		for _, src := range []string{`"\u` + string(hex) + `"`, `"\u` + strings.ToUpper(string(hex)) + `"`,
			string(want)} {
			require.NoError(t, tree.Parse([]byte(src), otherLimits), "%q", src)
			got := tree.Root().Append(nil)
			require.True(t, bytes.Equal(got, want), "%q is %q, want %q", src, got, want)
			require.Equal(t, string(r), tree.Root().Text(), "%q", src)
		}
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"": `""`, "a": `"a"`, "\"\\/": `"\"\\/"`,
		"\x00\b\t\n\x0b\f\r\x1f\x7f": "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\x7f\"", "é€😀": `"é€😀"`,
		"<>&\u2028": "\"<>&\u2028\"",
		"\xff":      "\"\uFFFD\"", "a\xc3": "\"a\uFFFD\"", "\xed\xa0\x80b": "\"\uFFFD\uFFFD\uFFFDb\"",
		"\xc3\"": "\"\uFFFD\\\"\"", "\uFFFD": "\"\uFFFD\"",
	} {
		assert.Equal(t, "x"+want, string(AppendString([]byte("x"), s)), "%q", s)
		mustBe(t, want, want, otherLimits)
	}
}

// TestKeyOrder has keys in canonical order, and parses them in every order of three, with and
// without other keys between them.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{
		{"", "a", "b"}, {"a", "aa", "ab"}, {"1", "10", "2"}, {"A", "Z", "a"}, {`\n`, " ", `\"`},
		{`\u0000`, `\u0001`, `\b`}, {`\t`, `\u000b`, `\u001f`},
		{"\u007f", "\u0080", "é"}, {"é", "€", "\U0001F600"},
		{"\U0001F600", "\uE000", "\uFB33"}, // D83D before E000 and FB33
		{"\uD7FF", "\U00010000", "\uFFFF"}, {"\U00010000", "\U0010FFFF", "\uE000"},
		{"\U0001F600", "\U0001F601", "\U0001F601a"}, {"\U0001F600\uE000", "\U0001F600\uE001", "\U0001F601"},
		{"x\U0001F600", "x\uFB33", "x\uFB33\U0001F600"}, {`\"\uD83D\uDE00`, `\"` + "\uFB33", `a`},
		{"a\U0001F600", "a\uFB33", "b"},
		{"12345678", "123456780", "123456781"}, {"1234567", "1234567!", "12345678"}, {"123456", "123456 ", "1234567"},
		{"12345678", "12345678!", "123456789"}, {"1234567", "12345678", "1234567é"},
		{"12345679", "1234567\U0001F600", "1234567\uFB33"},
		{"aaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaab\\n"}, {`a\n`, `a\"`, `a\\`},
		{`\n` + "\U0001F600", `\n` + "\U0001F601", `\n` + "\uFB33"}, {`aaaaaaaa\n`, `aaaaaaaa!`, "aaaaaaaaé"},
	} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var src, want strings.Builder
			for i, at := range order {
				src.WriteString(`,"` + keys[at] + `":[]`)
				want.WriteString(`,"` + strings.ReplaceAll(keys[i], `\uD83D\uDE00`, "\U0001F600") + `":[]`)
			}
			mustBe(t, "{"+src.String()[1:]+"}", "{"+want.String()[1:]+"}", otherLimits)
		}
	}
}

// TestKeyOrderOfManyKeys compares with the definition, UTF-16 code units, for more keys than
// insertion sorts.
func TestKeyOrderOfManyKeys(t *testing.T) {
	t.Parallel()
	g := newGenerator(11)
	checked := 0
	for range 300 {
		keys := map[string]bool{}
		src := []byte("{")
		for range g.r.IntN(60) {
			k := g.text()
			if keys[k] {
				continue
			}
			if len(keys) > 0 {
				src = append(src, ',')
			}
			keys[k] = true
			src = append(g.spell(src, k), ":0"...)
		}
		src = append(src, '}')
		var tree Tree
		require.NoError(t, tree.Parse(src, otherLimits), "%q", src)
		var last string
		n := 0
		for it := tree.Root().Iter(); it.Next(); n++ {
			key := string(it.Key())
			require.True(t, keys[key], "%q is no key", key)
			require.False(t, n > 0 && utf16Compare(last, key) >= 0, "%q before %q", last, key)
			last = key
			checked++
		}
		require.Len(t, keys, n, "keys")
	}
	assert.True(t, checked >= 1000, "%d keys checked", checked)
}

// addSeeds adds the contents of the seed files, of which there must be some.
func addSeeds(t testing.TB, add func([]byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/json/*.json")
	require.True(t, err == nil && len(files) != 0, "no seeds: %v", err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		add(b)
	}
}
