package cosign_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/proofgraph"
)

const body = "example.test/log\n43\n6fzyXBGEivgEGjO61n0/XTq/G8IDdjvqxzO8v22dOG4=\n"

// A world is a witness, and the line that it signed.
type world struct {
	*testing.T
	key  ed25519.PrivateKey
	name string
	vkey string
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	seed := crypto.Sum([]byte(name))
	w := &world{T: t, key: ed25519.NewKeyFromSeed(seed[:]), name: name}
	w.vkey = vkeyOf(name, append([]byte{4}, w.key.Public().(ed25519.PublicKey)...))
	return w
}

func vkeyOf(name string, key []byte) string {
	sum := crypto.Sum(append([]byte(name+"\n"), key...))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(key))
}

func (w *world) parsed() *cosign.Witness {
	w.Helper()
	list, err := cosign.Parse([]string{w.vkey})
	require.NoError(w, err)
	require.Len(w, list, 1)
	return &list[0]
}

// signed returns the bytes of a line, over whatever text.
func (w *world) signed(format string, at uint64, text string) []byte {
	w.Helper()
	key := append([]byte{4}, w.key.Public().(ed25519.PublicKey)...)
	sum := crypto.Sum(append([]byte(w.name+"\n"), key...))
	return append(binary.BigEndian.AppendUint64(sum[:4:4], at),
		ed25519.Sign(w.key, fmt.Appendf(nil, format, at, text))...)
}

const v1 = "cosignature/v1\ntime %d\n%s"

// verify parses a checkpoint with one line.
func (w *world) verify(text, name string, line []byte) (claimed bool, at int64, ok bool) {
	w.Helper()
	c, lines, err := proofgraph.ParseCheckpoint(fmt.Appendf(nil, "%s\n— %s %s\n", text, name,
		base64.StdEncoding.EncodeToString(line)))
	require.NoError(w, err)
	v := w.parsed()
	at, ok = v.Verify(c, lines[0])
	return v.Names(lines[0]), at, ok
}

func TestCosignature(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "w.example")
	for _, at := range []uint64{1, 1790000000, math.MaxInt64} {
		claimed, got, ok := w.verify(body, w.name, w.signed(v1, at, body))
		assert.True(t, claimed && ok && got == int64(at), "%d: %v, %d, %v", at, claimed, got, ok)
	}
	for name, line := range map[string][]byte{
		"time 0":              w.signed(v1, 0, body),
		"time 2^63":           w.signed(v1, math.MaxInt64+1, body),
		"time 2^64-1":         w.signed(v1, math.MaxUint64, body),
		"no header":           w.signed("%.0[2]s%[2]s", 1790000000, body),
		"version 2":           w.signed("cosignature/v2\ntime %d\n%s", 1790000000, body),
		"time in eight bytes": w.signed("cosignature/v1\ntime %020d\n%s", 1790000000, body),
		"CR LF":               w.signed("cosignature/v1\r\ntime %d\r\n%s", 1790000000, body),
		"no last line feed":   w.signed(v1, 1790000000, strings.TrimSuffix(body, "\n")),
		"two last line feeds": w.signed(v1, 1790000000, body+"\n"),
		"another size":        w.signed(v1, 1790000000, strings.Replace(body, "43", "44", 1)),
		"another log":         w.signed(v1, 1790000000, "x"+body),
		"cut":                 w.signed(v1, 1790000000, body)[:75],
		"longer":              append(w.signed(v1, 1790000000, body), 0),
		"time alone":          w.signed(v1, 1790000000, body)[:12],
		"one byte":            w.signed(v1, 1790000000, body)[:5],
	} {
		claimed, at, ok := w.verify(body, w.name, line)
		assert.True(t, claimed && !ok, "%s: %v, %d, %v", name, claimed, at, ok)
	}
}

// TestBits: each bit of a line counts, and each of the checkpoint that it is over.
func TestBits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "w.example")
	line := w.signed(v1, 1790000000, body)
	for i := range 8 * len(line) {
		line[i/8] ^= 1 << (i % 8)
		claimed, _, ok := w.verify(body, w.name, line)
		assert.True(t, claimed == (i >= 32) && !ok, "bit %d: claimed %v, verified %v", i, claimed, ok)
		line[i/8] ^= 1 << (i % 8)
	}
	for _, name := range []string{"w.exampl", "w.examplf", "W.example", "w.example.", "w.ехample"} {
		claimed, _, ok := w.verify(body, name, line)
		assert.True(t, !claimed && !ok, "%s", name)
	}
	tried := 0
	for i := range body {
		b := []byte(body)
		b[i] ^= 1
		c, lines, err := proofgraph.ParseCheckpoint(fmt.Appendf(nil, "%s\n— %s %s\n", b, w.name,
			base64.StdEncoding.EncodeToString(line)))
		if err != nil {
			continue
		}
		_, ok := w.parsed().Verify(c, lines[0])
		assert.False(t, ok, "byte %d of the checkpoint", i)
		tried++
	}
	assert.Greater(t, tried, 50)
	_, ok := w.parsed().Verify(proofgraph.Checkpoint{}, proofgraph.SignatureLine{Name: w.name})
	assert.False(t, ok, "of no checkpoint")
}

