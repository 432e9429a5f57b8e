package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/stub"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A condenser is what a store needs to condense segments, and to save a state, while other calls go
// on.
type condenser struct {
	saves     gate        // held during one SaveState
	condenses gate        // held during one Condense
	rewrites  gate        // held while one segment is condensed, and during an EraseBlob; protects left
	closing   atomic.Bool // Close was called
	appended  atomic.Uint64

	named map[contracts.Digest]bool // blobs that were appended during a Condense, and were there; nil: there is none
	left  string                    // a file that may be there, or be there again after a crash; "": none
}

func newCondenser() condenser {
	return condenser{saves: make(gate, 1), condenses: make(gate, 1), rewrites: make(gate, 1)}
}

// tidy removes the file that is left of a condensing that failed, for good, and makes the name
// durable of one that was renamed. Without that an erased blob could be there again after a crash.
// The caller holds rewrites.
func (c *condenser) tidy(d disk.Disk) error {
	if c.left == "" {
		return nil
	}
	if err := d.Remove(c.left); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.SyncDir(filepath.Dir(c.left)); err != nil {
		return err
	}
	c.left = ""
	return nil
}

// A gate lets one goroutine at a time pass. Those who wait may give up.
type gate chan struct{}

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) leave() { <-g }

// A condensing is one Condense. It goes from segment to segment.
type condensing struct {
	*Store
	ctx    context.Context
	until  uint64 // size of the log when it began
	known  uint64 // number of blobs then
	gone   bitmap // of these, by number
	reader contracts.Reader

	at    int       // the present segment; those before it are done
	next  uint64    // the least index that may come
	stubs stubLines // of the present segment
	lines []byte    // the memory of their lines

	worked   time.Time // when the last piece of work began
	appended uint64    // appends until then
}

// stubLines are stubs by their indexes.
type stubLines []struct {
	index uint64
	line  []byte
}

// take returns the line with an index, if that is the next one, and then drops it.
func (s *stubLines) take(index uint64) []byte {
	if len(*s) == 0 || (*s)[0].index != index {
		return nil
	}
	line := (*s)[0].line
	*s = (*s)[1:]
	return line
}

type bitmap []uint64

func (b bitmap) set(i uint64)      { b[i/64] |= 1 << (i % 64) }
func (b bitmap) clear(i uint64)    { b[i/64] &^= 1 << (i % 64) }
func (b bitmap) has(i uint64) bool { return i/64 < uint64(len(b)) && b[i/64]>>(i%64)&1 != 0 }

// begin has appends leave word of the blobs that they name from now on.
func (c *condensing) begin() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.writable(c.ctx); err != nil {
		return err
	}
	c.named = map[contracts.Digest]bool{}
	c.until, c.known = c.entries, c.blobs.Len()
	c.gone = make(bitmap, c.known/64+1)
	c.worked = time.Now()
	return nil
}

// run passes over blobs and stubs, and then over the segments that are left.
//
// A crash may come after any segment, and no stub may be there then whose entry named, alone, a
// blob that is still there. In a segment that was never condensed each blob has its batch, whose
// entries are whole and go, if they do, with the same file. Of others some are stubs by now, so
// blobs go from these segments first.
func (c *condensing) run(stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest]) error {
	n := 0
	more := func() error {
		if n++; n%1024 == 0 {
			c.rest()
		}
		return c.more()
	}
	for d := range blobs {
		if err := more(); err != nil {
			return err
		}
		c.forget(d)
	}
	if err := c.blobsOfCondensed(); err != nil {
		return err
	}
	for index, line := range stubs {
		if err := more(); err != nil {
			return err
		}
		if err := c.put(index, line); err != nil {
			return err
		}
	}
	return c.others()
}

func (c *condensing) done() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.named = nil
}

// numbers calls f with the number of each blob of a digest that was there when the condensing
// began. The caller holds mu or writing.
func (c *condensing) numbers(d contracts.Digest, f func(number uint64)) {
	for n, _, ok := c.blobs.Lookup(d); ok; n, ok = c.blobs.Earlier(n) {
		if n < c.known {
			f(n)
		}
	}
}

