package forge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
)

// remark changes the text of the checkpoint before it is signed; the manifest follows.
func remark(change func(m *Model, text string) string) func(*Model) {
	return func(m *Model) {
		m.note = func(text string) []byte {
			c := change(m, text)
			require.NotEqual(m, text, c, "the checkpoint has nothing to change")
			return signNote(m, c, Origin, m.logBy)
		}
	}
}

// sizeAs writes the checkpoint's size in another way.
func sizeAs(format string) func(*Model) {
	return remark(func(m *Model, text string) string {
		f := strings.SplitN(text, "\n", 3)
		return f[0] + "\n" + fmt.Sprintf(format, len(m.Nodes)) + "\n" + f[2]
	})
}

// marked signs what is no checkpoint of the log, or by others.
func marked(make func(m *Model, text string) []byte) func(*Model) {
	return func(m *Model) { m.note = func(text string) []byte { return make(m, text) } }
}

// stranger is a signature line of an unknown key.
func stranger(m *Model, text string) string { return noteLineOf(m, text, "witness.example", SeedX) }

// wrongTree builds the root in a wrong way.
func wrongTree(hash func(m *Model) [32]byte) func(*Model) {
	return func(m *Model) { m.root = func() [32]byte { return hash(m) } }
}

// the checkpoint.
var checkpointRows = []tampering{
	{id: "M01", cut: remark(func(m *Model, text string) string {
		return strings.Replace(text, fmt.Sprintf("\n%d\n", len(m.Nodes)), fmt.Sprintf("\n%d\n", len(m.Nodes)+1), 1)
	}), want: errMerkle},
	{id: "M02", cut: marked(func(m *Model, text string) []byte {
		n := len(m.Nodes) - 1
		root := rootOf(m, n)
		return signNote(m, fmt.Sprintf("%s\n%d\n%s\n", Origin, n, crypto.AppendBase64(nil, root[:])), Origin, SeedL)
	}), want: errMerkle},
	{id: "M03", cut: wrongTree(func(m *Model) [32]byte {
		root := rootOf(m, len(m.Nodes))
		root[7] ^= 4
		return root
	}), want: errMerkle},
	{id: "M04", name: "leaf", cut: wrongTree(func(m *Model) [32]byte {
		l := leavesOf(m, len(m.Nodes))
		for i := range l {
			l[i] = l[i][1:]
		}
		return merkle(l)
	}), want: errMerkle},
	{id: "M04", name: "interior",
		cut: wrongTree(func(m *Model) [32]byte { return badMerkle(leavesOf(m, len(m.Nodes)), nil) }), want: errMerkle},
	{id: "M04", name: "paired with itself", cut: wrongTree(func(m *Model) [32]byte {
		require.NotEqual(m, 0, len(m.Nodes)%2, "the log has no odd width")
		return pairedMerkle(leavesOf(m, len(m.Nodes)))
	}), want: errMerkle},
	{id: "M05", cut: marked(func(m *Model, text string) []byte {
		w1, w2 := cosignature(m, text, SeedW1, CosignedAt), cosignature(m, text, seedW2, CosignedAt)
		return []byte(text + "\n" + w1 + noteLineOf(m, text, Origin, SeedL) + w2)
	}), want: errCheckpoint},
	{id: "M09", name: "zero", cut: sizeAs("0%d"), want: errCheckpoint},
	{id: "M09", name: "plus", cut: sizeAs("+%d"), want: errCheckpoint},
	{id: "M09", name: "space", cut: sizeAs(" %d"), want: errCheckpoint},
	{id: "M09", name: "hex", cut: sizeAs("%#x"), want: errCheckpoint},
	{id: "M10", cut: marked(func(m *Model, text string) []byte {
		other := Origin + "2"
		return signNote(m, strings.Replace(text, Origin, other, 1), other, SeedL)
	}), want: errCheckpoint},
	{id: "M11", name: "CR LF", cut: marked(func(m *Model, text string) []byte {
		text = strings.ReplaceAll(text, "\n", "\r\n")
		sig := signWith(m, SeedL, []byte(text))
		return []byte(text + "\n" + noteLine(m, sig, SeedL))
	}), want: errCheckpoint},
	{id: "M11", name: "last line feed", cut: marked(func(m *Model, text string) []byte {
		sig := signWith(m, SeedL, []byte(strings.TrimSuffix(text, "\n")))
		return []byte(text + "\n" + noteLine(m, sig, SeedL))
	}), want: errCheckpoint},
	{id: "M12", cut: marked(func(m *Model, text string) []byte { return []byte(text + "\n" + cosignatures(m, text)) }),
		then: evidence.Report{Level: evidence.Intact, History: evidence.Fresh, Signer: evidence.Trusted}},
	{id: "M13", cut: marked(func(m *Model, text string) []byte { return signNote(m, text, Origin, seedK2) }),
		then: evidence.Report{Level: evidence.Intact, History: evidence.Fresh, Signer: evidence.Trusted}},
	{id: "M14", cut: marked(func(m *Model, text string) []byte {
		return []byte(text + "\n" + noteLine(m, signWith(m, seedK2, []byte(text)), SeedL))
	}), want: errCheckpoint},
}

// badMerkle has another prefix of interior nodes.
func badMerkle(leaves [][]byte, prefix []byte) [32]byte {
	if len(leaves) == 1 {
		return crypto.Sum(leaves[0])
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	l, r := badMerkle(leaves[:k], prefix), badMerkle(leaves[k:], prefix)
	return crypto.Sum(slices.Concat(prefix, l[:], r[:]))
}

// pairedMerkle pairs the last node of an odd row with itself.
func pairedMerkle(leaves [][]byte) [32]byte {
	var row [][32]byte
	for _, l := range leaves {
		row = append(row, crypto.Sum(l))
	}
	for len(row) > 1 {
		if len(row)%2 == 1 {
			row = append(row, row[len(row)-1])
		}
		var up [][32]byte
		for i := 0; i < len(row); i += 2 {
			up = append(up, crypto.NodeHash(row[i], row[i+1]))
		}
		row = up
	}
	return row[0]
}

// noteLine writes a signature line under the log's name and the key hash of a key, signed by any
// key.
func noteLine(m *Model, sig []byte, as byte) string {
	vkey, err := note.NewEd25519VerifierKey(Origin, Public(m, as))
	require.NoError(m, err)
	v, err := note.NewVerifier(vkey)
	require.NoError(m, err)
	h := v.KeyHash()
	b := append([]byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)}, sig...)
	return fmt.Sprintf("— %s %s\n", Origin, crypto.AppendBase64(nil, b))
}
