package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// An Identity is who makes a request. The zero Identity may do nothing.
type Identity struct {
	Caller helm.Caller
	Token  string // its name; empty: the anonymous caller
	scopes []Scope
}

// May reports whether the request may do what a scope stands for. Who may read what is of everybody
// may read their own.
func (i Identity) May(s Scope) bool {
	for _, has := range i.scopes {
		if has == s || has == ReadAll && s == Read {
			return true
		}
	}
	return false
}

// anonymous is everybody who can log in to the machine. An approval proves itself.
var anonymous = Identity{scopes: []Scope{Call, ReadAll, Approve}}

// fresh is how long the file is not looked at again, and how often a request that goes on is asked
// for its token again: together they are less than 10 seconds.
const fresh = 4 * time.Second

// Tokens is a file of tokens, which is read again when it has changed. While it cannot be read, or
// is gone, no token is good, and nobody becomes anonymous by it. It is safe for concurrent use.
type Tokens struct {
	name string
	now  func() time.Time

	mu     sync.Mutex
	looked time.Time   // when the file was looked at last
	was    fs.FileInfo // nil: it was not there
	ever   bool        // there were tokens
	list   map[crypto.Digest]Token
	fault  error
}

// OpenTokens reads a file of tokens. If it is not there, there are none: all are anonymous, until
// it comes to be there.
func OpenTokens(name string) (*Tokens, error) {
	t := &Tokens{name: name, now: time.Now}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the file again, now. If it is faulty no token is good until it is mended.
func (t *Tokens) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.was = nil
	t.look()
	return t.fault
}

// Any reports whether requests need a token.
func (t *Tokens) Any() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again()
	return t.ever
}

// find returns who a secret stands for.
func (t *Tokens) find(secret string) (Identity, bool) {
	if t == nil {
		return Identity{}, false
	}
	sum := crypto.Sum([]byte(secret)) // of which a comparison tells nothing by the time that it takes
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again()
	return t.good(sum)
}

func (t *Tokens) good(sum crypto.Digest) (Identity, bool) {
	e, ok := t.list[sum]
	if !ok || !e.Expires.IsZero() && !t.now().Before(e.Expires) {
		return Identity{}, false
	}
	return Identity{Caller: e.Caller, Token: e.Name, scopes: e.Scopes}, true
}

func (t *Tokens) again() {
	if d := t.now().Sub(t.looked); d >= fresh || d < 0 {
		t.look()
	}
}

func (t *Tokens) look() {
	t.looked = t.now()
	info, err := os.Stat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.was, t.list, t.fault = nil, nil, nil
		if t.ever {
			t.fault = fmt.Errorf("%s: it is gone: no token is good until it is back", t.name)
		}
	case err != nil:
		t.was, t.list, t.fault, t.ever = nil, nil, err, true
	case t.was != nil && os.SameFile(t.was, info) && t.was.ModTime().Equal(info.ModTime()) &&
		t.was.Size() == info.Size() && t.was.Mode() == info.Mode():
	default:
		t.was, t.ever = info, true
		t.list, t.fault = t.read()
	}
}

func (t *Tokens) read() (map[crypto.Digest]Token, error) {
	f, err := os.OpenFile(t.name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe nothing is waited for
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: no regular file", t.name)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s: others may write it (mode %#o): chmod 600 it", t.name, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTokens+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	all, err := ParseTokens(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	list := make(map[contracts.Digest]Token, len(all))
	for _, e := range all {
		list[e.Hash] = e
	}
	return list, nil
}
