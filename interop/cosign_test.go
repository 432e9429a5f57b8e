//go:build unix

package interop

import (
	"bytes"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	fmtnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// TestWitnessed: cosignatures by the tooling of transparency.dev and by our witness count in a
// verification of a pack, each under the verifier key that its maker writes, and no longer once a
// bit is flipped.
func TestWitnessed(t *testing.T) {
	o, p := busy(t)
	skey, vkey, err := note.GenerateKey(rand.Reader, "witness.example/theirs")
	require.NoError(t, err)
	signer, err := fmtnote.NewSignerForCosignatureV1(skey)
	require.NoError(t, err)
	theirVkey, err := fmtnote.VKeyToCosignatureV1(vkey)
	require.NoError(t, err)
	n, err := note.Open(p.checkpoint, note.VerifierList(o.logVerifier()))
	require.NoError(t, err)
	theirs, err := note.Sign(n, signer)
	require.NoError(t, err)

	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	state, err := httpwitness.DirState(t.TempDir())
	require.NoError(t, err)
	w := &witness.Witness{Name: "witness.example/ours", Key: key, State: state,
		Logs: func(string) []string { return []string{proofgraph.VerifierKey(origin, o.public(o.log))} }}
	ourVkey, err := w.VerifierKey()
	require.NoError(t, err)
	ours, err := w.Add(t.Context(), 0, nil, p.checkpoint)
	require.NoError(t, err)

	verify := func(cosigned []byte) (evidence.Report, error) {
		return evidence.Verify(t.Context(), bytes.NewReader(p.raw), int64(len(p.raw)), evidence.Options{
			Kernel: o.public(o.first), Origin: origin,
			Witnesses: []string{theirVkey, ourVkey}, Quorum: 2, Cosigned: cosigned})
	}
	r, err := verify(append(bytes.Clone(theirs), ours...))
	require.NoError(t, err)
	require.True(t, r.Success(evidence.Witnessed), "%s", r)
	require.Len(t, r.Witnesses, 2)
	assert.True(t, r.Witnesses[0].Name == "witness.example/theirs" && r.Witnesses[1].Name == "witness.example/ours")
	r, err = verify(theirs)
	require.True(t, err == nil && r.Level == evidence.Logged && len(r.Witnesses) == 1, "%s, %v", r, err)

	_, lines, err := proofgraph.ParseCheckpoint(theirs)
	require.NoError(t, err)
	line := lines[len(lines)-1]
	sig := line.Signature
	was := crypto.AppendBase64(nil, append([]byte{byte(line.KeyHash >> 24), byte(line.KeyHash >> 16),
		byte(line.KeyHash >> 8), byte(line.KeyHash)}, sig...))
	require.True(t, bytes.Contains(theirs, was))
	for i := range sig {
		sig[i] ^= 1
		now := crypto.AppendBase64(nil, append([]byte{byte(line.KeyHash >> 24), byte(line.KeyHash >> 16),
			byte(line.KeyHash >> 8), byte(line.KeyHash)}, sig...))
		_, err := verify(bytes.Replace(theirs, was, now, 1))
		require.ErrorIs(t, err, evidence.ErrCosign, "byte %d", i)
		sig[i] ^= 1
	}
}
