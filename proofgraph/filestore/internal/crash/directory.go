//go:build unix

package crash

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A directory is one directory and the processes over it.
type directory struct {
	*killRun
	*plan
	home, dir, events string
}

// kill starts one process and kills it.
func (v *directory) kill(number int, s step) bool {
	o := childOptions{Dir: v.dir, Events: v.events, Process: number, Seed: v.random.Uint64(), Segment: v.sizes.Segment,
		Ahead:   v.sizes.Ahead,
		Callers: 1 + v.random.IntN(5), Point: s.name, Nth: s.nth, Drops: v.drops}
	if s.name != "" {
		o.Calls = 60
	}
	name := s.name
	if name == "" {
		name = atRandom
	}
	hit, err := v.start(o)
	if err == nil && s.name != "" && !hit && o.Nth > 1 { // it did not come there so often
		o.Nth, o.Seed = 1, o.Seed+1
		hit, err = v.start(o)
	}
	if err != nil {
		v.errorf(v.plan, "process %d, to be killed %q, time %d: %v", number, name, o.Nth, err)
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tried[name]++; hit {
		v.kills[name]++
	}
	return true
}

// start starts a process and returns whether it was killed; if not, it came to the end of its work.
func (v *directory) start(o childOptions) (killed bool, err error) {
	c, err := o.command()
	if err != nil {
		return false, err
	}
	out, in := io.Pipe()
	c.Stdout, c.Stderr = in, in
	if err := c.Start(); err != nil {
		return false, err
	}
	ready, said, end := make(chan struct{}), make(chan string, 1), make(chan error, 1)
	go func() {
		text := ""
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == childReady {
				close(ready)
				continue
			}
			text += lines.Text() + "\n"
		}
		said <- text
	}()
	go func() {
		end <- c.Wait()
		in.Close()
	}()
	patience := time.After(2 * time.Minute)
	if o.Point == "" {
		v.killAtRandom(c.Process, ready, end)
	}
	select {
	case err = <-end:
	case <-patience:
		_ = c.Process.Kill()
		<-end
		return false, errors.New("it hung")
	}
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("it ended by itself: %v\n%s", err, <-said)
	}
	return false, nil
}

// killAtRandom kills a process at a random moment, from its start on or from when its kernel is
// ready. Sometimes an auditor reads the log just before. If the process ended by itself, its status
// shows it.
func (v *directory) killAtRandom(p *os.Process, ready chan struct{}, end chan error) {
	defer p.Kill()
	if v.random.IntN(3) == 0 {
		time.Sleep(time.Duration(v.random.IntN(40_000)) * time.Microsecond * slowness())
		return
	}
	select {
	case <-ready:
	case err := <-end:
		end <- err
		return
	}
	time.Sleep(time.Duration(v.random.IntN(25_000)) * time.Microsecond)
	if v.random.IntN(3) == 0 {
		v.view()
		v.openSecond(p.Pid)
	}
}

// openSecond tries to open the directory for a second writer.
func (v *directory) openSecond(pid int) {
	s, err := Open(disk.OS{}, v.dir, v.sizes)
	if err == nil {
		s.Close()
	}
	if by := (disk.HeldError{}); !errors.As(err, &by) || by.PID != strconv.Itoa(pid) {
		v.errorf(v.plan, "process %d writes to it, and opening it again says: %v", pid, err)
	}
}

// view reads the log as an auditor, while the process runs or after it.
func (v *directory) view() {
	events, err := readEvents(v.events)
	if err != nil {
		v.errorf(v.plan, "%v", err)
		return
	}
	recorded, err := openEvents(v.events)
	if err != nil {
		v.errorf(v.plan, "%v", err)
		return
	}
	defer recorded.f.Close()
	a := &audit{events: events, recorder: recorded}
	a.view(disk.OS{}, v.dir)
	for _, w := range a.wrong {
		v.errorf(v.plan, "%s", w)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.looked++
}

// exists reports whether the directory exists.
func (v *directory) exists() bool {
	_, err := os.Stat(v.dir)
	return err == nil
}

// audit opens the directory. If anything is wrong, a copy of it as it was before stays next to it.
func (v *directory) audit(number int, last bool) bool {
	if v.random.IntN(4) == 0 && v.exists() {
		v.view()
	}
	was := filepath.Join(v.home, "before")
	err := os.RemoveAll(was)
	if err == nil && v.exists() {
		err = os.CopyFS(was, os.DirFS(v.dir))
	}
	if err != nil {
		v.errorf(v.plan, "%v", err)
		return false
	}
	events, err := readEvents(v.events)
	if err != nil {
		v.errorf(v.plan, "%v", err)
		return false
	}
	recorded, err := openEvents(v.events)
	if err != nil {
		v.errorf(v.plan, "%v", err)
		return false
	}
	defer recorded.f.Close()
	a := &audit{events: events, recorder: recorded}
	torn := a.open(disk.OS{}, v.dir, v.sizes)
	v.mu.Lock()
	v.audits++
	ask := last || v.audits%50 == 0
	v.mu.Unlock()
	if ask && len(a.wrong) == 0 && v.oracle != nil {
		if err := v.oracle.verify(filepath.Join(v.home, "pack.tar"), a.pack); err != nil {
			a.errorf("%v", err)
		}
		v.mu.Lock()
		v.oracles++
		v.mu.Unlock()
	}
	for _, w := range a.wrong {
		v.errorf(v.plan, "after process %d (%s): %s", number, v.steps[number-1].name, w)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.torn += torn
	if !last { // what is in the log is counted once, at the end
		a.effects, a.decisions, a.receipts, a.acknowledged = 0, 0, 0, 0
	} else {
		v.directories++
	}
	v.add(a.counts)
	return len(a.wrong) == 0
}
