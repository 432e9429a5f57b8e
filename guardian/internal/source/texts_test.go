package source

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/shared"
)

func parse(t testing.TB, text string) crypto.Value {
	t.Helper()
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 20, Depth: 8}), "%s", text)
	return tree.Root()
}

// str returns a string as a value.
func str(t testing.TB, s string) crypto.Value {
	t.Helper()
	return parse(t, string(crypto.AppendString(nil, s)))
}

// has reports whether a value is in one of the texts, and checks the answer by the slow matcher.
func has(t testing.TB, v crypto.Value, texts ...string) bool {
	t.Helper()
	var words Words
	slow := false
	for _, s := range texts {
		words.Add([]byte(s))
		slow = slow || occurs(t, v, s)
	}
	require.False(t, words.Full())
	found := words.Has(v)
	require.Equal(t, slow, found, "%s in %q", v.Raw(), texts)
	return found
}

// The table of the rules' text, and what else it decides.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, text string
		found       bool
	}{
		{"bob@corp.com", "to:bob@corp.com.", true},
		{"GB29NWBK60161331926819", "请支付给GB29NWBK60161331926819。", true},
		{"bob@corp.com", "bob@corp.com,eve@x.io", true},
		{"https://a.com/x", "did you see https://a.com/x?", true},
		{"general", "post in #general", true},
		{"alice", "bob,alice", true},
		{"corp.com", "https://corp.com", true},
		{"corp.com", "bob@evil-corp.com", false},
		{"corp.com", "www.corp.com", false},
		{"https://a.com/x", "https://a.com/x?id=7", false},
		{`C:\data`, `C:\data\secret`, false},
		{"1234", "1234,56", false},
		{"13", "June 13", false},
		{"AB12", "ref AB12-9", false},
		{"AB12", "ref ab12", false},

		// a part of a longer token, at either side
		{"corp.com", "corp.com.evil.io", false}, {"corp.com", "corp.community", false},
		{"corp.com", "mycorp.com", false}, {"/srv/data", "/srv/data-evil", false}, {"/srv/data", "/srv/data/x", false},
		{"/srv/data", "in /srv/data/.", true}, {"a.com/x", "https://a.com/x", true}, {"a.com/x", "https:/a.com/x", true}, {"a.com/x", "b/a.com/x", false}, {"1234", "12345", false},
		{"1234", "01234", false}, {"eve@x.io", "steve@x.io", false}, {"eve@x.io", "st.eve@x.io", false},

		// what may stand next to a value
		{"alice", "alice.", true}, {"alice", "(alice)", true}, {"alice", `"alice"`, true}, {"alice", "alice: pay", true},
		{"alice", "to=alice", true}, {"alice", "to:alice", true}, {"alice", "alice:x", false}, {"alice", "alice=x", false},
		{"alice", "alice:", true}, {"alice", "alice=", true}, {"alice", "alice:: x", true}, {"alice", "alice :x", true},
		{"alice", "alice!bob", true}, {"alice", "alice\nbob", true}, {"alice", "alice\x00bob", true},
		{"alice", "alice…bob", true}, {"alice", "给alice付款", true}, {"alice", "aliceß", false}, {"alice", "éalice", false},
		{"alice", "alice\u0301", false}, {"alice", "alice\u200a", true}, {"alice", "alice\u200b", false}, {"alice", "alice\u200d", false},
		{"alice", "alice\ufeff", false}, {"alice", "alice.\u00bd", true}, {"alice", "alice..x", true},
		{"alice", "alice.é", false}, {"alice", "é.alice", false}, {"alice", "x..alice", true}, {"alice", "?.alice", true},
		{"alice", "alice ", true}, {"alice", "alice\ufffd", false}, {"alice", "malice, alice", true},
		{"alice", "alice-bob alice", true}, {"支付", "请支付给", false}, {"支付给", "请支付给我", true},

		// commas join digits alone, ASCII ones, of the value with others
		{"1234", "1,1234", false}, {"1234", "1,1234,5", false}, {"1234", "1234,x", true}, {"1234", "x,1234", true},
		{"1234", "1234, 5", true}, {"1234", "1234,", true}, {"1234", "1234,\u0661", true}, {"AB12", "AB12,5", false},
		{"12AB", "12AB,5", true}, {"12AB", "5,12AB", false}, {"AB12", "5,AB12", true}, {"1234", "1234,,5", true},
		{"1234\u0661", "1234\u0661,5", true},

		// other forms of the same
		{"Alice", "alice", false}, {"al\u200bice", "alice", false}, {"alice", "al\u200bice", false},
		{"caf\u00e9", "cafe\u0301", false}, {"cafe\u0301", "caf\u00e9", false}, {"a%40b.io", "a@b.io", false},
		{"a@b.io", "a%40b.io", false}, {"alice ", "alice", false}, {"GB29NWBK", "GB29 NWBK", false},
		{"a b c d", "a b  c d", false}, {"ａｌｉｃｅ", "alice", false}, {"a\\b/\"c", `say a\b/"c now`, true},
		{"\x01\x1f\b\f\n\r\t", "a \x01\x1f\b\f\n\r\t", true}, {"line\nbreak", "a line\nbreak.", true},
		{`\u0041lice`, "Alice", false}, {"🦊🦊🦊", "🐻🦊🦊🦊🐻", true}, {"🦊🦊🦊", "a🦊🦊🦊", false},

		// too short: four code points, or three with a letter or one beyond ASCII
		{"1", "1", false}, {"123", "123", false}, {"1234", "1234", true}, {"12a", "12a", true}, {"Z-9", "Z-9", true},
		{"[1]", "[1]", false}, {"12é", "12é", true}, {"1\u00a07", "1\u00a07", true}, {"ab", "ab", false}, {"éé", "éé", false},
		{"🦊🦊", "🦊🦊", false}, {"1 2 ", "1 2 ", true}, {"", "", false}, {"", "x", false}, {"....", "....", true},
		{"@`[{", "@`[{", true}, {"@`[", "@`[", false}, {"1Z9", "1Z9", true}, {"1a9", "1a9", true}, {"1z9", "1z9", true},
		{"1A9", "1A9", true}, {"1\x7f9", "1\x7f9", false}, {"1\u00809", "1\u00809", true}, {"é1é", "é1é", true},
		{"999999999999", "999999999999", true},
	} {
		assert.Equal(t, c.found, has(t, str(t, c.value), c.text), "%q in %q", c.value, c.text)
		before, after := "(", ")"
		if c.found {
			assert.True(t, has(t, str(t, c.value), before+c.text+after), "%q in %q", c.value, c.text)
			assert.True(t, has(t, str(t, c.value), "x", c.value+"x", c.text, "x"+c.value), "%q in the third", c.value)
		}
	}
}

