//go:build unix

package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// again is a failpoint of a file that takes the place of another one, so of a condensed segment or
// its index, not of the next segment.
func again(kind, ending string) func(*points, *disktest.Op) bool {
	return func(p *points, o *disktest.Op) bool {
		if p.stage != working || !o.Is(kind, ending) {
			return false
		}
		_, err := os.Lstat(strings.TrimSuffix(o.Path, newKind))
		return err == nil
	}
}

var condensePoints = []failpoint{
	{name: "condense: a file is made", most: 8, when: after, is: again("create", logKind+newKind)},
	{name: "condense: a part of it is written", most: 20, when: amid, is: again("write", logKind+newKind)},
	{name: "condense: it is written, not synced", most: 20, when: after, is: again("write", logKind+newKind)},
	{name: "condense: it is synced", most: 16, when: after, is: again("sync", logKind+newKind)},
	{name: "condense: before it is renamed", most: 8, when: before, is: again("rename", logKind)},
	{name: "condense: after it is renamed", most: 8, when: after, is: again("rename", logKind)},
	{name: "condense: the directory is synced", most: 16, when: after, is: loaded("syncdir", "")},
	{name: "condense: a part of the index", most: 8, when: amid, is: again("write", indexKind+newKind)},
	{name: "condense: before the index is renamed", most: 8, when: before, is: again("rename", indexKind)},
	{name: "condense: after the index is renamed", most: 8, when: after, is: again("rename", indexKind)},
	{name: "condense: the last segment is ended", most: 4, when: after, is: isEndMark},
	{name: "condense: ended, not answered", most: 4, asks: momentCondensed},
	{name: "condense: an erased blob is marked", most: 3, when: after, is: isErasureMark},
}

// condensingChild appends, erases and condenses at the same time.
func condensingChild(t *testing.T, o childOptions, events recorder, p *points) {
	s, err := Open(&disktest.Tap{Disk: disk.OS{}, Hook: p.hook}, o.Dir, Sizes{o.Segment, o.Ahead})
	require.NoError(t, err)
	p.enter(working)
	fmt.Println(childReady)
	size, err := s.Size(t.Context())
	require.NoError(t, err)
	l := &condensedLog{s: s, events: events, during: p.moment}
	var stored atomic.Int64
	stored.Store(int64(size / 2))
	over, all := make(chan struct{}), sync.WaitGroup{}
	all.Go(func() {
		r := rand.New(rand.NewPCG(o.Seed, 1))
		for done := false; !done; {
			select {
			case <-over:
				done = true
			default:
			}
			if n := int(stored.Load()); n > 2 {
				assert.NoError(t, l.condense(1+r.IntN(4), n-r.IntN(3)))
				if r.IntN(2) == 0 {
					assert.NoError(t, l.erase(r.IntN(n)))
				}
			}
		}
	})
	for n := int(size / 2); n < int(size/2)+o.Calls; n++ {
		require.NoError(t, l.append(n))
		stored.Store(int64(n + 1))
	}
	close(over)
	all.Wait()
	require.NoError(t, s.Close())
}

// CondenseKill kills processes while they condense a log, at each failpoint and at random moments,
// and audits the log that each has left.
func CondenseKill(t *testing.T) {
	wanted := *wantedKills
	if wanted == 0 {
		wanted = max(defaultKills()/2, 2*len(condensePoints))
	}
	base, err := os.MkdirTemp("", "crash-condense-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			os.RemoveAll(base)
		}
	})
	var mu sync.Mutex
	kills, tried := map[string]int{}, map[string]int{}
	var audits, stubs, gone int
	const each = 7 // processes over one directory
	parallel((wanted+each-1)/each, func(directory int) {
		random := rand.New(rand.NewPCG(*Seed, 1<<33|uint64(directory)))
		home := filepath.Join(base, fmt.Sprint(directory))
		if !assert.NoError(t, os.Mkdir(home, 0o700)) {
			return
		}
		z := someSizes[directory%2]
		o := childOptions{Dir: filepath.Join(home, "log"), Events: filepath.Join(home, "notes"), Segment: z.Segment,
			Ahead: z.Ahead, Condenses: true}
		for i := range each {
			o.Process, o.Seed, o.Calls, o.Point = i+1, random.Uint64(), 40, ""
			if k := directory*each + i; k%5 < 4 { // each point in its turn
				f := condensePoints[(k-k/5)%len(condensePoints)]
				o.Point, o.Nth = f.name, 1+random.IntN(f.most)
			}
			name, killed, err := o.Point, false, error(nil)
			if name == "" {
				name = atRandom
			}
			for ; !killed && err == nil; o.Nth, o.Seed = 1, o.Seed+1 {
				killed, err = o.kill(time.Duration(random.IntN(150_000)) * time.Microsecond * slowness())
				if o.Nth <= 1 {
					break
				}
			}
			what := fmt.Sprintf("-crash.seed %d, in %s, after process %d, %s", *Seed, home, i+1, name)
			a, err2 := condensedDirectory(o, z)
			mu.Lock()
			if tried[name]++; killed {
				kills[name]++
			}
			audits, stubs, gone = audits+1, stubs+a.stubs, gone+a.gone
			mu.Unlock()
			if !assert.NoError(t, errors.Join(err, err2), "%s", what) || !assert.Empty(t, a.wrong, "%s", what) {
				return
			}
		}
	})
	killed := 0
	for name, n := range tried {
		killed += kills[name]
		t.Logf("%3d kills in %3d tries: %s", kills[name], n, name)
		assert.False(t, kills[name] == 0 && n >= 4, "nothing was ever killed at %q", name)
	}
	t.Logf("%d kills, %d audits, %d stubs, %d blobs gone; seed %d", killed, audits, stubs, gone, *Seed)
	assert.True(t, killed >= wanted/2 && stubs > 0 && gone > 0, "too few cases")
}

// kill starts the process and kills it, unless it reaches its failpoint, or the end of its work.
func (o childOptions) kill(after time.Duration) (killed bool, err error) {
	c, err := o.command()
	if err != nil {
		return false, err
	}
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return false, err
	}
	if o.Point != "" {
		after = 2 * time.Minute
	}
	timer := time.AfterFunc(after, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	err = c.Wait()
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("the process ended by itself: %v\n%s", err, out.String())
	}
	return false, nil
}

// condensedDirectory audits the directory that a process has left.
func condensedDirectory(o childOptions, z Sizes) (*condensedAudit, error) {
	a := &condensedAudit{}
	events, err := readEvents(o.Events)
	if err != nil {
		return a, err
	}
	recorded, err := openEvents(o.Events)
	if err != nil {
		return a, err
	}
	defer recorded.f.Close()
	a.events = events
	a.open(disk.OS{}, o.Dir, z, recorded)
	return a, nil
}