func (c *condensing) forget(d contracts.Digest) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	c.numbers(d, c.gone.set)
}

// put takes the next stub. It condenses the segments before that of the stub.
func (c *condensing) put(index uint64, line []byte) error {
	if index < c.next || index >= c.until {
		return fmt.Errorf("entry %d of %d, and %d or a later one is due", index, c.until, c.next)
	}
	for c.next = index + 1; index >= c.segmentEnd(c.at); {
		if err := c.segment(); err != nil {
			return err
		}
	}
	from := len(c.lines)
	c.lines = append(c.lines, line...)
	c.stubs = append(c.stubs, struct {
		index uint64
		line  []byte
	}{index, c.lines[from:]})
	return nil
}

// segmentEnd returns the index after the last entry of a segment.
func (c *condensing) segmentEnd(at int) uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	g := c.segments[at]
	return g.first + uint64(len(g.entries))
}

// blobsOfCondensed has blobs go from the segments that were condensed before.
func (c *condensing) blobsOfCondensed() error {
	c.mu.RLock()
	segments := slices.Clone(c.segments)
	c.mu.RUnlock()
	for at, g := range segments {
		if g.times > 0 {
			c.at = at
			if err := c.segment(); err != nil {
				return err
			}
		}
	}
	c.at = 0
	return nil
}

// others condenses the segments that are left.
func (c *condensing) others() error {
	c.mu.RLock()
	n := len(c.segments)
	c.mu.RUnlock()
	for c.at < n {
		if err := c.segment(); err != nil {
			return err
		}
	}
	return nil
}

// segment condenses the present segment, if anything of it goes, and passes on to the next one.
func (c *condensing) segment() error {
	if err := c.rewrites.enter(c.ctx); err != nil {
		return err
	}
	defer c.rewrites.leave()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	g, goes, err := c.due()
	if err != nil {
		return err
	}
	if goes {
		if err := c.condense(g); err != nil {
			return err
		}
	}
	c.at, c.stubs, c.lines = c.at+1, c.stubs[:0], c.lines[:0]
	return nil
}

// due returns the present segment, and whether something in it may go. Then it is full: if it was
// the last, it is ended, so that what goes need not wait for that.
func (c *condensing) due() (*segment, bool, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.writable(c.ctx); err != nil {
		return nil, false, err
	}
	for d := range c.named {
		c.numbers(d, c.gone.clear)
	}
	g := c.segments[c.at]
	goes := len(c.stubs) > 0
	for i := 0; i < len(g.blobs) && !goes; i++ {
		goes = c.goes(g, i)
	}
	if !goes || g != c.last() {
		return g, goes, c.tidy(c.disk)
	}
	next, err := c.prepare(g.log)
	if err != nil {
		return nil, false, err
	}
	if err := c.roll(next); err != nil {
		c.dead = fmt.Errorf("filestore: condense: %w", err)
		return nil, false, c.dead
	}
	return g, goes, c.tidy(c.disk)
}

// goes reports whether a blob is there and goes.
func (c *condensing) goes(g *segment, blob int) bool {
	return g.blobs[blob] != 0 && c.gone.has(g.firstBlob+uint64(blob))
}

