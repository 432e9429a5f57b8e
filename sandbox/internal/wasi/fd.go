package wasi

import (
	"encoding/binary"

	"github.com/helmkernel/helm/sandbox/internal/files"
)

// Flags of a descriptor.
const (
	flagAppend   = 1 << 0
	flagDsync    = 1 << 1
	flagNonblock = 1 << 2
	flagRsync    = 1 << 3
	flagSync     = 1 << 4
)

// Rights, of which nothing but the right to write decides here. Libraries read them all.
const (
	rightRead   = 1 << 1
	rightWrite  = 1 << 6
	rightsFile  = 1<<2 | 1<<3 | 1<<5 | 1<<7 | 1<<21 | 1<<27 // seek, flags, tell, advise, stat, poll
	rightsWrite = 1<<0 | 1<<4 | rightWrite | 1<<8 | 1<<22   // sync, write, allocate, size
	rightsDir   = 1<<9 | 1<<10 | 1<<13 | 1<<14 | 1<<15 | 1<<16 | 1<<17 | 1<<18 | 1<<19 | 1<<20 | 1<<21 | 1<<25 | 1<<26
)

func (d *descriptor) rights() (base, inheriting uint64) {
	if d.dir {
		return rightsDir, rightsDir | rightsFile | rightsWrite | rightRead
	}
	if d.file != nil {
		base = rightsFile
	}
	if d.read {
		base |= rightRead
	}
	if d.write {
		base |= rightsWrite
	}
	return base, 0
}

func (d *descriptor) stat() (files.Stat, files.Errno) {
	if d.file == nil {
		return files.Stat{}, files.OK // of no type: a terminal would be written to line by line
	}
	return d.file.Stat()
}

func (w *World) fdAdvise(_ memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	switch {
	case errno != files.OK:
		return errno
	case d.dir:
		return files.BadFile
	case uint32(a[3]) > 5:
		return files.Invalid
	}
	return files.OK
}

func (w *World) fdAllocate(_ memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	offset, size := a[1], a[2]
	switch {
	case errno != files.OK:
		return errno
	case !d.write:
		return files.BadFile
	case size == 0:
		return files.Invalid
	case offset+size < offset:
		return files.TooBig
	}
	s, errno := d.file.Stat()
	if errno != files.OK || offset+size <= s.Size {
		return errno
	}
	return w.resize(d, offset+size)
}

func (w *World) fdSetSize(_ memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	switch {
	case errno != files.OK:
		return errno
	case !d.write:
		return files.BadFile
	}
	return w.resize(d, a[1])
}

func (w *World) resize(d *descriptor, size uint64) files.Errno {
	if errno := w.grow(d, size); errno != files.OK {
		return errno
	}
	return d.file.Truncate(size)
}

func (w *World) fdClose(_ memory, a []uint64) files.Errno {
	d := w.open[uint32(a[0])]
	if d == nil {
		return files.BadFile
	}
	delete(w.open, uint32(a[0]))
	d.close()
	return files.OK
}

// fdRenumber moves a descriptor to the number of another, which it closes.
func (w *World) fdRenumber(_ memory, a []uint64) files.Errno {
	from, to := uint32(a[0]), uint32(a[1])
	d, over := w.open[from], w.open[to]
	switch {
	case d == nil || over == nil:
		return files.BadFile
	case from == to:
		return files.OK
	}
	over.close()
	w.open[to] = d
	delete(w.open, from)
	return files.OK
}

func (w *World) fdSync(_ memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	switch {
	case errno == files.Seek:
		return files.Invalid
	case errno != files.OK:
		return errno
	case d.dir || !d.write:
		return files.OK
	}
	return d.file.Sync()
}

func (w *World) fdGetFlags(m memory, a []uint64) files.Errno {
	d := w.open[uint32(a[0])]
	if d == nil {
		return files.BadFile
	}
	b, ok := m.bytes(a[1], 24)
	if !ok {
		return files.Fault
	}
	s, errno := d.stat()
	if errno != files.OK {
		return errno
	}
	clear(b)
	b[0] = byte(s.Type)
	binary.LittleEndian.PutUint16(b[2:], d.flags)
	base, inheriting := d.rights()
	binary.LittleEndian.PutUint64(b[8:], base)
	binary.LittleEndian.PutUint64(b[16:], inheriting)
	return files.OK
}

