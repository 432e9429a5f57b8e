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

// eventSamples has one event of each type, whole but for signatures.
func eventSamples(t testing.TB) map[string]TrustEvent {
	t.Helper()
	prove := func(e TrustEvent, by ...string) TrustEvent {
		t.Helper()
		for _, name := range by {
			var err error
			e, err = e.Prove(keyOf(t, name))
			require.NoError(t, err)
		}
		return e
	}
	root := func(name string) RootKey { return RootKey{Name: name, Public: publicOf(t, keyOf(t, name))} }
	kernel := crypto.KeyID(publicOf(t, keyOf(t, "kernel")))
	return map[string]TrustEvent{
		"key": prove(TrustEvent{Type: "key", Origin: "example.test/log", Version: 2, Name: "kernel 2",
			Role: "kernel"}, "kernel 2"),
		"approver": prove(TrustEvent{Type: "key", Origin: "example.test/log", Version: 3, Name: "ann \"a\"",
			Role: "approver", Roles: []string{"owner", "cfo", "owner"}}, "ann"),
		"delegator": prove(TrustEvent{Type: "key", Origin: "l", Version: 3, Name: strings.Repeat("é", 128),
			Role: "delegator", Roles: roleNames(32)}, "bob"),
		"revoke": {Type: "revoke", Origin: "example.test/log", Version: 4, ID: &kernel, Why: "rotated"},
		"root": prove(TrustEvent{Type: "root", Origin: "example.test/log", Version: 5,
			Keys: []RootKey{root("r1"), root("r2"), root("r3")}, Threshold: 2}, "r1", "r2", "r3"),
		"undelegate": {Type: "undelegate", Origin: "example.test/log", Version: 6, Delegation: ptr(digest("grant")),
			Delegator: "bob"},
		"freeze":   {Type: "freeze", Origin: "example.test/log", Version: 7, Why: "incident"},
		"unfreeze": {Type: "unfreeze", Origin: "example.test/log", Version: 8, Why: "over"},
	}
}

func signed(t testing.TB, e TrustEvent, by ...string) Envelope {
	t.Helper()
	record := TrustRecord{Event: e}
	var env Envelope
	for _, name := range by {
		var err error
		env, err = record.Sign(keyOf(t, name))
		require.NoError(t, err)
		next, err := ParseTrust(env)
		require.NoError(t, err)
		record = *next
	}
	return env
}

