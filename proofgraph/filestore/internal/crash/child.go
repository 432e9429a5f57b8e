//go:build unix

package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// childOptions are the options of a process that is to be killed.
type childOptions struct {
	Dir, Events    string
	Process        int
	Seed           uint64
	Segment, Ahead int64
	Callers, Calls int
	Point          string // the failpoint; "": none, its parent kills it
	Nth            int
	Drops          bool // its store acknowledges what it does not store
	Condenses      bool // it is a store without a kernel, which is condensed
}

const (
	childVariable = "HELM_CRASH_ORDERS"
	childReady    = "the kernel is there"
)

// command runs this program again, as the process that is to be killed.
func (o childOptions) command() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-test.run=^TestCrashChild$", "-test.count=1", "-test.timeout=2m")
	c.Env = append(os.Environ(), childVariable+"="+string(text))
	return c, nil
}

// Child is that process: a kernel under load, which [Kill] starts and kills.
func Child(t *testing.T) {
	text, ok := os.LookupEnv(childVariable)
	if !ok {
		t.Skip("this is the process that TestCrashKill starts and kills")
	}
	var o childOptions
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	events, err := openEvents(o.Events)
	require.NoError(t, err)
	p := &points{random: rand.New(rand.NewPCG(o.Seed, 1)), left: o.Nth}
	for _, f := range slices.Concat(failpoints, condensePoints) {
		if f.name == o.Point {
			p.failpoint = f
		}
	}
	require.Equal(t, o.Point, p.name, "no failpoint")
	if o.Condenses {
		condensingChild(t, o, events, p)
		return
	}
	l := &process{number: o.Process, events: events, during: p.moment, through: p.through}
	if o.Drops {
		l.through = func(s proofgraph.Store) proofgraph.Store {
			return &dropper{Store: s, from: 8, drop: func(proofgraph.Batch) bool { return true }}
		}
	}
	s, err := Open(&disktest.Tap{Disk: disk.OS{}, Hook: p.hook}, o.Dir, Sizes{o.Segment, o.Ahead})
	require.NoError(t, err)
	p.enter(beginning)
	require.NoError(t, l.start(s, nil, nil))
	p.enter(working)
	fmt.Println(childReady)
	w := &load{process: l, seed: o.Seed, callers: o.Callers, calls: o.Calls}
	w.run()
	if d, _ := l.call(t.Context(), pay("last", 0)); !d.Allowed() {
		t.Fatal("the kernel does not work any more: ", d.Err())
	}
	require.NoError(t, l.k.Close())
	require.NoError(t, s.Close())
}
