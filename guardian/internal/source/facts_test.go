package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func document(t testing.TB, text string) crypto.Value {
	t.Helper()
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: contracts.MaxFacts, Depth: 8}))
	v, err := contracts.ParseFacts(tree.Root().Append(nil))
	require.NoError(t, err, "%.200s", text)
	return v
}

// of reports whether a fact has a value.
func of(t testing.TB, f *Facts, key string, v crypto.Value) bool {
	t.Helper()
	values, _, ok := f.Of(key)
	require.True(t, ok, "%s is no source", key)
	return values.Has(v)
}

var order = []Fact{
	{Key: "/booked", Vouches: true},
	{Key: "/id", Vouches: true},
	{Key: "/note"},
	{Key: "/rows/*/id", Vouches: true},
	{Key: "/subject", Text: true, Vouches: true},
	{Key: "/words/*", Text: true},
}

// A plain fact has a value of the same type and the same canonical text, and nothing near it.
func TestFactsPlain(t *testing.T) {
	t.Parallel()
	f := NewFacts(order)
	assert.False(t, of(t, f, "/id", str(t, "AB12")), "of no document")
	f.Add(document(t, `{"/booked":[true],"/id":["AB12"],"/rows/*/id":[1250,"0.5",0.5,"é\n\"",1e21,"",-0],"count:/rows":[7]}`))
	f.Add(document(t, `{"/id":null,"/rows/*/id":[],"/other":["AB13"]}`))
	f.Add(document(t, `{}`))
	for _, c := range []struct {
		key, value string
		want       bool
	}{
		{"/id", `"AB12"`, true}, {"/rows/*/id", `"AB12"`, false}, {"/id", `1250`, false},
		{"/id", `"ab12"`, false}, {"/id", `"AB1"`, false}, {"/id", `"AB123"`, false}, {"/id", `" AB12"`, false},
		{"/id", `"AB12\u200b"`, false}, {"/id", `"\u0041B12"`, true}, {"/id", `"%41B12"`, false}, {"/id", `"AB13"`, false},
		{"/rows/*/id", `1250`, true}, {"/rows/*/id", `1250.0`, true}, {"/rows/*/id", `12.5e2`, true},
		{"/rows/*/id", `"1250"`, false}, {"/rows/*/id", `125`, false}, {"/rows/*/id", `0.5`, true},
		{"/rows/*/id", `"0.5"`, true}, {"/rows/*/id", `".5"`, false}, {"/rows/*/id", `0`, true}, {"/rows/*/id", `""`, true},
		{"/rows/*/id", `"\u00e9\u000a\u0022"`, true}, {"/rows/*/id", `"e\u0301\n\""`, false},
		{"/rows/*/id", `1e21`, true}, {"/rows/*/id", `7`, false}, {"/rows/*/id", `[1250]`, false},
		{"/rows/*/id", `null`, false}, {"/booked", `true`, true}, {"/booked", `false`, false}, {"/booked", `"true"`, false},
	} {
		assert.Equal(t, c.want, of(t, f, c.key, parse(t, c.value)), "%s in %s", c.value, c.key)
	}
	values, length, _ := f.Of("/id")
	assert.False(t, values.Has(crypto.Value{}), "a value that is missing")
	assert.Zero(t, length, "plain values are no text")
	for _, key := range []string{"/note", "/words/*", "/rows/*", "count:/rows", "/other", ""} {
		_, _, ok := f.Of(key)
		assert.False(t, ok, "%s is a source", key)
	}
}

// Texts of a fact are looked into, each by itself; strings alone are texts.
func TestFactsTexts(t *testing.T) {
	t.Parallel()
	f := NewFacts([]Fact{{Key: "/a/*", Text: true, Vouches: true}, {Key: "/b/*", Text: true, Vouches: true}})
	f.Add(document(t, `{"/a/*":["pay al","ice@x.io \"now\"",4711,true],"/b/*":["bob@x.io\nor 42.50"]}`))
	for _, c := range []struct {
		key, value string
		want       bool
	}{
		{"/a/*", `"ice@x.io"`, true}, {"/a/*", `"alice@x.io"`, false}, {"/a/*", `"bob@x.io"`, false},
		{"/b/*", `"bob@x.io"`, true}, {"/b/*", `"ob@x.io"`, false}, {"/b/*", `42.5`, false}, {"/b/*", `"42.50"`, true},
		{"/a/*", `4711`, false}, {"/a/*", `"4711"`, false}, {"/a/*", `true`, false}, {"/a/*", `"\"now\""`, true},
	} {
		assert.Equal(t, c.want, of(t, f, c.key, parse(t, c.value)), "%s in %s", c.value, c.key)
	}
	_, length, _ := f.Of("/a/*")
	assert.Equal(t, len(`pay al`)+len(`ice@x.io "now"`), length)
}

// rows returns the values of a fact with many.
func rows(n int, form string, from int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, form, from+i)
	}
	return `[` + b.String() + `]`
}

