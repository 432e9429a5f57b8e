package filestore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// The contract holds although segments end all the time.
func TestContractOfTinySegments(t *testing.T) {
	t.Parallel()
	for name, z := range map[string]sizes{"pages": {4096, 512}, "a segment a batch": {256, 128},
		"odd": {10_007, 1009}} {
		t.Run(name, func(t *testing.T) {
			helmtest.Store(t, func(t *testing.T) func() proofgraph.Store {
				dir := t.TempDir()
				return func() proofgraph.Store {
					s, err := open(unsynced{}, dir, Options{}, z)
					require.NoError(t, err)
					return s
				}
			})
		})
	}
}

// An unsynced disk syncs nothing: the machine does not crash here, and thousands of segments are
// many syncs.
type unsynced struct{ disk.OS }

type unsyncedFile struct{ disk.File }

func (unsynced) Open(path string) (disk.File, error) {
	f, err := disk.OS{}.Open(path)
	return unsyncedFile{f}, err
}
func (unsynced) Create(path string) (disk.File, error) {
	f, err := disk.OS{}.Create(path)
	return unsyncedFile{f}, err
}
func (unsynced) SyncDir(string) error { return nil }
func (unsyncedFile) Sync() error      { return nil }
