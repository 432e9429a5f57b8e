package crypto

import (
	"bytes"
	"encoding/base64"
	"errors"
)

// strict refuses spare bits that are not zero: they would give one byte string several texts.
var strict = base64.StdEncoding.Strict()

// AppendBase64 appends the base64 of b, RFC 4648 section 4, with padding.
func AppendBase64(dst, b []byte) []byte { return strict.AppendEncode(dst, b) }

// DecodeBase64 appends what text encodes. It accepts only what [AppendBase64] writes. On error dst is unchanged.
func DecodeBase64(dst, text []byte) ([]byte, error) {
	if bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0 { // the standard library skips them
		return dst, errBase64
	}
	out, err := strict.AppendDecode(dst, text)
	if err != nil {
		return dst, errBase64
	}
	return out, nil
}

var errBase64 = errors.New("crypto: base64: not RFC 4648 section 4 with padding, zero spare bits and no line ends")