// A document that would exceed the allowance of plain values is no source, not even in part. Nor is
// any later one, though it would fit. The last that fits is one.
func TestFactsPlainAllowance(t *testing.T) {
	t.Parallel()
	full := func(t *testing.T) *Facts {
		f := NewFacts(order)
		for i := range 10 {
			n := 1000
			if i == 9 {
				n = 999
			}
			f.Add(document(t, `{"/rows/*/id":`+rows(n, "%d", 1000*i)+`}`))
		}
		require.False(t, f.Full())
		return f
	}
	t.Run("the 10,000th", func(t *testing.T) {
		f := full(t)
		f.Add(document(t, `{"/id":["last"],"/other":["x"],"/rows/*/id":null,"count:/rows":[5]}`))
		assert.True(t, !f.Full() && of(t, f, "/id", str(t, "last")), "it fits")
		f.Add(document(t, `{"/id":null,"/rows/*/id":[],"/other":["x"],"count:/rows":[5]}`))
		assert.False(t, f.Full(), "nothing, counts and what is not declared use nothing up")
		f.Add(document(t, `{"/id":["more"]}`))
		assert.True(t, f.Full() && !of(t, f, "/id", str(t, "more")), "the 10,001st")
		assert.True(t, of(t, f, "/id", str(t, "last")) && of(t, f, "/rows/*/id", parse(t, `0`)), "what was there stands")
	})
	t.Run("two at once", func(t *testing.T) {
		f := full(t)
		f.Add(document(t, `{"/id":["fits"],"/rows/*/id":["over"],"/subject":["words that fit"]}`))
		assert.True(t, f.Full() && !of(t, f, "/id", str(t, "fits")) && !of(t, f, "/rows/*/id", str(t, "over")) &&
			!of(t, f, "/subject", str(t, "words")), "a document that would exceed is none at all")
		f.Add(document(t, `{"/id":["later"]}`))
		f.Add(document(t, `{}`))
		assert.True(t, f.Full() && !of(t, f, "/id", str(t, "later")), "nor is a later one that would fit")
	})
	t.Run("repeats, and what may not vouch", func(t *testing.T) {
		for _, last := range []string{`"/rows/*/id":[0,0]`, `"/id":[0],"/note":["x"]`, `"/booked":[true],"/note":["x"]`,
			`"/subject":[1],"/words/*":[2]`} {
			f := full(t)
			f.Add(document(t, `{`+last+`}`))
			assert.True(t, f.Full(), "%s uses up two", last)
		}
	})
}

// The same of texts: 262,144 bytes of a tool, in all its facts that are texts, and of the user.
func TestTextsAllowance(t *testing.T) {
	t.Parallel()
	f := NewFacts(order)
	x := strings.Repeat("x", contracts.MaxFactText-6) + " alice"
	f.Add(document(t, `{"/subject":["`+x+`"],"/words/*":["`+x+`","`+x+`"]}`))
	f.Add(document(t, `{"/words/*":["`+x[5:]+`"]}`))
	f.Add(document(t, `{"/subject":["words"],"/rows/*/id":[1,2]}`))
	assert.True(t, !f.Full() && of(t, f, "/subject", str(t, "words")), "262,144 bytes")
	f.Add(document(t, `{"/subject":[""],"/id":["fits"]}`))
	assert.True(t, !f.Full() && of(t, f, "/id", str(t, "fits")), "no text is none too many")
	f.Add(document(t, `{"/words/*":["y"],"/id":["over"]}`))
	assert.True(t, f.Full() && !of(t, f, "/id", str(t, "over")), "262,145 bytes")
	assert.True(t, of(t, f, "/subject", str(t, "alice")), "what was there stands")

	var w Words
	w.Add([]byte(x + x))
	w.Add([]byte(x + x[:len(x)-2]))
	w.Add([]byte("é"))
	assert.True(t, !w.Full() && w.Bytes() == MaxTexts && w.Has(str(t, "alice")), "262,144 bytes")
	w.Add([]byte("bobby"))
	w.Add(nil)
	assert.True(t, w.Full() && w.Bytes() == MaxTexts && !w.Has(str(t, "bobby")) && w.Has(str(t, "alice")), "one more")
	w = Words{}
	w.Add([]byte("alice"))
	w.Add([]byte(strings.Repeat("x", MaxTexts-4)))
	w.Add([]byte("bobby"))
	assert.True(t, w.Full() && w.Bytes() == 5 && w.Has(str(t, "alice")) && !w.Has(str(t, "bobby")),
		"a message that would exceed ends the source, though later ones would fit")
}

// A value is found in no more than it was looked for: no answer allocates.
func TestHasAllocates(t *testing.T) {
	f := NewFacts(order)
	f.Add(document(t, `{"/id":["AB\\12"],"/subject":["say \"AB\\12\", or 1250"]}`))
	var w Words
	w.Add([]byte(`say "AB\12", or 1250`))
	hit, miss, number := str(t, `AB\12`), str(t, `AB\13`), parse(t, `1250`)
	plain, _, _ := f.Of("/id")
	texts, _, _ := f.Of("/subject")
	require.True(t, plain.Has(hit) && texts.Has(hit) && w.Has(hit) && w.Has(number) && texts.Has(number))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, v := range []crypto.Value{hit, miss, number} {
			plain.Has(v)
			texts.Has(v)
			w.Has(v)
		}
		f.Of("/id")
		f.Of("/subject")
	}))
}
