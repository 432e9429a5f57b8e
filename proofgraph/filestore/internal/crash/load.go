package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/helmkernel/helm"
)

// keyed returns the call that an idempotency key is bound to, so that it can be made again from the
// key.
func keyed(session, key string) helm.Intent {
	return helm.Intent{Tool: "pay", Args: json.RawMessage(`{"to":"` + key + `"}`), Session: session, Idempotency: key,
		Caller: helm.Caller{ID: "alice", Roles: []string{"clerk"}}}
}

func pay(session string, memo int) helm.Intent {
	args := `{"to":"bob","memo":"` + strings.Repeat("m", memo) + `"}`
	return helm.Intent{Tool: "pay", Args: json.RawMessage(args), Session: session}
}

// A load calls a kernel from several goroutines, until it is told to stop or has made its number of
// calls.
type load struct {
	*process
	seed    uint64
	callers int
	calls   int // of each caller; 0: until stop
	stop    chan struct{}

	mu   sync.Mutex
	open [2]int // how often the session of that number was closed, which is part of its name
}

// run returns when all callers have ended. They end early if the kernel is sealed.
func (l *load) run() {
	var all sync.WaitGroup
	for i := range l.callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(l.seed, uint64(i)))
			for n := 0; l.calls == 0 || n < l.calls; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				if !l.one(r) {
					return
				}
			}
		})
	}
	all.Wait()
}

// one makes one call. It returns false if the kernel is sealed.
func (l *load) one(r *rand.Rand) bool {
	ctx := context.Background()
	session, which := l.session(r)
	var in helm.Intent
	switch x := r.IntN(100); {
	case x < 20:
		in = pay(session, r.IntN(300))
	case x < 28:
		return l.callWithSecret(ctx, session, r.Uint64()).Reason != "KERNEL_SEALED"
	case x < 35:
		l.eraseSecret(r.IntN(1 << 16))
		return true
	case x < 38:
		in = pay(session, r.IntN(20_000)) // many sectors
	case x < 55:
		in = keyed(session, fmt.Sprint("key-", r.IntN(12)))
	case x < 58: // bound to another call, or binding it
		in = keyed(session, fmt.Sprint("key-", r.IntN(12)))
		in.Args = json.RawMessage(`{"to":"another"}`)
	case x < 62:
		in = helm.Intent{Tool: "pay", Args: json.RawMessage(`{"to":"thief"}`), Session: session}
	case x < 66:
		in = helm.Intent{Tool: "unheard-of", Args: json.RawMessage(`{}`), Session: session}
	case x < 69:
		in = helm.Intent{Tool: "pay", Args: json.RawMessage(`{"to":`), Session: session}
	case x < 77:
		in = helm.Intent{Tool: "fail", Args: json.RawMessage(`{}`), Session: session}
	case x < 82:
		in = helm.Intent{Tool: "raw", Args: json.RawMessage(fmt.Sprintf(`{"zeros":%d}`, r.IntN(3000))),
			Session: session}
	case x < 86:
		in = helm.Intent{Tool: "drift", Args: json.RawMessage(`{}`), Session: session}
	case x < 94:
		in = helm.Intent{Tool: "nest", Args: json.RawMessage(`{}`), Session: session}
	case x < 96:
		return l.checkpoint() == nil
	case x < 98:
		l.eraseSecret(r.IntN(1 << 16))
		return true
	default:
		if which < 0 {
			in = pay(session, 0)
			break
		}
		err := l.closeSession(ctx, session)
		l.mu.Lock()
		if name := l.name(which); name == session {
			l.open[which]++
		}
		l.mu.Unlock()
		return err == nil
	}
	d, _ := l.call(ctx, in)
	return d.Reason != "KERNEL_SEALED"
}

// session returns the name of a session, and its number if it may be closed.
func (l *load) session(r *rand.Rand) (name string, which int) {
	switch n := r.IntN(6); n {
	case 0, 1:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.name(n), n
	case 2:
		return "", -1 // main
	default:
		return fmt.Sprint("chat-", n), -1
	}
}

func (l *load) name(which int) string {
	return fmt.Sprintf("closing-%d.%d.%d", which, l.number, l.open[which])
}

// script is a small load with everything in it, one call after the other. With a given clock and
// given nonces it makes the same bytes every time. It stops if the kernel is sealed.
func (l *process) script() {
	ctx := context.Background()
	for _, in := range []helm.Intent{
		pay("a", 0),
		{Tool: "confide", Session: "a"},
		keyed("b", "one"),
		{Tool: "pay", Args: json.RawMessage(`{"to":"thief"}`), Session: "a"},
		{Tool: "nest", Args: json.RawMessage(`{}`), Session: "a"},
		pay("", 3000),
		keyed("b", "one"),
		{Tool: "fail", Args: json.RawMessage(`{}`), Session: "b"},
		{Tool: "raw", Args: json.RawMessage(`{"zeros":1500}`), Session: "b"},
		{},
		pay("gone", 100),
		{Session: "gone"},
		keyed("a", "two"),
		{Tool: "confide", Session: "a"},
		{Tool: "forget", Args: json.RawMessage(`1`)}, // in the segment that is written to
		pay("gone", 1),
		{Tool: "forget", Args: json.RawMessage(`0`)}, // in a full one
		{Tool: "drift", Args: json.RawMessage(`{}`), Session: "a"},
		{},
		pay("b", 700),
	} {
		switch {
		case in.Tool == "confide":
			l.callWithSecret(ctx, in.Session, uint64(len(l.secrets)))
		case in.Tool == "forget":
			l.eraseSecret(int(in.Args[0] - '0'))
		case in.Tool != "":
			if d, _ := l.call(ctx, in); d.Reason == "KERNEL_SEALED" {
				return
			}
		case in.Session != "":
			_ = l.closeSession(ctx, in.Session) // recorded if it succeeds
		default:
			_ = l.checkpoint()
		}
	}
}
