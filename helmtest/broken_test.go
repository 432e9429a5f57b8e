package helmtest

import (
	"slices"

	"github.com/helmkernel/helm/proofgraph"
)

// A breach is a store that breaks a promise. Its name is what it does wrong.
type breach struct {
	name  string
	place func() func() proofgraph.Store
}

type breaches struct {
	promise string
	stores  []breach
}

var broken = slices.Concat(brokenAppends, brokenReads, brokenBlobs, brokenBytes, brokenConcurrently, brokenContexts,
	brokenOpens, brokenErasers, brokenCondensers, brokenRememberers, brokenHashes)
