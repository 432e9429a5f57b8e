package forge

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
)

// merkle is RFC 6962, section 2.1, of leaves that have their 0x00 in front.
func merkle(leaves [][]byte) [32]byte {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(leaves[0])
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := merkle(leaves[:k]), merkle(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
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

// LastOf returns a checkpoint of size n with that root, signed by the log key of m.
func LastOf(m *Model, size int, root [32]byte, origin string) []byte {
	return signNote(m, fmt.Sprintf("%s\n%d\n%s\n", origin, size, crypto.AppendBase64(nil, root[:])), origin, SeedL)
}
