package contracts

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/table"
)

func value(t testing.TB, text string) crypto.Value {
	t.Helper()
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}))
	return tree.Root()
}

// digests returns n digests in order.
func digests(n int) []Digest {
	out := make([]Digest, n)
	for i := range out {
		out[i] = digest(fmt.Sprint(i))
	}
	slices.SortFunc(out, func(a, b Digest) int { return bytes.Compare(a[:], b[:]) })
	return out
}

// fullInputs has every field there is.
func fullInputs(t testing.TB) *Inputs {
	d := digests(6)
	envelope := func(payload string) Envelope { return sealIn([]byte(payload)) }
	return &Inputs{
		Args: value(t, `{"z":1,"a":{"b":[1.5,null,"é\"\n"]}}`), ArgsHash: digest("args"),
		Caller:  Caller{"alice \"a\"", "acme", []string{"clerk", "owner"}},
		Drivers: 1, Idempotency: "k", Sandbox: fullSandbox(), Session: "chat-1",
		Time: 1767225600123, Tool: "send_money",
		Envelopes: Envelopes{[]Envelope{envelope("b"), envelope("a")}, []Envelope{envelope("c")},
			[]Envelope{envelope("leaf"), envelope("parent")}},
		State: SessionState{
			Budgets: []Balance{{"P1:a:b", "alice", 3, "total"}, {"P1:a:b", "", 4, "session"},
				{"P1:a:c", "", 0, "2026-01-01T00:00:00.000Z"}},
			Calls:  []CallCount{{7, "send_money"}, {7, ""}},
			From:   []Source{{2, d[:2], "list_payments#payee", d[2]}, {0, []Digest{}, "user", Digest{}}},
			Labels: &[]string{"a!", "a", "b", `b"`},
			Receipts: []PriorReceipt{{&d[3], value(t, `{"/*/to":["x"]}`), value(t, `{"/to":"x"}`), 0, "list_payments"},
				{Tool: "other"}},
			Tainted: new(bool), Trust: digest("trust"), Used: &[]Digest{d[4], d[5]},
		},
	}
}

// A document with every field, one with no optional field, and each field alone are read as they
// were written, and are canonical by a second implementation of RFC 8785.
func TestInputsRoundTrip(t *testing.T) {
	t.Parallel()
	bare := func() *Inputs { return &Inputs{ArgsForm: "raw", ArgsHash: digest("x"), Session: "main", Tool: "t"} }
	all := map[string]*Inputs{"full": fullInputs(t), "bare": bare()}
	add := func(name string, set func(in, from *Inputs)) {
		in := bare()
		set(in, fullInputs(t))
		all[name] = in
	}
	add("args", func(in, from *Inputs) { in.Args, in.ArgsForm = from.Args, "" })
	add("caller", func(in, from *Inputs) { in.Caller.Roles = from.Caller.Roles })
	add("drivers", func(in, _ *Inputs) { in.Drivers = 2 })
	add("approvals", func(in, from *Inputs) { in.Envelopes.Approvals = from.Envelopes.Approvals })
	add("delegation", func(in, from *Inputs) { in.Envelopes.Delegation = from.Envelopes.Delegation })
	add("idempotency", func(in, from *Inputs) { in.Idempotency = from.Idempotency })
	add("sandbox", func(in, from *Inputs) { in.Sandbox = from.Sandbox })
	add("budgets", func(in, from *Inputs) { in.State.Budgets = from.State.Budgets })
	add("calls", func(in, from *Inputs) { in.State.Calls = from.State.Calls })
	add("from", func(in, from *Inputs) { in.State.From = from.State.From })
	add("labels", func(in, from *Inputs) { in.State.Labels = from.State.Labels })
	add("no labels", func(in, _ *Inputs) { in.State.Labels = new([]string) })
	add("receipts", func(in, from *Inputs) { in.State.Receipts = from.State.Receipts })
	add("tainted", func(in, _ *Inputs) { in.State.Tainted = ptr(true) })
	add("not tainted", func(in, _ *Inputs) { in.State.Tainted = new(bool) })
	add("used", func(in, from *Inputs) { in.State.Used = from.State.Used })
	add("none used", func(in, _ *Inputs) { in.State.Used = new([]Digest) })
	add("hashed names", func(in, _ *Inputs) { in.Tool, in.Session = Hashed("\n"), Hashed("@") })

	texts := map[string]string{}
	for name, in := range all {
		b := in.Append(nil)
		if other := texts[string(b)]; other != "" {
			t.Errorf("%s and %s are the same: %s", name, other, b)
		}
		texts[string(b)] = name
		if want, err := jcs.Transform(b); err != nil || !bytes.Equal(want, b) {
			t.Errorf("%s: %s, %v, want %s", name, b, err, want)
		}
		again, err := ParseInputs(b)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, b)
			continue
		}
		c := again.Append(nil)
		assert.True(t, bytes.Equal(c, b), "%s: read and written again\n%s\nwas\n%s", name, c, b)
	}
	prefix := []byte("kept")
	b := bare().Append(prefix)
	assert.True(t, bytes.HasPrefix(b, prefix), "Append does not append")
}

