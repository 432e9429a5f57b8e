package contracts

import (
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// Genesis is the first entry of a log.
type Genesis struct {
	Nonce   string // 32 hex digits, random: logs of one key and origin differ in it
	Origin  string // name of the log
	Trust   Digest // digest of the initial trust state, which is a blob
	Version uint64 // always 1
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

// PolicyRecord lists the documents and the engine that a PolicyHash stands for.
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

// Engine is the version of the rules and threat patterns. The same documents under another engine
// are another policy.
type Engine struct{ Rules, Threat uint64 }

var layerWord = oneOf("P0", "P1", "P2")

func (p *PolicyRecord) documents(f *form) {
	list(f, "documents", required, 1, MaxDocuments, &p.Documents, func(d *PolicyDocument, f *form) {
		f.digest("digest", &d.Digest)
		f.text("layer", required, &d.Layer, layerWord)
		f.text("name", required, &d.Name, id)
		f.count("version", &d.Version)
	})
	f.object("engine", true, func(f *form) {
		f.uint("rules", required, &p.Engine.Rules, 1, crypto.MaxInt)
		f.count("threat", &p.Engine.Threat)
	})
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

// Hash returns the PolicyHash: the digest of canonical {documents, engine}.
func (p *PolicyRecord) Hash() Digest { return crypto.Sum(write(nil, p.documents)) }

func (p *PolicyRecord) check(fail func(field, what string)) {
	for i, d := range p.Documents[1:] {
		before := p.Documents[i]
		switch c := strings.Compare(before.Layer, d.Layer); {
		case c > 0, c == 0 && d.Layer != "P2" && before.Name > d.Name: // overlays are in order of narrowing
			fail("documents", "not in stack order")
		case c == 0 && d.Layer != "P2" && before.Name == d.Name:
			fail("documents", "one document twice")
		}
	}
	if p.Policy != p.Hash() {
		fail("policy", "not the hash of documents and engine")
	}
}

// Message records a text of the user, passed in by the host. The text is a blob.
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
	Count uint64 // number of entries before it
	Last  Digest // hash of the entry before it
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

// MaxRange is the most entries that the range of one condense entry has.
const MaxRange = 1 << 20

// Condense says that stores may let go of the entries From to To-1, as far as the policies under
// which their calls were judged allow it: of its set. docs/FORMATS.md section 7.
type Condense struct {
	Dropped uint64 // number of entries in the set
	From    uint64
	Root    Digest // root of the log at size To
	Size    uint64 // sessions that were closed below it count as closed
	Stubs   Digest // RFC 6962 root over the stubs of the set
	To      uint64
	Until   Time // what is younger does not go
}

func (c *Condense) visit(f *form, h *Header) {
	f.uint("dropped", required, &c.Dropped, 1, crypto.MaxInt)
	f.count("from", &c.From)
	h.front(f)
	h.links(f)
	f.digest("root", &c.Root)
	h.back(f)
	f.count("size", &c.Size)
	f.digest("stubs", &c.Stubs)
	f.time("time", required, &h.Time)
	f.count("to", &c.To)
	f.time("until", required, &c.Until)
}

// check tests what a condense entry shows by itself. The bounds on its range bound what a verifier
// reads again.
func (c *Condense) check(h *Header, fail func(field, what string)) {
	switch {
	case c.From >= c.To:
		fail("to", "not after from")
	case c.To > c.Size:
		fail("to", "after size")
	case c.To-c.From > MaxRange:
		fail("to", "more than 1,048,576 after from")
	case c.To-c.From > 64*c.Dropped:
		fail("to", "more than 64 entries after from for each that is dropped")
	case c.Until > h.Time:
		fail("until", "after its time")
	}
}
