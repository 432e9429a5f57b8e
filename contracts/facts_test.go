package contracts

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/table"
)

// factsOf returns a facts document of n bytes, of which every text is within its limit.
func factsOf(n int) crypto.Value {
	var b strings.Builder
	b.WriteString(`{"/*":[`)
	for rest := n - len(`{"/*":[]}`); rest > 0; {
		text := min(rest, 60<<10)
		if left := rest - text; left > 0 && left < 4 {
			text -= 4
		}
		quoted := text - 2 // and a comma, unless it is the last
		if rest != text {
			quoted--
		}
		fmt.Fprintf(&b, `"%s"`, strings.Repeat("x", quoted))
		if rest -= text; rest > 0 {
			b.WriteByte(',')
		}
	}
	b.WriteString(`]}`)
	var tree crypto.Tree
	if err := tree.Parse([]byte(b.String()), crypto.Limits{Bytes: b.Len(), Depth: 3}); err != nil || b.Len() != n {
		panic(fmt.Sprint(b.Len(), err))
	}
	return tree.Root()
}

// keys returns a facts document of n facts without a value.
func keys(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"/%02d":[]`, i)
	}
	return "{" + strings.Join(list, ",") + "}"
}

// goodFacts are documents that a kernel can write.
func goodFacts() map[string]string {
	return map[string]string{
		"none":             `{}`,
		"without a value":  `{"/a":[]}`,
		"over a limit":     `{"/a":null,"/b":[1]}`,
		"of each type":     `{"/*/a":["x","",0,-1.5,1e+300,true,false]}`,
		"of the root":      `{"":["x"]}`,
		"escaped":          `{"/a~1b/~0":[1]}`,
		"equal ones":       `{"/*":[1,1,"1"]}`,
		"counts":           `{"count:":[3],"count:/a":[0],"count:/b":[9007199254740991],"count:/c":[],"count:/d":null}`,
		"in order of code": `{"/*":[],"/a":[],"count:/a":[]}`,
		"of no ASCII":      `{"/é":["é"]}`,
		"a thousand":       `{"/*":[` + strings.Repeat("0,", MaxFactValues-1) + `0]}`,
		"a long text":      `{"/a":["` + strings.Repeat("x", MaxFactText) + `"]}`,
		"32":               keys(MaxFactKeys),
		"512 KiB":          string(factsOf(MaxFacts).Append(nil)),
	}
}

func TestParseFacts(t *testing.T) {
	t.Parallel()
	for name, text := range goodFacts() {
		canonical, err := jcs.Transform([]byte(text))
		require.True(t, err == nil && string(canonical) == text, "%s: not canonical: %v", name, err)
		v, err := ParseFacts([]byte(text))
		assert.NoError(t, err, name)
		assert.Equal(t, text, string(v.Append(nil)), name)
	}
}

func TestParseFactsRefuses(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	type row struct{ Name, Text, Says string }
	for _, c := range append(table.Read[row](t, "parse_facts_refuses", 33), []row{
		{"33 facts", keys(MaxFactKeys + 1), "more than 32 facts"},
		{"1,001 values", `{"/*":[` + strings.Repeat("0,", MaxFactValues) + `0]}`, "more than 1000 values"},
		{"a text over 64 KiB", `{"/a":["` + x(MaxFactText+1) + `"]}`, "more than 64 KiB"},
		{"a text over 64 KiB in the end", `{"/*":["a","` + x(MaxFactText+1) + `"]}`, "more than 64 KiB"},
		{"over 512 KiB", string(factsOf(MaxFacts + 1).Append(nil)), "longer than its limit"},
		{"over 512 KiB of key", `{"/` + x(MaxFacts-6) + `":[]}`, "longer than its limit"},
		{"nothing", "", ""},
		{"a byte order mark", "\ufeff{}", ""},
	}...) {
		v, err := ParseFacts([]byte(c.Text))
		assert.True(t, isFault(err, Record, "facts") && v.Kind() == crypto.Missing, "%s: %v", c.Name, err)
		assert.ErrorContains(t, err, c.Says, c.Name)
	}
	for _, text := range goodFacts() {
		for how, bad := range map[string]string{"a space": text[:1] + " " + text[1:], "a line feed": text + "\n",
			"twice": text + text, "cut": text[:len(text)-1]} {
			_, err := ParseFacts([]byte(bad))
			assert.Error(t, err, "%s: %.99s", how, bad)
		}
	}
}

// Nothing that the tool said is in the error: a fact may be a secret.
func TestParseFactsQuotesNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"/a":[["secret"]]}`, `{"secret":[]}`, `{"/a":["secret","x"]}`, `{"/a":{"secret":1}}`,
		`{"/a":["secret",]}`, `{"/a":["secret"]`, `{"/secret~":[]}`} {
		_, err := ParseFacts([]byte(text))
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "secret", text)
	}
}

func TestIsMessage(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for text, want := range map[string]bool{"": false, "x": true, "\x00": true, "é\n": true, "\xff": false,
		"x\xc3": false, "\xed\xa0\x80": false, x(MaxMessage): true, x(MaxMessage + 1): false,
		x(MaxMessage-2) + "é": true, x(MaxMessage-1) + "é": false} {
		assert.Equal(t, want, IsMessage(text), "%d bytes", len(text))
	}
}