// condense writes a full segment into another file, without what goes, and puts that in its place.
func (c *condensing) condense(g *segment) (err error) {
	from, g, err := c.view(g)
	if err != nil {
		return err
	}
	defer from.Close()
	c.worked = time.Now()
	stubs, err := c.replacing(from, g)
	if err != nil {
		return err
	}
	stay, goes := make(map[uint32]uint32, len(g.blobs)), len(stubs) > 0
	for i, at := range g.blobs {
		if c.goes(g, i) {
			goes = true
		} else if at != 0 {
			stay[at] = 0
		}
	}
	if !goes {
		return nil
	}
	c.left = g.path + newKind
	to, err := c.disk.Create(c.left)
	if err != nil {
		return err
	}
	defer func() {
		to.Close()
		if err != nil {
			_ = c.tidy(c.disk) // or later: the disk may be full of it
		}
	}()
	r, err := newRewriting(g, from, to, stay, c.rest)
	if err != nil {
		return err
	}
	if err := r.copy(stubs.take, c.more); err != nil {
		return err
	}
	for {
		if err := r.finish(); err != nil {
			return err
		}
		next, missing, err := c.swap(r)
		switch {
		case err != nil:
			return err
		case next != nil:
			c.writeIndex(next)
			c.dropDigests(next)
			return nil
		}
		if err := r.keep(missing); err != nil {
			return err
		}
	}
}

// dropDigests frees the memory that the index of blobs has for those that are gone.
func (c *condensing) dropDigests(g *segment) {
	for from := 0; from < len(g.blobs); from += 1024 {
		c.mu.Lock()
		for i := from; i < min(from+1024, len(g.blobs)); i++ {
			if g.blobs[i] == 0 {
				c.blobs.Forget(g.firstBlob + uint64(i))
			}
		}
		c.mu.Unlock()
	}
}

// rest ends a piece of work. If there were appends meanwhile, they have six sevenths of the time.
func (c *condensing) rest() {
	if n := c.condenser.appended.Load(); n != c.appended {
		c.appended = n
		time.Sleep(min(6*time.Since(c.worked), time.Second))
	}
	c.worked = time.Now()
}

// more returns an error if the rewriting of a segment is to end.
func (c *condensing) more() error {
	if c.closing.Load() {
		return errClosed
	}
	return c.ctx.Err()
}

// replacing returns those of the segment's stubs whose entries are not stubs already.
func (c *condensing) replacing(f disk.File, g *segment) (stubLines, error) {
	w := window{file: f, segment: g, least: 64 << 10}
	list := c.stubs[:0]
	for i, x := range c.stubs {
		if i%1024 == 1023 {
			c.rest()
		}
		if err := c.more(); err != nil {
			return nil, err
		}
		e, err := w.entry(g.entries[x.index-g.first])
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", x.index, err)
		}
		replaces, err := stub.Replaces(&c.reader, e, x.line)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", x.index, err)
		}
		if replaces {
			list = append(list, x)
		}
	}
	return list, nil
}

// swap puts the file that was written in the place of the segment's. If it lacks blobs that were
// appended meanwhile, it does nothing, and returns their offsets in the old file.
func (c *condensing) swap(r *rewriting) (next *segment, missing []uint32, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.writable(c.ctx); err != nil {
		return nil, nil, err
	}
	for d := range c.named {
		c.numbers(d, func(number uint64) {
			i := number - r.old.firstBlob
			if number < r.old.firstBlob || i >= uint64(len(r.old.blobs)) || r.old.blobs[i] == 0 {
				return
			}
			if at := r.old.blobs[i]; r.blobs[at] == 0 && !slices.Contains(missing, at) {
				missing = append(missing, at)
			}
		})
	}
	if len(missing) > 0 {
		return nil, missing, nil
	}
	if err := checkName(r.from, r.old.path); err != nil {
		return nil, nil, err
	}
	next = r.segment()
	if err := c.rename(next); err != nil {
		return nil, nil, err
	}
	if err := c.disk.SyncDir(c.dir); err != nil {
		return nil, nil, err
	}
	c.left = ""
	return next, nil, nil
}

// rename puts the file of a condensed segment in its place, and shows readers the segment. Those
// who have the old file open go on with it.
func (c *condensing) rename(g *segment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.disk.Rename(c.left, g.path); err != nil {
		return err
	}
	old := c.segments[g.number-1]
	c.segments[g.number-1] = g
	c.idle = slices.DeleteFunc(c.idle, func(w *window) bool {
		if w.segment == old {
			w.file.Close()
		}
		return w.segment == old
	})
	return nil
}