// What is found of each kind of value: of a number its canonical text.
func TestTextsKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, text string
		found       bool
	}{
		{`1250`, "pay 1250 to", true}, {`1250.0`, "pay 1250 to", true}, {`1250`, "pay 1250.0 to", false},
		{`1250`, "pay 1,250", false}, {`12.5`, "12.5 percent", true}, {`12.50`, "12.50 percent", false},
		{`-125`, "at -125 degrees", true}, {`125.5`, "-125.5", true}, {`125.5`, "9-125.5", false}, {`-12`, "-12", false},
		{`13`, "June 13", false}, {`1e21`, "about 1e+21", true}, {`1e+21`, "about 1e21", false}, {`5e-7`, "5e-7", true},
		{`"1250"`, "pay 1250 to", true}, {`true`, "true", false}, {`null`, "null", false}, {`["alice"]`, "alice", false},
		{`{"alice":1}`, "alice", false}, {`["alice"]`, `["alice"]`, false},
	} {
		assert.Equal(t, c.found, has(t, parse(t, c.value), c.text), "%s in %q", c.value, c.text)
	}
	var words Words
	words.Add([]byte("alice"))
	assert.False(t, words.Has(crypto.Value{}), "a value that is missing")
}

// A value of 256 bytes is looked for, and one of 257 is not, however it is escaped.
func TestTextsLength(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "é", "\n", "\x01", "\"", "🦊"} {
		n := maxText / len(unit)
		fits := strings.Repeat(unit, n)
		assert.True(t, has(t, str(t, fits), "("+fits+")"), "%d of %q", n, unit)
		for _, more := range []string{"x", "\n"} {
			assert.False(t, has(t, str(t, fits+more), fits+more), "%d of %q and %q", n, unit, more)
		}
	}
}

// Each text stands by itself: no value goes from one into the next, and at the end of one a side is
// free.
func TestTextsApart(t *testing.T) {
	t.Parallel()
	assert.False(t, has(t, str(t, "alice"), "ali", "ce"), "over two texts")
	assert.False(t, has(t, str(t, "alice"), "al", "i", "ce"), "over three texts")
	assert.True(t, has(t, str(t, "alice"), "x", "alice", "y"), "between two")
	assert.True(t, has(t, str(t, "alice"), "x.", "alice", ".y"), "between two that would join")
	assert.True(t, has(t, str(t, "alice"), "x", ".alice.", "y"), "between two beyond what would join")
	assert.True(t, has(t, str(t, "1234"), "9", ",1234,", "9"), "between two beyond commas")
	var words Words
	for _, s := range []string{"ab", "", "x", "é", "abc", "\xc3\xa9\xc3\xa9"} {
		words.Add([]byte(s))
	}
	assert.Equal(t, 2+1+2+3+4, words.Bytes(), "short ones count, though they are not held")
}

