package crypto

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
)

// CheckPublicKey refuses keys under which one signature could be valid for many messages, or that
// two libraries could judge differently. The encoding must be canonical. The point must be on the
// curve, in the prime-order subgroup, and not the identity.
func CheckPublicKey(pub PublicKey) error {
	if len(pub) != ed25519.PublicKeySize {
		return fmt.Errorf("crypto: public key: %d bytes, want %d", len(pub), ed25519.PublicKeySize)
	}
	p, err := new(edwards25519.Point).SetBytes(pub)
	if err != nil {
		return errors.New("crypto: public key: not a point on the curve")
	}
	if string(p.Bytes()) != string(pub) { // SetBytes accepts y ≥ 2^255-19, and a sign on x = 0
		return errors.New("crypto: public key: not the canonical encoding of its point")
	}
	if p.Equal(edwards25519.NewIdentityPoint()) == 1 {
		return errors.New("crypto: public key: the identity")
	}
	// L·p is the identity exactly if (L-1)·p = -p; as a scalar, L itself is zero. Nothing here is
	// secret, so variable time is fine.
	one, err := new(edwards25519.Scalar).SetCanonicalBytes(append([]byte{1}, make([]byte, 31)...))
	if err != nil {
		return errors.New("crypto: public key: cannot be checked") // cannot happen: 1 is canonical
	}
	zero := edwards25519.NewScalar()
	q := new(edwards25519.Point).VarTimeDoubleScalarBaseMult(new(edwards25519.Scalar).Subtract(zero, one), p, zero)
	if q.Equal(new(edwards25519.Point).Negate(p)) != 1 {
		return errors.New("crypto: public key: not in the prime-order subgroup")
	}
	return nil
}
