package crypto

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/table"
)

// TestPAE has the example of the DSSE specification, and pairs that differ only in the end of one
// string.
func TestPAE(t *testing.T) {
	t.Parallel()
	for _, test := range table.Read[struct{ PayloadType, Payload, Want string }](t, "pae", 6) {
		if got := AppendPAE([]byte("before "), test.PayloadType,
			[]byte(test.Payload)); string(got) != "before "+test.Want {
			t.Errorf("%q, want %q", got, test.Want)
		}
	}
}

func TestEnvelopeIsCanonical(t *testing.T) {
	t.Parallel()
	for _, payloadType := range []string{"application/vnd.in-toto+json", "", "\"\\\n\x01é😀"} {
		for _, payload := range []string{"", "hello", "\x00\xff\"\\"} {
			sig := bytes.Repeat([]byte{0xfb}, 64)
			text := AppendEnvelope(nil, payloadType, []byte(payload), Sum([]byte("k")), sig)
			var tree Tree
			require.NoError(t, tree.Parse(text, Limits{Bytes: 1 << 20, Depth: 3, Object: true}), "%s", text)
			got := tree.Root().Append(nil)
			assert.True(t, bytes.Equal(got, text), "%s is not canonical, %s is", text, got)
			var e struct {
				Payload, PayloadType string
				Signatures           []struct{ Keyid, Sig string }
			}
			require.NoError(t, json.Unmarshal(text, &e))
			if e.PayloadType != payloadType || e.Payload != base64.StdEncoding.EncodeToString([]byte(payload)) ||
				len(e.Signatures) != 1 ||
				e.Signatures[0].Keyid != Sum([]byte("k")).String() ||
				e.Signatures[0].Sig != base64.StdEncoding.EncodeToString(sig) {
				t.Errorf("%s", text)
			}
		}
	}
}

// TestPackageComment verifies the example of the package comment with nothing but the comment.
func TestPackageComment(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var examples []string
	for block := range strings.SplitSeq(string(doc), "\n//\n") {
		if text, ok := strings.CutPrefix(block, "//\t"); ok {
			examples = append(examples, strings.ReplaceAll(text, "\n//\t", ""))
		}
	}
	require.Len(t, examples, 3, "%d examples, want an encoding, a key and an envelope", len(examples))
	pae, pub, envelope := examples[0], PublicKey(unhexed(t, examples[1])), []byte(examples[2])
	assert.NoError(t, CheckPublicKey(pub))
	var tree Tree
	require.NoError(t, tree.Parse(envelope, Limits{Bytes: 1 << 10, Depth: 3, Object: true}))
	root := tree.Root()
	payload, err := DecodeBase64(nil, root.Get("payload").Bytes())
	require.NoError(t, err)
	signature := root.Get("signatures").At(0)
	sig, err := DecodeBase64(nil, signature.Get("sig").Bytes())
	require.NoError(t, err)
	payloadType := root.Get("payloadType").Text()
	assert.Equal(t, pae, string(AppendPAE(nil, payloadType, payload)), "the encoding")
	assert.True(t, Verify(pub, []byte(pae), sig), "the signature does not verify")
	id := KeyID(pub)
	assert.True(t, signature.Get("keyid").Text() == id.String() && strings.Contains(string(doc),
		"with the id "+id.String()), "the key id is another")
	got := AppendEnvelope(nil, payloadType, payload, id, sig)
	assert.True(t, bytes.Equal(got, envelope), "the envelope is %s", got)
}