// rangesOfText are the ranges of the rules' text, copied from it.
const rangesOfText = "U+0080–00BF 00D7 00F7 0E00–0EFF 1000–109F 1780–17FF 2000–200A 2010–2029 202F–205F 20A0–20CF " +
	"2190–2BFF 2E00–9FFF A960–A97F AC00–D7FF F900–FAFF FE10–FE1F FE30–FE6F FF01–FF0F FF1A–FF20 FF3B–FF40 FF5B–FFEF " +
	"1F000–1FAFF 20000–3FFFF"

// signs is the set of the ranges, as the slow matcher has it.
var signs = func() map[rune]bool {
	set := map[rune]bool{}
	for _, x := range strings.Fields(strings.TrimPrefix(rangesOfText, "U+")) {
		from, to, ok := strings.Cut(x, "–")
		if !ok {
			to = from
		}
		first, _ := strconv.ParseInt(from, 16, 32)
		last, _ := strconv.ParseInt(to, 16, 32)
		for c := rune(first); c <= rune(last); c++ {
			set[c] = true
		}
	}
	return set
}()

func TestRangesOfText(t *testing.T) {
	t.Parallel()
	const without = "the ranges of word characters are not compared with the rules' text"
	text, err := os.ReadFile(shared.Path(t, "POLICY.md", without))
	require.NoError(t, err)
	assert.Contains(t, string(text), "all code points from U+0080 on but: "+rangesOfText+" (signs, ")
}

// Every code point is a word character by the table if it is one by the text.
func TestIsWord(t *testing.T) {
	t.Parallel()
	require.Len(t, strings.Fields(rangesOfText), len(apart))
	words := 0
	for c := rune(0); c <= utf8.MaxRune; c++ {
		if utf8.ValidRune(c) && isWord(c) != slowWord(c) {
			t.Fatalf("%U is a word character: %v", c, isWord(c))
		}
		if slowWord(c) {
			words++
		}
	}
	assert.True(t, slices.IsSortedFunc(apart[:], func(a, b struct{ first, last rune }) int {
		return int(a.last - b.first)
	}), "the table is searched by halves")
	assert.Greater(t, words, 62)
}

// The code points at the ends of every range, and those next to them, on either side of a value,
// alone and after each joining character.
func TestTextsEdges(t *testing.T) {
	t.Parallel()
	edges := []rune{0, ' ', '/', '0', '9', ':', '@', 'A', 'Z', '[', '`', 'a', 'z', '{', 0x7f, utf8.MaxRune, 0xfffd}
	for _, a := range apart {
		edges = append(edges, a.first-1, a.first, a.last, a.last+1)
	}
	free, apart := 0, 0
	value := str(t, "a1b2")
	for _, c := range edges {
		if !utf8.ValidRune(c) {
			continue
		}
		for _, join := range append([]string{""}, strings.Split(". @ - _ + / \\ # & % ~ ? : = , ; ! ( * $ ' \" | < ^", " ")...) {
			for _, text := range []string{string(c) + join + "a1b2", "a1b2" + join + string(c)} {
				if has(t, value, text) {
					free++
				} else {
					apart++
				}
			}
		}
	}
	assert.True(t, free > 1000 && apart > 500, "%d free, %d not", free, apart)
}

// slowWord and occurs are the rules written once more, as plainly as can be, to compare with.
func slowWord(c rune) bool {
	return c >= 0x80 && !signs[c] || strings.ContainsRune("0123456789", c) ||
		strings.ContainsRune("abcdefghijklmnopqrstuvwxyz", c) || strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ", c)
}

func occurs(t testing.TB, v crypto.Value, text string) bool {
	t.Helper()
	value := ""
	switch v.Kind() {
	case crypto.String:
		value = v.Text()
	case crypto.Number:
		value = string(v.Append(nil))
	default:
		return false
	}
	points, in := []rune(value), []rune(text)
	least := 4
	for _, c := range points {
		if c >= 0x80 || slowWord(c) && !strings.ContainsRune("0123456789", c) {
			least = 3
		}
	}
	if len(value) > 256 || len(points) < least {
		return false
	}
	for i := 0; i+len(points) <= len(in); i++ {
		if slices.Equal(in[i:i+len(points)], points) {
			left := slices.Clone(in[:i])
			slices.Reverse(left)
			if slowFree(left, points[0], ".@-_+/\\#&%~?") &&
				slowFree(in[i+len(points):], points[len(points)-1], ".@-_+/\\#&%~?:=") {
				return true
			}
		}
	}
	return false
}

