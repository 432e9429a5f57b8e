//go:build wasip1

package main

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// The package os cleans paths before it asks the host, so these functions ask the host themselves.

//go:wasmimport wasi_snapshot_preview1 path_open
//go:noescape
func pathOpen(dir int32, dirflags uint32, path unsafe.Pointer, n uint32, oflags uint32, rights, inheriting uint64,
	flags uint32, fd unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 fd_read
//go:noescape
func fdRead(fd int32, vectors unsafe.Pointer, n uint32, read unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 fd_close
//go:noescape
func fdClose(fd int32) uint32

//go:wasmimport wasi_snapshot_preview1 fd_renumber
//go:noescape
func fdRenumber(from, to int32) uint32

//go:wasmimport wasi_snapshot_preview1 path_rename
//go:noescape
func pathRename(from int32, old unsafe.Pointer, n uint32, to int32, name unsafe.Pointer, m uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_create_directory
//go:noescape
func pathCreateDirectory(dir int32, path unsafe.Pointer, n uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_accept
//go:noescape
func sockAccept(fd int32, flags uint32, accepted unsafe.Pointer) uint32

// Descriptors of the two directories, in byte order of their paths.
const inFD, outFD = 3, 4

func errno(e uint32) error {
	if e == 0 {
		return nil
	}
	return syscall.Errno(e)
}

// open reads a file below a directory.
func open(dir int32, path string) (string, error) {
	const readable = 1 << 1
	fd := int32(-1)
	err := errno(pathOpen(dir, 1, unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)), 0, readable, readable, 0,
		unsafe.Pointer(&fd)))
	if err != nil {
		return "", err
	}
	b := make([]byte, 4096)
	vector := [2]uint32{uint32(uintptr(unsafe.Pointer(&b[0]))), uint32(len(b))}
	n := uint32(0)
	err = errno(fdRead(fd, unsafe.Pointer(&vector), 1, unsafe.Pointer(&n)))
	runtime.KeepAlive(b)
	return string(b[:n]), err
}

func rename(dir int32, old, name string) (string, error) {
	return done(errno(pathRename(dir, unsafe.Pointer(unsafe.StringData(old)), uint32(len(old)), dir,
		unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)))))
}

func mkdir(dir int32, path string) (string, error) {
	return done(errno(pathCreateDirectory(dir, unsafe.Pointer(unsafe.StringData(path)), uint32(len(path)))))
}

// preopens puts the directory that may be written in the place of the other one, looks whether
// something is above it now, and closes it.
func preopens() (string, error) {
	if err := errno(fdRenumber(outFD, inFD)); err != nil {
		return "", fmt.Errorf("renumber: %w", err)
	}
	for _, dir := range []int32{inFD, outFD} {
		if got, err := open(dir, "../"+secret); err == nil {
			return got, nil
		}
	}
	if err := errno(fdClose(inFD)); err != nil {
		return "", fmt.Errorf("close: %w", err)
	}
	return open(inFD, "own.txt")
}

// socket asks for a connection of every descriptor.
func socket() (string, error) {
	var err error
	for fd := int32(0); fd < 16; fd++ {
		accepted := int32(-1)
		if err = errno(sockAccept(fd, 0, unsafe.Pointer(&accepted))); err == nil {
			return fmt.Sprint("descriptor ", accepted), nil
		}
	}
	return "", err
}
