package contracts

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sampleCarry() *Carry {
	d := digests(6)
	return &Carry{
		Budgets: []Balance{{"P1:a:b", "alice", 3, "total"}, {"P1:a:b", "", 4, "session"},
			{"P1:a:c", "", 0, "2026-01-01T00:00:00.000Z"}},
		Heads: d[:2], Named: []Named{{d[2], 7}, {d[3], 1}}, Names: d[4:],
		Sessions: []CarriedSession{{2, 9, d[0], 4, "chat-1", 1767225600123}, {1, 3, d[1], 0, "main", 5}},
	}
}

func TestCarryRoundTrip(t *testing.T) {
	t.Parallel()
	bare := &Carry{Sessions: []CarriedSession{{Count: 1, Session: "s"}}}
	for name, c := range map[string]*Carry{"full": sampleCarry(), "bare": bare} {
		b := c.Append(nil)
		again, err := ParseCarry(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := again.Append(nil)
		assert.True(t, bytes.Equal(got, b), "%s: read and written again\n%s\nwas\n%s", name, got, b)
		for i := range b { // the result does not change with the bytes that it was read from
			b[i] = 'x'
		}
		got = again.Append(nil)
		assert.True(t, bytes.Equal(got, c.Append(nil)), "%s: became %s", name, got)
	}
}

func TestParseCarryRefuses(t *testing.T) {
	t.Parallel()
	text := string(sampleCarry().Append(nil))
	must := func(what, bad string, class Class) {
		t.Helper()
		c, err := ParseCarry([]byte(bad))
		assert.True(t, bad != text && c == nil && isFault(err, class, "carry"), "%s: %v, want %s", what, err, class)
	}
	refused, taken := 0, 0
	for _, a := range attacks(value(t, text), "") {
		c, err := ParseCarry(a.text)
		switch {
		case err == nil && !bytes.Equal(c.Append(nil), a.text):
			t.Errorf("%s %s: became %s", a.at, a.with, c.Append(nil))
		case err == nil:
			taken++
			for _, never := range []string{"null", "empty", "negative", "half", "beyond doubles", "true", "control",
				"unknown field", "field in capitals"} {
				assert.NotEqual(t, never, a.with, "%s %s: taken", a.at, a.with)
			}
		default:
			refused++
		}
	}
	assert.True(t, refused >= 500 && taken >= 20, "%d refused, %d taken", refused, taken)
	for how, bad := range respell(t, text) {
		must(how, bad, Encoding)
	}
	for name, change := range map[string]func(*Carry){
		"budgets in another order":  func(c *Carry) { slices.Reverse(c.Budgets) },
		"a balance twice":           func(c *Carry) { c.Budgets[1] = c.Budgets[0] },
		"heads in another order":    func(c *Carry) { slices.Reverse(c.Heads) },
		"a head twice":              func(c *Carry) { c.Heads[1] = c.Heads[0] },
		"named in another order":    func(c *Carry) { slices.Reverse(c.Named) },
		"one named twice":           func(c *Carry) { c.Named[1].Entry = c.Named[0].Entry },
		"names in another order":    func(c *Carry) { slices.Reverse(c.Names) },
		"sessions in another order": func(c *Carry) { slices.Reverse(c.Sessions) },
		"a session twice":           func(c *Carry) { c.Sessions[1].Session = "chat-1" },
		"the kernel's session":      func(c *Carry) { c.Sessions[0].Session = "" },
		"@refused":                  func(c *Carry) { c.Sessions[0].Session = SessionRefused },
		"no sessions":               func(c *Carry) { c.Sessions = nil },
		"a window of nothing":       func(c *Carry) { c.Budgets[0].Window = "day" },
		"lamport beyond doubles":    func(c *Carry) { c.Named[0].Lamport = 1 << 53 },
		"a budget of no layer":      func(c *Carry) { c.Budgets[0].Budget = "P3:a:b" },
	} {
		c := sampleCarry()
		change(c)
		must(name, string(c.Append(nil)), Record)
	}
	for _, bad := range []string{"", "null", "[]", `"x"`, "{"} {
		must(bad, bad, Encoding)
	}
	must("an object of nothing", "{}", Record)
}

func FuzzParseCarry(f *testing.F) {
	text := sampleCarry().Append(nil)
	f.Add(text)
	for i, a := range attacks(value(f, string(text)), "") {
		if i%11 == 0 {
			f.Add(a.text)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCarry(b)
		require.Equal(t, c != nil, err == nil, "%v with %v", err, c)
		if err == nil && !bytes.Equal(c.Append(nil), b) {
			t.Fatalf("was\n%s\nand is written\n%s", b, c.Append(nil))
		}
	})
}
