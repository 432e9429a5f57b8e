package peers

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
)

// A bareFile is one growing file: each put is one write and one sync. Before each record are its
// number and two lengths, 16 bytes.
type bareFile struct {
	path   string
	sync   func(*os.File) error
	ahead  int64      // so much is filled with zeros at a time before it is written to; 0 appends
	mu     sync.Mutex // protects the fields below; held across one put
	f      *os.File
	end    int64
	filled int64
	buf    []byte
}

// Appended makes the plainest log: append and fsync.
func Appended(path string) (Store, error) { return newFile(path, (*os.File).Sync, 0) }

// Zeroed makes a file with the layout of a filestore: written and fdatasynced into space that
// exists already, so that no size and no extent changes.
func Zeroed(path string) (Store, error) { return newFile(path, fdatasync, 1<<20) }

func newFile(path string, sync func(*os.File) error, ahead int64) (Store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return &bareFile{path: path, sync: sync, ahead: ahead, f: f}, err
}

func (b *bareFile) Put(items ...Item) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = b.buf[:0]
	for _, it := range items {
		b.buf = binary.LittleEndian.AppendUint64(b.buf, it.Key)
		b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(it.Entry)))
		b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(it.Inputs)))
		b.buf = append(append(b.buf, it.Entry...), it.Inputs...)
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

func (b *bareFile) Reopen(each func(Item) error) error {
	if err := b.f.Close(); err != nil {
		return err
	}
	all, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	for rest := all; len(rest) >= 16; {
		it := Item{Key: binary.LittleEndian.Uint64(rest)}
		n, m := int(binary.LittleEndian.Uint32(rest[8:])), int(binary.LittleEndian.Uint32(rest[12:]))
		if n == 0 {
			break // zeros: nothing was written here
		}
		if rest = rest[16:]; len(rest) < n+m {
			return io.ErrUnexpectedEOF
		}
		it.Entry, it.Inputs, rest = rest[:n], rest[n:n+m], rest[n+m:]
		if err := each(it); err != nil {
			return err
		}
	}
	return nil
}