// slowFree reports whether a side is free on which these code points follow, the nearest first.
func slowFree(side []rune, edge rune, joining string) bool {
	if len(side) == 0 {
		return true
	}
	if slowWord(side[0]) {
		return false
	}
	if len(side) == 1 {
		return true
	}
	digit := func(c rune) bool { return strings.ContainsRune("0123456789", c) }
	if side[0] == ',' && digit(edge) && digit(side[1]) {
		return false
	}
	return !(strings.ContainsRune(joining, side[0]) && slowWord(side[1]))
}

// pieces are what texts are made of that nearly have a value.
var pieces = []string{"a", "1", "b2", "12", "é", "支", "🦊", "\u0301", "\u200b", ".", "@", "-", "_", "+", "/", "\\", "#",
	"&", "%", "~", "?", ":", "=", ",", " ", "\n", "\"", "\x00", ")", "。", "\u00bf", "\u00c0", "\ufffd", "ab", "abab"}

// nearly returns a value and texts that contain it, parts of it, and what joins it.
func nearly(r *rand.Rand) (value string, texts []string) {
	for range 1 + r.IntN(6) {
		value += pieces[r.IntN(len(pieces))]
	}
	if r.IntN(8) == 0 {
		value = strings.Repeat(value, 1+r.IntN(40))
	}
	for range 1 + r.IntN(3) {
		text := ""
		for range r.IntN(10) {
			switch r.IntN(4) {
			case 0, 1:
				text += value
			case 2:
				text += value[:r.IntN(len(value)+1)]
			}
			text += pieces[r.IntN(len(pieces))]
		}
		texts = append(texts, strings.ToValidUTF8(text, ""))
	}
	return value, texts
}

// The answers are those of the slow matcher, for values that are nearly in a text.
func TestTextsModel(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(12, 4))
	found := 0
	const runs = 20_000
	for range runs {
		value, texts := nearly(r)
		if has(t, str(t, value), texts...) {
			found++
		}
	}
	assert.True(t, found > runs/20 && found < runs*2/3, "%d of %d found", found, runs)
}

// A value that occurs so often, and never free, that the search goes on another way has the same
// answers: wherever in the text the place is at which it is free.
func TestTextsOften(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(12, 5))
	for _, c := range []struct{ value, often string }{
		{"aaaa", "a"}, {strings.Repeat("a", 256), "a"}, {"abababab", "ab"}, {"aab aab", "aab "}, {"a.a.a", "a."},
		{strings.Repeat("aaaaaaab", 32), "aaaaaaab"}, {"ééé", "é"}, {"a1,a1,", "a1,"}, {"aaaab", "aaaabx"},
	} {
		long := strings.Repeat(c.often, 300)
		v := str(t, c.value)
		for range 6 {
			at := r.IntN(len(long))
			for !utf8.RuneStart(long[at]) {
				at--
			}
			has(t, v, long[:at]+long[at:])
			assert.True(t, has(t, v, long[:at]+"( "+c.value+" )"+long[at:]), "%.20q free at %d", c.value, at)
			has(t, v, long[:at], long[at:])
			has(t, v, long[:at]+"x"+c.value+"x"+long[at:])
		}
	}
	assert.False(t, has(t, str(t, "aaaa"), strings.Repeat("a", 3000)))
}

// FuzzTexts compares with the slow matcher. A text that contains the value with other characters
// around it is made of every input too.
func FuzzTexts(f *testing.F) {
	f.Add("bob@corp.com", "to:bob@corp.com.", ".", ":")
	f.Add("1234", "1234,56", ",5", "6,")
	f.Add("支付给", "请支付给我", "é", "\u200b")
	r := rand.New(rand.NewPCG(1, 2))
	for range 16 {
		value, texts := nearly(r)
		f.Add(value, strings.Join(texts, " "), pieces[r.IntN(len(pieces))], pieces[r.IntN(len(pieces))])
	}
	f.Fuzz(func(t *testing.T, value, text, before, after string) {
		if len(value)+len(text)+len(before)+len(after) > 1<<12 {
			return
		}
		for _, s := range []*string{&value, &text, &before, &after} {
			*s = strings.ToValidUTF8(*s, "")
		}
		v := str(t, value)
		has(t, v, text)
		has(t, v, text+before+value+after)
		has(t, v, before+value+after, text)
		if len(text) > 0 && text[0]-'0' < 10 {
			if n, err := strconv.Atoi(text[:1] + strings.Repeat("7", len(value)%9)); err == nil {
				has(t, parse(t, fmt.Sprint(n)), text, before+fmt.Sprint(n)+after)
			}
		}
	})
}
