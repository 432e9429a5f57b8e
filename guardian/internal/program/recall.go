package program

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/past"
)

const tooMuch = "more of the past is asked for than can be recorded"

const unnamed = "the session is the one of all calls that name none: name a session"

const (
	// maxAsked bounds what one decision may ask for of the past, in bytes of the values and of the
	// answers, so that it can be recorded. Facts have a bound of their own.
	maxAsked = 1 << 20

	// answerSize is about what is recorded of a receipt apart from its values.
	answerSize = 256

	// maxFactsAsked bounds that and the facts that were read together. With arguments and envelopes
	// of 1 MiB each the inputs are not too long then.
	maxFactsAsked = 2<<20 - 64<<10

	// maxSameDepth is how deep the values may be nested in their object, which stands four levels
	// deep in the inputs.
	maxSameDepth = contracts.MaxInputsDepth - 4
)

// A recall asks the session's past, each thing once, and keeps the answers for the inputs.
type recall struct {
	known
	supplies
	facts
	marks
	told told // by the inputs, if there is no past
	buf  []byte
}

// known is what one call knows of its session's past.
type known struct {
	past     past.Past // nil: all that is known is in the state
	session  string
	calls    []contracts.CallCount
	receipts []contracts.PriorReceipt
	asked    int  // bytes that were asked for
	deep     bool // sources, facts or marks were asked for
}

// told is what the inputs say that only few predicates look at.
type told struct {
	from    []contracts.Source
	tainted *bool
	labels  *[]string
}

// nameless reports whether the session is the one of all calls that name none, which has no past
// that a verdict could depend on.
func (r *recall) nameless() bool { return r.session == "" || r.session == contracts.DefaultSession }

// spend reports whether there is room in the inputs for more bytes of the past, and takes it.
func (r *recall) spend(n int) bool {
	r.asked += n
	return r.asked <= maxAsked
}

// receipt returns the place of the answer of the past for a prior among the receipts, or why it
// cannot be known.
func (r *recall) receipt(p *Prior, args crypto.Value) (at int, what string) {
	if r.nameless() {
		return 0, unnamed
	}
	r.buf = p.append(r.buf[:0], args)
	same := r.buf
	if !r.spend(len(same) + answerSize) {
		return 0, tooMuch
	}
	for i := range r.receipts {
		if prior := &r.receipts[i]; prior.Tool == p.Tool {
			r.buf = prior.Same.Append(r.buf)
			is := string(r.buf[len(same):]) == string(same)
			r.buf = r.buf[:len(same)]
			if is {
				return i, ""
			}
		}
	}
	same = r.buf
	if r.past == nil {
		return 0, "the inputs lack the receipt of " + p.Tool
	}
	asked := contracts.PriorReceipt{Tool: p.Tool}
	if len(same) > 0 {
		tree := new(crypto.Tree)
		limits := crypto.Limits{Bytes: len(same), Depth: maxSameDepth, Object: true}
		if err := tree.Parse(slices.Clone(same), limits); err != nil {
			return 0, "the values that two calls must have in common: " + err.Error()
		}
		asked.Same = tree.Root()
	}
	answer, err := r.past.Receipt(asked.Tool, asked.Same)
	if err != nil {
		return 0, "the receipts of " + p.Tool + " cannot be told"
	}
	if answer.Entry != nil {
		asked.Entry, asked.Time = answer.Entry, answer.Time
	}
	r.receipts = append(r.receipts, asked)
	return len(r.receipts) - 1, ""
}

// append appends the canonical object of the values that must be the same, or nothing.
func (p *Prior) append(b []byte, args crypto.Value) []byte {
	if len(p.Same) == 0 {
		return b
	}
	from := len(b)
	b = append(b, '{')
	for i := range p.Same {
		if len(b)-from > maxAsked {
			break // too much already, whatever follows
		}
		x := &p.Same[i]
		b = append(value.Follow(args, x.Here).Append(append(append(b, x.Name...), ':')), ',')
	}
	b[len(b)-1] = '}'
	return b
}

// Allowed returns how many calls of the session were allowed, of one tool or, with "", of all; or
// why it cannot be known.
func (r *recall) Allowed(tool string) (count uint64, what string) {
	if r.nameless() {
		return 0, unnamed
	}
	for i := range r.calls {
		if r.calls[i].Of == tool {
			return r.calls[i].Count, ""
		}
	}
	if r.past == nil {
		return 0, "the inputs lack the number of calls"
	}
	count = r.past.Calls(tool)
	r.calls = append(r.calls, contracts.CallCount{Count: count, Of: tool})
	return count, ""
}
