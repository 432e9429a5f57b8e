package interop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	fmtlog "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// logVerifier is the log's key in the form of tools for signed notes.
func (o *office) logVerifier() note.Verifier {
	o.Helper()
	v, err := note.NewVerifier(proofgraph.VerifierKey(origin, o.public(o.log)))
	o.must(err)
	return v
}

// TestCheckpoint: the tooling of transparency.dev opens a checkpoint under HELM's key, and refuses
// it with any bit flipped except the spare bits in the base64 of its signature: flipping those
// spells the same signature in another way, which HELM refuses.
func TestCheckpoint(t *testing.T) {
	o, p := busy(t)
	v := o.logVerifier()
	c, rest, n, err := fmtlog.ParseCheckpoint(p.checkpoint, origin, v)
	switch {
	case err != nil:
		t.Fatal(err)
	case c.Origin != origin || c.Size != uint64(len(p.entries)) || !bytes.Equal(c.Hash, rootOf(t, p.entries)):
		t.Errorf("%s, of size %d, with another root", c.Origin, c.Size)
	case len(rest) > 0 || len(n.Sigs) != 1 || len(n.UnverifiedSigs) > 0:
		t.Errorf("%q is left of the body; %d signatures, %d more", rest, len(n.Sigs), len(n.UnverifiedSigs))
	case !bytes.Equal(c.Marshal(), p.checkpoint[:len(c.Marshal())]):
		t.Errorf("the body is %q", c.Marshal())
	}
	lenient := 0
	for i := range 8 * len(p.checkpoint) {
		bad := bytes.Clone(p.checkpoint)
		bad[i/8] ^= 1 << (i % 8)
		if _, _, _, err := fmtlog.ParseCheckpoint(bad, origin, v); err != nil {
			continue
		}
		lenient++
		// the last digit, before = and the line's end
		if _, _, err := proofgraph.ParseCheckpoint(bad); err == nil || i/8 != len(p.checkpoint)-3 {
			t.Errorf("bit %d of byte %d is of no consequence; HELM says %v", i%8, i/8, err)
		}
	}
	if lenient > 2 { // of the last digit of 68 bytes, two bits are spare
		t.Errorf("%d flips are taken", lenient)
	}
	_, _, _, err = fmtlog.ParseCheckpoint(p.checkpoint, origin+"2", v)
	assert.Error(t, err, "it is one of another log too")
	for _, k := range o.keys {
		other, err := note.NewVerifier(proofgraph.VerifierKey(origin, k))
		require.NoError(t, err)
		_, _, _, err = fmtlog.ParseCheckpoint(p.checkpoint, origin, other)
		assert.Error(t, err, "it is signed by a kernel key too")
	}
}

// rootOf folds the leaves into a compact range, which uses no tree.
func rootOf(t testing.TB, entries [][]byte) []byte {
	t.Helper()
	f := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	r := f.NewEmptyRange(0)
	for _, e := range entries {
		require.NoError(t, r.Append(rfc6962.DefaultHasher.HashLeaf(e), nil))
	}
	root, err := r.GetRootHash(nil)
	require.NoError(t, err)
	return root
}

// grown is a log that was packed at every size that it had: its packs, by size. A kernel appends
// its policy directly after the genesis, so a kernel never gets to extend a log of one entry.
func grown(t testing.TB, most int) (*office, []pack) {
	t.Helper()
	o := newOffice(t)
	packs := make([]pack, most+1)
	for n := 0; n < most; {
		if n++; n > 2 {
			o.want(contracts.ReasonToolNotFound, fmt.Sprint("s", n%5), "no.such", `{}`)
		}
		o.checkpoint()
		p := o.pack()
		if len(p.entries) != n {
			if n == 1 && len(p.entries) == 2 {
				n = 2
			} else {
				t.Fatalf("%d entries, want %d", len(p.entries), n)
			}
		}
		packs[n] = p
	}
	return o, packs
}

