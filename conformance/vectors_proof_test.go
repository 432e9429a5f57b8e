package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/vectorfile"
	"github.com/helmkernel/helm/proofgraph"
)

const proofOrigin = "example.test/proofs"

// A prover makes proofs of a log by the definitions of RFC 6962, section 2.1.
type prover struct {
	*testing.T
	key    crypto.PrivateKey
	leaves [][]byte
	cases  []vectorfile.Case
}

// proofKey is a key for tests: its seed is a byte, 32 times.
func proofKey(t *testing.T, seed byte) crypto.PrivateKey {
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

// treeHash is MTH.
func treeHash(leaves [][]byte) []byte {
	h := sha256.New()
	if n := len(leaves); n == 1 {
		h.Write([]byte{0})
		h.Write(leaves[0])
	} else if n > 1 {
		k := splitAt(n)
		h.Write([]byte{1})
		h.Write(treeHash(leaves[:k]))
		h.Write(treeHash(leaves[k:]))
	}
	return h.Sum(nil)
}

// splitAt is the largest power of two below n.
func splitAt(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

// path is PATH.
func path(m int, leaves [][]byte) [][]byte {
	n := len(leaves)
	if n == 1 {
		return nil
	}
	k := splitAt(n)
	if m < k {
		return append(path(m, leaves[:k]), treeHash(leaves[k:]))
	}
	return append(path(m-k, leaves[k:]), treeHash(leaves[:k]))
}

// subproof is SUBPROOF.
func subproof(m int, leaves [][]byte, whole bool) [][]byte {
	n := len(leaves)
	if m == n {
		if whole {
			return nil
		}
		return [][]byte{treeHash(leaves)}
	}
	k := splitAt(n)
	if m <= k {
		return append(subproof(m, leaves[:k], whole), treeHash(leaves[k:]))
	}
	return append(subproof(m-k, leaves[k:], false), treeHash(leaves[:k]))
}

// note signs a checkpoint.
func (p *prover) note(origin string, key crypto.PrivateKey, size int, root []byte) []byte {
	p.Helper()
	pub, err := crypto.PublicOf(key)
	require.NoError(p, err)
	v, err := note.NewVerifier(proofgraph.VerifierKey(origin, pub))
	require.NoError(p, err)
	text := fmt.Sprintf("%s\n%d\n%s\n", origin, size, base64.StdEncoding.EncodeToString(root))
	b, err := note.Sign(&note.Note{Text: text}, noteSigner{v, key})
	require.NoError(p, err)
	return b
}

type noteSigner struct {
	note.Verifier
	key crypto.PrivateKey
}

func (s noteSigner) Sign(msg []byte) ([]byte, error) { return crypto.Sign(s.key, msg) }

// checkpoint is the one of a size.
func (p *prover) checkpoint(size int) []byte {
	p.Helper()
	return p.note(proofOrigin, p.key, size, treeHash(p.leaves[:size]))
}

func proofText(head string, hashes [][]byte, checkpoint []byte) []byte {
	b := []byte(head + "\n")
	for _, h := range hashes {
		b = append(base64.StdEncoding.AppendEncode(b, h), '\n')
	}
	return append(append(b, '\n'), checkpoint...)
}

func (p *prover) add(about string, want bool, input []byte, name string, other []byte) {
	p.Helper()
	pub, err := crypto.PublicOf(p.key)
	require.NoError(p, err)
	keys, err := json.Marshal(signers{[]crypto.PublicKey{pub}, proofOrigin})
	require.NoError(p, err)
	got := false
	if s := (signers{[]crypto.PublicKey{pub}, proofOrigin}); name == "last" {
		got = extends(input, other, s)
	} else {
		got = included(input, other, s)
	}
	require.Equal(p, want, got, about)
	p.cases = append(p.cases, vectorfile.Case{About: about,
		Files: map[string][]byte{"input": input, name: other, "keys.json": append(keys, '\n')}})
}

// proofVectors are proofs of inclusion and of consistency, and what is none.
func proofVectors(t *testing.T) []vectorfile.Case {
	p := &prover{T: t, key: proofKey(t, 21)}
	for i := range 13 {
		p.leaves = append(p.leaves, fmt.Appendf(nil, "entry %d", i))
	}
	included := func(about string, want bool, input, entry []byte) {
		t.Helper()
		p.add("inclusion: "+about, want, input, "entry", entry)
	}
	const head = "c2sp.org/tlog-proof@v1\n"
	for _, x := range [][2]int{{1, 0}, {2, 0}, {2, 1}, {3, 2}, {7, 0}, {7, 3}, {7, 6}, {8, 5}, {13, 8}, {13, 12}} {
		size, i := x[0], x[1]
		included(fmt.Sprintf("entry %d of %d", i, size), true,
			proofText(head+fmt.Sprint("index ", i), path(i, p.leaves[:size]), p.checkpoint(size)), p.leaves[i])
	}
	hashes, c := path(3, p.leaves[:7]), p.checkpoint(7)
	good := func(change func(h [][]byte) [][]byte) []byte {
		var h [][]byte
		for _, x := range hashes {
			h = append(h, bytes.Clone(x))
		}
		return proofText(head+"index 3", change(h), c)
	}
	same := func(h [][]byte) [][]byte { return h }
	entry := p.leaves[3]
	included("extra data says nothing", true, proofText(head+"extra aGVsbA==\nindex 3", hashes, c), entry)
	included("another entry", false, good(same), p.leaves[4])
	included("an entry with a byte more", false, good(same), append(bytes.Clone(entry), '\n'))
	included("the index before", false, proofText(head+"index 2", hashes, c), entry)
	included("an index beyond the log", false, proofText(head+"index 7", hashes, c), entry)
	included("an index with a zero before", false, proofText(head+"index 03", hashes, c), entry)
	included("a hash is missing", false, good(func(h [][]byte) [][]byte { return h[:len(h)-1] }), entry)
	included("a hash too many", false, good(func(h [][]byte) [][]byte { return append(h, h[0]) }), entry)
	included(
		"two hashes exchanged",
		false,
		good(func(h [][]byte) [][]byte { h[0], h[1] = h[1], h[0]; return h }),
		entry,
	)
	included("a bit of a hash", false, good(func(h [][]byte) [][]byte { h[1][0] ^= 1; return h }), entry)
	included("a hash of 31 bytes", false, good(func(h [][]byte) [][]byte { h[0] = h[0][:31]; return h }), entry)
	included("no hashes", false, good(func([][]byte) [][]byte { return nil }), entry)
	included("the checkpoint of another size", false, proofText(head+"index 3", hashes, p.checkpoint(8)), entry)
	included("another root", false,
		proofText(head+"index 3", hashes, p.note(proofOrigin, p.key, 7, treeHash(p.leaves[:6]))), entry)
	included("another log key", false,
		proofText(head+"index 3", hashes, p.note(proofOrigin, proofKey(t, 22), 7, treeHash(p.leaves[:7]))), entry)
	included("another origin", false,
		proofText(head+"index 3", hashes, p.note("example.test/other", p.key, 7, treeHash(p.leaves[:7]))), entry)
	included("another type", false, proofText("c2sp.org/tlog-proof@v2\nindex 3", hashes, c), entry)
	included("no empty line", false, bytes.Replace(good(same), []byte("\n\n"), []byte("\n"), 1), entry)
	node := append([]byte{1}, append(treeHash(p.leaves[0:1]), treeHash(p.leaves[1:2])...)...)
	included("an interior node as an entry", false,
		proofText(head+"index 0", path(0, p.leaves[:2]), p.checkpoint(2)), node)

	extends := func(about string, want bool, input, last []byte) {
		t.Helper()
		p.add("consistency: "+about, want, input, "last", last)
	}
	for _, x := range [][2]int{{1, 1}, {1, 7}, {3, 7}, {4, 7}, {6, 8}, {7, 7}, {7, 13}, {8, 13}} {
		from, to := x[0], x[1]
		extends(
			fmt.Sprintf("%d to %d", from, to),
			true,
			proofText(
				fmt.Sprint("old ", from),
				subproof(from, p.leaves[:to], true),
				p.checkpoint(to),
			),
			p.checkpoint(from),
		)
	}
	hashes, c = subproof(3, p.leaves[:7], true), p.checkpoint(7)
	extends("another old size", false, proofText("old 4", hashes, c), p.checkpoint(3))
	extends("another old root", false, proofText("old 3", hashes, c),
		p.note(proofOrigin, p.key, 3, treeHash(p.leaves[1:4])))
	extends("an old checkpoint of nobody known", false, proofText("old 3", hashes, c),
		p.note(proofOrigin, proofKey(t, 22), 3, treeHash(p.leaves[:3])))
	extends("a new checkpoint of nobody known", false,
		proofText("old 3", hashes, p.note(proofOrigin, proofKey(t, 22), 7, treeHash(p.leaves[:7]))), p.checkpoint(3))
	extends("a hash is missing", false, proofText("old 3", hashes[1:], c), p.checkpoint(3))
	extends("a hash too many", false, proofText("old 3", append(hashes[:len(hashes):len(hashes)], hashes[0]), c),
		p.checkpoint(3))
	extends("the log became shorter", false, proofText("old 7", subproof(3, p.leaves[:7], true), p.checkpoint(3)),
		p.checkpoint(7))
	extends("the same size, another root", false,
		proofText("old 7", nil, p.note(proofOrigin, p.key, 7, treeHash(p.leaves[1:8]))), p.checkpoint(7))
	return p.cases
}