// An event goes from signer to signer, and the envelope does not depend on their order. It is read
// as it was made, and written again in the same bytes.
func TestTrustEventIsSignedByMany(t *testing.T) {
	t.Parallel()
	for name, e := range eventSamples(t) {
		env := signed(t, e, "r1", "r2", "r3")
		for _, order := range [][]string{{"r3", "r2", "r1"}, {"r2", "r3", "r1"}, {"r1", "r1", "r2", "r3", "r1", "r2"}} {
			other := signed(t, e, order...)
			assert.True(t, bytes.Equal(other, env), "%s: signed by %v it is\n%s\nand was\n%s", name, order, other, env)
		}
		record, err := ParseTrust(env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b := record.Append(nil)
		assert.True(t, bytes.Equal(b, env), "%s: read and written again\n%s\nwas\n%s", name, b, env)
		want, err := jcs.Transform(env)
		assert.True(t, err == nil && bytes.Equal(want, env), "%s: not canonical: %v", name, err)
		if record.Event.Digest() != e.Digest() || !bytes.Equal(record.Event.Message(), e.Message()) ||
			len(record.Signatures) != 3 {
			t.Errorf("%s: read as %s with %d signatures", name, record.Event.Append(nil), len(record.Signatures))
		}
		want = crypto.AppendPAE(nil, "application/vnd.helm.trust-event+json",
			e.Append(nil))
		assert.True(t, bytes.Equal(e.Message(), want), "%s: signatures are over %q", name, e.Message())
		for _, who := range []string{"r1", "r2", "r3"} {
			public := publicOf(t, keyOf(t, who))
			i := slices.IndexFunc(record.Signatures, func(s Signature) bool { return s.KeyID == crypto.KeyID(public) })
			assert.True(t, i >= 0 && crypto.Verify(public, e.Message(), record.Signatures[i].Sig),
				"%s: the signature of %s is at %d, and does not verify", name, who, i)
		}
		// the content of the envelope goes into an entry
		s := &Statement{Header: samples()["freeze"].Header, Trust: record}
		again, err := reopen(t, s.Append(nil))
		assert.True(t, err == nil && bytes.Equal(again.Trust.Append(nil), env), "%s: in an entry: %v", name, err)
	}
}

// Two signers of one record do not get into each other's way.
func TestSignLeavesTheRecord(t *testing.T) {
	t.Parallel()
	r, err := ParseTrust(signed(t, eventSamples(t)["freeze"], "r1"))
	require.NoError(t, err)
	r.Signatures = append(make([]Signature, 0, 8), r.Signatures...)
	before := r.Append(nil)
	for _, name := range []string{"r1", "r2", "r3", "r4", "r5"} {
		if _, err := r.Sign(keyOf(t, name)); err != nil || !bytes.Equal(r.Append(nil), before) ||
			len(r.Signatures[:2][1].Sig) != 0 {
			t.Errorf("%s: %v: %s", name, err, r.Append(nil))
		}
	}
	r.Signatures[0].Sig[3] ^= 1 // a key that signs again replaces its wrong signature
	again, err := r.Sign(keyOf(t, "r1"))
	assert.True(t, err == nil && bytes.Equal(again, before) && !bytes.Equal(r.Append(nil), before), "%v: %s", err,
		again)
}

// A proof is over the event without its proofs, so several keys can prove themselves in any order,
// and none after a change.
func TestProofs(t *testing.T) {
	t.Parallel()
	e := eventSamples(t)
	key, root := e["key"], e["root"]
	public := publicOf(t, keyOf(t, "kernel 2"))
	if *key.ID != crypto.KeyID(public) || !bytes.Equal(key.Public, public) ||
		!crypto.Verify(public, key.ProofMessage(), key.Proof) {
		t.Errorf("%s", key.Append(nil))
	}
	approver := e["approver"]
	assert.True(t, slices.Equal(approver.Roles, []string{"cfo", "owner"}), "roles %q", approver.Roles)
	without := `{"id":"` + key.ID.String() + `","name":"kernel 2","origin":"example.test/log","public":"` +
		string(crypto.AppendBase64(nil, public)) + `","role":"kernel","type":"key","version":2}`
	want := crypto.AppendPAE(nil, trustType, []byte(without))
	assert.True(t, bytes.Equal(key.ProofMessage(), want), "%q\nwant\n%q", key.ProofMessage(), want)
	if !slices.IsSortedFunc(root.Keys, func(a, b RootKey) int { return bytes.Compare(a.ID[:], b.ID[:]) }) ||
		bytes.Contains(root.ProofMessage(), []byte("proof")) {
		t.Errorf("%s", root.Append(nil))
	}
	for _, k := range root.Keys {
		assert.True(t, k.ID == crypto.KeyID(k.Public) && crypto.Verify(k.Public, root.ProofMessage(), k.Proof), "%s",
			k.Name)
	}
	listed := []RootKey{{Name: "r1", Public: publicOf(t, keyOf(t, "r1"))},
		{Name: "r2", Public: publicOf(t, keyOf(t, "r2"))}, {Name: "r3", Public: publicOf(t, keyOf(t, "r3"))}}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		e := TrustEvent{Type: "root", Origin: "example.test/log", Version: 5, Threshold: 2}
		for _, i := range order {
			e.Keys = append(e.Keys, listed[i])
		}
		mine, was := e.Keys, slices.Clone(e.Keys)
		for _, i := range order {
			var err error
			e, err = e.Prove(keyOf(t, listed[i].Name))
			require.NoError(t, err)
		}
		assert.True(t, bytes.Equal(e.Append(nil), root.Append(nil)), "%v: %s", order, e.Append(nil))
		for i, k := range mine {
			assert.True(t, k.Proof == nil && k.ID == (Digest{}) && k.Name == was[i].Name,
				"Prove changes the list that it was given")
		}
	}
	changed := key
	changed.Role = "log"
	assert.False(t, crypto.Verify(public, changed.ProofMessage(), changed.Proof), "the proof holds for another role")
}