// TestTree: at every size from 1 to 130 the root of the checkpoint equals the root of the pack's
// entries by another RFC 6962. Its proofs, made and verified by the other one, show that every
// entry is included and every earlier checkpoint is of a prefix.
func TestTree(t *testing.T) {
	const most = 130
	o, packs := grown(t, most)
	packs[1] = alone(t)
	v, h := o.logVerifier(), rfc6962.DefaultHasher
	roots := make([][]byte, most+1)
	trees := map[bool]*testonly.Tree{false: testonly.New(h), true: testonly.New(h)} // of size 1, and of the rest
	trees[true].AppendData(packs[1].entries...)
	trees[false].AppendData(packs[most].entries...)
	inclusions, extensions, refused := 0, 0, 0
	refuse := func(err error, what string, at ...int) {
		t.Helper()
		if refused++; err == nil {
			t.Fatalf("%s is taken: %v", what, at)
		}
	}
	for size := 1; size <= most; size++ {
		tree := trees[size == 1]
		c, _, _, err := fmtlog.ParseCheckpoint(packs[size].checkpoint, origin, v)
		if err != nil || c.Size != uint64(size) || len(packs[size].entries) != size {
			t.Fatalf("%d: %d entries, %v", size, len(packs[size].entries), err)
		}
		roots[size] = c.Hash
		if !bytes.Equal(c.Hash, rootOf(t, packs[size].entries)) || !bytes.Equal(c.Hash, tree.HashAt(uint64(size))) {
			t.Fatalf("%d: another root", size)
		}
		for i, e := range packs[size].entries {
			path, err := tree.InclusionProof(uint64(i), uint64(size))
			if err == nil {
				err = proof.VerifyInclusion(h, uint64(i), uint64(size), h.HashLeaf(e), path, c.Hash)
			}
			require.NoError(t, err, "%d of %d", i, size)
			inclusions++
			bad := bytes.Clone(e)
			bad[size%len(e)] ^= 1
			refuse(proof.VerifyInclusion(h, uint64(i), uint64(size), h.HashLeaf(bad), path, c.Hash),
				"an entry with a bit flipped", i, size)
			if i > 0 {
				refuse(proof.VerifyInclusion(h, uint64(i-1), uint64(size), h.HashLeaf(e), path, c.Hash),
					"the place of another entry", i, size)
			}
		}
		for before := 2; before <= size && size > 1; before++ {
			path, err := tree.ConsistencyProof(uint64(before), uint64(size))
			if err == nil {
				err = proof.VerifyConsistency(h, uint64(before), uint64(size), path, roots[before], c.Hash)
			}
			require.NoError(t, err, "%d to %d", before, size)
			extensions++
			bad := bytes.Clone(roots[before])
			bad[size%32] ^= 1
			refuse(proof.VerifyConsistency(h, uint64(before), uint64(size), path, bad, c.Hash),
				"the extension of another log", before, size)
		}
	}
	if inclusions != most*(most+1)/2 || extensions != most*(most-1)/2 || refused < inclusions+extensions {
		t.Errorf("%d inclusions, %d extensions, %d refused", inclusions, extensions, refused)
	}
	t.Logf("%d inclusions and %d extensions verified, %d falsified ones refused", inclusions, extensions, refused)
}

// alone is a log of one entry: opened, and never used.
func alone(t testing.TB) pack {
	t.Helper()
	o := newOffice(t)
	o.must(o.kernel.Close())
	state, err := o.trust.Initial(o.public(o.first), o.public(o.log))
	o.must(err)
	o.store = proofgraph.NewMemory()
	l, err := proofgraph.Open(t.Context(), o.store, proofgraph.Options{Origin: origin, Key: o.first, LogKey: o.log,
		Trust: state.Canonical(), Now: 1790000000000}, nil)
	o.must(err)
	_, err = l.Checkpoint(t.Context())
	o.must(err)
	return o.pack()
}

// TestPack: archive/tar reads HELM's packs, and accepts no other header except one whose checksum
// ends otherwise. HELM refuses each change of both.
func TestPack(t *testing.T) {
	o, p := busy(t)
	lenient := 0
	for i := range 512 {
		bad := bytes.Clone(p.raw)
		bad[i] ^= 4
		if _, err := openPack(bad); err == nil {
			if lenient++; i != 155 {
				t.Errorf("archive/tar reads a pack with byte %d of its first header changed", i)
			}
		}
		assert.ErrorIs(t, o.verify(bad, false), evidence.ErrArchive, "byte %d of the first header changed", i)
	}
	for i := 512; i < len(p.raw); i += len(p.raw) / 50 {
		bad := bytes.Clone(p.raw)
		bad[i] ^= 4
		if err := o.verify(bad, false); err == nil || !strings.HasPrefix(err.Error(), "evidence: ") {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	assert.Equal(t, 1, lenient, "%d changed headers are read", lenient)
}
