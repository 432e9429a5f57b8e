//go:build unix

package witness

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// lying is a witness that answers with a function, and has the key of that seed.
func lying(t testing.TB, seed byte, how http.HandlerFunc) Member {
	t.Helper()
	server := httptest.NewServer(how)
	t.Cleanup(server.Close)
	w := &witness.Witness{Name: fmt.Sprint("witness.example/w", seed), Key: seedKey(t, seed), State: forgetful{},
		Logs: func(string) []string { return nil }}
	key, err := w.VerifierKey()
	require.NoError(t, err)
	return Member{fmt.Sprint("W", seed), key, server.URL}
}

// lineBy is a cosignature of any body at any time.
func lineBy(t testing.TB, seed byte, key crypto.PrivateKey, body string, at uint64) string {
	t.Helper()
	name := fmt.Sprint("witness.example/w", seed)
	sig, err := crypto.Sign(key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, body))
	require.NoError(t, err)
	hash := crypto.Sum(append([]byte(name+"\n\x04"), publicOf(t, seedKey(t, seed))...))
	raw := append(binary.BigEndian.AppendUint64(hash[:4:4], at), sig...)
	return "— " + name + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
}

func say(status int, kind, text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", kind)
		rw.WriteHeader(status)
		fmt.Fprint(rw, text)
	}
}

// TestWitnessesThatLie: whatever a witness answers, its line counts only if it verifies, and the
// error says what was wrong, and not the URL.
func TestWitnessesThatLie(t *testing.T) {
	t.Parallel()
	l := logOfSize(t, 8, never)
	fork := logOfSize(t, 8, 2)
	body := l.body(t)
	good := lineBy(t, 20, seedKey(t, 20), body, 5)
	const (
		size    = "text/x.tlog.size"
		noLine  = "W20: no line of its key that verifies"
		noLines = "W20: an answer that is not signature lines"
		tooLong = "W20: an answer of more than 65,536 bytes"
		noSize  = "W20: status 409 without a size"
		again   = "W20: it contradicts itself"
	)
	var turn, sent atomic.Int64
	for name, c := range map[string]struct {
		want string
		how  http.HandlerFunc
	}{
		"nothing":             {noLines, say(200, "", "")},
		"no line":             {noLines, say(200, "", "thank you\n")},
		"another root":        {noLine, say(200, "", lineBy(t, 20, seedKey(t, 20), fork.body(t), 5))},
		"another key":         {noLine, say(200, "", lineBy(t, 20, seedKey(t, 21), body, 5))},
		"another name":        {noLine, say(200, "", lineBy(t, 21, seedKey(t, 21), body, 5))},
		"the time 0":          {noLine, say(200, "", lineBy(t, 20, seedKey(t, 20), body, 0))},
		"a time above 2^63":   {noLine, say(200, "", lineBy(t, 20, seedKey(t, 20), body, 1<<63))},
		"a line that is cut":  {noLines, say(200, "", good[:len(good)-1])},
		"another note":        {noLines, say(200, "", l.note(t, seedKey(t, 1))+good)},
		"a hundred lines":     {noLines, say(200, "", strings.Repeat(good, 101))},
		"10 MB":               {tooLong, say(200, "", strings.Repeat(good, 10<<20/len(good)))},
		"10 MB of a size":     {tooLong, say(409, size, strings.Repeat("3", 10<<20))},
		"an error of 10 MB":   {tooLong, say(500, "", strings.Repeat("x", 10<<20))},
		"a larger size":       {"W20: it cosigned size 9, which is larger", say(409, size, "9\n")},
		"the largest size":    {"size 18446744073709551615, which is larger", say(409, size, "18446744073709551615\n")},
		"above 64 bits":       {noSize, say(409, size, "18446744073709551616\n")},
		"no size":             {noSize, say(409, size, "x\n")},
		"an empty size":       {noSize, say(409, size, "\n")},
		"a negative size":     {noSize, say(409, size, "-1\n")},
		"the size it was":     {again, say(409, size, "0\n")},
		"409 of another type": {"W20: status 409", say(409, "text/plain", "3\n")},
		"a line with 299":     {"W20: status 299", say(299, "", good)},
		"a line with 500":     {"W20: status 500", say(500, "", good)},
		"a redirect": {"W20: status 307", func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				say(200, "", good)(rw, r)
				return
			}
			http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
		}},
		"another size each time": {again, func(rw http.ResponseWriter, r *http.Request) {
			say(409, size, strconv.FormatInt(turn.Add(1), 10)+"\n")(rw, r)
		}},
		"64 MiB": {tooLong, func(rw http.ResponseWriter, _ *http.Request) {
			for sent.Store(0); sent.Load() < 64<<20; sent.Add(1 << 20) {
				if _, err := io.WriteString(rw, strings.Repeat("x", 1<<20)); err != nil {
					return // the client has gone
				}
			}
		}},
		"it hangs up": {"W20: EOF", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		asked := int64(0)
		m := lying(t, 20, func(rw http.ResponseWriter, r *http.Request) {
			atomic.AddInt64(&asked, 1)
			c.how(rw, r)
		})
		note, err := new(Client).Cosign(t.Context(), l, l.checkpoint(t), Policy{nil, []Member{m}, 1})
		require.ErrorIs(t, err, ErrQuorum, name)
		assert.ErrorContains(t, err, c.want, name)
		assert.NotContains(t, err.Error(), m.URL, name)
		assert.Equal(t, []string{origin}, names(t, note), name)
		want := int64(1)
		if name == "another size each time" {
			want = 2 // a 409 is taken once
		}
		assert.Equal(t, want, atomic.LoadInt64(&asked), name)
	}
	assert.Less(t, sent.Load(), int64(32<<20), "most of 64 MiB was read")
	m := lying(t, 20, say(200, "", lineBy(t, 21, seedKey(t, 21), body, 5)+good+good))
	note, err := new(Client).Cosign(t.Context(), l, l.checkpoint(t), Policy{nil, []Member{m}, 1})
	require.NoError(t, err)
	require.Equal(t, l.note(t, seedKey(t, 1))+good, string(note), "its own line alone")
}

