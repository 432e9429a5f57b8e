//go:build unix

package crash

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A stage is how far a process has come.
type stage int

const (
	opening   stage = iota // in open
	beginning              // in New
	working
)

// An instant is when the process is killed, relative to an operation of the disk.
type instant int

const (
	before instant = iota
	amid           // a write is done up to a random byte
	after
)

// A failpoint is a point at which a process is killed, when it reaches it for the nth time.
type failpoint struct {
	name  string
	needs string // what must be there: "" anything, or one of those below
	rolls bool   // only if segments are small
	most  int    // n is between 1 and this
	when  instant
	is    func(p *points, o *disktest.Op) bool // of the disk
	asks  string                               // of the kernel: the moment that points.moment is called with
}

const (
	needsNothing = "a new directory"
	needsTorn    = "a torn tail"
	needsOpen    = "a decision without a receipt"
	needsHalf    = "an erasure that was cut short"
)

func loaded(kind, ending string) func(*points, *disktest.Op) bool {
	return func(p *points, o *disktest.Op) bool { return p.stage == working && o.Is(kind, ending) }
}

func opened(kind, ending string) func(*points, *disktest.Op) bool {
	return func(p *points, o *disktest.Op) bool { return p.stage == opening && o.Is(kind, ending) }
}

func settling(kind, ending string) func(*points, *disktest.Op) bool {
	return func(p *points, o *disktest.Op) bool { return p.stage == beginning && o.Is(kind, ending) }
}

func isFrame(p *points, o *disktest.Op) bool {
	return p.stage == working && o.Is("write", logKind) && bytes.HasPrefix(o.Data, []byte{kindBegin})
}

func isAhead(p *points, o *disktest.Op) bool {
	return p.stage == working && o.Is("write", logKind) && disktest.Blank(o.Data)
}

func isEndMark(p *points, o *disktest.Op) bool {
	return o.Is("write", logKind) && bytes.HasPrefix(o.Data, []byte{kindNext})
}

func isErasureMark(p *points, o *disktest.Op) bool {
	return p.stage == working && o.Is("write", logKind) && bytes.Equal(o.Data, []byte{kindErased})
}

func isOverwrite(p *points, o *disktest.Op) bool {
	return p.stage == working && o.Is("write", logKind) && len(o.Data) > 1 && bytes.Equal(o.Data[:2], overwritten[:2])
}

func isAny(p *points, o *disktest.Op) bool { return p.stage != working && o.Changes }

