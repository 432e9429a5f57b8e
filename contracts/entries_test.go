package contracts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

func refused(t *testing.T, name string, payload []byte, class Class, field string) {
	t.Helper()
	_, err := reopen(t, payload)
	var f *FormatError
	assert.True(t, errors.As(err, &f) && f.Class == class && strings.Contains(f.Field, field),
		"%s: %v, want a fault of %s in %s", name, err, field, class)
}

// A trust event's signatures are of distinct keys, in order. Otherwise a key that signs twice would
// meet a threshold of two.
func TestTrustSignaturesAreDistinct(t *testing.T) {
	t.Parallel()
	d := digests(3)
	event := func(ids ...Digest) []byte {
		s := samples()["key"]
		s.Trust.Signatures = nil
		for _, id := range ids {
			s.Trust.Signatures = append(s.Trust.Signatures, Signature{id, make([]byte, 64)})
		}
		return s.Append(nil)
	}
	for _, ids := range [][]Digest{nil, {d[0]}, {d[0], d[1]}, {d[0], d[1], d[2]}} {
		_, err := reopen(t, event(ids...))
		assert.NoError(t, err, "%d signatures", len(ids))
	}
	for name, ids := range map[string][]Digest{"twice": {d[0], d[0]}, "descending": {d[1], d[0]},
		"twice at the end": {d[0], d[1], d[1]}, "first again": {d[0], d[1], d[0]}} {
		refused(t, name, event(ids...), Record, "predicate.signatures")
	}
}

// An event of an unknown type is well formed, whatever its fields: the trust state refuses it. It
// keeps its bytes and its digest.
func TestTrustEventOfAnUnknownType(t *testing.T) {
	t.Parallel()
	for _, event := range []string{`{"extra":{"b":[1,2]},"type":"rotate"}`, `{"type":"x"}`,
		`{"id":1,"origin":2,"type":"keys","version":null}`} {
		s := &Statement{Header: samples()["freeze"].Header,
			Trust: &TrustRecord{Event: TrustEvent{Type: "x", other: []byte(event)}}}
		s.Trust.Event.Type = value(t, event).Get("type").Text()
		payload := s.Append(nil)
		again, err := reopen(t, payload)
		if err != nil {
			t.Errorf("%s: %v", event, err)
			continue
		}
		if got := again.Trust.Event; got.Type != s.Trust.Event.Type || string(got.Append(nil)) != event ||
			got.Digest() != digest(event) || !bytes.Equal(again.Append(nil), payload) {
			t.Errorf("%s became %s", event, got.Append(nil))
		}
	}
	whole := string(samples()["freeze"].Append(nil))
	for name, typ := range map[string]string{"none": ``, "a number": `"type":1,`, "null": `"type":null,`,
		"empty": `"type":"",`, "129 bytes": `"type":"` + strings.Repeat("x", 129) + `",`, "control": `"type":"a\n",`} {
		bad := strings.Replace(whole, `"type":"freeze",`, typ, 1)
		require.NotEqual(t, whole, bad, "nothing was changed")
		refused(t, name, []byte(bad), Record, "predicate.event")
	}
	refused(t, "no object",
		[]byte(strings.Replace(whole, `"event":{"origin":"log","type":"freeze","version":2,"why":"incident"}`,
			`"event":[]`, 1)), Record, "predicate.event")
}

// The names of keys: 128 bytes, of delegators 256.
func TestTrustKeyNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role string
		n    int
		ok   bool
	}{{"approver", 128, true}, {"approver", 129, false}, {"delegator", 129, true}, {"delegator", 256, true},
		{"delegator", 257, false}, {"nobody", 5, true}} {
		s := samples()["key"]
		s.Trust.Event.Role, s.Trust.Event.Name = c.role, strings.Repeat("x", c.n)
		_, err := reopen(t, s.Append(nil))
		assert.Equal(t, c.ok, err == nil, "a %s of %d bytes: %v", c.role, c.n, err)
	}
}

