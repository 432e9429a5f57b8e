// Package crypto has what HELM signs, hashes and compares: strict JSON and its canonical form, SHA-256, Ed25519 keys, DSSE envelopes.
//
// Read arguments with [Tree.ParseArgs] and any other JSON with [Tree.Parse]; a [Value] gives canonical bytes with [Value.Append]. Make a
// key with [GenerateKey], keep it with [WriteKey] and [LoadKey], sign with [Sign]. A key that lives elsewhere is a [Signer]; [Pin] it.
// Do not use encoding/json for anything that is signed or judged: it takes duplicate keys, broken UTF-8, and numbers that it rounds.
//
// # JSON
//
// A text is one value in UTF-8 without byte order mark, with nothing before or after it but JSON white space. Refused are duplicate keys,
// lone surrogates, control characters in strings, and whatever RFC 8259 does not allow. Nesting is limited, the root having depth 1.
//
// A number is accepted if canonicalising does not change its value: the decimal value of the token equals that of the ECMAScript form of
// the nearest double. 0.1, 1.0, 1e2, 1e23 and -0 (as 0) pass; 9007199254740993, 0.10000000000000001, 1e400 and 1e-400 do not.
//
// Arguments are an object of at most 1,048,576 bytes, as received and in canonical form, nested at most 64 deep, in which no two keys of
// one object are equal under ASCII case folding plus U+017F = s and U+212A = k.
//
// The canonical form is RFC 8785: no white space, keys in the order of their UTF-16 code units, the shortest escapes, numbers as
// ECMAScript writes them. What is accepted is accepted in its canonical form too, and does not change again.
//
// # Hashes and keys
//
// A [Digest] is a SHA-256, written as 64 lower-case hex digits. [LeafHash] and [NodeHash] are those of RFC 6962.
//
// Keys are Ed25519. A public key is 32 bytes: the canonical encoding of a point of the prime-order subgroup other than the identity
// ([CheckPublicKey]). Its id is the SHA-256 of the 32 bytes ([KeyID]). A signature is verified by the standard library's rule: S < L, and
// the equation without cofactor ([Verify]). The key that signs checkpoints, where no other is given, has as its RFC 8032 seed the 32 bytes
// of HKDF-SHA256 with the seed of the first as input key, no salt, and the info "helm checkpoint" ([DeriveLogKey]).
//
// A key file is one PEM block, PRIVATE KEY, of PKCS #8 as in RFC 8410, version 0 and without attributes, and nothing else.
//
// # Envelopes
//
// Base64 is that of RFC 4648 section 4, with padding, zero spare bits and no line ends. An envelope is canonical JSON: a payload, its
// type, and one signature over the pre-authentication encoding ([AppendPAE]), in which a length in decimal digits stands before each:
//
//	DSSEv1 10 text/plain 5 hello
//
// The key with the id 21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9 and the bytes
//
//	d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a
//
// signed these in the envelope
//
//	{"payload":"aGVsbG8=","payloadType":"text/plain","signatures":[{"keyid":"21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9","sig":"rU+c6xywolzout94/+KJ4OR9dcmXuD7KyUH4xSntPfM5758lAL7GLNaXyXsuTHKBMQ/i9od5FB3ISXiIR70BAA=="}]}
//
// Everything here is a function of its arguments, but for [GenerateKey] and [ReadRandom]. No text, key, signature or [Signer] makes any of
// it panic, or recurse deeper than [MaxDepth].
package crypto
