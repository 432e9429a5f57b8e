package evidence

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// What a call was told of what the user and the tools said. How much was said follows from the
// log, and so do its digests. The texts and facts themselves may be erased.

// said reads the text of a message or a facts document that an earlier entry names. If it was not
// there, or not as it should be, that is an error.
func (p *logPast) said(d contracts.Digest) ([]byte, error) {
	_, faded := p.session().faded[halfOf(d)]
	b, f := p.r.reread.said(d, faded)
	switch {
	case f != nil:
		p.trouble = f
		return nil, f
	case b == nil:
		return nil, errUntold
	}
	p.read += len(b)
	return b, nil
}

// supply returns what a source supplied by the log. If some of it is not there that is an error,
// with the count and the digest.
func (p *logPast) supply(q past.Source) (past.Supply, error) {
	s := p.session()
	p.read = 0
	supply, err := s.Source(q, p.said)
	if p.read > 0 && p.chain.held == s {
		p.r.sessions.weigh(p.chain, ofSource*p.read)
	}
	return supply, err
}

// document returns the facts document of a receipt.
func (p *logPast) document(r *contracts.PriorReceipt) (crypto.Value, error) {
	return p.session().Facts(r, p.said)
}

// Source returns what the log says. If some of what the source said is not there, what was found
// is taken from the inputs. A kernel that could not read it denied, and recorded nothing.
func (p *logPast) Source(q past.Source) (past.Supply, error) {
	at := slices.IndexFunc(p.kept.From, func(k contracts.Source) bool {
		is, ok := p.policy.Source(k.Source)
		return ok && is.Tool == q.Tool && is.Fact == q.Fact
	})
	if at < 0 {
		return past.Supply{}, errUntold
	}
	supply, err := p.supply(q)
	switch {
	case p.trouble != nil:
		return past.Supply{}, p.trouble
	case err != nil:
		supply.Values = found(p.kept.From[at].Found)
		if !slices.Contains(p.unseen, at) {
			p.unseen = append(p.unseen, at)
		}
	}
	return supply, nil
}

// A found is what kept inputs say of a source, sorted.
type found []contracts.Digest

func (x found) Has(v crypto.Value) bool {
	_, ok := slices.BinarySearchFunc(x, crypto.Sum(v.Append(nil)),
		func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	return ok
}

// Facts returns what the log says or, if the document is not there, the facts in the inputs. A
// kernel that could not read it denied, and recorded nothing.
func (p *logPast) Facts(r *contracts.PriorReceipt) (crypto.Value, error) {
	at := slices.IndexFunc(p.kept.Receipts, func(k contracts.PriorReceipt) bool {
		return k.Tool == r.Tool && equal(k.Entry, r.Entry) && k.Same.Equal(r.Same)
	})
	if at < 0 || p.kept.Receipts[at].Facts.Kind() == crypto.Missing {
		return crypto.Value{}, errUntold
	}
	v, err := p.document(r)
	switch {
	case p.trouble != nil:
		return crypto.Value{}, p.trouble
	case err != nil:
		return p.kept.Receipts[at].Facts, nil
	}
	return v, nil
}

// Marks returns what the log says.
func (p *logPast) Marks() (tainted bool, labels []string, err error) {
	tainted, labels = p.r.marks.told(&p.r.fold.log, p.chain, p.parents)
	return tainted, labels, nil
}
