package filestore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// The contract holds where segments end all the time, too.
func TestContractOfTinySegments(t *testing.T) {
	t.Parallel()
	for name, z := range map[string]sizes{"pages": {4096, 512}, "a segment a batch": {256, 128},
		"odd": {10_007, 1009}} {
		t.Run(name, func(t *testing.T) {
			helmtest.Store(t, func(t *testing.T) func() proofgraph.Store {
				dir := t.TempDir()
				return func() proofgraph.Store {
					s, err := open(hasty{}, dir, Options{}, z)
					require.NoError(t, err)
					return s
				}
			})
		})
	}
}

// A hasty disk syncs nothing: the machine does not crash here, and thousands of segments are many
// syncs.
type hasty struct{ disk.OS }

type hastyFile struct{ disk.File }

func (hasty) Open(path string) (disk.File, error) {
	f, err := disk.OS{}.Open(path)
	return hastyFile{f}, err
}
func (hasty) Create(path string) (disk.File, error) {
	f, err := disk.OS{}.Create(path)
	return hastyFile{f}, err
}
func (hasty) SyncDir(string) error { return nil }
func (hastyFile) Sync() error      { return nil }
