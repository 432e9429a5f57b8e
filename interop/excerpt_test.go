package interop

import (
	"archive/tar"
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	fmtlog "github.com/transparency-dev/formats/log"
	fmtproof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/trust/registry"
)

// latest is the trust state that the trust events in a log lead to.
func (o *office) latest(p pack) *registry.State {
	o.Helper()
	state := o.kernel.Trust()
	var r contracts.Reader
	for i, e := range p.entries {
		sealed, err := r.Open(e)
		o.must(err)
		st, err := sealed.Statement()
		o.must(err)
		if st.Trust != nil {
			state, err = state.Apply(st.Trust, origin, uint64(i))
			o.must(err)
		}
	}
	return state
}

// members reads an excerpt by archive/tar.
func members(t testing.TB, b []byte) (names []string, all map[string][]byte) {
	t.Helper()
	all = map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return names, all
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		names, all[h.Name] = append(names, h.Name), content
	}
}

// TestExcerptProofs: the tooling of transparency.dev reads the proofs in excerpts of every receipt
// of a log, verifies each for its entry and for no other, and writes the same bytes. What it writes
// of its own is an excerpt that HELM verifies.
func TestExcerptProofs(t *testing.T) {
	o, p := busy(t)
	v, h, state := o.logVerifier(), rfc6962.DefaultHasher, o.latest(p)
	var leaves [][]byte
	for _, e := range p.entries {
		leaves = append(leaves, h.HashLeaf(e))
	}
	var r contracts.Reader
	tried, denied := 0, 0
	for i, e := range p.entries {
		if sealed, err := r.Open(e); err != nil || sealed.Kind != contracts.KindReceipt {
			continue
		}
		var b bytes.Buffer
		o.must(evidence.WriteExcerpt(t.Context(), &b, o.store, evidence.Excerpt{Receipt: uint64(i), Blobs: i%2 == 0}))
		names, all := members(t, b.Bytes())
		if !slices.Contains(names, "decision") {
			denied++
		}
		require.Equal(t, p.entries[i], all["receipt"])
		for _, name := range []string{"decision", "receipt"} {
			entry, ok := all[name]
			if !ok {
				continue
			}
			text := all[name+".proof"]
			var is fmtproof.TLogProof
			require.NoError(t, is.Unmarshal(text))
			assert.True(t, is.ExtraData == nil && bytes.Equal(is.Checkpoint, all["checkpoint"]) &&
				bytes.Equal(is.Marshal(), text) && bytes.Equal(p.entries[is.Index], entry), "%s of %d: %+v", name, i, is)
			c, _, _, err := fmtlog.ParseCheckpoint(is.Checkpoint, origin, v)
			require.NoError(t, err)
			var hashes [][]byte
			for _, x := range is.Hashes {
				hashes = append(hashes, x[:])
			}
			for j, leaf := range leaves {
				err := proof.VerifyInclusion(h, uint64(j), c.Size, leaf, hashes, c.Hash)
				assert.Equal(t, uint64(j) == is.Index, err == nil, "the proof of entry %d for %d: %v", is.Index, j, err)
				tried++
			}
			all[name+".proof"] = is.Marshal()
		}
		var again bytes.Buffer
		w := tar.NewWriter(&again)
		for _, name := range names {
			require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644,
				Size: int64(len(all[name])), Format: tar.FormatUSTAR}))
			_, err := w.Write(all[name])
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		report, err := evidence.VerifyExcerpt(t.Context(), bytes.NewReader(again.Bytes()), int64(again.Len()),
			evidence.Options{Trust: state, Origin: origin})
		require.True(t, err == nil && report.Success(evidence.Logged), "%s, %v", report, err)
	}
	assert.True(t, tried > 1000 && denied > 5, "%d proofs were verified, %d denials", tried, denied)
}
