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

	"github.com/helmkernel/helm/internal/table"
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
	for src, want := range table.Map[string, string](t, "rfc8785", 10) {
		mustBe(t, src, want, otherLimits)
	}
}

func TestCanonicalStrings(t *testing.T) {
	t.Parallel()
	for src, want := range table.Map[string, string](t, "canonical_strings", 9) {
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
	for s, want := range table.Map[string, string](t, "append_string", 11) {
		assert.Equal(t, "x"+want, string(AppendString([]byte("x"), s)), "%q", s)
		mustBe(t, want, want, otherLimits)
	}
}

// TestKeyOrder has keys in canonical order, and parses them in every order of three, with and
// without other keys between them.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	for _, keys := range table.Read[[]string](t, "key_order", 27) {
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