// Signals of an output are in the receipts that release one: each outcome, with and without output.
func TestReceiptSignals(t *testing.T) {
	t.Parallel()
	taken := 0
	for reason := range Reasons() {
		if !reason.endsRun() {
			continue
		}
		for _, form := range []string{"", "jcs", "raw"} {
			r := &Receipt{Reason: reason, ArgsHash: digest("args"), DecisionHash: digest("prev"), EffectType: Read,
				Tool: "t", OutputForm: form}
			r.Outcome, r.Verdict = reason.Ending()
			if form != "" {
				r.OutputHash = ptr(digest("output"))
			}
			if r.Check() != nil {
				continue
			}
			r.Signals = []string{"hidden-tag", "nul"}
			effect := r.Effect()
			r.EffectHash = effect.Hash()
			want := form != "" && (r.Outcome == Executed || r.Outcome == Failed)
			assert.Equal(t, want, r.Check() == nil, "%s %q", reason, form)
			st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Lamport: 1, Seq: 1, Session: "s"},
				Receipt: r}
			_, err := reopen(t, st.Append(nil))
			assert.Equal(t, want, err == nil, "%s %q: %v", reason, form, err)
			if want {
				taken++
			}
			for name, bad := range map[string][]string{"not sorted": {"nul", "hidden-tag"}, "twice": {"nul", "nul"},
				"no ids": {"a b"}, "too long": {strings.Repeat("x", 65)}, "seventeen": strings.Split("abcdefghijklmnopq", "")} {
				r.Signals = bad
				_, err := reopen(t, st.Append(nil))
				assert.Error(t, err, "%s: %s", reason, name)
				assert.Error(t, r.Check(), "%s: %s", reason, name)
			}
		}
	}
	assert.Equal(t, 4, taken, "EXECUTED and FAILED, of JSON and of text")
}

// Signals of arguments are in the judgements that reached condition 7, and one that was made there
// has some.
func TestDecisionSignals(t *testing.T) {
	t.Parallel()
	may, must := map[string]bool{}, map[string]bool{}
	for reason := range Reasons() {
		for condition := range 9 {
			d := &DecisionRecord{Condition: condition, Reason: reason, Tool: "t", EffectType: Read, Risk: Low}
			if reason.NamesRule() {
				d.Rule = "P1:bank:scope"
			}
			if reason == ReasonApprovalRequired {
				d.Pending = ptr(digest("request"))
			}
			if reason == ReasonIdempotencyConflict {
				d.Idempotency = "k"
			}
			st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Lamport: 1, Seq: 3, Session: "s",
				Time: 5}}
			if reason == ReasonAllow {
				d.Verdict, d.Expires, st.Decision = Allow, 5, d
			} else {
				st.Receipt = &Receipt{Outcome: Denied, Decision: d}
			}
			d.Seal("s", 3, digest("inputs"))
			_, without := reopen(t, st.Append(nil))
			d.Signals = []string{"nul", "secret"}
			_, with := reopen(t, st.Append(nil))
			at := fmt.Sprintf("%s at %d", reason, condition)
			if with == nil {
				may[at], must[at] = true, without != nil
			}
			d.Signals = []string{"secret", "nul"}
			_, err := reopen(t, st.Append(nil))
			assert.Error(t, err, "%s: not sorted", at)
		}
	}
	want := map[string]bool{"ALLOW at 8": false, "CEILING_VIOLATION at 8": false, "THREAT_SIGNAL_DETECTED at 7": true,
		"FAIL_CLOSED_ERROR at 7": false, "FAIL_CLOSED_ERROR at 8": false, "FAIL_CLOSED_ERROR at 4": false,
		"APPROVAL_REFUSED at 4": false, "APPROVAL_INVALID at 4": false, "APPROVAL_EXPIRED at 4": false,
		"APPROVAL_REQUIRED at 4": false}
	assert.Equal(t, want, must)
	assert.Len(t, may, len(want))
}

// Any bytes: no panic, what is read is written again in the same bytes, keeps to the limits, and
// may stand in inputs.
func FuzzParseFacts(f *testing.F) {
	for _, text := range goodFacts() {
		if len(text) < 4096 {
			f.Add([]byte(text))
			for _, bad := range spoil(value(f, text)) {
				f.Add(bad)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		v, err := ParseFacts(b)
		require.True(t, bytes.Equal(b, before), "the reader writes to what it reads")
		if err != nil {
			require.True(t, v.Kind() == crypto.Missing && isFault(err, Record, "facts"), "%v", err)
			return
		}
		require.Equal(t, string(b), string(v.Append(nil)))
		require.True(t, len(b) <= MaxFacts && v.Len() <= MaxFactKeys)
		var read []string
		for it := v.Iter(); it.Next(); {
			key, values := string(it.Key()), it.Value()
			count := strings.HasPrefix(key, CountPrefix)
			require.False(t, count && strings.Contains(key+"/", "/*/"), "%q", key)
			if values.Kind() == crypto.Null {
				continue
			}
			read = append(read, string(crypto.AppendString(nil, key))+":"+string(values.Append(nil)))
			require.True(t, values.Len() <= 1 || strings.Contains(key+"/", "/*/"), "%q", key)
			for x := range values.Elements() {
				_, whole := x.Uint()
				require.True(t, !count || whole, "%q", key)
				require.True(t, x.Kind() != crypto.Array && x.Kind() != crypto.Object && x.Exists(), "%q", key)
			}
		}
		if read == nil {
			return
		}
		in := &Inputs{ArgsForm: "raw", Session: "s", Tool: "t"}
		in.State.Receipts = []PriorReceipt{{Entry: new(Digest), Facts: value(t, "{"+strings.Join(read, ",")+"}"), Tool: "t"}}
		_, err = ParseInputs(in.Append(nil))
		require.NoError(t, err)
	})
}