// A kind of entry belongs in the kernel's session or in those of callers, never in both.
func TestKindsInTheirSessions(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, s := range samples() {
		kernels := s.Genesis != nil || s.Policy != nil || s.Trust != nil || s.Condense != nil
		for _, session := range []string{"", "chat-1", SessionRefused} {
			s := *s
			s.Session = session
			if d := s.Judgement(); d != nil {
				d := *d
				d.Seal(session, s.Seq, d.InputsHash)
				if s.Decision != nil {
					s.Decision = &d
				} else {
					s.Receipt = &Receipt{Outcome: Denied, Decision: &d}
				}
			}
			_, err := reopen(t, s.Append(nil))
			assert.Equal(t, kernels && session == "" || !kernels && session == "chat-1", err == nil,
				"%s in session %q: %v", name, session, err)
			checked++
		}
	}
	assert.True(t, checked >= 3*13, "%d kinds and sessions", checked)
}

func TestPolicyRecords(t *testing.T) {
	t.Parallel()
	doc := func(layer, name string) PolicyDocument { return PolicyDocument{digest(name), layer, name, 1} }
	for _, c := range []struct {
		name string
		docs []PolicyDocument
		ok   bool
	}{
		{"stack", []PolicyDocument{doc("P0", "floor"), doc("P1", "bank"), doc("P1", "files"), doc("P2", "z"),
			doc("P2", "a"), doc("P2", "a")}, true},
		{"bundle first", []PolicyDocument{doc("P1", "bank"), doc("P0", "floor")}, false},
		{"overlay in the middle", []PolicyDocument{doc("P2", "a"), doc("P1", "bank")}, false},
		{"bundles not in order", []PolicyDocument{doc("P1", "files"), doc("P1", "bank")}, false},
		{"a bundle twice", []PolicyDocument{doc("P1", "bank"), doc("P1", "bank")}, false},
		{"a floor twice", []PolicyDocument{doc("P0", "floor"), doc("P0", "floor"), doc("P1", "bank")}, false},
		{"another layer", []PolicyDocument{doc("P3", "x")}, false},
		{"nothing", nil, false},
		{"64", slices.Repeat([]PolicyDocument{doc("P2", "a")}, 64), true},
		{"65", slices.Repeat([]PolicyDocument{doc("P2", "a")}, 65), false},
	} {
		s := samples()["policy"]
		s.Policy.Documents = c.docs
		s.Policy.Policy = s.Policy.Hash()
		_, err := reopen(t, s.Append(nil))
		assert.Equal(t, c.ok, err == nil, "%s: %v", c.name, err)
	}
	s := samples()["policy"]
	s.Policy.Engine.Threat++
	refused(t, "another engine", s.Append(nil), Record, "predicate.policy")
}

func TestEntriesThatContradictThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of    string
		do    func(*Statement)
		field string
	}{
		"prev among the parents": {"decision",
			func(s *Statement) { s.Parents[0] = s.Prev; slices.SortFunc(s.Parents, compareDigests) }, "parents"},
		"parents not in order": {"decision", func(s *Statement) { slices.Reverse(s.Parents) }, "parents"},
		"a parent twice":       {"decision", func(s *Statement) { s.Parents[1] = s.Parents[0] }, "parents"},
		"33 parents":           {"decision", func(s *Statement) { s.Parents = digests(33) }, "parents"},
		"count":                {"session", func(s *Statement) { s.Close.Count++ }, "count"},
		"last":                 {"session", func(s *Statement) { s.Close.Last[0]++ }, "last"},
		"a range of nothing":   {"condense", func(s *Statement) { s.Condense.To = s.Condense.From }, "to"},
		"a range backwards":    {"condense", func(s *Statement) { s.Condense.To = 0 }, "to"},
		"a range beyond size":  {"condense", func(s *Statement) { s.Condense.Size = 3 }, "to"},
		"a range too long":     {"condense", func(s *Statement) { rangeOf(s, MaxRange+1, MaxRange) }, "to"},
		"a range of too few":   {"condense", func(s *Statement) { rangeOf(s, 65, 1) }, "to"},
		"an empty set":         {"condense", func(s *Statement) { s.Condense.Dropped = 0 }, "dropped"},
		"until its own future": {"condense", func(s *Statement) { s.Condense.Until = s.Time + 1 }, "until"},
		"version 2":            {"genesis", func(s *Statement) { s.Genesis.Version = 2 }, "version"},
		"seq beyond doubles":   {"message", func(s *Statement) { s.Seq = 1 << 53 }, "seq"},
		"receipt of another's": {"receipt", func(s *Statement) { s.Receipt.DecisionHash[0]++ }, "parents"},
		"nine settlements": {"receipt",
			func(s *Statement) { s.Receipt.Settled = slices.Repeat(s.Receipt.Settled, 9) }, "settled"},
		"effect of another argument": {"receipt", func(s *Statement) { s.Receipt.ArgsHash[0]++ }, "effectHash"},
	} {
		s := samples()[c.of]
		c.do(s)
		refused(t, name, s.Append(nil), Record, "predicate."+c.field)
	}
	s := samples()["receipt"]
	s.Prev, s.Parents = digest("another"), []Digest{s.Receipt.DecisionHash}
	_, err := reopen(t, s.Append(nil))
	assert.NoError(t, err, "the decision among the parents")
	s.Parents = digests(32)
	_, err = reopen(t, s.Append(nil))
	assert.Error(t, err, "32 parents, of which the decision is none")
}

