package kerneltest

import (
	"testing"

	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

// This file is replaced, by go test -overlay, with one for another store: see make postgres.

// several is the name in HELM_TEST_STORE of the stores that openSeveral makes.
const several = "shared"

// openSeveral makes a store that several logs write to. Its writers have a method Kill.
func openSeveral(testing.TB) proofgraph.Shared { return sharedmem.New() }
