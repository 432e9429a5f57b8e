package executor

import (
	"bytes"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// paper is memory to read an output with. It is reused, unless it has grown large.
type paper struct {
	tree crypto.Tree
	text []byte
}

var papers = sync.Pool{New: func() any { return new(paper) }}

const maxPaper = 64 << 10

const (
	jcs = "jcs"
	raw = "raw"
)

// release makes of what the driver returned what may be released, if it keeps to the limits.
func release(output []byte, l Limits) Outcome {
	if len(output) > l.Output {
		return Outcome{Reason: contracts.ReasonOutputExhausted}
	}
	own := bytes.Clone(output) // before anything else: the driver may still write to it
	if len(own) == 0 {
		own = []byte("null")
	}
	p := papers.Get().(*paper)
	defer p.free(len(own))
	if err := p.tree.Parse(own, crypto.Limits{Bytes: len(own), Depth: crypto.MaxDepth}); err != nil {
		if l.Check != nil {
			return Outcome{Reason: contracts.ReasonContractDrift, Output: own, Form: raw}
		}
		return Outcome{Reason: contracts.ReasonAllow, Output: own, Form: raw}
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

// conforms runs the check of the pinned schema. One that panics has not said yes.
func conforms(check func(crypto.Value) bool, v crypto.Value) bool {
	defer contain.Drop()
	return check(v)
}

func (p *paper) free(size int) {
	if size > maxPaper || cap(p.text) > maxPaper {
		return
	}
	p.text = append(p.text[:0], '0')
	if p.tree.Parse(p.text, crypto.Limits{Bytes: 1}) == nil { // so that the tree lets go of the output
		papers.Put(p)
	}
}
