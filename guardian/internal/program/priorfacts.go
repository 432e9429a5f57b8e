package program

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// facts are those of the receipts that one call asked for.
type facts struct {
	documents []document
	size      int          // bytes of what was read, as the inputs hold it
	of        int          // the receipt that is asked for facts
	wanted    []Subject    // what is looked at in them
	slots     []slot       // one for each of wanted
	sets      []*value.Set // likewise, of those that are sets
}

// A document is the facts of one receipt.
type document struct {
	at     int          // of the receipt
	values crypto.Value // of the past
	what   string       // why they cannot be read
	read   []member
}

// A member of a facts document that was read.
type member struct {
	key  string
	text []byte // canonical form of the values
}

// that answers whether the facts of a receipt are as a predicate says.
func (e *Evaluator) that(n *Node, receipt int) Answer {
	f := &e.facts
	e.deep, f.of, f.wanted = true, receipt, n.More.Facts
	f.slots = append(f.slots[:0], make([]slot, len(f.wanted))...)
	f.sets = append(f.sets[:0], make([]*value.Set, len(f.wanted))...)
	return e.Eval(&n.Kids[0])
}

// fact returns the slot of a subject that is a fact, resolved.
func (e *Evaluator) fact(i int32) *slot {
	i -= FactSlot(0)
	x, s := &e.facts.slots[i], &e.facts.wanted[i]
	if x.state != unresolved {
		return x
	}
	values, what := e.readFact(s)
	switch {
	case what != "":
		x.state, x.what = malformed, what
	case s.As == AsSet, s.As == AsFoldedSet:
		var members []string
		for v := range values.Elements() {
			members = append(members, string(v.Raw()))
		}
		x.state, e.facts.sets[i] = present, value.NewSet(members, s.As == AsFoldedSet)
	default:
		e.found = values.At(0)
		e.resolve(s, x)
		if x.state == malformed {
			x.what = "the fact " + s.Path[0] + " is " + x.what
		}
	}
	return x
}

// readFact returns the values of a fact of the receipt, or why they cannot be known. A fact is an
// error if it was over a limit, or if the receipt was made when the tool declared other facts.
func (e *Evaluator) readFact(s *Subject) (values crypto.Value, what string) {
	r := &e.receipts[e.facts.of]
	d := e.document()
	if d.what != "" {
		return values, d.what
	}
	values = d.values.Get(s.Pointer)
	if values.Kind() != crypto.Array {
		return values, "the receipt of " + r.Tool + " has no fact " + s.Path[0]
	}
	for i := range d.read {
		if d.read[i].key == s.Pointer {
			return values, ""
		}
	}
	m := member{s.Pointer, values.Append(nil)}
	if len(d.read) == 0 {
		e.facts.size += len("{}")
	}
	e.facts.size += len(crypto.AppendString(nil, m.key)) + len(":,") + len(m.text)
	if e.facts.size > contracts.MaxPresented || e.facts.size+e.asked > maxFactsAsked {
		return values, tooMuch
	}
	d.read = append(d.read, m)
	return values, ""
}

// document returns the facts of the receipt, which are asked for once.
func (e *Evaluator) document() *document {
	f := &e.facts
	for i := range f.documents {
		if f.documents[i].at == f.of {
			return &f.documents[i]
		}
	}
	r := &e.receipts[f.of]
	d := document{at: f.of, values: r.Facts}
	if e.recall.past != nil {
		var err error
		if d.values, err = e.recall.past.Facts(r); err != nil {
			d.what = "the facts of " + r.Tool + " cannot be read"
		}
	}
	f.documents = append(f.documents, d)
	return &f.documents[len(f.documents)-1]
}

// record adds what was read of facts to the receipts that they are of.
func (f *facts) record(receipts []contracts.PriorReceipt) {
	for i := range f.documents {
		d := &f.documents[i]
		if d.read == nil {
			continue
		}
		b := []byte{'{'}
		for _, m := range d.read {
			b = append(append(append(crypto.AppendString(b, m.key), ':'), m.text...), ',')
		}
		b[len(b)-1] = '}'
		tree := new(crypto.Tree)
		if tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: contracts.MaxRecordDepth, Object: true}) == nil {
			receipts[d.at].Facts = tree.Root()
		}
	}
}
