//go:build linux || darwin

package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// batch is how many names of a directory are read at a time.
const batch = 128

// A dir is a directory of the host. All that a guest does in it goes through the os.Root, which
// reaches nothing outside, and without blocking, because a FIFO holds the thread that opens it for
// good.
type dir struct {
	root  *os.Root
	write bool
}

// NewDir returns root as a FS, for reading alone or for writing too. It is an error on systems on
// which it is not known to be contained.
func NewDir(root *os.Root, write bool) (FS, error) { return &dir{root, write}, nil }

// stat is of what a path leads to, or of the link that it ends in.
func (d *dir) stat(path string, follow bool) (fs.FileInfo, error) {
	if follow {
		return d.root.Stat(path)
	}
	return d.root.Lstat(path)
}

func (d *dir) Open(path string, how How) (File, Errno) {
	info, err := d.stat(path, how.Follow)
	switch {
	case errors.Is(err, fs.ErrNotExist) && how.Create:
		if !d.write {
			return nil, ReadOnly
		}
		return d.open(path, how)
	case err != nil:
		return nil, errnoOf(err)
	case how.Create && how.Exclusive:
		return nil, Exists
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, Loop
	case info.IsDir() && (how.Create || how.Write || how.Truncate):
		return nil, IsDirectory
	case info.IsDir():
		return &openDir{dir: d, path: path}, OK
	case !info.Mode().IsRegular():
		return nil, Perm
	case how.Directory || strings.HasSuffix(path, "/"):
		return nil, NotDir
	case !d.write && (how.Write || how.Truncate):
		return nil, ReadOnly
	}
	return d.open(path, how)
}

// open opens a regular file. What stands at the path may have changed since it was looked at.
func (d *dir) open(path string, how How) (File, Errno) {
	flags := syscall.O_NONBLOCK | os.O_RDONLY
	switch writes := how.Write || how.Truncate; {
	case writes && how.Read:
		flags |= os.O_RDWR
	case writes:
		flags |= os.O_WRONLY
	}
	if how.Create {
		flags |= os.O_CREATE
	}
	if how.Exclusive {
		flags |= os.O_EXCL
	}
	if how.Sync {
		flags |= os.O_SYNC
	}
	f, err := d.root.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, errnoOf(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = syscall.EPERM
	}
	if err == nil && how.Truncate {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, errnoOf(err)
	}
	return &openFile{f}, OK
}

func (d *dir) Stat(path string, follow bool) (Stat, Errno) {
	info, err := d.stat(path, follow)
	if err != nil {
		return Stat{}, errnoOf(err)
	}
	return statOf(info), OK
}

func (d *dir) Readlink(path string) (string, Errno) {
	target, err := d.root.Readlink(path)
	return target, errnoOf(err)
}

func (d *dir) Mkdir(path string) Errno {
	if !d.write {
		return ReadOnly
	}
	return errnoOf(d.root.Mkdir(path, 0o755))
}

// Remove removes a file or link, or an empty directory.
func (d *dir) Remove(path string, directory bool) Errno {
	if !d.write {
		return ReadOnly
	}
	info, err := d.root.Lstat(path)
	switch {
	case err != nil:
		return errnoOf(err)
	case directory && !info.IsDir():
		return NotDir
	case !directory && info.IsDir():
		return IsDirectory
	}
	return errnoOf(d.root.Remove(path))
}

func (d *dir) Rename(from, to string) Errno {
	if !d.write {
		return ReadOnly
	}
	return errnoOf(d.root.Rename(from, to))
}

func (d *dir) SetTimes(path string, follow bool, t Times) Errno {
	if !d.write {
		return ReadOnly
	}
	info, err := d.stat(path, follow)
	switch {
	case err != nil:
		return errnoOf(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return NotSupp
	}
	return errnoOf(d.root.Chtimes(path, timeOf(t.Access), timeOf(t.Modify)))
}

// timeOf returns the zero time, which changes nothing, for nil.
func timeOf(t *uint64) time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Unix(int64(*t/1e9), int64(*t%1e9))
}

// An openFile is a regular file.
type openFile struct{ f *os.File }

func (o *openFile) Stat() (Stat, Errno) {
	info, err := o.f.Stat()
	if err != nil {
		return Stat{}, errnoOf(err)
	}
	return statOf(info), OK
}

func (o *openFile) ReadAt(p []byte, offset uint64) (int, Errno) {
	if int64(offset) < 0 {
		return 0, Invalid
	}
	n, err := o.f.ReadAt(p, int64(offset))
	if n > 0 || err == io.EOF {
		err = nil
	}
	return n, errnoOf(err)
}

