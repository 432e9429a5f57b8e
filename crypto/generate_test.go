package crypto

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A generator writes random JSON texts: values as applications have them, spelled in every way that
// JSON allows, and some spoiled.
type generator struct {
	r *rand.Rand
}

func newGenerator(seed uint64) *generator { return &generator{rand.New(rand.NewPCG(seed, 1))} }

func utf16Compare(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func (g *generator) document() []byte {
	b := g.value(g.space(nil), 0)
	return g.space(b)
}

const spoilers = "\"\\{}[],:0-+.eEu \n\x00\x1f\x80\xc3\xed\xff aAd"

// spoiled is a document with a few bytes changed, added or left out.
func (g *generator) spoiled() []byte {
	b := g.document()
	for range 1 + g.r.IntN(2) {
		if len(b) == 0 {
			break
		}
		at := g.r.IntN(len(b))
		c := spoilers[g.r.IntN(len(spoilers))]
		switch g.r.IntN(4) {
		case 0:
			b[at] = c
		case 1:
			b = slices.Insert(b, at, c)
		case 2:
			b = slices.Delete(b, at, at+1)
		default:
			b = b[:at]
		}
	}
	return b
}

func (g *generator) value(b []byte, depth int) []byte {
	k := g.r.IntN(9)
	if depth > 5 {
		k %= 6
	}
	switch k {
	case 0:
		return append(b, "null"...)
	case 1:
		return strconv.AppendBool(b, g.r.IntN(2) == 0)
	case 2, 3:
		return append(b, g.number()...)
	case 4, 5:
		return g.spell(b, g.text())
	case 6:
		b = g.space(append(b, '['))
		for i := range g.r.IntN(5) {
			if i > 0 {
				b = g.space(append(b, ','))
			}
			b = g.space(g.value(b, depth+1))
		}
		return append(b, ']')
	}
	b = g.space(append(b, '{'))
	seen := map[string]bool{}
	n := g.r.IntN(6)
	if g.r.IntN(20) == 0 {
		n = 13 + g.r.IntN(20)
	}
	for range n {
		key := g.text()
		if seen[key] && g.r.IntN(50) > 0 { // a few duplicates there must be
			continue
		}
		if len(seen) > 0 {
			b = g.space(append(b, ','))
		}
		seen[key] = true
		b = g.space(g.spell(b, key))
		b = g.space(append(b, ':'))
		b = g.space(g.value(b, depth+1))
	}
	return append(b, '}')
}

func (g *generator) space(b []byte) []byte {
	for g.r.IntN(3) == 0 {
		b = append(b, " \t\r\n"[g.r.IntN(4)])
	}
	return b
}

var alphabet = []string{"a", "b", "A", "k", "s", "0", " ", "name", "id", "/", "\"", "\\", "\n", "\x00", "\x1f", "\t",
	"\x7f", "é", "ſ", "\u212a", "€", "\u2028", "\ud7ff", "\ue000", "\ufb33", "\uffff",
	"\U00010000", "😀", "\U0010ffff", "abcdefgh", "abcdefghi", "ABCDEFGHIJ"}

func (g *generator) text() string {
	var b strings.Builder
	for range g.r.IntN(4) + g.r.IntN(2)*g.r.IntN(8) {
		b.WriteString(alphabet[g.r.IntN(len(alphabet))])
	}
	return b.String()
}

// spell writes a string with the escapes that it needs and, sometimes, some that it does not need.
func (g *generator) spell(b []byte, s string) []byte {
	eager := g.r.IntN(3) == 0
	b = append(b, '"')
	for _, r := range s {
		short := strings.IndexRune("\"\\/\b\f\n\r\t", r)
		switch {
		case short >= 0 && (r < 0x20 || r == '"' || r == '\\' || eager) && g.r.IntN(4) > 0:
			b = append(b, '\\', `"\/bfnrt`[short])
		case r < 0x20 || r == '"' || r == '\\' || eager && g.r.IntN(2) == 0:
			for _, unit := range utf16.Encode([]rune{r}) {
				b = fmt.Appendf(b, []string{`\u%04x`, `\u%04X`}[g.r.IntN(2)], unit)
			}
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}

// number is a token, most often one that a double holds.
func (g *generator) number() string {
	switch g.r.IntN(8) {
	case 0:
		return strconv.Itoa(g.r.IntN(100) - 50)
	case 1:
		return strconv.FormatInt(int64(g.r.Uint64()>>g.r.IntN(64)), 10)
	case 2:
		return fmt.Sprintf("%d.%0*d", g.r.IntN(1000)-500, 1+g.r.IntN(8), g.r.IntN(10000))
	case 3:
		return fmt.Sprintf("%d%s%s%d", g.r.IntN(1000), []string{"e", "E"}[g.r.IntN(2)],
			[]string{"", "+", "-"}[g.r.IntN(3)], g.r.IntN(30))
	case 4:
		return []string{"0", "-0", "-0.0", "0e0", "0.000001", "0.0000001", "1e21", "1e20", "100000000000000000000",
			"1000000000000000000000", "5e-324", "1.7976931348623157e308", "9007199254740993", "0.10000000000000001",
			"1e23"}[g.r.IntN(15)]
	case 5:
		f := math.Float64frombits(g.r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return "1"
		}
		return strconv.FormatFloat(f, 'e', -1, 64)
	case 6:
		return strconv.FormatFloat(g.r.NormFloat64(), 'f', -1, 64)
	default:
		return strconv.FormatFloat(g.r.NormFloat64()*1e6, 'f', g.r.IntN(12), 64) + strings.Repeat("0", g.r.IntN(20))
	}
}
