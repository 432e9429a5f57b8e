//go:build unix

package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// An auditor is another process, which reads a log while this one writes its files again.
type auditor struct {
	in  io.Writer
	out *bufio.Reader
}

const (
	auditorDirectory = "HELM_CRASH_AUDITOR"

	orderOpen = "open"  // the log
	orderLook = "look"  // at what is open: verify it, as far as the last entry
	orderGoOn = "go on" // verify the rest, copy the log, and verify the copy
)

// hire starts an auditor of the log in a directory. It ends with the test.
func hire(t *testing.T, dir string) *auditor {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self, "-test.run=^TestCrashAuditor$", "-test.count=1", "-test.timeout=2m")
	c.Env = append(os.Environ(), auditorDirectory+"="+dir)
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	require.NoError(t, errors.Join(err1, err2, c.Start()))
	t.Cleanup(func() { in.Close(); c.Wait() })
	return &auditor{in, bufio.NewReader(out)}
}

// does has the auditor follow an order, and returns how many stubs it has seen when it has gone on:
// in the log and in the copy.
func (a *auditor) does(order string) (log, copied uint64, err error) {
	if _, err := fmt.Fprintln(a.in, order); err != nil {
		return 0, 0, err
	}
	line, err := a.out.ReadString('\n')
	if err != nil {
		return 0, 0, fmt.Errorf("the auditor ended: %v", err)
	}
	if _, err := fmt.Sscanf(line, "seen %d %d", &log, &copied); err != nil {
		return 0, 0, errors.New("the auditor: " + strings.TrimSpace(line))
	}
	return log, copied, nil
}

// Auditor is that process, which [OtherProcess] starts.
func Auditor(t *testing.T) {
	dir, ok := os.LookupEnv(auditorDirectory)
	if !ok {
		t.Skip("this is the process that TestCrashOtherProcess starts")
	}
	var s Store
	looks := 0
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var log, copied uint64
		var err error
		switch orders.Text() {
		case orderOpen:
			s, err = View(disk.OS{}, dir)
		case orderLook:
			looks++
			log, copied, err = look(&pausing{Store: s, pause: func() {
				fmt.Println("seen", 0, 0)
				orders.Scan()
			}}, dir, fmt.Sprintf("%s copy %d", dir, looks))
		}
		if err != nil {
			fmt.Printf("%q\n", err)
			continue
		}
		fmt.Println("seen", log, copied)
	}
}

// A pausing is a store that pauses before its last entry is read, once.
type pausing struct {
	Store
	pause func()
}

func (p *pausing) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		at := from
		for e, err := range p.Store.Entries(ctx, from, to) {
			if at++; from == 0 && at == to && p.pause != nil {
				p.pause()
				p.pause = nil
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// look verifies a log that is open, and a copy of it. The copy of a log whose files were written
// again meanwhile is made of the log that is opened again.
func look(p *pausing, dir, to string) (log, copied uint64, err error) {
	s := p.Store
	defer s.Close()
	if log, err = stubsIn(p); err != nil {
		return 0, 0, fmt.Errorf("the log: %w", err)
	}
	type copier interface {
		Copy(ctx context.Context, dir string) error
	}
	ctx := context.Background()
	err = s.(copier).Copy(ctx, to)
	if err != nil && strings.Contains(err.Error(), "open it again") {
		var again Store
		if again, err = View(disk.OS{}, dir); err == nil {
			defer again.Close()
			err = again.(copier).Copy(ctx, to+" again")
			to += " again"
		}
	}
	if err != nil {
		return 0, 0, err
	}
	c, err := View(disk.OS{}, to)
	if err != nil {
		return 0, 0, fmt.Errorf("the copy: %w", err)
	}
	defer c.Close()
	if copied, err = stubsIn(c); err != nil {
		return 0, 0, fmt.Errorf("the copy: %w", err)
	}
	return log, copied, nil
}

// stubsIn verifies a log and returns how many stubs it has.
func stubsIn(s proofgraph.Store) (n uint64, err error) {
	r, err := evidence.VerifyStore(context.Background(), s, evidence.Options{Trust: trustState, Origin: origin})
	if err != nil || !r.Success(evidence.Logged) {
		return 0, fmt.Errorf("%v: %w", r.Level, err)
	}
	for _, x := range r.Condensed {
		n += x.Stubs
	}
	return n, nil
}

// OtherProcess has another process verify and copy a log while Kernel.Drop writes its files again:
// each file is replaced when that process has read all entries and not the ranges, which it reads
// then.
func OtherProcess(t *testing.T) {
	t.Parallel()
	g := newLetGo(t)
	dir := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, g.disk.Save(dir))
	a := hire(t, dir)
	var seen, copies []uint64
	looks := func(during func() error) error {
		for _, order := range []string{orderOpen, orderLook} {
			if _, _, err := a.does(order); err != nil {
				return err
			}
		}
		if err := during(); err != nil {
			return err
		}
		log, copied, err := a.does(orderGoOn)
		assert.NoError(t, err)
		seen, copies = append(seen, log), append(copies, copied)
		return nil
	}
	dropping := false
	tap := &disktest.Tap{Disk: disk.OS{}, Hook: func(o *disktest.Op) error {
		if dropping && o.Is("rename", logKind) {
			return looks(o.Do)
		}
		return o.Do()
	}}
	s, err := Open(tap, dir, letGoSizes)
	require.NoError(t, err)
	defer s.Close()
	l := &process{number: 2, events: g.events, floor: true}
	require.NoError(t, l.start(s, clockAt(48), rand.NewChaCha8([32]byte{2})))
	defer l.k.Close()
	c, err := l.k.Condense(t.Context(), time.Time{})
	require.NoError(t, err)
	dropping = true
	d, err := l.k.Drop(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.Members, d.Entries)
	require.NoError(t, looks(func() error { return nil }))

	t.Logf("%d entries go; seen: %v; in the copies: %v", d.Entries, seen, copies)
	require.Greater(t, len(seen), 2, "files were written again")
	between := 0
	for i := range seen {
		assert.LessOrEqual(t, seen[i], copies[i])
		if copies[i] > 0 && copies[i] < d.Entries {
			between++
		}
	}
	assert.Positive(t, between, "no copy was made amid the rewriting")
	assert.Equal(t, d.Entries, seen[len(seen)-1])
	assert.Equal(t, d.Entries, copies[len(copies)-1])
}
