package contracts

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every kind of record that this package writes has the canonical form of a second RFC 8785.
func TestWritersAgreeWithASecondCanonicaliser(t *testing.T) {
	t.Parallel()
	texts := map[string][]byte{}
	for name, s := range samples() {
		texts[name] = s.Append(nil)
		if s.Trust != nil {
			texts[name+" event"] = s.Trust.Event.Append(nil)
		}
		if d := s.Judgement(); d != nil {
			texts[name+" judgement"] = d.Append(nil)
		}
		texts[name+" entry"] = sealIn(texts[name])
	}
	d := digests(4)
	at := Time(1767225600123)
	claims := value(t, `{"é":[1,"\""]}`)
	request := ApprovalRequest{d[0], Caller{"alice", "", nil}, at, strings.Repeat("0f", 16), 0, d[1], 2,
		[]string{"owner"}, d[2], "main", "t"}
	texts["inputs"] = fullInputs(t).Append(nil)
	texts["request"] = request.Append(nil)
	texts["request without roles"] = (&ApprovalRequest{Session: "s", Tool: "t"}).Append(nil)
	texts["approval"] = written(&Approval{d[0], request, at, Allow})
	texts["delegation"] = written(&Delegation{"bob", "alice \"a\"", 1, at, d[0], "n", 0, []string{"t"}, &d[1], claims})
	texts["root delegation"] = written(&Delegation{Delegate: "bob", Delegator: "alice"})
	texts["attestation"] = written(&Attestation{&d[0], claims, at, d[1], "s", at, "dual-control"})
	texts["plain attestation"] = written(&Attestation{Claims: claims, Type: "x"})
	texts["bundle"] = written(&Bundle{d[0], d[1], "bank", 3})
	for name, stub := range sampleStubs() {
		texts[name+" stub"] = stub.Append(nil)
	}
	texts["session end"] = (&SessionEnd{3, d[0], "s"}).Append(nil)
	texts["pack"] = (&EvidencePack{Origin: "o", Size: 1}).Append(nil)
	for name, b := range texts {
		want, err := jcs.Transform(b)
		assert.True(t, err == nil && bytes.Equal(want, b), "%s: %v\n%s\nwant\n%s", name, err, b, want)
	}
	assert.True(t, len(texts) >= 40, "%d records", len(texts))
	assert.Equal(t, digest(string(texts["request"])), request.Digest(),
		"a request is not named by the digest of its canonical form")
}

// Any bytes: no panic, and an accepted record is written again in the same bytes.
func FuzzOpen(f *testing.F) {
	seeds := 0
	for _, s := range samples() {
		payload := s.Append(nil)
		f.Add(payload, false)
		f.Add(sealIn(payload), true)
		seeds++
		for _, bad := range spoil(value(f, string(payload))) {
			f.Add(bad, false)
		}
	}
	f.Add((&EvidencePack{Origin: "o", Size: 1}).Append(nil), false)
	require.NotEqual(f, 0, seeds, "no seeds")
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		if !whole {
			b = sealIn(b) // so that mutations reach the payload
		}
		before := bytes.Clone(b)
		var r Reader
		sealed, err := r.Open(b)
		require.True(t, bytes.Equal(b, before), "the reader writes to what it reads")
		if err != nil {
			require.True(t, sealed == nil && (isFault(err, Encoding, "") ||
				isFault(err, Shape, "")) && err.Error() != "", "%v with %v", err, sealed)
			return
		}
		if p, err := sealed.Manifest(); err == nil && !bytes.Equal(p.Append(nil), sealed.Payload) {
			t.Fatalf("a manifest was\n%s\nand is written\n%s", sealed.Payload, p.Append(nil))
		}
		st, err := sealed.Statement()
		if err != nil {
			require.True(t, st == nil && isFault(err, Record, ""), "%v with %v", err, st)
			return
		}
		payload := st.Append(nil)
		require.True(t, bytes.Equal(payload, sealed.Payload) && st.Kind() == sealed.Kind, "was\n%s\nand is written\n%s",
			sealed.Payload, payload)
	})
}

func FuzzParseInputs(f *testing.F) {
	full := fullInputs(f).Append(nil)
	f.Add(full)
	f.Add((&Inputs{ArgsForm: "raw", Session: "main", Tool: "t"}).Append(nil))
	for i, b := range spoil(value(f, string(full))) {
		if i%7 == 0 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := ParseInputs(b)
		require.Equal(t, in != nil, err == nil, "%v with %v", err, in)
		if err == nil && !bytes.Equal(in.Append(nil), b) {
			t.Fatalf("was\n%s\nand is written\n%s", b, in.Append(nil))
		}
	})
}
