package filestore

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// The process that made the directory may have been killed before the directory was durable. A
// process that finds it empty makes it durable.
func TestAnEmptyDirectoryIsMadeToLast(t *testing.T) {
	t.Parallel()
	d := disktest.NewRAM()
	d.Dirs[dir] = true
	var done []string
	s, err := open(&disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
		if o.Changes {
			done = append(done, o.Kind)
		}
		return o.Do()
	}}, dir, Options{}, small)
	require.NoError(t, err)
	defer s.Close()
	assert.Equal(t, []string{"mkdir", "lock"}, done[:2])
	assert.Equal(t, "syncdir", done[len(done)-1], "the name of the file end")
}

// A process that waits for another's end reads the names of files while the other begins a segment:
// it may see the index that is written last, and not the segment.
func TestNamesThatAreReadWhileASegmentBegins(t *testing.T) {
	t.Parallel()
	const n = 12
	d := &forgetfulDisk{RAM: logOf(t, n).disk()}
	s := mustOpen(t, d)
	mustHold(t, s, n)
	assert.True(t, d.glances >= 2, "the names were read once")
	_, err := open(&forgetfulDisk{RAM: d.RAM, always: true}, dir, Options{}, small)
	assert.True(t, err != nil && strings.Contains(err.Error(), "00000003.log: the file is missing"), "%v", err)
}

// A forgetfulDisk does not list the last segment the first time, or always.
type forgetfulDisk struct {
	*disktest.RAM
	glances int
	always  bool
}

func (g *forgetfulDisk) List(dir string) ([]disk.Name, error) {
	names, err := g.RAM.List(dir)
	if g.glances++; g.glances == 2 || g.always {
		last := slices.IndexFunc(names, func(n disk.Name) bool { return n.Name == "00000003.log" })
		names = slices.Delete(names, last, last+1)
	}
	return names, err
}
