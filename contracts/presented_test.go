package contracts

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/table"
)

func keyOf(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := digest("key of " + name)
	k, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	return k
}

func publicOf(t testing.TB, k crypto.Signer) crypto.PublicKey {
	t.Helper()
	p, err := crypto.PublicOf(k)
	require.NoError(t, err)
	return p
}

func sampleRequest() ApprovalRequest {
	d := digests(3)
	return ApprovalRequest{ArgsHash: d[0], Caller: Caller{"alice <a@example.org>", "acme", []string{"clerk", "owner"}},
		Expires: 1767225900000, Nonce: strings.Repeat("0f", 16),
		NotBefore: 1767225600123, PolicyHash: d[1], Quorum: 2, Roles: []string{"cfo", "owner"}, SchemaHash: d[2],
		Session: "chat-1", Tool: "send_money"}
}

// A presented is one kind of statement that callers present, in every field.
type sample struct {
	kind Kind
	sign func(crypto.Signer) (Envelope, error)
	open func(*Sealed) (visitor, error)
	want visitor // without the key
}

func written(v visitor) []byte { return write(nil, v.visit) }

func opening[V visitor](open func(*Sealed) (V, error)) func(*Sealed) (visitor, error) {
	return func(s *Sealed) (visitor, error) {
		x, err := open(s)
		if err != nil {
			if !reflect.ValueOf(x).IsNil() {
				panic("half a record")
			}
			return nil, err
		}
		return x, nil
	}
}

func presentedSamples(t testing.TB) map[string]sample {
	request, d := sampleRequest(), digests(2)
	grant := Delegation{Delegate: "bob", Delegator: "alice \"a\"", Depth: 3, Expires: 1767225900000, Nonce: "n 1",
		NotBefore: 1767225600000,
		Only:      []string{"list_payments", "send_money"}, Parent: &d[0], When: value(t, `{"arg":"/amount","le":50}`)}
	bare := Delegation{Delegate: "bob", Delegator: "alice", Expires: 1, Nonce: "n"}
	word := Attestation{Args: &d[0], Claims: value(t, `{"by":["x",1.5,null]}`), Expires: 1767225900000,
		Session: "chat-1", Time: 1767225600123, Type: "dual-control"}
	plain := Attestation{Claims: value(t, `{}`), Time: 1, Type: "x"}
	bundle := Bundle{Digest: d[1], Name: "bank", Version: 12}
	approval := Approval{Request: request, Time: 1767225700000, Verdict: Allow}
	open := map[Kind]func(*Sealed) (visitor, error){KindApproval: opening((*Sealed).Approval),
		KindDelegation:  opening((*Sealed).Delegation),
		KindAttestation: opening((*Sealed).Attestation), KindBundle: opening((*Sealed).Bundle)}
	return map[string]sample{
		"approve": {KindApproval, request.Approve, open[KindApproval],
			&Approval{Request: request, Time: request.NotBefore, Verdict: Allow}},
		"refuse": {KindApproval, request.Refuse, open[KindApproval],
			&Approval{Request: request, Time: request.NotBefore, Verdict: Deny}},
		"approval":    {KindApproval, approval.Sign, open[KindApproval], &approval},
		"grant":       {KindDelegation, grant.Sign, open[KindDelegation], &grant},
		"bare grant":  {KindDelegation, bare.Sign, open[KindDelegation], &bare},
		"attestation": {KindAttestation, word.Sign, open[KindAttestation], &word},
		"plain word":  {KindAttestation, plain.Sign, open[KindAttestation], &plain},
		"bundle":      {KindBundle, bundle.Sign, open[KindBundle], &bundle},
		"bundle of max": {KindBundle, Bundle{Name: strings.Repeat("b", 64), Version: crypto.MaxInt}.Sign,
			open[KindBundle], &Bundle{Name: strings.Repeat("b", 64), Version: crypto.MaxInt}},
	}
}

