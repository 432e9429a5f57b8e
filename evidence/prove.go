package evidence

import (
	"context"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/proofs"
	"github.com/helmkernel/helm/proofgraph"
)

// Inclusion returns the proof of RFC 6962 that the first size entries of the log in a store have
// the one with that index: the hashes next to the path from the leaf up to the root. It returns an
// error if size is more than the store has, or index is not below it.
//
// If the store has the hashes of its log (it is a [golang.org/x/mod/sumdb/tlog.HashReader], as
// filestore.Store and proofgraph.Memory are) that takes a few reads. Else, and if these do not lead
// to the root, the hashes are computed by a pass over the entries.
//
// A proof was checked before it is returned. Of a size up to that of the store's latest checkpoint
// it leads from the entry in the store to the root that leads to the checkpoint's. Of a larger size
// it is not checked that the hashes of entries after the checkpoint are theirs. The checkpoint's
// signature is not verified: that is for those who get the proof. A nil ctx never ends.
func Inclusion(ctx context.Context, s proofgraph.Store, index, size uint64) ([]contracts.Digest, error) {
	proof, err := proofs.Inclusion(orBackground(ctx), s, index, size)
	if err != nil {
		return nil, fmt.Errorf("evidence: inclusion: %w", err)
	}
	return proof, nil
}

// Consistency returns the proof of RFC 6962 that the first to entries of the log in a store begin
// with the first from. It is empty if these are all. It returns an error if to is more than the
// store has, from is above it, or from is 0, because there is no proof of what every log extends.
// What is said of [Inclusion] holds for it too.
func Consistency(ctx context.Context, s proofgraph.Store, from, to uint64) ([]contracts.Digest, error) {
	proof, err := proofs.Consistency(orBackground(ctx), s, from, to)
	if err != nil {
		return nil, fmt.Errorf("evidence: consistency: %w", err)
	}
	return proof, nil
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
