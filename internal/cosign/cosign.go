// Package cosign verifies the cosignatures of checkpoints: C2SP tlog-cosignature, version 1, by
// Ed25519.
//
// A witness is named by its verifier key, name+hash+base64 of 0x04 and the 32 bytes of the public
// key. The hash is the first 4 bytes of SHA-256 over the name, a line feed, 0x04 and the public
// key, in 8 lower-case hex digits. Its line at the end of a checkpoint has the same name and hash,
// and then 8 bytes of time, in seconds since 1970, and a signature of 64 bytes over
//
//	cosignature/v1
//	time 1790000000
//	example.test/log
//	43
//	6fzyXBGEivgEGjO61n0/XTq/G8IDdjvqxzO8v22dOG4=
//
// each line with its line feed. A time of 0, or above 2^63-1, makes no valid signature.
//
// The package has no clock: whether a time is right is for its callers to say.
package cosign

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// The types of keys, as the first byte of a verifier key has them.
const (
	ed25519v1 = 0x04
	mlDSA44   = 0x06
)

// A Witness cosigns checkpoints.
type Witness struct {
	Name string
	hash uint32
	key  crypto.PublicKey
}

// Parse reads the verifier keys of witnesses. No two may have the same name or the same public key:
// one witness would count as two. The error says which is wrong, counted from 1.
func Parse(vkeys []string) ([]Witness, error) {
	list := make([]Witness, 0, len(vkeys))
	names, keys := map[string]int{}, map[string]int{}
	for i, vkey := range vkeys {
		w, err := parse(vkey)
		switch {
		case err != nil:
			return nil, fmt.Errorf("witness %d: %w", i+1, err)
		case names[w.Name] > 0:
			return nil, fmt.Errorf("witness %d: it has the name of witness %d", i+1, names[w.Name])
		case keys[string(w.key)] > 0:
			return nil, fmt.Errorf("witness %d: it has the public key of witness %d", i+1, keys[string(w.key)])
		}
		names[w.Name], keys[string(w.key)] = i+1, i+1
		list = append(list, w)
	}
	return list, nil
}

func parse(vkey string) (Witness, error) {
	bad := func(what string) (Witness, error) { return Witness{}, errors.New(what) }
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
	case key[0] != ed25519v1:
		return bad(fmt.Sprintf("a key of type 0x%02x, and cosignatures are by keys of type 0x04", key[0]))
	case crypto.CheckPublicKey(key[1:]) != nil:
		return bad("not an Ed25519 public key of prime order")
	}
	sum := crypto.Sum([]byte(name + "\n" + string(key)))
	if hex.EncodeToString(sum[:4]) != hash {
		return bad("its hash is not that of its name and key")
	}
	return Witness{name, binary.BigEndian.Uint32(sum[:4]), key[1:]}, nil
}

// Names reports whether the line says that it is by the witness. Anyone can write such a line.
func (w *Witness) Names(line proofgraph.SignatureLine) bool {
	return line.Name == w.Name && line.KeyHash == w.hash
}

// Verify reports whether the line is a cosignature of the checkpoint by the witness, and returns
// its time. The checkpoint must be one that was parsed.
func (w *Witness) Verify(c proofgraph.Checkpoint, line proofgraph.SignatureLine) (time int64, ok bool) {
	body, _, parsed := bytes.Cut(c.Note, []byte("\n\n"))
	if !parsed || !w.Names(line) || len(line.Signature) != 8+64 {
		return 0, false
	}
	at := binary.BigEndian.Uint64(line.Signature)
	if at == 0 || at > math.MaxInt64 {
		return 0, false
	}
	message := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", at, body)
	return int64(at), crypto.Verify(w.key, message, line.Signature[8:])
}
