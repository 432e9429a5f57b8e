package auth

import (
	"container/list"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
)

// sweep is how many idle sessions of others a call ends at most, so that none waits long.
const sweep = 16

// uses are the sessions that calls were judged in, and since when nobody uses them.
type uses struct {
	idle time.Duration
	most int
	end  func(session string) error
	now  func() time.Time

	mu      sync.Mutex
	known   map[string]*use
	resting *list.List // of *use: those that nobody uses, the longest first
	callers map[crypto.Digest]*calling
}

// A calling is the sessions of one caller.
type calling struct {
	open    int
	resting *list.List // of *use
}

type use struct {
	session        string
	caller         crypto.Digest
	running        int
	since          time.Time     // when the last call ended
	ofAll, ofOwner *list.Element // nil while it runs
}

func newUses(o Options) *uses {
	return &uses{idle: o.SessionIdle, most: o.Sessions, end: o.EndSession, now: o.Now,
		known: map[string]*use{}, resting: list.New(), callers: map[crypto.Digest]*calling{}}
}

// Use counts a call of the caller into a session, before it is judged, until done is called. A
// session that nobody used for Options.SessionIdle is ended first, so that the call is denied; and
// if the caller has more than Options.Sessions, the ones that they did not use for longest are
// ended, too. Those that the process before had are counted from their first call in this one.
func (a *Auth) Use(c helm.Caller, session string) (done func()) {
	if a.o.EndSession == nil {
		return func() {}
	}
	u := a.uses
	x, over := u.begin(identify(c), session)
	for _, one := range over {
		if u.end(one.session) != nil {
			u.keep(one)
		}
	}
	var once sync.Once
	return func() { once.Do(func() { u.finish(x) }) }
}

// begin counts a call in, and returns the sessions that are to be ended.
func (u *uses) begin(caller crypto.Digest, session string) (x *use, over []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if x = u.known[session]; x != nil && x.running == 0 && now.Sub(x.since) >= u.idle {
		u.drop(x)
		over, x = append(over, x), nil
	}
	for range sweep {
		first := u.resting.Front()
		if first == nil || now.Sub(first.Value.(*use).since) < u.idle {
			break
		}
		longest := first.Value.(*use)
		u.drop(longest)
		over = append(over, longest)
	}
	if x == nil {
		x = u.add(caller, session)
		for own := u.callers[caller]; own.open > u.most && own.resting.Len() > 0; {
			longest := own.resting.Front().Value.(*use)
			u.drop(longest)
			over = append(over, longest)
		}
	}
	x.running++
	u.wake(x)
	return x, over
}

func (u *uses) add(caller crypto.Digest, session string) *use {
	x := &use{session: session, caller: caller}
	u.known[session] = x
	own := u.callers[caller]
	if own == nil {
		own = &calling{resting: list.New()}
		u.callers[caller] = own
	}
	own.open++
	return x
}

// drop forgets a session that nobody uses.
func (u *uses) drop(x *use) {
	u.wake(x)
	delete(u.known, x.session)
	own := u.callers[x.caller]
	if own.open--; own.open == 0 {
		delete(u.callers, x.caller)
	}
}

// wake takes a session from those that nobody uses.
func (u *uses) wake(x *use) {
	if x.ofAll != nil {
		u.resting.Remove(x.ofAll)
		u.callers[x.caller].resting.Remove(x.ofOwner)
		x.ofAll, x.ofOwner = nil, nil
	}
}

func (u *uses) rest(x *use) {
	x.since = u.now()
	x.ofAll, x.ofOwner = u.resting.PushBack(x), u.callers[x.caller].resting.PushBack(x)
}

func (u *uses) finish(x *use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x.running--; x.running == 0 {
		u.rest(x)
	}
}

// keep remembers a session that could not be ended, as if it had been used now.
func (u *uses) keep(x *use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known[x.session] == nil {
		u.rest(u.add(x.caller, x.session))
	}
}
