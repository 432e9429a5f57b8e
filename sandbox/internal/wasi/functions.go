package wasi

import (
	"encoding/binary"

	"github.com/helmkernel/helm/sandbox/internal/files"
)

// A Function is a function that a guest may import. Call has its arguments, as many as the function
// has parameters, and its result. It leaves what it refuses as it was.
type Function struct {
	Name string
	call func(w *World, m memory, args []uint64) files.Errno
}

// Call calls the function, if the guest may go on.
func (f *Function) Call(w *World, mem []byte, args []uint64) files.Errno {
	w.host.Check()
	return f.call(w, mem, args)
}

// Functions returns all functions, sorted by name.
func Functions() []Function {
	return []Function{
		{"args_get", (*World).argsGet},
		{"args_sizes_get", (*World).argsSizes},
		{"clock_res_get", (*World).clockResolution},
		{"clock_time_get", (*World).clockTime},
		{"environ_get", (*World).environGet},
		{"environ_sizes_get", (*World).environSizes},
		{"fd_advise", (*World).fdAdvise},
		{"fd_allocate", (*World).fdAllocate},
		{"fd_close", (*World).fdClose},
		{"fd_datasync", (*World).fdSync},
		{"fd_fdstat_get", (*World).fdGetFlags},
		{"fd_fdstat_set_flags", (*World).fdSetFlags},
		{"fd_fdstat_set_rights", unsupported},
		{"fd_filestat_get", (*World).fdStat},
		{"fd_filestat_set_size", (*World).fdSetSize},
		{"fd_filestat_set_times", (*World).fdSetTimes},
		{"fd_pread", (*World).fdPread},
		{"fd_prestat_dir_name", (*World).fdPrestatName},
		{"fd_prestat_get", (*World).fdPrestat},
		{"fd_pwrite", (*World).fdPwrite},
		{"fd_read", (*World).fdRead},
		{"fd_readdir", (*World).fdReaddir},
		{"fd_renumber", (*World).fdRenumber},
		{"fd_seek", (*World).fdSeek},
		{"fd_sync", (*World).fdSync},
		{"fd_tell", (*World).fdTell},
		{"fd_write", (*World).fdWrite},
		{"path_create_directory", (*World).pathMkdir},
		{"path_filestat_get", (*World).pathStat},
		{"path_filestat_set_times", (*World).pathSetTimes},
		{"path_link", (*World).pathLink},
		{"path_open", (*World).pathOpen},
		{"path_readlink", (*World).pathReadlink},
		{"path_remove_directory", (*World).pathRmdir},
		{"path_rename", (*World).pathRename},
		{"path_symlink", (*World).pathSymlink},
		{"path_unlink_file", (*World).pathUnlink},
		{"poll_oneoff", (*World).pollOneoff},
		{"proc_exit", func(_ *World, _ memory, a []uint64) files.Errno { panic(Exit(uint32(a[0]))) }},
		{"proc_raise", unsupported},
		{"random_get", (*World).random},
		{"sched_yield", func(*World, memory, []uint64) files.Errno { return files.OK }},
		{"sock_accept", unsupported},
		{"sock_recv", unsupported},
		{"sock_send", unsupported},
		{"sock_shutdown", unsupported},
	}
}

// unsupported is a function that must be there because guests import it.
func unsupported(*World, memory, []uint64) files.Errno { return files.NotSupp }

func (w *World) random(m memory, a []uint64) files.Errno {
	b, ok := m.bytes(a[0], uint64(uint32(a[1])))
	if !ok {
		return files.Fault
	}
	for len(b) > 0 {
		n := min(len(b), chunk)
		w.host.Random(b[:n])
		w.host.Check()
		b = b[n:]
	}
	return files.OK
}

func (w *World) argsGet(m memory, a []uint64) files.Errno   { return m.putBlock(w.args, a[0], a[1]) }
func (w *World) argsSizes(m memory, a []uint64) files.Errno { return m.putSizes(w.args, a[0], a[1]) }

func (w *World) environGet(m memory, a []uint64) files.Errno   { return m.putBlock(w.env, a[0], a[1]) }
func (w *World) environSizes(m memory, a []uint64) files.Errno { return m.putSizes(w.env, a[0], a[1]) }

// putSizes writes how many strings a list has, and how long they are with a NUL each.
func (m memory) putSizes(list []string, count, size uint64) files.Errno {
	if _, ok := m.bytes(size, 4); !ok {
		return files.Fault
	}
	if errno := m.put32(count, uint32(len(list))); errno != files.OK {
		return errno
	}
	return m.put32(size, uint32(block(list))-4*uint32(len(list)))
}

// putBlock writes the strings of a list, and a pointer to each.
func (m memory) putBlock(list []string, pointers, text uint64) files.Errno {
	at, ok := m.bytes(pointers, 4*uint64(len(list)))
	to, fits := m.bytes(text, block(list)-4*uint64(len(list)))
	if !ok || !fits {
		return files.Fault
	}
	for i, s := range list {
		binary.LittleEndian.PutUint32(at[4*i:], uint32(text))
		n := copy(to, s)
		to[n] = 0
		to = to[n+1:]
		text += uint64(n + 1)
	}
	return files.OK
}
