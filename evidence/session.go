package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// A session is what a session has done, and what of it cannot be read.
type session struct {
	past.Session
	runs   int
	gone   map[uint64]past.Run // runs whose arguments cannot be read, by the index of their receipts
	faded  map[half]struct{}   // facts documents that stubs name, which need not be there
	lost   lostApprovals
	shapes map[string]struct{} // what receipts were asked for by: tool and pointers
	weight int
}

// lostApprovals are those that ALLOWs consumed and that cannot be read. Their digests are known,
// and for which calls they were.
type lostApprovals struct {
	digests map[contracts.Digest]struct{}
	calls   map[contracts.Digest]contracts.Time // when the last such call was allowed
}

func (l *lostApprovals) add(d *contracts.DecisionRecord, at contracts.Time) {
	if l.calls == nil {
		l.digests, l.calls = map[contracts.Digest]struct{}{}, map[contracts.Digest]contracts.Time{}
	}
	for _, a := range d.Approvals {
		l.digests[a] = struct{}{}
	}
	call := callOf(d.Tool, d.ArgsHash, d.Caller, d.PolicyHash)
	l.calls[call] = max(l.calls[call], at)
}

// maybe reports whether a request may have been consumed.
func (l *lostApprovals) maybe(r *contracts.ApprovalRequest) bool {
	at, ok := l.calls[callOf(r.Tool, r.ArgsHash, r.Caller, r.PolicyHash)]
	return ok && r.NotBefore <= at
}

// callOf returns the digest of what all requests for one call in a session have in common.
func callOf(tool string, args contracts.Digest, caller contracts.Caller, policy contracts.Digest) contracts.Digest {
	r := contracts.ApprovalRequest{ArgsHash: args, Caller: caller, PolicyHash: policy, Tool: tool}
	return r.Digest()
}

// Weights in bytes, a little more than what is held takes.
const (
	ofSession = 512
	ofTool    = 256
	ofRun     = 112
	ofValues  = 96 // of a run, for each shape
	ofNonce   = 128
	ofMessage = 64
	ofFacts   = 48
	ofSource  = 4 // of a byte that a source said
)

// add folds an entry of that index and hash, and returns how much more is held. decision is the
// index of a receipt's decision. nonces are those of the requests whose approvals an ALLOW
// consumed, nil if they cannot be read.
func (s *session) add(
	st *contracts.Statement, at uint64, hash contracts.Digest, decision uint64, nonces []string,
) (more int) {
	switch d, r := st.Decision, st.Receipt; {
	case d != nil:
		if s.Calls(d.Tool) == 0 {
			more += ofTool
		}
		if nonces == nil && len(d.Approvals) > 0 {
			s.lost.add(d, st.Time)
			nonces = []string{} // none that is known
			more += ofNonce
		}
		s.Allow(d, st.Time, nonces)
		more += ofNonce * len(d.Approvals)
	case r != nil && r.Outcome == contracts.Executed:
		run := past.Run{Tool: r.Tool, Decision: decision, Receipt: at, Entry: hash, Time: st.Time}
		more += s.execute(run, r.FactsHash)
	case st.Message != nil:
		s.Message(st.Message.TextHash, "")
		more += ofMessage
	}
	return more
}

// execute folds an EXECUTED receipt.
func (s *session) execute(run past.Run, facts *contracts.Digest) (more int) {
	s.Execute(run, crypto.Value{}, past.Facts{Digest: facts})
	s.runs++
	more = ofRun + ofValues*len(s.shapes)
	if facts != nil {
		more += ofFacts
	}
	return more
}

// addStub folds the stub of that index, as add folds an entry. tool is that of its call.
func (s *session) addStub(x *contracts.Stub, at uint64, tool string) (more int) {
	r := x.Receipt
	switch {
	case r == nil:
		if s.Calls(tool) == 0 {
			more += ofTool
		}
		s.Allow(&contracts.DecisionRecord{Tool: tool}, x.Time, []string{})
	case r.Outcome == contracts.Executed:
		if r.FactsHash != nil {
			if s.faded == nil {
				s.faded = map[half]struct{}{}
			}
			s.faded[halfOf(*r.FactsHash)] = struct{}{}
			more += ofFacts
		}
		run := past.Run{Tool: tool, Decision: r.Decision, Receipt: at, Entry: x.Entry, Time: x.Time}
		more += s.execute(run, r.FactsHash)
	}
	return more
}