// Every field of the full document in turn is removed, made null, and joined by an unknown one.
func TestInputsAreClosed(t *testing.T) {
	t.Parallel()
	in := fullInputs(t)
	in.Args, in.State.Receipts[0].Same = value(t, `{}`), value(t, `{}`)
	full := in.Append(nil)
	_, err := ParseInputs(full)
	require.NoError(t, err) // or the refusals below would prove nothing
	cases, taken, unknown := 0, 0, 0
	for _, bad := range spoil(value(t, string(full))) {
		cases++
		in, err := ParseInputs(bad)
		switch {
		case err == nil:
			taken++
			again := in.Append(nil)
			assert.True(t, bytes.Equal(again, bad), "taken and written otherwise:\n%s\n%s", bad, again)
			if bytes.Contains(bad, []byte(`"zz"`)) {
				unknown++
			}
		case in != nil || !isFault(err, Record, "inputs"):
			t.Errorf("%v with %v", err, in)
		}
	}
	assert.True(t, cases >= 180 && taken <= 35 && taken >= 15, "%d cases, %d taken", cases, taken)
	if unknown != 2 { // in arguments, and in the same of receipts, which may have any content
		t.Errorf("a field that nobody knows is taken in %d places", unknown)
	}
}

// Documents that no writer writes: one departure a case.
func TestParseInputsRefuses(t *testing.T) {
	t.Parallel()
	good := string(fullInputs(t).Append(nil))
	d := digests(6)
	hex := func(i int) string { return `"` + d[i].String() + `"` }
	envelope := func(payload string) string { return string(sealIn([]byte(payload))) }
	nested := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	big := func(n int) string { return envelope(strings.Repeat("x", n/4*3)) } // an envelope of n bytes
	type row struct{ Name, Old, New string }
	for _, c := range append(table.Read[row](t, "parse_inputs_refuses", 45), []row{
		{"arguments nested 66 deep", `"z":1}`, `"z":` + nested(65) + `}`},
		{"upper-case hash", `"argsHash":"` + digest("args").String(),
			`"argsHash":"` + strings.ToUpper(digest("args").String())},
		{"empty envelopes",
			`"envelopes":{"approvals":[` + envelope("b") + `,` + envelope("a") + `],"attestations":[` + envelope("c") +
				`],"delegation":[` + envelope("leaf") + `,` + envelope("parent") + `]}`, `"envelopes":{}`},
		{"empty list of envelopes", `"attestations":[` + envelope("c") + `]`, `"attestations":[]`},
		{"an envelope twice", `"attestations":[` + envelope("c") + `]`,
			`"attestations":[` + envelope("c") + `,` + envelope("c") + `]`},
		{"seventeen envelopes", `"attestations":[` + envelope("c") + `]`,
			`"attestations":[` + strings.TrimSuffix(strings.Repeat(envelope("c")+",", 17), ",") + `]`},
		{"envelope of two signatures", `"signatures":[{`,
			`"signatures":[{"keyid":` + hex(0) + `,"sig":"` + strings.Repeat("A", 86) + `=="},{`},
		{"envelope of a list", `"attestations":[` + envelope("c") + `]`, `"attestations":[[]]`},
		{"envelopes over 1 MiB", `"attestations":[` + envelope("c") + `]`, `"attestations":[` + big(1<<20) + `]`},
		{"null sandbox", `"sandbox":` + string(write(nil, fullSandbox().visit)), `"sandbox":null`},
		{"found not sorted", `[` + hex(0) + `,` + hex(1) + `]`, `[` + hex(1) + `,` + hex(0) + `]`},
		{"used not sorted", `"used":[` + hex(4) + `,` + hex(5) + `]`, `"used":[` + hex(5) + `,` + hex(4) + `]`},
	}...) {
		bad := strings.Replace(good, c.Old, c.New, 1)
		if c.Name == "field order" {
			bad = `{"drivers":1,` + bad[1:]
		}
		if bad == good {
			t.Errorf("%s: nothing was changed", c.Name)
			continue
		}
		in, err := ParseInputs([]byte(bad))
		assert.True(t, in == nil && isFault(err, Record, "inputs"), "%s: %v", c.Name, err)
	}
	for name, bad := range map[string]string{"nothing": "", "null": "null", "list": "[]", "text": `"x"`, "empty": "{}",
		"not JSON": "{", "two": good + good, "byte order mark": "\ufeff" + good,
		"over 4 MiB": good + strings.Repeat(" ", MaxInputs)} {
		in, err := ParseInputs([]byte(bad))
		assert.True(t, in == nil && err != nil, "%s: taken", name)
	}
}

