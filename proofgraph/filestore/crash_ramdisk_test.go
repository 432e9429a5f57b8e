package filestore

import (
	"io"
	"io/fs"
	"path/filepath"
	"slices"
)

// What follows makes a ram a disk.

var _ disk = (*ram)(nil)

func (r *ram) mkdir(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirs[dir] = true
	return nil
}

func (r *ram) list(dir string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dirs[dir] {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	var names []string
	for name := range r.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (r *ram) lock(path string) (io.Closer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[path] {
		return nil, held{pid: "1"}
	}
	if r.names[path] == nil {
		r.move(move{to: path, file: &inode{}})
	}
	r.held[path] = true
	return ramLock{r, path}, nil
}

func (r *ram) open(path string) (file, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.names[path]; i != nil {
		return &ramFile{r, i}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func (r *ram) view(path string) (file, error) { return r.open(path) }

func (r *ram) create(path string) (file, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.names[path]
	if i == nil {
		i = &inode{}
		r.move(move{to: path, file: i})
	} else {
		i.write(wrote{cut: true})
	}
	return &ramFile{r, i}, nil
}

func (r *ram) rename(from, to string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	r.move(move{from, to, r.names[from]})
	return nil
}

func (r *ram) remove(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[path] == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	r.move(move{from: path})
	return nil
}

func (r *ram) syncDir(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.moves {
		m.do(r.kept)
	}
	r.moves = nil
	return nil
}

type ramLock struct {
	*ram
	path string
}

func (l ramLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, l.path)
	return nil
}

type ramFile struct {
	ram *ram
	of  *inode
}

func (f *ramFile) ReadAt(b []byte, at int64) (n int, err error) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	if at < int64(len(f.of.data)) {
		n = copy(b, f.of.data[at:])
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f *ramFile) WriteAt(b []byte, at int64) (int, error) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	f.of.write(wrote{at: at, data: slices.Clone(b)})
	return len(b), nil
}

func (f *ramFile) Size() (int64, error) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	return int64(len(f.of.data)), nil
}

func (f *ramFile) Sync() error {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	f.of.sync()
	return nil
}

func (f *ramFile) Close() error { return nil }

// forget is what becomes of what was to be synced where that fails: it is not on the disk and will not be. Some systems go on showing it.
func (f *ramFile) forget(showing bool) {
	f.ram.mu.Lock()
	defer f.ram.mu.Unlock()
	f.of.wrote = nil
	if !showing {
		f.of.data = slices.Clone(f.of.disk)
	}
}
