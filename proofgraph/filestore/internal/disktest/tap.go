package disktest

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A Tap is a disk whose every operation calls a hook, which may do the operation, do a part of it,
// refuse it, or end the process.
type Tap struct {
	disk.Disk
	Hook func(o *Op) error

	mu      sync.Mutex
	Changes int
	reads   int
	created map[string]*tapFile // by their names now
}

// An Op is one operation. Do does it. For a write, Part does the first n bytes.
type Op struct {
	// create, rename, remove, syncdir, mkdir, lock, write, sync, of a closed set; or a reading one:
	// list, open, view, size, read, is
	Kind    string
	Path    string // of a rename: the new name
	N       int    // its number among the operations that change something, or among those that read
	Data    []byte // of a write
	At      int64
	File    disk.File // that is written or synced
	Changes bool
	Do      func() error
	Part    func(n int) error
}

// Is reports whether the operation is of that kind, on a file whose name has that ending.
func (o *Op) Is(kind, ending string) bool { return o.Kind == kind && strings.HasSuffix(o.Path, ending) }

// Erases reports whether a write puts zeros in place of other bytes.
func (o *Op) Erases() bool {
	if o.Kind != "write" || !Blank(o.Data) {
		return false
	}
	old := make([]byte, len(o.Data))
	n, _ := o.File.ReadAt(old, o.At)
	return !Blank(old[:n])
}

func (t *Tap) pass(o *Op) error {
	t.mu.Lock()
	if o.Changes {
		t.Changes++
		o.N = t.Changes
	} else {
		t.reads++
		o.N = t.reads
	}
	t.mu.Unlock()
	if t.Hook == nil {
		return o.Do()
	}
	return t.Hook(o)
}

func (t *Tap) Mkdir(dir string) error {
	return t.pass(&Op{Kind: "mkdir", Path: dir, Changes: true, Do: func() error { return t.Disk.Mkdir(dir) }})
}

func (t *Tap) List(dir string) (names []disk.Name, err error) {
	err = t.pass(&Op{Kind: "list", Path: dir, Do: func() (err error) { names, err = t.Disk.List(dir); return }})
	return names, err
}

func (t *Tap) Lock(path string) (c io.Closer, err error) {
	err = t.pass(&Op{Kind: "lock", Path: path, Changes: true,
		Do: func() (err error) { c, err = t.Disk.Lock(path); return }})
	return c, err
}

func (t *Tap) file(kind, path string, get func(string) (disk.File, error)) (f disk.File, err error) {
	err = t.pass(&Op{Kind: kind, Path: path, Changes: kind == "create",
		Do: func() (err error) { f, err = get(path); return }})
	if err != nil {
		return nil, err
	}
	file := &tapFile{f, t, path}
	if kind == "create" {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.created == nil {
			t.created = map[string]*tapFile{}
		}
		t.created[path] = file
	}
	return file, nil
}

func (t *Tap) Open(path string) (disk.File, error)   { return t.file("open", path, t.Disk.Open) }
func (t *Tap) View(path string) (disk.File, error)   { return t.file("view", path, t.Disk.View) }
func (t *Tap) Create(path string) (disk.File, error) { return t.file("create", path, t.Disk.Create) }

func (t *Tap) Rename(from, to string) error {
	err := t.pass(&Op{Kind: "rename", Path: to, Changes: true, Do: func() error { return t.Disk.Rename(from, to) }})
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.created[from]; f != nil && err == nil {
		delete(t.created, from)
		t.created[to], f.path = f, to
	}
	return err
}

func (t *Tap) Remove(path string) error {
	return t.pass(&Op{Kind: "remove", Path: path, Changes: true, Do: func() error { return t.Disk.Remove(path) }})
}

func (t *Tap) SyncDir(dir string) error {
	return t.pass(&Op{Kind: "syncdir", Path: dir, Changes: true, Do: func() error { return t.Disk.SyncDir(dir) }})
}

type tapFile struct {
	disk.File
	tap  *Tap
	path string // protected by tap.mu; a rename changes it
}

func (f *tapFile) name() string {
	f.tap.mu.Lock()
	defer f.tap.mu.Unlock()
	return f.path
}

func (f *tapFile) WriteAt(b []byte, at int64) (n int, err error) {
	put := func(m int) error {
		got, err := f.File.WriteAt(b[n:m], at+int64(n))
		n += got
		return err
	}
	err = f.tap.pass(&Op{Kind: "write", Path: f.name(), Changes: true, Data: b, At: at, File: f.File,
		Do: func() error { return put(len(b)) }, Part: put})
	return n, err
}

func (f *tapFile) Sync() error {
	return f.tap.pass(&Op{Kind: "sync", Path: f.name(), Changes: true, File: f.File, Do: f.File.Sync})
}

func (f *tapFile) ReadAt(b []byte, at int64) (n int, err error) {
	err = f.tap.pass(&Op{Kind: "read", Path: f.name(),
		Do: func() (err error) { n, err = f.File.ReadAt(b, at); return }})
	return n, err
}

func (f *tapFile) Size() (n int64, err error) {
	err = f.tap.pass(&Op{Kind: "size", Path: f.name(), Do: func() (err error) { n, err = f.File.Size(); return }})
	return n, err
}

func (f *tapFile) Is(path string) (is bool, err error) {
	err = f.tap.pass(&Op{Kind: "is", Path: path, Do: func() (err error) { is, err = f.File.Is(path); return }})
	return is, err
}

// Blank reports whether b is all zeros.
func Blank(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
