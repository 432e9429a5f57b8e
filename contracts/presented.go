package contracts

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/helmkernel/helm/crypto"
)

// What callers present: the statements of docs/FORMATS.md section 5. Their envelopes and limits are those of entries; the predicate has the
// signer's key and no header, and the subject is the digest of the predicate without that key.

// Attestation is a third party's word on a call.
type Attestation struct {
	Args    *Digest      // the argsHash that it is bound to; nil: none
	Claims  crypto.Value // an object: {} where nothing is claimed
	Expires Time         // 0: never
	Key     Digest
	Session string // that it is bound to; "": none
	Time    Time
	Type    string
}

func (a *Attestation) visit(f *form) {
	f.maybe("args", &a.Args)
	f.value("claims", required, &a.Claims, crypto.Object)
	f.time("expires", optional, &a.Expires)
	f.signer(&a.Key)
	f.text("session", optional, &a.Session, askedName)
	f.time("time", required, &a.Time)
	f.text("type", required, &a.Type, words128)
}

// Sign signs the attestation with the key of an attestor, and fills in which it is.
func (a Attestation) Sign(key crypto.Signer) (Envelope, error) {
	return seal(KindAttestation, key, &a.Key, a.visit, new(Attestation).visit)
}

// Attestation reads the predicate of an attestation. Call it when the signature was verified. Claims is valid until the Reader opens another.
func (s *Sealed) Attestation() (*Attestation, error) {
	a := new(Attestation)
	if err := s.presented(KindAttestation, a.visit); err != nil {
		return nil, err
	}
	return a, nil
}

// Bundle is a publisher's signature over a P1 document.
type Bundle struct {
	Digest  Digest // of the canonical document
	Key     Digest
	Name    string
	Version uint64
}

func (b *Bundle) visit(f *form) {
	f.digest("digest", &b.Digest)
	f.signer(&b.Key)
	f.text("name", required, &b.Name, id)
	f.count("version", &b.Version)
}

// Sign signs the bundle with the key of a publisher, and fills in which it is.
func (b Bundle) Sign(key crypto.Signer) (Envelope, error) {
	return seal(KindBundle, key, &b.Key, b.visit, new(Bundle).visit)
}

// Bundle reads the predicate of a bundle's signature. Call it when the signature was verified.
func (s *Sealed) Bundle() (*Bundle, error) {
	b := new(Bundle)
	if err := s.presented(KindBundle, b.visit); err != nil {
		return nil, err
	}
	return b, nil
}

// presented reads a predicate into what visit goes over, which must be zero.
func (s *Sealed) presented(kind Kind, visit func(*form)) error {
	if s.Kind != kind {
		return &FormatError{Record, "predicateType", "not that of a statement of kind " + string(kind)}
	}
	if err := read(s.pred, Record, "predicate.", visit); err != nil {
		return err
	}
	if s.name != string(kind) || s.digest != crypto.Sum(writeBare(visit)) {
		return &FormatError{Record, "subject", "not the kind and the digest of the predicate without its key"}
	}
	return nil
}

// seal signs the statement that visit writes. What nobody could read is not signed, so it is read first, by the reader that others have, into
// what again goes over.
func seal(kind Kind, key crypto.Signer, id *Digest, visit, again func(*form)) (Envelope, error) {
	refused := func(err error) (Envelope, error) { return nil, fmt.Errorf("contracts: sign %s: %w", kind, err) }
	key, public, err := signerOf(key)
	if err != nil {
		return refused(err)
	}
	*id = crypto.KeyID(public)
	predicate, err := compose(visit)
	if err != nil {
		return refused(err)
	}
	payload := appendStatement(nil, kind, string(kind), crypto.Sum(writeBare(visit)), func(dst []byte) []byte { return append(dst, predicate...) })
	if len(payload) > MaxPayload {
		return refused(&FormatError{Encoding, "payload", strconv.Itoa(len(payload)) + " bytes, want at most " + strconv.Itoa(MaxPayload)})
	}
	sealed, err := new(Reader).Open(crypto.AppendEnvelope(nil, payloadType, payload, *id, make([]byte, 64)))
	if err != nil {
		return refused(err)
	}
	if err := sealed.presented(kind, again); err != nil {
		return refused(err)
	}
	sig, err := crypto.Sign(key, crypto.AppendPAE(nil, payloadType, payload))
	if err != nil {
		return refused(err)
	}
	return crypto.AppendEnvelope(nil, payloadType, payload, *id, sig), nil
}

// signerOf binds a signer to the public key that it has now.
func signerOf(key crypto.Signer) (crypto.Signer, crypto.PublicKey, error) {
	if key == nil {
		return nil, nil, errors.New("there is no key")
	}
	pinned, err := crypto.Pin(key)
	if err != nil {
		return nil, nil, err
	}
	public, err := crypto.PublicOf(pinned)
	return pinned, public, err
}
