package helm_test

import (
	"context"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// lying is a store that hands out blobs of its own.
type lying struct{ proofgraph.Store }

func (lying) Blob(context.Context, contracts.Digest) ([]byte, error) { return []byte(`"forged"`), nil }