// TestParseLogKey: what proofgraph writes is read, and the keys of tools for signed notes. A key of
// a witness is none of a log.
func TestParseLogKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "log.example/1")
	public := w.key.Public().(ed25519.PublicKey)
	vkey := proofgraph.VerifierKey(w.name, crypto.PublicKey(public))
	theirs, err := note.NewEd25519VerifierKey(w.name, public)
	require.NoError(t, err)
	require.Equal(t, theirs, vkey)
	k, err := cosign.ParseLogKey(vkey)
	require.NoError(t, err)
	require.True(t, k.Name == w.name && string(k.Public) == string(public), "%v", k)
	v, err := note.NewVerifier(vkey)
	require.NoError(t, err)
	require.True(t, k.Names(proofgraph.SignatureLine{Name: w.name, KeyHash: v.KeyHash()}))
	require.False(t, k.Names(proofgraph.SignatureLine{Name: w.name, KeyHash: v.KeyHash() + 1}))
	require.False(t, k.Names(proofgraph.SignatureLine{Name: w.name + "x", KeyHash: v.KeyHash()}))
	for bad, want := range map[string]string{
		w.vkey: "type 0x04, and logs sign with keys of type 0x01",
		vkeyOf(w.name, append([]byte{6}, public...)): "ML-DSA-44",
		vkey + "=": "not a verifier key",
		"x" + vkey: "its hash is not that",
		" " + vkey: "not a name",
		vkeyOf(w.name, append([]byte{1, 1}, make([]byte, 31)...)): "prime order",
	} {
		k, err := cosign.ParseLogKey(bad)
		require.ErrorContains(t, err, want, "%q", bad)
		require.Zero(t, k)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	one, two := newWorld(t, "one"), newWorld(t, "two")
	list, err := cosign.Parse([]string{one.vkey, two.vkey})
	require.NoError(t, err)
	assert.True(t, len(list) == 2 && list[0].Name == "one" && list[1].Name == "two", "%v", list)
	list, err = cosign.Parse(nil)
	assert.True(t, err == nil && len(list) == 0, "%v, %v", list, err)

	public := one.key.Public().(ed25519.PublicKey)
	typed := func(kind byte, key []byte) string { return vkeyOf("one", append([]byte{kind}, key...)) }
	hash := strings.Split(one.vkey, "+")[1]
	const (
		form, name, hashed = "not a verifier key", "not a name", "its hash is not that of its name and key"
		point              = "not an Ed25519 public key of prime order"
	)
	for _, x := range []struct {
		want  string
		vkeys []string
	}{
		{form, []string{""}},
		{form, []string{"one"}},
		{form, []string{"one+" + hash}},
		{form, []string{"one+" + hash + "+"}},
		{form, []string{one.vkey + "="}},
		{form, []string{one.vkey + "\n"}},
		{form, []string{one.vkey + "+"}},
		{"witness 2: " + form, []string{one.vkey, "two"}},
		{name, []string{vkeyOf("", append([]byte{4}, public...))}},
		{name, []string{vkeyOf("o ne", append([]byte{4}, public...))}},
		{name, []string{vkeyOf("o\u2003ne", append([]byte{4}, public...))}},
		{name, []string{vkeyOf("one\n", append([]byte{4}, public...))}},
		{name, []string{vkeyOf("o\x01ne", append([]byte{4}, public...))}},
		{name, []string{vkeyOf("\xffone", append([]byte{4}, public...))}},
		{"type 0x01", []string{typed(1, public)}},
		{"type 0x00", []string{typed(0, public)}},
		{"type 0xff", []string{typed(255, public)}},
		{"type 0x06, ML-DSA-44, is not supported by this version", []string{typed(6, make([]byte, 1312))}},
		{"type 0x06, ML-DSA-44, is not supported by this version", []string{typed(6, public)}},
		{point, []string{typed(4, nil)}},
		{point, []string{typed(4, public[:31])}},
		{point, []string{typed(4, append(public[:32:32], 0))}},
		{point, []string{typed(4, append([]byte{1}, make([]byte, 31)...))}},
		{point, []string{typed(4, make([]byte, 32))}},
		{hashed, []string{strings.Replace(one.vkey, "one", "two", 1)}},
		{hashed, []string{strings.Replace(one.vkey, hash, strings.ToUpper(hash), 1)}},
		{hashed, []string{strings.Replace(one.vkey, hash, hash[:7], 1)}},
		{hashed, []string{strings.Replace(one.vkey, hash, "00000000", 1)}},
		{"witness 2: it has the name of witness 1", []string{one.vkey, one.vkey}},
		{"witness 2: it has the name of witness 1", []string{one.vkey,
			vkeyOf("one", append([]byte{4}, two.key.Public().(ed25519.PublicKey)...))}},
		{"witness 3: it has the public key of witness 1", []string{one.vkey, two.vkey,
			vkeyOf("three", append([]byte{4}, public...))}},
	} {
		list, err := cosign.Parse(x.vkeys)
		require.ErrorContains(t, err, x.want, "%q", x.vkeys)
		assert.Nil(t, list)
		assert.NotContains(t, err.Error(), base64.StdEncoding.EncodeToString(public), "a key in an error")
	}
}
