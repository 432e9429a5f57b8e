package witness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

const origin = "example.test/log"

func seedKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

// A slowLog is the entries of a log; its root and its proofs are computed from them as RFC 6962
// defines them, each time.
type slowLog []string

func (l slowLog) root() contracts.Digest {
	switch n := len(l); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256([]byte("\x00" + l[0]))
	default:
		k := split(n)
		left, right := l[:k].root(), l[k:].root()
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
}

// split returns the largest power of two below n.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

// proof returns the consistency proof from the first m entries, section 2.1.2.
func (l slowLog) proof(m int) []contracts.Digest {
	if m == 0 {
		return nil
	}
	return l.subproof(m, true)
}

func (l slowLog) subproof(m int, whole bool) []contracts.Digest {
	n := len(l)
	switch {
	case m == n && whole:
		return nil
	case m == n:
		return []contracts.Digest{l.root()}
	}
	k := split(n)
	if m <= k {
		return append(l[:k].subproof(m, whole), l[k:].root())
	}
	return append(l[k:].subproof(m-k, false), l[:k].root())
}

func (l slowLog) body() string {
	root := l.root()
	return fmt.Sprintf("%s\n%d\n%s\n", origin, len(l), base64.StdEncoding.EncodeToString(root[:]))
}

// signedBy returns the checkpoint with the lines of these keys, under the name of the log.
func (l slowLog) signedBy(t testing.TB, keys ...crypto.PrivateKey) []byte {
	t.Helper()
	b := l.body() + "\n"
	for _, k := range keys {
		b += logLine(t, l.body(), origin, k)
	}
	return []byte(b)
}

// logLine is the line of a log key, as package note has it.
func logLine(t testing.TB, body, name string, k crypto.PrivateKey) string {
	t.Helper()
	pub, err := crypto.PublicOf(k)
	require.NoError(t, err)
	v, err := note.NewVerifier(proofgraph.VerifierKey(name, pub))
	require.NoError(t, err)
	n, err := note.Sign(&note.Note{Text: body}, noteSigner{v, k})
	require.NoError(t, err)
	return strings.TrimPrefix(string(n), body+"\n")
}

type noteSigner struct {
	note.Verifier
	key crypto.PrivateKey
}

func (s noteSigner) Sign(msg []byte) ([]byte, error) { return crypto.Sign(s.key, msg) }

func entries(n int) slowLog {
	var l slowLog
	for i := range n {
		l = append(l, fmt.Sprintf("entry %d", i))
	}
	return l
}

// A memory is a State; hooks, if they are set, are called before it does anything.
type memory struct {
	mu                     sync.Mutex
	notes                  map[string][]byte
	beforeLatest, swapping func() error
	swapped                func() error // after a swap
	swaps                  int
}

func (m *memory) Latest(_ context.Context, origin string) ([]byte, error) {
	if m.beforeLatest != nil {
		if err := m.beforeLatest(); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.notes[origin], nil
}

func (m *memory) Swap(_ context.Context, origin string, was, now []byte) error {
	if m.swapping != nil {
		if err := m.swapping(); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if there := m.notes[origin]; !bytes.Equal(there, was) || (there == nil) != (was == nil) {
		return fmt.Errorf("wrapped: %w", ErrChanged)
	}
	if m.notes == nil {
		m.notes = map[string][]byte{}
	}
	m.notes[origin] = bytes.Clone(now)
	m.swaps++
	if m.swapped != nil {
		return m.swapped()
	}
	return nil
}

// A world is a witness that knows one log, of one key.
type world struct {
	testing.TB
	witness *Witness
	state   *memory
	logKey  crypto.PrivateKey
	now     time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, state: &memory{}, logKey: seedKey(t, 1), now: time.Unix(1790000000, 999_999_999)}
	pub, err := crypto.PublicOf(w.logKey)
	require.NoError(t, err)
	w.witness = &Witness{
		Name: "witness.example/w1",
		Key:  seedKey(t, 2),
		Logs: func(o string) []string {
			if o != origin {
				return nil
			}
			return []string{proofgraph.VerifierKey(origin, pub)}
		},
		State: w.state,
		Now:   func() time.Time { return w.now },
	}
	return w
}

// add asks for a line of a log that its key signed, with the right proof.
func (w *world) add(old int, l slowLog) ([]byte, error) {
	w.Helper()
	var proof []contracts.Digest
	if old <= len(l) {
		proof = l.proof(old)
	}
	return w.witness.Add(context.Background(), uint64(old), proof, l.signedBy(w, w.logKey))
}

func (w *world) mustAdd(old int, l slowLog) []byte {
	w.Helper()
	line, err := w.add(old, l)
	require.NoError(w, err)
	w.mustVerify(l, line)
	return line
}

// mustVerify verifies a line by the C2SP text alone, and returns its time.
func (w *world) mustVerify(l slowLog, line []byte) int64 {
	w.Helper()
	text, ok := strings.CutPrefix(string(line), "— "+w.witness.Name+" ")
	require.True(w, ok, "%q", line)
	text, ok = strings.CutSuffix(text, "\n")
	require.True(w, ok, "%q", line)
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	require.NoError(w, err)
	require.Len(w, raw, 4+8+64)
	pub, err := crypto.PublicOf(w.witness.Key)
	require.NoError(w, err)
	id := sha256.Sum256(append([]byte(w.witness.Name+"\n\x04"), pub...))
	require.Equal(w, id[:4], raw[:4])
	var at int64
	for _, b := range raw[4:12] {
		at = at<<8 | int64(b)
	}
	msg := fmt.Sprintf("cosignature/v1\ntime %d\n%s", at, l.body())
	require.True(w, crypto.Verify(pub, []byte(msg), raw[12:]), "the signature is not one of\n%s", msg)
	return at
}

// mustHold requires that the latest note of the state is that of the log, with these lines.
func (w *world) mustHold(l slowLog, lines ...string) {
	w.Helper()
	require.Equal(w, l.body()+"\n"+strings.Join(lines, ""), string(w.state.notes[origin]))
}
