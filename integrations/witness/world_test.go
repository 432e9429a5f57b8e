//go:build unix

package witness

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

const origin = "example.test/log"

func seedKey(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

func publicOf(t testing.TB, k crypto.PrivateKey) crypto.PublicKey {
	t.Helper()
	pub, err := crypto.PublicOf(k)
	require.NoError(t, err)
	return pub
}

// A treeLog is a log by package tlog, whose entries from an index on are those of another history.
type treeLog struct {
	hashes []tlog.Hash
	size   int64
}

func logOfSize(t testing.TB, n int, fork int) treeLog {
	t.Helper()
	var l treeLog
	for i := range n {
		entry := fmt.Sprint("entry ", i)
		if i >= fork {
			entry = fmt.Sprint("forked ", i)
		}
		more, err := tlog.StoredHashes(int64(i), []byte(entry), l)
		require.NoError(t, err)
		l.hashes = append(l.hashes, more...)
	}
	l.size = int64(n)
	return l
}

func (l treeLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

func (l treeLog) body(t testing.TB) string {
	t.Helper()
	root, err := tlog.TreeHash(l.size, l)
	require.NoError(t, err)
	return fmt.Sprintf("%s\n%d\n%s\n", origin, l.size, root)
}

func (l treeLog) note(t testing.TB, key crypto.PrivateKey) string {
	t.Helper()
	return signedNote(t, l.body(t), origin, key)
}

func signedNote(t testing.TB, body, name string, key crypto.PrivateKey) string {
	t.Helper()
	sig, err := crypto.Sign(key, []byte(body))
	require.NoError(t, err)
	hash := crypto.Sum(append([]byte(name+"\n\x01"), publicOf(t, key)...))
	return body + "\n— " + name + " " + base64.StdEncoding.EncodeToString(append(hash[:4:4], sig...)) + "\n"
}

// request returns the body of a request with the right proof.
func (l treeLog) request(t testing.TB, old int, key crypto.PrivateKey) string {
	t.Helper()
	b := fmt.Sprintf("old %d\n", old)
	if old > 0 && int64(old) < l.size {
		proof, err := tlog.ProveTree(l.size, int64(old), l)
		require.NoError(t, err)
		for _, h := range proof {
			b += h.String() + "\n"
		}
	}
	return b + "\n" + l.note(t, key)
}

// A world is a witness of one log that is served over HTTP, and keeps its state in a directory.
type world struct {
	testing.TB
	witness *witness.Witness
	logKey  crypto.PrivateKey
	path    string
	url     string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, logKey: seedKey(t, 1), path: t.TempDir()}
	w.open()
	return w
}

// open begins again with another witness over the same directory.
func (w *world) open() {
	w.Helper()
	state, err := DirState(w.path)
	require.NoError(w, err)
	w.witness = newWitness(w, w.logKey, state)
	server := httptest.NewServer(Handler(w.witness))
	w.Cleanup(server.Close)
	w.url = server.URL
}

func newWitness(t testing.TB, logKey crypto.PrivateKey, state witness.State) *witness.Witness {
	t.Helper()
	vkey := proofgraph.VerifierKey(origin, publicOf(t, logKey))
	return &witness.Witness{
		Name: "witness.example/w1",
		Key:  seedKey(t, 2),
		Logs: func(o string) []string {
			if o != origin {
				return nil
			}
			return []string{vkey}
		},
		State: state,
		Now:   func() time.Time { return time.Unix(1790000000, 0) },
	}
}

// An answer is what a server says.
type answer struct {
	status     int
	kind, body string
}

func (w *world) post(body string) answer {
	w.Helper()
	r, err := http.Post(w.url+"/add-checkpoint", "", strings.NewReader(body))
	require.NoError(w, err)
	return answerOf(w, r)
}

func (w *world) get(path string) answer {
	w.Helper()
	r, err := http.Get(w.url + path)
	require.NoError(w, err)
	return answerOf(w, r)
}

func answerOf(t testing.TB, r *http.Response) answer {
	t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return answer{r.StatusCode, r.Header.Get("Content-Type"), string(b)}
}

// mustCosign posts a log with the right proof, and verifies the line that comes back.
func (w *world) mustCosign(old int, l treeLog) string {
	w.Helper()
	a := w.post(l.request(w, old, w.logKey))
	require.Equal(w, http.StatusOK, a.status, "%s", a.body)
	w.mustVerify(l, a.body)
	return a.body
}

func (w *world) mustVerify(l treeLog, line string) {
	w.Helper()
	b64, ok := strings.CutPrefix(line, "— witness.example/w1 ")
	require.True(w, ok, "%q", line)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(b64, "\n"))
	require.NoError(w, err)
	require.Len(w, raw, 76)
	msg := "cosignature/v1\ntime 1790000000\n" + l.body(w)
	require.True(w, crypto.Verify(publicOf(w, seedKey(w, 2)), []byte(msg), raw[12:]))
}
