package proofgraph

import (
	"bytes"
	"context"
	stdcrypto "crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func (w *world) checkpoint() Checkpoint {
	w.Helper()
	c, err := w.log.Checkpoint(context.Background())
	require.NoError(w, err)
	return c
}

func (w *world) logKey() crypto.PublicKey {
	w.Helper()
	pub, err := crypto.PublicOf(w.options.LogKey)
	require.NoError(w, err)
	return pub
}

// root returns tlog's root over the first n entries of the store.
func (w *world) root(n uint64) contracts.Digest {
	w.Helper()
	var ref reference
	i := uint64(0)
	for e, err := range w.memory.Entries(context.Background(), 0, n) {
		require.NoError(w, err)
		ref.add(w, i, e)
		i++
	}
	return ref.root(w, n)
}

func TestCheckpointIsANoteThatOthersVerify(t *testing.T) {
	t.Parallel()
	w := opened(t)
	for n := range 5 {
		c := w.checkpoint()
		verifier, err := note.NewVerifier(VerifierKey(origin, w.logKey()))
		require.NoError(t, err)
		opened, err := note.Open(c.Note, note.VerifierList(verifier))
		require.NoError(t, err)
		root := w.root(uint64(n) + 1)
		assert.Equal(t, fmt.Sprintf("%s\n%d\n%s\n", origin, n+1, crypto.AppendBase64(nil, root[:])), opened.Text,
			"body\n%swant\n", opened.Text)
		assert.True(t, c.Origin == origin && c.Size == uint64(n)+1 && c.Root == root, "%+v", c)
		kept, err := w.memory.Checkpoint(context.Background())
		assert.True(t, err == nil && bytes.Equal(kept, c.Note), "not stored: %v", err)
		got, lines, err := ParseCheckpoint(c.Note)
		assert.True(t, err == nil && len(lines) == 1 && got.SignedBy(lines[0], w.logKey()) && got.Root == c.Root &&
			got.Size == c.Size && got.Origin == c.Origin, "%+v %v %v", got, lines, err)
		kernel, _ := crypto.PublicOf(w.options.Key)
		assert.True(t, !got.SignedBy(lines[0], kernel) && !got.SignedBy(lines[0], nil), "verifies under another key")
		w.say("a")
	}
}

// A checkpoint contains the entries that are signed at the time of the call, though no goroutine
// waits for them.
func TestCheckpointFlushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := opened(t)
		arrived, release := gate(w.watch())
		w.open()
		first := w.place(w.log.Chain("a"))
		w.sign(first)
		go first.Wait()
		<-arrived // it is being written
		s := w.place(w.log.Chain("b"))
		w.sign(s)
		hole := w.place(w.log.Chain("hole"))
		behind := w.place(w.log.Chain("c"))
		w.sign(behind) // not in it: there is a hole before it
		done := make(chan Checkpoint)
		go func() {
			c, err := w.log.Checkpoint(context.Background())
			assert.NoError(t, err)
			done <- c
		}()
		synctest.Wait()
		release <- nil
		b := <-arrived
		assert.True(t, len(b.Entries) == 1 && b.Checkpoint == nil, "%d entries", len(b.Entries))
		release <- nil
		if b := <-arrived; len(b.Entries) != 0 || b.Checkpoint == nil || b.At != 3 {
			t.Errorf("at %d, %d entries", b.At, len(b.Entries))
		}
		release <- nil
		c := <-done
		assert.True(t, c.Size == 3 && c.Root == w.root(3), "%+v", c)
		void(hole, nil)
	})
}

