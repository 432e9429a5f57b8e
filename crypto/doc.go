// Package crypto implements the primitives of HELM: strict JSON and its canonical form, SHA-256,
// Ed25519 keys, and DSSE envelopes.
//
// Read arguments with [Tree.ParseArgs] and any other JSON with [Tree.Parse], and write the
// canonical form of a [Value] with [Value.Append]. Make a key with [GenerateKey], keep it with
// [WriteKey] and [LoadKey], and sign with [Sign]. A key that is kept elsewhere is a [Signer]; [Pin]
// it first.
//
// Do not use encoding/json for anything that is signed or judged: it accepts duplicate keys and
// invalid UTF-8, and rounds numbers.
//
// # JSON
//
// A text is one value in UTF-8 without byte order mark, with nothing but JSON white space around
// it. Duplicate keys, lone surrogates, control characters in strings, and all that RFC 8259 does
// not allow are errors. Nesting is limited; the root has depth 1.
//
// A number is accepted if canonicalising does not change its value: the decimal value of the token
// must equal the decimal value of the ECMAScript form of the nearest double. So 0.1, 1.0, 1e2, 1e23
// and -0 (as 0) are accepted; 9007199254740993, 0.10000000000000001, 1e400 and 1e-400 are not.
//
// Arguments are an object of at most 1,048,576 bytes, as received and in canonical form, nested at
// most 64 deep. No two keys of an object may be equal under ASCII case folding plus U+017F = s and
// U+212A = k.
//
// The canonical form is RFC 8785: no white space, keys in the order of their UTF-16 code units, the
// shortest escapes, and numbers as ECMAScript writes them. The canonical form of an accepted text
// is accepted, and is its own canonical form.
//
// # Hashes and keys
//
// A [Digest] is a SHA-256 hash, written as 64 lower-case hex digits. [LeafHash] and [NodeHash] are
// the hashes of RFC 6962.
//
// Keys are Ed25519. A public key is 32 bytes: the canonical encoding of a point of the prime-order
// subgroup other than the identity ([CheckPublicKey]). Its id is the SHA-256 of the 32 bytes
// ([KeyID]). Signatures are verified by the rule of the standard library: S < L, and the equation
// without cofactor ([Verify]). If no other key is given, checkpoints are signed with a key whose
// RFC 8032 seed is derived from the first key: 32 bytes of HKDF-SHA256 with that key's seed as
// input key, no salt, and the info "helm checkpoint" ([DeriveLogKey]).
//
// A key file is one PEM block, PRIVATE KEY, of PKCS #8 as in RFC 8410, version 0 and without
// attributes, and nothing else.
//
// # Envelopes
//
// Base64 is RFC 4648 section 4, with padding, zero spare bits and no line ends. An envelope is
// canonical JSON: a payload, its type, and one signature over the pre-authentication encoding
// ([AppendPAE]), in which the length in decimal digits precedes the type and the payload:
//
//	DSSEv1 10 text/plain 5 hello
//
// The key with the id 21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9 and the
// bytes
//
//	d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a
//
// signed these in this envelope, which is a single line:
//
//	{"payload":"aGVsbG8=","payloadType":"text/plain","signatures":[{"keyid":
//	"21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9","sig":
//	"rU+c6xywolzout94/+KJ4OR9dcmXuD7KyUH4xSntPfM5758lAL7GLNaXyXsuTHKBMQ/i9od5FB3ISXiIR70BAA=="}]}
//
// Everything in this package is a function of its arguments, except [GenerateKey] and [ReadRandom].
// No text, key, signature or [Signer] makes any of it panic, or recurse deeper than [MaxDepth].
package crypto
