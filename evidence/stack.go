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
	marks  marker           // nil if its documents cannot be read
	why    string           // it does not compile
	base   *base            // nil if it shares nothing
	bytes  int              // of the documents that it does not share
}

// A base is what policies share whose documents are the same but for overlays. It counts once for
// all of them.
type base struct {
	engine    contracts.Engine
	documents []contracts.PolicyDocument
	policy    *guardian.Policy
	err       error // it does not compile
	bytes     int
	held      int // policies that share it
}

var errLacking = errors.New("a policy document is not there")

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
	r.stackBytes += x.bytes
	if x.base != nil {
		if x.base.held == 0 {
			r.stackBytes += x.base.bytes
		}
		x.base.held++
	}
	for (r.stackBytes > maxStackBytes || len(r.stacks) > maxStacks) && len(r.stacks) > 1 {
		r.dropFirst()
	}
	return &r.stacks[len(r.stacks)-1], nil
}

// dropFirst forgets the policy that is held the longest.
func (r *replayer) dropFirst() {
	x := r.stacks[0]
	r.stackBytes -= x.bytes
	if x.base != nil {
		x.base.held--
		if x.base.held == 0 {
			r.stackBytes -= x.base.bytes
		}
	}
	r.stacks = slices.Delete(r.stacks, 0, 1)
}

// compile reads a policy entry again, and its documents.
func (r *replayer) compile(policy contracts.Digest) (stack, *Error) {
	x := stack{hash: policy}
	st, f := r.reread.statement(r.fold.policies[policy])
	if f != nil {
		return x, f
	}
	x.engine = st.Policy.Engine
	if now := guardian.Engine(); x.engine.Rules != now.Rules || x.engine.Threat > now.Threat {
		return x, r.read(&x, st.Policy.Documents)
	}
	var below, above []contracts.PolicyDocument
	for i, d := range st.Policy.Documents {
		if i > 0 && d.Layer == "P2" { // overlays are in the order of narrowing, which Compile does not keep
			above = append(above, d)
		} else {
			below = append(below, d)
		}
	}
	b, f := r.base(x.engine, below)
	if f != nil {
		return x, f
	}
	overlays, size, all, f := r.documents(above)
	if f != nil {
		return x, f
	}
	p, err := b.policy, b.err
	if !all {
		err = errLacking
	}
	if err == nil && overlays != nil {
		p, err = p.Narrow(overlays...)
	}
	x.base, x.bytes = b, size
	if err != nil && overlays != nil && b.err != errLacking {
		if p, f = r.whole(&x, below, overlays); f != nil {
			return x, f
		}
		if p != nil {
			err = nil
		}
	}
	x.load(p, err)
	if x.policy == nil {
		return x, r.read(&x, below)
	}
	return x, nil
}

// read reads what documents say of marks, which are not compiled.
func (r *replayer) read(x *stack, documents []contracts.PolicyDocument) *Error {
	var texts [][]byte
	docs, _, _, f := r.documents(documents)
	for _, d := range docs {
		texts = append(texts, d.Canonical)
	}
	if m, err := guardian.ReadMarks(texts...); err == nil {
		x.marks = m
	}
	return f
}

// whole compiles documents and overlays together, as they may have been in the log: then it can be
// for an overlay that they load. It returns nil if they do not.
func (r *replayer) whole(
	x *stack, below []contracts.PolicyDocument, overlays []contracts.Document,
) (*guardian.Policy, *Error) {
	docs, size, all, f := r.documents(below)
	if !all {
		return nil, f
	}
	p, err := guardian.CompileFor(x.engine, append(docs, overlays...)...)
	if err != nil {
		return nil, nil
	}
	x.base, x.bytes = nil, x.bytes+size
	return p, nil
}

// base returns the policy of documents without overlays, which one that is held may share.
func (r *replayer) base(engine contracts.Engine, documents []contracts.PolicyDocument) (*base, *Error) {
	for i := range r.stacks {
		if b := r.stacks[i].base; b != nil && b.engine == engine && slices.Equal(b.documents, documents) {
			return b, nil
		}
	}
	docs, size, all, f := r.documents(documents)
	b := &base{engine: engine, documents: documents, bytes: size, err: errLacking}
	if all {
		b.policy, b.err = guardian.CompileFor(engine, docs...)
	}
	return b, f
}

// documents reads documents of a policy entry, and reports whether all of them are there.
func (r *replayer) documents(
	list []contracts.PolicyDocument,
) (docs []contracts.Document, size int, all bool, f *Error) {
	for _, d := range list {
		b, _, f := r.blobs.content(d.Digest, r.blobs.far)
		switch noted := r.blobs.bad != nil; { // when the policy entry named it
		case f != nil && f.Check != ErrBlob:
			return nil, 0, false, f
		case b == nil && !noted:
			return nil, 0, false, r.blobs.from.unreadable(&d.Digest, errChanged)
		case b == nil:
			return nil, 0, false, nil
		}
		size += len(b)
		docs = append(docs, contracts.Document{Name: d.Name, Canonical: bytes.Clone(b)})
	}
	return docs, size, true, nil
}

// load takes a policy, or says why there is none.
func (x *stack) load(p *guardian.Policy, err error) {
	var bad *guardian.LoadError
	switch {
	case err == errLacking:
		x.why = errLacking.Error()
	case errors.As(err, &bad):
		x.why = "the policy does not compile: " + bad.Document + ": " + bad.Pointer + ": " + bad.What
	case err != nil:
		x.why = "the policy does not compile"
	case p.Hash() != x.hash:
		x.why = "the documents are another policy than the entry says"
	default:
		x.policy, x.marks = p, p
	}
}
