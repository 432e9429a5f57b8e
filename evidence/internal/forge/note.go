package forge

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
)

// merkle is RFC 6962, section 2.1, of leaves that have their 0x00 in front.
func merkle(leaves [][]byte) [32]byte {
	var hashes [][32]byte
	for _, b := range leaves {
		hashes = append(hashes, sha256.Sum256(b))
	}
	return treeOf(hashes)
}

// treeOf is the root over leaf hashes.
func treeOf(leaves [][32]byte) [32]byte {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := treeOf(leaves[:k]), treeOf(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// rootOf is the root over the first n entries, whether they stand whole or their stubs do.
func rootOf(m *Model, n int) [32]byte {
	var leaves [][32]byte
	for _, x := range m.Nodes[:n] {
		leaves = append(leaves, bytesOf(x.hash))
	}
	return treeOf(leaves)
}

// bytesOf returns the 32 bytes of a digest in hex, and zeros for what is none.
func bytesOf(digest string) (d [32]byte) {
	if b, err := hex.DecodeString(digest); err == nil && len(b) == len(d) {
		copy(d[:], b)
	}
	return d
}

func hexRoot(leaves [][]byte) string { return fmt.Sprintf("%x", merkle(leaves)) }

// signNote signs by the library that others use.
func signNote(t testing.TB, text, name string, seed byte) []byte {
	t.Helper()
	s := Key(t, seed)
	vkey, err := note.NewEd25519VerifierKey(name, Public(t, seed))
	require.NoError(t, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	b, err := note.Sign(&note.Note{Text: text}, noteSigner{v, s, t})
	require.NoError(t, err)
	return b
}

type noteSigner struct {
	note.Verifier
	key crypto.PrivateKey
	t   testing.TB
}

func (s noteSigner) Sign(msg []byte) ([]byte, error) { return crypto.Sign(s.key, msg) }

// noteLineOf is the signature line of a note by a key.
func noteLineOf(t testing.TB, text, name string, seed byte) string {
	b := signNote(t, text, name, seed)
	return string(b[len(text)+1:])
}

// CosignedAt is when the first witness cosigns checkpoints, in seconds. The second does so one
// second later.
const CosignedAt = uint64(Start/1000) + 60

// Witness names a witness of the tests.
func Witness(seed byte) string { return fmt.Sprintf("w%d.example", seed-SeedW1+1) }

// cosignerID returns the key hash of a cosigner, and the rest of its verifier key.
func cosignerID(t testing.TB, name string, kind byte, seed byte) (hash, key []byte) {
	key = append([]byte{kind}, Public(t, seed)...)
	sum := sha256.Sum256(slices.Concat([]byte(name+"\n"), key))
	return sum[:4], key
}

// CosignerKey returns the verifier key of a key under a name; kind is 4 for cosignatures.
func CosignerKey(t testing.TB, name string, kind, seed byte) string {
	t.Helper()
	hash, key := cosignerID(t, name, kind, seed)
	return fmt.Sprintf("%s+%x+%s", name, hash, base64.StdEncoding.EncodeToString(key))
}

// WitnessKeys returns the verifier keys of the witnesses.
func WitnessKeys(t testing.TB) []string {
	t.Helper()
	return []string{CosignerKey(t, Witness(SeedW1), 4, SeedW1), CosignerKey(t, Witness(seedW2), 4, seedW2)}
}

// cosignature returns the line of a witness over the text of a checkpoint.
func cosignature(t testing.TB, text string, seed byte, at uint64) string {
	t.Helper()
	return cosignatureBy(t, text, Witness(seed), seed, seed, at)
}

// cosignatureBy returns a line under a name and the key hash of a key, signed by any key.
func cosignatureBy(t testing.TB, text, name string, as, by byte, at uint64) string {
	t.Helper()
	hash, _ := cosignerID(t, name, 4, as)
	line := binary.BigEndian.AppendUint64(hash, at)
	line = append(line, signWith(t, by, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text))...)
	return fmt.Sprintf("— %s %s\n", name, base64.StdEncoding.EncodeToString(line))
}

// cosignatures returns the lines of both witnesses.
func cosignatures(t testing.TB, text string) string {
	t.Helper()
	return cosignaturesAt(t, text, CosignedAt)
}

// cosignaturesAt returns the lines of both, of which the second is one second later.
func cosignaturesAt(t testing.TB, text string, at uint64) string {
	t.Helper()
	return cosignature(t, text, SeedW1, at) + cosignature(t, text, seedW2, at+1)
}

// LastOf returns a checkpoint of size n with that root, signed by the log key of m.
func LastOf(m *Model, size int, root [32]byte, origin string) []byte {
	return signNote(m, fmt.Sprintf("%s\n%d\n%s\n", origin, size, crypto.AppendBase64(nil, root[:])), origin, SeedL)
}