func TestCheckpointsAmongWriters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spy := w.watch()
	w.open()
	var mu sync.Mutex
	var sizes []uint64
	spy.before = func(_ int, b Batch) error {
		if b.Checkpoint != nil {
			c, _, err := ParseCheckpoint(b.Checkpoint)
			assert.True(t, err == nil && c.Size <= b.At, "a checkpoint of %d entries at %d: %v", c.Size, b.At, err)
			mu.Lock()
			sizes = append(sizes, c.Size)
			mu.Unlock()
		}
		return nil
	}
	places := newHosts(w, 8)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 10 {
				c := w.checkpoint()
				assert.Equal(t, w.root(c.Size), c.Root, "another root")
			}
		})
	}
	places.run(8, 20, nil)
	all.Wait()
	assert.True(t, len(sizes) > 0 && len(sizes) <= 30 && !spy.overlap, "%v %v", len(sizes), spy.overlap)
	for i := range sizes[1:] {
		assert.True(t, sizes[i] < sizes[i+1], "an older checkpoint replaced a newer one, or one was stored twice")
	}
	w.reread()
	w.open()
}

// A log key that fails costs the checkpoint; the log goes on.
func TestLogKeyGoesWrong(t *testing.T) {
	t.Parallel()
	for name, how := range misbehaviours {
		w := newWorld(t)
		key := &remote{key: seedKey(t, 1), how: how}
		w.options.LogKey = key
		w.open()
		w.say("a")
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := w.log.Checkpoint(context.Background())
			assert.True(t, err != nil && c.Note == nil && !strings.Contains(err.Error(), "secret"), "%s: %v", name, err)
		}()
		<-done
		w.say("a")
		if c := w.checkpoint(); c.Size != 3 {
			t.Errorf("%s: then %+v", name, c)
		}
	}
}

func TestCheckpointThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		w := newWorld(t)
		spy := w.watch()
		w.open()
		way.do(spy, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := w.log.Checkpoint(context.Background())
			assert.True(t, err != nil && c.Note == nil, "%s: %v", way.name, err)
		}()
		<-done
		mustBeSealed(t, w, w.log.Chain("a"))
	}
}

func TestCheckpointHonoursItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	w.options.LogKey = signerFunc{w.options.LogKey, cancel}
	w.open()
	for range 2 { // it ends while the key signs; then it has ended before
		_, err := w.log.Checkpoint(ctx)
		assert.ErrorIs(t, err, context.Canceled)
	}
	w.log.checkpoints <- struct{}{} // another goroutine makes one
	ctx, cancel = context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := w.log.Checkpoint(ctx)
		done <- err
	}()
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
	<-w.log.checkpoints
	c, _ := w.memory.Checkpoint(context.Background())
	assert.Nil(t, c, "stored")
	w.checkpoint()
}

// A signerFunc calls a function before it signs.
type signerFunc struct {
	crypto.Signer
	before func()
}

func (s signerFunc) Sign(r io.Reader, msg []byte, opts stdcrypto.SignerOpts) ([]byte, error) {
	s.before()
	return s.Signer.Sign(r, msg, opts)
}

