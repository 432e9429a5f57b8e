package contracts

import (
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// Envelopes are opened in two steps: first their form, which names the signer; then, after the
// signature was verified, the record inside.

// A Reader opens envelopes and reuses its memory. The zero Reader is ready to use. It is not safe
// for concurrent use.
type Reader struct {
	envelope, statement crypto.Tree
	sealed              Sealed
	payload, sig        []byte
	scanner             scanner
}

// Sealed is an envelope whose form was checked and whose signature was not. Use only the fields
// that find and check the key until the signature is verified.
type Sealed struct {
	Kind    Kind
	KeyID   Digest // as the envelope names it
	Sig     []byte // valid, like Payload, until the Reader opens another envelope
	Payload []byte // the bytes that the pre-authentication encoding covers
	name    string
	digest  Digest
	pred    crypto.Value
}

var (
	dsseType = word{"the payload type of HELM", func(s string) bool { return s == payloadType }}
	inToto   = word{"the type of an in-toto statement v1", func(s string) bool { return s == statementType }}
)

// Open checks the form of an envelope: the checks ENCODING and ENVELOPE. Its error is a
// [FormatError]. That of an object with the member stub, which is no envelope, is of the class
// Record: [Reader.Stub] reads stubs.
func (r *Reader) Open(e []byte) (*Sealed, error) {
	if err := r.strict(e); err != nil {
		return nil, err
	}
	if r.envelope.Root().Get("stub").Kind() != crypto.Missing {
		return nil, &FormatError{Record, "stub", "the stub of an entry, or of nothing"}
	}
	env, err := r.unwrap()
	if err != nil {
		return nil, err
	}
	s := &r.sealed
	*s = Sealed{Payload: r.payload, Sig: r.sig[:0]}
	if err := read(env, Shape, "", s.envelope); err != nil {
		return nil, err
	}
	if err := read(r.statement.Root(), Shape, "payload.", s.statement); err != nil {
		return nil, err
	}
	return s, nil
}

// strict parses a line of a log: the part of the check ENCODING that is of envelopes and stubs.
func (r *Reader) strict(e []byte) error {
	if err := r.envelope.Parse(e, crypto.Limits{Bytes: MaxEntry, Depth: MaxRecordDepth, Object: true}); err != nil {
		return &FormatError{Encoding, "", err.Error()}
	}
	if !r.envelope.Canonical() {
		return &FormatError{Encoding, "", "not canonical"}
	}
	return nil
}

// unwrap is the rest of the check ENCODING of an envelope: it parses the payload in it, if there is
// one.
func (r *Reader) unwrap() (crypto.Value, error) {
	encoding := func(field, what string) (crypto.Value, error) {
		return crypto.Value{}, &FormatError{Encoding, field, what}
	}
	env := r.envelope.Root()
	var err error
	for s := range env.Get("signatures").Elements() {
		if sig := s.Get("sig"); sig.Kind() == crypto.String {
			r.sig, err = crypto.DecodeBase64(r.sig[:0], sig.Bytes())
			if err != nil {
				return encoding("signatures.sig", "not base64")
			}
		}
	}
	if payload := env.Get("payload"); payload.Kind() == crypto.String {
		r.payload, err = crypto.DecodeBase64(r.payload[:0], payload.Bytes())
		if err != nil {
			return encoding("payload", "not base64")
		}
		err = r.statement.Parse(r.payload, crypto.Limits{Bytes: MaxPayload, Depth: MaxRecordDepth, Object: true})
		if err != nil {
			return encoding("payload", err.Error())
		}
		if !r.statement.Canonical() {
			return encoding("payload", "not canonical")
		}
	}
	return env, nil
}

func (s *Sealed) envelope(f *form) {
	var payload crypto.Value
	var kind string
	f.value("payload", required, &payload, crypto.String)
	f.text("payloadType", required, &kind, dsseType)
	f.elements("signatures", required, 1, 1, func(_ int, v crypto.Value) {
		f.within(v, func(f *form) {
			f.digest("keyid", &s.KeyID)
			f.base64("sig", &s.Sig, 64)
		})
	})
}

func (s *Sealed) statement(f *form) {
	var typ string
	f.text("_type", required, &typ, inToto)
	f.value("predicate", required, &s.pred, crypto.Object)
	f.text("predicateType", required, &typ, kindName)
	s.Kind = Kind(strings.TrimSuffix(strings.TrimPrefix(typ, kindPrefix), kindSuffix))
	f.elements("subject", required, 1, 1, func(_ int, v crypto.Value) {
		f.within(v, func(f *form) {
			f.object("digest", true, func(f *form) { f.digest("sha256", &s.digest) })
			f.text("name", required, &s.name, subjectName)
		})
	})
}

// Key returns the signer's key id of the header, which must equal KeyID. It reports false if the
// header has none.
func (s *Sealed) Key() (Digest, bool) {
	d, err := crypto.ParseDigest(s.pred.Get("key").Bytes())
	return d, err == nil
}

// Statement returns the record of an entry after the check RECORD. Verify the signature first. Its
// error is a [FormatError].
func (s *Sealed) Statement() (*Statement, error) {
	st := new(Statement)
	kernels := false // the entry belongs in the session ""
	switch s.Kind {
	case KindGenesis:
		st.Genesis, kernels = new(Genesis), true
	case KindPolicy:
		st.Policy, kernels = new(PolicyRecord), true
	case KindTrust:
		st.Trust, kernels = new(TrustRecord), true
	case KindCondense:
		st.Condense, kernels = new(Condense), true
	case KindDecision:
		st.Decision = new(DecisionRecord)
	case KindReceipt:
		st.Receipt = new(Receipt)
		if s.pred.Get("outcome").Text() == string(Denied) {
			st.Receipt.Decision = new(DecisionRecord)
		}
	case KindMessage:
		st.Message = new(Message)
	case KindSession:
		st.Close = new(Close)
	default:
		return nil, &FormatError{Record, "predicateType", "not a kind of entry"}
	}
	f := form{reading: true, class: Record}
	f.within(s.pred, st.visit)
	if f.err == nil {
		st.check(kernels, f.fail)
	}
	if f.err != nil {
		f.under("predicate")
		return nil, f.err
	}
	if name, digest := st.subject(); name != s.name || digest != s.digest {
		return nil, &FormatError{Record, "subject", "not that of the record"}
	}
	return st, nil
}
