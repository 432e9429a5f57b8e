package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Limits of a list of a server, and of how long it may take to greet, and to list.
const (
	maxPages   = 100
	maxListing = 4096
	readTime   = 10 * time.Second
	readAgain  = time.Minute
)

// Back-off of a server that ended, or could not be reached. One that lived longer than the most
// begins again.
const (
	leastBackOff = time.Second
	mostBackOff  = time.Minute
)

// An upstream is the connection of one client session to one server, made when it is needed.
type upstream struct {
	server  Server
	after   func(time.Duration) <-chan time.Time
	now     func() time.Time
	changed func(u *upstream, was, is *listing) // after a list was read that differs

	changes atomic.Uint64 // that the server told of, and new lines
	poke    chan struct{}
	turn    chan struct{} // one reads at a time
	done    context.Context
	stop    context.CancelFunc
	watch   sync.Once
	watched chan struct{}
	closing sync.Once

	mu      sync.Mutex
	line    line
	list    *listing
	began   time.Time // of the line
	backOff time.Duration
	until   time.Time // of the back-off
}

// A listing is a list of a server's tools, as it was read.
type listing struct {
	of    uint64 // the changes that it has
	line  line
	until time.Time
	tools map[string]published // by the server's own name
	order []string
}

// A published tool is an entry, canonical, and its digest.
type published struct {
	entry   []byte
	members map[string]json.RawMessage
	digest  contracts.Digest
}

func newUpstream(s Server, changed func(u *upstream, was, is *listing)) *upstream {
	u := &upstream{
		server: s, changed: changed, after: time.After, now: time.Now,
		poke: make(chan struct{}, 1), turn: make(chan struct{}, 1), watched: make(chan struct{}),
	}
	u.done, u.stop = context.WithCancel(context.Background())
	return u
}

// close ends the connection, and returns when no process is left.
func (u *upstream) close() {
	u.closing.Do(func() {
		u.stop()
		u.watch.Do(func() { close(u.watched) })
		u.turn <- struct{}{} // nobody connects any more
		<-u.watched
		if u.line != nil {
			u.line.close()
		}
	})
}

func (u *upstream) outdated() {
	u.changes.Add(1)
	select {
	case u.poke <- struct{}{}:
	default:
	}
}

// current returns the list if the line that it came by lives, and it has the changes.
func (u *upstream) current(want uint64) *listing {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.list == nil || u.list.of < want || u.now().After(u.list.until) {
		return nil
	}
	select {
	case <-u.list.line.ended():
		return nil
	default:
		return u.list
	}
}

// tools returns a list of the server's tools that has every change that was told before. It
// connects and reads if it must. On error no tool is known.
func (u *upstream) tools(ctx context.Context) (*listing, error) {
	want := u.changes.Load()
	if l := u.current(want); l != nil {
		return l, nil
	}
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-u.done.Done():
		return nil, errDown
	}
	if u.done.Err() != nil {
		return nil, errDown
	}
	if l := u.current(want); l != nil {
		return l, nil
	}
	u.watch.Do(func() { go u.keep() })
	// A client that goes away does not end what others wait for.
	reading, cancel := context.WithTimeout(u.done, readTime)
	defer cancel()
	l, err := u.connect(reading)
	if err != nil {
		return nil, errDown
	}
	of := u.changes.Load()
	is, err := read(reading, l)
	if err != nil {
		u.fail(l)
		return nil, errDown
	}
	is.of, is.line = of, l
	is.until = u.now().Add(is.until.Sub(time.Time{}))
	u.mu.Lock()
	was := u.list
	u.list = is
	u.mu.Unlock()
	if was == nil || differ(was, is) {
		u.changed(u, was, is)
	}
	return is, nil
}

func differ(a, b *listing) bool {
	if len(a.tools) != len(b.tools) {
		return true
	}
	for name, t := range a.tools {
		if b.tools[name].digest != t.digest {
			return true
		}
	}
	return false
}

