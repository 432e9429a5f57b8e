package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// A story is what the entries of a session have left for later calls: the guardian's fold of them, and what is not known here.
type story struct {
	past.Session
	runs   int
	gone   map[uint64]past.Run // those whose arguments cannot be read, by the index of their receipts
	lost   lost
	shapes map[string]struct{} // what receipts were asked for by: tool and pointers
	weight int
}

// What ALLOWs consumed whose approvals cannot be read: of these are known the digests, and what calls they were for.
type lost struct {
	approvals map[contracts.Digest]struct{}
	calls     map[contracts.Digest]contracts.Time // when the last such call was allowed
}

func (l *lost) add(d *contracts.DecisionRecord, at contracts.Time) {
	if l.calls == nil {
		l.approvals, l.calls = map[contracts.Digest]struct{}{}, map[contracts.Digest]contracts.Time{}
	}
	for _, a := range d.Approvals {
		l.approvals[a] = struct{}{}
	}
	call := callOf(d.Tool, d.ArgsHash, d.Caller, d.PolicyHash)
	l.calls[call] = max(l.calls[call], at)
}

// maybe tells whether a request may have been consumed.
func (l *lost) maybe(r *contracts.ApprovalRequest) bool {
	at, ok := l.calls[callOf(r.Tool, r.ArgsHash, r.Caller, r.PolicyHash)]
	return ok && r.NotBefore <= at
}

// callOf is what requests for one call in a session have in common.
func callOf(tool string, args contracts.Digest, caller contracts.Caller, policy contracts.Digest) contracts.Digest {
	r := contracts.ApprovalRequest{ArgsHash: args, Caller: caller, PolicyHash: policy, Tool: tool}
	return r.Digest()
}

// A story is held from the first question on, which no log without such policies comes to, and from then on for every new session, until it is
// closed. All are dropped where they outgrow the room that there is, but for the one at hand: whoever is asked about again is told again, by
// going back along its entries.
type stories struct {
	most   int // what may be held
	limit  int // what it may come to be
	asked  bool
	held   []*chain
	weight int
	reread uint64 // entries
	grown  uint64 // how many it were when there was made more room
}

// What stories weigh, in bytes, a little more than they take, and how many shapes one may have that is too much by itself.
const (
	maxStories = 256 << 20
	allStories = 1 << 30
	maxShapes  = 16
	ofStory    = 512
	ofTool     = 256
	ofRun      = 112
	ofValues   = 96 // of a run, for each shape
	ofNonce    = 128
)

// story gives that of a session up to its latest entry.
func (v *verifier) story(c *chain) (*story, *Error) {
	v.stories.asked = true
	if c.story == nil {
		s := new(story)
		if f := v.retell(s, c); f != nil {
			return nil, f
		}
		v.stories.grow(c.count, v.size())
		v.stories.hold(c, s)
	}
	return c.story, nil
}

// grow makes more room, as long as there may be more, where a log of that size is read again and again for want of it. What it takes to tell
// all stories once is not the want of room.
func (x *stories) grow(told, size uint64) {
	if x.reread += told; x.reread > x.grown+2*size && x.most < x.limit {
		x.most, x.grown = min(2*x.most, x.limit), x.reread
	}
}

func (x *stories) hold(c *chain, s *story) {
	c.story, x.held = s, append(x.held, c)
	told := s.weight
	s.weight = 0
	x.weigh(c, ofStory+told)
}

// weigh adds to what is held, and drops what is too much: of all others, and of the one at hand too where a policy that asks for the same
// receipts in ever other ways has made it so.
func (x *stories) weigh(c *chain, more int) {
	c.story.weight += more
	if x.weight += more; x.weight <= x.most {
		return
	}
	mine := c.story
	for _, o := range x.held {
		o.story = nil
	}
	clear(x.held)
	x.held, x.weight = x.held[:0], 0
	if mine.weight <= x.most || len(mine.shapes) <= maxShapes {
		c.story, x.held, x.weight = mine, append(x.held, c), mine.weight
	}
}

