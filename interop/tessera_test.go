//go:build unix

package interop

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	fmtlog "github.com/transparency-dev/formats/log"
	fmtnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// An overheard is our witness over HTTP. Its answers to requests for cosignatures are heard by
// their status.
type overheard struct {
	http.Handler
	heard chan int
}

func (w *overheard) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s := &statusWriter{ResponseWriter: rw}
	w.Handler.ServeHTTP(s, r)
	if r.Method == http.MethodPost {
		select {
		case w.heard <- s.status:
		default: // nobody listens any more
		}
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// hears waits for an answer with that status, and returns those before it.
func (w *overheard) hears(t *testing.T, status int) (before []int) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case s := <-w.heard:
			if s == status {
				return before
			}
			require.NotEqual(t, http.StatusOK, s, "it was cosigned")
			before = append(before, s)
		case <-late:
			t.Fatalf("no answer %d, but %v", status, before)
		}
	}
}

// A tesseraLog is a log of Tessera in a directory. It publishes no checkpoint that its witnesses
// have not cosigned.
type tesseraLog struct {
	*testing.T
	dir   string
	add   tessera.AddFn
	read  func(context.Context) ([]byte, error)
	await *tessera.PublicationAwaiter
	close func() // after what was added is published
	stop  func() // at once
}

// tesseraDir returns a directory that goes with the test, even if a log that was stopped writes to
// it a little longer.
func tesseraDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tessera")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func openTessera(t *testing.T, dir string, signer note.Signer, witnesses tessera.WitnessGroup) (*tesseraLog, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	driver, err := posix.New(ctx, posix.Config{Path: dir})
	require.NoError(t, err)
	a, shutdown, r, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).WithWitnesses(witnesses, &tessera.WitnessOptions{Timeout: time.Minute}).
		WithBatching(64, 10*time.Millisecond).WithCheckpointInterval(100*time.Millisecond))
	if err != nil {
		stop()
		return nil, err
	}
	return &tesseraLog{t, dir, a.Add, r.ReadCheckpoint, tessera.NewPublicationAwaiter(ctx, r.ReadCheckpoint,
		10*time.Millisecond), func() { require.NoError(t, shutdown(ctx)); stop() }, stop}, nil
}

// grow adds entries, and returns a published checkpoint that has them.
func (l *tesseraLog) grow(entries ...string) []byte {
	l.Helper()
	var cp []byte
	var added []tessera.IndexFuture
	for _, e := range entries {
		added = append(added, l.add(l.Context(), tessera.NewEntry([]byte(e))))
	}
	for _, f := range added {
		var err error
		_, cp, err = l.await.Await(l.Context(), f)
		require.NoError(l, err)
	}
	return cp
}

// TestTessera: a log of Tessera has its checkpoints cosigned by our witness, of which it reads in
// the policy that our client reads too, and publishes them with lines that the tooling of
// transparency.dev verifies. A copy of the log that was put back and goes on otherwise, and a
// second log under the same name and key, publish nothing more.
func TestTessera(t *testing.T) {
	const name = "log.example/tessera"
	skey, logVkey, err := note.GenerateKey(rand.Reader, name)
	require.NoError(t, err)
	signer, err := note.NewSigner(skey)
	require.NoError(t, err)
	logVerifier, err := note.NewVerifier(logVkey)
	require.NoError(t, err)

	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	state, err := httpwitness.DirState(t.TempDir())
	require.NoError(t, err)
	ours := &witness.Witness{Name: "witness.example/ours", Key: key, State: state, Logs: func(o string) []string {
		return map[string][]string{name: {logVkey}}[o]
	}}
	vkey, err := ours.VerifierKey()
	require.NoError(t, err)
	verifier, err := fmtnote.NewVerifierForCosignatureV1(vkey)
	require.NoError(t, err)
	heard := &overheard{httpwitness.Handler(ours), make(chan int, 100)}
	server := httptest.NewServer(heard)
	defer server.Close()
	text := fmt.Appendf(nil, "log %s\nwitness ours %s %s\ngroup one all ours\nquorum one\n", logVkey, vkey, server.URL)
	policy, err := httpwitness.ParsePolicy(text)
	require.NoError(t, err)
	require.Equal(t, []string{vkey}, policy.Keys())
	witnesses, err := tessera.NewWitnessGroupFromPolicy(text)
	require.NoError(t, err)

	// published requires that a checkpoint is of these entries, signed by both, and what the
	// witness has.
	var entries [][]byte
	published := func(cp []byte) {
		t.Helper()
		c, _, n, err := fmtlog.ParseCheckpoint(cp, name, logVerifier, verifier)
		require.NoError(t, err)
		require.Len(t, n.Sigs, 2, "%s", cp)
		require.Empty(t, n.UnverifiedSigs)
		require.EqualValues(t, len(entries), c.Size)
		if len(entries) > 0 {
			require.Equal(t, rootOf(t, entries), c.Hash)
		}
		_, err = fmtnote.CoSigV1Timestamp(n.Sigs[1])
		require.NoError(t, err)
		r, err := http.Get(server.URL + fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(name))))
		require.NoError(t, err)
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, string(cp), string(b))
	}
	log, err := openTessera(t, tesseraDir(t), signer, witnesses)
	require.NoError(t, err)
	cp, err := log.read(t.Context())
	require.NoError(t, err)
	published(cp) // of no entries
	var before string
	for i, n := range []int{1, 2, 5, 30, 300} {
		if i == 3 { // the log begins again, and a copy is made
			log.close()
			before = tesseraDir(t)
			require.NoError(t, os.CopyFS(before, os.DirFS(log.dir)))
			log, err = openTessera(t, log.dir, signer, witnesses)
			require.NoError(t, err)
		}
		var more []string
		for len(more) < n {
			more = append(more, fmt.Sprint("entry ", i, " ", len(more)))
			entries = append(entries, []byte(more[len(more)-1]))
		}
		cp = log.grow(more...)
		published(cp)
	}
	log.close()
	require.NotContains(t, drained(heard.heard), http.StatusUnprocessableEntity)

	// The copy has 8 entries, the witness knows of 338.
	copied, err := openTessera(t, before, signer, witnesses)
	require.NoError(t, err)
	was, err := copied.read(t.Context())
	require.NoError(t, err)
	for i := range 400 {
		copied.add(t.Context(), tessera.NewEntry(fmt.Append(nil, "another entry ", i)))
	}
	assert.Contains(t, heard.hears(t, http.StatusUnprocessableEntity), http.StatusConflict, "from 8, then from 338")
	now, err := copied.read(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(was), string(now), "it is not published")
	copied.stop()

	_, err = openTessera(t, tesseraDir(t), signer, witnesses)
	require.ErrorContains(t, err, "larger than log size 0")

	published(cp)
	require.True(t, strings.HasPrefix(string(cp), name+"\n338\n"))
}

// drained returns what is in a channel.
func drained(c chan int) (all []int) {
	for {
		select {
		case s := <-c:
			all = append(all, s)
		default:
			return all
		}
	}
}