func TestParseCheckpointRefuses(t *testing.T) {
	t.Parallel()
	w := opened(t)
	good := string(w.checkpoint().Note)
	_, _, err := ParseCheckpoint([]byte(good))
	require.NoError(t, err)
	lines := strings.SplitAfter(good, "\n") // origin, size, root, "", signature
	line := lines[4]
	edit := func(i int, s string) string {
		return strings.Join(append(append([]string{}, lines[:i]...), append([]string{s}, lines[i+1:]...)...), "")
	}
	for name, bad := range map[string]string{
		"nothing":                          "",
		"no signature":                     strings.Join(lines[:4], ""),
		"no empty line":                    edit(3, ""),
		"two empty lines":                  edit(3, "\n\n"),
		"an extension line":                edit(2, lines[2]+"extension\n"),
		"two lines":                        edit(2, ""),
		"no origin":                        edit(0, "\n"),
		"an illegal origin":                edit(0, "a b\n"),
		"a leading zero":                   edit(1, "01\n"),
		"a sign":                           edit(1, "+1\n"),
		"a negative size":                  edit(1, "-1\n"),
		"a hex size":                       edit(1, "0x1\n"),
		"a size beyond 2^53-1":             edit(1, "9007199254740992\n"),
		"a size beyond 2^64":               edit(1, "18446744073709551617\n"),
		"no size":                          edit(1, "\n"),
		"a space":                          edit(1, "1 \n"),
		"a carriage return":                edit(1, "1\r\n"),
		"a root without padding":           edit(2, strings.TrimRight(lines[2], "=\n")+"\n"),
		"a root with spare bits":           edit(2, lines[2][:42]+string(lines[2][42]+1)+"=\n"),
		"a short root":                     edit(2, "AAAA\n"),
		"bytes before":                     " " + good,
		"bytes after":                      good + " ",
		"no line end":                      strings.TrimSuffix(good, "\n"),
		"an empty line after":              good + "\n",
		"a hyphen for the dash":            edit(4, "-"+strings.TrimPrefix(line, "—")),
		"a name with a plus":               edit(4, strings.Replace(line, origin, "a+b", 1)),
		"a name with a no-break space":     edit(4, strings.Replace(line, origin, "a\u00a0b", 1)),
		"a name with a control character":  edit(4, strings.Replace(line, origin, "a\x01b", 1)),
		"a name that is not UTF-8":         edit(4, strings.Replace(line, origin, "a\xffb", 1)),
		"no name":                          edit(4, strings.Replace(line, origin, "", 1)),
		"a signature without bytes":        edit(4, "— "+origin+" AAAAAA==\n"),
		"a signature that is not base64":   edit(4, "— "+origin+" AAAA*AAA\n"),
		"a signature without padding":      edit(4, strings.TrimRight(line, "=\n")+"\n"),
		"a signature and another word":     edit(4, strings.TrimSuffix(line, "\n")+" x\n"),
		"101 signatures":                   edit(4, strings.Repeat(line, 101)),
		"more than a million bytes":        edit(4, "— "+origin+" "+strings.Repeat("AAAA", 300_000)+"\n"),
		"body and signatures out of order": line + "\n" + strings.Join(lines[:3], ""),
	} {
		assert.NotEqual(t, good, bad, "%s: not spoilt", name)
		c, s, err := ParseCheckpoint([]byte(bad))
		assert.True(t, err != nil && c.Note == nil && s == nil, "%s: accepted: %+v %v", name, c, s)
	}
	for name, fine := range map[string]string{
		"100 signatures": edit(4, strings.Repeat(line, 100)),
		"a witness's":    good + "— witness.example/w1 " + strings.Repeat("AAAA", 10) + "\n",
		"an empty log":   edit(1, "0\n"),
	} {
		_, _, err := ParseCheckpoint([]byte(fine))
		assert.NoError(t, err, "%s", name)
	}
}

// If any bit is flipped, the checkpoint is refused, or its signature is, or both are another's.
func TestCheckpointMangled(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.say("a")
	good := w.checkpoint().Note
	signed := func(b []byte) bool {
		c, lines, err := ParseCheckpoint(b)
		return err == nil && c.SignedBy(lines[0], w.logKey())
	}
	require.True(t, signed(good), "the untouched one")
	for i := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		assert.False(t, signed(bad), "bit %d flipped: accepted\n%s", i, bad)
		assert.True(t, !signed(good[:i/8]), "cut at %d: accepted", i/8)
	}
}

// A line names its key by a name and a hash, which anyone can write. Only a signature makes it the
// key's.
func TestLineNamesItsKey(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.say("a")
	c, lines, err := ParseCheckpoint(w.checkpoint().Note)
	require.NoError(t, err)
	kernel, err := crypto.PublicOf(w.options.Key)
	require.NoError(t, err)
	good := lines[0]
	assert.True(t, c.Names(good, w.logKey()) && c.SignedBy(good, w.logKey()), "the key's own")
	assert.False(t, c.Names(good, kernel) || c.Names(good, nil), "another key's")
	forged := good
	forged.Signature = make([]byte, len(good.Signature))
	assert.True(t, c.Names(forged, w.logKey()) && !c.SignedBy(forged, w.logKey()), "of a changed signature")
	for _, other := range []SignatureLine{{good.Name + "2", good.KeyHash, good.Signature},
		{good.Name, good.KeyHash + 1, good.Signature}, {"", good.KeyHash, good.Signature}, {}} {
		assert.False(t, c.Names(other, w.logKey()) || c.SignedBy(other, w.logKey()), "%+v", other)
	}
	c.Origin += "2" // then the key has another hash, too
	assert.False(t, c.Names(good, w.logKey()), "in another log")
}

