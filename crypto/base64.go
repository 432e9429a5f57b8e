package crypto

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
)

// strict refuses spare bits that are not zero, which would be a second text of the same bytes.
var strict = base64.StdEncoding.Strict()

// pairs holds the two digits of every twelve bits, the first digit in the low byte.
var pairs = func() (t [1 << 12]uint16) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for i := range t {
		t[i] = uint16(digits[i>>6]) | uint16(digits[i&63])<<8
	}
	return t
}()

// AppendBase64 appends the base64 of b, RFC 4648 section 4, with padding. It encodes six bytes at a
// time, in about half the time of the standard library, because every entry is written with it. The
// standard library encodes the rest.
func AppendBase64(dst, b []byte) []byte {
	dst = slices.Grow(dst, base64.StdEncoding.EncodedLen(len(b)))
	for len(b) >= 8 {
		v := binary.BigEndian.Uint64(b)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(pairs[v>>52])|uint64(pairs[v>>40&0xfff])<<16|
			uint64(pairs[v>>28&0xfff])<<32|uint64(pairs[v>>16&0xfff])<<48)
		b = b[6:]
	}
	return strict.AppendEncode(dst, b)
}

// places holds the values of digits, shifted to their place in 24 bits: for the first digit of
// four, the second, and so on. A byte that is not a digit has the bit noDigit.
var places = func() (t [4][256]uint32) {
	for i := range t {
		for c := range t[i] {
			t[i][c] = noDigit
		}
		for v, pair := range pairs[:64] { // the digits of 0 and v
			t[i][pair>>8] = uint32(v) << (18 - 6*i)
		}
	}
	return t
}()

const noDigit = 1 << 31

// DecodeBase64 appends the bytes that text encodes. It accepts only text that [AppendBase64]
// writes. On error it returns dst unchanged. It decodes six bytes at a time; the standard library
// decodes the end, with the padding.
func DecodeBase64(dst, text []byte) ([]byte, error) {
	out := slices.Grow(dst, base64.StdEncoding.DecodedLen(len(text))+2) // every six bytes are written as eight
	none := uint32(0)
	for len(text) >= 12 {
		s := text[:8]
		v := places[0][s[0]] | places[1][s[1]] | places[2][s[2]] | places[3][s[3]]
		w := places[0][s[4]] | places[1][s[5]] | places[2][s[6]] | places[3][s[7]]
		none |= v | w
		n := len(out)
		binary.BigEndian.PutUint64(out[n:n+8], uint64(v)<<40|uint64(w)<<16)
		out, text = out[:n+6], text[8:]
	}
	// The standard library skips line ends.
	if none&noDigit != 0 || bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 {
		return dst, errBase64
	}
	out, err := strict.AppendDecode(out, text)
	if err != nil {
		return dst, errBase64
	}
	return out, nil
}

var errBase64 = errors.New("crypto: base64: not RFC 4648 section 4 with padding, zero spare bits and no line ends")