// rangeOf makes the range of a condense entry so long, and its set so large.
func rangeOf(s *Statement, long, dropped uint64) {
	s.Condense.To = s.Condense.From + long
	s.Condense.Size, s.Condense.Dropped = s.Condense.To, dropped
}

// TestCondenseBounds: the longest range, of the fewest entries, is a record.
func TestCondenseBounds(t *testing.T) {
	t.Parallel()
	for _, long := range []uint64{1, 64, MaxRange} {
		s := samples()["condense"]
		rangeOf(s, long, (long+63)/64)
		s.Condense.Until = s.Time
		_, err := reopen(t, s.Append(nil))
		assert.NoError(t, err, "%d entries", long)
	}
}

func compareDigests(a, b Digest) int { return bytes.Compare(a[:], b[:]) }

// The subject outside the record matches the record.
func TestSubject(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, s := range samples() {
		payload := string(s.Append(nil))
		subject, hash := s.subject()
		at := strings.LastIndex(payload, `"subject":`)
		tail := payload[at:]
		assert.True(t, strings.Contains(tail, hash.String()) && strings.Contains(tail, `"name":"`+subject+`"`),
			"%s: %s", name, tail)
		refused(t, name+" of another name", []byte(payload[:at]+strings.Replace(tail, subject, subject+"x", 1)), Record,
			"subject")
		refused(t, name+" of another digest",
			[]byte(payload[:at]+strings.Replace(tail, hash.String(), digest("another").String(), 1)), Record, "subject")
		refused(t, name+" twice",
			[]byte(payload[:at]+strings.Replace(tail, `}]}`, `},{"digest":{"sha256":"`+hash.String()+`"},"name":"x"}]}`,
				1)), Shape, "subject")
		checked++
	}
	assert.True(t, checked >= 13, "%d kinds", checked)
	assert.Equal(t, Kind(""), (&Statement{}).Kind(), "an empty statement has a kind")
}

