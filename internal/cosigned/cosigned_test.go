package cosigned

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const origin = "example.test/log"

func key(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	k, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	return k
}

func public(t testing.TB, name string) crypto.PublicKey {
	t.Helper()
	pub, err := crypto.PublicOf(key(t, name))
	require.NoError(t, err)
	return pub
}

func vkey(t testing.TB, name string) string {
	t.Helper()
	pub := append([]byte{4}, public(t, name)...)
	sum := crypto.Sum(append([]byte(name+"\n"), pub...))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], crypto.AppendBase64(nil, pub))
}

// line is the line of a witness over a note, at a time.
func line(t testing.TB, name string, note []byte, at uint64) string {
	t.Helper()
	body, _, _ := strings.Cut(string(note), "\n\n")
	msg := fmt.Sprintf("cosignature/v1\ntime %d\n%s\n", at, body)
	pub := append([]byte{4}, public(t, name)...)
	sum := crypto.Sum(append([]byte(name+"\n"), pub...))
	sig, err := crypto.Sign(key(t, name), []byte(msg))
	require.NoError(t, err)
	raw := append(binary.BigEndian.AppendUint64(nil, at), sig...)
	return string(cosign.AppendLine(nil, proofgraph.SignatureLine{Name: name, KeyHash: binary.BigEndian.Uint32(sum[:4]),
		Signature: raw}))
}

func with(note []byte, lines ...string) []byte {
	return append(slices.Clone(note), strings.Join(lines, "")...)
}

// without is the note with these lines alone.
func without(note []byte, lines ...string) []byte {
	body, _, _ := strings.Cut(string(note), "\n\n")
	return []byte(body + "\n\n" + strings.Join(lines, ""))
}

// A world is a log over a store, with the witnesses a, b and c, two of which are a quorum.
type world struct {
	*testing.T
	store *store
	log   *proofgraph.Log
	trust *registry.State
	by    *Log
}

// A store counts Appends, and may fail.
type store struct {
	proofgraph.Store
	mu      sync.Mutex
	appends int
	err     error
}

func (s *store) Append(ctx context.Context, b proofgraph.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.appends++; s.err != nil {
		return s.err
	}
	return s.Store.Append(ctx, b)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, store: &store{Store: proofgraph.NewMemory()}}
	var r *registry.Registry
	var err error
	w.trust, err = r.Initial(public(t, "kernel"), public(t, "log"))
	require.NoError(t, err)
	w.log = openLog(t, w.store, w.trust)
	w.by, err = New([]string{vkey(t, "a"), vkey(t, "b"), vkey(t, "c")}, 2)
	require.NoError(t, err)
	return w
}

func openLog(t *testing.T, s proofgraph.Store, trust *registry.State) *proofgraph.Log {
	t.Helper()
	l, err := proofgraph.Open(t.Context(), s, proofgraph.Options{Origin: origin, Key: key(t, "kernel"),
		LogKey: key(t, "log"), Trust: trust.Canonical(), Now: 1000}, nil)
	require.NoError(t, err)
	return l
}

// say appends an entry.
func (w *world) say() {
	w.Helper()
	c := w.log.Chain("s")
	s, err := w.log.Place(proofgraph.Draft{Chain: c, Time: 1000,
		Write: func(proofgraph.Place) (*contracts.Statement, error) {
			return &contracts.Statement{Message: &contracts.Message{TextHash: crypto.Sum(nil)}}, nil
		}})
	require.NoError(w, err)
	require.NoError(w, s.Wait())
}

func (w *world) checkpoint() []byte {
	w.Helper()
	w.say()
	c, err := w.log.Checkpoint(w.Context())
	require.NoError(w, err)
	return c.Note
}

func (w *world) add(note []byte) error { return w.by.Add(w.Context(), w.log, w.store, w.trust, note) }

func (w *world) stored() string {
	w.Helper()
	note, err := w.store.Checkpoint(w.Context())
	require.NoError(w, err)
	return string(note)
}

