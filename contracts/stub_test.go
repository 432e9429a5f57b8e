package contracts

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sampleStubs() map[string]*Stub {
	d := digests(4)
	charges := []Charge{{1, 2, "P1:a:b", 9, "chat-1", "session"}, {1, 0, "P1:a:c", 9, "", "total"}}
	settled := []Settlement{{1, "P1:a:b", "chat-1"}, {0, "P1:a:c", ""}}
	at := Time(1767225600123)
	return map[string]*Stub{
		"decision":       {d[0], 9, d[1:3], 4, "chat-1", at, &DecisionStub{charges, "key \"1\"", 1, "bank.pay"}, nil},
		"plain decision": {Session: "main", Decision: &DecisionStub{Tool: "t"}},
		"receipt":        {d[0], 9, d[1:3], 4, "chat-1", at, nil, &ReceiptStub{7, &d[3], Executed, settled}},
		"plain receipt":  {Session: "main", Receipt: &ReceiptStub{Outcome: Failed}},
	}
}

func TestStubRoundTrip(t *testing.T) {
	t.Parallel()
	var r Reader
	for name, s := range sampleStubs() {
		b := s.Append(nil)
		again, err := r.Stub(b)
		require.NoError(t, err, "%s\n%s", name, b)
		assert.Equal(t, s, again, name)
		assert.True(t, IsStub(b), name)
		leaf, err := r.Leaf(b)
		assert.True(t, err == nil && leaf == s.Entry, "%s: the hash is not that of the entry: %v", name, err)
		_, err = r.Open(b)
		assert.True(t, isFault(err, Record, "stub"), "%s: opened as an entry: %v", name, err)
	}
}

// TestNewStub: a stub has what the entry has, and the decision of a receipt by its index alone.
func TestNewStub(t *testing.T) {
	t.Parallel()
	var r Reader
	for name, s := range samples() {
		entry := Entry(sealIn(s.Append(nil)))
		leaf, err := r.Leaf(entry)
		assert.True(t, err == nil && leaf == entry.Hash() && !IsStub(entry), "%s: %v", name, err)
	}
	d := samples()["decision"]
	stub := NewStub(d, digest("d"), 3)
	assert.Equal(t, &Stub{digest("d"), d.Lamport, d.Parents, d.Seq, d.Session, d.Time, &DecisionStub{d.Decision.Charges,
		d.Decision.Idempotency, 3, d.Decision.Tool}, nil}, stub)
	x := samples()["receipt"]
	x.Parents = append(digests(3), x.Receipt.DecisionHash)
	slices.SortFunc(x.Parents, compareDigests)
	before := slices.Clone(x.Parents)
	stub = NewStub(x, digest("r"), 5)
	assert.Equal(t, before, x.Parents, "the statement was changed")
	assert.ElementsMatch(t, digests(3), stub.Parents)
	assert.True(t, slices.IsSortedFunc(stub.Parents, compareDigests))
	assert.Equal(t, &ReceiptStub{5, x.Receipt.FactsHash, x.Receipt.Outcome, x.Receipt.Settled}, stub.Receipt)
}

func TestStubRefuses(t *testing.T) {
	t.Parallel()
	var r Reader
	refused, taken := 0, 0
	for name, s := range sampleStubs() {
		text := string(s.Append(nil))
		for _, a := range attacks(value(t, text), "") {
			switch stub, err := r.Stub(a.text); {
			case err == nil && !bytes.Equal(stub.Append(nil), a.text):
				t.Errorf("%s: %s %s: became %s", name, a.at, a.with, stub.Append(nil))
			case err == nil:
				taken++
				for _, never := range []string{"null", "no list", "negative", "half", "beyond doubles", "control",
					"unknown field", "field in capitals"} {
					assert.NotEqual(t, never, a.with, "%s: %s %s: taken", name, a.at, a.with)
				}
			default:
				refused++
				assert.True(t, isFault(err, Record, "") || isFault(err, Encoding, ""), "%s: %s: %v", name, a.at, err)
			}
		}
		for how, bad := range respell(t, text[len(stubStart):len(text)-1]) {
			_, err := r.Stub([]byte(string(stubStart) + bad + "}"))
			assert.True(t, isFault(err, Encoding, ""), "%s: %s: %v", name, how, err)
		}
		for _, x := range []struct{ what, old, now, field string }{
			{"a member more", "", "", "z"},
			{"the kernel's session", `"session":"` + s.Session + `"`, `"session":""`, "stub.session"},
			{"the refused session", `"session":"` + s.Session + `"`, `"session":"@refused"`, "stub.session"},
		} {
			bad := strings.Replace(text, x.old, x.now, 1)
			if x.what == "a member more" {
				bad = strings.TrimSuffix(text, "}") + `,"z":1}`
			}
			require.NotEqual(t, text, bad)
			_, err := r.Stub([]byte(bad))
			assert.True(t, isFault(err, Record, x.field), "%s: %s: %v", name, x.what, err)
			_, err = r.Leaf([]byte(bad))
			assert.Error(t, err, "%s: %s has a hash", name, x.what)
		}
	}
	assert.True(t, refused >= 500 && taken >= 20, "%d refused, %d taken", refused, taken)
	d := digests(1)[0]
	for what, change := range map[string]func(decision, receipt *Stub){
		"charges in another order":   func(x, _ *Stub) { slices.Reverse(x.Decision.Charges) },
		"nine charges":               func(x, _ *Stub) { x.Decision.Charges = slices.Repeat(x.Decision.Charges, 5)[:9] },
		"a charge over its limit":    func(x, _ *Stub) { x.Decision.Charges[0].Before = 9 },
		"a charge to another's":      func(x, _ *Stub) { x.Decision.Charges[0].Of = "chat-2" },
		"parents in another order":   func(x, _ *Stub) { slices.Reverse(x.Parents) },
		"33 parents":                 func(x, _ *Stub) { x.Parents = digests(33) },
		"nine settlements":           func(_, x *Stub) { x.Receipt.Settled = slices.Repeat(x.Receipt.Settled, 5)[:9] },
		"an outcome that never goes": func(_, x *Stub) { x.Receipt.Outcome = Withheld },
		"facts of a failure":         func(_, x *Stub) { x.Receipt.Outcome, x.Receipt.FactsHash = Failed, &d },
	} {
		stubs := sampleStubs()
		x, y := stubs["decision"], stubs["receipt"]
		before := [2]string{string(x.Append(nil)), string(y.Append(nil))}
		change(x, y)
		bad := string(x.Append(nil))
		if bad == before[0] {
			bad = string(y.Append(nil))
			require.NotEqual(t, before[1], bad, what)
		}
		_, err := r.Stub([]byte(bad))
		assert.True(t, isFault(err, Record, "stub."), "%s: %v", what, err)
	}
	for _, bad := range []string{"", "null", "[]", `"x"`, "{", `{"stub":{}`} {
		_, err := r.Stub([]byte(bad))
		assert.True(t, isFault(err, Encoding, ""), "%s: %v", bad, err)
	}
	for _, bad := range []string{"{}", `{"stub":1}`, `{"stub":[]}`, `{"stub":{}}`} {
		_, err := r.Stub([]byte(bad))
		assert.True(t, isFault(err, Record, ""), "%s: %v", bad, err)
	}
	long := strings.Replace(string(sampleStubs()["plain decision"].Append(nil)), `"t"`,
		`"`+strings.Repeat("t", MaxStub)+`"`, 1)
	_, err := r.Stub([]byte(long))
	assert.True(t, isFault(err, Encoding, ""), "a stub over 8,192 bytes: %v", err)
	for _, both := range []string{`{"payload":"","stub":{}}`, `{"signatures":[],"stub":1}`, `{"stub":{},"z":0}`} {
		_, err := r.Open([]byte(both))
		assert.True(t, isFault(err, Record, "stub"), "%s: %v", both, err)
	}
}

