package helm_test

import (
	stdcrypto "crypto"
	"io"
)

func (s *signer) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	if s.fail() {
		if s.panics {
			panic("the KMS")
		}
		return nil, errKMS
	}
	return s.PrivateKey.Sign(r, msg, o)
}
