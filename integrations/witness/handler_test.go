//go:build unix

package witness

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/witness"
)

const never = 1 << 20 // no fork

// TestStatusTable goes through C2SP tlog-witness: each answer that it names, with its headers.
func TestStatusTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustCosign(0, logOfSize(t, 5, never))
	good := logOfSize(t, 12, never)
	note := good.note(t, w.logKey)
	right := good.request(t, 5, w.logKey)
	text := "text/plain; charset=utf-8"
	hash := strings.Split(right, "\n")[1]
	for _, c := range []struct {
		name, body string
		want       answer // an empty body is any
	}{
		{"an unknown origin", "old 5\n\nx" + note, answer{404, text, ""}},
		{"by another key", good.request(t, 5, seedKey(t, 9)), answer{403, text, ""}},
		{"another size, not signed", strings.Replace(right, "\n12\n", "\n13\n", 1), answer{403, text, ""}},
		{"old above the size", "old 13\n\n" + note, answer{400, text, ""}},
		{"old below the latest", good.request(t, 4, w.logKey), answer{409, "text/x.tlog.size", "5\n"}},
		{"old 0, to ask", "old 0\n\n" + note, answer{409, "text/x.tlog.size", "5\n"}},
		{"old above the latest", good.request(t, 6, w.logKey), answer{409, "text/x.tlog.size", "5\n"}},
		{"a smaller checkpoint", logOfSize(t, 4, never).request(t, 4, w.logKey), answer{409, "text/x.tlog.size", "5\n"}},
		{"no proof", "old 5\n\n" + note, answer{422, text, ""}},
		{"a proof with a hash more", strings.Replace(right, "\n", "\n"+hash+"\n", 1), answer{422, text, ""}},
		{"a proof of 63 hashes", "old 5\n" + strings.Repeat(hash+"\n", 63) + "\n" + note, answer{422, text, ""}},
		{"another history", logOfSize(t, 12, 3).request(t, 5, w.logKey), answer{422, text, ""}},
		{"the same size, another root", logOfSize(t, 5, 3).request(t, 5, w.logKey), answer{422, text, ""}},
		{"the same size, a proof", "old 5\n" + hash + "\n\n" + logOfSize(t, 5, never).note(t, w.logKey),
			answer{422, text, ""}},
		{"the empty log with a root", "old 0\n\n" + signedNote(t, strings.Replace(logOfSize(t, 5, never).body(t),
			"\n5\n", "\n0\n", 1), origin, w.logKey), answer{409, "text/x.tlog.size", "5\n"}},
	} {
		a := w.post(c.body)
		assert.Equal(t, c.want.status, a.status, "%s: %s", c.name, a.body)
		assert.Equal(t, c.want.kind, a.kind, c.name)
		assert.True(t, c.want.body == "" || c.want.body == a.body, "%s: %q", c.name, a.body)
	}
	a := w.post(right)
	require.Equal(t, answer{200, text, a.body}, a)
	w.mustVerify(good, a.body)
	a = w.post("old 12\n\n" + note)
	require.Equal(t, answer{200, text, a.body}, a, "the same once more")
	w.mustVerify(good, a.body)
}

