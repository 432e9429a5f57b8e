package state

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func key(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

func public(t testing.TB, seed byte) crypto.PublicKey {
	t.Helper()
	p, err := crypto.PublicOf(key(t, seed))
	require.NoError(t, err)
	return p
}

// sealed is a state with a head and a body.
func sealed(t testing.TB) (b []byte, h Head, body []byte) {
	t.Helper()
	body = []byte(`{"a":1}`)
	h = Head{Checkpoint: "a note — with a line\n", Engine: Engine{2, 1}, Last: crypto.Sum([]byte("last")),
		Nodes: []contracts.Digest{crypto.Sum([]byte("node"))}, Origin: "example.test/log"}
	b, err := Seal(h, body, key(t, 1))
	require.NoError(t, err)
	h.Body, h.Version = crypto.Sum(body), Version
	return b, h, body
}

// A state that was sealed opens as it was, and no other bytes open under the key, whatever bit is
// flipped and wherever they are cut off.
func TestOpen(t *testing.T) {
	t.Parallel()
	b, h, body := sealed(t)
	got, rest, err := Open(b, public(t, 1))
	require.NoError(t, err)
	assert.Equal(t, h, got)
	assert.Equal(t, string(body), string(rest))
	_, _, err = Open(b, public(t, 2))
	require.ErrorContains(t, err, "another key")
	again, err := Seal(h, body, key(t, 1))
	require.NoError(t, err)
	assert.Equal(t, string(b), string(again), "one form")
	for i := range 8 * len(b) {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		_, _, err := Open(bad, public(t, 1))
		require.Error(t, err, "bit %d", i)
		_, _, err = Open(b[:i/8], public(t, 1))
		require.Error(t, err, "cut at byte %d", i/8)
	}
	for _, more := range []string{"\n", " ", "x", string(b)} {
		_, _, err = Open(append(bytes.Clone(b), more...), public(t, 1))
		require.Error(t, err, "followed by %q", more)
		_, _, err = Open(append([]byte(more), b...), public(t, 1))
		require.Error(t, err, "after %q", more)
	}
}

// What the holder of the key signs in another form is no state either.
func TestOpenRefusesOtherForms(t *testing.T) {
	t.Parallel()
	_, h, body := sealed(t)
	payload, err := Marshal(h)
	require.NoError(t, err)
	open := func(payloadType, payload string) error {
		sig, err := crypto.Sign(key(t, 1), crypto.AppendPAE(nil, payloadType, []byte(payload)))
		require.NoError(t, err)
		b := crypto.AppendEnvelope(nil, payloadType, []byte(payload), crypto.KeyID(public(t, 1)), sig)
		_, _, err = Open(append(append(append(b, '\n'), body...), '\n'), public(t, 1))
		return err
	}
	good := string(payload)
	require.NoError(t, open(payloadType, good), "or the refusals would prove nothing")
	require.Error(t, open("application/vnd.in-toto+json", good))
	for what, bad := range map[string]string{
		"empty":        "",
		"null":         "null",
		"object":       "{}",
		"array":        "[" + good + "]",
		"space":        strings.Replace(good, ":", ": ", 1),
		"twice":        good + good,
		"a field more": strings.Replace(good, `"version":1`, `"version":1,"zz":1`, 1),
		"a field less": strings.Replace(good, `"origin":"example.test/log",`, "", 1),
		"doubled":      strings.Replace(good, `"version":1`, `"version":1,"version":1`, 1),
		"version":      strings.Replace(good, `"version":1`, `"version":2`, 1),
		"a fraction":   strings.Replace(good, `"version":1`, `"version":1.0`, 1),
		"null nodes":   strings.Replace(good, `"origin":"example.test/log"`, `"origin":null`, 1),
		"case":         strings.Replace(good, `"version"`, `"Version"`, 1),
		"escape":       strings.Replace(good, "example", `\u0065xample`, 1),
		"upper case":   strings.Replace(good, h.Last.String(), strings.ToUpper(h.Last.String()), 1),
		"other body":   strings.Replace(good, h.Body.String(), h.Last.String(), 1),
	} {
		require.NotEqual(t, good, bad, what)
		require.Error(t, open(payloadType, bad), what)
	}
}