func TestVerifierKeyOfWhatIsNoKey(t *testing.T) {
	t.Parallel()
	assert.True(t, VerifierKey(origin, nil) == "" && VerifierKey(origin, make(crypto.PublicKey, 31)) == "",
		"a verifier key")
	var c Checkpoint
	assert.False(t, c.SignedBy(SignatureLine{}, nil), "signed")
}

// A checkpoint that is accepted is a note for package note too, and is encoded to the same bytes.
func FuzzParseCheckpoint(f *testing.F) {
	w := opened(f)
	f.Add(w.checkpoint().Note)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, lines, err := ParseCheckpoint(b)
		if err != nil {
			return
		}
		var unverified *note.UnverifiedNoteError
		_, err = note.Open(b, nil)
		require.ErrorAs(t, err, &unverified, "package note says")
		assert.True(t, unverified.Note.Text == string(c.body()) && bytes.Equal(c.Note, b), "another body")
		again := append(c.body(), '\n')
		for _, l := range lines {
			sig := append([]byte{byte(l.KeyHash >> 24), byte(l.KeyHash >> 16), byte(l.KeyHash >> 8), byte(l.KeyHash)},
				l.Signature...)
			again = fmt.Appendf(again, "— %s %s\n", l.Name, crypto.AppendBase64(nil, sig))
		}
		assert.True(t, bytes.Equal(again, b), "written again\n%s", again)
	})
}

// A checkpoint gets other lines, and never other contents; a note that is the same is not stored
// again.
func TestAnnotate(t *testing.T) {
	t.Parallel()
	w := opened(t)
	same := func(note []byte) ([]byte, error) { return note, nil }
	require.ErrorContains(t, w.log.Annotate(t.Context(), same), "the log has no checkpoint")
	w.say("s")
	c, err := w.log.Checkpoint(t.Context())
	require.NoError(t, err)
	line := append([]byte("— w.example "), crypto.AppendBase64(nil, make([]byte, 76))...)
	longer := slices.Concat(c.Note, line, []byte("\n"))
	require.NoError(t, w.log.Annotate(t.Context(), same))
	refuse := func(says string, next []byte, err error) {
		t.Helper()
		require.ErrorContains(t, w.log.Annotate(t.Context(), func(note []byte) ([]byte, error) {
			clear(note) // it is a copy
			return next, err
		}), says)
	}
	refuse("the lines of nobody", longer, errors.New("the lines of nobody"))
	refuse("no empty line", nil, nil)
	refuse("no signature", c.Note[:bytes.Index(c.Note, []byte("\n\n"))+2], nil)
	refuse("of another checkpoint", bytes.Replace(longer, []byte("\n2\n"), []byte("\n1\n"), 1), nil)
	refuse("of another checkpoint", bytes.Replace(longer, []byte(origin), []byte("example.test/lag"), 1), nil)
	stored, err := w.store.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(c.Note), string(stored))
	add := func(note []byte) ([]byte, error) { return longer, nil }
	require.NoError(t, w.log.Annotate(t.Context(), add))
	w.open()
	stored, err = w.store.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(longer), string(stored))
	again, err := w.log.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, c, again)
	stored, err = w.store.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(longer), string(stored), "the same checkpoint again removed lines")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.log.Annotate(ended, add), context.Canceled)
	w.end()
	require.ErrorIs(t, w.log.Annotate(t.Context(), same), ErrSealed)
}
