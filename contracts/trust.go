package contracts

import (
	"bytes"

	"github.com/helmkernel/helm/crypto"
)

// TrustRecord holds a trust event and the signatures over it. docs/FORMATS.md section 6.
type TrustRecord struct {
	Event      TrustEvent
	Signatures []Signature // sorted by key id
}

// Signature is the signature of one key among several over the same bytes.
type Signature struct {
	KeyID Digest
	Sig   []byte
}

func (t *TrustRecord) visit(f *form, h *Header) {
	t.Event.member(f)
	h.front(f)
	h.links(f)
	h.back(f)
	t.signatures(f, 0)
	f.time("time", required, &h.Time)
}

func (t *TrustRecord) signatures(f *form, low int) {
	list(f, "signatures", required, low, 1<<20, &t.Signatures, func(s *Signature, f *form) {
		f.digest("keyid", &s.KeyID)
		f.base64("sig", &s.Sig, 64)
	})
	if f.reading && !ascends(t.Signatures, func(a, b *Signature) int { return bytes.Compare(a.KeyID[:], b.KeyID[:]) }) {
		f.fail("signatures", "not sorted by key id and unique")
	}
}

// TrustEvent changes which keys may sign what. Its Type determines which fields it has; the others
// must be zero. To make one, set the fields, call [TrustEvent.Prove] with each key that it adds,
// and [TrustRecord.Sign] with as many keys as the trust state requires.
type TrustEvent struct {
	Type    string // key, revoke, root, undelegate, freeze, unfreeze
	Origin  string // name of the log that it is for
	Version uint64 // version of the trust state after it

	ID         *Digest   // key, revoke
	Name       string    // key
	Proof      []byte    // key
	Public     []byte    // key
	Role       string    // key
	Roles      []string  // key of an approver or a delegator
	Why        string    // revoke, freeze, unfreeze
	Keys       []RootKey // root
	Threshold  uint64    // root
	Delegation *Digest   // undelegate
	Delegator  string    // undelegate

	other []byte // canonical form of an event of an unknown type
}

// RootKey is a key of the set that a root event installs.
type RootKey struct {
	ID     Digest
	Name   string
	Proof  []byte
	Public []byte
}

// proof visits the proof of possession of a new key. Proofs do not cover each other.
func (f *form) proof(b *[]byte) {
	if !f.bare {
		f.base64("proof", b, 64)
	}
}

// member visits the event as a member of its entry. An event of an unknown type is well formed
// whatever its other fields; the trust state refuses it.
func (e *TrustEvent) member(f *form) {
	if !f.reading {
		f.name("event")
		f.b = e.Append(f.b)
		return
	}
	if v, ok := f.take("event", required); ok {
		e.read(f, v)
		f.under("event")
	}
}

func (e *TrustEvent) read(f *form, v crypto.Value) {
	if typ := v.Get("type").Text(); words128.ok(typ) && !eventType.ok(typ) {
		e.Type, e.other = typ, v.Append(nil)
	} else {
		f.within(v, e.visit)
	}
}

var (
	eventType = oneOf("key", "revoke", "root", "undelegate", "freeze", "unfreeze")
	roleWord  = word{"a role", func(s string) bool { return IsWords(s, MaxWords) }}
)

func (e *TrustEvent) visit(f *form) {
	if f.reading { // the type comes last and determines the fields before it
		if v, ok := f.peek("type"); ok {
			e.Type = v.Text()
		}
	}
	digest := func(name string, d **Digest) {
		switch {
		case f.reading:
			*d = new(Digest)
		case f.exact && *d == nil:
			f.fail(name, "missing field")
			return
		}
		f.digest(name, *d)
	}
	switch e.Type {
	case "key":
		digest("id", &e.ID)
		f.text("name", required, &e.Name, words256)
		f.text("origin", required, &e.Origin, originName)
		f.proof(&e.Proof)
		f.base64("public", &e.Public, 32)
		f.text("role", required, &e.Role, roleWord)
		f.texts("roles", optional, 1, MaxRoles, &e.Roles, words64)
		if f.reading && e.Role != "delegator" && !IsWords(e.Name, MaxWords) {
			f.fail("name", "longer than 128 bytes") // a delegator's name is a caller id, which may be longer
		}
	case "revoke":
		digest("id", &e.ID)
		f.text("origin", required, &e.Origin, originName)
	case "root":
		list(f, "keys", required, 0, 1<<20, &e.Keys, func(k *RootKey, f *form) {
			f.digest("id", &k.ID)
			f.text("name", required, &k.Name, words128)
			f.proof(&k.Proof)
			f.base64("public", &k.Public, 32)
		})
		f.text("origin", required, &e.Origin, originName)
		f.count("threshold", &e.Threshold)
	case "undelegate":
		digest("delegation", &e.Delegation)
		f.text("delegator", required, &e.Delegator, words256)
		f.text("origin", required, &e.Origin, originName)
	default:
		f.text("origin", required, &e.Origin, originName)
	}
	f.text("type", required, &e.Type, eventType)
	f.count("version", &e.Version)
	if e.Type == "revoke" || e.Type == "freeze" || e.Type == "unfreeze" {
		f.text("why", required, &e.Why, words128)
	}
}

// Append appends the canonical form.
func (e *TrustEvent) Append(dst []byte) []byte {
	if e.other != nil {
		return append(dst, e.other...)
	}
	return write(dst, e.visit)
}

// Digest returns the digest of the canonical form.
func (e *TrustEvent) Digest() Digest { return crypto.Sum(e.Append(nil)) }
