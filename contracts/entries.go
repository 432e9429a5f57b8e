package contracts

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// Genesis is the first entry of a log.
type Genesis struct {
	Nonce   string // 32 hex digits, random: two logs of one key and origin differ
	Origin  string // the log's name
	Trust   Digest // of the initial trust state, which is a blob
	Version uint64 // 1
}

func (g *Genesis) visit(f *form, h *Header) {
	h.front(f)
	f.text("nonce", required, &g.Nonce, nonceText)
	f.text("origin", required, &g.Origin, originName)
	h.links(f)
	h.back(f)
	f.time("time", required, &h.Time)
	f.digest("trust", &g.Trust)
	f.uint("version", required, &g.Version, 1, 1)
}

// PolicyRecord says which documents, read by which engine, are the policy of that hash.
type PolicyRecord struct {
	Documents []PolicyDocument // in stack order
	Engine    Engine
	Policy    Digest // the PolicyHash
}

// PolicyDocument is one document of a stack. Its canonical form is a blob.
type PolicyDocument struct {
	Digest  Digest
	Layer   string // P0, P1 or P2
	Name    string
	Version uint64
}

// Engine is the version of what judges: other rules would be another policy.
type Engine struct{ Rules, Threat uint64 }

var layerWord = oneOf("P0", "P1", "P2")

func (d *PolicyDocument) visit(f *form) {
	f.digest("digest", &d.Digest)
	f.text("layer", required, &d.Layer, layerWord)
	f.text("name", required, &d.Name, id)
	f.count("version", &d.Version)
}

func (e *Engine) visit(f *form) {
	f.count("rules", &e.Rules)
	f.count("threat", &e.Threat)
}

func (p *PolicyRecord) documents(f *form) {
	list(f, "documents", required, 1, MaxDocuments, &p.Documents, (*PolicyDocument).visit)
	f.object("engine", true, p.Engine.visit)
}

func (p *PolicyRecord) visit(f *form, h *Header) {
	p.documents(f)
	h.front(f)
	h.parents(f)
	f.digest("policy", &p.Policy)
	f.digest("prev", &h.Prev)
	h.back(f)
	f.time("time", required, &h.Time)
}

// Hash is the PolicyHash: that of canonical {documents, engine}.
func (p *PolicyRecord) Hash() Digest { return crypto.Sum(write(nil, p.documents)) }

func (p *PolicyRecord) check(fail func(field, what string)) {
	for i, d := range p.Documents[1:] {
		before := p.Documents[i]
		switch c := strings.Compare(before.Layer, d.Layer); {
		case c > 0, c == 0 && d.Layer != "P2" && before.Name > d.Name: // overlays stand in order of narrowing
			fail("documents", "not in stack order")
		case c == 0 && d.Layer != "P2" && before.Name == d.Name:
			fail("documents", "one document twice")
		}
	}
	if p.Policy != p.Hash() {
		fail("policy", "not the hash of documents and engine")
	}
}

// Message is what the user said, handed in by the host. The text is a blob.
type Message struct{ TextHash Digest }

func (m *Message) visit(f *form, h *Header) {
	h.front(f)
	h.links(f)
	h.back(f)
	f.digest("textHash", &m.TextHash)
	f.time("time", required, &h.Time)
}

// Close is the last entry of a session.
type Close struct {
	Count uint64 // entries before it
	Last  Digest // the one before it
}

var closeWord = oneOf("close")

func (c *Close) visit(f *form, h *Header) {
	event := "close"
	f.count("count", &c.Count)
	f.text("event", required, &event, closeWord)
	h.front(f)
	f.digest("last", &c.Last)
	h.links(f)
	h.back(f)
	f.time("time", required, &h.Time)
}

// Condense says that the bodies of the entries [From, To) may be dropped. docs/FORMATS.md section 7.
type Condense struct {
	Carry Digest // of the blob that holds what later entries need of them
	From  uint64
	Kept  string // medium or high: entries of that risk are not in the range
	Root  Digest // the log's at size To
	To    uint64
}

var keptWord = oneOf("medium", "high")

