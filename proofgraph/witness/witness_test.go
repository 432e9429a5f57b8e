package witness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

func TestAdd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.mustAdd(0, entries(3))
	w.mustHold(entries(3), logLine(t, entries(3).body(), origin, w.logKey), string(line))
	require.Equal(t, int64(1790000000), w.mustVerify(entries(3), line), "whole seconds")
	w.now = w.now.Add(time.Minute)
	line = w.mustAdd(3, entries(20))
	require.Equal(t, int64(1790000060), w.mustVerify(entries(20), line))
	w.mustHold(entries(20), logLine(t, entries(20).body(), origin, w.logKey), string(line))
}

func TestSameSizeNewTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, n := range []int{0, 7} {
		first := w.mustAdd(0, entries(n))
		if n == 0 {
			first = w.mustAdd(0, entries(n)) // size 0 is both none and this one
		}
		w.now = w.now.Add(time.Hour)
		second := w.mustAdd(n, entries(n))
		require.Equal(t, int64(3600), w.mustVerify(entries(n), second)-w.mustVerify(entries(n), first))
		w.mustHold(entries(n), logLine(t, entries(n).body(), origin, w.logKey), string(second))
	}
}

// TestRefusals: each refusal, and the one that comes first if there are several.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustAdd(0, entries(5))
	was := string(w.state.notes[origin])
	fork := append(entries(4), "another", "more", "and more")
	good, stranger := entries(9), seedKey(t, 9)
	signed := good.signedBy(t, w.logKey)
	empty := "another root\n" // of no entries
	empty = strings.Replace(fork[:0].body(), fork[:0].body()[len(origin)+3:], fork[:1].body()[len(origin)+3:], 1)
	forbidden := strings.Replace(string(signed), "\n9\n", "\n10\n", 1)
	conflict := func(size uint64) error { return &Conflict{size} }
	for name, c := range map[string]struct {
		old   uint64
		proof []contracts.Digest
		note  []byte
		want  error
	}{
		"no checkpoint, all else wrong": {99, good.proof(2), []byte("x" + string(signed[1:])[:30]), ErrBadRequest},
		"unknown log, all else wrong":   {99, good.proof(2), []byte("x" + forbidden), ErrUnknownLog},
		"not signed, all else wrong":    {99, good.proof(2), []byte(forbidden), ErrForbidden},
		"by a stranger":                 {5, good.proof(5), good.signedBy(t, stranger), ErrForbidden},
		"old above the size":            {10, good.proof(5), signed, ErrBadRequest},
		"old above the latest":          {6, good.proof(6), signed, conflict(5)},
		"old below the latest":          {4, good.proof(4), signed, conflict(5)},
		"old 0":                         {0, nil, signed, conflict(5)},
		"old is the size, not latest":   {9, nil, signed, conflict(5)},
		"a smaller checkpoint":          {3, nil, entries(3).signedBy(t, w.logKey), conflict(5)},
		"conflict before the proof":     {4, good.proof(2), signed, conflict(5)},
		"no proof":                      {5, nil, signed, ErrUnprocessable},
		"proof of another size":         {5, good.proof(4), signed, ErrUnprocessable},
		"proof of a fork":               {5, fork.proof(5), fork.signedBy(t, w.logKey), ErrUnprocessable},
		"same size, another root":       {5, nil, fork[:5].signedBy(t, w.logKey), ErrUnprocessable},
		"same size, a proof":            {5, good.proof(5), entries(5).signedBy(t, w.logKey), ErrUnprocessable},
		"same size, root of a fork twice": {5, []contracts.Digest{fork[:5].root()}, fork[:5].signedBy(t, w.logKey),
			ErrUnprocessable},
		"proof with one hash more": {5, append(good.proof(5), good.root()), signed, ErrUnprocessable},
		"proof of a million hashes": {5, slices.Repeat(good.proof(5), 1_000_000/len(good.proof(5))), signed,
			ErrUnprocessable},
	} {
		line, err := w.witness.Add(t.Context(), c.old, c.proof, c.note)
		assert.Nil(t, line, name)
		if want := (*Conflict)(nil); errors.As(c.want, &want) {
			var got *Conflict
			assert.True(t, errors.As(err, &got) && *got == *want, "%s: %v", name, err)
		} else {
			assert.ErrorIs(t, err, c.want, name)
		}
		for _, other := range []error{ErrBadRequest, ErrUnknownLog, ErrForbidden, ErrUnprocessable} {
			assert.Equal(t, other == c.want, errors.Is(err, other), "%s: %v", name, err)
		}
		require.Equal(t, was, string(w.state.notes[origin]), name)
	}
	w.mustAdd(5, good)

	fresh := newWorld(t)
	for name, c := range map[string]struct {
		old   uint64
		proof []contracts.Digest
		note  string
		want  error
	}{
		"the empty log with a root":      {0, nil, empty + "\n" + logLine(t, empty, origin, w.logKey), ErrUnprocessable},
		"the first, with a proof":        {0, good.proof(5), string(signed), ErrUnprocessable},
		"the empty log, with a proof":    {0, good.proof(5), string(entries(0).signedBy(t, w.logKey)), ErrUnprocessable},
		"the first, with an old size":    {5, good.proof(5), string(signed), conflict(0)},
		"the first, old size is its own": {9, nil, string(signed), conflict(0)},
	} {
		_, err := fresh.witness.Add(t.Context(), c.old, c.proof, []byte(c.note))
		var got *Conflict
		assert.True(t, errors.Is(err, c.want) || errors.As(err, &got) && got.Error() == c.want.Error(), "%s: %v", name, err)
		assert.Nil(t, fresh.state.notes[origin], name)
	}
}