// The layers of an entry, each refused by its own check.
func TestReaderLayers(t *testing.T) {
	t.Parallel()
	payload := samples()["message"].Append(nil)
	good := string(sealIn(payload))
	sig := strings.Repeat("A", 86) + "=="
	var r Reader
	if _, err := r.Open([]byte(good)); err != nil {
		t.Fatal(err)
	}
	wrap := func(payload string) string { return string(sealIn([]byte(payload))) }
	text := string(payload)
	for name, c := range map[string]struct {
		entry string
		class Class
	}{
		"nothing":       {"", Encoding},
		"not JSON":      {good[:len(good)-1], Encoding},
		"a list":        {"[]", Encoding},
		"a space":       {" " + good, Encoding},
		"a line feed":   {good + "\n", Encoding},
		"not canonical": {strings.Replace(good, `"payload":`, `"payload": `, 1), Encoding},
		"payload twice": {strings.Replace(good, `{"payload":`, `{"payload":"e30=","payload":`, 1),
			Encoding},
		"over 32 KiB":                 {good + strings.Repeat(" ", MaxEntry), Encoding},
		"payload in the URL alphabet": {`{"payload":"-_8=","payloadType":"application/vnd.in-toto+json","signatures":[]}`, Encoding},
		"payload with a line end":     {strings.Replace(good, `"payload":"`, `"payload":"\n`, 1), Encoding},
		"payload without padding":     {strings.Replace(wrap("{}"), `"e30="`, `"e30"`, 1), Encoding},
		"payload with spare bits":     {strings.Replace(wrap("{}"), `"e30="`, `"e31="`, 1), Encoding},
		"payload that is empty":       {wrap(""), Encoding},
		"payload that is a list":      {wrap("[]"), Encoding},
		"payload not canonical":       {wrap(" " + text), Encoding},
		"payload with a duplicate":    {wrap(strings.Replace(text, `"_type":`, `"_type":"x","_type":`, 1)), Encoding},
		"payload over 16 KiB": {wrap(strings.Replace(text, "chat-1", strings.Repeat("x", MaxPayload), 1)),
			Encoding},
		"signature in no base64":    {strings.Replace(good, sig, "?", 1), Encoding},
		"signature with spare bits": {strings.Replace(good, sig, strings.Repeat("A", 85)+"B==", 1), Encoding},
		"payload that is a number":  {`{"payload":1,"payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"` + digest("k").String() + `","sig":"` + sig + `"}]}`, Shape},
		"a fourth member":           {strings.Replace(good, `{"payload":`, `{"note":"x","payload":`, 1), Shape},
		"no signatures member":      {`{"payload":"e30=","payloadType":"application/vnd.in-toto+json"}`, Shape},
		"no signature": {`{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[]}`,
			Shape},
		"two signatures": {strings.Replace(good, `"signatures":[`,
			`"signatures":[{"keyid":"`+digest("k").String()+`","sig":"`+sig+`"},`, 1), Shape},
		"signature of 63 bytes":    {strings.Replace(good, sig, strings.Repeat("A", 84), 1), Shape},
		"signature that is a list": {strings.Replace(good, `"signatures":[{`, `"signatures":[[],{`, 1), Shape},
		"another payload type": {strings.Replace(good, "application/vnd.in-toto+json", "application/json", 1),
			Shape},
		"upper-case key id": {strings.Replace(good, digest("key").String(),
			strings.ToUpper(digest("key").String()), 1), Shape},
		"another statement type": {wrap(strings.Replace(text, "Statement/v1", "Statement/v0.1", 1)), Shape},
		"another version":        {wrap(strings.Replace(text, "message/v1", "message/v2", 1)), Shape},
		"a statement of more":    {wrap(strings.Replace(text, `}]}`, `}],"zz":1}`, 1)), Shape},
		"no predicate": {wrap(`{"_type":"` + statementType + `","predicateType":"` + kindPrefix +
			`message/v1","subject":[]}`), Shape},
		"a predicate that is a number": {wrap(`{"_type":"` + statementType + `","predicate":1,"predicateType":"` +
			kindPrefix + `message/v1","subject":[]}`), Shape},
	} {
		assert.NotEqual(t, good, c.entry, "%s: nothing was changed", name)
		sealed, err := r.Open([]byte(c.entry))
		assert.True(t, sealed == nil && isFault(err, c.class, ""), "%s: %v, want %s", name, err, c.class)
		// nothing is left of it
		sealed, err = r.Open([]byte(good))
		assert.True(t, err == nil && bytes.Equal(sealed.Payload, payload), "after %s: %v", name, err)
	}
	for _, kind := range []Kind{KindManifest, KindApproval, KindDelegation, KindAttestation, KindBundle, "intent"} {
		refused(t, string(kind), []byte(strings.Replace(text, kindPrefix+"message", kindPrefix+string(kind), 1)),
			Record, "predicateType")
	}
	sealed, err := r.Open([]byte(good))
	require.NoError(t, err)
	key, ok := sealed.Key()
	assert.True(t, ok && key == digest("key") && sealed.KeyID == key && sealed.Kind == KindMessage &&
		len(sealed.Sig) == 64, "%+v", sealed)
	for name, bad := range map[string]string{"none": ``, "a number": `"key":1,`,
		"upper case": `"key":"` + strings.ToUpper(digest("key").String()) + `",`} {
		sealed, err := r.Open(sealIn([]byte(strings.Replace(text, `"key":"`+digest("key").String()+`",`, bad, 1))))
		require.NoError(t, err)
		_, ok := sealed.Key()
		assert.False(t, ok, "key of %s is a key", name)
	}
}