// A signed statement is read as it was meant, by its own reader and by no other, and is written
// again in the same bytes. The signature is the signer's, and the subject is the digest of the
// predicate without the key.
func TestPresentedRoundTrip(t *testing.T) {
	t.Parallel()
	k := keyOf(t, "signer")
	id := crypto.KeyID(publicOf(t, k))
	for name, p := range presentedSamples(t) {
		e, err := p.sign(k)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := p.sign(k)
		assert.True(t, err == nil && bytes.Equal(again, e), "%s: signed again it is another: %v", name, err)
		var r Reader
		s, err := r.Open(e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if key, ok := s.Key(); !ok || key != id || s.KeyID != id || s.Kind != p.kind {
			t.Errorf("%s: signed by %s and %s, kind %s", name, key, s.KeyID, s.Kind)
		}
		assert.True(t, crypto.Verify(publicOf(t, k), crypto.AppendPAE(nil, PayloadType, s.Payload), s.Sig),
			"%s: the signature does not verify", name)
		if want, err := jcs.Transform(e); err != nil || !bytes.Equal(want, e) {
			t.Errorf("%s: not canonical: %v", name, err)
		}
		var st struct {
			Predicate map[string]json.RawMessage
			Subject   []struct {
				Digest struct{ SHA256 string }
				Name   string
			}
		}
		require.NoError(t, json.Unmarshal(s.Payload, &st))
		delete(st.Predicate, "key")
		rest, err := json.Marshal(st.Predicate)
		require.NoError(t, err)
		rest, err = jcs.Transform(rest)
		require.NoError(t, err)
		assert.True(t, len(st.Subject) == 1 && st.Subject[0].Name == string(p.kind) &&
			st.Subject[0].Digest.SHA256 == crypto.Sum(rest).String(), "%s: subject %+v, want the digest of %s", name,
			st.Subject, rest)
		x, err := p.open(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b := written(x)
		assert.True(t, bytes.Contains(s.Payload, b), "%s: read and written again\n%s\nwas\n%s", name, b, s.Payload)
		reflect.ValueOf(p.want).Elem().FieldByName("Key").Set(reflect.ValueOf(id))
		want := written(p.want)
		assert.True(t, bytes.Equal(b, want), "%s: read\n%s\nwant\n%s", name, b, want)
		_, err = s.Statement()
		assert.True(t, isFault(err, Record, ""), "%s: taken for an entry: %v", name, err)
		_, err = s.Manifest()
		assert.True(t, isFault(err, Record, ""), "%s: taken for a manifest: %v", name, err)
		for other, q := range presentedSamples(t) {
			_, err := q.open(s)
			assert.Equal(t, q.kind == p.kind, err == nil, "%s read as %s: %v", name, other, err)
		}
	}
}

// restate returns the payload of any predicate, with the right subject for it.
func restate(t testing.TB, kind Kind, predicate []byte) []byte {
	t.Helper()
	v := value(t, string(predicate))
	bare := []byte{'{'}
	for it := v.Iter(); it.Next(); {
		if string(it.Key()) == "key" {
			continue
		}
		if len(bare) > 1 {
			bare = append(bare, ',')
		}
		bare = it.Value().Append(append(crypto.AppendString(bare, string(it.Key())), ':'))
	}
	return appendStatement(nil, kind, string(kind), crypto.Sum(append(bare, '}')),
		func(dst []byte) []byte { return v.Append(dst) })
}

func predicateOf(t testing.TB, e Envelope) crypto.Value {
	t.Helper()
	var r Reader
	s, err := r.Open(e)
	require.NoError(t, err)
	return value(t, string(s.Payload)).Get("predicate")
}

// Each field of each predicate in turn is left out, emptied, made null, of another type, out of its
// limits, and joined by another. All else is right, including the subject. All are refused, except
// the listed cases that make another record of that kind.
func TestPresentedFieldsAreClosed(t *testing.T) {
	t.Parallel()
	taken := map[string][]string{}
	for _, c := range table.Read[struct{ Record, Change string }](t, "presented_taken", 111) {
		taken[c.Record] = append(taken[c.Record], c.Change)
	}
	samples := presentedSamples(t)
	for name, expected := range taken {
		p := samples[name]
		e, err := p.sign(keyOf(t, "signer"))
		require.NoError(t, err)
		predicate := predicateOf(t, e)
		read := func(payload []byte) error {
			var r Reader
			s, err := r.Open(sealIn(payload))
			if err != nil {
				return err
			}
			x, err := p.open(s)
			if err == nil && !bytes.Contains(payload, written(x)) {
				t.Errorf("%s: %s is written %s", name, payload, written(x))
			}
			return err
		}
		require.NoError(t, read(restate(t, p.kind, predicate.Append(nil))), "%s",
			name) // or the refusals below would prove nothing
		refused, met := 0, map[string]bool{}
		for _, a := range attacks(predicate, "") {
			if a.at == "" && a.text[0] != '{' {
				continue // a statement's predicate is an object
			}
			err := read(restate(t, p.kind, a.text))
			what := a.at + " " + a.with
			if i := slices.IndexFunc(expected, func(x string) bool {
				return x == what || strings.HasSuffix(x, "*") && strings.HasPrefix(what, x[:len(x)-1])
			}); i >= 0 {
				met[expected[i]] = true
				assert.NoError(t, err, "%s: %s", name, what)
				continue
			}
			switch {
			case err == nil && bytes.Equal(value(t, string(a.text)).Append(nil), predicate.Append(nil)): // as it was
			case err == nil:
				t.Errorf("%s: %s: taken", name, what)
			case !isFault(err, Record, "predicate."):
				t.Errorf("%s: %s: %v", name, what, err)
			default:
				refused++
			}
		}
		assert.True(t, len(met) == len(expected) && refused >= 60, "%s: %d of %d expected, %d refused", name, len(met),
			len(expected), refused)
	}
}

// The envelope around the predicate: other spellings, other types, more or fewer signatures and
// subjects.
func TestPresentedEnvelopes(t *testing.T) {
	t.Parallel()
	k := keyOf(t, "signer")
	for name, p := range presentedSamples(t) {
		e, err := p.sign(k)
		require.NoError(t, err)
		var r Reader
		s, err := r.Open(e)
		require.NoError(t, err)
		payload, text := string(s.Payload), string(e)
		open := func(e []byte) error {
			s, err := new(Reader).Open(e)
			if err == nil {
				_, err = p.open(s)
			}
			return err
		}
		must := func(what string, e []byte, class Class) {
			t.Helper()
			require.False(t, bytes.Equal(e, []byte(text)), "%s: %s: the same", name, what)
			err := open(e)
			assert.True(t, isFault(err, class, ""), "%s: %s: %v, want %s", name, what, err, class)
		}
		inside := func(from, to string) []byte {
			require.Contains(t, payload, from, "%s: no", name)
			return sealIn([]byte(strings.Replace(payload, from, to, 1)))
		}
		for how, spelling := range respell(t, text) {
			must("envelope with "+how, []byte(spelling), Encoding)
		}
		for how, spelling := range respell(t, payload) {
			must("payload with "+how, sealIn([]byte(spelling)), Encoding)
		}
		signature := text[strings.Index(text, `"signatures":[`)+14 : len(text)-2]
		must("two signatures", []byte(strings.Replace(text, signature, signature+","+signature, 1)), Shape)
		must("no signature", []byte(strings.Replace(text, signature, "", 1)), Shape)
		must("no signatures", []byte(strings.Replace(text, `,"signatures":[`+signature+`]`, "", 1)), Shape)
		must("signatures null", []byte(strings.Replace(text, `[`+signature+`]`, "null", 1)), Shape)
		must("one member more", []byte(strings.Replace(text, `]}`, `],"zz":1}`, 1)), Shape)
		must("a short signature",
			[]byte(strings.Replace(text, signature[strings.Index(signature, `"sig":"`)+7:len(signature)-2], "AAAA", 1)),
			Shape)
		must("the payload type of trust events", []byte(strings.Replace(text, PayloadType, trustType, 1)), Shape)
		must("another payload type", []byte(strings.Replace(text, PayloadType, "application/json", 1)), Shape)
		must("a statement of version 0.1", inside("Statement/v1", "Statement/v0.1"), Shape)
		must("version 2 of the kind", inside(string(p.kind)+"/v1", string(p.kind)+"/v2"), Shape)
		must("two subjects",
			inside(`"subject":[`, `"subject":[{"digest":{"sha256":"`+strings.Repeat("0", 64)+`"},"name":"x"},`), Shape)
		must("another kind of entry", inside("/"+string(p.kind)+"/v1", "/decision/v1"), Record)
		must("a kind of nobody", inside("/"+string(p.kind)+"/v1", "/nothing/v1"), Record)
		must("a subject of another name", inside(`"name":"`+string(p.kind)+`"}]`, `"name":"x"}]`), Record)
		sum := payload[strings.Index(payload, `"sha256":"`)+10:][:64]
		must("a subject of another digest", inside(sum, strings.Repeat("0", 64)), Record)
		predicate := value(t, payload).Get("predicate").Append(nil)
		must("a subject over the key too", inside(sum, crypto.Sum(predicate).String()), Record)
		other := sealIn([]byte(strings.Replace(payload, s.KeyID.String(), digest("another").String(), 1)))
		if err := open(other); err != nil { // another key is another signer, and the subject is the same
			t.Errorf("%s: of another signer: %v", name, err)
		}
	}
}

// Any bytes: no panic, and an accepted predicate is written again in the same bytes.
func FuzzPresented(f *testing.F) {
	k := keyOf(f, "signer")
	seeds := 0
	for _, p := range presentedSamples(f) {
		e, err := p.sign(k)
		require.NoError(f, err)
		f.Add(string(p.kind), predicateOf(f, e).Append(nil))
		for i, a := range attacks(predicateOf(f, e), "") {
			if i%5 == 0 {
				f.Add(string(p.kind), a.text)
			}
		}
		seeds++
	}
	require.NotEqual(f, 0, seeds, "no seeds")
	f.Fuzz(func(t *testing.T, kind string, predicate []byte) {
		if new(crypto.Tree).Parse(predicate, crypto.Limits{Bytes: MaxPayload, Depth: MaxRecordDepth - 1,
			Object: true}) != nil {
			return
		}
		payload := restate(t, Kind(kind), predicate)
		var r Reader
		s, err := r.Open(sealIn(payload))
		if err != nil {
			return
		}
		read := 0
		for _, open := range []func(*Sealed) (visitor, error){opening((*Sealed).Approval),
			opening((*Sealed).Delegation), opening((*Sealed).Attestation), opening((*Sealed).Bundle)} {
			x, err := open(s)
			if err != nil {
				require.True(t, isFault(err, Record, ""), err)
				continue
			}
			read++
			b := written(x)
			require.True(t, bytes.Equal(restate(t, s.Kind, b), s.Payload), "was\n%s\nand is written\n%s", s.Payload, b)
		}
		require.True(t, read <= 1, "%s is of %d kinds", predicate, read)
	})
}