// TestSilentOverHTTP: a witness that is silent, or stops in the middle of its answer, is left when
// the context ends.
func TestSilentOverHTTP(t *testing.T) {
	t.Parallel()
	l := logOfSize(t, 8, never)
	for name, begin := range map[string]string{"no answer": "", "half an answer": "— wit"} {
		ctx, cancel := context.WithCancel(t.Context())
		m := lying(t, 20, func(rw http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // or nobody sees that the client goes
			if begin != "" {
				io.WriteString(rw, begin)
				http.NewResponseController(rw).Flush()
			}
			cancel()
			<-r.Context().Done() // the client has gone
		})
		note, err := new(Client).Cosign(ctx, l, l.checkpoint(t), Policy{nil, []Member{m}, 1})
		require.ErrorIs(t, err, ErrQuorum, name)
		require.Equal(t, []string{origin}, names(t, note), name)
		cancel()
	}
}

// A tripFunc answers requests without a network.
type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// waits is an http.Client whose requests to a path end with their context; the others are answered.
// It says on ended how each one ended.
func waits(path, answer string, ended chan<- error) *http.Client {
	return &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
		if !strings.HasPrefix(r.URL.Path, path) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(answer))}, nil
		}
		<-r.Context().Done()
		ended <- r.Context().Err()
		return nil, r.Context().Err()
	})}
}

// TestSilentForEver: without any limit of the caller's a witness that never answers is left after a
// time. The clock of the bubble goes on only if something waits for it: without a limit all would
// wait for ever, which is a failure.
func TestSilentForEver(t *testing.T) {
	t.Parallel()
	key := lying(t, 20, nil).Key
	synctest.Test(t, func(t *testing.T) {
		l := logOfSize(t, 8, never)
		ended := make(chan error, 1)
		c := &Client{HTTP: waits("/", "", ended)}
		note, err := c.Cosign(context.Background(), l, l.checkpoint(t), Policy{nil, []Member{{"W", key, "http://w"}}, 1})
		require.ErrorIs(t, err, ErrQuorum)
		require.Equal(t, []string{origin}, names(t, note))
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
	})
}

// TestQuorumWaitsForNoMore: when the quorum is there, a witness that has not answered is left at
// once: its request is cancelled, and does not run into its limit.
func TestQuorumWaitsForNoMore(t *testing.T) {
	t.Parallel()
	silent, quick := lying(t, 20, nil).Key, lying(t, 21, nil).Key
	synctest.Test(t, func(t *testing.T) {
		l := logOfSize(t, 8, never)
		ended := make(chan error, 1)
		c := &Client{HTTP: waits("/silent", lineBy(t, 21, seedKey(t, 21), l.body(t), 5), ended)}
		note, err := c.Cosign(context.Background(), l, l.checkpoint(t), Policy{nil, []Member{
			{"S", silent, "http://w/silent"}, {"Q", quick, "http://w/quick"}}, 1})
		require.NoError(t, err)
		require.Equal(t, []string{origin, "witness.example/w21"}, names(t, note))
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
