package proofgraph

import (
	"bytes"
	"errors"
	"time"

	"github.com/helmkernel/helm/crypto"
)

// patience is how long a signer that is not in memory has for a signature.
const patience = 10 * time.Second

var (
	errSilent  = errors.New("proofgraph: the signer has not answered for 10 s")
	errOverdue = errors.New("proofgraph: the signer has not answered the request before this one")
)

// A signature is one that a signer that is not in memory was asked for. The signer may never
// answer, so it runs on a goroutine of its own.
type signature struct {
	answered chan struct{} // closed when the rest is written
	bytes    []byte
	err      error
}

func ask(key crypto.Signer, msg []byte) *signature {
	s := &signature{answered: make(chan struct{}), err: errGone}
	msg = bytes.Clone(msg) // the caller's may be used again before the signer has answered
	go func() {
		defer close(s.answered) // also if the signer ends the goroutine
		s.bytes, s.err = crypto.Sign(key, msg)
	}()
	return s
}

// await waits for the signer for as long as it has, or until stop is closed. It reports whether the
// signer has answered.
func (s *signature) await(stop <-chan struct{}) bool {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-s.answered:
		return true
	case <-limit.C:
	case <-stop:
	}
	return false
}
