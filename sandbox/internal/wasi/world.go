// Package wasi is WASI preview 1 as a guest of a sandbox meets it: the functions, and the world
// that they act on. It knows no engine: memory is a byte slice, and arguments are numbers.
//
// What a function's arguments name is paid for before it is called. What only this package knows,
// bytes written to files and sleeps, it charges to the [Host]. A function that ends the guest
// panics with an [Exit], with [ErrOutput], or in a method of the Host.
package wasi

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/helmkernel/helm/sandbox/internal/files"
)

// A Host is what a world asks of who runs the guest. A method that would let the guest go on
// although it may not, panics instead.
type Host interface {
	Check()            // the guest may go on, unless its context is over
	Charge(gas uint64) // the guest pays, before something is done
	Wall() uint64      // nanoseconds since 1970
	Monotonic() uint64 // nanoseconds
	Sleep(ns uint64)
	Random(p []byte)
}

// An Exit is the panic of a guest that called proc_exit with this code.
type Exit uint32

func (Exit) Error() string { return "the guest exited" }

// ErrOutput is the panic of a guest that wrote more to stdout than it may.
var ErrOutput = errors.New("the guest's output is over its limit")

// A Mount is a directory that a guest begins with, as descriptor 3 and so on.
type Mount struct {
	Path string // as the guest knows it
	FS   files.FS
}

// A World is what one guest has. It is used by one goroutine.
type World struct {
	host   Host
	args   []string
	env    []string
	stdin  []byte
	limit  uint64 // of stdout
	stdout []byte
	stderr []byte // the last of it
	open   map[uint32]*descriptor
}

// Setup is what a World is made from.
type Setup struct {
	Args   []string // with argv[0]
	Env    []string // "NAME=value"
	Stdin  []byte
	Output uint64 // the most that may be written to stdout, in bytes
	Mounts []Mount
}

// A descriptor is an open file, directory or stream.
type descriptor struct {
	stream  int        // 0: none, else 1 more than the number that it began with
	file    files.File // nil: a stream
	fs      files.FS
	path    string // of a directory, in fs
	preopen string // "" unless it is a Mount
	dir     bool
	read    bool
	write   bool
	flags   uint16
	offset  uint64
}

const (
	maxOpen   = 128
	maxStderr = 1 << 10
)

// New returns the world of one guest. Nothing is opened in it, so that one that never runs need not
// be closed.
func New(h Host, s Setup) (*World, error) {
	w := &World{host: h, args: s.Args, env: s.Env, stdin: s.Stdin, limit: s.Output, open: map[uint32]*descriptor{}}
	for i := range 3 {
		w.open[uint32(i)] = &descriptor{stream: i + 1, read: i == 0, write: i > 0}
	}
	for i, m := range s.Mounts {
		f, errno := m.FS.Open(".", files.How{Directory: true, Follow: true})
		if errno != files.OK {
			return nil, errors.New("a directory cannot be opened: " + m.Path)
		}
		w.open[uint32(i+3)] = &descriptor{file: f, fs: m.FS, path: ".", preopen: m.Path, dir: true}
	}
	return w, nil
}

// Close closes what the guest left open.
func (w *World) Close() {
	for _, d := range w.open {
		d.close()
	}
	w.open = nil
}

func (d *descriptor) close() {
	if d.file != nil {
		d.file.Close()
	}
}

// Stdout returns what the guest wrote to stdout.
func (w *World) Stdout() []byte { return w.stdout }

// Stderr returns the end of what the guest wrote to stderr, at most 1 KiB.
func (w *World) Stderr() []byte { return w.stderr }

// Args returns the size of the block of arguments: 4 bytes each, and their bytes with a NUL.
func (w *World) Args() uint64 { return block(w.args) }

// Environ returns the size of the block of the environment, as Args does.
func (w *World) Environ() uint64 { return block(w.env) }

func block(list []string) (n uint64) {
	for _, s := range list {
		n += 4 + uint64(len(s)) + 1
	}
	return n
}

// file returns a descriptor that is a file or directory.
func (w *World) file(fd uint64) (*descriptor, files.Errno) {
	d := w.open[uint32(fd)]
	switch {
	case d == nil:
		return nil, files.BadFile
	case d.file == nil:
		return nil, files.Seek
	}
	return d, files.OK
}

// add puts a descriptor at the lowest number that is free.
func (w *World) add(d *descriptor) (uint32, files.Errno) {
	if len(w.open) >= maxOpen {
		return 0, files.Perm
	}
	n := uint32(0)
	for w.open[n] != nil {
		n++
	}
	w.open[n] = d
	return n, files.OK
}

// at resolves a path below a directory. It may not lead up from that directory by "..", nor be
// absolute.
func (w *World) at(m memory, fd, ptr, size uint64) (files.FS, string, files.Errno) {
	d := w.open[uint32(fd)]
	switch {
	case d == nil:
		return nil, "", files.BadFile
	case !d.dir:
		return nil, "", files.NotDir
	case uint32(size) > files.MaxPath:
		return nil, "", files.NameTooLong
	}
	b, ok := m.bytes(ptr, uint64(uint32(size)))
	if !ok {
		return nil, "", files.Fault
	}
	path := string(b)
	switch {
	case path == "":
		return nil, "", files.NoEntry
	case !utf8.ValidString(path):
		return nil, "", files.NotUTF8
	case strings.IndexByte(path, 0) >= 0:
		return nil, "", files.Invalid
	case path[0] == '/' || leaves(path):
		return nil, "", files.Perm
	}
	if d.path != "." {
		path = d.path + "/" + path
	}
	if len(path) > files.MaxPath {
		return nil, "", files.NameTooLong
	}
	return d.fs, path, files.OK
}

// leaves reports whether a path leads up by "..", links aside.
func leaves(path string) bool {
	depth := 0
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// memory is the guest's.
type memory []byte

// bytes returns n bytes at a pointer, of which the lower 32 bits count.
func (m memory) bytes(ptr, n uint64) ([]byte, bool) {
	p := uint64(uint32(ptr))
	if p > uint64(len(m)) || n > uint64(len(m))-p {
		return nil, false
	}
	return m[p : p+n : p+n], true
}

// put32 writes a number where a function puts its result.
func (m memory) put32(ptr uint64, v uint32) files.Errno {
	b, ok := m.bytes(ptr, 4)
	if !ok {
		return files.Fault
	}
	binary.LittleEndian.PutUint32(b, v)
	return files.OK
}

func (m memory) put64(ptr, v uint64) files.Errno {
	b, ok := m.bytes(ptr, 8)
	if !ok {
		return files.Fault
	}
	binary.LittleEndian.PutUint64(b, v)
	return files.OK
}
