package crypto

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/table"
)

// nested is an object of a certain depth.
func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

// padded is an object of a certain size.
func padded(size int) string { return `{"a":"` + strings.Repeat("x", size-8) + `"}` }

// manyKeys is the inside of an object with n different keys, in no order.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%c%c%c%c":0`, 'a'+i%17, 'a'+i/17%19, 'a'+i/17/19%23, 'a'+i/17/19/23)
	}
	return b.String()[1:]
}

// allocated is how many bytes f takes from the heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLimits tries texts just within each limit and just beyond it.
func TestLimits(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	keys := manyKeys(100000)
	for _, test := range []struct {
		name, good, bad, what string
		offset                int
	}{
		{"1 MiB", padded(1 << 20), padded(1<<20 + 1), "longer than its limit", 1 << 20},
		{"1 MiB with white space", "{}" + strings.Repeat(" ", 1<<20-2), "{}" + strings.Repeat(" ", 1<<20-1),
			"longer than its limit", 1 << 20},
		{"1 MiB in canonical form", `{"a":[` + strings.Repeat("1e20,", 10000) + `0]}`,
			`{"a":[` + strings.Repeat("1e20,", 50000) + `0]}`, "the canonical form is longer than 1 MiB", 1 << 20},
		{"depth 64", nested(64), nested(65), "nested too deep", 64 * 5},
		{"depth 64 of arrays", `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
			`{"a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, "nested too deep", 5 + 63},
		{"100,000 keys and a duplicate", "{" + keys + "}", "{" + keys + `,"aaaa":1}`, "duplicate key", len(keys) + 2},
		{"100,000 keys and one like another", "{" + keys + "}", "{" + keys + `,"aaaA":1}`,
			"key that differs from another only by letter case", len(keys) + 2},
	} {
		var tree Tree
		if _, err := tree.ParseArgs(nil, []byte(test.good)); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		dst, err := tree.ParseArgs([]byte("x"), []byte(test.bad))
		var syntax *SyntaxError
		assert.True(t, errors.As(err, &syntax) && syntax.What == test.what && syntax.Offset == test.offset &&
			string(dst) == "x" && tree.Root().Kind() == Missing, "%s: %v, want %s at byte %d", test.name, err,
			test.what, test.offset)
	}
}

// TestIsArgs wraps arguments into another text, as records do, and calls IsArgs there.
func TestIsArgs(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	keys, array := manyKeys(50_000), `{"a":`+strings.Repeat("[", 63)+strings.Repeat("]", 63)+`}`
	type row struct{ Name, Good, Bad string }
	for _, test := range append(table.Read[row](t, "is_args", 12), []row{
		{"1 MiB", padded(1 << 20), padded(1<<20 + 1)},
		{"1 MiB in canonical form", `{"a":[` + strings.Repeat("1e20,", 10000) + `0]}`,
			`{"a":[` + strings.Repeat("1e20,", 50000) + `0]}`},
		{"1 MiB with white space", " {" + strings.Repeat(" ", 1<<20) + "} ", `[]`},
		{"depth 64", nested(64), nested(65)},
		{"depth 64 of arrays", array, `{"b":` + array + `}`},
		{"many keys and one like one", "{" + keys + `,"aAzz":1}`, "{" + keys + `,"aaaA":1}`},
	}...) {
		for text, want := range map[string]bool{test.Good: true, test.Bad: false} {
			var tree, again Tree
			require.NoError(t, tree.Parse([]byte(`{"x":[`+text+`],"z":1}`), Limits{Bytes: 4 << 20, Depth: MaxDepth}),
				test.Name)
			v := tree.Root().Get("x").At(0)
			_, err := again.ParseArgs(nil, v.Append(nil))
			assert.True(t, v.IsArgs() == want && (err == nil) == want, "%s: %v, and read by itself %v, want %v",
				test.Name, v.IsArgs(), err, want)
		}
	}
	assert.False(t, (Value{}).IsArgs(), "what is missing are arguments")
}

// TestOtherLimits tries the limits of Parse, which refuses every text if there are none.
func TestOtherLimits(t *testing.T) {
	t.Parallel()
	array := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for _, test := range []struct {
		src    []byte
		limits Limits
		what   string
	}{
		{array(128), otherLimits, ""}, {array(129), otherLimits, "nested too deep"},
		{array(129), Limits{Bytes: 1 << 20, Depth: 1000}, "nested too deep"},
		{array(66), Limits{Bytes: 1 << 20, Depth: 66}, ""}, {array(67), Limits{Bytes: 1 << 20, Depth: 66},
			"nested too deep"},
		{array(1), Limits{Bytes: 2, Depth: 1}, ""}, {array(1), Limits{Bytes: 1, Depth: 1}, "longer than its limit"},
		{array(1), Limits{Bytes: -1, Depth: 1}, "longer than its limit"},
		{array(1), Limits{Bytes: 2}, "nested too deep"}, {array(1), Limits{Bytes: 2, Depth: -1}, "nested too deep"},
		{[]byte("1"), Limits{Bytes: 1}, ""},
		{[]byte("1"), Limits{}, "longer than its limit"}, {nil, Limits{}, "expected a value"},
		{[]byte("[]"), Limits{Bytes: 2, Depth: 1, Object: true}, "not an object"},
	} {
		var tree Tree
		err := tree.Parse(test.src, test.limits)
		var syntax *SyntaxError
		assert.True(t, (err == nil) == (test.what == "") && (!errors.As(err, &syntax) || syntax.What == test.what),
			"%.20s, %+v: %v, want %q", test.src, test.limits, err, test.what)
	}
}

// hostile texts are as large as arguments may be, and each aims at one thing that a reader may do
// too often, too deep or too large.
func hostile() map[string]string {
	repeat := func(s string, n int) string { return strings.Repeat(s, n) }
	objects := func(key func(i int) string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"` + key(i) + `":0`)
		}
		return "{" + b.String()[1:] + "}"
	}
	long := repeat("x", 2000)
	return map[string]string{
		"brackets":                  repeat("[", 1000000),
		"braces":                    repeat(`{"":`, 250000),
		"closing brackets":          `{"a":` + repeat("]", 1000000),
		"empty arrays":              `{"a":[` + repeat("[],", 300000) + "0]}",
		"empty objects":             `{"a":[` + repeat("{},", 300000) + "0]}",
		"smallest values":           `{"a":[` + repeat("0,", 500000) + "0]}",
		"nulls":                     `{"a":[` + repeat("null,", 200000) + "0]}",
		"depth again and again":     `{"a":[` + repeat(nested(60)+",", 2800) + "0]}",
		"an integer":                `{"a":1` + repeat("0", 1000000) + "}",
		"an integer of nines":       `{"a":` + repeat("9", 1000000) + "}",
		"a fraction":                `{"a":0.` + repeat("1", 1000000) + "}",
		"a fraction of zeros":       `{"a":0.` + repeat("0", 1000000) + "}",
		"zeros before a digit":      `{"a":0.` + repeat("0", 1000000) + "1}",
		"an exponent":               `{"a":1e` + repeat("9", 1000000) + "}",
		"an exponent of zeros":      `{"a":1e` + repeat("0", 1000000) + "}",
		"a negative exponent":       `{"a":1e-` + repeat("9", 1000000) + "}",
		"slow numbers":              `{"a":[` + repeat("1.7976931348623157e308,", 40000) + "0]}",
		"growing numbers":           `{"a":[` + repeat("1e20,", 200000) + "0]}",
		"an open string":            `{"a":"` + repeat("x", 1000000),
		"quotes":                    `{"a":"` + repeat(`\"`, 500000) + `"}`,
		"one bad escape at the end": `{"a":"` + repeat(`\n`, 500000) + `\/"}`,
		"bad escapes":               `{"a":"` + repeat(`\/`, 500000) + `"}`,
		"unicode escapes":           `{"a":"` + repeat(`\u0041`, 170000) + `"}`,
		"surrogates":                `{"a":"` + repeat(`\ud83d\ude00`, 85000) + `"}`,
		"half a pair at the end":    `{"a":"` + repeat(`\ud83d\ude00`, 85000) + `\ud83d"}`,
		"three-byte characters":     `{"a":"` + repeat("€", 340000) + `"}`,
		"short strings":             `{"a":[` + repeat(`"",`, 330000) + `""]}`,
		"rewritten strings":         `{"a":[` + repeat(`"\/",`, 200000) + `""]}`,
		"white space":               `{"a":[` + repeat(" ", 500000) + "0" + repeat("\n", 500000) + "]}",
		"one key":                   "{" + repeat(`"":0,`, 200000) + `"":0}`,
		"two keys":                  "{" + repeat(`"a":0,"A":0,`, 80000) + `"":0}`,
		"100,000 keys":              "{" + manyKeys(100000) + "}",
		"100,000 keys, one twice":   "{" + manyKeys(100000) + `,"aaaa":0}`,
		"keys in order":             objects(func(i int) string { return fmt.Sprintf("%06d", i) }, 90000),
		"keys in falling order":     objects(func(i int) string { return fmt.Sprintf("%06d", 99999-i) }, 90000),
		"keys, rising and falling": objects(func(i int) string { return fmt.Sprintf("%06d%d", min(i, 80000-i), i%2) },
			80000),
		"keys alike at first": objects(func(i int) string { return long + fmt.Sprint(500-i) }, 500),
		"capital keys":        objects(func(i int) string { return fmt.Sprintf("K%05X", 99999-i) }, 90000),
		"capital keys alike":  objects(func(i int) string { return strings.ToUpper(long) + fmt.Sprint(500-i) }, 500),
		"wide keys alike": objects(func(i int) string { return repeat("\U0001F600", 500) + fmt.Sprint(500-i) },
			500),
		"escaped keys alike":   objects(func(i int) string { return repeat(`\n`, 1000) + fmt.Sprint(500-i) }, 500),
		"rewritten keys alike": objects(func(i int) string { return repeat(`\/`, 1000) + fmt.Sprint(500-i) }, 500),
		"long s keys alike":    objects(func(i int) string { return repeat("ſ", 1000) + fmt.Sprint(500-i) }, 500),
		"objects of 13 keys": `{"a":[` +
			repeat(`{"m":0,"l":0,"k":0,"j":0,"i":0,"h":0,"g":0,"f":0,"e":0,"d":0,"c":0,"b":0,"a":0},`, 12000) + "0]}",
	}
}

// TestHostileTexts compares memory with the bound that Parse promises: 24 bytes for every two of
// the text, the side buffer, the order of the keys, and the growth of append. There is no bound on
// time to assert, but quadratic time would take hours here, not milliseconds.
func TestHostileTexts(t *testing.T) {
	race.Alone(t)
	accepted := 0
	texts := hostile()
	for name, src := range texts {
		assert.True(t, len(src) <= 1<<20 && len(src) >= 800000, "%s: %d bytes", name, len(src))
		text := []byte(src)
		var tree Tree
		var err error
		if n := allocated(func() { err = tree.Parse(text, argsLimits) }); n > 100*uint64(len(src)) {
			t.Errorf("%s: %d bytes allocated for each of the text", name, n/uint64(len(src)))
		}
		if kept := cap(tree.nodes)*24 + cap(tree.side) + cap(tree.order)*4; kept > 24*len(src) {
			t.Errorf("%s: %d bytes kept for each of the text", name, kept/len(src))
		}
		var syntax *SyntaxError
		if errors.As(err, &syntax) {
			assert.True(t, syntax.Offset >= 0 && syntax.Offset <= len(src), "%s: %v", name, err)
			continue
		}
		accepted++
		parse := func() { err = tree.Parse(text, argsLimits) }
		again := min(allocated(parse), allocated(parse)) // the runtime may allocate during one of them
		assert.NoError(t, err, "%s", name)
		assert.True(t, again <= 1024, "%s: %d bytes allocated the second time", name, again)
	}
	assert.True(t, accepted >= 20, "%d texts accepted: these are not what the others are refused for", accepted)
	for _, name := range []string{"brackets", "braces", "an integer", "an integer of nines", "a fraction",
		"zeros before a digit", "an exponent", "a negative exponent"} {
		src := []byte(texts[name])
		var tree Tree
		var err error
		n := allocated(func() { err = tree.Parse(src, argsLimits) })
		assert.True(t, err != nil && n <= 64<<10, "%s: %v, %d bytes", name, err, n)
	}
}

// TestStackIsBounded parses the deepest text on a goroutine whose stack would show a recursion for
// each level.
func TestStackIsBounded(t *testing.T) {
	t.Parallel()
	src := []byte(strings.Repeat("[", 1<<20))
	deepest := []byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))
	var tree Tree
	assert.Error(t, tree.Parse(src, otherLimits), "accepted")
	require.NoError(t, tree.Parse(deepest, otherLimits))
	got := tree.Root().Append(nil)
	assert.True(t, slices.Equal(got, deepest) && tree.Root().Equal(tree.Root()), "the deepest text is another")
}
