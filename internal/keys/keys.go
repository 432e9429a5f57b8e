// Package keys asks keys that are not in memory for signatures. Such a key may never answer.
package keys

import (
	"bytes"
	stdcrypto "crypto"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/helmkernel/helm/crypto"
)

// Patience is how long a key that is not in memory has for a signature.
const Patience = 10 * time.Second

// The errors of a key that does not answer.
var (
	ErrSilent  = errors.New("the signer has not answered for 10 s")
	ErrOverdue = errors.New("the signer has not answered the request before this one")
	ErrGone    = errors.New("the signer ended the goroutine")
)

// A Request is a signature that a key was asked for, on a goroutine of its own: the key may never
// answer.
type Request struct {
	answered chan struct{} // closed when the rest is written
	bytes    []byte
	err      error
}

// Ask asks a key for the signature of a message, which may be changed afterwards.
func Ask(key crypto.Signer, msg []byte) *Request {
	r := &Request{answered: make(chan struct{}), err: ErrGone}
	msg = bytes.Clone(msg)
	go func() {
		defer close(r.answered) // also if the key ends the goroutine
		r.bytes, r.err = crypto.Sign(key, msg)
	}()
	return r
}

// Await waits for the answer for as long as the key has, or until stop is closed. It reports
// whether there is one.
func (r *Request) Await(stop <-chan struct{}) bool {
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	select {
	case <-r.answered:
		return true
	case <-limit.C:
	case <-stop:
	}
	return false
}

// Answer returns the signature, after Await has reported that there is one.
func (r *Request) Answer() ([]byte, error) { return r.bytes, r.err }

// A Key is a key that is not asked again before it has answered. It is safe for concurrent use: one
// goroutine asks at a time.
type Key struct {
	key     crypto.Signer
	mu      sync.Mutex // protects overdue
	overdue *Request   // that is waited for no longer; nil: none
}

// New returns the Key of a signer. If that is a Key it is returned itself.
func New(s crypto.Signer) *Key {
	if k, ok := s.(*Key); ok {
		return k
	}
	return &Key{key: s}
}

// Public returns the public key.
func (k *Key) Public() stdcrypto.PublicKey { return k.key.Public() }

// Sign returns the signature of a message, as a [crypto.Signer] does.
func (k *Key) Sign(_ io.Reader, msg []byte, _ stdcrypto.SignerOpts) ([]byte, error) {
	return k.SignUntil(msg, nil)
}

// SignUntil returns the signature of a message. It waits no longer when stop is closed.
func (k *Key) SignUntil(msg []byte, stop <-chan struct{}) ([]byte, error) {
	if _, ok := k.key.(crypto.PrivateKey); ok {
		return crypto.Sign(k.key, msg)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.overdue != nil && !k.overdue.Await(stop) {
		return nil, ErrOverdue
	}
	k.overdue = nil
	r := Ask(k.key, msg)
	if !r.Await(stop) {
		k.overdue = r
		return nil, ErrSilent
	}
	return r.Answer()
}
