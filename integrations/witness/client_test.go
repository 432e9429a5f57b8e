//go:build unix

package witness

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// Consistency makes a treeLog a Prover.
func (l treeLog) Consistency(_ context.Context, from, to uint64) ([]contracts.Digest, error) {
	proof, err := tlog.ProveTree(int64(to), int64(from), l)
	if err != nil {
		return nil, err
	}
	var out []contracts.Digest
	for _, h := range proof {
		out = append(out, contracts.Digest(h))
	}
	return out, nil
}

func (l treeLog) checkpoint(t testing.TB) proofgraph.Checkpoint {
	t.Helper()
	c, _, err := proofgraph.ParseCheckpoint([]byte(l.note(t, seedKey(t, 1))))
	require.NoError(t, err)
	return c
}

// served is an honest witness, and how a policy names it.
func served(t testing.TB, seed byte) (*world, Member) {
	t.Helper()
	w := newWorld(t)
	w.witness.Name, w.witness.Key = fmt.Sprint("witness.example/w", seed), seedKey(t, seed)
	key, err := w.witness.VerifierKey()
	require.NoError(t, err)
	return w, Member{fmt.Sprint("W", seed), key, w.url}
}

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

func names(t testing.TB, note []byte) (names []string) {
	t.Helper()
	_, lines, err := proofgraph.ParseCheckpoint(note)
	require.NoError(t, err)
	for _, l := range lines {
		names = append(names, l.Name)
	}
	return names
}

func TestCosign(t *testing.T) {
	t.Parallel()
	_, a := served(t, 11)
	wb, b := served(t, 12)
	down := Member{Name: "down", Key: lying(t, 13, nil).Key, URL: "http://127.0.0.1:1"}
	logs := []string{proofgraph.VerifierKey(origin, publicOf(t, seedKey(t, 1)))}
	policy := Policy{logs, []Member{down, b, a}, 2}
	var c Client
	for _, n := range []int{1, 6, 6, 30} { // the first asks for sizes, the others know them
		note, err := c.Cosign(t.Context(), logOfSize(t, n, never), logOfSize(t, n, never).checkpoint(t), policy)
		require.NoError(t, err)
		require.Equal(t, []string{origin, "witness.example/w12", "witness.example/w11"}, names(t, note))
	}
	var fresh Client // takes the size of the 409
	l := logOfSize(t, 40, never)
	note, err := fresh.Cosign(t.Context(), l, l.checkpoint(t), policy)
	require.NoError(t, err)
	require.Len(t, names(t, note), 3)

	// Two of three, and one of the two is gone: what there is, and an error.
	wb.witness.State = forgetful{}
	wb.witness.Logs = func(string) []string { return nil }
	note, err = c.Cosign(t.Context(), l, l.checkpoint(t), policy)
	require.ErrorIs(t, err, ErrQuorum)
	require.ErrorContains(t, err, "W12: status 404")
	require.ErrorContains(t, err, "down: ")
	require.Equal(t, []string{origin, "witness.example/w11"}, names(t, note))

	// A log that the policy does not name, and policies that are none.
	_, err = c.Cosign(t.Context(), l, l.checkpoint(t), Policy{
		[]string{proofgraph.VerifierKey(origin, publicOf(t, seedKey(t, 7)))}, []Member{a}, 1})
	require.ErrorContains(t, err, "no log of the policy")
	for _, p := range []Policy{{}, {nil, []Member{a}, 0}, {nil, []Member{a}, 2}, {nil, []Member{a, a}, 1},
		{nil, []Member{{"a", "x", a.URL}}, 1}, {[]string{"x"}, []Member{a}, 1}} {
		note, err := c.Cosign(t.Context(), l, l.checkpoint(t), p)
		require.True(t, err != nil && note == nil)
		require.NotErrorIs(t, err, ErrQuorum)
	}
}

// TestWitnessesThatLie: whatever a witness answers, its line counts only if it verifies, and Cosign
// ends in bounded time.
func TestWitnessesThatLie(t *testing.T) {
	t.Parallel()
	l := logOfSize(t, 8, never)
	fork := logOfSize(t, 8, 2)
	body := l.body(t)
	say := func(status int, kind, text string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", kind)
			rw.WriteHeader(status)
			fmt.Fprint(rw, text)
		}
	}
	size := "text/x.tlog.size"
	good := lineBy(t, 20, seedKey(t, 20), body, 5)
	release := make(chan struct{})
	defer close(release)
	asked := 0
	for name, how := range map[string]http.HandlerFunc{
		"nothing":               say(200, "", ""),
		"no line":               say(200, "", "thank you\n"),
		"another root":          say(200, "", lineBy(t, 20, seedKey(t, 20), fork.body(t), 5)),
		"another key":           say(200, "", lineBy(t, 20, seedKey(t, 21), body, 5)),
		"another name":          say(200, "", lineBy(t, 21, seedKey(t, 21), body, 5)),
		"the time 0":            say(200, "", lineBy(t, 20, seedKey(t, 20), body, 0)),
		"a time above 2^63":     say(200, "", lineBy(t, 20, seedKey(t, 20), body, 1<<63)),
		"a line that is cut":    say(200, "", good[:len(good)-1]),
		"another note":          say(200, "", l.note(t, seedKey(t, 1))+good),
		"10 MB":                 say(200, "", strings.Repeat(good, 10<<20/len(good))),
		"a hundred lines":       say(200, "", strings.Repeat(good, 101)),
		"a larger size":         say(409, size, "9\n"),
		"the largest size":      say(409, size, "18446744073709551615\n"),
		"no size":               say(409, size, "x\n"),
		"a negative size":       say(409, size, "-1\n"),
		"the size that was old": say(409, size, "0\n"),
		"409 of another type":   say(409, "text/plain", "3\n"),
		"a status that is none": say(299, "", good),
		"a redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"another size each time": func(rw http.ResponseWriter, _ *http.Request) {
			asked++
			say(409, size, strconv.Itoa(asked)+"\n")(rw, nil)
		},
		"no answer": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		},
		"it hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		m := lying(t, 20, how)
		var c Client
		note, err := c.Cosign(ctx, l, l.checkpoint(t), Policy{nil, []Member{m}, 1})
		cancel()
		assert.ErrorIs(t, err, ErrQuorum, name)
		assert.NotContains(t, err.Error(), m.URL, name)
		assert.Equal(t, []string{origin}, names(t, note), name)
		if name == "another size each time" {
			assert.Equal(t, 2, asked, "a 409 is taken once")
		}
	}
	m := lying(t, 20, say(200, "", lineBy(t, 21, seedKey(t, 21), body, 5)+good+good))
	note, err := new(Client).Cosign(t.Context(), l, l.checkpoint(t), Policy{nil, []Member{m}, 1})
	require.NoError(t, err)
	require.Equal(t, l.note(t, seedKey(t, 1))+good, string(note), "its own line alone")
}