// Every flipped bit of an entry, and every truncation: refused by form, or another payload than the
// one that was signed.
func TestReaderMangled(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	var r Reader
	for _, name := range []string{"decision", "receipt", "denied"} {
		payload := samples()[name].Append(nil)
		good := sealIn(payload)
		passes := 0
		for i := range 8 * len(good) {
			bad := bytes.Clone(good)
			bad[i/8] ^= 1 << (i % 8)
			if sealed, err := r.Open(bad); err == nil {
				passes++
				if bytes.Equal(sealed.Payload, payload) && sealed.KeyID == digest("key") && bytes.Equal(sealed.Sig,
					make([]byte, 64)) {
					t.Fatalf("%s: bit %d changes nothing", name, i)
				}
				_, _ = sealed.Statement() // it must not panic
			}
			_, err := r.Open(good[:i/8])
			require.Error(t, err, "%s: the first %d bytes are an entry", name, i/8)
		}
		assert.NotEqual(t, 0, passes, "%s: no bit is in what the signature protects", name)
	}
}

func TestManifest(t *testing.T) {
	t.Parallel()
	p := &EvidencePack{Blobs{5, 2, digest("blobs")}, digest("checkpoint"), Bytes{7, digest("entries")}, digest("key"),
		digest("root"), "example.test/log", digest("heads"), Sessions{3, digest("sessions")}, 9}
	open := func(payload []byte) (*EvidencePack, error) {
		var r Reader
		sealed, err := r.Open(sealIn(payload))
		if err != nil {
			return nil, err
		}
		return sealed.Manifest()
	}
	payload := p.Append(nil)
	again, err := open(payload)
	require.True(t, err == nil && *again == *p && bytes.Equal(again.Append(nil), payload), "%+v %v", again, err)
	cases := 0
	for _, bad := range spoil(value(t, string(payload))) {
		again, err := open(bad)
		assert.True(t, again == nil && (isFault(err, Record, "") || isFault(err, Shape, "")), "%v: %s", err, bad)
		cases++
	}
	for _, c := range [][2]string{{`"size":9`, `"size":0`}, {`"size":9`, `"size":9007199254740992`},
		{`"size":9`, `"size":"9"`}, {`"name":"example.test/log"`, `"name":"example.test"`},
		{`"origin":"example.test/log"`, `"origin":"example test"`}, {`"bytes":5`, `"bytes":-5`},
		{"manifest/v1", "message/v1"}, {`[{"digest":{"sha256":"` + digest("root").String(),
			`[{"digest":{"sha256":"` + digest("heads").String()}} {
		bad := strings.Replace(string(payload), c[0], c[1], 1)
		if again, err := open([]byte(bad)); bad == string(payload) || err == nil || again != nil {
			t.Errorf("%s: %v", c[1], err)
		}
		cases++
	}
	assert.True(t, cases >= 50, "%d cases", cases)
	if end := (&SessionEnd{3, digest("last"), ""}).Append(nil); string(end) != `{"count":3,"last":"`+
		digest("last").String()+`","session":""}` {
		t.Errorf("%s", end)
	}
}

// The longest names and lists that a record may have still make an entry that may be read.
func TestLongestDecisionFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	var roles []string
	for i := range MaxRoles {
		roles = append(roles, fmt.Sprintf("%02d", i)+strings.Repeat("x", 62))
	}
	d := &DecisionRecord{ArgsHash: digest("args"), Caller: Caller{long, long, roles}, Condition: 8,
		EffectType: Destructive, Expires: maxTime, Risk: Medium, PolicyHash: digest("policy"),
		Approvals: digests(16), Attestations: digests(16), Delegation: ptr(digest("x")), Idempotency: long,
		Reason: ReasonAllow, Rule: "P1:" + long[:64] + ":" + long[:64], Tool: long[:128], Verdict: Allow}
	for i := range MaxListed {
		d.Signals = append(d.Signals, string(rune('a'+i))+long[:63])
	}
	for i := range MaxCharges {
		d.Charges = append(d.Charges, Charge{crypto.MaxInt - 1, 1, d.Rule, crypto.MaxInt,
			string(rune('a'+i)) + long[:127], maxTime.String()})
	}
	s := &Statement{Header: Header{Key: digest("key"), Lamport: crypto.MaxInt, Parents: digests(32),
		Prev: digest("prev"), Seq: crypto.MaxInt, Session: long[:128], Time: maxTime}, Decision: d}
	d.Seal(s.Session, s.Seq, digest("inputs"))
	payload := s.Append(nil)
	again, err := reopen(t, payload)
	assert.True(t, err == nil && bytes.Equal(again.Append(nil), payload) && len(payload) <= MaxPayload &&
		len(sealIn(payload)) <= MaxEntry, "%d bytes: %v", len(payload), err)
}
