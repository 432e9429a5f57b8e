package guardian

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// What is asked of the session's past while a call is judged: each thing once, and the answers are kept for the inputs.

// shown answers a receipt predicate.
func (s *scratch) shown(n *node) answer {
	r, what := s.receipt(n.more.prior)
	if what != "" {
		return s.fail(n, what)
	}
	return answerOf(r.Entry != nil && (n.more.age == 0 || value.MomentOf(r.Time).Within(n.more.age, s.time)))
}

const unnamed = "the session is the one of all calls that name none: name a session"

// maxAsked bounds what a decision may ask for of receipts, in bytes of the values and of what is told, so that it can be recorded.
const maxAsked = 1 << 20

const toldSize = 256 // about what is recorded of a receipt, its values apart

// maxSameDepth is how deep the values may be nested in their object: it stands four levels deep in the inputs.
const maxSameDepth = contracts.MaxInputsDepth - 4

// receipt gives what the past says of a prior, asking at most once, or why it cannot be told.
func (s *scratch) receipt(p *prior) (r contracts.PriorReceipt, what string) {
	if s.session == "" || s.session == contracts.DefaultSession {
		return r, unnamed
	}
	from := len(s.buf)
	defer func() { s.buf = s.buf[:from] }()
	s.buf = p.append(s.buf, s.args)
	end := len(s.buf)
	if s.asked += end - from + toldSize; s.asked > maxAsked {
		return r, "more of the past is asked for than can be recorded"
	}
	for i := range s.receipts {
		if r = s.receipts[i]; r.Tool == p.of.name {
			if s.buf = r.Same.Append(s.buf[:end]); string(s.buf[end:]) == string(s.buf[from:end]) {
				return r, ""
			}
		}
	}
	same := s.buf[from:end]
	if s.past == nil {
		return contracts.PriorReceipt{}, "the inputs lack the receipt of " + p.of.name
	}
	asked := contracts.PriorReceipt{Tool: p.of.name}
	if len(same) > 0 {
		tree := new(crypto.Tree)
		if err := tree.Parse(slices.Clone(same), crypto.Limits{Bytes: len(same), Depth: maxSameDepth, Object: true}); err != nil {
			return asked, "the values that two calls must have in common: " + err.Error()
		}
		asked.Same = tree.Root()
	}
	told, err := s.past.Receipt(asked.Tool, asked.Same)
	if err != nil {
		return asked, "the receipts of " + p.of.name + " cannot be told"
	}
	if told.Entry != nil {
		asked.Entry, asked.Time = told.Entry, told.Time
	}
	s.receipts = append(s.receipts, asked)
	return asked, ""
}

// append appends the canonical object of the values that must be the same, or nothing.
func (p *prior) append(b []byte, args crypto.Value) []byte {
	if len(p.same) == 0 {
		return b
	}
	from := len(b)
	b = append(b, '{')
	for i := range p.same {
		if len(b)-from > maxAsked {
			break // however much more there is, it is too much
		}
		x := &p.same[i]
		b = append(value.Follow(args, x.here).Append(append(append(b, x.name...), ':')), ',')
	}
	b[len(b)-1] = '}'
	return b
}

// had answers a predicate over calls.
func (s *scratch) had(n *node) answer {
	tool := ""
	if of := n.more.prior.of; of != nil {
		tool = of.name
	}
	count, what := s.allowed(tool)
	if what != "" {
		return s.fail(n, what)
	}
	return s.comparedCount(n, float64(count))
}

// allowed gives how many ALLOWs the session has had, asking at most once, or why it cannot be told.
func (s *scratch) allowed(tool string) (count uint64, what string) {
	if s.session == "" || s.session == contracts.DefaultSession {
		return 0, unnamed
	}
	for i := range s.calls {
		if s.calls[i].Of == tool {
			return s.calls[i].Count, ""
		}
	}
	if s.past == nil {
		return 0, "the inputs lack the number of calls"
	}
	count = s.past.Calls(tool)
	s.calls = append(s.calls, contracts.CallCount{Count: count, Of: tool})
	return count, ""
}
