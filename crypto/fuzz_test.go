package crypto

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzParse: an accepted text is accepted by encoding/json, its canonical form is the one of jcs,
// and is its own canonical form. Accepted arguments are accepted texts.
func FuzzParse(f *testing.F) {
	addSeeds(f, func(b []byte) { f.Add(b) })
	g := newGenerator(3)
	for range 50 {
		f.Add(g.document())
		f.Add(g.spoiled())
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		kept := bytes.Clone(src)
		accepted := compareReaders(t, src)
		var tree Tree
		args, err := tree.ParseArgs(nil, src)
		require.True(t, bytes.Equal(src, kept), "the text was changed")
		if err != nil {
			return
		}
		require.True(t, accepted, "%q: arguments, but not JSON", src)
		var again Tree
		twice, err := again.ParseArgs(nil, args)
		require.True(t, err == nil && bytes.Equal(twice, args) && again.Root().Equal(tree.Root()),
			"%q: %s became %s, %v", src, args, twice, err)
		walk(t, tree.Root())
	})
}

// walk calls every method of a value and of all values in it.
func walk(t *testing.T, v Value) {
	v.Text()
	v.Float()
	v.Uint()
	v.Bool()
	var args Tree
	_, err := args.ParseArgs(nil, v.Append(nil))
	require.Equal(t, err == nil, v.IsArgs(), "%s: arguments: %v, but read once more: %v", v.Append(nil), v.IsArgs(),
		err)
	n, last := 0, ""
	for it := v.Iter(); it.Next(); n++ {
		if v.Kind() == Object {
			key := string(it.Key())
			require.False(t, n > 0 && utf16Compare(last, key) >= 0, "%q before %q", last, key)
			last = key
			require.True(t, v.Get(key).Equal(it.Value()), "%q is not found", key)
		} else if !v.At(n).Equal(it.Value()) {
			t.Fatalf("element %d is another", n)
		}
		walk(t, it.Value())
	}
	require.Equal(t, v.Len(), n)
}

// FuzzNumber: a token is accepted if and only if exact arithmetic shows that its double keeps the
// value.
func FuzzNumber(f *testing.F) {
	addSeeds(f, func(b []byte) {
		for token := range strings.FieldsFuncSeq(string(b),
			func(r rune) bool { return strings.ContainsRune(",[]{}: ", r) }) {
			f.Add(token)
		}
	})
	g := newGenerator(4)
	for range 100 {
		f.Add(g.number())
	}
	f.Fuzz(func(t *testing.T, token string) {
		if strings.Trim(token, "0123456789+-.eE") != "" || len(token) > 400 || longExponent([]byte(token)) {
			return // no number, or one too large for exact arithmetic
		}
		accepted := compareReaders(t, []byte(token))
		require.Equal(t, json.Valid([]byte(token)) && preserved(token), accepted, "%s", token)
	})
}

// FuzzString: any string is written, read back and found as a key. Bytes that are not UTF-8 are
// replaced.
func FuzzString(f *testing.F) {
	addSeeds(f, func(b []byte) { f.Add(string(b)) })
	for g := newGenerator(5); g.r.IntN(100) > 0; {
		f.Add(g.text())
	}
	f.Fuzz(func(t *testing.T, s string) {
		g := newGenerator(uint64(len(s)))
		want := strings.ToValidUTF8(s, "\uFFFD")
		text := AppendString(nil, s)
		require.True(t, utf8.Valid(text), "%q: %q", s, text)
		spelled := append(append(append([]byte(`{"k":`), text...), ','), g.spell(nil, want+"k")...)
		spelled = append(spelled, ":0}"...)
		if want == "" {
			return
		}
		require.True(t, compareReaders(t, spelled), "%q: refused", spelled)
		var tree Tree
		require.NoError(t, tree.Parse(spelled, otherLimits))
		got := tree.Root().Get("k").Text()
		require.False(t, utf8.ValidString(s) && got != want, "%q became %q", s, got)
		require.False(t, !tree.Root().Get(want+"k").Exists() && utf8.ValidString(s), "%q is not found", want)
	})
}