// A proverFunc is a Prover.
type proverFunc func() ([]contracts.Digest, error)

func (f proverFunc) Consistency(context.Context, uint64, uint64) ([]contracts.Digest, error) {
	return f()
}

func TestProverGoesWrong(t *testing.T) {
	t.Parallel()
	w, m := served(t, 11)
	require.Equal(t, 200, w.post(logOfSize(t, 3, never).request(t, 0, w.logKey)).status)
	release := make(chan struct{})
	defer close(release)
	for name, p := range map[string]proverFunc{
		"fails":  func() ([]contracts.Digest, error) { return nil, errDisk },
		"panics": func() ([]contracts.Digest, error) { panic("secret") },
		"lies":   func() ([]contracts.Digest, error) { return []contracts.Digest{{1}}, nil },
		"hangs":  func() ([]contracts.Digest, error) { <-release; return nil, nil },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		note, err := new(Client).Cosign(ctx, p, logOfSize(t, 8, never).checkpoint(t), Policy{nil, []Member{m}, 1})
		cancel()
		require.ErrorIs(t, err, ErrQuorum, name)
		require.Equal(t, []string{origin}, names(t, note), name)
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	_, a := served(t, 11)
	_, b := served(t, 12)
	log := proofgraph.VerifierKey(origin, publicOf(t, seedKey(t, 1)))
	head := "# of this log\n\nlog " + log + " https://log.example/\n" +
		"witness A " + a.Key + "\t" + a.URL + "\n \twitness B " + b.Key + "\n"
	one, two := Member{"A", a.Key, a.URL}, Member{"B", b.Key, ""}
	for text, want := range map[string]Policy{
		"quorum A\n":                               {[]string{log}, []Member{one}, 1},
		"group G any A B\nquorum G\n":              {[]string{log}, []Member{one, two}, 1},
		"group G all B A\nquorum G\n":              {[]string{log}, []Member{two, one}, 2},
		"group G 1 A B\nquorum G\n#\n":             {[]string{log}, []Member{one, two}, 1},
		"group G 2 A B\ngroup H 1 G\nquorum G\n\n": {[]string{log}, []Member{one, two}, 2},
	} {
		p, err := ParsePolicy([]byte(head + text))
		require.NoError(t, err, text)
		require.Equal(t, want, p, text)
	}
	p, err := ParsePolicy([]byte(head + "quorum A\n"))
	require.NoError(t, err)
	require.Equal(t, []string{a.Key}, p.Keys())
	mldsa := "x+00000000+" + base64.StdEncoding.EncodeToString(append([]byte{6}, make([]byte, 1312)...))
	for text, why := range map[string]string{
		"":                            "no quorum line",
		"quorum A":                    "no line end",
		"quorum A\nquorum A\n":        "a second quorum",
		"quorum none\n":               "quorum none",
		"quorum C\n":                  "no line before",
		"quorum G\ngroup G any A B\n": "no line before",
		"group G any A B\ngroup H any G\nquorum H\n": "groups of groups",
		"group G 0 A B\nquorum G\n":                  "a number of members",
		"group G 3 A B\nquorum G\n":                  "a number of members",
		"group G 02 A B\nquorum G\n":                 "a number of members",
		"group G most A B\nquorum G\n":               "a number of members",
		"group G any A A\nquorum G\n":                "twice",
		"group G any C\nquorum G\n":                  "no line before",
		"group G any none\nquorum G\n":               "no line before",
		"group G any\nquorum G\n":                    "not a log",
		"group A any B\nquorum A\n":                  "taken",
		"group none any B\nquorum A\n":               "taken",
		"witness A " + b.Key + "\nquorum A\n":        "taken",
		"witness C " + b.Key + "\nquorum A\n":        "same public key",
		"log " + log + "\nquorum A\n":                "same public key",
		"log " + a.Key + "\nquorum A\n":              "type 0x04",
		"witness C " + log + "\nquorum A\n":          "type 0x01",
		"witness C " + mldsa + "\nquorum A\n":        "ML-DSA-44",
		"witness C x\nquorum A\n":                    "not a verifier key",
		"witness C x" + a.Key + "\nquorum A\n":       "not that of its name and key",
		"quorum A B\n":                               "not a log",
		"policy A\n":                                 "not a log",
		"quorum A\r\n":                               "control",
		"quorum A\x00\n":                             "control",
		strings.Repeat("#", 1<<20) + "\n":            "1 MiB",
	} {
		_, err := ParsePolicy([]byte(head + text))
		require.ErrorContains(t, err, why, "%q", text)
	}
}
