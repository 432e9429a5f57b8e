package crypto

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mustParse(t testing.TB, src string) Value {
	t.Helper()
	tree := new(Tree)
	require.NoError(t, tree.Parse([]byte(src), otherLimits), "%s", src)
	return tree.Root()
}

func TestValue(t *testing.T) {
	t.Parallel()
	v := mustParse(t,
		` { "s" : "a\nb\u0041\/" , "n" : 1.50 , "t" : true , "f" : false , "z" : null , "a" : [ 1 , [ ] , "x" ] , `+
			`"o" : { "k" : { } } , "" : "empty" , "é\n\"\u0001" : 7 } `)
	if v.Kind() != Object || v.Len() != 9 || !v.Exists() {
		t.Fatal(v.Kind(), v.Len())
	}
	for _, test := range []struct {
		key, raw, text string
		kind           Kind
		length         int
	}{
		{"s", `"a\nbA/"`, "a\nbA/", String, 0}, {"n", "1.5", "", Number, 0}, {"t", "true", "", Bool, 0},
		{"f", "false", "", Bool, 0}, {"z", "null", "", Null, 0},
		{"a", "", "", Array, 3}, {"o", "", "", Object, 1}, {"", `"empty"`, "empty", String, 0},
		{"é\n\"\x01", "7", "", Number, 0}, {"none", "", "", Missing, 0},
		{"é", "", "", Missing, 0}, {"é\n\"\x01x", "", "", Missing, 0}, {"é\n\"", "", "", Missing, 0},
		{`é\n\"\u0001`, "", "", Missing, 0}, {"\xff", "", "", Missing, 0},
	} {
		got := v.Get(test.key)
		if string(got.Raw()) != test.raw || got.Text() != test.text || got.Kind() != test.kind ||
			got.Len() != test.length || got.Exists() != (test.kind > Null) {
			t.Errorf("%q: %s %q %v %d", test.key, got.Raw(), got.Text(), got.Kind(), got.Len())
		}
		assert.Equal(t, test.key == "t", got.Bool(), test.key)
		if f := got.Float(); (test.kind == Number) == math.IsNaN(f) {
			t.Errorf("%q is %v", test.key, f)
		}
	}
	odd := mustParse(t, `{"\ufffd\n":1}`)
	assert.True(t, !odd.Get("\xff\n").Exists() && odd.Get("\uFFFD\n").Exists(), "broken UTF-8 is U+FFFD")
	a := v.Get("a")
	if a.At(0).Float() != 1 || a.At(1).Kind() != Array || a.At(2).Text() != "x" || a.At(3).Kind() != Missing ||
		a.At(-1).Kind() != Missing || a.At(math.MaxInt).Kind() != Missing {
		t.Error("elements by index")
	}
	var kinds []string
	for e := range a.Elements() {
		kinds = append(kinds, e.Kind().String())
	}
	assert.True(t, slices.Equal(kinds, []string{"number", "array", "string"}), kinds)
	for range a.Elements() {
		break // a caller may stop early
	}
	for range v.Elements() {
		t.Error("an object has elements")
	}
	assert.Equal(t, `x{"k":{}}`, string(v.Get("o").Append([]byte("x"))))
}

// TestZeroValue calls every method of a Missing value.
func TestZeroValue(t *testing.T) {
	t.Parallel()
	var tree Tree
	for name, v := range map[string]Value{"zero": {}, "empty tree": tree.Root(), "member of nothing": Value{}.Get("a"),
		"element of a number": mustParse(t, "1").At(0), "member of an array": mustParse(t, "[1]").Get("0")} {
		if v.Kind() != Missing || v.Exists() || v.Raw() != nil || v.Bytes() != nil || v.Text() != "" || v.Bool() ||
			!math.IsNaN(v.Float()) || v.Len() != 0 || v.Get("a").Kind() != Missing ||
			v.At(0).Kind() != Missing || string(v.Append([]byte("x"))) != "x" {
			t.Errorf("%s: %v", name, v.Kind())
		}
		_, ok := v.Uint()
		assert.False(t, ok, "%s: a number", name)
		it := v.Iter()
		assert.False(t, it.Next(), "%s: has elements", name)
		assert.True(t, v.Equal(Value{}) && !v.Equal(mustParse(t, "null")), "%s: equal", name)
	}
	it := mustParse(t, `"abc"`).Iter()
	assert.False(t, it.Next(), "a string has elements")
}

