package evidence

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/condense"
)

// A letting is what a policy of the log says of letting go.
type letting struct {
	hash  contracts.Digest // PolicyHash
	terms *condense.Terms
}

// The most policies whose terms are held, and the most bytes of their documents.
const (
	maxTerms     = 64
	maxTermBytes = 64 << 20
)

// A termReader reads what the policies of a log say of letting go, from their documents. Those that
// it has read it holds, as long as they are few and small.
type termReader struct {
	policy   func(index uint64) (*contracts.PolicyRecord, error) // nil: no earlier policy entry has it
	document func(contracts.Digest) ([]byte, error)
	held     map[uint64]letting // by index of the policy entry
	bytes    int                // of their documents
}

// of returns what the policy entry of that index says, or nil if there is no earlier policy entry
// with it.
func (x *termReader) of(index uint64) (*letting, error) {
	if p, ok := x.held[index]; ok {
		return &p, nil
	}
	policy, err := x.policy(index)
	if err != nil || policy == nil {
		return nil, err
	}
	var docs []condense.Document
	size := 0
	for _, d := range policy.Documents {
		if d.Layer == "P2" { // it says nothing of letting go
			continue
		}
		b, err := x.document(d.Digest)
		if err != nil {
			return nil, err
		}
		docs = append(docs, condense.Document{Layer: d.Layer, Canonical: bytes.Clone(b)})
		size += len(b)
	}
	if x.held == nil || len(x.held) == maxTerms || x.bytes+size > maxTermBytes {
		x.held, x.bytes = map[uint64]letting{}, 0
	}
	p := letting{policy.Policy, condense.ReadTerms(docs)}
	x.held[index] = p
	x.bytes += size
	return &p, nil
}

// termsOf returns what the policies of a log that is verified say.
func (x *rereader) termsOf() termReader {
	return termReader{
		policy: func(index uint64) (*contracts.PolicyRecord, error) {
			if index >= x.log.size() || x.log.stub(index) != nil {
				return nil, nil
			}
			st, f := x.statement(index)
			if f != nil {
				return nil, f
			}
			return st.Policy, nil
		},
		// A document that is missing, or is another one, is BLOB, and counts at once: without it
		// what follows cannot be judged.
		document: func(d contracts.Digest) ([]byte, error) {
			b, i, f := x.blobs.content(d, x.blobs.far)
			switch {
			case f != nil:
				return nil, f
			case i == noBlob:
				return nil, x.blobs.fault(d, "the policy document is missing")
			}
			return b, nil
		},
	}
}
