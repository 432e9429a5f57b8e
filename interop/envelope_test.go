package interop

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	statements "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

// verifier knows the kernel's keys, the old one too.
func (o *office) verifier() *dsse.EnvelopeVerifier {
	o.Helper()
	var list []dsse.Verifier
	for _, id := range slices.Sorted(maps.Keys(o.keys)) {
		v, err := signerverifier.NewED25519SignerVerifierFromSSLibKey(&signerverifier.SSLibKey{KeyType: "ed25519",
			Scheme: "ed25519", KeyID: id,
			KeyVal: signerverifier.KeyVal{Public: hex.EncodeToString(o.keys[id])}})
		o.must(err)
		list = append(list, v)
	}
	v, err := dsse.NewEnvelopeVerifier(list...)
	o.must(err)
	return v
}

// opened returns the payload of an envelope and its signer, by the DSSE of others.
func opened(v *dsse.EnvelopeVerifier, line []byte) (payload []byte, by string, err error) {
	var e dsse.Envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, "", err
	}
	keys, payload, err := v.VerifyAndDecode(context.Background(), &e)
	if err != nil {
		return nil, "", err
	}
	return payload, keys[0].KeyID, nil
}

// TestEnvelopes: every entry and the manifest verify by another DSSE, under the key that they name.
func TestEnvelopes(t *testing.T) {
	o, p := busy(t)
	v, signed := o.verifier(), map[string]int{}
	for i, line := range append(slices.Clone(p.entries), p.manifest) {
		payload, by, err := opened(v, line)
		require.NoError(t, err, "entry %d", i)
		var x struct {
			Predicate struct{ Key string }
		}
		if err := json.Unmarshal(payload, &x); err != nil || x.Predicate.Key != by {
			t.Errorf("entry %d: signed by %s, says %s, %v", i, by, x.Predicate.Key, err)
		}
		signed[by]++
	}
	assert.Len(t, signed, 2, "signed by %v: not by both keys", signed)
}

// TestEnvelopesRefused: with any bit of payload, type or signature flipped the other DSSE refuses
// an entry too. It reads JSON and base64 more leniently than HELM, so some flips in the bytes of an
// entry make another spelling of the same envelope: it accepts only those, and HELM none.
func TestEnvelopesRefused(t *testing.T) {
	o, p := busy(t)
	v, line := o.verifier(), p.entries[len(p.entries)/2]
	payload, by, err := opened(v, line)
	require.NoError(t, err)
	var good dsse.Envelope
	require.NoError(t, json.Unmarshal(line, &good))
	sig, err := base64.StdEncoding.DecodeString(good.Signatures[0].Sig)
	require.NoError(t, err)
	refused := 0
	refuse := func(what string, i int, e dsse.Envelope) {
		t.Helper()
		if _, err := v.Verify(t.Context(), &e); err == nil {
			t.Errorf("bit %d of the %s is of no consequence", i, what)
		}
		refused++
	}
	flip := func(b []byte, i int) []byte {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		return c
	}
	for i := range 8 * len(payload) {
		e := good
		e.Payload = base64.StdEncoding.EncodeToString(flip(payload, i))
		refuse("payload", i, e)
	}
	for i := range 8 * len(sig) {
		e := good
		e.Signatures = []dsse.Signature{{KeyID: by, Sig: base64.StdEncoding.EncodeToString(flip(sig, i))}}
		refuse("signature", i, e)
	}
	for i := range 8 * len(good.PayloadType) {
		e := good
		e.PayloadType = string(flip([]byte(good.PayloadType), i))
		refuse("type", i, e)
	}
	lenient := 0
	for i := range 8 * len(line) {
		got, signer, err := opened(v, flip(line, i))
		if err != nil {
			refused++
			continue
		}
		if !bytes.Equal(got, payload) || signer != by {
			t.Errorf("bit %d of the entry flipped: another payload is taken", i)
		}
		lenient++
		bad := bytes.Replace(p.raw, line, flip(line, i), 1)
		// ENCODING or ENVELOPE
		if err := o.verify(bad, false); err == nil || !strings.HasPrefix(err.Error(), "evidence: E") {
			t.Errorf("bit %d of the entry flipped: HELM says %v", i, err)
		}
	}
	if lenient == 0 || lenient > 200 || refused < 16*len(payload) {
		t.Errorf("%d flips refused, %d of spelling alone", refused, lenient)
	}
	t.Logf("%d flips refused; %d are other spellings, which only HELM refuses", refused, lenient)
}

// TestStatements: in-toto's own types read every payload, find it valid, and write the same
// statement again: canonicalised, the same bytes.
func TestStatements(t *testing.T) {
	o, p := busy(t)
	v, kinds := o.verifier(), map[string]int{}
	for i, line := range append(slices.Clone(p.entries), p.manifest) {
		payload, _, err := opened(v, line)
		require.NoError(t, err)
		s, err := statement(payload)
		require.NoError(t, err, "entry %d", i)
		b, err := protojson.Marshal(s)
		require.NoError(t, err)
		if b, err = jcs.Transform(b); err != nil || !bytes.Equal(b, payload) {
			t.Errorf("entry %d: %v\nis    %s\nbecomes %s", i, err, payload, b)
		}
		kinds[s.PredicateType]++
	}
	if len(kinds) != 7 { // genesis, policy, trust, decision, receipt, session, manifest
		t.Errorf("%d kinds: %v", len(kinds), kinds)
	}
}

func statement(payload []byte) (*statements.Statement, error) {
	s := new(statements.Statement)
	if err := protojson.Unmarshal(payload, s); err != nil {
		return nil, err
	}
	return s, s.Validate()
}

// TestStatementsRefused: an entry that misses any of in-toto's requirements for a statement is
// refused.
func TestStatementsRefused(t *testing.T) {
	o, p := busy(t)
	v := o.verifier()
	for _, line := range p.entries {
		payload, _, err := opened(v, line)
		require.NoError(t, err)
		for _, x := range [][2]string{
			{`"_type":"https://in-toto.io/Statement/v1"`, `"_type":"https://in-toto.io/Statement/v3"`},
			{`"_type":"https://in-toto.io/Statement/v1",`, ``},
			{`"subject":[{"digest"`, `"subjects":[{"digest"`},
			{`"sha256":"`, `"sha256":"g`},
			{`"sha256":"`, `"sha256":"00`},
			{`"predicate":`, `"Predicate":`},
			{`"predicateType":"https://github.com/helmkernel/helm/`, `"predicateType":0,"x":"`},
		} {
			bad := strings.Replace(string(payload), x[0], x[1], 1)
			// the statement's own subject is its last member
			if i := strings.LastIndex(string(payload), x[0]); strings.HasPrefix(x[0], `"s`) {
				bad = string(payload[:i]) + x[1] + string(payload[i+len(x[0]):])
			}
			if bad == string(payload) {
				t.Fatalf("%q is not in %s", x[0], payload)
			}
			if _, err := statement([]byte(bad)); err == nil {
				t.Errorf("in-toto takes %s", bad)
			}
		}
	}
}
