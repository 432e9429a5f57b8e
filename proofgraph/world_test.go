package proofgraph

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

const origin = "example.test/log"

func seedKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

// A world is a log over a store in memory, with the wrappers of a test in between.
type world struct {
	testing.TB
	memory  *Memory
	store   Store
	options Options
	log     *Log
}

func newWorld(t testing.TB) *world {
	t.Helper()
	m := NewMemory()
	return &world{TB: t, memory: m, store: m, options: Options{Origin: origin, Key: seedKey(t, 1),
		LogKey: seedKey(t, 2),
		Trust:  []byte(`{"trust":"state"}`), Nonce: [16]byte{7}, Now: 1000}}
}

// opened is a world whose log is open.
func opened(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	w.end()
	l, err := Open(context.Background(), w.store, w.options, nil)
	require.NoError(w, err)
	w.log = l
}

// end ends the log, so that another can be opened over its store.
func (w *world) end() {
	if w.log != nil {
		w.log.Seal(errors.New("the process has ended"))
	}
}

func mustAppend(t testing.TB, s Store, b Batch) {
	t.Helper()
	require.NoError(t, s.Append(context.Background(), b))
}

func message() *contracts.Statement {
	return &contracts.Statement{Message: &contracts.Message{TextHash: crypto.Sum([]byte("hello"))}}
}

// says is a Write that returns a record, and keeps blobs.
func says(st *contracts.Statement, blobs ...[]byte) func(Place) (*contracts.Statement, error) {
	return func(p Place) (*contracts.Statement, error) {
		for _, b := range blobs {
			p.Keep(b)
		}
		return st, nil
	}
}

// sign makes the entry of a place that was taken before, and returns why it could not be made.
func sign(s *Slot, st *contracts.Statement, blobs ...[]byte) error {
	s.write(says(st, blobs...))
	if s.progress() == placed {
		return s.log.Err()
	}
	return nil
}

// void leaves a hole in a place that was taken before.
func void(s *Slot, cause error) {
	s.write(func(Place) (*contracts.Statement, error) { return nil, cause })
}

// place takes a place right after the chain's last entry, for the test to write later.
func (w *world) place(c *Chain, parents ...contracts.Digest) *Slot {
	w.Helper()
	s, err := w.log.take(&Draft{Chain: c, Time: max(c.Time(), w.options.Now), Parents: parents})
	require.NoError(w, err)
	return s
}

func (w *world) sign(s *Slot) {
	w.Helper()
	require.NoError(w, sign(s, message()))
}

// say makes a message durable.
func (w *world) say(session string, parents ...contracts.Digest) *Slot {
	w.Helper()
	s := w.place(w.log.Chain(session), parents...)
	w.sign(s)
	require.NoError(w, s.Wait())
	return s
}

// allow is an ALLOW as the place's entry has it.
func allow(h contracts.Header) *contracts.DecisionRecord {
	d := &contracts.DecisionRecord{ArgsHash: crypto.Sum([]byte("{}")), Condition: 8, EffectType: contracts.Read,
		Risk:    contracts.Low,
		Expires: h.Time + 1000, Reason: contracts.ReasonAllow, Rule: "P1:b:r", Tool: "t", Verdict: contracts.Allow}
	d.Seal(h.Session, h.Seq, crypto.Sum([]byte("inputs")))
	return d
}

func (w *world) size() uint64 {
	w.Helper()
	n, err := w.memory.Size(context.Background())
	require.NoError(w, err)
	return n
}

// A foreign is an entry as a program reads it that knows docs/FORMATS.md and not this library.
type foreign struct {
	hash      contracts.Digest
	Predicate struct {
		Key, Prev, Session, Time string
		Seq, Lamport             uint64
		Parents                  []string
	}
	PredicateType string
}

func readForeign(t testing.TB, e []byte, pub ed25519.PublicKey) (f foreign) {
	t.Helper()
	var envelope struct {
		Payload, PayloadType string
		Signatures           []struct{ Keyid, Sig string }
	}
	require.NoError(t, json.Unmarshal(e, &envelope))
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	require.NoError(t, err)
	sig, err := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	require.NoError(t, err)
	pae := crypto.AppendPAE(nil, "application/vnd.in-toto+json", payload)
	require.True(t, ed25519.Verify(pub, pae, sig), "a signature does not verify")
	require.NoError(t, json.Unmarshal(payload, &f))
	id := sha256.Sum256(pub)
	require.True(t, f.Predicate.Key == hex.EncodeToString(id[:]) && envelope.Signatures[0].Keyid == f.Predicate.Key,
		"another key's id")
	f.hash = contracts.Digest(tlog.RecordHash(e))
	return f
}

// reread checks the whole store, signatures and links, and returns the entries.
func (w *world) reread() []foreign {
	w.Helper()
	type end struct {
		seq  uint64
		hash string
		time string
	}
	pub, err := crypto.PublicOf(w.options.Key)
	require.NoError(w, err)
	chains, lamports := map[string]end{}, map[string]uint64{}
	var list []foreign
	for e, err := range w.memory.Entries(context.Background(), 0, w.size()) {
		require.NoError(w, err)
		f := readForeign(w, e, pub)
		p, i := f.Predicate, len(list)
		c, ok := chains[p.Session]
		switch {
		case i == 0:
			c = end{hash: hex.EncodeToString(make([]byte, 32))}
		case !ok:
			c = end{hash: list[0].hash.String()}
		}
		require.True(w, p.Seq == c.seq && p.Prev == c.hash && p.Time >= c.time,
			"entry %d does not follow in session %q: seq %d after %d, prev %s after %s", i, p.Session, p.Seq, c.seq,
			p.Prev, c.hash)
		require.True(w, slices.IsSorted(p.Parents) && !slices.Contains(p.Parents, p.Prev) &&
			len(slices.Compact(slices.Clone(p.Parents))) == len(p.Parents), "entry %d: parents %v", i, p.Parents)
		lamport := uint64(0)
		if i > 0 {
			for _, named := range append(p.Parents, p.Prev) {
				at, ok := lamports[named]
				require.True(w, ok, "entry %d names what does not stand before it", i)
				lamport = max(lamport, at+1)
			}
		}
		require.Equal(w, lamport, p.Lamport, "entry %d: lamport", i)
		chains[p.Session] = end{p.Seq + 1, f.hash.String(), p.Time}
		lamports[f.hash.String()] = lamport
		list = append(list, f)
	}
	return list
}

// A spy wraps the store. It counts appends, notices two at once, and lets a test decide how each
// ends.
type spy struct {
	Store
	before func(n int, b Batch) error // of append n, which counts from 0; an error and nothing is stored
	after  func(n int, b Batch) error // it was stored; an error is all that the log hears

	mu      sync.Mutex
	inside  int
	appends []int // entries in each
	overlap bool
}

func (s *spy) Append(ctx context.Context, b Batch) error {
	s.mu.Lock()
	n := len(s.appends)
	s.appends = append(s.appends, len(b.Entries))
	s.inside++
	s.overlap = s.overlap || s.inside > 1
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inside--
		s.mu.Unlock()
	}()
	if s.before != nil {
		if err := s.before(n, b); err != nil {
			return err
		}
	}
	if err := s.Store.Append(ctx, b); err != nil {
		return err
	}
	if s.after != nil {
		return s.after(n, b)
	}
	return nil
}

// watch puts a spy in front of the store.
func (w *world) watch() *spy {
	s := &spy{Store: w.store}
	w.store = s
	return s
}
