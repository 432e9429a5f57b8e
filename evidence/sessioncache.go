package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

// A sessionCache keeps sessions once a policy asks for the past of one; a log without such policies
// never gets there. From then on it keeps every new session until it is closed. When it is full it
// drops all but the session at hand. A dropped session is folded again from the log at the
// next question about it.
type sessionCache struct {
	most   int // bytes that may be held
	limit  int // the largest that most may become
	asked  bool
	held   []*chain
	weight int
	reread uint64 // entries
	grown  uint64 // reread when most was raised last
}

// The size of the cache, and how many shapes a session may have that outgrows it alone.
const (
	maxSessions = 256 << 20
	allSessions = 1 << 30
	maxShapes   = 16
)

// grow raises most, up to limit, if a log of that size is read again and again because the cache is
// too small. Folding every session once is no sign of that.
func (x *sessionCache) grow(reread, size uint64) {
	x.reread += reread
	if x.reread > x.grown+2*size && x.most < x.limit {
		x.most, x.grown = min(2*x.most, x.limit), x.reread
	}
}

func (x *sessionCache) hold(c *chain, s *session) {
	c.held, x.held = s, append(x.held, c)
	weight := s.weight
	s.weight = 0
	x.weigh(c, ofSession+weight)
}

// weigh adds to the weight of a session. If the cache is then too heavy, weigh drops all others,
// and this one too if a policy that asks for the same receipts in ever other ways has made it so.
func (x *sessionCache) weigh(c *chain, more int) {
	c.held.weight += more
	x.weight += more
	if x.weight <= x.most {
		return
	}
	mine := c.held
	for _, o := range x.held {
		o.held = nil
	}
	clear(x.held)
	x.held, x.weight = x.held[:0], 0
	if mine.weight <= x.most || len(mine.shapes) <= maxShapes {
		c.held, x.held, x.weight = mine, append(x.held, c), mine.weight
	}
}

// shape notes by which values receipts of a tool are asked for, since those of every run are then
// kept.
func (x *sessionCache) shape(c *chain, s *session, tool string, same crypto.Value) {
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
	if c.held == s {
		x.weigh(c, len(b)+ofSession+ofValues*s.runs)
	}
}

// miss notes a run whose arguments cannot be read.
func (x *sessionCache) miss(c *chain, s *session, r past.Run) {
	if _, ok := s.gone[r.Receipt]; ok {
		return
	}
	if s.gone == nil {
		s.gone = map[uint64]past.Run{}
	}
	s.gone[r.Receipt] = r
	if c.held == s {
		x.weigh(c, 2*ofRun)
	}
}

// follow folds the latest entry of a session, of that hash, if the session is held. call is the
// ALLOW that the entry is, or that it is the receipt of.
func (x *sessionCache) follow(st *contracts.Statement, c *chain, hash contracts.Digest, call *pending) {
	x.begin(c)
	switch {
	case c.held == nil:
	case st.Close != nil: // no later call can ask
		x.weight -= c.held.weight
		c.held = nil
	case call != nil:
		x.weigh(c, c.held.add(st, c.index, hash, call.index, call.nonces))
	case st.Message != nil:
		x.weigh(c, c.held.add(st, c.index, hash, 0, nil))
	}
}

// followStub folds the latest entry of a session, a stub, if the session is held. call is the ALLOW
// that it is of.
func (x *sessionCache) followStub(s *contracts.Stub, c *chain, call *pending) {
	x.begin(c)
	if c.held != nil {
		x.weigh(c, c.held.addStub(s, c.index, call.tool))
	}
}

// begin holds a session from its first entry on.
func (x *sessionCache) begin(c *chain) {
	if x.asked && c.count == 1 && c.held == nil {
		x.hold(c, new(session))
	}
}