func TestProveRefuses(t *testing.T) {
	t.Parallel()
	whole := eventSamples(t)
	for name, c := range map[string]struct {
		e   TrustEvent
		key crypto.Signer
	}{
		"another key": {TrustEvent{Type: "key", Name: "n", Role: "log", Public: publicOf(t, keyOf(t, "x"))},
			keyOf(t, "y")},
		"another key's id":  {TrustEvent{Type: "key", Name: "n", Role: "log", ID: ptr(digest("x"))}, keyOf(t, "y")},
		"a root not listed": {whole["root"], keyOf(t, "r4")},
		"no roots":          {TrustEvent{Type: "root"}, keyOf(t, "r1")},
		"a revocation":      {whole["revoke"], keyOf(t, "kernel")},
		"a freeze":          {whole["freeze"], keyOf(t, "kernel")},
		"no type":           {TrustEvent{}, keyOf(t, "kernel")},
		"a name not UTF-8":  {TrustEvent{Type: "key", Name: "\xff", Role: "log"}, keyOf(t, "y")},
		"no key":            {TrustEvent{Type: "key", Name: "n", Role: "log"}, nil},
		"the zero key":      {TrustEvent{Type: "key", Name: "n", Role: "log"}, crypto.PrivateKey{}},
		"a signer that lies": {TrustEvent{Type: "key", Name: "n", Role: "log"},
			&counted{key: keyOf(t, "y"), lies: true}},
		"a signer that fails": {TrustEvent{Type: "key", Name: "n", Role: "log"},
			&counted{key: keyOf(t, "y"), fails: true}},
	} {
		e, err := c.e.Prove(c.key)
		assert.True(t, err != nil && e.Type == "" && e.ID == nil && e.Proof == nil && e.Keys == nil &&
			strings.HasPrefix(err.Error(), "contracts: prove a key: "), "%s: %v", name, err)
	}
}

// Nothing is signed that could not be read, or that has no room in an entry.
func TestTrustSignRefuses(t *testing.T) {
	t.Parallel()
	whole := eventSamples(t)
	with := func(name string, change func(*TrustEvent)) TrustEvent {
		e := whole[name]
		change(&e)
		return e
	}
	var many []RootKey
	for i := range 60 {
		many = append(many, RootKey{ID: digest(fmt.Sprint(i)), Name: strings.Repeat("x", 128), Proof: make([]byte, 64),
			Public: make([]byte, 32)})
	}
	for name, c := range map[string]struct {
		e    TrustEvent
		says string
	}{
		"no type":               {TrustEvent{}, "type"},
		"a type of nobody":      {TrustEvent{Type: "rotate", Origin: "l"}, "type"},
		"no origin":             {with("freeze", func(e *TrustEvent) { e.Origin = "" }), "origin"},
		"an origin with spaces": {with("freeze", func(e *TrustEvent) { e.Origin = "a b" }), "origin"},
		"no reason":             {with("freeze", func(e *TrustEvent) { e.Why = "" }), "why"},
		"129 bytes of reason":   {with("unfreeze", func(e *TrustEvent) { e.Why = strings.Repeat("x", 129) }), "why"},
		"a reason not UTF-8":    {with("revoke", func(e *TrustEvent) { e.Why = "\xff" }), "not UTF-8"},
		"version beyond":        {with("freeze", func(e *TrustEvent) { e.Version = 1 << 53 }), "version"},
		"no id":                 {with("revoke", func(e *TrustEvent) { e.ID = nil }), "id"},
		"no id of a key":        {with("key", func(e *TrustEvent) { e.ID = nil }), "id"},
		"no proof":              {with("key", func(e *TrustEvent) { e.Proof = nil }), "proof"},
		"a short proof":         {with("key", func(e *TrustEvent) { e.Proof = e.Proof[:63] }), "proof"},
		"no public key":         {with("key", func(e *TrustEvent) { e.Public = nil }), "public"},
		"no name":               {with("key", func(e *TrustEvent) { e.Name = "" }), "name"},
		"129 bytes of name":     {with("key", func(e *TrustEvent) { e.Name = strings.Repeat("x", 129) }), "name"},
		"no role":               {with("key", func(e *TrustEvent) { e.Role = "" }), "role"},
		"roles not sorted":      {with("approver", func(e *TrustEvent) { e.Roles = []string{"b", "a"} }), "roles"},
		"33 roles":              {with("approver", func(e *TrustEvent) { e.Roles = roleNames(33) }), "roles"},
		"a root without proof": {with("root",
			func(e *TrustEvent) { e.Keys = slices.Clone(e.Keys); e.Keys[1].Proof = nil }), "proof"},
		"threshold beyond": {with("root", func(e *TrustEvent) { e.Threshold = 1 << 53 }), "threshold"},
		"no delegation":    {with("undelegate", func(e *TrustEvent) { e.Delegation = nil }), "delegation"},
		"no delegator":     {with("undelegate", func(e *TrustEvent) { e.Delegator = "" }), "delegator"},
		"60 roots":         {with("root", func(e *TrustEvent) { e.Keys = many }), "longer than"},
		"40 roots":         {with("root", func(e *TrustEvent) { e.Keys = many[:35] }), "over 12 KiB"},
	} {
		asked := &counted{key: keyOf(t, "r1")}
		if env, err := (TrustRecord{Event: c.e}).Sign(asked); err == nil || env != nil || asked.signed > 0 ||
			!strings.HasPrefix(err.Error(), "contracts: sign a trust event: ") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, signed %d times", name, err, asked.signed)
		}
	}
	for name, key := range map[string]crypto.Signer{"none": nil, "the zero key": crypto.PrivateKey{},
		"one that lies": &counted{key: keyOf(t, "r1"), lies: true}} {
		env, err := (TrustRecord{Event: whole["freeze"]}).Sign(key)
		assert.True(t, err != nil && env == nil, "by %s: %v", name, err)
	}
	twice := TrustRecord{whole["freeze"], []Signature{{digest("b"), make([]byte, 64)}, {digest("b"), make([]byte, 64)}}}
	env, err := twice.Sign(keyOf(t, "r1"))
	assert.True(t, err != nil && env == nil, "one key twice: %v", err)
	short := TrustRecord{whole["freeze"], []Signature{{digest("b"), make([]byte, 63)}}}
	env, err = short.Sign(keyOf(t, "r1"))
	assert.True(t, err != nil && env == nil, "a signature of 63 bytes: %v", err)
}

