package crypto

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHashes(t *testing.T) {
	t.Parallel()
	empty := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	assert.Equal(t, empty, Sum(nil).String(), "SHA-256 of nothing")
	// The vectors of the Certificate Transparency project: a leaf without bytes, and the tree of
	// two leaves, "" and 00.
	assert.Equal(t, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d", LeafHash(nil).String(), "leaf")
	assert.Equal(t, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		NodeHash(LeafHash(nil), LeafHash([]byte{0})).String(), "node")
	for _, n := range []int{0, 1, 54, 55, 56, 63, 64, 65, 1000} {
		b := []byte(strings.Repeat("x", n))
		assert.Equal(t, Sum(append([]byte{0}, b...)), LeafHash(b), "the leaf hash of %d bytes", n)
	}
}

func TestNewSum(t *testing.T) {
	t.Parallel()
	sum := NewSum()
	for _, part := range []string{"", "a", "message", strings.Repeat("x", 1000)} {
		sum.Write([]byte(part))
	}
	assert.Equal(t, Sum([]byte("amessage"+strings.Repeat("x", 1000))), Digest(sum.Sum(nil)), "%x", sum.Sum(nil))
}

func TestDigestHasOneSpelling(t *testing.T) {
	t.Parallel()
	d := Sum([]byte("d"))
	text := d.String()
	got, err := ParseDigest(text)
	require.True(t, err == nil && got == d, err)
	var back Digest
	if b, err := json.Marshal(d); err != nil || string(b) != `"`+text+`"` {
		t.Errorf("%s, %v", b, err)
	} else if err := json.Unmarshal(b, &back); err != nil || back != d {
		t.Error(err)
	}
	for _, bad := range []string{"", text[1:], text + "0", strings.ToUpper(text), " " + text[1:], text[:63] + "g",
		text[:63] + "\x00", "0x" + text[2:], text[:62] + "é"} {
		got, err := ParseDigest(bad)
		assert.True(t, err != nil && got == (Digest{}), "%q is a digest", bad)
		err = back.UnmarshalText([]byte(bad))
		assert.True(t, err != nil && back == d, "%q changed the digest", bad)
	}
}

func TestHashesDoNotAllocate(t *testing.T) {
	b, sink := make([]byte, 1500), Digest{}
	n := testing.AllocsPerRun(20, func() { sink = NodeHash(LeafHash(b), Sum(b)) })
	assert.True(t, n == 0 && sink != (Digest{}), "%v allocations", n)
}
