package guardian

import (
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Session is what a session's entries so far have left for later calls: how many were allowed, which runs can be shown, and which
// approvals are used. It is the fold of those entries in their order, each at its place by [Session.Allow] or [Session.Execute]; the zero
// Session has none. It keeps a few dozen bytes of each, and no arguments. It is not safe for concurrent use.
type Session struct {
	allowed uint64
	tools   map[string]*line
	used    map[string]bool                     // nonces
	unknown map[contracts.Digest]contracts.Time // calls that consumed approvals nobody can read any more, and when the last of each was allowed
}

// A line is what a session has of one tool.
type line struct {
	allowed uint64
	runs    []executed // in log order
	watched []*likeness
}

type executed struct {
	decision, receipt uint64
	entry             contracts.Digest
	time              contracts.Time
}

// Run is a call that was executed.
type Run struct {
	Tool              string
	Decision, Receipt uint64           // where their entries stand in the log
	Entry             contracts.Digest // of the receipt
	Time              contracts.Time   // of the receipt
}

// A likeness finds the latest run with given values at some pointers of its arguments.
type likeness struct {
	key      string     // the pointers
	pointers [][]string // sorted by their text, decoded
	names    []string   // as text
	latest   map[contracts.Digest]int32
	unread   []int32 // runs whose arguments are not known here, ascending
}

func (s *Session) line(tool string) *line {
	l := s.tools[tool]
	if l == nil {
		if s.tools == nil {
			s.tools = map[string]*line{}
		}
		l = &line{}
		s.tools[tool] = l
	}
	return l
}

// Allow folds an ALLOW of that time, which consumed the requests with these nonces. Where they are not known, nil is given: every request
// for the same call that can have been answered by then counts as used.
func (s *Session) Allow(d *contracts.DecisionRecord, at contracts.Time, nonces []string) {
	s.allowed++
	s.line(d.Tool).allowed++
	if len(d.Approvals) == 0 {
		return
	}
	if s.used == nil {
		s.used, s.unknown = map[string]bool{}, map[contracts.Digest]contracts.Time{}
	}
	for _, n := range nonces {
		s.used[n] = true
	}
	if nonces == nil {
		call := callOf(d.Tool, d.ArgsHash, d.Caller, d.PolicyHash)
		s.unknown[call] = max(s.unknown[call], at)
	}
}

// callOf is what requests for one call in the session have in common.
func callOf(tool string, args contracts.Digest, caller contracts.Caller, policy contracts.Digest) contracts.Digest {
	r := contracts.ApprovalRequest{ArgsHash: args, Caller: caller, PolicyHash: policy, Tool: tool}
	return r.Digest()
}

// Execute folds an EXECUTED receipt. args are the arguments of its call, or Missing: then they are read when they are asked for.
func (s *Session) Execute(r Run, args crypto.Value) {
	l := s.line(r.Tool)
	at := int32(len(l.runs))
	l.runs = append(l.runs, executed{r.Decision, r.Receipt, r.Entry, r.Time})
	for _, x := range l.watched {
		if args.Kind() == crypto.Missing {
			x.unread = append(x.unread, at)
		} else {
			x.add(at, args)
		}
	}
}

// like gives the one of these pointers, a new one if need be. It is nil if they are none.
func (l *line) like(pointers []string) *likeness {
	names := slices.Clone(pointers)
	slices.Sort(names)
	names = slices.Compact(names)
	var b []byte
	for _, name := range names {
		b = append(crypto.AppendString(b, name), ',')
	}
	key := string(b)
	for _, x := range l.watched {
		if x.key == key {
			return x
		}
	}
	x := &likeness{key: key, names: names, latest: map[contracts.Digest]int32{}}
	for _, name := range names {
		segments, ok := splitPointer(name)
		if !ok {
			return nil
		}
		x.pointers = append(x.pointers, segments)
	}
	for at := range l.runs {
		x.unread = append(x.unread, int32(at))
	}
	l.watched = append(l.watched, x)
	return x
}

// likeThese gives the one of the pointers that are the keys of an object.
func (l *line) likeThese(same crypto.Value) *likeness {
	for _, x := range l.watched {
		if len(x.names) == same.Len() && !slices.ContainsFunc(x.names, func(name string) bool { return same.Get(name).Kind() == crypto.Missing }) {
			return x
		}
	}
	var pointers []string
	for it := same.Iter(); it.Next(); {
		pointers = append(pointers, string(it.Key()))
	}
	return l.like(pointers)
}

// add takes in the arguments of a run. One that lacks a value has none to be equal to.
func (x *likeness) add(at int32, args crypto.Value) {
	var room [512]byte
	b := room[:0]
	for i, segments := range x.pointers {
		v := follow(args, segments)
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

// keyOf is what add makes of the arguments of a run with these values.
func (x *likeness) keyOf(same crypto.Value) contracts.Digest {
	var room [512]byte
	b := room[:0]
	for _, name := range x.names {
		b = same.Get(name).Append(append(crypto.AppendString(b, name), ':'))
	}
	return crypto.Sum(b)
}

// Calls counts the ALLOWs, of one tool or, with "", of all.
func (s *Session) Calls(tool string) uint64 {
	if tool == "" {
		return s.allowed
	}
	if l := s.tools[tool]; l != nil {
		return l.allowed
	}
	return 0
}

// Used tells whether an ALLOW consumed the request.
func (s *Session) Used(r *contracts.ApprovalRequest) bool {
	if s.used[r.Nonce] {
		return true
	}
	if len(s.unknown) == 0 {
		return false
	}
	at, ok := s.unknown[callOf(r.Tool, r.ArgsHash, r.Caller, r.PolicyHash)]
	return ok && r.NotBefore <= at // what was answered before its time was not consumed
}

// Receipt is as [Past] says. read gives the arguments of a run, of those that the session does not know: the latest first, and no further
// back than the answer needs.
func (s *Session) Receipt(tool string, same crypto.Value, read func(Run) (crypto.Value, error)) (contracts.PriorReceipt, error) {
	p := contracts.PriorReceipt{Tool: tool, Same: same}
	l := s.tools[tool]
	if l == nil {
		return p, nil
	}
	at := int32(len(l.runs)) - 1
	if same.Kind() != crypto.Missing {
		var err error
		if at, err = l.find(tool, same, read); err != nil {
			return contracts.PriorReceipt{}, err
		}
	}
	if at >= 0 {
		entry := l.runs[at].entry
		p.Entry, p.Time = &entry, l.runs[at].time
	}
	return p, nil
}

// find gives the latest run with these values, or -1.
func (l *line) find(tool string, same crypto.Value, read func(Run) (crypto.Value, error)) (int32, error) {
	if same.Kind() != crypto.Object {
		return -1, errors.New("guardian: session: the values are no object")
	}
	x := l.likeThese(same)
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
		r := l.runs[x.unread[n]]
		args, err := read(Run{tool, r.decision, r.receipt, r.entry, r.time})
		if err != nil {
			return -1, err
		}
		x.add(x.unread[n], args)
		x.unread = x.unread[:n]
	}
}
