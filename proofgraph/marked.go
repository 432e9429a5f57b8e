package proofgraph

import (
	"context"
	"errors"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

// The checkpoints of a log over a [Shared] store: what others have appended is theirs too.

// grow adds the entries to the log's tree that others have appended.
func (sh *sharing) grow(ctx context.Context) (err error) {
	defer contain.Error(&err, "proofgraph: checkpoint: the store")
	l := sh.log
	size, err := l.store.Size(ctx)
	if err != nil {
		return err
	}
	tree := l.Tree()
	if tree.Size() == 0 {
		tree = sh.markedTree() // so the entries of the last checkpoint are not read
	}
	for e, err := range l.store.Entries(ctx, tree.Size(), size) {
		if err != nil {
			return err
		}
		tree.Append(e.Hash())
		if mark := sh.mark; tree.Size() == mark.Size && tree.Root() != mark.Root {
			return errors.New("proofgraph: checkpoint: the store's last one is of other entries")
		}
	}
	if tree.Size() != size {
		return errors.New("proofgraph: checkpoint: the store has fewer entries than it says")
	}
	l.indexMu.Lock()
	defer l.indexMu.Unlock()
	l.tree = tree
	return nil
}

// storeNote has the store keep a checkpoint of that size, if it has no larger one. If that fails
// the log is sealed.
func (sh *sharing) storeNote(note []byte, size uint64) error {
	ctx := context.Background()
	return sh.alone(ctx, "checkpoint", func() error {
		err := sh.put(ctx, Change{Batch: Batch{Checkpoint: note}})
		if errors.As(err, new(*unreadError)) {
			return err
		}
		if err != nil {
			sh.log.Seal(err)
			return sh.log.Err()
		}
		sh.log.mu.Lock()
		defer sh.log.mu.Unlock()
		sh.log.marked = max(sh.log.marked, size)
		sh.log.grown(sh.log.size, sh.log.marked)
		return nil
	})
}

// markedTree returns the tree of mark, made of hashes that the store has: if it has the root that
// the log's key has signed, the entries need not be read. It returns the empty tree if the store
// has none, or others: they are derived, and may be wrong.
func (sh *sharing) markedTree() (t Tree) {
	stored, ok := sh.store.(tlog.HashReader)
	if !ok || !sh.ours {
		return t
	}
	var indexes []int64
	for from, size := uint64(0), sh.mark.Size; from < size; {
		k := bits.Len64(size-from) - 1
		indexes = append(indexes, tlog.StoredHashIndex(k, int64(from>>k)))
		from += 1 << k
	}
	list, err := stored.ReadHashes(indexes)
	if err != nil {
		return t
	}
	nodes := make([]contracts.Digest, len(list))
	for i, h := range list {
		nodes[i] = contracts.Digest(h)
	}
	if marked, err := NewTree(sh.mark.Size, nodes); err == nil && marked.Root() == sh.mark.Root {
		return marked
	}
	return t
}
