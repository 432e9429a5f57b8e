package kerneltest

import (
	stdcrypto "crypto"
	"errors"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/helmkernel/helm/crypto"
)

var _ crypto.Signer = (*FaultySigner)(nil)

// ErrKMS is the error of a signer that fails.
var ErrKMS = errors.New("the KMS is away")

// A FaultySigner is a key of which one signature can be made to fail.
type FaultySigner struct {
	crypto.PrivateKey
	Panics bool            // in place of an error
	Exits  bool            // ends its goroutine, in place of an error
	Hangs  <-chan struct{} // waits for this, and then signs; nil: it does not wait

	n, failAt atomic.Int64
}

// Signatures returns how many signatures were asked for so far.
func (s *FaultySigner) Signatures() int64 { return s.n.Load() }

// FailIn makes the nth signature from now on fail.
func (s *FaultySigner) FailIn(n int64) { s.failAt.Store(s.n.Load() + n) }

// Sign signs, or fails if it is the signature's turn.
func (s *FaultySigner) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	switch {
	case s.n.Add(1) != s.failAt.Load():
		return s.PrivateKey.Sign(r, msg, o)
	case s.Hangs != nil:
		<-s.Hangs
		return s.PrivateKey.Sign(r, msg, o)
	case s.Panics:
		panic("the KMS")
	case s.Exits:
		runtime.Goexit()
	}
	return nil, ErrKMS
}
