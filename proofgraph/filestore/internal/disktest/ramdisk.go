package disktest

import (
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

var _ disk.Disk = (*RAM)(nil)

func (r *RAM) Mkdir(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Dirs[dir] = true
	return nil
}

func (r *RAM) List(dir string) ([]disk.Name, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.Dirs[dir] {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	var names []disk.Name
	for _, name := range slices.Sorted(maps.Keys(r.Names)) {
		if filepath.Dir(name) == dir {
			names = append(names, disk.Name{Name: filepath.Base(name), Regular: true})
		}
	}
	return names, nil
}

func (r *RAM) Lock(path string) (io.Closer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[path] {
		return nil, disk.HeldError{PID: "1"}
	}
	if r.Names[path] == nil {
		r.move(move{to: path, file: &Inode{}})
	}
	r.held[path] = true
	return ramLock{r, path}, nil
}

func (r *RAM) Open(path string) (disk.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.Names[path]; i != nil {
		return &RAMFile{r, i}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func (r *RAM) View(path string) (disk.File, error) { return r.Open(path) }

func (r *RAM) Create(path string) (disk.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.Names[path]
	if i == nil {
		i = &Inode{}
		r.move(move{to: path, file: i})
	} else {
		i.write(wrote{cut: true})
	}
	return &RAMFile{r, i}, nil
}

func (r *RAM) Rename(from, to string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	r.move(move{from, to, r.Names[from]})
	return nil
}

func (r *RAM) Remove(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Names[path] == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	r.move(move{from: path})
	return nil
}

func (r *RAM) SyncDir(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.Moves {
		m.do(r.Kept)
	}
	r.Moves = nil
	return nil
}

type ramLock struct {
	*RAM
	path string
}

func (l ramLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, l.path)
	return nil
}

type RAMFile struct {
	ram *RAM
	of  *Inode
}

func (f *RAMFile) ReadAt(b []byte, at int64) (n int, err error) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	if at < int64(len(f.of.Data)) {
		n = copy(b, f.of.Data[at:])
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f *RAMFile) WriteAt(b []byte, at int64) (int, error) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	f.of.write(wrote{at: at, data: slices.Clone(b)})
	return len(b), nil
}

func (f *RAMFile) Size() (int64, error) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	return int64(len(f.of.Data)), nil
}

func (f *RAMFile) Sync() error {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	f.of.sync()
	return nil
}

func (f *RAMFile) Is(path string) (bool, error) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	return f.ram.Names[path] == f.of, nil
}

func (f *RAMFile) Close() error { return nil }

// Forget drops what was to be synced, as after a sync that failed: it is not on the disk and will
// not be. Some systems go on showing it.
func (f *RAMFile) Forget(showing bool) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	f.of.wrote = nil
	if !showing {
		f.of.Data = slices.Clone(f.of.Disk)
	}
}
