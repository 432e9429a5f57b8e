package filestore

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// ram is a disk in memory that knows what of it would outlast a power cut. It is as mean as the standard allows:
//
//   - of what was written to a file since its last Sync, each sector is as it was then, or as any write since left it; so is the size;
//   - of what was done to names since the last syncDir, a prefix in the order of doing is done.
//
// Whoever has it open when the power goes must not touch it any more: what is left is another disk.
type ram struct {
	mu    sync.Mutex
	names map[string]*inode // as programs see them
	kept  map[string]*inode // as they are on stable storage
	moves []move            // what was done to names since
	dirs  map[string]bool   // they last, as the interface has it
	held  map[string]bool   // locks
}

type inode struct {
	data  []byte  // as programs see it
	disk  []byte  // as it is on stable storage
	wrote []wrote // since
}

// wrote is one write to a file; with cut it is made empty first.
type wrote struct {
	at   int64
	data []byte
	cut  bool
}

// save writes what programs see of a disk into a directory of the machine, for somebody to look at.
func (r *ram) save(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, i := range r.names {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), i.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// move is one change of names: to gets the file, from loses it.
type move struct {
	from, to string
	file     *inode
}

func newRAM() *ram {
	return &ram{names: map[string]*inode{}, kept: map[string]*inode{}, dirs: map[string]bool{}, held: map[string]bool{}}
}

func (m *move) do(names map[string]*inode) {
	if m.from != "" {
		delete(names, m.from)
	}
	if m.to != "" {
		names[m.to] = m.file
	}
}

func (r *ram) move(m move) {
	m.do(r.names)
	r.moves = append(r.moves, m)
}

// put makes writes seen.
func (w *wrote) put(b []byte) []byte {
	if w.cut {
		b = b[:0:0]
	}
	if end := w.at + int64(len(w.data)); end > int64(len(b)) {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[w.at:], w.data)
	return b
}

func (i *inode) write(w wrote) {
	i.data = w.put(i.data)
	i.wrote = append(i.wrote, w)
}

// sync keeps what was written since the last time, and nothing else: what the system believes to be kept already is not written again.
func (i *inode) sync() {
	for _, w := range i.wrote {
		i.disk = w.put(i.disk)
	}
	i.wrote = nil
}

// survival says what is left of what was not synced.
type survival string

const (
	leavesNone    survival = "nothing"
	leavesAll     survival = "everything"
	leavesPrefix  survival = "a prefix"     // of the bytes, in the order of writing
	leavesSectors survival = "some sectors" // each as any write left it
	leavesMost    survival = "most sectors"
	leavesFew     survival = "a few sectors"
)

var survivals = []survival{leavesNone, leavesAll, leavesPrefix, leavesSectors, leavesMost, leavesFew}

// survives gives what is on stable storage when the power comes back.
func (i *inode) survives(how survival, r *rand.Rand) []byte {
	switch how {
	case leavesNone:
		return slices.Clone(i.disk)
	case leavesAll:
		return slices.Clone(i.data)
	case leavesPrefix:
		b, n := slices.Clone(i.disk), r.IntN(len(i.wrote)+1)
		for _, w := range i.wrote[:n] {
			b = w.put(b)
		}
		if n < len(i.wrote) {
			w := i.wrote[n]
			w.data = w.data[:r.IntN(len(w.data)+1)]
			b = w.put(b)
		}
		return b
	}
	states := [][]byte{slices.Clone(i.disk)}
	for _, w := range i.wrote {
		states = append(states, w.put(slices.Clone(states[len(states)-1])))
	}
	pick := func() []byte {
		switch last := len(states) - 1; {
		case how == leavesMost && r.IntN(8) > 0:
			return states[last]
		case how == leavesFew && r.IntN(8) > 0:
			return states[0]
		default:
			return states[r.IntN(last+1)]
		}
	}
	b := make([]byte, len(pick()))
	for at := 0; at < len(b); at += sector {
		if from := pick(); at < len(from) {
			copy(b[at:min(at+sector, len(b))], from[at:])
		}
	}
	return b
}

// cut is the disk that is found when the power comes back.
func (r *ram) cut(how survival, random *rand.Rand) *ram {
	left := r.clone()
	n := len(left.moves)
	switch how {
	case leavesNone:
		n = 0
	case leavesAll:
	default:
		n = random.IntN(n + 1)
	}
	for _, m := range left.moves[:n] {
		m.do(left.kept)
	}
	left.moves, left.names = nil, map[string]*inode{}
	for _, name := range slices.Sorted(maps.Keys(left.kept)) { // sorted: the same seed gives the same disk
		b := left.kept[name].survives(how, random)
		left.names[name] = &inode{data: b, disk: slices.Clone(b)}
	}
	left.kept = maps.Clone(left.names)
	return left
}

// clone is another disk of the same state, as the next process finds it: no files are open, and no locks are held.
func (r *ram) clone() *ram {
	r.mu.Lock()
	defer r.mu.Unlock()
	copies := map[*inode]*inode{nil: nil}
	of := func(i *inode) *inode {
		if _, ok := copies[i]; !ok {
			copies[i] = &inode{slices.Clone(i.data), slices.Clone(i.disk), slices.Clone(i.wrote)}
		}
		return copies[i]
	}
	c := newRAM()
	c.dirs = maps.Clone(r.dirs)
	for name, i := range r.names {
		c.names[name] = of(i)
	}
	for name, i := range r.kept {
		c.kept[name] = of(i)
	}
	for _, m := range r.moves {
		c.moves = append(c.moves, move{m.from, m.to, of(m.file)})
	}
	return c
}
