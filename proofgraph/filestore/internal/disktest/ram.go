// Package disktest has disks for tests: one in memory that can lose its power, and one whose every
// operation can be watched, refused or cut short.
package disktest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// ErrPower is the error of every operation without power.
var ErrPower = errors.New("the power is off")

const sector = 512 // bytes that a disk writes whole or not at all

// A RAM is a disk in memory that knows what a power cut would leave of it. It loses as much as the
// standard allows:
//
//   - of a file, each sector that was written since its last Sync is as it was then, or as any
//     write since left it; so is the size;
//   - of the names that were changed since the last SyncDir, a prefix of the changes is done, in
//     their order.
//
// After a power cut it must not be used any more: [RAM.Cut] returns the disk that is left.
type RAM struct {
	mu    sync.Mutex
	Names map[string]*Inode // as programs see them
	Kept  map[string]*Inode // as they are on stable storage
	Moves []move            // changes of names since the last SyncDir
	Dirs  map[string]bool   // durable
	held  map[string]bool   // locks
}

type Inode struct {
	Data  []byte  // as programs see it
	Disk  []byte  // as it is on stable storage
	wrote []wrote // since the last Sync
}

// A wrote is one write to a file; with cut the file is made empty first.
type wrote struct {
	at   int64
	data []byte
	cut  bool
}

// Save writes the files as programs see them into a directory of the machine, for a person to look
// at.
func (r *RAM) Save(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, i := range r.Names {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), i.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// A move is one change of names: to gets the file, from loses it.
type move struct {
	from, to string
	file     *Inode
}

func NewRAM() *RAM {
	return &RAM{Names: map[string]*Inode{}, Kept: map[string]*Inode{}, Dirs: map[string]bool{}, held: map[string]bool{}}
}

func (m *move) do(names map[string]*Inode) {
	if m.from != "" {
		delete(names, m.from)
	}
	if m.to != "" {
		names[m.to] = m.file
	}
}

func (r *RAM) move(m move) {
	m.do(r.Names)
	r.Moves = append(r.Moves, m)
}

// put applies the write to the bytes of a file.
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

func (i *Inode) write(w wrote) {
	i.Data = w.put(i.Data)
	i.wrote = append(i.wrote, w)
}

// sync makes durable what was written since the last time, and nothing else: bytes that the system
// believes to be durable already are not written again.
func (i *Inode) sync() {
	for _, w := range i.wrote {
		i.Disk = w.put(i.Disk)
	}
	i.wrote = nil
}

// A Survival is how much a power cut leaves of what was not synced.
type Survival string

const (
	LeavesNone    Survival = "nothing"
	LeavesAll     Survival = "everything"
	LeavesPrefix  Survival = "a prefix"     // of the bytes, in the order of writing
	LeavesSectors Survival = "some sectors" // each as any write left it
	LeavesMost    Survival = "most sectors"
	LeavesFew     Survival = "a few sectors"
)

var Survivals = []Survival{LeavesNone, LeavesAll, LeavesPrefix, LeavesSectors, LeavesMost, LeavesFew}

// survives returns the bytes that a power cut leaves.
func (i *Inode) survives(how Survival, r *rand.Rand) []byte {
	switch how {
	case LeavesNone:
		return slices.Clone(i.Disk)
	case LeavesAll:
		return slices.Clone(i.Data)
	case LeavesPrefix:
		b, n := slices.Clone(i.Disk), r.IntN(len(i.wrote)+1)
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
	states := [][]byte{slices.Clone(i.Disk)}
	for _, w := range i.wrote {
		states = append(states, w.put(slices.Clone(states[len(states)-1])))
	}
	pick := func() []byte {
		switch last := len(states) - 1; {
		case how == LeavesMost && r.IntN(8) > 0:
			return states[last]
		case how == LeavesFew && r.IntN(8) > 0:
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

// Cut returns the disk that is found when the power comes back.
func (r *RAM) Cut(how Survival, random *rand.Rand) *RAM {
	left := r.Clone()
	n := len(left.Moves)
	switch how {
	case LeavesNone:
		n = 0
	case LeavesAll:
	default:
		n = random.IntN(n + 1)
	}
	for _, m := range left.Moves[:n] {
		m.do(left.Kept)
	}
	left.Moves, left.Names = nil, map[string]*Inode{}
	for _, name := range slices.Sorted(maps.Keys(left.Kept)) { // sorted: the same seed makes the same disk
		b := left.Kept[name].survives(how, random)
		left.Names[name] = &Inode{Data: b, Disk: slices.Clone(b)}
	}
	left.Kept = maps.Clone(left.Names)
	return left
}

// Clone returns another disk of the same state, as the next process finds it: no files are open,
// and no locks are held.
func (r *RAM) Clone() *RAM {
	r.mu.Lock()
	defer r.mu.Unlock()
	copies := map[*Inode]*Inode{nil: nil}
	of := func(i *Inode) *Inode {
		if _, ok := copies[i]; !ok {
			copies[i] = &Inode{slices.Clone(i.Data), slices.Clone(i.Disk), slices.Clone(i.wrote)}
		}
		return copies[i]
	}
	c := NewRAM()
	c.Dirs = maps.Clone(r.Dirs)
	for name, i := range r.Names {
		c.Names[name] = of(i)
	}
	for name, i := range r.Kept {
		c.Kept[name] = of(i)
	}
	for _, m := range r.Moves {
		c.Moves = append(c.Moves, move{m.from, m.to, of(m.file)})
	}
	return c
}
