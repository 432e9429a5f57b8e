package filestore

import (
	"testing"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/require"
)

// The contract holds where segments end all the time, too.
func TestContractOfTinySegments(t *testing.T) {
	for name, z := range map[string]sizes{"pages": {4096, 512}, "a segment a batch": {256, 128}, "odd": {10_007, 1009}} {
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

// A hasty disk syncs nothing: the machine does not crash here, and thousands of segments are many syncs.
type hasty struct{ osDisk }

type hastyFile struct{ file }

func (hasty) open(path string) (file, error) { f, err := osDisk{}.open(path); return hastyFile{f}, err }
func (hasty) create(path string) (file, error) {
	f, err := osDisk{}.create(path)
	return hastyFile{f}, err
}
func (hasty) syncDir(string) error { return nil }
func (hastyFile) Sync() error      { return nil }
