package contracts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// trustType is the DSSE payload type of trust events, which have many signers.
const trustType = "application/vnd.helm.trust-event+json"

// maxGoverned is the size of an event and its signatures in an envelope: the entry that they go into has room for it, whatever its header.
const maxGoverned = MaxPayload - 4<<10

// Message is what the signatures of an event are over.
func (e *TrustEvent) Message() []byte { return crypto.AppendPAE(nil, trustType, e.Append(nil)) }

// ProofMessage is what a new key's proof of possession is over: the same, without the proofs.
func (e *TrustEvent) ProofMessage() []byte {
	return crypto.AppendPAE(nil, trustType, writeBare(e.visit))
}

// Prove fills in the proof of possession of a key that the event adds. Call it when the rest of the event is settled: the proof is over all of
// it. For an event of type key it fills in Public and ID too; the keys of one of type root need Public, of each, and get ID and their order.
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

// Sign adds the signature of one more key, and gives the envelope that goes to the next signer, or to the kernel. Of a key that has signed
// before there is one signature still.
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
	i, signed := slices.BinarySearchFunc(t.Signatures, id, func(s Signature, id Digest) int { return bytes.Compare(s.KeyID[:], id[:]) })
	t.Signatures = slices.Clone(t.Signatures)
	if !signed {
		t.Signatures = slices.Insert(t.Signatures, i, Signature{KeyID: id})
	}
	t.Signatures[i].Sig = make([]byte, 64)
	if _, err := ParseTrust(t.Append(nil)); err != nil { // what nobody could read is not signed
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

// Append appends the envelope of an event with its signatures, as [TrustRecord.Sign] gives it.
func (t *TrustRecord) Append(dst []byte) []byte { return write(dst, t.envelope) }

// ParseTrust reads the envelope of a trust event. Its signatures were not verified: the trust state does that, and knows whose count. The
// entry that an event and its signatures go into has room for them.
func ParseTrust(e Envelope) (*TrustRecord, error) {
	var r Reader
	env, err := r.unwrap(e)
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
