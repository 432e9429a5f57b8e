package crypto

import (
	"encoding/hex"
	"strconv"
)

// AppendPAE appends the pre-authentication encoding of a payload and its type, which the signature
// of a DSSE envelope covers. Both have their length in front, so no two pairs have the same
// encoding.
func AppendPAE(dst []byte, payloadType string, payload []byte) []byte {
	dst = append(dst, "DSSEv1 "...)
	dst = strconv.AppendInt(dst, int64(len(payloadType)), 10)
	dst = append(dst, ' ')
	dst = append(dst, payloadType...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(len(payload)), 10)
	dst = append(dst, ' ')
	return append(dst, payload...)
}

// AppendEnvelope appends the canonical JSON of a DSSE envelope with one signature.
func AppendEnvelope(dst []byte, payloadType string, payload []byte, keyid Digest, sig []byte) []byte {
	dst = append(dst, `{"payload":"`...)
	dst = AppendBase64(dst, payload)
	dst = append(dst, `","payloadType":`...)
	dst = AppendString(dst, payloadType)
	dst = append(dst, `,"signatures":[{"keyid":"`...)
	dst = hex.AppendEncode(dst, keyid[:])
	dst = append(dst, `","sig":"`...)
	dst = AppendBase64(dst, sig)
	return append(dst, `"}]}`...)
}
