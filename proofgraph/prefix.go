package proofgraph

import (
	"errors"

	"github.com/helmkernel/helm/contracts"
)

// A Prefix is what a log holds of its first entries, for others to go on from there without reading
// them: see [Options].Prefix. [Fold] makes it. Of one log and size there is one. It has hashes of
// entries, names of sessions and times, and nothing else that is in an entry.
//
// To open a log from a prefix is to trust it, as far as it cannot be compared with the store. Sign
// it before it is stored, and compare the root of [Prefix.Tree] with that of a checkpoint.
type Prefix struct {
	Size       uint64             // number of the entries: one or more
	Genesis    contracts.Digest   // hash of the first
	Last       contracts.Digest   // hash of the last
	Nodes      []contracts.Digest // roots of the complete subtrees, the largest first: one for each bit of Size
	Open       []ChainEnd         // the sessions that are not closed, by their names; "" is the first
	Closed     []ClosedChain      // the others, by their names
	Unanswered []EntryAt          // the ALLOWs without a receipt, by their indexes: entries that come will name them
	Forgotten  []byte             // bit i%8 of byte i/8 is 1 if entry i is in a set of Options.Condensed; ends with a 1
}

// A ChainEnd is the last entry of a session.
type ChainEnd struct {
	Session string
	Next    uint64           // seq of the next entry
	Last    contracts.Digest // hash of the last one
	Lamport uint64           // of the last one
	Time    contracts.Time   // of the last one
	Index   uint64           // of the last one
}

// A ClosedChain is a session that is closed.
type ClosedChain struct {
	Session string
	Index   uint64 // of the entry that closed it
}

// An EntryAt is an entry that others may name.
type EntryAt struct {
	Index   uint64
	Hash    contracts.Digest
	Lamport uint64
}

// Tree returns the tree of the entries. Its root is that of the log at this size. It returns an
// error if there is not a node for each bit of Size.
func (p *Prefix) Tree() (t Tree, err error) {
	nodes := p.Nodes
	for k := len(t.nodes) - 1; k >= 0; k-- {
		if p.Size>>k&1 == 0 {
			continue
		}
		if len(nodes) == 0 {
			return Tree{}, errNodes
		}
		t.nodes[k], nodes = nodes[0], nodes[1:]
	}
	if len(nodes) > 0 {
		return Tree{}, errNodes
	}
	t.size = p.Size
	return t, nil
}

var errNodes = errors.New("proofgraph: prefix: not as many nodes as its size has bits")