// TestStatusTableOfTheFirst is what remains of that table: the answers of a witness that has
// cosigned nothing of the log yet, and then its empty checkpoint.
func TestStatusTableOfTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, empty := logOfSize(t, 5, never), logOfSize(t, 0, never)
	note := l.note(t, w.logKey)
	proof := strings.Split(l.request(t, 3, w.logKey), "\n")[1]
	rooted := signedNote(t, strings.Replace(l.body(t), "\n5\n", "\n0\n", 1), origin, w.logKey)
	refuses := func(latest string) {
		t.Helper()
		for name, c := range map[string]struct {
			body string
			want int
		}{
			"an unknown origin, all else wrong": {"old 9\n" + proof + "\n\nx" + note, 404},
			"by another key, all else wrong":    {"old 9\n" + proof + "\n\n" + l.note(t, seedKey(t, 9)), 403},
			"old above the size":                {"old 9\n" + proof + "\n\n" + note, 400},
			"old is the size":                   {"old 5\n\n" + note, 409},
			"old, and a proof":                  {l.request(t, 3, w.logKey), 409},
			"old 0, and a proof":                {"old 0\n" + proof + "\n\n" + note, 422},
			"the empty log with a root":         {"old 0\n\n" + rooted, 422},
			"the empty log, and a proof":        {"old 0\n" + proof + "\n\n" + empty.note(t, w.logKey), 422},
		} {
			a := w.post(c.body)
			assert.Equal(t, c.want, a.status, "%s: %s: %s", latest, name, a.body)
			if c.want == 409 {
				assert.Equal(t, answer{409, "text/x.tlog.size", "0\n"}, a, "%s: %s", latest, name)
			}
		}
	}
	refuses("no checkpoint")
	files, err := os.ReadDir(w.path)
	require.NoError(t, err)
	require.Empty(t, files)
	w.mustCosign(0, empty)
	refuses("the empty one")
	w.mustCosign(0, empty)
	strangers := note + "— stranger.example AAAAAAA=\n" + strings.Replace(l.note(t, seedKey(t, 9)), l.body(t)+"\n", "", 1)
	a := w.post("old 0\n\n" + strangers)
	require.Equal(t, 200, a.status, "signatures by unknown keys are passed over: %s", a.body)
	w.mustVerify(l, a.body)
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := logOfSize(t, 3, never)
	note := l.note(t, w.logKey)
	hash := strings.Split(logOfSize(t, 9, never).request(t, 5, w.logKey), "\n")[1]
	for name, body := range map[string]string{
		"nothing":                 "",
		"a note alone":            note,
		"no old":                  "\n\n" + note,
		"no size":                 "old\n\n" + note,
		"no size, a space":        "old \n\n" + note,
		"a leading zero":          "old 00\n\n" + note,
		"a sign":                  "old +0\n\n" + note,
		"minus":                   "old -0\n\n" + note,
		"hex":                     "old 0x0\n\n" + note,
		"two spaces":              "old  0\n\n" + note,
		"a space more":            "old 0 \n\n" + note,
		"capitals":                "OLD 0\n\n" + note,
		"above 64 bits":           "old 18446744073709551616\n\n" + note,
		"all 64 bits":             "old 18446744073709551615\n\n" + note,
		"carriage returns":        strings.ReplaceAll("old 0\n\n"+note, "\n", "\r\n"),
		"no empty line":           "old 0\n" + note,
		"two empty lines":         "old 0\n\n\n" + note,
		"a short hash":            "old 0\nAAAA\n\n" + note,
		"no base64":               "old 0\n" + strings.Repeat("*", 44) + "\n\n" + note,
		"no padding":              "old 0\n" + strings.TrimRight(hash, "=") + "\n\n" + note,
		"a hash and a space":      "old 0\n" + hash + " \n\n" + note,
		"64 hashes":               "old 0\n" + strings.Repeat(hash+"\n", 64) + "\n" + note,
		"no note":                 "old 0\n\n",
		"half a note":             "old 0\n\n" + note[:len(note)/2],
		"extension lines":         "old 0\n\n" + signedNote(t, l.body(t)+"extension\n", origin, w.logKey),
		"more than 64 KiB":        "old 0\n\n" + note + strings.Repeat("x", maxBody),
		"10 MB":                   strings.Repeat("old 0\n", 10<<20/6),
		"10 MB of one line":       strings.Repeat("0", 10<<20),
		"a byte more than 64 KiB": padded(note, maxBody+1),
	} {
		a := func() answer {
			r, err := http.Post(w.url+"/add-checkpoint", "", strings.NewReader(body))
			if err != nil { // the server closed the connection before all was sent
				require.Greater(t, len(body), maxBody, name)
				return answer{status: 400}
			}
			return answerOf(t, r)
		}()
		assert.Equal(t, 400, a.status, "%s: %s", name, a.body)
		assert.Less(t, len(a.body), 200, name)
	}
	files, err := os.ReadDir(w.path)
	require.NoError(t, err)
	require.Empty(t, files)
	require.Equal(t, 200, w.post(padded(note, maxBody)).status, "64 KiB")
}

// padded is a request of so many bytes, with lines of strangers to the note.
func padded(note string, n int) string {
	b := "old 0\n\n" + note
	for len(b) < n {
		size := min(n-len(b), 30_000)
		if rest := n - len(b) - size; rest > 0 && rest < 100 {
			size -= 100
		}
		// "— " has 4 bytes, a name any number, then a space, 8 bytes of base64 and the line end
		b += "— " + strings.Repeat("x", size-14) + " AAAAAAA=\n"
	}
	return b
}

func TestOtherRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for method, want := range map[string]int{"GET": 405, "PUT": 405, "DELETE": 405} {
		r, err := http.NewRequest(method, w.url+"/add-checkpoint", strings.NewReader(""))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, want, res.StatusCode, method)
	}
	require.Equal(t, 404, w.get("/").status)
	require.Equal(t, 404, w.get("/metrics").status)
}

func TestCheckpointOfALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(origin)))
	require.Equal(t, 404, w.get(path).status)
	l := logOfSize(t, 5, never)
	line := w.mustCosign(0, l)
	want := answer{200, "text/plain; charset=utf-8", l.note(t, w.logKey) + line}
	require.Equal(t, want, w.get(path))
	w.open()
	require.Equal(t, want, w.get(path), "after a restart")
	for _, other := range []string{strings.ToUpper(path), path[1:], "/..%2f" + path[1:],
		fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte("another"))), "/checkpoint/checkpoint"} {
		require.Equal(t, 404, w.get(strings.Replace("/"+other, "//", "/", 1)+"x").status, other)
	}
	require.Equal(t, 404, w.get("/"+strings.ToUpper(path[1:65])+"/checkpoint").status)
	require.Equal(t, 404, w.get("/"+path[2:65]+"/checkpoint").status)

	w.witness.State = forgetful{} // which is no Finder
	require.Equal(t, 404, w.get(path).status)
}

type forgetful struct{}

func (forgetful) Latest(context.Context, string) ([]byte, error)     { return nil, nil }
func (forgetful) Swap(context.Context, string, []byte, []byte) error { return errDisk }

var errDisk = errors.New("secret: the disk is gone")

// TestFailures: what is the witness's own fault is 500, and says nothing of the cause.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustCosign(0, logOfSize(t, 2, never))
	file := w.path + "/" + logOf(origin).String() + ".checkpoint"
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	path := fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(origin)))
	request := logOfSize(t, 3, never).request(t, 2, w.logKey)
	for name, bad := range map[string]string{
		"empty":      "",
		"torn":       string(good[:len(good)-1]),
		"half":       string(good[:len(good)/2]),
		"no note":    "x",
		"of another": "x" + string(good),
		"too long":   string(good) + strings.Repeat("x", 1_000_000),
	} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		for _, a := range []answer{w.post(request), w.get(path)} {
			require.Equal(t, 500, a.status, name)
			require.NotContains(t, a.body, w.path, name)
		}
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, bad, string(now), name)
	}
	require.NoError(t, os.WriteFile(file, good, 0o600))
	require.Equal(t, 200, w.post(request).status)
	w.witness.State = forgetful{}
	a := w.post(logOfSize(t, 3, never).request(t, 0, w.logKey))
	require.Equal(t, 500, a.status)
	require.NotContains(t, a.body, "secret")
	require.Equal(t, 500, newServer(t, new(witness.Witness)).post(request).status)
}

func newServer(t testing.TB, w *witness.Witness) *world {
	t.Helper()
	server := httptest.NewServer(Handler(w))
	t.Cleanup(server.Close)
	return &world{TB: t, witness: w, url: server.URL}
}

// A meeting is a state whose first swaps wait for each other.
type meeting struct {
	witness.State
	n     int32
	met   atomic.Int32
	begin chan struct{}
}

func (m *meeting) Swap(ctx context.Context, origin string, was, now []byte) error {
	if m.met.Add(1) == m.n {
		close(m.begin)
	}
	<-m.begin
	return m.State.Swap(ctx, origin, was, now)
}

// TestTwoClients: of two requests with one old size that are both right, one is 200 and one 409.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 4} {
		for range 10 {
			w := newWorld(t)
			if n > 0 {
				w.mustCosign(0, logOfSize(t, n, never))
			}
			w.witness.State = &meeting{State: w.witness.State, n: 2, begin: make(chan struct{})}
			logs := []treeLog{logOfSize(t, 7, never), logOfSize(t, 9, n)}
			answers := make([]answer, 2)
			var both sync.WaitGroup
			for i, l := range logs {
				both.Go(func() { answers[i] = w.post(l.request(t, n, w.logKey)) })
			}
			both.Wait()
			winner := 0
			if answers[0].status != 200 {
				winner = 1
			}
			w.mustVerify(logs[winner], answers[winner].body)
			require.Equal(t, answer{409, "text/x.tlog.size", fmt.Sprintln(logs[winner].size)}, answers[1-winner])
		}
	}
}

// TestSlowBody: a body that never ends is cut off by its size.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := httptest.NewRecorder()
	Handler(w.witness).ServeHTTP(rec, httptest.NewRequest("POST", "/add-checkpoint", endless{}))
	require.Equal(t, 400, rec.Code)
	rec = httptest.NewRecorder()
	Handler(w.witness).ServeHTTP(rec, httptest.NewRequest("POST", "/add-checkpoint", io.MultiReader(
		strings.NewReader("old 0\n"), broken{})))
	require.Equal(t, 400, rec.Code)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
