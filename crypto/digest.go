package crypto

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
)

// Digest is a SHA-256 hash. Its text is 64 lower-case hex digits.
type Digest [sha256.Size]byte

// Sum returns the SHA-256 of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// LeafHash returns the RFC 6962 leaf hash of b, SHA-256(0x00 ‖ b). The hash of an entry is its leaf
// hash.
func LeafHash(b []byte) Digest {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write(b)
	var d Digest
	h.Sum(d[:0])
	return d
}

// NodeHash returns the RFC 6962 hash of an interior node, SHA-256(0x01 ‖ left ‖ right).
func NodeHash(left, right Digest) Digest {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// ParseDigest reads 64 lower-case hex digits. It refuses upper case, which would be a second
// spelling.
func ParseDigest[T string | []byte](text T) (Digest, error) {
	var d Digest
	if len(text) != 2*len(d) {
		return Digest{}, errDigest
	}
	none := byte(0)
	for i := range d {
		hi, lo := lowerHex[text[2*i]], lowerHex[text[2*i+1]]
		none |= hi | lo
		d[i] = hi<<4 | lo
	}
	if none > 15 {
		return Digest{}, errDigest
	}
	return d, nil
}

// lowerHex holds the values of lower-case hex digits, and 16 for all other bytes. It is a table
// because opening an entry parses some ten digests.
var lowerHex = func() (t [256]byte) {
	for c := range t {
		t[c] = 16
		if v := unhex(byte(c)); v >= 0 && (c < 'A' || c > 'F') {
			t[c] = byte(v)
		}
	}
	return t
}()

var errDigest = errors.New("crypto: digest is not 64 lower-case hex digits")

// String returns the 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// AppendText appends the 64 hex digits.
func (d Digest) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, d[:]), nil }

// MarshalText returns the 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// UnmarshalText reads the text that MarshalText returns. On error d is unchanged.
func (d *Digest) UnmarshalText(text []byte) error {
	x, err := ParseDigest(text)
	if err != nil {
		return err
	}
	*d = x
	return nil
}

// NewSum returns a hash for data that is too long to hold in memory. Its Sum(nil) returns the bytes
// of the Digest of everything written to it.
func NewSum() hash.Hash { return sha256.New() }
