package wasi

import (
	"encoding/binary"

	"github.com/helmkernel/helm/sandbox/internal/files"
)

// chunk is how much is done between two looks at the guest's context: bytes, and vectors.
const chunk = 1 << 20

// vectors calls each with every buffer that a list of vectors names, in parts of at most chunk
// bytes, until each returns false or an error. Before it calls each, it finds out whether all of
// them are in memory.
func (w *World) vectors(m memory, ptr, n uint64, each func(part []byte) (bool, files.Errno)) files.Errno {
	list, ok := m.bytes(ptr, 8*uint64(uint32(n)))
	if !ok {
		return files.Fault
	}
	if _, errno := w.total(m, list); errno != files.OK {
		return errno
	}
	for i := 0; i < len(list); i += 8 {
		buf, ok := m.vector(list[i:])
		if !ok {
			return files.Fault // the guest reads into its list
		}
		for len(buf) > 0 {
			part := buf[:min(len(buf), chunk)]
			buf = buf[len(part):]
			w.host.Check()
			if more, errno := each(part); errno != files.OK || !more {
				return errno
			}
		}
		if i%chunk == 0 {
			w.host.Check()
		}
	}
	return files.OK
}

// total returns the length of all buffers of a list.
func (w *World) total(m memory, list []byte) (sum uint64, errno files.Errno) {
	for i := 0; i < len(list); i += 8 {
		buf, ok := m.vector(list[i:])
		if !ok {
			return 0, files.Fault
		}
		sum += uint64(len(buf))
		if i%chunk == 0 {
			w.host.Check()
		}
	}
	return sum, files.OK
}

// vector returns the buffer that a vector names.
func (m memory) vector(v []byte) ([]byte, bool) {
	return m.bytes(uint64(binary.LittleEndian.Uint32(v)), uint64(binary.LittleEndian.Uint32(v[4:])))
}

func (w *World) fdRead(m memory, a []uint64) files.Errno {
	d := w.open[uint32(a[0])]
	if d == nil {
		return files.BadFile
	}
	n, errno := w.readAt(m, d, a[1], a[2], d.offset, a[3])
	d.offset += n
	return errno
}

func (w *World) fdPread(m memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	if errno != files.OK {
		return errno
	}
	_, errno = w.readAt(m, d, a[1], a[2], a[3], a[4])
	return errno
}

// readAt returns how much it read. An error counts only if nothing was read before it.
func (w *World) readAt(m memory, d *descriptor, list, n, offset, result uint64) (uint64, files.Errno) {
	if _, ok := m.bytes(result, 4); !ok {
		return 0, files.Fault
	}
	if !d.read {
		return 0, notReadable(d)
	}
	var read uint64
	errno := w.vectors(m, list, n, func(part []byte) (bool, files.Errno) {
		var got int
		var errno files.Errno
		if d.file == nil {
			got = copy(part, w.stdin[min(offset+read, uint64(len(w.stdin))):])
		} else {
			got, errno = d.file.ReadAt(part, offset+read)
		}
		read += uint64(got)
		return got == len(part), errno
	})
	if errno != files.OK && read == 0 {
		return 0, errno
	}
	return read, m.put32(result, uint32(read))
}

func notReadable(d *descriptor) files.Errno {
	if d.dir {
		return files.IsDirectory
	}
	return files.BadFile
}

func (w *World) fdWrite(m memory, a []uint64) files.Errno {
	d := w.open[uint32(a[0])]
	if d == nil || !d.write {
		return files.BadFile
	}
	if d.file == nil {
		return w.writeStream(m, d.stream, a[1], a[2], a[3])
	}
	offset := d.offset
	if d.flags&flagAppend != 0 {
		s, errno := d.file.Stat()
		if errno != files.OK {
			return errno
		}
		offset = s.Size
	}
	n, errno := w.writeAt(m, d, a[1], a[2], offset, a[3])
	if n > 0 {
		d.offset = offset + n
	}
	return errno
}

func (w *World) fdPwrite(m memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	switch {
	case errno != files.OK:
		return errno
	case !d.write:
		return files.BadFile
	}
	_, errno = w.writeAt(m, d, a[1], a[2], a[3], a[4])
	return errno
}

// writeStream is a write to stdout or stderr.
func (w *World) writeStream(m memory, stream int, list, n, result uint64) files.Errno {
	if _, ok := m.bytes(result, 4); !ok {
		return files.Fault
	}
	var wrote uint64
	errno := w.vectors(m, list, n, func(part []byte) (bool, files.Errno) {
		wrote += uint64(len(part))
		if stream == 2 {
			if uint64(len(w.stdout)+len(part)) > w.limit {
				panic(ErrOutput)
			}
			w.stdout = append(w.stdout, part...)
			return true, files.OK
		}
		w.stderr = append(w.stderr, part[max(0, len(part)-maxStderr):]...)
		w.stderr = append(w.stderr[:0], w.stderr[max(0, len(w.stderr)-maxStderr):]...)
		return true, files.OK
	})
	if errno != files.OK {
		return errno
	}
	return m.put32(result, uint32(wrote))
}

// writeAt pays for the bytes of a file that are written, and for those by which it grows before
// them, and then writes.
func (w *World) writeAt(m memory, d *descriptor, list, n, offset, result uint64) (uint64, files.Errno) {
	if _, ok := m.bytes(result, 4); !ok {
		return 0, files.Fault
	}
	vectors, ok := m.bytes(list, 8*uint64(uint32(n)))
	if !ok {
		return 0, files.Fault
	}
	size, errno := w.total(m, vectors)
	if errno != files.OK {
		return 0, errno
	}
	if size > 0 {
		w.host.Charge(perByte(size))
		if errno := w.grow(d, offset); errno != files.OK {
			return 0, errno
		}
	}
	var wrote uint64
	errno = w.vectors(m, list, n, func(part []byte) (bool, files.Errno) {
		put, errno := d.file.WriteAt(part, offset+wrote)
		wrote += uint64(put)
		return put == len(part), errno
	})
	if errno != files.OK && wrote == 0 {
		return 0, errno
	}
	return wrote, m.put32(result, uint32(wrote))
}

// grow pays for the bytes by which a file would become longer to be as long as size.
func (w *World) grow(d *descriptor, size uint64) files.Errno {
	s, errno := d.file.Stat()
	if errno == files.OK && size > s.Size {
		w.host.Charge(perByte(size - s.Size))
	}
	return errno
}

// perByte is the gas for bytes of a file: 8 each.
func perByte(n uint64) uint64 {
	const most = 1 << 60
	return 8 * min(n, most)
}
