package contracts

import (
	"bytes"
	"cmp"

	"github.com/helmkernel/helm/crypto"
)

// maxCarry bounds the length of a carry.
const maxCarry = 64 << 20

// Carry is the blob that a condense entry names: the data of a range of entries that later entries
// need after the bodies are dropped. No kernel writes it yet. docs/FORMATS.md section 7.
type Carry struct {
	Budgets  []Balance // at To, of each budget that the range charges
	Heads    []Digest  // hashes of entries in the range that no entry of the range names
	Named    []Named   // entries of the range that later entries name, up to the condense entry
	Names    []Digest  // hashes of entries before the range that entries of the range name
	Sessions []CarriedSession
}

// Named is an entry that later entries name.
type Named struct {
	Entry   Digest
	Lamport uint64
}

// CarriedSession is the state of a session after the range.
type CarriedSession struct {
	Count   uint64 // number of entries in the range
	Lamport uint64
	Last    Digest
	Seq     uint64
	Session string
	Time    Time
}

func (c *Carry) visit(f *form) {
	list(f, "budgets", required, 0, 1<<30, &c.Budgets, (*Balance).visit)
	f.digests("heads", required, 0, 1<<30, &c.Heads)
	list(f, "named", required, 0, 1<<30, &c.Named, func(n *Named, f *form) {
		f.digest("entry", &n.Entry)
		f.count("lamport", &n.Lamport)
	})
	f.digests("names", required, 0, 1<<30, &c.Names)
	list(f, "sessions", required, 1, 1<<30, &c.Sessions, func(s *CarriedSession, f *form) {
		f.count("count", &s.Count)
		f.count("lamport", &s.Lamport)
		f.digest("last", &s.Last)
		f.count("seq", &s.Seq)
		f.text("session", required, &s.Session, askedName)
		f.time("time", required, &s.Time)
	})
}

// Append appends the canonical form.
func (c *Carry) Append(dst []byte) []byte { return write(dst, c.visit) }

// ParseCarry reads a carry. It refuses one that is not canonical, or whose lists are not sorted.
// Whether it matches the range can only be checked with the log.
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
		switch {
		case !ascends(c.Budgets, byForm):
			f.fail("budgets", "not sorted by canonical form and unique")
		case !ascends(c.Named, func(a, b *Named) int { return bytes.Compare(a.Entry[:], b.Entry[:]) }):
			f.fail("named", "not sorted by entry and unique")
		case !ascends(c.Sessions, func(a, b *CarriedSession) int { return cmp.Compare(a.Session, b.Session) }):
			f.fail("sessions", "not sorted by name and unique")
		}
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}