// shape notes by what receipts of a tool are asked for, since the values of every run are then kept.
func (x *stories) shape(c *chain, s *story, tool string, same crypto.Value) {
	b := crypto.AppendString(nil, tool)
	for it := same.Iter(); it.Next(); {
		b = crypto.AppendString(b, string(it.Key()))
	}
	if _, ok := s.shapes[string(b)]; ok {
		return
	}
	if s.shapes == nil {
		s.shapes = map[string]struct{}{}
	}
	s.shapes[string(b)] = struct{}{}
	if c.story == s {
		x.weigh(c, len(b)+ofStory+ofValues*s.runs)
	}
}

// miss notes a run whose arguments cannot be read.
func (x *stories) miss(c *chain, s *story, r past.Run) {
	if _, ok := s.gone[r.Receipt]; ok {
		return
	}
	if s.gone == nil {
		s.gone = map[uint64]past.Run{}
	}
	s.gone[r.Receipt] = r
	if c.story == s {
		x.weigh(c, 2*ofRun)
	}
}

// retell folds the entries of a session that were gone over before.
func (v *verifier) retell(s *story, c *chain) *Error {
	all := make([]uint32, c.count) // an index of entries holds no more
	for at, n := c.index, c.count; n > 0; n-- {
		all[n-1] = uint32(at)
		if n == 1 {
			break
		}
		st, f := v.again(at)
		if f != nil {
			return f
		}
		at, _, _ = v.index.Lookup(st.Prev)
	}
	for _, at := range all {
		st, f := v.again(uint64(at))
		if f != nil {
			return f
		}
		var nonces []string
		decision := uint64(0)
		switch {
		case st.Decision != nil && len(st.Decision.Approvals) > 0:
			in, f := v.inputsOf(uint64(at), st.Decision)
			if f != nil {
				return f
			}
			nonces = v.noncesOf(st.Decision, in)
		case st.Receipt != nil:
			decision, _, _ = v.index.Lookup(st.Receipt.DecisionHash)
		}
		s.weight += s.add(st, uint64(at), v.index.Hash(uint64(at)), decision, nonces)
	}
	return nil
}

// told takes the latest entry of a session into its story. call is what a receipt settles.
func (v *verifier) told(st *contracts.Statement, c *chain, call *pending) {
	x := &v.stories
	if x.asked && c.count == 1 && c.story == nil {
		x.hold(c, new(story))
	}
	if c.story == nil {
		return
	}
	if st.Close != nil { // nobody can ask any more
		x.weight -= c.story.weight
		c.story = nil
		return
	}
	if st.Decision != nil {
		call = v.pending[c.index]
	}
	if call != nil {
		x.weigh(c, c.story.add(st, c.index, v.latest(c), call.index, call.nonces))
	}
}

// add folds an entry, of that index and hash, and gives how much more is held. Of a receipt there is the index of its decision, of an ALLOW
// with approvals the nonces of their requests, nil where they cannot be read.
func (s *story) add(st *contracts.Statement, at uint64, hash contracts.Digest, decision uint64, nonces []string) (more int) {
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
		s.Execute(past.Run{Tool: r.Tool, Decision: decision, Receipt: at, Entry: hash, Time: st.Time}, crypto.Value{})
		s.runs++
		more += ofRun + ofValues*len(s.shapes)
	}
	return more
}

// noncesOf gives those of the requests whose approvals an ALLOW consumed, or nil where its inputs are not there.
func (v *verifier) noncesOf(d *contracts.DecisionRecord, in *contracts.Inputs) []string {
	if in == nil {
		return nil
	}
	nonces := []string{}
	for _, e := range in.Envelopes.Approvals {
		if !slices.Contains(d.Approvals, e.Digest()) {
			continue
		}
		if a := v.approval(e); a != nil {
			nonces = append(nonces, a.Request.Nonce)
		}
	}
	return nonces
}

// approval reads what an envelope says, or gives nil. Who signed it is the guardian's business.
func (v *verifier) approval(e contracts.Envelope) *contracts.Approval {
	sealed, err := v.rereader().entry.Open(e)
	if err != nil {
		return nil
	}
	a, err := sealed.Approval()
	if err != nil {
		return nil
	}
	return a
}
