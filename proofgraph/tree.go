package proofgraph

import (
	"errors"
	"math/bits"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A Tree computes the RFC 6962 root of leaves that are appended one by one. It keeps only the roots
// of the complete subtrees. The zero Tree is empty. A copy is independent of the original.
type Tree struct {
	size  uint64
	nodes [64]contracts.Digest // nodes[k], where bit k of size is set, is the root over 2^k leaves
}

// Append adds a leaf by its hash, as [crypto.LeafHash] returns it.
func (t *Tree) Append(leaf contracts.Digest) {
	k := bits.TrailingZeros64(^t.size) // complete subtrees to the left that the leaf completes
	for _, left := range t.nodes[:k] {
		leaf = crypto.NodeHash(left, leaf)
	}
	t.nodes[k] = leaf
	t.size++
}

// Size returns the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// Root returns the root over all leaves; without any it is the SHA-256 of the empty string.
func (t *Tree) Root() contracts.Digest {
	if t.size == 0 {
		return crypto.Sum(nil)
	}
	n := t.size
	root := t.nodes[bits.TrailingZeros64(n)]
	for n &= n - 1; n != 0; n &= n - 1 {
		root = crypto.NodeHash(t.nodes[bits.TrailingZeros64(n)], root)
	}
	return root
}

// Nodes returns the roots of the complete subtrees, from left to right, which is all that a Tree
// keeps. With the size they make the tree again: see [NewTree].
func (t *Tree) Nodes() []contracts.Digest {
	var list []contracts.Digest
	for k := len(t.nodes) - 1; k >= 0; k-- {
		if t.size&(1<<k) != 0 {
			list = append(list, t.nodes[k])
		}
	}
	return list
}

// NewTree returns the tree of size leaves whose complete subtrees have these roots, from left to
// right. The error is of a wrong number of them: any others make a tree, with another root.
func NewTree(size uint64, nodes []contracts.Digest) (Tree, error) {
	if len(nodes) != bits.OnesCount64(size) {
		return Tree{}, errors.New("proofgraph: tree: not the roots of the complete subtrees of that size")
	}
	t := Tree{size: size}
	for n := size; n != 0; nodes = nodes[1:] {
		k := bits.Len64(n) - 1
		t.nodes[k] = nodes[0]
		n &^= 1 << k
	}
	return t, nil
}
