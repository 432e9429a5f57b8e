//go:build unix

package witness

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// Consistency makes a treeLog a Prover.
func (l treeLog) Consistency(_ context.Context, from, to uint64) ([]contracts.Digest, error) {
	if from == 0 || from >= to {
		return nil, fmt.Errorf("a proof from %d to %d", from, to)
	}
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
	for _, vkey := range []string{proofgraph.VerifierKey(origin, publicOf(t, seedKey(t, 7))),
		proofgraph.VerifierKey("another.test/log", publicOf(t, seedKey(t, 1)))} {
		_, err = c.Cosign(t.Context(), l, l.checkpoint(t), Policy{[]string{vkey}, []Member{a}, 1})
		require.ErrorContains(t, err, "no log of the policy")
	}
	for _, p := range []Policy{{}, {nil, []Member{a}, 0}, {nil, []Member{a}, 2}, {nil, []Member{a, a}, 1},
		{nil, []Member{{"a", "x", a.URL}}, 1}, {[]string{"x"}, []Member{a}, 1}} {
		note, err := c.Cosign(t.Context(), l, l.checkpoint(t), p)
		require.True(t, err != nil && note == nil)
		require.NotErrorIs(t, err, ErrQuorum)
	}
}

// heard is an http.Client that writes down the status of each answer.
func heard(statuses *[]int) *http.Client {
	return &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
		res, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			*statuses = append(*statuses, res.StatusCode)
		}
		return res, err
	})}
}

// TestSizesAreRemembered: a client asks with the size that the witness cosigned last, of each log
// by itself. Of a checkpoint below that it asks the witness, and believes it.
func TestSizesAreRemembered(t *testing.T) {
	t.Parallel()
	w, m := served(t, 11)
	const other = "other.test/log"
	public := publicOf(t, w.logKey)
	w.witness.Logs = func(o string) []string { return []string{proofgraph.VerifierKey(o, public)} }
	policy := Policy{nil, []Member{m}, 1}
	var statuses []int
	c := Client{HTTP: heard(&statuses)}
	ask := func(o string, n int) error {
		l := logOfSize(t, n, never)
		note := signedNote(t, strings.Replace(l.body(t), origin, o, 1), o, w.logKey)
		_, err := c.Cosign(t.Context(), l, proofgraph.Checkpoint{Note: []byte(note)}, policy)
		return err
	}
	for _, n := range []int{1, 6, 6, 30} {
		require.NoError(t, ask(origin, n))
		require.NoError(t, ask(other, n+1))
	}
	require.Equal(t, []int{200, 200, 200, 200, 200, 200, 200, 200}, statuses)
	require.ErrorContains(t, ask(origin, 6), "it cosigned size 30, which is larger: was the log put back?")
	require.NoError(t, ask(origin, 32))
	require.Equal(t, []int{409, 200}, statuses[8:])

	c, statuses = Client{HTTP: heard(&statuses)}, nil
	require.NoError(t, ask(origin, 40))
	require.NoError(t, ask(origin, 50))
	require.Equal(t, []int{409, 200, 200}, statuses)
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

// TestPolicyInTheDocument: the policy in docs/witness.md is one.
func TestPolicyInTheDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/witness.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "\n```\nlog ")
	text, _, ok := strings.Cut(text, "```\n")
	require.True(t, ok)
	p, err := ParsePolicy([]byte("log " + text))
	require.NoError(t, err)
	require.True(t, len(p.Logs) == 1 && len(p.Witnesses) == 3 && p.Quorum == 2, "%v", p)
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
