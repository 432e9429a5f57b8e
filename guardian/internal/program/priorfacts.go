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

// readFact returns the values of a fact of the receipt, or why they cannot be known. A fact is an
// error if it was over a limit, or if the receipt was made when the tool declared other facts.
func (r *recall) readFact(s *Subject) (values crypto.Value, what string) {
	d := r.document()
	if d.what != "" {
		return values, d.what
	}
	values = d.values.Get(s.Pointer)
	if values.Kind() != crypto.Array {
		return values, "the receipt of " + r.receipts[r.facts.of].Tool + " has no fact " + s.Path[0]
	}
	for i := range d.read {
		if d.read[i].key == s.Pointer {
			return values, ""
		}
	}
	m := member{s.Pointer, values.Append(nil)}
	if len(d.read) == 0 {
		r.facts.size += len("{}")
	}
	r.facts.size += len(crypto.AppendString(nil, m.key)) + len(":,") + len(m.text)
	if r.facts.size > contracts.MaxPresented || r.facts.size+r.asked > maxFactsAsked {
		return values, tooMuch
	}
	d.read = append(d.read, m)
	return values, ""
}

// document returns the facts of the receipt, which are asked for once.
func (r *recall) document() *document {
	f := &r.facts
	for i := range f.documents {
		if f.documents[i].at == f.of {
			return &f.documents[i]
		}
	}
	prior := &r.receipts[f.of]
	d := document{at: f.of, values: prior.Facts}
	if r.past != nil {
		var err error
		if d.values, err = r.past.Facts(prior); err != nil {
			d.what = "the facts of " + prior.Tool + " cannot be read"
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