func (c *Condense) visit(f *form, h *Header) {
	f.digest("carry", &c.Carry)
	f.count("from", &c.From)
	f.text("kept", required, &c.Kept, keptWord)
	h.front(f)
	h.links(f)
	f.digest("root", &c.Root)
	h.back(f)
	f.time("time", required, &h.Time)
	f.count("to", &c.To)
}

// TrustRecord holds one trust event with the signatures over it. docs/FORMATS.md section 6.
type TrustRecord struct {
	Event      TrustEvent
	Signatures []Signature // sorted by key id
}

// Signature is one key's signature over something that others sign too.
type Signature struct {
	KeyID Digest
	Sig   []byte
}

func (s *Signature) visit(f *form) {
	f.digest("keyid", &s.KeyID)
	f.base64("sig", &s.Sig, 64)
}

func (t *TrustRecord) visit(f *form, h *Header) {
	t.Event.member(f)
	h.front(f)
	h.links(f)
	h.back(f)
	list(f, "signatures", required, 0, 1<<20, &t.Signatures, (*Signature).visit)
	for i := 1; f.reading && i < len(t.Signatures); i++ {
		if before := t.Signatures[i-1].KeyID; slices.Compare(before[:], t.Signatures[i].KeyID[:]) >= 0 {
			f.fail("signatures", "not sorted by key id and unique")
		}
	}
	f.time("time", required, &h.Time)
}

// TrustEvent changes who may sign what. Which fields it has follows from its type.
type TrustEvent struct {
	Type    string // key, revoke, root, undelegate, freeze, unfreeze
	Origin  string // of the log that it is for
	Version uint64 // of the state that it makes

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

	other []byte // of a type that nobody knows: its canonical form
}

// RootKey is a key of the new set that a root event makes.
type RootKey struct {
	ID     Digest
	Name   string
	Proof  []byte
	Public []byte
}

func (k *RootKey) visit(f *form) {
	f.digest("id", &k.ID)
	f.text("name", required, &k.Name, words128)
	f.base64("proof", &k.Proof, 64)
	f.base64("public", &k.Public, 32)
}

// member is the event as a member of its entry. One of a type that nobody knows has no form that it could depart from: it is well formed, and
// the trust state refuses it.
func (e *TrustEvent) member(f *form) {
	if !f.reading {
		f.name("event")
		f.b = e.Append(f.b)
		return
	}
	v, ok := f.take("event", required)
	if typ := v.Get("type"); ok && words128.ok(typ.Text()) && !eventType.ok(typ.Text()) {
		e.Type, e.other = typ.Text(), v.Append(nil)
	} else if ok {
		f.within(v, e.visit)
		f.under("event")
	}
}

var (
	eventType = oneOf("key", "revoke", "root", "undelegate", "freeze", "unfreeze")
	roleWord  = word{"a role", func(s string) bool { return IsWords(s, maxWords) }}
)

func (e *TrustEvent) visit(f *form) {
	if f.reading { // the type comes last, and says what comes before
		if v, ok := f.peek("type"); ok {
			e.Type = v.Text()
		}
	}
	digest := func(name string, d **Digest) {
		if f.reading {
			*d = new(Digest)
		}
		f.digest(name, *d)
	}
	switch e.Type {
	case "key":
		digest("id", &e.ID)
		f.text("name", required, &e.Name, words256)
		f.text("origin", required, &e.Origin, originName)
		f.base64("proof", &e.Proof, 64)
		f.base64("public", &e.Public, 32)
		f.text("role", required, &e.Role, roleWord)
		f.texts("roles", optional, 1, MaxRoles, &e.Roles, words64)
		if f.reading && e.Role != "delegator" && !IsWords(e.Name, maxWords) {
			f.fail("name", "longer than 128 bytes") // a delegator's is a caller id, which may be
		}
	case "revoke":
		digest("id", &e.ID)
		f.text("origin", required, &e.Origin, originName)
	case "root":
		list(f, "keys", required, 0, 1<<20, &e.Keys, (*RootKey).visit)
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

// Append appends the canonical form, over which its signatures are.
func (e *TrustEvent) Append(dst []byte) []byte {
	if e.other != nil {
		return append(dst, e.other...)
	}
	return write(dst, e.visit)
}

// Digest is that of the canonical form.
func (e *TrustEvent) Digest() Digest { return crypto.Sum(e.Append(nil)) }
