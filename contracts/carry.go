package contracts

import (
	"bytes"
	"cmp"

	"github.com/helmkernel/helm/crypto"
)

// maxCarry is the size of a carry.
const maxCarry = 64 << 20

// Carry is the blob that a condense entry names: what entries after a range need of it when its bodies are gone. docs/FORMATS.md section 7.
type Carry struct {
	Budgets  []Balance // at To, of each budget that the range charges
	Heads    []Digest  // hashes in the range that no entry in it names
	Named    []Named   // entries of the range that later ones name, up to the condense entry
	Names    []Digest  // entries before the range that entries of it name
	Sessions []CarriedSession
}

// Named is an entry that others name.
type Named struct {
	Entry   Digest
	Lamport uint64
}

// CarriedSession is where a session stands after the range.
type CarriedSession struct {
	Count   uint64 // entries of the range
	Lamport uint64
	Last    Digest
	Seq     uint64
	Session string
	Time    Time
}

func (n *Named) visit(f *form) {
	f.digest("entry", &n.Entry)
	f.count("lamport", &n.Lamport)
}

func (s *CarriedSession) visit(f *form) {
	f.count("count", &s.Count)
	f.count("lamport", &s.Lamport)
	f.digest("last", &s.Last)
	f.count("seq", &s.Seq)
	f.text("session", required, &s.Session, askedName)
	f.time("time", required, &s.Time)
}

func (c *Carry) visit(f *form) {
	list(f, "budgets", required, 0, 1<<30, &c.Budgets, (*Balance).visit)
	f.digests("heads", required, 0, 1<<30, &c.Heads)
	list(f, "named", required, 0, 1<<30, &c.Named, (*Named).visit)
	f.digests("names", required, 0, 1<<30, &c.Names)
	list(f, "sessions", required, 1, 1<<30, &c.Sessions, (*CarriedSession).visit)
}

// Append appends the canonical form.
func (c *Carry) Append(dst []byte) []byte { return write(dst, c.visit) }

// ParseCarry reads a carry, and refuses one that is not in canonical form, or whose lists are not in order. Whether it is what the range
// gives is for whoever has the log.
func ParseCarry(b []byte) (*Carry, error) {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: maxCarry, Depth: MaxRecordDepth, Object: true}); err != nil {
		return nil, &FormatError{Encoding, "carry", err.Error()}
	}
	if !tree.Canonical() {
		return nil, &FormatError{Encoding, "carry", "not canonical"}
	}
	c := new(Carry)
	err := read(tree.Root(), Record, "carry.", func(f *form) {
		c.visit(f)
		c.check(f.fail)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Carry) check(fail func(field, what string)) {
	switch {
	case !ascends(c.Budgets, byForm):
		fail("budgets", "not sorted by canonical form and unique")
	case !ascends(c.Named, func(a, b *Named) int { return bytes.Compare(a.Entry[:], b.Entry[:]) }):
		fail("named", "not sorted by entry and unique")
	case !ascends(c.Sessions, func(a, b *CarriedSession) int { return cmp.Compare(a.Session, b.Session) }):
		fail("sessions", "not sorted by name and unique")
	}
}