// Lines that verify are stored, in one order, the latest of each witness; and from a quorum on the
// size counts, in a process that begins later too.
func TestAdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	note := w.checkpoint()
	a7, a8, a9 := line(t, "a", note, 7), line(t, "a", note, 8), line(t, "a", note, 9)
	b7, c7, d7 := line(t, "b", note, 7), line(t, "c", note, 7), line(t, "d", note, 7)
	require.NoError(t, w.add(with(note, a8)))
	assert.Equal(t, string(with(note, a8)), w.stored())
	assert.Zero(t, w.by.Size(), "one is no quorum")
	require.NoError(t, w.add(without(note, d7, c7, a7)), "without a line of the log, with one of a stranger, an older one")
	assert.Equal(t, string(with(note, a8, c7)), w.stored())
	assert.Equal(t, uint64(2), w.by.Size())
	appends := w.store.appends
	require.NoError(t, w.add(with(note, a7, c7)))
	require.NoError(t, w.add([]byte(w.stored())))
	assert.Equal(t, appends, w.store.appends, "there was nothing to add")
	require.NoError(t, w.add(without(note, b7, a7, a9, a8)))
	assert.Equal(t, string(with(note, a9, b7, c7)), w.stored())

	w.log.Seal(errors.New("the process ends"))
	w.log = openLog(t, w.store, w.trust)
	later, err := New([]string{vkey(t, "c"), vkey(t, "b")}, 2)
	require.NoError(t, err)
	require.NoError(t, later.Stored(t.Context(), w.store))
	assert.Equal(t, uint64(2), later.Size())
	three, err := New([]string{vkey(t, "c"), vkey(t, "b"), vkey(t, "d")}, 3)
	require.NoError(t, err)
	require.NoError(t, three.Stored(t.Context(), w.store))
	assert.Zero(t, three.Size())

	w.by = three
	require.NoError(t, w.add(without(note, d7)))
	assert.Equal(t, string(with(note, c7, b7, d7)), w.stored(), "a is no witness any more")
	assert.Equal(t, uint64(2), three.Size())

	next := w.checkpoint()
	assert.Equal(t, string(next), w.stored(), "a new checkpoint has its own lines")
	assert.Equal(t, uint64(2), three.Size())
	require.NoError(t, w.add(with(next, line(t, "b", next, 1), line(t, "c", next, 1), line(t, "d", next, 1))))
	assert.Equal(t, uint64(3), three.Size())
}

// What is not a cosignature of the latest checkpoint leaves it as it is, and does not count.
func TestNothingElseIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.checkpoint()
	note := w.checkpoint()
	lines := strings.Split(string(note), "\n")
	edited := func(n int, text string) []byte {
		l := slices.Clone(lines)
		l[n] = text
		return []byte(strings.Join(l, "\n"))
	}
	both := func(note []byte) []byte { return with(note, line(t, "a", note, 7), line(t, "b", note, 7)) }
	otherRoot, otherLog := edited(2, string(crypto.AppendBase64(nil, make([]byte, 32)))), edited(0, "example.test/other")
	swapped := func(name, as string) string {
		return strings.Replace(line(t, name, note, 7), "— "+name, "— "+as, 1)
	}
	bit := []byte(line(t, "a", note, 7))
	bit[40] ^= 2
	signedBy := func(k string, note []byte) []byte {
		return both(without(note, signedLine(t, k, note)))
	}
	many := note
	for i := range 200 {
		many = with(many, line(t, "a", note, uint64(i+1)))
	}
	before := w.stored()
	for what, x := range map[string]struct {
		note []byte
		says string
	}{
		"nothing":              {nil, "no empty line between"},
		"no note":              {[]byte("hello"), "no empty line between"},
		"no line of a witness": {note, "no line of Options.Checkpoint.Witnesses verifies"},
		"lines of others":      {with(note, line(t, "d", note, 7), line(t, "e", note, 7)), "no line of"},
		"under another name":   {with(note, swapped("d", "a"), swapped("a", "b")), "no line of"},
		"another bit":          {with(note, string(bit)), "no line of"},
		"of the first":         {with(note, line(t, "a", first, 7)), "no line of"},
		"a time of 0":          {with(note, line(t, "a", note, 0)), "no line of"},
		"a time above all":     {with(note, line(t, "a", note, 1<<63)), "no line of"},
		"a wrong root":         {signedBy("stranger", otherRoot), "not signed by a log key"},
		"a signed wrong root":  {signedBy("log", otherRoot), "the first 3 entries of the log have another root"},
		"of another log":       {signedBy("log", otherLog), "a checkpoint of another log"},
		"of more entries":      {signedBy("log", edited(1, "4")), "a checkpoint of 4 entries, and the latest one is of 3"},
		"of too many":          {signedBy("log", edited(1, "9007199254740991")), "and the latest one is of 3"},
		"older, unsigned":      {both(without(first, line(t, "c", first, 7))), "not signed by a log key"},
		"older, wrong root": {signedBy("log", []byte(origin+"\n2\n"+lines[2]+"\n\n")),
			"the first 2 entries of the log have another root"},
		"200 lines": {many, "more than 100 signatures"},
	} {
		err := w.add(x.note)
		require.ErrorContains(t, err, x.says, what)
		require.NotErrorIs(t, err, ErrOlder, what)
		require.Equal(t, before, w.stored(), what)
		require.Zero(t, w.by.Size(), what)
	}
	require.NoError(t, w.log.Err())
	require.Equal(t, string(note), before)
}

