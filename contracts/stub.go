package contracts

import (
	"bytes"
	"slices"
)

// MaxStub is the length of the longest stub, in bytes.
const MaxStub = 8 << 10

// Stub is what is left of an entry that a store has let go of: the line in its place, from which
// the leaf hash of the entry and all that later entries need of it are known. It is not signed. Its
// condense entry is, which covers it. A stub is of a decision or of a receipt, and exactly one of
// the two is set. docs/FORMATS.md section 7.
type Stub struct {
	Entry    Digest // leaf hash of the entry
	Lamport  uint64
	Parents  []Digest // those of the entry; without its decision, if it is a receipt
	Seq      uint64
	Session  string
	Time     Time
	Decision *DecisionStub
	Receipt  *ReceiptStub
}

// DecisionStub is what a stub has of a decision.
type DecisionStub struct {
	Charges     []Charge
	Idempotency string
	Policy      uint64 // index of the policy entry of its PolicyHash
	Tool        string
}

// ReceiptStub is what a stub has of a receipt.
type ReceiptStub struct {
	Decision  uint64 // index of its decision
	FactsHash *Digest
	Outcome   Outcome // Executed or Failed
	Settled   []Settlement
}

// NewStub returns the stub of an entry that is a decision or the receipt of an ALLOW. hash is the
// leaf hash of the entry, and names the index of the decision's policy entry or of the receipt's
// decision.
func NewStub(st *Statement, hash Digest, names uint64) *Stub {
	s := &Stub{Entry: hash, Lamport: st.Lamport, Parents: st.Parents, Seq: st.Seq, Session: st.Session, Time: st.Time}
	if d := st.Decision; d != nil {
		s.Decision = &DecisionStub{d.Charges, d.Idempotency, names, d.Tool}
		return s
	}
	r := st.Receipt
	if i := slices.Index(s.Parents, r.DecisionHash); i >= 0 {
		s.Parents = slices.Delete(slices.Clone(s.Parents), i, i+1)
	}
	s.Receipt = &ReceiptStub{names, r.FactsHash, r.Outcome, r.Settled}
	return s
}

// stubStart begins every stub, and no envelope.
var stubStart = []byte(`{"stub":`)

// IsStub reports whether a line of a log is the stub of an entry rather than the entry. It does not
// check its form.
func IsStub(e Entry) bool { return bytes.HasPrefix(e, stubStart) }

// Append appends the line, without a line end.
func (s *Stub) Append(dst []byte) []byte {
	return append(write(append(dst, stubStart...), s.visit), '}')
}

// Stub reads the stub of an entry. Its error is a [FormatError] of the class Encoding or Record.
func (r *Reader) Stub(e Entry) (*Stub, error) {
	if s := r.scanStub(e); s != nil {
		return s, nil
	}
	return r.parseStub(e)
}

func (r *Reader) parseStub(e Entry) (*Stub, error) {
	if err := r.strict(e); err != nil {
		return nil, err
	}
	if len(e) > MaxStub {
		return nil, &FormatError{Encoding, "", "a stub of more than 8,192 bytes"}
	}
	s := new(Stub)
	if err := read(r.envelope.Root(), Record, "", s.line); err != nil {
		return nil, err
	}
	return s, nil
}

// scanStub returns the stub of an entry if it can be scanned.
func (r *Reader) scanStub(e Entry) *Stub {
	if len(e) > MaxStub {
		return nil
	}
	r.scanner.from(e)
	s := new(Stub)
	if !scan(&r.scanner, s.line) {
		return nil
	}
	return s
}

// line visits the object around a stub.
func (s *Stub) line(f *form) { f.object("stub", true, s.visit) }

// Leaf returns the RFC 6962 leaf hash of an entry, or of the entry that a stub is left of. Its
// error is a [FormatError] of a stub.
func (r *Reader) Leaf(e Entry) (Digest, error) {
	if !IsStub(e) {
		return e.Hash(), nil
	}
	s, err := r.Stub(e)
	if err != nil {
		return Digest{}, err
	}
	return s.Entry, nil
}

var stubOutcome = oneOf(string(Executed), string(Failed))

func (s *Stub) visit(f *form) {
	if f.reading {
		if _, ok := f.peek("decision"); ok || f.scan != nil && f.scan.next("decision") {
			s.Receipt = new(ReceiptStub)
		} else {
			s.Decision = new(DecisionStub)
		}
	}
	if s.Decision != nil {
		s.visitDecision(f)
	} else {
		s.visitReceipt(f)
	}
}

func (s *Stub) visitDecision(f *form) {
	d := s.Decision
	list(f, "charges", optional, 1, MaxCharges, &d.Charges, (*Charge).visit)
	f.digest("entry", &s.Entry)
	f.text("idempotency", optional, &d.Idempotency, words256)
	f.count("lamport", &s.Lamport)
	f.digests("parents", optional, 1, MaxParents, &s.Parents)
	f.count("policy", &d.Policy)
	f.count("seq", &s.Seq)
	f.text("session", required, &s.Session, askedName)
	f.time("time", required, &s.Time)
	f.text("tool", required, &d.Tool, toolName)
	if f.reading {
		checkCharges(d.Charges, s.Session, s.Time, f.fail)
	}
}

func (s *Stub) visitReceipt(f *form) {
	r := s.Receipt
	f.count("decision", &r.Decision)
	f.digest("entry", &s.Entry)
	f.maybe("factsHash", &r.FactsHash)
	f.count("lamport", &s.Lamport)
	f.text("outcome", required, (*string)(&r.Outcome), stubOutcome)
	f.digests("parents", optional, 1, MaxParents, &s.Parents)
	f.count("seq", &s.Seq)
	f.text("session", required, &s.Session, askedName)
	list(f, "settled", optional, 1, MaxCharges, &r.Settled, (*Settlement).visit)
	f.time("time", required, &s.Time)
	if f.reading && r.FactsHash != nil && r.Outcome != Executed {
		f.fail("factsHash", "goes with EXECUTED only")
	}
}
