package cosign

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// The types of keys, as the first byte of a verifier key has them.
const (
	logKey     = 0x01
	witnessKey = 0x04
	mlDSA44    = 0x06
)

// A Key is a verifier key of signed notes, Ed25519.
type Key struct {
	Name   string
	Public crypto.PublicKey
	hash   uint32
}

// ParseLogKey reads the verifier key of a log.
func ParseLogKey(vkey string) (Key, error) { return parseKey(vkey, logKey) }

func parseKey(vkey string, kind byte) (Key, error) {
	bad := func(what string) (Key, error) { return Key{}, errors.New(what) }
	name, rest, _ := strings.Cut(vkey, "+")
	hash, b64, ok := strings.Cut(rest, "+") // base64 has + too
	key, err := crypto.DecodeBase64(nil, []byte(b64))
	illegal := func(r rune) bool { return r < 0x20 || unicode.IsSpace(r) } // in a name, as checkpoints are parsed
	switch {
	case !ok || err != nil || len(key) == 0:
		return bad("not a verifier key: name+hash+base64")
	case name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, illegal):
		return bad("not a name that a signature line can have")
	case key[0] == mlDSA44:
		return bad("a key of type 0x06, ML-DSA-44, is not supported by this version")
	case key[0] != kind && kind == witnessKey:
		return bad(fmt.Sprintf("a key of type 0x%02x, and cosignatures are by keys of type 0x04", key[0]))
	case key[0] != kind:
		return bad(fmt.Sprintf("a key of type 0x%02x, and logs sign with keys of type 0x01", key[0]))
	case crypto.CheckPublicKey(key[1:]) != nil:
		return bad("not an Ed25519 public key of prime order")
	}
	sum := crypto.Sum([]byte(name + "\n" + string(key)))
	if hex.EncodeToString(sum[:4]) != hash {
		return bad("its hash is not that of its name and key")
	}
	return Key{name, key[1:], binary.BigEndian.Uint32(sum[:4])}, nil
}

// Names reports whether the line says that it is by the key. Anyone can write such a line.
func (k *Key) Names(line proofgraph.SignatureLine) bool {
	return line.Name == k.Name && line.KeyHash == k.hash
}