// signedLine is the line of a log key, which has signed the body of a note.
func signedLine(t testing.TB, name string, note []byte) string {
	t.Helper()
	body, _, _ := strings.Cut(string(note), "\n\n")
	first, _, _ := strings.Cut(body, "\n")
	sig, err := crypto.Sign(key(t, name), []byte(body+"\n"))
	require.NoError(t, err)
	pub := append([]byte{1}, public(t, name)...)
	sum := crypto.Sum(append([]byte(first+"\n"), pub...))
	return string(cosign.AppendLine(nil, proofgraph.SignatureLine{Name: first,
		KeyHash: binary.BigEndian.Uint32(sum[:4]), Signature: sig}))
}

// An earlier checkpoint of the log is ErrOlder. Nothing of it is stored, and a quorum counts.
func TestOlder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.checkpoint()
	second := w.checkpoint()
	third := w.checkpoint()
	a, b := line(t, "a", first, 7), line(t, "b", first, 7)
	require.ErrorIs(t, w.add(with(first, a)), ErrOlder)
	require.ErrorIs(t, w.add(with(first, a, a, line(t, "d", first, 7))), ErrOlder)
	assert.Zero(t, w.by.Size())
	require.ErrorIs(t, w.add(with(first, a, b)), ErrOlder)
	assert.Equal(t, uint64(2), w.by.Size())
	require.ErrorIs(t, w.add(with(second, line(t, "c", second, 1), line(t, "b", second, 1))), ErrOlder)
	assert.Equal(t, uint64(3), w.by.Size())
	require.ErrorIs(t, w.add(with(first, a, b)), ErrOlder)
	assert.Equal(t, uint64(3), w.by.Size(), "it does not go back")
	assert.Equal(t, string(third), w.stored())
	require.NoError(t, w.log.Err())
}

