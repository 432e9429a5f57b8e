package proofgraph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/keys"
)

// A Checkpoint says that the first Size entries of a log have the RFC 6962 root Root.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   contracts.Digest
	Note   []byte // the signed note
}

// A SignatureLine is a signature at the end of a checkpoint. It is not verified.
type SignatureLine struct {
	Name      string
	KeyHash   uint32
	Signature []byte // follows the key hash
}

// body returns the signed part of the note.
func (c Checkpoint) body() []byte {
	b := append([]byte(c.Origin), '\n')
	b = append(strconv.AppendUint(b, c.Size, 10), '\n')
	return append(crypto.AppendBase64(b, c.Root[:]), '\n')
}

// SignCheckpoint returns c with a note that the log key has signed. It stores nothing. A signer
// that is not in memory has failed if it does not answer within 10 seconds.
func SignCheckpoint(logKey crypto.Signer, c Checkpoint) (Checkpoint, error) {
	s, err := newSigner(c.Origin, logKey)
	if err != nil {
		return Checkpoint{}, err
	}
	c.Note, err = note.Sign(&note.Note{Text: string(c.body())}, s)
	if err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// Names reports whether the line says that it is by that key, under the name of the log. Anyone can
// write such a line: see [Checkpoint.SignedBy].
func (c Checkpoint) Names(line SignatureLine, pub crypto.PublicKey) bool {
	v, err := note.NewVerifier(VerifierKey(c.Origin, pub))
	return err == nil && line.Name == v.Name() && line.KeyHash == v.KeyHash()
}

// SignedBy reports whether the line is a signature of the checkpoint by that key, under the name of
// the log.
func (c Checkpoint) SignedBy(line SignatureLine, pub crypto.PublicKey) bool {
	return c.Names(line, pub) && crypto.Verify(pub, c.body(), line.Signature)
}

// VerifierKey returns the key as tools for signed notes read it: origin+hash+base64. It returns ""
// if pub is not a key.
func VerifierKey(origin string, pub crypto.PublicKey) string {
	key, err := note.NewEd25519VerifierKey(origin, pub)
	if err != nil {
		return ""
	}
	return key
}

// A signer signs notes with a key, under the name of the log. It is not safe for concurrent use.
type signer struct {
	note.Verifier
	pub  crypto.PublicKey
	key  *keys.Key
	stop <-chan struct{} // when closed, Sign waits no longer
}

func newSigner(origin string, key crypto.Signer) (*signer, error) {
	pub, err := crypto.PublicOf(key)
	if err != nil {
		return nil, err
	}
	v, err := note.NewVerifier(VerifierKey(origin, pub))
	if err != nil {
		return nil, err
	}
	return &signer{Verifier: v, pub: pub, key: keys.New(key)}, nil
}

// Sign signs the text of a note.
func (s *signer) Sign(msg []byte) ([]byte, error) {
	sig, err := s.key.SignUntil(msg, s.stop)
	return sig, named(err)
}

// named names the package in an error of a key that has not answered.
func named(err error) error {
	switch err {
	case keys.ErrSilent:
		return errSilent
	case keys.ErrOverdue:
		return errOverdue
	case keys.ErrGone:
		return errGone
	}
	return err
}

var (
	errSilent  = fmt.Errorf("proofgraph: %w", keys.ErrSilent)
	errOverdue = fmt.Errorf("proofgraph: %w", keys.ErrOverdue)
	errGone    = errors.New("proofgraph: the goroutine was ended from within Write, the signer or the store")
)

const (
	signaturePrefix = "— "
	maxSignatures   = 100       // both as in package note
	maxNote         = 1_000_000 // bytes
)

// ParseCheckpoint parses a signed checkpoint. It accepts a body of exactly three lines as a [Log]
// writes them, an empty line, and 1 to 100 signature lines. It verifies no signature.
func ParseCheckpoint(b []byte) (Checkpoint, []SignatureLine, error) {
	bad := func(what string) (Checkpoint, []SignatureLine, error) {
		return Checkpoint{}, nil, errors.New("proofgraph: checkpoint: " + what)
	}
	text, end, ok := bytes.Cut(b, []byte("\n\n"))
	lines := strings.Split(string(text), "\n")
	switch {
	case len(b) > maxNote:
		return bad("more than 1,000,000 bytes")
	case !ok:
		return bad("no empty line between body and signatures")
	case len(lines) != 3:
		return bad(strconv.Itoa(len(lines)) + " lines in the body, want 3")
	case !contracts.IsOrigin(lines[0]):
		return bad("line 1 is not an origin")
	}
	c := Checkpoint{Origin: lines[0], Note: bytes.Clone(b)}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || size > crypto.MaxInt || strconv.FormatUint(size, 10) != lines[1] {
		return bad("line 2 is not a number of entries")
	}
	c.Size = size
	root, err := crypto.DecodeBase64(nil, []byte(lines[2]))
	if err != nil || len(root) != len(c.Root) {
		return bad("line 3 is not the base64 of a hash")
	}
	c.Root = contracts.Digest(root)
	var signatures []SignatureLine
	for len(end) > 0 {
		line, rest, ok := bytes.Cut(end, []byte("\n"))
		s, valid := parseSignature(string(line))
		switch {
		case !ok:
			return bad("does not end with a line end")
		case !valid:
			return bad("malformed signature line")
		case len(signatures) == maxSignatures:
			return bad("more than 100 signatures")
		}
		signatures, end = append(signatures, s), rest
	}
	if signatures == nil {
		return bad("no signature")
	}
	return c, signatures, nil
}

func parseSignature(line string) (SignatureLine, bool) {
	line, dash := strings.CutPrefix(line, signaturePrefix)
	name, b64, _ := strings.Cut(line, " ")
	sig, err := crypto.DecodeBase64(nil, []byte(b64))
	illegal := func(r rune) bool { return r < 0x20 || r == '+' || unicode.IsSpace(r) } // in the name of a key
	if !dash || err != nil || len(sig) < 5 || name == "" || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, illegal) {
		return SignatureLine{}, false
	}
	return SignatureLine{name, binary.BigEndian.Uint32(sig), sig[4:]}, true
}
