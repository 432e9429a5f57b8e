package crypto

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
)

// A key file is one PEM block of PKCS #8, RFC 8410, as openssl genpkey -algorithm ed25519 writes
// it. The code does not use crypto/x509, which links package net, or encoding/pem, which skips text
// that it does not know.
const (
	pemBegin = "-----BEGIN PRIVATE KEY-----"
	pemEnd   = "-----END PRIVATE KEY-----"

	// pkcs8 is the DER in front of the seed: version 0, algorithm 1.3.101.112 without parameters, a
	// seed of 32 bytes, no attributes.
	pkcs8      = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"
	oidEd25519 = "\x06\x03\x2b\x65\x70"

	maxKeyFile = 16 << 10 // an RSA key is shorter, so it gets an error of its own
)

// LoadKey reads a key file: one PEM block of PKCS #8 with an Ed25519 key, and nothing else. No
// error quotes the file.
func LoadKey(r io.Reader) (PrivateKey, error) {
	if r == nil {
		return PrivateKey{}, errors.New("crypto: key file: there is none")
	}
	text, err := io.ReadAll(io.LimitReader(r, maxKeyFile+1))
	if err != nil {
		return PrivateKey{}, fmt.Errorf("crypto: key file: %w", err)
	}
	der, what := decodeKeyFile(text)
	if what != "" {
		return PrivateKey{}, errors.New("crypto: key file: " + what)
	}
	if len(der) != len(pkcs8)+ed25519.SeedSize || string(der[:len(pkcs8)]) != pkcs8 {
		what = "not an Ed25519 key; make one with openssl genpkey -algorithm ed25519"
		if bytes.Contains(der, []byte(oidEd25519)) {
			what = "an Ed25519 key in another form than RFC 8410's version 0; pass it through openssl pkey"
		}
		return PrivateKey{}, errors.New("crypto: key file: " + what)
	}
	return NewKeyFromSeed(der[len(pkcs8):])
}

// decodeKeyFile returns the DER of the only block, or the fault. Lines end with LF or CRLF; the end
// of the last line may be missing.
func decodeKeyFile(text []byte) (der []byte, what string) {
	if len(text) > maxKeyFile {
		return nil, "longer than 16 KiB"
	}
	line, rest := cutLine(text)
	switch string(line) {
	case pemBegin:
	case "-----BEGIN ENCRYPTED PRIVATE KEY-----":
		return nil, "the key is encrypted; decrypt it with openssl pkey"
	case "-----BEGIN OPENSSH PRIVATE KEY-----":
		return nil, "the key is in OpenSSH's own form, want PKCS #8"
	case "-----BEGIN PUBLIC KEY-----":
		return nil, "a public key, want a private one"
	default:
		return nil, "does not begin with " + pemBegin
	}
	var body []byte
	for short := false; ; {
		if len(rest) == 0 {
			return nil, "does not end with " + pemEnd
		}
		line, rest = cutLine(rest)
		if string(line) == pemEnd {
			break
		}
		if short || len(line) == 0 || len(line) > 64 { // RFC 7468: every line but the last has 64 characters
			return nil, "not base64 in lines of 64 characters"
		}
		short = len(line) < 64
		body = append(body, line...)
	}
	if len(rest) > 0 {
		return nil, "something stands after the key; there must be one block and nothing else"
	}
	der, err := DecodeBase64(nil, body)
	if err != nil {
		return nil, "not base64 in lines of 64 characters"
	}
	return der, ""
}

func cutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), rest
}

// WriteKey writes a key file for [LoadKey]. The file is not encrypted: everyone who can read it can
// sign.
func WriteKey(w io.Writer, k PrivateKey) error {
	if k.pair == nil {
		return errors.New("crypto: key file: the zero PrivateKey is none to write")
	}
	text := append([]byte(pemBegin), '\n')
	text = AppendBase64(text, append([]byte(pkcs8), k.pair.private[:ed25519.SeedSize]...))
	text = append(append(append(text, '\n'), pemEnd...), '\n')
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("crypto: key file: %w", err)
	}
	return nil
}
