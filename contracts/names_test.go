package contracts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/crypto"
)

// The forms and limits of every name, at their edges.
func TestNames(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	type form struct {
		name string
		ok   func(string) bool
	}
	session, origin, tool, id, rule := form{"session", IsSession}, form{"origin", IsOrigin}, form{"tool", IsTool},
		form{"id", IsID}, form{"rule", ruleName.ok}
	nonce, kind, source := form{"nonce", nonceText.ok}, form{"kind", kindName.ok}, form{"source", sourceName.ok}
	words := form{"words of 128", func(s string) bool { return IsWords(s, 128) }}
	hex := strings.Repeat("0f", 16)
	for _, c := range []struct {
		form form
		yes  []string
		no   []string
	}{
		{session, []string{"main", "a", "A.b_c:/-9", "a@b", ":", x(128), Hashed("what was asked")},
			[]string{"", "@", "@refused", "@a", "a b", "a\n", "é", "a#b", "a\x00", x(129), "a\x7f", "a\xff"}},
		{origin, []string{"example.org/log", "helm/0123", "-", x(255)},
			[]string{"", "a b", "a:b", "a@b", "a+b", x(256), "é"}},
		{tool, []string{"fs.read", "a", "@scope/pkg:tool", x(128), Hashed("")},
			[]string{"", "a b", "a*", "a#b", x(129), "a\n", "ſ"}},
		{id, []string{"bank", "a.b_c-9", x(64)}, []string{"", "a:b", "a/b", "a@b", "a b", x(65)}},
		{rule, []string{"P0:a:b", "P1:bank:pay", "P2:" + x(64) + ":" + x(64)},
			[]string{"", "P1", "P1:", "P1::", "P1:a", "P1:a:", "P1::b", "P3:a:b", "p1:a:b", "1:a:b", "P1:a:b:c",
				"P1:a b:c", "P1:a:b ", " P1:a:b", "P1:" + x(65) + ":b", "P1:a:" + x(65), "PX:a:b", "P1/a:b"}},
		{nonce, []string{hex}, []string{"", hex[1:], hex + "0", strings.ToUpper(hex), "g" + hex[1:]}},
		{kind, []string{kindPrefix + "decision/v1", kindPrefix + "a/v1"},
			[]string{"", kindPrefix + "/v1", kindPrefix + "decision/v2", kindPrefix + "decision",
				kindPrefix + "Decision/v1", kindPrefix + "a-b/v1", "http" + kindPrefix[5:] + "a/v1",
				kindPrefix + "a/v1/", kindPrefix[:10] + "/v1"}},
		{source, []string{"user", "list_payments#payee", "a#" + x(64), "a/b:c@d#e._-"},
			[]string{"", "users", "User", "#a", "a#", "a#b#c", "a b#c", "a#b\n", "a#" + x(129), x(129) + "#a", "a"}},
		{words, []string{"a", " ", "é", "日本", x(128), strings.Repeat("é", 64), strings.Repeat(`"`, 64),
			strings.Repeat(`\`, 64), "\u2028", "\u0080", "\ufffd", "/"},
			[]string{"", x(129), strings.Repeat("é", 64) + "x", strings.Repeat(`"`, 64) + "x", strings.Repeat(`\`, 65),
				"a\n", "a\t", "\x00", "\x1f", "\x7f", "\xff", "\xc0\xaf", "\xed\xa0\x80", "a\xe2\x82"}},
	} {
		for _, s := range c.yes {
			assert.True(t, c.form.ok(s), "%q is no %s", s, c.form.name)
		}
		for _, s := range c.no {
			assert.False(t, c.form.ok(s), "%q is a %s", s, c.form.name)
		}
	}
	for b := range 256 { // each byte alone, against the sets written down
		s := string([]byte{byte(b)})
		letter := strings.Contains("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", s)
		for _, c := range []struct {
			form   form
			others string
		}{{session, "._:/-"}, {origin, "._/-"}, {tool, "._:@/-"}, {id, "._-"}} {
			if want := letter || strings.Contains(c.others, s); c.form.ok(s) != want {
				t.Errorf("byte %02x in a %s: %v", b, c.form.name, !want)
			}
			if want := letter || strings.Contains(c.others, s) ||
				c.form.name == "session" && s == "@"; c.form.ok("a"+s) != want {
				t.Errorf("byte %02x in a %s, second: %v", b, c.form.name, !want)
			}
		}
	}
}

// IsWords counts the bytes of the canonical form without quotes.
func TestWordsCountCanonicalBytes(t *testing.T) {
	t.Parallel()
	cases := 0
	for _, s := range []string{"abc", `a"b`, `\`, `\\"`, "é\"", "日本\\", "/", "\u2028"} {
		n := len(crypto.AppendString(nil, s)) - 2
		cases++
		assert.True(t, IsWords(s, n) && !IsWords(s, n-1), "%q: not exactly %d bytes", s, n)
	}
	assert.NotEqual(t, 0, cases, "nothing was checked")
}

func TestHashedNames(t *testing.T) {
	t.Parallel()
	h := Hashed("a name\nthat breaks its limits")
	assert.True(t, IsHashed(h) && IsSession(h) && IsTool(h) && IsWords(h, 256) &&
		h == "sha256:"+digest("a name\nthat breaks its limits").String(), h)
	for _, s := range []string{"", "sha256:", h[:len(h)-1], h + "0", strings.ToUpper(h), "sha512:" + h[7:], h[7:],
		"sha256:" + strings.Repeat("G", 64)} {
		assert.False(t, IsHashed(s), "%q is a hashed name", s)
	}
}
