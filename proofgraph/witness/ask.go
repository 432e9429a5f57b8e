package witness

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"time"

	helmcrypto "github.com/helmkernel/helm/crypto"
)

const (
	// patience is how long a signer that is not in memory has for a signature.
	patience = 10 * time.Second

	// maxAsked is how many signatures such a signer may owe.
	maxAsked = 64
)

var (
	errGone   = errors.New("the signer has ended its goroutine")
	errSilent = errors.New("the signer has not answered for 10 s")
	errOwes   = errors.New("the signer owes 64 signatures: see whether it answers")
)

// An asker asks for signatures. Each element of the channel is one that is awaited, or that a
// signer has not answered in time.
type asker chan struct{}

// sign returns a signature of msg, which [crypto.Sign] has verified if the key is not in memory.
func (a asker) sign(ctx context.Context, key crypto.Signer, msg []byte) ([]byte, error) {
	if _, ok := helmcrypto.InMemory(key); ok {
		return helmcrypto.Sign(key, msg)
	}
	select {
	case a <- struct{}{}:
	default:
		return nil, errOwes
	}
	type answer struct {
		sig []byte
		err error
	}
	answered := make(chan answer, 1)
	msg = bytes.Clone(msg)
	go func() {
		got := answer{err: errGone}
		defer func() { <-a; answered <- got }() // also if the signer ends the goroutine
		got.sig, got.err = helmcrypto.Sign(key, msg)
	}()
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case got := <-answered:
		return got.sig, got.err
	case <-limit.Done():
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, errSilent
	}
}
