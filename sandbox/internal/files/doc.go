// Package files is what a guest may see of files: trees that were read into memory, and directories
// of the host. It knows no engine and no descriptors.
//
// A path that a method takes is relative to what was granted, has no NUL, and never begins with a
// slash. It may go up by ".." and through symbolic links; what that would lead out of the grant is
// [Perm].
package files

// A FS is one grant: what a guest reaches under one path.
type FS interface {
	// Open opens a regular file or a directory. Anything else is Perm.
	Open(path string, how How) (File, Errno)
	Stat(path string, follow bool) (Stat, Errno)
	Readlink(path string) (string, Errno)

	// The others write. If the grant only reads, each is ReadOnly.

	Mkdir(path string) Errno
	Remove(path string, dir bool) Errno
	Rename(from, to string) Errno
	SetTimes(path string, follow bool, t Times) Errno
}

// A File is an open file or directory. What does not suit it (Entries of a file, ReadAt of a
// directory) is an error. Offsets are not negative.
type File interface {
	Stat() (Stat, Errno)
	ReadAt(p []byte, offset uint64) (int, Errno) // 0 at the end
	WriteAt(p []byte, offset uint64) (int, Errno)
	Truncate(size uint64) Errno
	Sync() Errno

	// Entries calls each with the entries of a directory, from a cookie on, until each returns
	// false.
	// Cookie 0 is the first entry and reads the directory again. Any other cookie is the Next of
	// an entry; a directory of the host may have forgotten all but the last ones: Invalid.
	Entries(cookie uint64, each func(Entry) bool) Errno
	Close()
}

// How says how to open.
type How struct {
	Read, Write, Sync           bool
	Create, Exclusive, Truncate bool
	Directory, Follow           bool
}

// A Type is a type of file, numbered as in WASI.
type Type uint8

// The types. Everything else is Unknown.
const (
	Unknown      Type = 0
	CharDevice   Type = 2
	Directory    Type = 3
	Regular      Type = 4
	SymbolicLink Type = 7
)

// A Stat describes a file. Times are in nanoseconds since 1970.
type Stat struct {
	Dev, Ino, Links, Size  uint64
	Type                   Type
	Access, Modify, Change uint64
}

// An Entry is a name in a directory.
type Entry struct {
	Name string
	Ino  uint64
	Type Type
	Next uint64
}

// Times are the times to be set. One that is nil stays.
type Times struct{ Access, Modify *uint64 }

// An Errno is an error, numbered as in WASI preview 1.
type Errno uint16

// The errors that a guest can see.
const (
	OK          Errno = 0
	Access      Errno = 2
	Again       Errno = 6
	BadFile     Errno = 8
	Busy        Errno = 10
	Exists      Errno = 20
	Fault       Errno = 21
	TooBig      Errno = 22
	NotUTF8     Errno = 25
	Invalid     Errno = 28
	IO          Errno = 29
	IsDirectory Errno = 31
	Loop        Errno = 32
	NameTooLong Errno = 37
	TooMany     Errno = 41
	NoEntry     Errno = 44
	NoMemory    Errno = 48
	NoSpace     Errno = 51
	NotDir      Errno = 54
	NotEmpty    Errno = 55
	NotSupp     Errno = 58
	Overflow    Errno = 61
	Perm        Errno = 63
	ReadOnly    Errno = 69
	Seek        Errno = 70
	OtherFS     Errno = 75
)

// MaxPath is the longest path, in bytes, that an open directory is known by.
const MaxPath = 4096
