package evidence

import (
	"bytes"
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
)

// The most policies that are held compiled, and the most bytes of their documents. The last one is
// held in any case.
const (
	maxStacks     = 64
	maxStackBytes = 64 << 20
)

// A stack is a policy of the log.
type stack struct {
	hash   contracts.Digest
	engine contracts.Engine
	policy *guardian.Policy // nil if it does not compile, or is another engine's
	why    string           // it does not compile
	bytes  int
}

// compiled reports whether a policy is held compiled.
func (r *replayer) compiled(policy contracts.Digest) bool {
	return slices.ContainsFunc(r.stacks, func(x stack) bool { return x.hash == policy })
}

// stack returns a policy of the log, compiled from its documents. Blobs that were read earlier are
// no longer valid.
func (r *replayer) stack(policy contracts.Digest) (*stack, *Error) {
	for i := range r.stacks {
		if r.stacks[i].hash == policy {
			return &r.stacks[i], nil
		}
	}
	x, f := r.compile(policy)
	if f != nil {
		return nil, f
	}
	r.stacks = append(r.stacks, x)
	total := 0
	for _, x := range r.stacks {
		total += x.bytes
	}
	for (total > maxStackBytes || len(r.stacks) > maxStacks) && len(r.stacks) > 1 {
		total -= r.stacks[0].bytes
		r.stacks = append(r.stacks[:0], r.stacks[1:]...)
	}
	return &r.stacks[len(r.stacks)-1], nil
}

// compile reads a policy entry again, and its documents.
func (r *replayer) compile(policy contracts.Digest) (stack, *Error) {
	x := stack{hash: policy}
	st, f := r.reread.statement(r.fold.policies[policy])
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
		b, _, f := r.blobs.content(d.Digest, r.blobs.far)
		switch noted := r.blobs.bad != nil; { // when the policy entry named it
		case f != nil && f.Check != ErrBlob:
			return x, f
		case b == nil && !noted:
			return x, r.blobs.from.unreadable(&d.Digest, errChanged)
		case b == nil:
			x.why = "a policy document is not there"
			return x, nil
		}
		x.bytes += len(b)
		doc := contracts.Document{Name: d.Name, Canonical: bytes.Clone(b)}
		if i > 0 && d.Layer == "P2" { // overlays are in the order of narrowing, which Compile does not keep
			overlays = append(overlays, doc)
		} else {
			docs = append(docs, doc)
		}
	}
	x.load(docs, overlays)
	return x, nil
}

// load compiles the documents of a policy, or says why that fails.
func (x *stack) load(docs, overlays []contracts.Document) {
	p, err := guardian.Compile(docs...)
	if err == nil && overlays != nil {
		p, err = p.Narrow(overlays...)
	}
	var bad *guardian.LoadError
	switch {
	case errors.As(err, &bad):
		x.why = "the policy does not compile: " + bad.Document + ": " + bad.Pointer + ": " + bad.What
	case err != nil:
		x.why = "the policy does not compile"
	case p.Hash() != x.hash:
		x.why = "the documents are another policy than the entry says"
	default:
		x.policy = p
	}
}