// Every field of each event in turn is left out, emptied, of another type and out of its limits; so
// is all around it.
func TestParseTrustRefuses(t *testing.T) {
	t.Parallel()
	taken := table.Map[string, []string](t, "parse_trust_refuses", 5)
	for name := range taken {
		e := eventSamples(t)[name]
		env := signed(t, e, "r1", "r2")
		text := string(env)
		wrap := func(event []byte) Envelope {
			return Envelope(strings.Replace(text, string(crypto.AppendBase64(nil, e.Append(nil))),
				string(crypto.AppendBase64(nil, event)), 1))
		}
		again := wrap(e.Append(nil))
		require.True(t, bytes.Equal(again, env), "the event is not in its envelope")
		refused := 0
		var met []string
		for _, a := range attacks(value(t, string(e.Append(nil))), "") {
			if a.at == "" && a.text[0] != '{' {
				continue // the reader of the payload wants an object
			}
			record, err := ParseTrust(wrap(a.text))
			if err == nil {
				b := record.Append(nil)
				assert.True(t, bytes.Equal(b, wrap(value(t, string(a.text)).Append(nil))), "%s: %s %s: became %s", name,
					a.at, a.with, b)
				met = append(met, a.at+" "+a.with)
				continue
			}
			assert.True(t, record == nil && isFault(err, Record, "payload"), "%s: %s %s: %v with %v", name, a.at,
				a.with, err, record)
			refused++
		}
		if list := taken[name]; list != nil {
			slices.Sort(list)
			slices.Sort(met)
			assert.True(t, slices.Equal(met, list), "%s: taken: %q\nwant %q", name, met, list)
		}
		for _, what := range met { // no accepted change is one of these
			for _, never := range []string{" omitted", " null", " empty", " negative", " half", " true",
				" beyond doubles", " control", " deleted", " unknown field", " 300 bytes"} {
				if strings.HasSuffix(what, never) && !strings.HasPrefix(what, "roles") && !strings.HasPrefix(what,
					"keys") {
					t.Errorf("%s: %s: taken", name, what)
				}
			}
		}
		assert.True(t, refused >= 50, "%s: %d refused", name, refused)
		must := func(what, bad string, class Class) {
			t.Helper()
			record, err := ParseTrust(Envelope(bad))
			assert.True(t, bad != text && record == nil && isFault(err, class, ""), "%s: %s: %v, want %s", name, what,
				err, class)
		}
		for how, bad := range respell(t, text) {
			must("envelope with "+how, bad, Encoding)
		}
		for how, bad := range respell(t, string(e.Append(nil))) {
			must("event with "+how, string(wrap([]byte(bad))), Encoding)
		}
		list := text[strings.Index(text, `"signatures":[`)+14 : len(text)-2]
		a, b, _ := strings.Cut(list, "},{")
		a, b = a+"}", "{"+b
		must("no signature", strings.Replace(text, list, "", 1), Shape)
		must("one signature twice", strings.Replace(text, list, a+","+a, 1), Shape)
		must("signatures the other way round", strings.Replace(text, list, b+","+a, 1), Shape)
		must("a signature of 63 bytes", strings.Replace(text, b[strings.Index(b, `"sig":"`)+7:len(b)-2],
			string(crypto.AppendBase64(nil, make([]byte, 63))), 1), Shape)
		must("a key id in capitals", strings.Replace(text, a[10:74], strings.ToUpper(a[10:74]), 1), Shape)
		must("one member more", strings.Replace(text, `]}`, `],"zz":1}`, 1), Shape)
		must("the payload type of entries", strings.Replace(text, trustType, PayloadType, 1), Shape)
		must("no payload", strings.Replace(text, `"payload":"`+string(crypto.AppendBase64(nil, e.Append(nil)))+`",`, "",
			1), Shape)
		must("spare bits", strings.Replace(text, `=="}]}`, `"}]}`, 1), Encoding)
		must("a list", string(wrap([]byte("[]"))), Encoding)
		must("nothing", "", Encoding)
		_, err := new(Reader).Open(env)
		assert.True(t, isFault(err, Shape, ""), "%s: taken for an entry: %v", name, err)
	}
}

