package executor

import (
	"bytes"
	"errors"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// A scratch is memory to parse an output with. It is reused, unless it has grown large.
type scratch struct {
	tree crypto.Tree
	text []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

const maxScratch = 64 << 10

const (
	jcs = "jcs"
	raw = "raw"
)

var errFailed = errors.New("executor: the tool says that it failed")

// release returns the outcome for a result that a driver returned without an error: the output that
// may be released, if it keeps to the limits.
func release(r *Result, l Limits) Outcome {
	if !r.Failed {
		return releaseOutput(r.Output, r.Raw, l)
	}
	if len(r.Output) == 0 {
		return Outcome{Reason: contracts.ReasonToolError, Err: errFailed}
	}
	l.Check = nil
	o := releaseOutput(r.Output, r.Raw, l)
	if o.Reason == contracts.ReasonAllow {
		o.Reason, o.Err = contracts.ReasonToolError, errFailed
	}
	return o
}

func releaseOutput(output []byte, text bool, l Limits) Outcome {
	if len(output) > l.Output {
		return Outcome{Reason: contracts.ReasonOutputExhausted}
	}
	own := append([]byte{}, output...) // before anything else: the driver may still write to it
	if text {
		return rawOutcome(own, l)
	}
	if len(own) == 0 {
		own = []byte("null")
	}
	p := scratches.Get().(*scratch)
	defer p.free(len(own))
	if err := p.tree.Parse(own, crypto.Limits{Bytes: len(own), Depth: crypto.MaxDepth}); err != nil {
		return rawOutcome(own, l)
	}
	value := p.tree.Root()
	p.text = value.Append(p.text[:0])
	if len(output) > 0 && len(p.text) > l.Output {
		return Outcome{Reason: contracts.ReasonOutputExhausted}
	}
	reason := contracts.ReasonAllow
	if l.Check != nil && !conforms(l.Check, value) {
		reason = contracts.ReasonContractDrift
	}
	if !bytes.Equal(p.text, own) {
		own = bytes.Clone(p.text)
	}
	return Outcome{Reason: reason, Output: own, Form: jcs}
}

// rawOutcome returns the outcome for bytes that no schema can be asked about.
func rawOutcome(own []byte, l Limits) Outcome {
	reason := contracts.ReasonAllow
	if l.Check != nil {
		reason = contracts.ReasonContractDrift
	}
	return Outcome{Reason: reason, Output: own, Form: raw}
}

// conforms calls the check of the pinned schema. It returns false if the check panics.
func conforms(check func(crypto.Value) bool, v crypto.Value) bool {
	defer contain.Drop()
	return check(v)
}

func (p *scratch) free(size int) {
	if size > maxScratch || cap(p.text) > maxScratch {
		return
	}
	p.text = append(p.text[:0], '0')
	if p.tree.Parse(p.text, crypto.Limits{Bytes: 1}) == nil { // so that the tree drops the output
		scratches.Put(p)
	}
}