// TestLargestStub: every decision and receipt that may go has a stub of its form.
func TestLargestStub(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("s", maxName)
	budget := "P1:" + strings.Repeat("b", maxID) + ":" + strings.Repeat("c", maxID-1)
	var charges []Charge
	var settled []Settlement
	for i := range MaxCharges {
		b, of := budget+string(rune('a'+i)), strings.Repeat("é", MaxWords/2)
		charges = append(charges, Charge{0, 1<<53 - 1, b, 1<<53 - 1, of, "1970-01-01T00:00:00.000Z"})
		settled = append(settled, Settlement{1<<53 - 1, b, of})
	}
	d := digests(1)[0]
	var r Reader
	for _, s := range []*Stub{
		{d, 1<<53 - 1, digests(32), 1<<53 - 1, name, maxTime,
			&DecisionStub{charges, strings.Repeat(`"`, MaxCallerID/2), 1<<53 - 1, name}, nil},
		{d, 1<<53 - 1, digests(32), 1<<53 - 1, name, maxTime, nil, &ReceiptStub{1<<53 - 1, &d, Executed, settled}},
	} {
		b := s.Append(nil)
		_, err := r.Stub(b)
		assert.NoError(t, err, "%d bytes", len(b))
	}
}

// Any bytes: an accepted stub is written again in the same bytes, and what scans as a stub also
// parses as one, with the same result.
func FuzzStub(f *testing.F) {
	for _, s := range sampleStubs() {
		text := s.Append(nil)
		f.Add(text)
		for i := range text {
			f.Add(slices.Delete(bytes.Clone(text), i, i+1))
			f.Add(slices.Insert(bytes.Clone(text), i, text[i]))
		}
		for i, a := range attacks(value(f, string(text)), "") {
			if i%11 == 0 {
				f.Add(a.text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Reader
		s, err := r.Stub(b)
		require.Equal(t, s != nil, err == nil, "%v with %v", err, s)
		if scanned := r.scanStub(b); scanned != nil {
			parsed, err := r.parseStub(b)
			require.NoError(t, err, "%s", b)
			require.Equal(t, parsed, scanned)
		}
		if err == nil && !bytes.Equal(s.Append(nil), b) {
			t.Fatalf("was\n%s\nand is written\n%s", b, s.Append(nil))
		}
	})
}

// TestStubsScan: the stubs of nearly all logs are scanned, so that reading them takes little time.
func TestStubsScan(t *testing.T) {
	t.Parallel()
	var r Reader
	for name, s := range sampleStubs() {
		scanned := r.scanStub(s.Append(nil))
		if name == "decision" { // its key has quotes
			assert.Nil(t, scanned)
			continue
		}
		assert.Equal(t, s, scanned, name)
	}
}

func BenchmarkReaderStub(b *testing.B) {
	for name, s := range sampleStubs() {
		if s.Decision != nil {
			s.Decision.Idempotency = ""
		}
		line := Entry(s.Append(nil))
		for _, how := range []string{"scanned", "parsed"} {
			b.Run(name+", "+how, func(b *testing.B) {
				var r Reader
				b.ReportAllocs()
				for b.Loop() {
					var again *Stub
					if how == "scanned" {
						again = r.scanStub(line)
					} else {
						again, _ = r.parseStub(line)
					}
					if again == nil {
						b.Fatal("refused")
					}
				}
			})
		}
	}
}