// The limits that are large enough to be reached are reached.
func TestInputsLimits(t *testing.T) {
	t.Parallel()
	in := fullInputs(t)
	// 64 deep: as deep as arguments may be
	in.Args = value(t, `{"a":`+strings.Repeat(`[`, 63)+strings.Repeat(`]`, 63)+`}`)
	_, err := ParseInputs(in.Append(nil))
	assert.NoError(t, err)
	// refused as arguments, but 66 is the limit of inputs
	in.Args = value(t, `{"a":`+strings.Repeat(`[`, 64)+strings.Repeat(`]`, 64)+`}`)
	_, err = ParseInputs(in.Append(nil))
	assert.NoError(t, err)
	whole := factsOf(MaxFacts)
	in.State.Receipts = []PriorReceipt{{Tool: "a", Facts: whole}, {Tool: "b", Facts: whole}}
	in.State.Sort()
	_, err = ParseInputs(in.Append(nil))
	assert.NoError(t, err)
	in.State.Receipts = append(in.State.Receipts, PriorReceipt{Tool: "c", Facts: value(t, `{"/x":[1]}`)})
	in.State.Sort()
	_, err = ParseInputs(in.Append(nil))
	assert.Error(t, err, "facts over 1 MiB together are taken")
	in.State.Receipts = []PriorReceipt{{Tool: "a", Facts: factsOf(MaxFacts + 1)}}
	_, err = ParseInputs(in.Append(nil))
	assert.Error(t, err, "more facts than a document can have are taken")
}

// Concurrent readers and writers share nothing.
func TestFormsAreShared(t *testing.T) {
	t.Parallel()
	good := fullInputs(t).Append(nil)
	done := make(chan error)
	for range 8 {
		go func() {
			for range 50 {
				in, err := ParseInputs(good)
				if err != nil || !bytes.Equal(in.Append(nil), good) {
					done <- fmt.Errorf("read otherwise: %v", err)
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		assert.NoError(t, <-done)
	}
}
