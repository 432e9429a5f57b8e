package filestore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

func TestContract(t *testing.T) {
	t.Parallel()
	helmtest.Store(t, func(t *testing.T) func() proofgraph.Store {
		dir := t.TempDir()
		return func() proofgraph.Store {
			s, err := filestore.Open(dir, filestore.Options{})
			require.NoError(t, err)
			return s
		}
	})
}