// TestIterOrder: members come in canonical order, whatever their order in the text.
func TestIterOrder(t *testing.T) {
	t.Parallel()
	for _, src := range []string{`{"b":2,"a":1,"c":3}`, `{"a":1,"b":2,"c":3}`, `{"c":3,"\u0062":2,"a":1}`} {
		v := mustParse(t, src)
		var got []string
		for it := v.Iter(); it.Next(); {
			got = append(got, fmt.Sprintf("%s=%s", it.Key(), it.Value().Raw()))
		}
		assert.Equal(t, "a=1 b=2 c=3", strings.Join(got, " "), "%s: %v", src, got)
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	groups := [][]string{
		{"null"}, {"true"}, {"false"}, {"1", "1.0", "1e0", "10E-1"}, {"0", "-0", "0.0"}, {"-1"},
		{"1e21", "1000000000000000000000"}, {`"1"`, `"\u0031"`}, {`"a/b"`, `"a\/b"`, `"\u0061\u002Fb"`},
		{`"é"`, `"\u00E9"`},
		{`"e\u0301"`}, {"[]", "[ ]"}, {"{}", "{ }"}, {"[1,2]", "[ 1.0 , 2e0 ]"}, {"[2,1]"}, {"[1]"}, {"[[1]]"},
		{`{"a":1,"b":[2]}`, `{ "b":[2.0], "\u0061":1 }`}, {`{"a":1}`}, {`{"b":1}`}, {`{"a":1,"c":[2]}`}, {`{"a":null}`},
		{`[null]`}, {`""`},
	}
	for i, group := range groups {
		for _, a := range group {
			for j, other := range groups {
				for _, b := range other {
					v, w := mustParse(t, a), mustParse(t, b)
					assert.Equal(t, i == j, v.Equal(w), "%s and %s: %v", a, b, i != j)
					assert.Equal(t, i == j, string(v.Append(nil)) == string(w.Append(nil)),
						"canonical forms of %s and %s", a, b)
				}
			}
		}
	}
}

// TestTreeReuse parses every sort of text after every other, refused ones too: nothing is left of
// the one before.
func TestTreeReuse(t *testing.T) {
	t.Parallel()
	texts := []string{`{"b":[1.0,"\/"],"a":{"d":1,"c":2}}`, `[`, `1e2`, `"\u0041"`, `{"a":1,"a":1}`, `{}`, ``,
		`{"z":{"y":"\ud800"}}`, `[[[1e20]]]`, string(toolArgs()), string(records(3000)), `{"B":1,"b":2,"A":3}`}
	type result struct {
		text string
		err  string
	}
	parse := func(tree *Tree, src string) (r result) {
		if err := tree.Parse([]byte(src), otherLimits); err != nil {
			r.err = err.Error()
			assert.Equal(t, Missing, tree.Root().Kind(), "%.30s was refused, but has a root", src)
		}
		r.text = string(tree.Root().Append(nil))
		return r
	}
	var tree Tree
	for _, first := range texts {
		for _, second := range texts {
			parse(&tree, first)
			if got, want := parse(&tree, second), parse(new(Tree), second); got != want {
				t.Errorf("%.30s after %.30s: %v, want %v", second, first, got, want)
			}
		}
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	for _, src := range [][]byte{toolArgs(), records(1 << 10), records(64 << 10), allEscapes(), allDoubles(),
		[]byte(`{"maxResults":1,"fileName":"x","fileMode":2}`)} {
		var tree Tree
		dst, err := tree.ParseArgs(nil, src)
		require.NoError(t, err)
		if n := testing.AllocsPerRun(20, func() {
			if dst, err = tree.ParseArgs(dst[:0], src); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%.30s: %v allocations", src, n)
		}
	}
	v := mustParse(t, `{"a\n":[1,"x"],"é":1,"b":{"c":true}}`)
	w := mustParse(t, `{"b":{"c":true},"a\n":[1.0,"x"],"é":1}`)
	if n := testing.AllocsPerRun(20, func() {
		if v.Get("a\n").At(1).Kind() != String || string(v.Get("a\n").At(1).Bytes()) != "x" || v.Get("\n").Exists() ||
			v.Get("b").Get("c").Float() == 0 {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations to look things up", n)
	}
	assert.True(t, v.Equal(w), "not equal")
}

// TestSourceIsKept: nothing is written to the text, or past its end.
func TestSourceIsKept(t *testing.T) {
	t.Parallel()
	for _, src := range []string{string(toolArgs()), string(allEscapes()), `{"b":1e20,"a":"\/"}`} {
		buf := []byte(src + "tail")
		var tree Tree
		out, err := tree.ParseArgs(buf[len(src):len(src)], buf[:len(src)])
		require.True(t, err == nil && len(out) != 0, err)
		assert.Equal(t, src, string(buf[:len(src)]), "the text was changed")
	}
}

func TestTreeIsReadConcurrently(t *testing.T) {
	t.Parallel()
	v := mustParse(t, string(records(8<<10)))
	want := string(v.Append(nil))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				assert.True(t, string(v.Append(nil)) == want && v.Equal(v), "read otherwise")
			}
		})
	}
	wg.Wait()
}

func TestKindString(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "missing null boolean number string array object",
		fmt.Sprint(Missing, Null, Bool, Number, String, Array, Object))
}
