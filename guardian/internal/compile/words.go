package compile

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// article names a kind with its article.
func article(k crypto.Kind) string {
	switch k {
	case crypto.Array, crypto.Object:
		return "an " + k.String()
	case crypto.Missing, crypto.Null:
		return k.String()
	}
	return "a " + k.String()
}

// quote shows a word of a document in a message, cut short.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}

// quoted returns the text of a string in quotes, and of any other value its kind: 15 needs no
// quotes, but a unit.
func quoted(p docValue) string {
	if p.v.Kind() == crypto.String {
		return quote(p.v.Text())
	}
	return article(p.v.Kind())
}

// instead says what was expected in place of a key. It offers nothing that would be refused next.
func instead(key string, keys []string) string {
	for _, k := range keys {
		if near(key, k) {
			return "did you mean " + k + "?"
		}
	}
	if len(keys) == 1 {
		return "write " + keys[0] + " alone"
	}
	return "write one of " + strings.Join(keys, ", ")
}

// near reports whether b is a with one letter more, less, other or swapped with the next, or with
// letters in another case.
func near(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch {
	case len(a) == len(b)+1:
		return a[1:] == b
	case len(b) == len(a)+1:
		return b[1:] == a
	case len(a) != len(b) || len(a) == 0:
		return false
	}
	return a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
}
