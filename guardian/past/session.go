package past

import (
	"cmp"
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// Session summarises what a session has done and heard: how many calls were allowed, which runs
// were executed, which approvals are used, what the user and the tools said, and what that makes of
// the session. It is the fold of the session's entries in their order: an ALLOW by [Session.Allow],
// an EXECUTED receipt by [Session.Execute], a message by [Session.Message], and each entry by
// [Session.Mark]. Nothing is in the zero Session.
//
// It keeps a few dozen bytes of each entry, and no arguments. Of a source that is asked for, and of
// messages, it keeps what may be found, which the allowance bounds. It is not safe for concurrent
// use.
type Session struct {
	allowed uint64
	tools   map[string]*history
	used    *approvals // nil: none
	sources *sources   // nil: nothing was said that is at hand
	mark    Mark
}

// approvals are those that the session's ALLOWs consumed.
type approvals struct {
	nonces  map[string]bool
	unknown map[contracts.Digest]contracts.Time // calls that consumed unreadable ones: when each was last allowed
}

// A history is what the session has done with one tool.
type history struct {
	allowed   uint64
	runs      []executed // in log order
	watched   []*index
	documents *documents // nil: none, and none watched
}

// An executed is a [Run] without its tool.
type executed struct {
	decision, receipt uint64
	entry             contracts.Digest
	time              contracts.Time
}

// Run is a call that was executed.
type Run struct {
	Tool              string
	Decision, Receipt uint64           // the indices of their entries in the log
	Entry             contracts.Digest // of the receipt
	Time              contracts.Time   // of the receipt
}

// of returns the history of a tool, and adds it if there is none.
func (s *Session) of(tool string) *history {
	h := s.tools[tool]
	if h == nil {
		if s.tools == nil {
			s.tools = map[string]*history{}
		}
		h = &history{}
		s.tools[tool] = h
	}
	return h
}

// Allow folds an ALLOW at that time, which consumed the requests with these nonces. nonces is nil
// if they are not known: then every request for the same call that can have been answered by that
// time counts as used.
func (s *Session) Allow(d *contracts.DecisionRecord, at contracts.Time, nonces []string) {
	s.allowed++
	s.of(d.Tool).allowed++
	s.Consume(d, at, nonces)
}

// Consume folds what [Session.Allow] folds of approvals, and does not count the call.
func (s *Session) Consume(d *contracts.DecisionRecord, at contracts.Time, nonces []string) {
	if len(d.Approvals) == 0 {
		return
	}
	if s.used == nil {
		s.used = &approvals{map[string]bool{}, map[contracts.Digest]contracts.Time{}}
	}
	for _, n := range nonces {
		s.used.nonces[n] = true
	}
	if nonces == nil {
		call := callOf(d.Tool, d.ArgsHash, d.Caller, d.PolicyHash)
		s.used.unknown[call] = max(s.used.unknown[call], at)
	}
}

// callOf returns the digest of what all requests for one call in the session have in common.
func callOf(tool string, args contracts.Digest, caller contracts.Caller, policy contracts.Digest) contracts.Digest {
	r := contracts.ApprovalRequest{ArgsHash: args, Caller: caller, PolicyHash: policy, Tool: tool}
	return r.Digest()
}

// Execute folds an EXECUTED receipt. args are the arguments of its call. If they are Missing,
// [Session.Receipt] reads them when it needs them, and [Session.Source] and [Session.Facts] read
// facts that are not at hand.
func (s *Session) Execute(r Run, args crypto.Value, facts Facts) {
	h := s.of(r.Tool)
	at := int32(len(h.runs))
	h.runs = append(h.runs, executed{r.Decision, r.Receipt, r.Entry, r.Time})
	for _, x := range h.watched {
		if args.Kind() == crypto.Missing {
			x.unread = append(x.unread, at)
		} else {
			x.add(at, args)
		}
	}
	s.hold(h, facts)
}

// Watch has the session index the tool's runs from now on by the values at these JSON Pointers into
// their arguments, so that [Session.Receipt] need not read the arguments again.
func (s *Session) Watch(tool string, pointers []string) {
	s.of(tool).by(pointers)
}

// Calls returns how many calls were allowed: of one tool or, with "", of all.
func (s *Session) Calls(tool string) uint64 {
	if tool == "" {
		return s.allowed
	}
	if h := s.tools[tool]; h != nil {
		return h.allowed
	}
	return 0
}

// Used reports whether an ALLOW consumed the request.
func (s *Session) Used(r *contracts.ApprovalRequest) bool {
	if s.used == nil {
		return false
	}
	if s.used.nonces[r.Nonce] {
		return true
	}
	if len(s.used.unknown) == 0 {
		return false
	}
	at, ok := s.used.unknown[callOf(r.Tool, r.ArgsHash, r.Caller, r.PolicyHash)]
	return ok && r.NotBefore <= at // a request cannot have been consumed before its NotBefore
}

// Receipt answers as [Past] says. It calls read for the arguments of runs that the session does not
// know: for the latest first, and for no more of them than the answer needs.
func (s *Session) Receipt(
	tool string, same crypto.Value, read func(Run) (crypto.Value, error),
) (contracts.PriorReceipt, error) {
	p := contracts.PriorReceipt{Tool: tool, Same: same}
	h := s.tools[tool]
	if h == nil {
		return p, nil
	}
	at := int32(len(h.runs)) - 1
	if same.Kind() != crypto.Missing {
		var err error
		at, err = h.find(tool, same, read)
		if err != nil {
			return contracts.PriorReceipt{}, err
		}
	}
	if at >= 0 {
		entry := h.runs[at].entry
		p.Entry, p.Time = &entry, h.runs[at].time
	}
	return p, nil
}

// at returns the run with that receipt and its time, or -1. No receipt of a session has a time
// before that of an earlier one.
func (h *history) at(entry contracts.Digest, time contracts.Time) int32 {
	i, _ := slices.BinarySearchFunc(h.runs, time, func(r executed, t contracts.Time) int {
		return cmp.Compare(r.time, t)
	})
	for ; i < len(h.runs) && h.runs[i].time == time; i++ {
		if h.runs[i].entry == entry {
			return int32(i)
		}
	}
	return -1
}

// find returns the latest run with these values, or -1.
func (h *history) find(tool string, same crypto.Value, read func(Run) (crypto.Value, error)) (int32, error) {
	if same.Kind() != crypto.Object {
		return -1, errors.New("guardian: session: the values are no object")
	}
	x := h.byKeys(same)
	if x == nil {
		return -1, errors.New("guardian: session: not pointers to values")
	}
	k := x.keyOf(same)
	for {
		at, ok := x.latest[k]
		if !ok {
			at = -1
		}
		n := len(x.unread) - 1
		if n < 0 || x.unread[n] < at {
			return at, nil
		}
		r := h.runs[x.unread[n]]
		args, err := read(Run{tool, r.decision, r.receipt, r.entry, r.time})
		if err != nil {
			return -1, err
		}
		x.add(x.unread[n], args)
		x.unread = x.unread[:n]
	}
}

// An index finds the latest run that had given values at some pointers into its arguments.
type index struct {
	names    []string   // the pointers, sorted, each once
	pointers [][]string // names, decoded
	latest   map[contracts.Digest]int32
	unread   []int32 // runs whose arguments are not known here, ascending
}

// by returns the index by these pointers, and adds it if there is none. It is nil if one of them is
// no pointer.
func (h *history) by(pointers []string) *index {
	names := slices.Compact(slices.Sorted(slices.Values(pointers)))
	for _, x := range h.watched {
		if slices.Equal(x.names, names) {
			return x
		}
	}
	x := &index{names: names, latest: map[contracts.Digest]int32{}}
	for _, name := range names {
		segments, ok := value.SplitPointer(name)
		if !ok {
			return nil
		}
		x.pointers = append(x.pointers, segments)
	}
	for at := range h.runs {
		x.unread = append(x.unread, int32(at))
	}
	h.watched = append(h.watched, x)
	return x
}

// byKeys returns the index by the pointers that are the keys of an object.
func (h *history) byKeys(same crypto.Value) *index {
	missing := func(name string) bool { return same.Get(name).Kind() == crypto.Missing }
	for _, x := range h.watched {
		if len(x.names) == same.Len() && !slices.ContainsFunc(x.names, missing) {
			return x
		}
	}
	var pointers []string
	for it := same.Iter(); it.Next(); {
		pointers = append(pointers, string(it.Key()))
	}
	return h.by(pointers)
}

// add indexes the arguments of a run. One that lacks a value is equal to no other.
func (x *index) add(at int32, args crypto.Value) {
	var buf [512]byte
	b := buf[:0]
	for i, segments := range x.pointers {
		v := value.Follow(args, segments)
		if v.Kind() == crypto.Missing {
			return
		}
		b = v.Append(append(crypto.AppendString(b, x.names[i]), ':'))
	}
	k := crypto.Sum(b)
	if before, ok := x.latest[k]; !ok || before < at {
		x.latest[k] = at
	}
}

// keyOf returns the key that add makes of the arguments of a run with these values.
func (x *index) keyOf(same crypto.Value) contracts.Digest {
	var buf [512]byte
	b := buf[:0]
	for _, name := range x.names {
		b = same.Get(name).Append(append(crypto.AppendString(b, name), ':'))
	}
	return crypto.Sum(b)
}
