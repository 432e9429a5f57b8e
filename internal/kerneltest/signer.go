package kerneltest

import (
	stdcrypto "crypto"
	"errors"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/helmkernel/helm/crypto"
)

func (s *FaultySigner) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	if s.fail() {
		if s.Panics {
			panic("the KMS")
		}
		if s.Exits {
			runtime.Goexit()
		}
		return nil, ErrKMS
	}
	return s.PrivateKey.Sign(r, msg, o)
}

// signer is a key whose nth signature fails.
type FaultySigner struct {
	crypto.PrivateKey
	N, FailAt atomic.Int64
	Panics    bool
	Exits     bool // its goroutine
}

var ErrKMS = errors.New("the KMS is away")

func (s *FaultySigner) fail() bool { return s.N.Add(1) == s.FailAt.Load() }

func (s *FaultySigner) FailIn(n int64) { s.FailAt.Store(s.N.Load() + n) }
