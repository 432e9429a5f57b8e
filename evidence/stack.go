package evidence

import (
	"bytes"
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
)

// stacks are the policies of a log. Of each is held which entry it is; few are compiled at a time.
type stacks struct {
	entries map[contracts.Digest]uint64 // by PolicyHash
	ready   []stack                     // compiled, the latest last
}

// At most so many policies, of so many bytes of documents, are compiled at a time, but for the last one.
const (
	maxReady      = 64
	maxReadyBytes = 64 << 20
)

// A stack is one policy.
type stack struct {
	hash   contracts.Digest
	engine contracts.Engine
	policy *guardian.Policy // nil where it does not compile, or is another engine's
	why    string           // it does not compile
	bytes  int
}

func (s *stacks) known(policy contracts.Digest) bool {
	_, ok := s.entries[policy]
	return ok
}

// has tells whether a policy is compiled.
func (s *stacks) has(policy contracts.Digest) bool {
	return slices.ContainsFunc(s.ready, func(x stack) bool { return x.hash == policy })
}

// stack gives a policy of the log, compiled from its documents. Blobs read before are no longer valid.
func (v *verifier) stack(policy contracts.Digest) (*stack, *Error) {
	s := &v.stacks
	for i := range s.ready {
		if s.ready[i].hash == policy {
			return &s.ready[i], nil
		}
	}
	x, f := v.compile(policy)
	if f != nil {
		return nil, f
	}
	s.ready = append(s.ready, x)
	total := 0
	for _, x := range s.ready {
		total += x.bytes
	}
	for (total > maxReadyBytes || len(s.ready) > maxReady) && len(s.ready) > 1 {
		total -= s.ready[0].bytes
		s.ready = append(s.ready[:0], s.ready[1:]...)
	}
	return &s.ready[len(s.ready)-1], nil
}

// compile reads a policy entry again, and its documents.
func (v *verifier) compile(policy contracts.Digest) (x stack, f *Error) {
	x.hash = policy
	st, f := v.again(v.stacks.entries[policy])
	if f != nil {
		return x, f
	}
	record := st.Policy
	x.engine = record.Engine
	if x.engine != guardian.Engine() {
		return x, nil
	}
	var docs, overlays []contracts.Document
	for i, d := range record.Documents {
		b, _, f := v.content(d.Digest, v.far)
		switch noted := v.badBlob != nil; { // where the policy entry named it
		case f != nil && f.Check != ErrBlob:
			return x, f
		case b == nil && !noted:
			return x, v.from.unreadable(&d.Digest, errChanged)
		case b == nil:
			x.why = "a policy document is not there"
			return x, nil
		}
		x.bytes += len(b)
		doc := contracts.Document{Name: d.Name, Canonical: bytes.Clone(b)}
		if i > 0 && d.Layer == "P2" { // these stand in the order of narrowing, which Compile does not keep
			overlays = append(overlays, doc)
		} else {
			docs = append(docs, doc)
		}
	}
	p, err := guardian.Compile(docs...)
	if err == nil && overlays != nil {
		p, err = p.Narrow(overlays...)
	}
	var le *guardian.LoadError
	switch {
	case errors.As(err, &le):
		x.why = "the policy does not compile: " + le.Document + ": " + le.Pointer + ": " + le.What
	case err != nil:
		x.why = "the policy does not compile"
	case p.Hash() != policy:
		x.why = "the documents are another policy than the entry says"
	default:
		x.policy = p
	}
	return x, nil
}

// add notes a policy entry.
func (s *stacks) add(policy contracts.Digest, index uint64) {
	if s.entries == nil {
		s.entries = map[contracts.Digest]uint64{}
	}
	s.entries[policy] = index
}