// connect returns the line, made again if it has ended, and its back-off is over.
func (u *upstream) connect(ctx context.Context) (line, error) {
	if u.line != nil {
		select {
		case <-u.line.ended():
			u.fail(u.line)
		default:
			return u.line, nil
		}
	}
	if u.now().Before(u.until) {
		return nil, errDown
	}
	u.changes.Add(1)
	var l line
	greeted := func(string) {}
	if u.server.URL != "" {
		r := dial(u.server, u.outdated)
		l, greeted = r, r.greeted
	} else {
		p, err := start(u.server, u.outdated)
		if err != nil {
			u.fail(nil)
			return nil, err
		}
		l = p
	}
	u.mu.Lock()
	u.line, u.began = l, u.now()
	u.mu.Unlock()
	if err := hello(ctx, l, greeted); err != nil {
		u.fail(l)
		return nil, err
	}
	return l, nil
}

// fail ends a line, and begins its back-off.
func (u *upstream) fail(l line) {
	if l != nil {
		l.close()
	}
	if u.backOff = min(2*u.backOff, mostBackOff); u.backOff == 0 || u.now().Sub(u.began) > mostBackOff {
		u.backOff = leastBackOff
	}
	u.mu.Lock()
	u.line, u.until = nil, u.now().Add(u.backOff)
	u.mu.Unlock()
}

// keep reads the list again when it changed, when it is old, and when the server must be restarted.
// Floods of changes are read once a second.
func (u *upstream) keep() {
	defer close(u.watched)
	for {
		u.mu.Lock()
		l, wait, ended := u.list, u.until.Sub(u.now()), (<-chan struct{})(nil)
		if u.line != nil {
			ended, wait = u.line.ended(), readAgain
			if l != nil {
				wait = l.until.Sub(u.now())
			}
		}
		u.mu.Unlock()
		select {
		case <-u.done.Done():
			return
		case <-u.poke:
		case <-ended:
		case <-u.after(max(wait, 0) + time.Millisecond):
		}
		_, _ = u.tools(u.done)
		select {
		case <-u.done.Done():
			return
		case <-u.after(time.Second):
		}
	}
}

var errListing = errors.New("the server's list is too long, or none")

// read reads the whole list of tools.
func read(ctx context.Context, l line) (*listing, error) {
	entries, until, err := collect(ctx, l, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	list := &listing{tools: map[string]published{}, until: time.Time{}.Add(until)}
	twice := map[string]bool{}
	for _, entry := range entries {
		name, t, err := publish(entry)
		if _, known := list.tools[name]; known {
			twice[name] = true
		}
		if err == nil {
			list.tools[name] = t
			list.order = append(list.order, name)
		}
	}
	for name := range twice { // which of them is meant is not known
		delete(list.tools, name)
	}
	return list, nil
}

// collect returns the entries of all pages of a list, and how long the server says that they hold,
// within limits. A server that refuses to list has no entries.
func collect(
	ctx context.Context, l line, method, member string,
) (all []json.RawMessage, until time.Duration, err error) {
	until = readAgain
	size, cursor := 0, json.RawMessage(nil)
	for range maxPages {
		params := []byte("{}")
		if cursor != nil {
			if params, err = encode(map[string]json.RawMessage{"cursor": cursor}); err != nil {
				return nil, 0, err
			}
		}
		page, err := l.call(ctx, method, params, nil)
		var refused *jsonrpc.Error
		if errors.As(err, &refused) {
			return nil, until, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var members map[string]json.RawMessage
		var entries []json.RawMessage
		if json.Unmarshal(page, &members) != nil || json.Unmarshal(members[member], &entries) != nil {
			return nil, 0, errListing
		}
		if size += len(page); size > maxMessage || len(entries)+len(all) > maxListing {
			return nil, 0, errListing
		}
		all = append(all, entries...)
		var ttl float64
		if json.Unmarshal(members["ttlMs"], &ttl) == nil && ttl > 0 && ttl < float64(readAgain/time.Millisecond) {
			until = max(time.Duration(ttl)*time.Millisecond, time.Second)
		}
		if cursor = members["nextCursor"]; cursor == nil || string(cursor) == "null" || string(cursor) == `""` {
			return all, until, nil
		}
	}
	return nil, 0, errListing
}

// publish returns an entry of a list. It is an error if it is not one object of strict JSON with a
// name.
func publish(entry []byte) (name string, t published, err error) {
	if t.entry, t.members, err = canonical(entry); err != nil {
		return "", t, err
	}
	if err = json.Unmarshal(t.members["name"], &name); err == nil && name == "" {
		err = errListing
	}
	t.digest = crypto.Sum(t.entry)
	return name, t, err
}
