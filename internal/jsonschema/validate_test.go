package jsonschema

import (
	_ "embed"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/table"
)

//go:embed testdata/pay.json
var paySchema string

// TestViolation: the place and the constraint, or "" for a valid value.
func TestViolation(t *testing.T) {
	t.Parallel()
	s := compile(t, paySchema, true)
	for _, c := range table.Read[struct{ Value, Want string }](t, "violation", 34) {
		got := ""
		if v := s.Validate(parse(t, c.Value)); v != nil {
			got = v.String()
		}
		assert.Equal(t, c.Want, got, "%s:\ngot  %q\nwant", c.Value, got)
	}
}

// TestViolationOrder: the first violation is the first in canonical order of members, for any order
// of keys.
func TestViolationOrder(t *testing.T) {
	t.Parallel()
	s := compile(t,
		`{"type":"object","required":["b","d"],"properties":{"a":{"type":"string"},"b":{"type":"string"},"d":{"type":"string"},"e":{"type":"string"}}}`, true)
	for _, c := range table.Read[struct{ Value, Want string }](t, "violation_order", 9) {
		got := s.Validate(parse(t, c.Value))
		assert.True(t, got != nil && got.String() == c.Want, "%s: got %v, want %s", c.Value, got, c.Want)
	}
}

// TestViolationKeepsSecrets: no violation holds a value, nor a name that the schema does not
// declare, whichever keyword fails.
func TestViolationKeepsSecrets(t *testing.T) {
	t.Parallel()
	const secret = `SECRET`
	values := []string{`"SECRET"`, `{"SECRET":1}`, `{"a":"SECRET"}`, `{"a":{"SECRET":"SECRET"}}`, `["SECRET","SECRET"]`,
		`{"a":["SECRET"]}`}
	failed := 0
	for _, schema := range table.Read[string](t, "violation_keeps_secrets", 16) {
		s := compile(t, schema, false)
		for _, value := range values {
			if v := s.Validate(parse(t, value)); v != nil {
				failed++
				assert.True(t, !strings.Contains(v.String(), secret) && !strings.Contains(v.String(), "6"),
					"%s on %s: %v", schema, value, v)
			}
		}
	}
	assert.True(t, failed >= 40, "only %d violations", failed)
}

// TestConstraintShort: the length of a violation is bounded for every schema.
func TestConstraintShort(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	var names, values []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf(`"name%d%s":{}`, i, strings.Repeat("x", i)))
		values = append(values, fmt.Sprintf(`"value%d%s"`, i, strings.Repeat("x", i)))
	}
	for schema, want := range map[string]string{
		`{"properties":{` + strings.Join(names, ",") + `},"additionalProperties":false}`: " and 2994 more",
		`{"enum":[` + strings.Join(values, ",") + `]}`:                                   " and 2980 more",
		`{"const":"` + strings.Repeat("y",
			5000) + `"}`: "const: a value of 5002 bytes",
		`{"required":["` + strings.Repeat("y", 5000) + `"]}`: `yyy"...`,
	} {
		v := compile(t, schema, false).Validate(parse(t, `{"a":1}`))
		if v == nil || len(v.Constraint) > 1500 || !strings.Contains(v.Constraint, want) {
			t.Errorf("%.60s: %d bytes, %v, want %q", schema, len(v.Constraint), v, want)
		}
	}
}

// TestMultipleOfExact compares with rational arithmetic.
func TestMultipleOfExact(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(3, 4))
	number := func() string {
		digits := fmt.Sprint(r.Uint64N([]uint64{10, 100, 1e6, 1e15}[r.IntN(4)]))
		switch r.IntN(4) {
		case 0:
			return digits + "e" + fmt.Sprint(r.IntN(60)-30)
		case 1:
			return digits + "e" + fmt.Sprint(r.IntN(600)-310)
		case 2:
			return digits + "." + fmt.Sprint(r.IntN(10))
		}
		return digits
	}
	multiples, others := 0, 0
	for range 40_000 {
		a, b := number(), number()
		if r.IntN(2) == 0 {
			by, _ := new(big.Rat).SetString(b)
			if x := new(big.Rat).Mul(by, big.NewRat(r.Int64N(1000), 1)); x.IsInt() || len(x.Denom().String()) < 15 {
				a = strings.TrimRight(x.FloatString(20), "0") + "0"
			}
		}
		v, err := tryParse([]byte("[" + a + "," + b + "]"))
		if err != nil || v.At(1).Float() == 0 {
			continue // a double cannot hold one of them
		}
		x, _ := new(big.Rat).SetString(string(v.At(0).Raw()))
		y, _ := new(big.Rat).SetString(string(v.At(1).Raw()))
		want := new(big.Rat).Quo(x, y).IsInt()
		require.Equal(t, want, decimalOf(v.At(0).Raw()).multipleOf(decimalOf(v.At(1).Raw())), "%s of %s", a, b)
		if want {
			multiples++
		} else {
			others++
		}
	}
	if t.Logf("%d multiples, %d others", multiples, others); multiples < 2000 || others < 2000 {
		t.Error("too few of one sort")
	}
}

