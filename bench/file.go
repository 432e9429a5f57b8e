package main

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
)

// A bareFile is one growing file: each put is one write and one sync. Before each record stand its
// number and two lengths, 16 bytes.
type bareFile struct {
	path   string
	sync   func(*os.File) error
	ahead  int64      // so much is filled with zeros at a time before it is written to; 0 appends
	mu     sync.Mutex // protects what follows; held across one put
	f      *os.File
	end    int64
	filled int64
	buf    []byte
}

// appended is the plainest log: append and fsync.
func appended(path string) (store, error) { return newFile(path, (*os.File).Sync, 0) }

// zeroed has the layout of a filestore: written and fdatasynced into space that exists already, so
// that no size and no extent changes.
func zeroed(path string) (store, error) { return newFile(path, fdatasync, 1<<20) }

func newFile(path string, sync func(*os.File) error, ahead int64) (store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return &bareFile{path: path, sync: sync, ahead: ahead, f: f}, err
}

func (b *bareFile) put(items ...item) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = b.buf[:0]
	for _, it := range items {
		b.buf = binary.LittleEndian.AppendUint64(b.buf, it.key)
		b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(it.entry)))
		b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(it.inputs)))
		b.buf = append(append(b.buf, it.entry...), it.inputs...)
	}
	for b.ahead > 0 && b.end+int64(len(b.buf)) > b.filled {
		if _, err := b.f.WriteAt(make([]byte, b.ahead), b.filled); err != nil {
			return err
		}
		b.filled += b.ahead
	}
	if _, err := b.f.WriteAt(b.buf, b.end); err != nil {
		return err
	}
	b.end += int64(len(b.buf))
	return b.sync(b.f)
}

func (b *bareFile) reopen(each func(item) error) error {
	if err := b.f.Close(); err != nil {
		return err
	}
	all, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	for rest := all; len(rest) >= 16; {
		it := item{key: binary.LittleEndian.Uint64(rest)}
		n, m := int(binary.LittleEndian.Uint32(rest[8:])), int(binary.LittleEndian.Uint32(rest[12:]))
		if n == 0 {
			break // zeros: nothing was written here
		}
		if rest = rest[16:]; len(rest) < n+m {
			return io.ErrUnexpectedEOF
		}
		it.entry, it.inputs, rest = rest[:n], rest[n:n+m], rest[n+m:]
		if err := each(it); err != nil {
			return err
		}
	}
	return nil
}