// The largest event that an envelope may hold has room in an entry with the largest header.
func TestGovernedHasRoomInItsEntry(t *testing.T) {
	t.Parallel()
	e := eventSamples(t)["undelegate"]
	e.Delegator = strings.Repeat("x", 256)
	record := TrustRecord{Event: e}
	n := 0
	for ; n < 100; n++ {
		env, err := record.Sign(keyOf(t, fmt.Sprint("root ", n)))
		if err != nil {
			break
		}
		next, err := ParseTrust(env)
		require.NoError(t, err)
		record = *next
	}
	assert.True(t, n >= 50 && n <= 70, "%d signatures", n)
	h := Header{Lamport: crypto.MaxInt, Seq: crypto.MaxInt, Parents: digests(32), Time: maxTime, Prev: digest("prev"),
		Key: digest("key")}
	record.Event.Origin = strings.Repeat("o", 255)
	payload := (&Statement{Header: h, Trust: &record}).Append(nil)
	if len(payload) > MaxPayload || len(sealIn(payload)) > MaxEntry {
		t.Errorf("an entry of %d bytes", len(sealIn(payload)))
	}
}

// Any bytes: no panic, and an accepted event is written again in the same bytes.
func FuzzParseTrust(f *testing.F) {
	for _, e := range eventSamples(f) {
		env := signed(f, e, "r1", "r2")
		f.Add([]byte(env), false)
		f.Add(e.Append(nil), true)
		for i, a := range attacks(value(f, string(e.Append(nil))), "") {
			if i%9 == 0 {
				f.Add(a.text, true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, event bool) {
		if event {
			b = []byte(`{"payload":"` + string(crypto.AppendBase64(nil, b)) + `","payloadType":"` + trustType +
				`","signatures":[{"keyid":"` + digest("k").String() + `","sig":"` +
				string(crypto.AppendBase64(nil, make([]byte, 64))) + `"}]}`)
		}
		record, err := ParseTrust(b)
		require.Equal(t, record != nil, err == nil, "%v with %v", err, record)
		if err == nil && !bytes.Equal(record.Append(nil), b) {
			t.Fatalf("was\n%s\nand is written\n%s", b, record.Append(nil))
		}
	})
}