func (o *openFile) WriteAt(p []byte, offset uint64) (int, Errno) {
	if int64(offset) < 0 {
		return 0, TooBig
	}
	n, err := o.f.WriteAt(p, int64(offset))
	if n > 0 {
		err = nil
	}
	return n, errnoOf(err)
}

func (o *openFile) Truncate(size uint64) Errno {
	if int64(size) < 0 {
		return TooBig
	}
	return errnoOf(o.f.Truncate(int64(size)))
}

func (o *openFile) Sync() Errno                            { return errnoOf(o.f.Sync()) }
func (o *openFile) Entries(uint64, func(Entry) bool) Errno { return NotDir }
func (o *openFile) Close()                                 { o.f.Close() }

// An openDir is a directory, known by its path. It has a descriptor of the host only while it is
// listed.
type openDir struct {
	dir   *dir
	path  string
	f     *os.File
	names []string // the last batch
	first uint64   // the cookie of names[0]
}

func (o *openDir) Stat() (Stat, Errno)                 { return o.dir.Stat(o.path, true) }
func (o *openDir) ReadAt([]byte, uint64) (int, Errno)  { return 0, IsDirectory }
func (o *openDir) WriteAt([]byte, uint64) (int, Errno) { return 0, BadFile }
func (o *openDir) Truncate(uint64) Errno               { return BadFile }
func (o *openDir) Sync() Errno                         { return OK }

func (o *openDir) Close() {
	if o.f != nil {
		o.f.Close()
	}
	o.f, o.names, o.first = nil, nil, 0
}

func (o *openDir) Entries(cookie uint64, each func(Entry) bool) Errno {
	if cookie == 0 {
		o.Close()
		f, err := o.dir.root.OpenFile(o.path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return errnoOf(err)
		}
		o.f = f
	}
	if o.f == nil || cookie < o.first || cookie-o.first > uint64(len(o.names)) {
		return Invalid
	}
	for {
		if cookie-o.first == uint64(len(o.names)) {
			names, err := o.f.Readdirnames(batch)
			if err == io.EOF {
				return OK
			} else if err != nil {
				return errnoOf(err)
			}
			o.names, o.first = names, cookie
		}
		for _, name := range o.names[cookie-o.first:] {
			cookie++
			info, err := o.dir.root.Lstat(o.path + "/" + name)
			if err != nil {
				continue // removed meanwhile
			}
			s := statOf(info)
			if !each(Entry{Name: name, Ino: s.Ino, Type: s.Type, Next: cookie}) {
				return OK
			}
		}
	}
}

func statOf(info fs.FileInfo) Stat {
	s := Stat{Size: uint64(info.Size()), Type: typeOf(info.Mode())}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Dev, s.Ino, s.Links = uint64(sys.Dev), sys.Ino, uint64(sys.Nlink)
		s.Access, s.Modify, s.Change = times(sys)
	}
	return s
}

func typeOf(m fs.FileMode) Type {
	switch {
	case m.IsRegular():
		return Regular
	case m.IsDir():
		return Directory
	case m&fs.ModeSymlink != 0:
		return SymbolicLink
	}
	return Unknown
}

// errnos are the errors of the host that a guest is told of. Any other is IO.
var errnos = map[syscall.Errno]Errno{
	syscall.EACCES: Access, syscall.EAGAIN: Again, syscall.EBUSY: Busy, syscall.EEXIST: Exists,
	syscall.EFBIG: TooBig, syscall.EINVAL: Invalid, syscall.EISDIR: IsDirectory, syscall.ELOOP: Loop,
	syscall.ENAMETOOLONG: NameTooLong, syscall.EMFILE: TooMany, syscall.ENFILE: TooMany, syscall.ENOENT: NoEntry,
	syscall.ENOSPC: NoSpace, syscall.EDQUOT: NoSpace, syscall.ENOTDIR: NotDir, syscall.ENOTEMPTY: NotEmpty,
	syscall.ENOTSUP: NotSupp, syscall.EPERM: Perm, syscall.ENXIO: Perm, syscall.EROFS: ReadOnly,
	syscall.EXDEV: OtherFS,
}

// errnoOf returns Perm for an error that is none of the system's: os.Root found that the path leads
// out.
func errnoOf(err error) Errno {
	var no syscall.Errno
	switch {
	case err == nil:
		return OK
	case errors.As(err, &no):
		if e, ok := errnos[no]; ok {
			return e
		}
		return IO
	case errors.Is(err, fs.ErrClosed):
		return BadFile
	}
	return Perm
}