// TestModel: random requests of random logs and their forks, right ones and wrong ones, are
// answered as the definition says: the entries are there, so what extends what is known.
func TestModel(t *testing.T) {
	t.Parallel()
	logs, requests := 60, 60
	if testing.Short() || race.Enabled {
		logs = 12
	}
	seen := map[string]int{}
	for seed := range logs {
		r := rand.New(rand.NewPCG(uint64(seed), 18))
		w := newWorld(t)
		trunk := entries(1 + r.IntN(70))
		at := r.IntN(len(trunk))
		fork := append(slices.Clone(trunk[:at]), "another")
		for range r.IntN(40) {
			fork = append(fork, fmt.Sprint("fork ", r.IntN(10)))
		}
		var latest slowLog // of the model
		for range requests {
			l := trunk
			if r.IntN(4) == 0 {
				l = fork
			}
			l = l[:r.IntN(len(l)+1)]
			old := len(latest)
			if r.IntN(4) == 0 {
				old = r.IntN(len(l) + 3)
			}
			var proof []contracts.Digest
			if old <= len(l) {
				proof = l.proof(old)
			}
			right := true
			switch r.IntN(8) {
			case 0:
				if len(proof) > 0 {
					i := r.IntN(len(proof))
					proof = slices.Clone(proof)
					proof[i][r.IntN(32)] ^= 1 << r.IntN(8)
					right = false
				}
			case 1:
				i := r.IntN(len(proof) + 1)
				proof = slices.Insert(slices.Clone(proof), i, trunk.root())
				right = false
			case 2:
				if len(proof) > 0 {
					i := r.IntN(len(proof))
					proof = slices.Delete(slices.Clone(proof), i, i+1)
					right = false
				}
			}
			want := "signed"
			switch {
			case old > len(l):
				want = ErrBadRequest.Error()
			case old != len(latest):
				want = (&Conflict{uint64(len(latest))}).Error()
			case !right || !slices.Equal(latest, l[:old]):
				want = ErrUnprocessable.Error()
			}
			line, err := w.witness.Add(t.Context(), uint64(old), proof, l.signedBy(t, w.logKey))
			if want != "signed" {
				require.True(t, err != nil && strings.HasPrefix(err.Error(), want) && line == nil,
					"log %d, %d to %d: %v, want %s", seed, old, len(l), err, want)
			} else {
				require.NoError(t, err, "log %d, %d to %d", seed, old, len(l))
				w.mustVerify(l, line)
				latest = l
			}
			seen[strings.TrimRight(want, "0123456789")]++
		}
	}
	require.Len(t, seen, 4, "%v", seen)
	for kind, n := range seen {
		assert.Greater(t, n, logs/2, kind)
	}
}

// TestLinesOfTheLog: those that verify are kept, once a key, in their order; others are passed
// over.
func TestLinesOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second, stranger := seedKey(t, 3), seedKey(t, 4)
	var vkeys []string
	for name, k := range map[string]crypto.PrivateKey{origin: w.logKey, "log.example/operator": second} {
		pub, err := crypto.PublicOf(k)
		require.NoError(t, err)
		vkeys = append(vkeys, proofgraph.VerifierKey(name, pub))
	}
	w.witness.Logs = func(string) []string { return vkeys }
	body := entries(4).body()
	a, b := logLine(t, body, origin, w.logKey), logLine(t, body, "log.example/operator", second)
	torn := strings.Replace(logLine(t, entries(5).body(), origin, w.logKey), "\n", "\n", 1) // of another body
	text := body + "\n" + torn + logLine(t, body, origin, stranger) + b + a + a + b +
		logLine(t, body, "log.example/operator", w.logKey) + logLine(t, body, origin, second)
	line, err := w.witness.Add(t.Context(), 0, nil, []byte(text))
	require.NoError(t, err)
	w.mustHold(entries(4), b, a, string(line))

	// A note with a hundred lines of known keys must leave a place for the witness.
	vkeys, text = nil, body+"\n"
	for i := range 100 {
		k := seedKey(t, byte(100+i))
		pub, err := crypto.PublicOf(k)
		require.NoError(t, err)
		vkeys = append(vkeys, proofgraph.VerifierKey(origin, pub))
		text += logLine(t, body, origin, k)
	}
	_, err = w.witness.Add(t.Context(), 4, nil, []byte(text))
	require.NoError(t, err)
	_, lines, err := proofgraph.ParseCheckpoint(w.state.notes[origin])
	require.NoError(t, err)
	require.Len(t, lines, 100)
	require.Equal(t, w.witness.Name, lines[99].Name)
}

func TestHostileNotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := entries(6)
	body := l.body()
	good := string(l.signedBy(t, w.logKey))
	line := strings.TrimPrefix(good, body+"\n")
	extended := body + "extension\n"
	for name, c := range map[string]struct {
		note string
		want error
	}{
		"nothing":            {"", ErrBadRequest},
		"an extension line":  {extended + "\n" + logLine(t, extended, origin, w.logKey), ErrBadRequest},
		"no line end":        {strings.TrimSuffix(good, "\n"), ErrBadRequest},
		"10 MB of lines":     {good + strings.Repeat(line, 10<<20/len(line)), ErrBadRequest},
		"10 MB of zeros":     {strings.Repeat("\x00", 10<<20), ErrBadRequest},
		"10 MB of line ends": {strings.Repeat("\n", 10<<20), ErrBadRequest},
		"101 lines":          {good + strings.Repeat(line, 100), ErrBadRequest},
		"carriage returns":   {strings.ReplaceAll(good, "\n", "\r\n"), ErrBadRequest},
		"a size that is -1":  {strings.Replace(good, "\n6\n", "\n-1\n", 1), ErrBadRequest},
		"a size above 2^53":  {strings.Replace(good, "\n6\n", "\n9007199254740993\n", 1), ErrBadRequest},
		"another origin":     {"x" + good, ErrUnknownLog},
		"an origin in capitals": {strings.ToUpper(origin) + strings.TrimPrefix(good, origin),
			ErrUnknownLog},
		"another size":        {strings.Replace(good, "\n6\n", "\n7\n", 1), ErrForbidden},
		"another key":         {string(l.signedBy(t, seedKey(t, 9))), ErrForbidden},
		"another key's name":  {body + "\n" + logLine(t, body, "another.name", w.logKey), ErrForbidden},
		"the witness's key":   {body + "\n" + logLine(t, body, origin, seedKey(t, 2)), ErrForbidden},
		"two notes":           {good + good, ErrBadRequest},
		"a line that is torn": {body + "\n" + line[:len(line)-3] + "\n", ErrBadRequest},
		"half a signature":    {body + "\n" + line[:len(line)-41] + "\n", ErrForbidden},
	} {
		got, err := w.witness.Add(t.Context(), 0, nil, []byte(c.note))
		assert.True(t, got == nil && errors.Is(err, c.want), "%s: %q, %v", name, got, err)
		assert.Less(t, len(fmt.Sprint(err)), 200, name)
	}
	for i := range good { // each byte cut off or changed
		_, err := w.witness.Add(t.Context(), 0, nil, []byte(good[:i]))
		require.ErrorIs(t, err, ErrBadRequest, "cut at %d", i)
		bad := []byte(good)
		bad[i] ^= 1
		_, err = w.witness.Add(t.Context(), 0, nil, bad)
		require.True(t, errors.Is(err, ErrBadRequest) || errors.Is(err, ErrUnknownLog) || errors.Is(err, ErrForbidden),
			"byte %d: %v", i, err)
	}
	require.Zero(t, w.state.swaps)
	w.mustAdd(0, l)
}