// A stored checkpoint never has more than 16 lines, whatever was cosigned.
func TestSixteenLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	note := w.checkpoint()
	var vkeys []string
	cosigned := note
	for i := range 30 {
		name := fmt.Sprint("w", i)
		vkeys = append(vkeys, vkey(t, name))
		cosigned = with(cosigned, line(t, name, note, 7))
	}
	var err error
	w.by, err = New(vkeys, 15)
	require.NoError(t, err)
	require.NoError(t, w.add(cosigned))
	c, lines, err := proofgraph.ParseCheckpoint([]byte(w.stored()))
	require.NoError(t, err)
	require.Len(t, lines, 16)
	assert.True(t, c.SignedBy(lines[0], public(t, "log")))
	assert.Equal(t, "w0", lines[1].Name)
	assert.Equal(t, uint64(2), w.by.Size())
	w.by.size.Store(0)
	require.NoError(t, w.by.Stored(t.Context(), w.store))
	assert.Equal(t, uint64(2), w.by.Size(), "the quorum is stored")
	_, err = New(vkeys, 16)
	require.ErrorContains(t, err, "Quorum: 16, and a stored checkpoint has room for 15 cosignatures")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	a, b := vkey(t, "a"), vkey(t, "b")
	for says, x := range map[string]struct {
		vkeys  []string
		quorum int
	}{
		"Quorum: given without Witnesses":       {nil, 1},
		"Quorum: 0 of 2 witnesses":              {[]string{a, b}, 0},
		"Quorum: 3 of 2 witnesses":              {[]string{a, b}, 3},
		"Quorum: -1 of 1 witnesses":             {[]string{a}, -1},
		"Witnesses: witness 2: it has the name": {[]string{a, a}, 1},
		"Witnesses: witness 1: not a verifier":  {[]string{"a"}, 1},
	} {
		_, err := New(x.vkeys, x.quorum)
		require.ErrorContains(t, err, says)
	}
	none, err := New(nil, 0)
	require.NoError(t, err)
	w := newWorld(t)
	note := w.checkpoint()
	require.NoError(t, none.Stored(t.Context(), w.store))
	assert.Zero(t, none.Size())
	w.by = none
	require.ErrorContains(t, w.add(with(note, line(t, "a", note, 7))), "Options.Checkpoint has no Witnesses")
}

// A log without a checkpoint, one that is sealed, a context that ended, a store that fails.
func TestAddFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := newWorld(t)
	note := other.checkpoint()
	require.ErrorContains(t, w.add(with(note, line(t, "a", note, 7))), "the log has no checkpoint")
	note = w.checkpoint()
	good := with(note, line(t, "a", note, 7), line(t, "b", note, 7))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.by.Add(ended, w.log, w.store, w.trust, good), context.Canceled)
	require.NoError(t, w.log.Err())
	w.store.err = errors.New("the disk is gone")
	require.ErrorIs(t, w.add(good), w.store.err)
	require.ErrorIs(t, w.log.Err(), proofgraph.ErrSealed)
	require.Zero(t, w.by.Size(), "nobody knows whether it is stored")
	w.store.err = nil
	require.ErrorIs(t, w.add(good), proofgraph.ErrSealed)
	require.Equal(t, string(note), w.stored())

	w = newWorld(t)
	note = w.checkpoint()
	w.checkpoint()
	err := w.by.Add(t.Context(), w.log, panicking{w.store}, w.trust, with(note, line(t, "a", note, 7)))
	require.ErrorContains(t, err, "panicked")
}

type panicking struct{ proofgraph.Store }

func (panicking) Size(context.Context) (uint64, error) { panic("the store") }

// While checkpoints are made, a note is added to the one that it is of, or is older: never does a
// checkpoint get lines of another, and never does an older one take the place of a later.
func TestAddWhileCheckpointsAreMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 200
	notes := make(chan []byte, n)
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for note := range notes {
				for _, name := range []string{"a", "b"} {
					if err := w.add(with(note, line(t, name, note, 7))); err != nil && !errors.Is(err, ErrOlder) {
						t.Error(err)
					}
				}
			}
		})
	}
	last := uint64(0)
	for range n {
		notes <- w.checkpoint()
		c, lines, err := proofgraph.ParseCheckpoint([]byte(w.stored()))
		require.NoError(t, err)
		require.GreaterOrEqual(t, c.Size, last)
		last = c.Size
		require.True(t, c.SignedBy(lines[0], public(t, "log")))
		for _, line := range lines[1:] {
			require.True(t, slices.ContainsFunc(w.by.by, func(b cosign.Witness) bool { _, ok := b.Verify(c, line); return ok }))
		}
	}
	close(notes)
	callers.Wait()
	require.NoError(t, w.log.Err())
	require.Equal(t, last, w.by.Size())
	_, lines, err := proofgraph.ParseCheckpoint([]byte(w.stored()))
	require.NoError(t, err)
	require.Len(t, lines, 3)
}
