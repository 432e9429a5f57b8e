package filestore

import (
	"io"
	"strings"
	"sync"
)

// A tap is a disk whose every operation passes a hook, which may do it, do a part of it, refuse it, or end the process.
type tap struct {
	disk
	hook func(o *op) error

	mu      sync.Mutex
	changes int
	reads   int
	created map[string]*tapFile // by the names that they have now
}

// An op is one operation. do does it; of a write, part does the first n bytes.
type op struct {
	kind    string // create, rename, remove, syncdir, mkdir, lock, write, sync, of a closed set; or a reading one: list, open, view, size, read
	path    string // of a rename: what it is called afterwards
	n       int    // the how manieth it is, of those that change something or of those that read
	data    []byte // of a write, with where it goes
	at      int64
	file    file // that is written or synced
	changes bool
	do      func() error
	part    func(n int) error
}

// is tells whether the operation is of that kind, on a file whose name has that ending.
func (o *op) is(kind, ending string) bool { return o.kind == kind && strings.HasSuffix(o.path, ending) }

// erases tells whether a write puts zeros where there is something else.
func (o *op) erases() bool {
	if o.kind != "write" || !blank(o.data) {
		return false
	}
	old := make([]byte, len(o.data))
	n, _ := o.file.ReadAt(old, o.at)
	return !blank(old[:n])
}

func (t *tap) pass(o *op) error {
	t.mu.Lock()
	if o.changes {
		t.changes++
		o.n = t.changes
	} else {
		t.reads++
		o.n = t.reads
	}
	t.mu.Unlock()
	if t.hook == nil {
		return o.do()
	}
	return t.hook(o)
}

func (t *tap) mkdir(dir string) error {
	return t.pass(&op{kind: "mkdir", path: dir, changes: true, do: func() error { return t.disk.mkdir(dir) }})
}

func (t *tap) list(dir string) (names []string, err error) {
	err = t.pass(&op{kind: "list", path: dir, do: func() (err error) { names, err = t.disk.list(dir); return }})
	return names, err
}

func (t *tap) lock(path string) (c io.Closer, err error) {
	err = t.pass(&op{kind: "lock", path: path, changes: true, do: func() (err error) { c, err = t.disk.lock(path); return }})
	return c, err
}

func (t *tap) file(kind, path string, get func(string) (file, error)) (f file, err error) {
	err = t.pass(&op{kind: kind, path: path, changes: kind == "create", do: func() (err error) { f, err = get(path); return }})
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

func (t *tap) open(path string) (file, error)   { return t.file("open", path, t.disk.open) }
func (t *tap) view(path string) (file, error)   { return t.file("view", path, t.disk.view) }
func (t *tap) create(path string) (file, error) { return t.file("create", path, t.disk.create) }

func (t *tap) rename(from, to string) error {
	err := t.pass(&op{kind: "rename", path: to, changes: true, do: func() error { return t.disk.rename(from, to) }})
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.created[from]; f != nil && err == nil {
		delete(t.created, from)
		t.created[to], f.path = f, to
	}
	return err
}

func (t *tap) remove(path string) error {
	return t.pass(&op{kind: "remove", path: path, changes: true, do: func() error { return t.disk.remove(path) }})
}

func (t *tap) syncDir(dir string) error {
	return t.pass(&op{kind: "syncdir", path: dir, changes: true, do: func() error { return t.disk.syncDir(dir) }})
}

type tapFile struct {
	file
	tap  *tap
	path string // protected by tap.mu; a rename changes it
}

func (f *tapFile) name() string {
	f.tap.mu.Lock()
	defer f.tap.mu.Unlock()
	return f.path
}

func (f *tapFile) WriteAt(b []byte, at int64) (n int, err error) {
	put := func(m int) error {
		got, err := f.file.WriteAt(b[n:m], at+int64(n))
		n += got
		return err
	}
	err = f.tap.pass(&op{kind: "write", path: f.name(), changes: true, data: b, at: at, file: f.file, do: func() error { return put(len(b)) }, part: put})
	return n, err
}

func (f *tapFile) Sync() error {
	return f.tap.pass(&op{kind: "sync", path: f.name(), changes: true, file: f.file, do: f.file.Sync})
}

func (f *tapFile) ReadAt(b []byte, at int64) (n int, err error) {
	err = f.tap.pass(&op{kind: "read", path: f.name(), do: func() (err error) { n, err = f.file.ReadAt(b, at); return }})
	return n, err
}

func (f *tapFile) Size() (n int64, err error) {
	err = f.tap.pass(&op{kind: "size", path: f.name(), do: func() (err error) { n, err = f.file.Size(); return }})
	return n, err
}
