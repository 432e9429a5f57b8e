//go:build unix

package interop

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
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
// bit is flipped. Their tooling reads the same of both lines, and takes no flipped bit either.
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
	full, err := verify(append(bytes.Clone(theirs), ours...))
	require.NoError(t, err)
	require.True(t, full.Success(evidence.Witnessed), "%s", full)
	require.Len(t, full.Witnesses, 2)
	assert.True(t, full.Witnesses[0].Name == "witness.example/theirs" && full.Witnesses[1].Name == "witness.example/ours")
	r, err := verify(theirs)
	require.True(t, err == nil && r.Level == evidence.Logged && len(r.Witnesses) == 1, "%s, %v", r, err)

	both := append(bytes.Clone(theirs), ours...)
	_, lines, err := proofgraph.ParseCheckpoint(both)
	require.NoError(t, err)
	require.Len(t, lines, 3)
	for i, vkey := range []string{theirVkey, ourVkey} {
		verifier, err := fmtnote.NewVerifierForCosignatureV1(vkey)
		require.NoError(t, err)
		n, err := note.Open(both, note.VerifierList(verifier))
		require.NoError(t, err)
		require.Len(t, n.Sigs, 1)
		at, err := fmtnote.CoSigV1Timestamp(n.Sigs[0])
		require.NoError(t, err)
		assert.True(t, at.Equal(full.Witnesses[i].Time), "%v, %v", at, full.Witnesses[i])
		line := lines[i+1]
		was := spelledSignature(line)
		require.Equal(t, 1, bytes.Count(both, was))
		for j := range line.Signature {
			line.Signature[j] ^= 1
			bad := bytes.Replace(both, was, spelledSignature(line), 1)
			_, err := verify(bad)
			require.ErrorIs(t, err, evidence.ErrCosign, "byte %d", j)
			_, err = note.Open(bad, note.VerifierList(verifier))
			require.Error(t, err, "byte %d", j)
			line.Signature[j] ^= 1
		}
	}
}

// spelledSignature is the base64 of a signature line.
func spelledSignature(line proofgraph.SignatureLine) []byte {
	return crypto.AppendBase64(nil, append(binary.BigEndian.AppendUint32(nil, line.KeyHash), line.Signature...))
}
