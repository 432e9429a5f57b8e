package contracts

import (
	"errors"
	"fmt"

	"github.com/helmkernel/helm/crypto"
)

// Statements that callers present: docs/FORMATS.md section 5. Their envelopes and limits are the
// same as for entries. The predicate has the signer's key and no header, and the subject is the
// digest of the predicate without that key.

// Attestation is a statement of a third party about a call.
type Attestation struct {
	Args    *Digest      // the argsHash that it is bound to; nil means any
	Claims  crypto.Value // an object; {} if nothing is claimed
	Expires Time         // 0 means never
	Key     Digest
	Session string // the session that it is bound to; "" means any
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

// Sign signs the attestation with the key of an attestor and sets Key.
func (a Attestation) Sign(key crypto.Signer) (Envelope, error) {
	return seal(KindAttestation, key, &a.Key, a.visit, new(Attestation).visit)
}

// Attestation returns the predicate of an attestation. Verify the signature first. Claims is valid
// until the Reader opens another envelope.
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

// Sign signs the statement with the key of a publisher and sets Key.
func (b Bundle) Sign(key crypto.Signer) (Envelope, error) {
	return seal(KindBundle, key, &b.Key, b.visit, new(Bundle).visit)
}

// Bundle returns the predicate of a bundle's signature. Verify the signature first.
func (s *Sealed) Bundle() (*Bundle, error) {
	b := new(Bundle)
	if err := s.presented(KindBundle, b.visit); err != nil {
		return nil, err
	}
	return b, nil
}

// presented reads a predicate into the record that visit belongs to, which must be zero.
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

// seal signs the statement that visit writes. It refuses to sign a statement that could not be
// read: before signing, the reader that everyone uses reads it into the record of again.
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
	payload := appendStatement(nil, kind, string(kind), crypto.Sum(writeBare(visit)),
		func(dst []byte) []byte { return append(dst, predicate...) })
	if len(payload) > MaxPayload {
		what := fmt.Sprintf("%d bytes, want at most %d", len(payload), MaxPayload)
		return refused(&FormatError{Encoding, "payload", what})
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

// signerOf binds a signer to its present public key.
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
