package contracts

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// An attack is a JSON text with one place changed.
type attack struct {
	at, with string // dotted path, and the change
	text     []byte
}

// others are put in the place of each value in turn.
var others = map[string]string{
	"null": `null`, "empty": `""`, "no list": `[]`, "no object": `{}`, "one": `1`, "negative": `-1`, "half": `1.5`,
	"beyond doubles": `9007199254740992`, "true": `true`,
	"words": `"x"`, "spaces": `" "`, "control": `"a\nb"`, "deleted": "\"a\x7f\"", "list of null": `[null]`,
	"list of list": `[[]]`, "object": `{"zz":1}`,
	"capitals": `"` + strings.Repeat("A", 64) + `"`, "300 bytes": `"` + strings.Repeat("x", 300) + `"`,
	"a digest and more": `"` + strings.Repeat("a", 65) + `"`,
	"a time with zone":  `"2026-01-01T00:00:00.000+00:00"`, "a time in hours": `"2026-01-01T24:00:00.000Z"`,
	"allow": `"allow"`,
}

// attacks returns the canonical forms of v with each of its values in turn removed and replaced by
// each of others, and with one more member in each object in turn.
func attacks(v crypto.Value, at string) (out []attack) {
	at = strings.TrimPrefix(at, ".")
	for with, text := range others {
		out = append(out, attack{at, with, []byte(text)})
	}
	type part struct{ name, text []byte }
	var parts []part
	open, shut := "[", "]"
	it := v.Iter()
	if v.Kind() == crypto.Object {
		open, shut = "{", "}"
	}
	var inner []attack
	for i := 0; it.Next(); i++ {
		p := part{nil, it.Value().Append(nil)}
		name := fmt.Sprint(i)
		if v.Kind() == crypto.Object {
			name = string(it.Key())
			p.name = append(crypto.AppendString(nil, name), ':')
		}
		parts = append(parts, p)
		for _, a := range attacks(it.Value(), at+"."+name) {
			a.with = fmt.Sprint(i, " ", a.with) // its place, until the parts are known
			inner = append(inner, a)
		}
	}
	join := func(change int, text []byte, more string) []byte {
		var list [][]byte
		for i, p := range parts {
			switch {
			case i != change:
				list = append(list, append(bytes.Clone(p.name), p.text...))
			case text != nil:
				list = append(list, append(bytes.Clone(p.name), text...))
			}
		}
		if more != "" {
			list = append(list, []byte(more))
		}
		return []byte(open + string(bytes.Join(list, []byte{','})) + shut)
	}
	for _, a := range inner {
		i, with, _ := strings.Cut(a.with, " ")
		var n int
		fmt.Sscan(i, &n)
		out = append(out, attack{a.at, with, join(n, a.text, "")})
	}
	for i, p := range parts {
		name := fmt.Sprint(i)
		if p.name != nil {
			name = strings.Trim(string(p.name), `":`)
		}
		out = append(out, attack{strings.TrimPrefix(at+"."+name, "."), "omitted", join(i, nil, "")})
	}
	if v.Kind() == crypto.Object {
		out = append(out, attack{at, "unknown field", join(-1, nil, `"zz":1`)},
			attack{at, "field in capitals", append([]byte(`{"A":1`),
				bytes.Replace(join(-1, nil, ""), []byte("{"), []byte(","), 1)...)})
		if bytes.HasPrefix(out[len(out)-1].text, []byte(`{"A":1,}`)) {
			out[len(out)-1].text = []byte(`{"A":1}`)
		}
	}
	return out
}

// respell returns texts that are not canonical, of the same value or of one that some reader takes
// for it.
func respell(t testing.TB, text string) map[string]string {
	t.Helper()
	colon := strings.Index(text, `:`)
	name := text[2:strings.Index(text, `":`)]
	out := map[string]string{
		"a space":               text[:colon+1] + " " + text[colon+1:],
		"a space before":        " " + text,
		"a line feed after":     text + "\n",
		"a byte order mark":     "\ufeff" + text,
		"twice":                 text + text,
		"cut":                   text[:len(text)-1],
		"an escaped name":       fmt.Sprintf(`{"\u%04x`, name[0]) + text[3:],
		"a member twice, other": `{"` + name + `":null,` + text[1:],
		"last member first":     "",
		"a comma more":          text[:len(text)-1] + ",}",
		"not UTF-8":             strings.Replace(text, `":"`, "\":\"\xc0\xaf", 1),
		"a lone surrogate":      strings.Replace(text, `":"`, `":"\ud800`, 1),
	}
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth, Object: true}))
	var members []string
	for it := tree.Root().Iter(); it.Next(); {
		members = append([]string{string(crypto.AppendString(nil, string(it.Key()))) + ":" +
			string(it.Value().Append(nil))}, members...)
	}
	require.True(t, len(members) >= 2, "too few members to put in another order")
	out["last member first"] = "{" + strings.Join(members, ",") + "}"
	out["a member twice"] = "{" + members[len(members)-1] + "," + text[1:]
	for how, s := range out {
		require.NotEqual(t, text, s, "%s: the same", how)
	}
	return out
}
