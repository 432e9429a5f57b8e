package wasi

import (
	"github.com/helmkernel/helm/sandbox/internal/files"
)

const follow = 1 // the flag of lookups

func (w *World) pathOpen(m memory, a []uint64) files.Errno {
	fs, path, errno := w.at(m, a[0], a[2], a[3])
	if errno != files.OK {
		return errno
	}
	if _, ok := m.bytes(a[8], 4); !ok {
		return files.Fault
	}
	if len(w.open) >= maxOpen {
		return files.Perm
	}
	flags := uint16(a[7])
	how := files.How{
		Follow: a[1]&follow != 0,
		Create: a[4]&1 != 0, Directory: a[4]&2 != 0, Exclusive: a[4]&4 != 0, Truncate: a[4]&8 != 0,
		Write: a[5]&rightWrite != 0,
		Sync:  flags&(flagDsync|flagRsync|flagSync) != 0,
	}
	how.Read = a[5]&rightRead != 0 || !how.Write
	if how.Create && how.Directory || uint32(a[7]) > 1<<5-1 {
		return files.Invalid
	}
	f, errno := fs.Open(path, how)
	if errno != files.OK {
		return errno
	}
	d := &descriptor{file: f, fs: fs, read: how.Read, write: how.Write, flags: flags}
	if s, errno := f.Stat(); errno != files.OK {
		f.Close()
		return errno
	} else if s.Type == files.Directory {
		d.dir, d.path, d.read, d.write = true, path, false, false
	}
	n, errno := w.add(d)
	if errno != files.OK {
		f.Close()
		return errno
	}
	return m.put32(a[8], n)
}

func (w *World) pathStat(m memory, a []uint64) files.Errno {
	fs, path, errno := w.at(m, a[0], a[2], a[3])
	if errno != files.OK {
		return errno
	}
	s, errno := fs.Stat(path, a[1]&follow != 0)
	if errno != files.OK {
		return errno
	}
	return m.putStat(a[4], s)
}

func (w *World) pathSetTimes(m memory, a []uint64) files.Errno {
	fs, path, errno := w.at(m, a[0], a[2], a[3])
	if errno != files.OK {
		return errno
	}
	var t files.Times
	for i, which := range []**uint64{&t.Access, &t.Modify} {
		at := a[4+i]
		switch uint32(a[6]) >> (2 * i) & 3 {
		case 1:
			*which = &at
		case 2:
			at = w.host.Wall()
			*which = &at
		case 3:
			return files.Invalid
		}
	}
	if uint32(a[6]) > 15 {
		return files.Invalid
	}
	return fs.SetTimes(path, a[1]&follow != 0, t)
}

func (w *World) pathReadlink(m memory, a []uint64) files.Errno {
	fs, path, errno := w.at(m, a[0], a[1], a[2])
	if errno != files.OK {
		return errno
	}
	b, ok := m.bytes(a[3], uint64(uint32(a[4])))
	if _, fits := m.bytes(a[5], 4); !ok || !fits {
		return files.Fault
	}
	to, errno := fs.Readlink(path)
	if errno != files.OK {
		return errno
	}
	return m.put32(a[5], uint32(copy(b, to)))
}

func (w *World) pathMkdir(m memory, a []uint64) files.Errno {
	fs, path, errno := w.at(m, a[0], a[1], a[2])
	if errno != files.OK {
		return errno
	}
	return fs.Mkdir(path)
}

func (w *World) pathUnlink(m memory, a []uint64) files.Errno { return w.remove(m, a, false) }
func (w *World) pathRmdir(m memory, a []uint64) files.Errno  { return w.remove(m, a, true) }

func (w *World) remove(m memory, a []uint64, dir bool) files.Errno {
	fs, path, errno := w.at(m, a[0], a[1], a[2])
	if errno != files.OK {
		return errno
	}
	return fs.Remove(path, dir)
}

func (w *World) pathRename(m memory, a []uint64) files.Errno {
	fs, path, errno := w.at(m, a[0], a[1], a[2])
	if errno != files.OK {
		return errno
	}
	other, to, errno := w.at(m, a[3], a[4], a[5])
	switch {
	case errno != files.OK:
		return errno
	case other != fs:
		return files.OtherFS
	}
	return fs.Rename(path, to)
}

// No links are made: what they lead to is decided by who follows them, maybe outside of the
// sandbox.

func (w *World) pathLink(memory, []uint64) files.Errno    { return files.Perm }
func (w *World) pathSymlink(memory, []uint64) files.Errno { return files.Perm }