// TestMade: a witness that is not as it was meant to be signs nothing, and refuses nobody.
func TestMade(t *testing.T) {
	t.Parallel()
	low := "example.test/log+" // the identity: any signature verifies under such a key
	for name, spoil := range map[string]func(w *world){
		"no name":            func(w *world) { w.witness.Name = "" },
		"a name with a plus": func(w *world) { w.witness.Name = "a+b" },
		"a name with a line": func(w *world) { w.witness.Name = "a\nb" },
		"a long name":        func(w *world) { w.witness.Name = strings.Repeat("a", 256) },
		"no key":             func(w *world) { w.witness.Key = nil },
		"the zero key":       func(w *world) { w.witness.Key = crypto.PrivateKey{} },
		"no logs":            func(w *world) { w.witness.Logs = nil },
		"no state":           func(w *world) { w.witness.State = nil },
		"Logs panics":        func(w *world) { w.witness.Logs = func(string) []string { panic("secret") } },
		"a key that is none": func(w *world) { w.witness.Logs = func(string) []string { return []string{"secret"} } },
		"no key of the log": func(w *world) {
			w.witness.Logs = func(string) []string { return []string{low + "00000000+AQ=="} }
		},
		"a point of low order": func(w *world) {
			point := append([]byte{1}, make([]byte, 31)...)
			w.witness.Logs = func(string) []string { return []string{proofgraph.VerifierKey(origin, point)} }
		},
		"a witness's key for a log's": func(w *world) {
			vkey, err := newWorld(t).witness.VerifierKey()
			require.NoError(t, err)
			w.witness.Logs = func(string) []string { return []string{vkey} }
		},
		"a clock in 1970":    func(w *world) { w.now = time.Unix(0, 999_999_999) },
		"a clock in 1969":    func(w *world) { w.now = time.Unix(-1, 0) },
		"the zero time":      func(w *world) { w.now = time.Time{} },
		"the year 10000":     func(w *world) { w.now = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"the clock panics":   func(w *world) { w.witness.Now = func() time.Time { panic("secret") } },
		"the state panics":   func(w *world) { w.state.beforeLatest = func() error { panic("secret") } },
		"the state fails":    func(w *world) { w.state.beforeLatest = func() error { return errDisk } },
		"the swap panics":    func(w *world) { w.state.swapping = func() error { panic("secret") } },
		"the swap fails":     func(w *world) { w.state.swapping = func() error { return errDisk } },
		"the state is empty": func(w *world) { w.state.notes = map[string][]byte{origin: {}} },
		"the state is torn": func(w *world) {
			b := entries(2).signedBy(t, w.logKey)
			w.state.notes = map[string][]byte{origin: b[:len(b)/2]}
		},
		"the state is of another log": func(w *world) {
			w.state.notes = map[string][]byte{origin: []byte("x" + string(entries(2).signedBy(t, w.logKey)))}
		},
	} {
		w := newWorld(t)
		spoil(w)
		was := string(w.state.notes[origin])
		line, err := w.add(0, entries(2))
		require.True(t, err != nil && line == nil, "%s: %q", name, line)
		for _, refusal := range []error{ErrBadRequest, ErrUnknownLog, ErrForbidden, ErrUnprocessable} {
			assert.NotErrorIs(t, err, refusal, name)
		}
		var conflict *Conflict
		assert.False(t, errors.As(err, &conflict), "%s: %v", name, err)
		assert.NotContains(t, err.Error(), "secret", name)
		assert.Equal(t, was, string(w.state.notes[origin]), name)
	}
}

var errDisk = errors.New("the disk is gone")

func TestContextEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.state.swapped = func() error { cancel(); return nil }
	line, err := w.witness.Add(ctx, 0, nil, entries(1).signedBy(t, w.logKey))
	require.NoError(t, err, "it is swapped in")
	w.mustVerify(entries(1), line)
	_, err = w.witness.Add(ctx, 1, nil, entries(1).signedBy(t, w.logKey))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, w.state.swaps)
}

// TestVerifiersAgree: what verifies packs reads the key of a witness, and its lines in the note of
// the state; and of no other checkpoint.
func TestVerifiersAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustAdd(0, entries(3))
	vkey, err := w.witness.VerifierKey()
	require.NoError(t, err)
	ours, err := cosign.Parse([]string{vkey})
	require.NoError(t, err)
	c, lines, err := proofgraph.ParseCheckpoint(w.state.notes[origin])
	require.NoError(t, err)
	at, ok := ours[0].Verify(c, lines[1])
	require.True(t, ok && at == 1790000000, "%d", at)
	_, ok = ours[0].Verify(c, lines[0])
	require.False(t, ok, "the line of the log")
	other, _, err := proofgraph.ParseCheckpoint(entries(4).signedBy(t, w.logKey))
	require.NoError(t, err)
	_, ok = ours[0].Verify(other, lines[1])
	require.False(t, ok, "another checkpoint")
}

func TestVerifierKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vkey, err := w.witness.VerifierKey()
	require.NoError(t, err)
	name, rest, _ := strings.Cut(vkey, "+")
	hash, b64, _ := strings.Cut(rest, "+")
	pub, err := crypto.PublicOf(w.witness.Key)
	require.NoError(t, err)
	require.Equal(t, w.witness.Name, name)
	raw, err := crypto.DecodeBase64(nil, []byte(b64))
	require.NoError(t, err)
	require.Equal(t, append([]byte{4}, pub...), raw)
	sum := crypto.Sum(append([]byte(name+"\n"), raw...)).String()
	require.Equal(t, sum[:8], hash)
	_, err = new(Witness).VerifierKey()
	require.Error(t, err)
}
