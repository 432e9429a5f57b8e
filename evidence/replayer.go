package evidence

import "github.com/helmkernel/helm/contracts"

// A replayer makes verdicts again, and holds kept inputs and outputs to the log: the check REPLAY.
// It knows the fold, the blobs and the entries before.
type replayer struct {
	fold       *fold
	blobs      *blobs
	reread     *rereader
	inputs     contracts.Reader
	text       []byte
	stacks     []stack // that are compiled, the latest last
	stackBytes int     // of their documents
	sessions   sessionCache
	nonces     map[[16]byte]uint32 // of requests whose approvals an ALLOW consumed, and the index of the ALLOW
	unread     unreadable
	back       *backTest // judges by a candidate, too; nil: none was given
	runs       rerunner
	marks      marks
	report     Replay
	bad        *Error // the first fault
}

// differs notes a fault of REPLAY at the entry at hand. It returns nil: the fault is found with an
// entry and comes after the checks that follow the entries.
func (r *replayer) differs(field, what string) *Error {
	r.report.Differing++
	if r.bad == nil {
		r.bad = r.fold.fault(ErrReplay, field, what)
	}
	return nil
}

// session returns what the session has done up to its latest entry.
func (r *replayer) session(c *chain) (*session, *Error) {
	x := &r.sessions
	x.asked = true
	if c.held == nil {
		s, f := r.foldAgain(c)
		if f != nil {
			return nil, f
		}
		x.grow(c.count, r.fold.size())
		x.hold(c, s)
	}
	return c.held, nil
}

// foldAgain folds the entries of a session that were verified before.
func (r *replayer) foldAgain(c *chain) (*session, *Error) {
	indexes, f := r.indexesOf(c)
	if f != nil {
		return nil, f
	}
	s := new(session)
	for _, at := range indexes {
		index := uint64(at)
		if r.fold.stub(index) != nil {
			f := r.foldStub(s, index)
			if f != nil {
				return nil, f
			}
			continue
		}
		st, f := r.reread.statement(index)
		if f != nil {
			return nil, f
		}
		var nonces []string
		decision := uint64(0)
		switch {
		case st.Decision != nil && len(st.Decision.Approvals) > 0:
			in, f := r.reread.inputsOf(index, st.Decision.InputsHash)
			if f != nil {
				return nil, f
			}
			nonces = r.reread.noncesOf(st.Decision, in)
		case st.Receipt != nil:
			decision, _, _ = r.fold.index.Lookup(st.Receipt.DecisionHash)
		}
		s.weight += s.add(st, index, r.fold.index.Hash(index), decision, nonces)
	}
	return s, nil
}

// foldStub folds a stub that was verified before.
func (r *replayer) foldStub(s *session, index uint64) *Error {
	x, f := r.reread.stub(index)
	if f != nil {
		return f
	}
	tool := ""
	switch {
	case x.Decision != nil:
		tool = x.Decision.Tool
	case r.fold.stub(x.Receipt.Decision) != nil:
		d, f := r.reread.stub(x.Receipt.Decision)
		if f != nil {
			return f
		}
		tool = d.Decision.Tool
	default:
		d, f := r.reread.statement(x.Receipt.Decision)
		if f != nil {
			return f
		}
		tool = d.Decision.Tool
	}
	s.weight += s.addStub(x, index, tool)
	return nil
}

// indexesOf goes back along the entries of a session, and returns their indexes in order.
func (r *replayer) indexesOf(c *chain) ([]uint32, *Error) {
	all := make([]uint32, c.count) // an index of entries holds no more
	at := c.index
	for n := c.count; n > 0; n-- {
		all[n-1] = uint32(at)
		if n == 1 {
			break
		}
		if s := r.fold.stub(at); s != nil {
			at = uint64(s.prev)
			continue
		}
		st, f := r.reread.statement(at)
		if f != nil {
			return nil, f
		}
		at, _, _ = r.fold.index.Lookup(st.Prev)
	}
	return all, nil
}