var failpoints = []failpoint{
	{name: "frame: before the write", most: 40, when: before, is: isFrame},
	{name: "frame: a part is written", most: 40, when: amid, is: isFrame},
	{name: "frame: written, not synced", most: 40, when: after, is: isFrame},
	{name: "frame: synced, not answered", most: 40, when: after, is: loaded("sync", logKind)},
	{name: "zeros ahead: a part is written", most: 2, when: amid, is: isAhead, rolls: true},

	{name: "between decision and run", most: 30, asks: momentRun},
	{name: "after the effect", most: 30, asks: momentEffect},
	{name: "decision: before Append", most: 30, asks: "decision before"},
	{name: "decision: after Append", most: 30, asks: "decision after"},
	{name: "receipt: before Append", most: 30, asks: "receipt before"},
	{name: "receipt: after Append", most: 30, asks: "receipt after"},

	{name: "roll: a file is made", most: 2, when: after, rolls: true, is: loaded("create", logKind+newKind)},
	{name: "roll: a part of it is written", most: 4, when: amid, rolls: true, is: loaded("write", logKind+newKind)},
	{name: "roll: it is synced", most: 2, when: after, rolls: true, is: loaded("sync", logKind+newKind)},
	{name: "roll: before it is renamed", most: 2, when: before, rolls: true, is: loaded("rename", logKind)},
	{name: "roll: after it is renamed", most: 2, when: after, rolls: true, is: loaded("rename", logKind)},
	{name: "roll: the directory is synced", most: 2, when: after, rolls: true, is: loaded("syncdir", "")},
	{name: "roll: before the end mark", most: 2, when: before, rolls: true, is: isEndMark},
	{name: "roll: a part of the end mark", most: 2, when: amid, rolls: true, is: isEndMark},
	{name: "roll: after the end mark", most: 2, when: after, rolls: true, is: isEndMark},
	{name: "index: a file is made", most: 2, when: after, rolls: true, is: loaded("create", indexKind+newKind)},
	{name: "index: a part is written", most: 2, when: amid, rolls: true, is: loaded("write", indexKind+newKind)},
	{name: "index: before it is renamed", most: 2, when: before, rolls: true, is: loaded("rename", indexKind)},
	{name: "index: after it is renamed", most: 2, when: after, rolls: true, is: loaded("rename", indexKind)},

	{name: "erase: before the mark", most: 3, when: before, is: isErasureMark},
	{name: "erase: marked, not synced", most: 3, when: after, is: isErasureMark},
	{name: "erase: before the bytes", most: 3, when: before, is: isOverwrite},
	{name: "erase: a part is overwritten", most: 3, when: amid, is: isOverwrite},
	{name: "erase: overwritten, not synced", most: 3, when: after, is: isOverwrite},
	{name: "erase: synced, not answered", most: 3, asks: momentErased},
	{name: "erase: the index is removed", most: 1, when: after, rolls: true, is: loaded("remove", indexKind)},
	{name: "erased before: a write", needs: needsHalf, most: 2, when: before, is: opened("write", logKind)},
	{name: "erased before: a part of a write", needs: needsHalf, most: 2, when: amid, is: opened("write", logKind)},
	{name: "erased before: synced", needs: needsHalf, most: 2, when: after, is: opened("sync", logKind)},

	{name: "repair: before the write", needs: needsTorn, most: 2, when: before, is: opened("write", logKind)},
	{name: "repair: a part is written", needs: needsTorn, most: 2, when: amid, is: opened("write", logKind)},
	{name: "repair: written, not synced", needs: needsTorn, most: 2, when: after, is: opened("write", logKind)},
	{name: "repair: synced", needs: needsTorn, most: 1, when: after, is: opened("sync", logKind)},
	{name: "repair: the directory is synced", needs: needsTorn, most: 1, when: after, is: opened("syncdir", "")},
	{name: "New settles: a part is written", needs: needsOpen, most: 1, when: amid, is: settling("write", logKind)},
	{name: "New settles: written, not synced", needs: needsOpen, most: 1, when: after, is: settling("write", logKind)},
	{name: "New settles: synced", needs: needsOpen, most: 1, when: after, is: settling("sync", logKind)},

	{name: "a log begins: before a change", needs: needsNothing, most: 13, when: before, is: isAny},
	{name: "a log begins: a part of a write", needs: needsNothing, most: 4, when: amid,
		is: func(p *points, o *disktest.Op) bool { return isAny(p, o) && o.Kind == "write" }},
	{name: "a log begins: after a change", needs: needsNothing, most: 13, when: after, is: isAny},
}

// A points kills this process at a failpoint. It wraps the disk of the store, and the store of the
// kernel.
type points struct {
	failpoint
	random *rand.Rand

	mu    sync.Mutex
	stage stage
	left  int // how often the process may still reach the point, and once more
}

// kill ends this process at once, as the system does when it has no memory left.
func kill() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// here reports whether this is the nth time.
func (p *points) here() bool {
	p.left--
	return p.left == 0
}

func (p *points) enter(s stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage = s
}

func (p *points) hook(o *disktest.Op) error {
	p.mu.Lock()
	hit := p.is != nil && p.is(p, o) && (p.when != amid || len(o.Data) > 0) && p.here()
	n := 0
	if hit && p.when == amid {
		n = p.random.IntN(len(o.Data))
	}
	p.mu.Unlock()
	if !hit {
		return o.Do()
	}
	switch p.when {
	case amid:
		_ = o.Part(n)
	case after:
		_ = o.Do()
	}
	kill()
	return nil
}

// moment is called with what the kernel does.
func (p *points) moment(m string) {
	p.mu.Lock()
	hit := p.asks != "" && p.asks == m && p.here()
	p.mu.Unlock()
	if hit {
		kill()
	}
}

// through wraps a store so that moment is called for decisions and receipts.
func (p *points) through(s proofgraph.Store) proofgraph.Store {
	if !strings.Contains(p.asks, " ") {
		return s
	}
	return &storePoints{s, p}
}

type storePoints struct {
	proofgraph.Store
	points *points
}

func (s *storePoints) Append(ctx context.Context, b proofgraph.Batch) error {
	var what string
	switch {
	case holds(b, contracts.KindReceipt): // and perhaps a decision too
		what = "receipt"
	case holds(b, contracts.KindDecision):
		what = "decision"
	}
	s.points.moment(what + " before")
	err := s.Store.Append(ctx, b)
	s.points.moment(what + " after")
	return err
}