// TestUniqueItems compares both ways of telling with comparing each with each.
func TestUniqueItems(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"uniqueItems":true}`, false)
	r := &random{Rand: rand.New(rand.NewPCG(5, 6))}
	unique, not := 0, 0
	for range 3000 {
		list := []any{}
		for range r.IntN(25) {
			list = append(list, pick[any](r, r.IntN(400), "x"+fmt.Sprint(r.IntN(400)),
				mapping{"a": r.IntN(200), "b": 1}, []any{r.IntN(200)}, nil, r.chance(50), ""))
		}
		v := parse(t, string(r.text(list)))
		want := true
		var texts []string
		for e := range v.Elements() {
			text := string(e.Append(nil))
			want = want && !slices.Contains(texts, text)
			texts = append(texts, text)
		}
		if got := s.Validate(v) == nil; got != want {
			t.Fatalf("%s: got %v, want %v", v.Append(nil), got, want)
		}
		if want {
			unique++
		} else {
			not++
		}
	}
	assert.True(t, unique >= 500 && not >= 500, "%d unique, %d not", unique, not)
}

// TestRuns compares byte tables with package regexp, which they must agree with.
func TestRuns(t *testing.T) {
	t.Parallel()
	r := &random{Rand: rand.New(rand.NewPCG(7, 8))}
	tables, matches, others := 0, 0, 0
	for range 6000 {
		p := "^"
		for range r.IntN(5) {
			p += pick(r, "a", "b", "[ab]", "[a-c]", "[^a]", "\\d", "\\w", "é", ".", "(a)", "-", "[.-]", "(?:ab)", "[é]",
				"") +
				pick(r, "", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{0}")
		}
		p += pick(r, "$", "$", "$", "$", "\\z", "")
		re, err := regexp.Compile(p)
		if err != nil {
			continue
		}
		runs := runsOf(p)
		if runs == nil {
			continue
		}
		tables++
		for range 30 {
			b := ""
			for range r.IntN(7) {
				b += pick(r, "a", "a", "b", "b", "ab", "c", "7", "-", ".", "é", "\n", "_")
			}
			want := re.MatchString(b)
			require.Equal(t, want, matchRuns(runs, []byte(b)), "%s on %q", p, b)
			if want {
				matches++
			} else {
				others++
			}
		}
	}
	if t.Logf("%d patterns as tables, %d matches, %d others", tables, matches, others); tables < 500 ||
		matches < 2000 || others < 2000 {
		t.Error("too little was compared")
	}
	for _, p := range []string{"^[A-Z]{2}[0-9A-Z]{13,32}$", "^[a-z][a-z0-9-]{0,62}$", `^\d{4}-\d{2}-\d{2}$`,
		`^[\w.+-]+@[\w-]+\.[a-z]{2,}$`, "^[0-9a-f]{64}$", "^https://x$"} {
		assert.NotNil(t, runsOf(p), "%s is not seen to be simple", p)
	}
	for _, p := range []string{"a", "^a", "a$", "(?i)^a$", "(?m)^a$", "^[^a]$", "^(a|b)$", "^.$", "^a*a*$",
		"^[ab]*[bc]*$", "^a?[ab]{1,2}$", "^(?:ab)*$", "^é$"} {
		assert.Nil(t, runsOf(p), "%s is taken for simple", p)
	}
}

// TestCompareNames: names sort by UTF-16 code units.
func TestCompareNames(t *testing.T) {
	t.Parallel()
	names := []string{"", "a", "ab", "b", "\u007f", "\u0080", "é", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uefff",
		"\uf000", "\uffff", "\U00010000", "\U0001F600",
		"\U0001F601", "\U000FFFFF", "\U00100000", "\U0010FFFF", "a\uffff", "a\U00010000", "\U0001F600a"}
	for _, a := range names {
		for _, b := range names {
			want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
			got := compareNames(a, []byte(b))
			assert.True(t, got < 0 == (want < 0) && got == 0 == (want == 0), "%+q and %+q: got %d, want %d", a, b, got,
				want)
		}
	}
}

// TestTextOfStrings: lengths and patterns see the content of a string, not its spelling.
func TestTextOfStrings(t *testing.T) {
	t.Parallel()
	var every strings.Builder
	for c := range rune(0x80) {
		fmt.Fprintf(&every, `\u%04x`, c)
	}
	for _, text := range []string{`""`, `"a"`, `"\u0061\n\t\r\b\f\"\\\/"`, `"\u0000\u001f\u007f"`, `"é😀\ud83d\ude00"`,
		`"` + every.String() + `"`} {
		v := parse(t, text)
		raw := v.Raw()[1 : len(v.Raw())-1]
		if got, want := appendContent([]byte("x"), raw), "x"+v.Text(); string(got) != want {
			t.Errorf("%s: content %q, want %q", text, got, want)
		}
		if got, want := codePoints(raw), uint64(len([]rune(v.Text()))); got != want {
			t.Errorf("%s: %d code points, want %d", text, got, want)
		}
		n := len([]rune(v.Text()))
		err := compile(t, fmt.Sprintf(`{"minLength":%d,"maxLength":%d}`, n, n), false).Validate(v)
		assert.Nil(t, err, "%s", text)
		assert.True(t, compile(t, fmt.Sprintf(`{"minLength":%d}`, n+1), false).Validate(v) != nil && (n <= 0 ||
			compile(t, fmt.Sprintf(`{"maxLength":%d}`, n-1), false).Validate(v) != nil), "%s: length is not %d", text,
			n)
	}
}

// TestLarge: values and schemas that would take hours, were anything quadratic.
func TestLarge(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 100_000
	list := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+",", n-i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	object := parse(t, "{"+list(`"k%06d":1`)+"}")
	v := compile(t, "{"+`"properties":{`+list(`"k%06d":{}`)[:len(`"k000000":{},`)*9000-1]+"}}", false).Validate(object)
	assert.Nil(t, v)
	assert.NotNil(t, compile(t, `{"type":"object","properties":{"z":{"type":"integer"}}}`, true).Validate(object),
		"undeclared members are valid")
	v = compile(t, `{"uniqueItems":true}`, false).Validate(parse(t, "["+list("[%d]")+"]"))
	assert.Nil(t, v)
	assert.NotNil(t, compile(t, `{"uniqueItems":true}`, false).Validate(parse(t, "["+list(`"%d"`)+`,"7"]`)),
		"a repeated element is unique")
	var values []string
	for i := range maxEnum {
		values = append(values, fmt.Sprintf(`"e%d"`, i))
	}
	enum := compile(t, `{"items":{"enum":[`+strings.Join(values, ",")+`]}}`, false)
	v = enum.Validate(parse(t, "["+strings.Repeat(`"e9999",`, n)+`"e1"]`))
	assert.Nil(t, v)
	// Each level of branches is explained once, not each time that it is tried.
	tower := strings.Repeat(`{"anyOf":[{"type":"null"},`, 62) + `{"type":"string"}` + strings.Repeat(`]}`, 62)
	if got := compile(t, tower, false).Validate(parse(t, "1")); got == nil ||
		got.Constraint != "anyOf: at least one of 2 schemas" {
		t.Error(got)
	}
	tower = strings.ReplaceAll(tower, `{"type":"null"},`, `{"type":"null"},{"type":"array"},`)
	got := compile(t, tower, false).Validate(parse(t, `""`))
	assert.Nil(t, got)
	tower = strings.ReplaceAll(tower, `{"type":"string"}`, `{"type":"string","minLength":1}`)
	got = compile(t, tower, false).Validate(parse(t, `""`))
	assert.True(t, got != nil && got.Constraint == "minLength: 1", got)
	deep := parse(t, strings.Repeat("[", crypto.MaxDepth)+strings.Repeat("]", crypto.MaxDepth))
	if v := compile(t, `{}`, false).Validate(deep); v != nil {
		t.Error(v)
	}
}

// TestConcurrent: one Schema, many goroutines; run it with -race.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"properties":{"l":{"uniqueItems":true},"p":{"pattern":"^x\\n+$"},"d":{"default":[1]}}}`, false)
	var wg sync.WaitGroup
	for i := range 8 {
		v := parse(t, fmt.Sprintf(`{"l":[%d,1,2,3,4,5,6,7,8,9],"p":"x\n"}`, i))
		wg.Go(func() {
			for range 300 {
				got := s.Validate(v)
				assert.Equal(t, got == nil, i == 0, "%d: %v", i, got)
				filled, ok := s.AppendDefaults(nil, v)
				assert.True(t, ok && strings.HasPrefix(string(filled), `{"d":[1],"l"`), "%d: filled %s", i, filled)
			}
		})
	}
	wg.Wait()
}
