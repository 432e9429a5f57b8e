package contracts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// trustType is the DSSE payload type of trust events, which several keys sign.
const trustType = "application/vnd.helm.trust-event+json"

// maxGoverned bounds an event with its signatures in an envelope, so that they fit into an entry
// with any header.
const maxGoverned = MaxPayload - 4<<10

// Message returns the bytes that the keys sign.
func (e *TrustEvent) Message() []byte { return crypto.AppendPAE(nil, trustType, e.Append(nil)) }

// ProofMessage returns the bytes that a new key signs to prove its possession: the event without
// the proofs.
func (e *TrustEvent) ProofMessage() []byte {
	return crypto.AppendPAE(nil, trustType, writeBare(e.visit))
}

// Prove returns the event with the proof of possession of a key that it adds. Call it after all
// other fields are set, since the proof covers them. An event of type key gets Public and ID too.
// The keys of an event of type root must have Public; they get ID and are sorted.
func (e TrustEvent) Prove(key crypto.Signer) (TrustEvent, error) {
	proved, err := e.prove(key)
	if err != nil {
		return TrustEvent{}, fmt.Errorf("contracts: prove a key: %w", err)
	}
	return proved, nil
}

func (e TrustEvent) prove(key crypto.Signer) (TrustEvent, error) {
	key, public, err := signerOf(key)
	if err != nil {
		return e, err
	}
	var proof *[]byte
	id := crypto.KeyID(public)
	switch e.Type {
	case "key":
		if e.ID == nil {
			e.ID = &id
		}
		if e.Public == nil {
			e.Public = public
		}
		if *e.ID != id || !bytes.Equal(e.Public, public) {
			return e, errors.New("the event adds another key")
		}
		e.Roles, proof = set(e.Roles), &e.Proof
	case "root":
		e.Keys = slices.Clone(e.Keys)
		for i := range e.Keys {
			if k := &e.Keys[i]; k.ID == (Digest{}) {
				k.ID = crypto.KeyID(k.Public)
			}
		}
		slices.SortFunc(e.Keys, func(a, b RootKey) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		i := slices.IndexFunc(e.Keys, func(k RootKey) bool { return k.ID == id })
		if i < 0 {
			return e, errors.New("it is none of those that the event lists")
		}
		proof = &e.Keys[i].Proof
	default:
		return e, errors.New("only events of the types key and root add any")
	}
	if _, err := compose(e.visit); err != nil {
		return e, err
	}
	*proof, err = crypto.Sign(key, e.ProofMessage())
	return e, err
}

// Sign returns the envelope with the signature of one more key, for the next signer or for the
// kernel. A key that signs again replaces its signature.
func (t TrustRecord) Sign(key crypto.Signer) (Envelope, error) {
	refused := func(err error) (Envelope, error) { return nil, fmt.Errorf("contracts: sign a trust event: %w", err) }
	key, public, err := signerOf(key)
	if err != nil {
		return refused(err)
	}
	if !eventType.ok(t.Event.Type) {
		return refused(errors.New("of a type that this version does not know"))
	}
	if _, err := compose(t.Event.visit); err != nil {
		return refused(err)
	}
	id := crypto.KeyID(public)
	byID := func(s Signature, id Digest) int { return bytes.Compare(s.KeyID[:], id[:]) }
	i, signed := slices.BinarySearchFunc(t.Signatures, id, byID)
	t.Signatures = slices.Clone(t.Signatures)
	if !signed {
		t.Signatures = slices.Insert(t.Signatures, i, Signature{KeyID: id})
	}
	t.Signatures[i].Sig = make([]byte, 64)
	if _, err := ParseTrust(t.Append(nil)); err != nil { // what cannot be read is not signed
		return refused(err)
	}
	t.Signatures[i].Sig, err = crypto.Sign(key, t.Event.Message())
	if err != nil {
		return refused(err)
	}
	return t.Append(nil), nil
}

var governType = word{"the payload type of trust events", func(s string) bool { return s == trustType }}

func (t *TrustRecord) envelope(f *form) {
	payload, typ := []byte(nil), trustType
	if !f.reading {
		payload = t.Event.Append(nil)
	}
	f.base64("payload", &payload, 0)
	f.text("payloadType", required, &typ, governType)
	t.signatures(f, 1)
}

// Append appends the envelope of the event with its signatures, the same as [TrustRecord.Sign]
// returns.
func (t *TrustRecord) Append(dst []byte) []byte { return write(dst, t.envelope) }

// ParseTrust reads the envelope of a trust event. It does not verify signatures: the trust state
// does, and knows which keys count. It refuses an event that with its signatures would not fit into
// an entry.
func ParseTrust(e Envelope) (*TrustRecord, error) {
	var r Reader
	if err := r.strict(e); err != nil {
		return nil, err
	}
	env, err := r.unwrap()
	if err != nil {
		return nil, err
	}
	t := new(TrustRecord)
	if err := read(env, Shape, "", t.envelope); err != nil {
		return nil, err
	}
	f := form{reading: true, class: Record}
	t.Event.read(&f, r.statement.Root())
	if f.err != nil {
		f.under("payload")
		return nil, f.err
	}
	if size := len(r.payload) + len(e) - len(env.Get("payload").Raw()); size > maxGoverned {
		return nil, &FormatError{Encoding, "", "an event and signatures over 12 KiB: no entry has room for them"}
	}
	return t, nil
}
