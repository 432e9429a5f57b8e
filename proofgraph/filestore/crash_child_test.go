//go:build unix

package filestore

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/require"
)

// orders are what a process is told that is to be killed.
type orders struct {
	Dir, Diary     string
	Life           int
	Seed           uint64
	Segment, Ahead int64
	Callers, Calls int
	Point          string // the failpoint; "": none, somebody else kills
	Nth            int
	Drops          bool // its store acknowledges what it does not store
}

const (
	ordersVariable = "HELM_CRASH_ORDERS"
	childReady     = "the kernel is there"
)

// command is this program again, as the process that is to be killed.
func (o orders) command() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-test.run=^TestCrashChild$", "-test.count=1", "-test.timeout=2m")
	c.Env = append(os.Environ(), ordersVariable+"="+string(text))
	return c, nil
}

// TestCrashChild is that process: a kernel under load, which TestCrashKill starts and kills.
func TestCrashChild(t *testing.T) {
	text, ok := os.LookupEnv(ordersVariable)
	if !ok {
		t.Skip("this is the process that TestCrashKill starts and kills")
	}
	var o orders
	require.NoError(t, json.Unmarshal([]byte(text), &o))
	notes, err := openDiary(o.Diary)
	require.NoError(t, err)
	p := &points{random: rand.New(rand.NewPCG(o.Seed, 1)), left: o.Nth}
	for _, f := range failpoints {
		if f.name == o.Point {
			p.failpoint = f
		}
	}
	require.Equal(t, o.Point, p.name, "no failpoint")
	l := &life{number: o.Life, notes: notes, during: p.moment, through: p.through}
	if o.Drops {
		l.through = func(s proofgraph.Store) proofgraph.Store {
			return &dropper{Store: s, from: 8, drop: func(proofgraph.Batch) bool { return true }}
		}
	}
	s, err := open(&tap{disk: osDisk{}, hook: p.hook}, o.Dir, Options{}, sizes{o.Segment, o.Ahead})
	require.NoError(t, err)
	p.enter(beginning)
	require.NoError(t, l.begin(s, nil, nil))
	p.enter(working)
	fmt.Println(childReady)
	w := &load{life: l, seed: o.Seed, callers: o.Callers, calls: o.Calls}
	w.run()
	if d, _ := l.do(t.Context(), pay("last", 0)); !d.Allowed() {
		t.Fatal("the kernel does not work any more: ", d.Err())
	}
	require.NoError(t, l.k.Close())
	require.NoError(t, s.Close())
}