// fdSetFlags sets whether writes append. That nothing blocks is so anyway.
func (w *World) fdSetFlags(_ memory, a []uint64) files.Errno {
	d, flags := w.open[uint32(a[0])], uint16(a[1])
	const may = flagAppend | flagNonblock
	switch {
	case d == nil:
		return files.BadFile
	case uint32(a[1]) > 1<<5-1:
		return files.Invalid
	case flags&^may != d.flags&^may:
		return files.NotSupp
	}
	d.flags = flags
	return files.OK
}

func (w *World) fdStat(m memory, a []uint64) files.Errno {
	d := w.open[uint32(a[0])]
	if d == nil {
		return files.BadFile
	}
	s, errno := d.stat()
	if errno != files.OK {
		return errno
	}
	return m.putStat(a[1], s)
}

func (m memory) putStat(ptr uint64, s files.Stat) files.Errno {
	b, ok := m.bytes(ptr, 64)
	if !ok {
		return files.Fault
	}
	for i, v := range []uint64{s.Dev, s.Ino, uint64(s.Type), s.Links, s.Size, s.Access, s.Modify, s.Change} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	return files.OK
}

// fdSetTimes exists for files that may be written, by path.
func (w *World) fdSetTimes(_ memory, a []uint64) files.Errno {
	if w.open[uint32(a[0])] == nil {
		return files.BadFile
	}
	return files.NotSupp
}

func (w *World) fdPrestat(m memory, a []uint64) files.Errno {
	d := w.open[uint32(a[0])]
	if d == nil || d.preopen == "" {
		return files.BadFile
	}
	return m.put64(a[1], uint64(len(d.preopen))<<32) // the tag of a directory is 0
}

func (w *World) fdPrestatName(m memory, a []uint64) files.Errno {
	d := w.open[uint32(a[0])]
	if d == nil || d.preopen == "" {
		return files.BadFile
	}
	b, ok := m.bytes(a[1], uint64(uint32(a[2])))
	switch {
	case !ok:
		return files.Fault
	case len(b) < len(d.preopen):
		return files.NameTooLong
	}
	copy(b, d.preopen)
	return files.OK
}

// fdReaddir fills the buffer with entries. One that does not fit is cut off, which tells the guest
// that there are more.
func (w *World) fdReaddir(m memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	switch {
	case errno == files.Seek:
		return files.NotDir
	case errno != files.OK:
		return errno
	}
	b, ok := m.bytes(a[1], uint64(uint32(a[2])))
	if _, fits := m.bytes(a[4], 4); !ok || !fits {
		return files.Fault
	}
	used := 0
	errno = d.file.Entries(a[3], func(e files.Entry) bool {
		w.host.Check()
		var head [24]byte
		binary.LittleEndian.PutUint64(head[:], e.Next)
		binary.LittleEndian.PutUint64(head[8:], e.Ino)
		binary.LittleEndian.PutUint32(head[16:], uint32(len(e.Name)))
		head[20] = byte(e.Type)
		used += copy(b[used:], head[:])
		used += copy(b[used:], e.Name)
		return used < len(b)
	})
	if errno != files.OK {
		return errno
	}
	return m.put32(a[4], uint32(used))
}

func (w *World) fdSeek(m memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	switch {
	case errno != files.OK:
		return errno
	case d.dir:
		return files.BadFile
	}
	if _, ok := m.bytes(a[3], 8); !ok {
		return files.Fault
	}
	var from uint64
	switch uint32(a[2]) {
	case 0:
	case 1:
		from = d.offset
	case 2:
		s, errno := d.file.Stat()
		if errno != files.OK {
			return errno
		}
		from = s.Size
	default:
		return files.Invalid
	}
	to := from + a[1] // both are below 1 << 63, or a[1] is negative
	if int64(to) < 0 {
		return files.Invalid
	}
	d.offset = to
	return m.put64(a[3], to)
}

func (w *World) fdTell(m memory, a []uint64) files.Errno {
	d, errno := w.file(a[0])
	switch {
	case errno != files.OK:
		return errno
	case d.dir:
		return files.BadFile
	}
	return m.put64(a[1], d.offset)
}
