package helm_test

import (
	stdcrypto "crypto"
	"io"
	"runtime"
)

func (s *signer) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	if s.fail() {
		if s.panics {
			panic("the KMS")
		}
		if s.exits {
			runtime.Goexit()
		}
		return nil, errKMS
	}
	return s.PrivateKey.Sign(r, msg, o)
}
