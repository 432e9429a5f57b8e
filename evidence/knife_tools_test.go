package evidence

import (
	"crypto/sha256"
	"fmt"
	"testing"

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
	s := testKey(t, seed)
	vkey, err := note.NewEd25519VerifierKey(name, testPublic(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	b, err := note.Sign(&note.Note{Text: text}, noteSigner{v, s, t})
	if err != nil {
		t.Fatal(err)
	}
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

// tarOf writes an archive by hand.
func tarOf(ms []member) []byte {
	var out []byte
	for _, x := range ms {
		h := make([]byte, block)
		copy(h, x.name)
		copy(h[100:], "0000644\x000000000\x000000000\x00")
		copy(h[124:], fmt.Sprintf("%011o\x0000000000000\x00", len(x.body)))
		h[156] = '0'
		copy(h[257:], "ustar\x0000")
		copy(h[329:], "0000000\x000000000\x00")
		if x.head != nil {
			x.head(h)
		}
		copy(h[148:], "        ")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		if x.late != nil {
			x.late(h)
		}
		out = append(append(out, h...), x.body...)
		for len(out)%block != 0 {
			out = append(out, x.pad)
		}
	}
	return append(out, make([]byte, 2*block)...)
}
