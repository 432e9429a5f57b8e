package contracts

import (
	"github.com/helmkernel/helm/crypto"
)

// Header is the position of an entry. Every kind of entry has one. docs/FORMATS.md section 2.
type Header struct {
	Key     Digest // id of the signer's key
	Lamport uint64
	Parents []Digest // hashes of the entries that caused this one; sorted, without Prev
	Prev    Digest   // hash of the session's previous entry, or of genesis
	Seq     uint64   // number of entries before it in the session
	Session string
	Time    Time
}

// The fields of a header are interleaved with those of each kind, in canonical order.

func (h *Header) front(f *form) {
	f.digest("key", &h.Key)
	f.count("lamport", &h.Lamport)
}

func (h *Header) parents(f *form) { f.digests("parents", required, 0, MaxParents, &h.Parents) }

func (h *Header) links(f *form) {
	h.parents(f)
	f.digest("prev", &h.Prev)
}

func (h *Header) back(f *form) {
	f.count("seq", &h.Seq)
	f.text("session", required, &h.Session, sessionName)
}

// Kind is the kind of an entry, or of an envelope that callers present.
type Kind string

// The kinds of entries, then those of envelopes that are not entries.
const (
	KindGenesis  Kind = "genesis"
	KindPolicy   Kind = "policy"
	KindTrust    Kind = "trust"
	KindCondense Kind = "condense"
	KindDecision Kind = "decision"
	KindReceipt  Kind = "receipt"
	KindMessage  Kind = "message"
	KindSession  Kind = "session"

	KindManifest    Kind = "manifest" // of a pack
	KindApproval    Kind = "approval"
	KindDelegation  Kind = "delegation"
	KindAttestation Kind = "attestation"
	KindBundle      Kind = "bundle"
)

// Statement is the content of an entry: its position, and exactly one record.
type Statement struct {
	Header
	Genesis  *Genesis
	Policy   *PolicyRecord
	Trust    *TrustRecord
	Condense *Condense
	Decision *DecisionRecord
	Receipt  *Receipt
	Message  *Message
	Close    *Close
}

// Kind returns the kind of the record that is set.
func (s *Statement) Kind() Kind {
	switch {
	case s.Decision != nil:
		return KindDecision
	case s.Receipt != nil:
		return KindReceipt
	case s.Genesis != nil:
		return KindGenesis
	case s.Policy != nil:
		return KindPolicy
	case s.Trust != nil:
		return KindTrust
	case s.Condense != nil:
		return KindCondense
	case s.Message != nil:
		return KindMessage
	case s.Close != nil:
		return KindSession
	}
	return ""
}

// Judgement returns the decision of the entry, an ALLOW or a denial, or nil.
func (s *Statement) Judgement() *DecisionRecord {
	if s.Receipt != nil {
		return s.Receipt.Decision
	}
	return s.Decision
}

func (s *Statement) visit(f *form) {
	h := &s.Header
	switch {
	case s.Decision != nil:
		f.object("decision", true, s.Decision.visit)
		h.front(f)
		h.links(f)
		h.back(f)
		f.time("time", required, &h.Time)
	case s.Receipt != nil:
		s.Receipt.visit(f, h)
	case s.Genesis != nil:
		s.Genesis.visit(f, h)
	case s.Policy != nil:
		s.Policy.visit(f, h)
	case s.Trust != nil:
		s.Trust.visit(f, h)
	case s.Condense != nil:
		s.Condense.visit(f, h)
	case s.Message != nil:
		s.Message.visit(f, h)
	case s.Close != nil:
		s.Close.visit(f, h)
	}
}

// subject returns the name and digest outside the predicate, for tools that know in-toto but not
// HELM.
func (s *Statement) subject() (string, Digest) {
	switch {
	case s.Decision != nil:
		return s.Decision.Tool, s.Decision.ArgsHash
	case s.Receipt != nil:
		if d := s.Receipt.Decision; d != nil {
			return d.Tool, d.ArgsHash
		}
		return s.Receipt.Tool, s.Receipt.EffectHash
	case s.Genesis != nil:
		return s.Genesis.Origin, s.Genesis.Trust
	case s.Policy != nil:
		return "policy", s.Policy.Policy
	case s.Trust != nil:
		return s.Trust.Event.Type, s.Trust.Event.Digest()
	case s.Condense != nil:
		return "condense", s.Condense.Root
	case s.Message != nil:
		return "message", s.Message.TextHash
	}
	return s.Session, s.Close.Last
}

// Append appends the payload: the canonical in-toto statement.
func (s *Statement) Append(dst []byte) []byte {
	name, digest := s.subject()
	return appendStatement(dst, s.Kind(), name, digest, func(dst []byte) []byte { return write(dst, s.visit) })
}

func appendStatement(dst []byte, kind Kind, name string, digest Digest, predicate func([]byte) []byte) []byte {
	dst = append(dst, `{"_type":"`+statementType+`","predicate":`...)
	dst = predicate(dst)
	dst = append(dst, `,"predicateType":"`+kindPrefix...)
	dst = append(dst, kind...)
	dst = append(dst, kindSuffix+`","subject":[{"digest":{"sha256":"`...)
	dst, _ = digest.AppendText(dst)
	dst = append(dst, `"},"name":`...)
	dst = crypto.AppendString(dst, name)
	return append(dst, `}]}`...)
}

// PayloadType is the DSSE payload type of every envelope except those of trust events.
const PayloadType = payloadType

// check tests what holds for every entry by itself. kernels says whether the kind belongs in the
// kernel's session.
func (s *Statement) check(kernels bool, fail func(field, what string)) {
	for _, p := range s.Parents {
		if p == s.Prev {
			fail("parents", "prev is among them")
		}
	}
	if (s.Session == SessionKernel) != kernels || s.Session == SessionRefused && s.Receipt == nil {
		fail("session", "not one for this kind of entry")
	}
	switch {
	case s.Decision != nil:
		s.Decision.check(&s.Header, true, func(field, what string) { fail("decision."+field, what) })
	case s.Receipt != nil:
		s.Receipt.check(&s.Header, fail)
	case s.Policy != nil:
		s.Policy.check(fail)
	case s.Condense != nil:
		s.Condense.check(&s.Header, fail)
	case s.Close != nil && s.Close.Count != s.Seq:
		fail("count", "not its own seq")
	case s.Close != nil && s.Close.Last != s.Prev:
		fail("last", "not its prev")
	}
}
