package wasi

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/sandbox/internal/files"
)

// A guest is a world with memory, and its host.
type guest struct {
	*testing.T
	*World
	mem    []byte
	top    uint32 // what is above is free
	gas    uint64
	slept  uint64
	checks int
	calls  map[string]Function
}

func (g *guest) Check()            { g.checks++ }
func (g *guest) Charge(n uint64)   { g.gas += n }
func (g *guest) Wall() uint64      { return 1e18 + g.slept }
func (g *guest) Monotonic() uint64 { return 1000 + g.slept }
func (g *guest) Sleep(ns uint64)   { g.slept += ns }
func (g *guest) Random(p []byte) {
	for i := range p {
		p[i] = byte(i + 1)
	}
}

func newGuest(t *testing.T, s Setup) *guest {
	t.Helper()
	g := &guest{T: t, mem: make([]byte, 1<<17), top: 64, calls: map[string]Function{}}
	for _, f := range Functions() {
		g.calls[f.Name] = f
	}
	var err error
	g.World, err = New(g, s)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// call calls a function. A string among the arguments is put in memory, and becomes a pointer and a
// length.
func (g *guest) call(name string, args ...any) files.Errno {
	g.Helper()
	var a []uint64
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			a = append(a, uint64(g.put([]byte(v))), uint64(len(v)))
		case uint64:
			a = append(a, v)
		case uint32:
			a = append(a, uint64(v))
		case int:
			a = append(a, uint64(v))
		default:
			g.Fatalf("%T", arg)
		}
	}
	f, ok := g.calls[name]
	require.True(g, ok, name)
	return f.Call(g.World, g.mem, a)
}

// put puts bytes into free memory.
func (g *guest) put(b []byte) uint32 {
	at := g.top
	copy(g.mem[at:], b)
	g.top += uint32(len(b)+15) &^ 7
	require.Less(g, int(g.top), len(g.mem))
	return at
}

// list puts vectors of these sizes into memory, one after the other, and returns the list and where
// the first buffer is.
func (g *guest) list(sizes ...int) (list, buf uint32) {
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	buf = g.put(make([]byte, sum))
	at, b := buf, []byte(nil)
	for _, n := range sizes {
		b = binary.LittleEndian.AppendUint32(b, at)
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
		at += uint32(n)
	}
	return g.put(b), buf
}

func (g *guest) u32(at uint32) uint32 { return binary.LittleEndian.Uint32(g.mem[at:]) }
func (g *guest) u64(at uint32) uint64 { return binary.LittleEndian.Uint64(g.mem[at:]) }

const result = 8 // where results are put

const (
	create, directory, exclusive, truncate = 1, 2, 4, 8
)

func (g *guest) openAt(dir uint32, path string, oflags, rights, flags int) (uint32, files.Errno) {
	errno := g.call("path_open", dir, follow, path, oflags, rights, 0, flags, result)
	return g.u32(result), errno
}

func (g *guest) read(fd uint32, n int) (string, files.Errno) {
	list, buf := g.list(n)
	errno := g.call("fd_read", fd, list, 1, result)
	if errno != files.OK {
		return "", errno
	}
	return string(g.mem[buf : buf+g.u32(result)]), errno
}

func (g *guest) write(fd uint32, s string) files.Errno {
	list, buf := g.list(len(s))
	copy(g.mem[buf:], s)
	return g.call("fd_write", fd, list, 1, result)
}

func treeOf(t *testing.T, m map[string]string) *files.Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, s := range m {
		fsys[name] = &fstest.MapFile{Data: []byte(s)}
	}
	tree, err := files.NewTree(fsys)
	require.NoError(t, err)
	return tree
}

func dirOf(t *testing.T, write bool) (files.FS, string) {
	t.Helper()
	at := t.TempDir()
	root, err := os.OpenRoot(at)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	fs, err := files.NewDir(root, write)
	if err != nil {
		t.Skip("directories are granted on Linux and macOS only; this is ", runtime.GOOS)
	}
	return fs, at
}

func TestArgumentsAndEnvironment(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{Args: []string{"tool", "", "é"}, Env: []string{"A=1"}})
	assert.Equal(t, uint64(3*4+5+1+3), g.Args())
	assert.Equal(t, uint64(4+4), g.Environ())
	require.Equal(t, files.OK, g.call("args_sizes_get", 8, 12))
	assert.True(t, g.u32(8) == 3 && g.u32(12) == 9)
	require.Equal(t, files.OK, g.call("args_get", 100, 200))
	assert.Equal(t, "tool\x00\x00é\x00", string(g.mem[200:209]))
	assert.Equal(t, []uint32{200, 205, 206}, []uint32{g.u32(100), g.u32(104), g.u32(108)})
	require.Equal(t, files.OK, g.call("environ_sizes_get", 8, 12))
	assert.True(t, g.u32(8) == 1 && g.u32(12) == 4)
	require.Equal(t, files.OK, g.call("environ_get", 100, 200))
	assert.Equal(t, "A=1\x00", string(g.mem[200:204]))
	end := len(g.mem)
	before := slices.Clone(g.mem)
	for _, a := range [][2]int{{end - 8, 200}, {100, end - 8}} {
		assert.Equal(t, files.Fault, g.call("args_get", a[0], a[1]))
		assert.Equal(t, before, g.mem, "something was written")
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{Stdin: []byte(`{"a":12}`), Output: 10})
	list, buf := g.list(3, 0, 2)
	require.Equal(t, files.OK, g.call("fd_read", 0, list, 3, result))
	assert.True(t, g.u32(result) == 5 && string(g.mem[buf:buf+5]) == `{"a":`)
	got, errno := g.read(0, 100)
	assert.True(t, got == "12}" && errno == files.OK, "%q", got)
	got, errno = g.read(0, 100)
	assert.True(t, got == "" && errno == files.OK, "at the end")
	for _, fd := range []uint32{1, 2, 3, 99} {
		_, errno = g.read(fd, 1)
		assert.Equal(t, files.BadFile, errno)
	}
	assert.Equal(t, files.BadFile, g.write(0, "x"))
	assert.Equal(t, files.Seek, g.call("fd_seek", 1, 0, 0, result))
	assert.Equal(t, files.Seek, g.call("fd_tell", 1, result))
	assert.Equal(t, files.Seek, g.call("fd_pread", 0, list, 1, 0, result))

	assert.Equal(t, files.OK, g.write(1, "12345"))
	assert.Equal(t, files.OK, g.write(1, "67890"))
	assert.PanicsWithValue(t, ErrOutput, func() { g.write(1, "x") })
	assert.Equal(t, "1234567890", string(g.Stdout()))
	for i := range 5000 {
		require.Equal(t, files.OK, g.write(2, fmt.Sprintf("%04d", i)))
		g.top = 4096
	}
	assert.Equal(t, 1024, len(g.Stderr()))
	assert.True(t, strings.HasPrefix(string(g.Stderr()), "4744") && strings.HasSuffix(string(g.Stderr()), "4999"))
	assert.Equal(t, files.OK, g.write(2, strings.Repeat("x", 2000)+"y"))
	assert.Equal(t, strings.Repeat("x", 1023)+"y", string(g.Stderr()))
	assert.Zero(t, g.gas, "streams are no files")
	require.Equal(t, files.OK, g.call("fd_filestat_get", 1, 100))
	assert.Equal(t, make([]byte, 64), g.mem[100:164])
}

// A guest may read into the very list that it reads by.
func TestReadIntoTheList(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{Stdin: slices.Repeat([]byte{0xff}, 64)})
	list, _ := g.list(1, 1, 1)
	binary.LittleEndian.PutUint32(g.mem[list:], list)
	binary.LittleEndian.PutUint32(g.mem[list+4:], 24)
	assert.Equal(t, files.OK, g.call("fd_read", 0, list, 3, result), "24 bytes were read before the list was none")
	assert.Equal(t, uint32(24), g.u32(result))
}

func TestFiles(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{Mounts: []Mount{{"/data", treeOf(t, map[string]string{"a": "alpha", "d/b": "beta", "d/c": ""})}}})
	require.Equal(t, files.OK, g.call("fd_prestat_get", 3, result))
	assert.Equal(t, uint64(5<<32), g.u64(result))
	require.Equal(t, files.OK, g.call("fd_prestat_dir_name", 3, 100, 5))
	assert.Equal(t, "/data", string(g.mem[100:105]))
	assert.Equal(t, files.NameTooLong, g.call("fd_prestat_dir_name", 3, 100, 4))
	assert.Equal(t, files.BadFile, g.call("fd_prestat_get", 4, result))
	assert.Equal(t, files.BadFile, g.call("fd_prestat_get", 2, result))

	fd, errno := g.openAt(3, "a", 0, rightRead, 0)
	require.True(t, errno == files.OK && fd == 4)
	got, _ := g.read(fd, 3)
	assert.Equal(t, "alp", got)
	require.Equal(t, files.OK, g.call("fd_tell", fd, result))
	assert.Equal(t, uint64(3), g.u64(result))
	for _, s := range []struct {
		offset uint64
		whence int
		want   uint64
		errno  files.Errno
	}{{1, 0, 1, 0}, {1, 1, 2, 0}, {^uint64(0), 2, 4, 0}, {^uint64(9), 1, 4, files.Invalid}, {1 << 62, 0, 1 << 62, 0},
		{1 << 62, 1, 1 << 62, files.Invalid}, {0, 3, 1 << 62, files.Invalid}, {2, 0, 2, 0}} {
		assert.Equal(t, s.errno, g.call("fd_seek", fd, s.offset, s.whence, result), "%+v", s)
		require.Equal(t, files.OK, g.call("fd_tell", fd, result))
		assert.Equal(t, s.want, g.u64(result), "%+v", s)
	}
	got, _ = g.read(fd, 9)
	assert.Equal(t, "pha", got)
	list, buf := g.list(2)
	require.Equal(t, files.OK, g.call("fd_pread", fd, list, 1, 1, result))
	assert.Equal(t, "lp", string(g.mem[buf:buf+2]))
	assert.Equal(t, files.BadFile, g.call("fd_seek", 3, 0, 0, result))
	_, errno = g.read(3, 1)
	assert.Equal(t, files.IsDirectory, errno)

	require.Equal(t, files.OK, g.call("path_filestat_get", 3, 0, "d/b", 100))
	assert.True(t, g.mem[116] == 4 && g.u64(132) == 4 && g.u64(100) == 1, "% x", g.mem[100:164])
	require.Equal(t, files.OK, g.call("fd_fdstat_get", fd, 100))
	assert.True(t, g.mem[100] == 4 && g.u64(108)&rightWrite == 0 && g.u64(108)&rightRead != 0)

	dir, errno := g.openAt(3, "d", directory, rightRead, 0)
	require.Equal(t, files.OK, errno)
	_, errno = g.openAt(dir, "b", 0, rightRead, 0)
	assert.Equal(t, files.OK, errno)
	_, errno = g.openAt(3, "a", directory, rightRead, 0)
	assert.Equal(t, files.NotDir, errno)
	_, errno = g.openAt(3, "d", directory|create, rightRead, 0)
	assert.Equal(t, files.Invalid, errno)
}

// However small the buffer is, the guest gets each entry once.
func TestReaddir(t *testing.T) {
	t.Parallel()
	m := map[string]string{}
	for i := range 40 {
		m[fmt.Sprintf("%0*d", i+1, i)] = ""
	}
	dir, at := dirOf(t, false)
	for name := range m {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), nil, 0o644))
	}
	want := slices.Sorted(maps.Keys(m))
	g := newGuest(t, Setup{Mounts: []Mount{{"/dir", dir}, {"/tree", treeOf(t, m)}}})
	for _, fd := range []int{3, 4} {
		for _, size := range []int{64, 65, 100, 1000, 60000} {
			var got []string
			cookie := uint64(0)
			for more := true; more; {
				require.Equal(t, files.OK, g.call("fd_readdir", fd, 1000, size, cookie, result))
				b := g.mem[1000 : 1000+g.u32(result)]
				for more = len(b) == size; len(b) >= 24; {
					n := int(binary.LittleEndian.Uint32(b[16:]))
					if len(b) < 24+n {
						break
					}
					assert.Equal(t, byte(files.Regular), b[20])
					got, cookie, b = append(got, string(b[24:24+n])), binary.LittleEndian.Uint64(b), b[24+n:]
				}
			}
			if fd == 4 {
				assert.Equal(t, want, got, "in byte order")
			}
			slices.Sort(got)
			require.Equal(t, want, got, "%d", size)
		}
	}
	assert.NotZero(t, g.checks)
	assert.Equal(t, files.NotDir, g.call("fd_readdir", 1, 1000, 100, 0, result))
}

func TestPaths(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{Mounts: []Mount{{"/", treeOf(t, map[string]string{"a": "", "d/e/f": ""})}}})
	dir, errno := g.openAt(3, "d", 0, 0, 0)
	require.Equal(t, files.OK, errno)
	file, errno := g.openAt(3, "a", 0, rightRead, 0)
	require.Equal(t, files.OK, errno)
	long := strings.Repeat("./", files.MaxPath/2)
	for _, c := range []struct {
		fd   uint32
		path string
		want files.Errno
	}{
		{3, "a", files.OK}, {3, "d/../a", files.OK}, {dir, "e/f", files.OK}, {dir, "./e/../e/f", files.OK},
		{3, long[:4094] + "/a", files.OK}, {3, long + "a", files.NameTooLong},
		{3, "/a", files.Perm}, {3, "..", files.Perm}, {3, "../a", files.Perm}, {3, "d/../../a", files.Perm},
		{dir, "../a", files.Perm}, {dir, "e/../../a", files.Perm}, {dir, "x/../../a", files.Perm},
		{3, "", files.NoEntry}, {3, "a\x00", files.Invalid}, {3, "\xff", files.NotUTF8},
		{file, "a", files.NotDir}, {1, "a", files.NotDir}, {99, "a", files.BadFile},
		{dir, long[:4095], files.NameTooLong},
	} {
		assert.Equal(t, c.want, g.call("path_filestat_get", c.fd, 1, c.path, 100), "%d %.20q", c.fd, c.path)
		fd, errno := g.openAt(c.fd, c.path, 0, rightRead, 0)
		assert.Equal(t, c.want, errno, "%d %.20q", c.fd, c.path)
		if errno == files.OK {
			require.Equal(t, files.OK, g.call("fd_close", fd))
		}
		g.top = 64
	}
}

// Nothing that a guest does with its descriptors makes it one that it had not.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{Stdin: []byte("in"), Output: 10,
		Mounts: []Mount{{"/a", treeOf(t, map[string]string{"x": "a"})}, {"/b", treeOf(t, map[string]string{"x": "b"})}}})
	opened := 0
	for range 10_000 {
		_, errno := g.openAt(3, "x", 0, rightRead, 0)
		if errno == files.OK {
			opened++
		} else {
			require.Equal(t, files.Perm, errno)
		}
		g.top = 64
	}
	assert.Equal(t, 128-5, opened)
	require.Equal(t, files.OK, g.call("fd_close", 77))
	fd, errno := g.openAt(4, "x", 0, rightRead, 0)
	require.True(t, errno == files.OK && fd == 77, "the lowest that is free")
	got, _ := g.read(fd, 9)
	assert.Equal(t, "b", got)
	for fd := range uint64(200) {
		if fd > 4 {
			g.call("fd_close", fd)
		}
	}
	assert.Equal(t, files.BadFile, g.call("fd_close", 77))
	assert.Equal(t, files.BadFile, g.call("fd_renumber", 77, 3))
	assert.Equal(t, files.BadFile, g.call("fd_renumber", 3, 77))
	assert.Equal(t, files.OK, g.call("fd_renumber", 3, 3))

	require.Equal(t, files.OK, g.call("fd_renumber", 4, 3), "the second grant in place of the first")
	_, errno = g.openAt(4, "x", 0, rightRead, 0)
	assert.Equal(t, files.BadFile, errno)
	fd, errno = g.openAt(3, "x", 0, rightRead, 0)
	require.Equal(t, files.OK, errno)
	got, _ = g.read(fd, 9)
	assert.Equal(t, "b", got)
	require.Equal(t, files.OK, g.call("fd_renumber", fd, 1), "a file in place of stdout")
	assert.Equal(t, files.BadFile, g.write(1, "x"))
	assert.Empty(t, g.Stdout())
	require.Equal(t, files.OK, g.call("fd_renumber", 2, 0), "stderr in place of stdin")
	assert.Equal(t, files.OK, g.write(0, "err"))
	assert.Equal(t, "err", string(g.Stderr()))
	require.Equal(t, files.OK, g.call("fd_close", 3))
	assert.Equal(t, files.BadFile, g.call("fd_prestat_get", 3, result), "a closed grant is gone")
	_, errno = g.openAt(3, "x", 0, rightRead, 0)
	assert.Equal(t, files.BadFile, errno)
}

// What writes, tried on grants that only read: nothing of the host changes, and nothing is paid
// for.
func TestReadOnlyGrants(t *testing.T) {
	t.Parallel()
	dir, at := dirOf(t, false)
	for name, s := range map[string]string{"a": "alpha", "b": "beta"} {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(s), 0o644))
	}
	before, err := os.Stat(filepath.Join(at, "a"))
	require.NoError(t, err)
	tree := treeOf(t, map[string]string{"a": "alpha", "b": "beta"})
	g := newGuest(t, Setup{Mounts: []Mount{{"/dir", dir}, {"/tree", tree}}})
	for _, grant := range []uint32{3, 4} {
		for _, rights := range []int{0, rightRead, rightRead | rightWrite, rightWrite, -1} {
			for oflags := range 16 {
				for _, flags := range []int{0, flagAppend, flagSync} {
					for _, name := range []string{"a", "new"} {
						g.top = 64
						fd, errno := g.openAt(grant, name, oflags, rights, flags)
						if errno != files.OK {
							continue
						}
						assert.NotEqual(t, files.OK, g.write(fd, "x"))
						list, _ := g.list(1)
						assert.NotEqual(t, files.OK, g.call("fd_pwrite", fd, list, 1, 0, result))
						assert.NotEqual(t, files.OK, g.call("fd_allocate", fd, 0, 100))
						assert.NotEqual(t, files.OK, g.call("fd_filestat_set_size", fd, 0))
						assert.NotEqual(t, files.OK, g.call("fd_filestat_set_times", fd, 0, 0, 15))
						require.Equal(t, files.OK, g.call("fd_close", fd))
					}
				}
			}
		}
		assert.Equal(t, files.ReadOnly, g.call("path_create_directory", grant, "new"))
		assert.Equal(t, files.ReadOnly, g.call("path_unlink_file", grant, "a"))
		assert.Equal(t, files.ReadOnly, g.call("path_remove_directory", grant, "a"))
		assert.Equal(t, files.ReadOnly, g.call("path_rename", grant, "a", grant, "new"))
		assert.Equal(t, files.ReadOnly, g.call("path_filestat_set_times", grant, 0, "a", 1, 1, 5))
		assert.Equal(t, files.Perm, g.call("path_link", grant, 0, "a", grant, "new"))
		assert.Equal(t, files.Perm, g.call("path_symlink", "a", grant, "new"))
	}
	assert.Equal(t, files.OtherFS, g.call("path_rename", 3, "a", 4, "new"))
	left, err := os.ReadDir(at)
	require.NoError(t, err)
	assert.Len(t, left, 2)
	after, err := os.Stat(filepath.Join(at, "a"))
	require.NoError(t, err)
	assert.Equal(t, before.ModTime(), after.ModTime())
	assert.Equal(t, before.Size(), after.Size())
	assert.Zero(t, g.gas)
}

// A byte of a file that is written costs 8, and one by which it grows.
func TestWritingIsPaidFor(t *testing.T) {
	t.Parallel()
	dir, at := dirOf(t, true)
	g := newGuest(t, Setup{Mounts: []Mount{{"/dir", dir}}})
	fd, errno := g.openAt(3, "f", create|exclusive, rightRead|rightWrite, 0)
	require.Equal(t, files.OK, errno)
	paid := func(what string, want uint64, errno files.Errno) {
		t.Helper()
		assert.Equal(t, files.OK, errno, what)
		assert.Equal(t, want, g.gas, what)
		g.gas = 0
	}
	list, buf := g.list(2, 0, 3)
	copy(g.mem[buf:], "abcde")
	paid("nothing", 0, g.write(fd, ""))
	paid("5 bytes", 40, g.call("fd_write", fd, list, 3, result))
	paid("past the end", 40+8*5, g.call("fd_pwrite", fd, list, 3, 10, result))
	paid("over it again", 40, g.call("fd_pwrite", fd, list, 3, 10, result))
	paid("nothing past the end", 0, g.call("fd_pwrite", fd, list, 0, 1000, result))
	paid("longer", 8*5, g.call("fd_filestat_set_size", fd, 20))
	paid("shorter", 0, g.call("fd_filestat_set_size", fd, 1))
	paid("allocated", 8*9, g.call("fd_allocate", fd, 5, 5))
	paid("allocated before", 0, g.call("fd_allocate", fd, 0, 10))
	paid("append", 0, g.call("fd_fdstat_set_flags", fd, flagAppend))
	paid("append", 40, g.call("fd_write", fd, list, 3, result))
	require.Equal(t, files.OK, g.call("fd_tell", fd, result))
	assert.Equal(t, uint64(15), g.u64(result))
	got, err := os.ReadFile(filepath.Join(at, "f"))
	require.NoError(t, err)
	assert.Equal(t, "a\x00\x00\x00\x00\x00\x00\x00\x00\x00abcde", string(got))
	paid("synced", 0, g.call("fd_sync", fd))
	paid("renamed", 0, g.call("path_rename", 3, "f", 3, "g"))
	paid("times", 0, g.call("path_filestat_set_times", 3, 0, "g", 0, 0, 2|8))
	require.Equal(t, files.OK, g.call("path_filestat_get", 3, 0, "g", 100))
	assert.True(t, g.u64(140) == 1e18 && g.u64(148) == 1e18, "now is the guest's")

	assert.Equal(t, files.Invalid, g.call("fd_allocate", fd, 0, 0))
	assert.Equal(t, files.TooBig, g.call("fd_allocate", fd, 1, ^uint64(0)))
	assert.Zero(t, g.gas)
	assert.Equal(t, files.TooBig, g.call("fd_filestat_set_size", fd, ^uint64(0)))
	assert.Equal(t, uint64(8<<60), g.gas, "more than any grant, and no sum that overflows")
	assert.Equal(t, files.Invalid, g.call("path_filestat_set_times", 3, 0, "g", 0, 0, 3))
	assert.Equal(t, files.NotSupp, g.call("fd_fdstat_set_flags", fd, flagSync))
	assert.Equal(t, files.Perm, g.call("path_link", 3, 0, "g", 3, "new"))
	assert.Equal(t, files.Perm, g.call("path_symlink", "g", 3, "new"))
}

func TestClocks(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{})
	for clock, want := range []uint64{1e18, 1000} {
		require.Equal(t, files.OK, g.call("clock_time_get", clock, 0, result))
		assert.Equal(t, want, g.u64(result))
		require.Equal(t, files.OK, g.call("clock_res_get", clock, result))
		assert.Equal(t, uint64(1), g.u64(result))
	}
	for _, clock := range []uint32{2, 3, 4, 1 << 31} {
		assert.Equal(t, files.Invalid, g.call("clock_time_get", clock, 0, result))
		assert.Equal(t, files.Invalid, g.call("clock_res_get", clock, result))
	}
}

// subscribe makes a subscription, whose user data is its place.
func subscribe(list []byte, tag byte, fdOrClock uint32, timeout uint64, flags uint16) []byte {
	var s [subscription]byte
	s[0], s[8] = byte(len(list)/subscription+1), tag
	binary.LittleEndian.PutUint32(s[16:], fdOrClock)
	binary.LittleEndian.PutUint64(s[24:], timeout)
	binary.LittleEndian.PutUint16(s[40:], flags)
	return append(list, s[:]...)
}

func TestPoll(t *testing.T) {
	t.Parallel()
	year := uint64(365 * 24 * 3600 * 1e9)
	for name, c := range map[string]struct {
		list   []byte
		slept  uint64
		events []byte // by user data
		errnos []files.Errno
	}{
		"a year":             {subscribe(nil, 0, 1, year, 0), year, []byte{1}, []files.Errno{0}},
		"for ever":           {subscribe(nil, 0, 0, ^uint64(0), 0), ^uint64(0), []byte{1}, []files.Errno{0}},
		"until":              {subscribe(nil, 0, 1, 1500, 1), 500, []byte{1}, []files.Errno{0}},
		"until before":       {subscribe(nil, 0, 0, 1500, 1), 0, []byte{1}, []files.Errno{0}},
		"the first of two":   {subscribe(subscribe(nil, 0, 1, 9, 0), 0, 1, 7, 0), 7, []byte{2}, []files.Errno{0}},
		"two at a time":      {subscribe(subscribe(nil, 0, 1, 7, 0), 0, 1, 1007, 1), 7, []byte{1, 2}, []files.Errno{0, 0}},
		"no such clock":      {subscribe(nil, 0, 2, 7, 0), 0, []byte{1}, []files.Errno{files.Invalid}},
		"stdin is ready":     {subscribe(subscribe(nil, 0, 1, 9, 0), 1, 0, 0, 0), 0, []byte{2}, []files.Errno{0}},
		"stdout is ready":    {subscribe(subscribe(nil, 0, 1, 0, 0), 2, 1, 0, 0), 0, []byte{1, 2}, []files.Errno{0, 0}},
		"no such one":        {subscribe(nil, 1, 99, 0, 0), 0, []byte{1}, []files.Errno{files.BadFile}},
		"stdin, to write":    {subscribe(nil, 2, 0, 0, 0), 0, []byte{1}, []files.Errno{files.BadFile}},
		"directory, a grant": {subscribe(nil, 1, 3, 0, 0), 0, []byte{1}, []files.Errno{files.BadFile}},
	} {
		g := newGuest(t, Setup{Stdin: []byte("12345"), Mounts: []Mount{{"/", treeOf(t, nil)}}})
		in := g.put(c.list)
		n := len(c.list) / subscription
		require.Equal(t, files.OK, g.call("poll_oneoff", in, 1000, n, result), name)
		assert.Equal(t, c.slept, g.slept, name)
		require.Equal(t, len(c.events), int(g.u32(result)), name)
		for i, user := range c.events {
			e := g.mem[1000+event*i:]
			assert.Equal(t, user, e[0], name)
			assert.Equal(t, uint16(c.errnos[i]), binary.LittleEndian.Uint16(e[8:]), name)
			if name == "stdin is ready" {
				assert.Equal(t, byte(5), e[16])
			}
		}
		assert.Equal(t, files.OK, g.call("poll_oneoff", in, in, n, result), "events over subscriptions")
	}
	g := newGuest(t, Setup{})
	in := g.put(subscribe(nil, 3, 0, 0, 0))
	assert.Equal(t, files.Invalid, g.call("poll_oneoff", in, 1000, 1, result))
	assert.Equal(t, files.Invalid, g.call("poll_oneoff", in, 1000, 0, result))
	assert.Equal(t, files.Fault, g.call("poll_oneoff", in, 1000, 1<<30, result))
}

func TestRandomExitAndWhatIsNotThere(t *testing.T) {
	t.Parallel()
	g := newGuest(t, Setup{})
	require.Equal(t, files.OK, g.call("random_get", 100, 3))
	assert.Equal(t, []byte{0, 1, 2, 3, 0}, g.mem[99:104])
	assert.Equal(t, files.Fault, g.call("random_get", len(g.mem)-2, 3))
	assert.PanicsWithValue(t, Exit(7), func() { g.call("proc_exit", 7) })
	assert.Equal(t, files.OK, g.call("sched_yield"))
	for _, fd := range []int{0, 3, 99} {
		assert.Equal(t, files.NotSupp, g.call("sock_accept", fd, 0, result))
		assert.Equal(t, files.NotSupp, g.call("sock_recv", fd, 0, 0, 0, result, result))
		assert.Equal(t, files.NotSupp, g.call("sock_send", fd, 0, 0, 0, result))
		assert.Equal(t, files.NotSupp, g.call("sock_shutdown", fd, 0))
	}
	assert.Equal(t, files.NotSupp, g.call("proc_raise", 9))
	assert.Equal(t, files.NotSupp, g.call("fd_fdstat_set_rights", 0, 0, 0))
}

// Whatever a guest calls its host with, the host does not panic; and a call that fails leaves the
// number of open descriptors as it was.
func TestNoArgumentsPanic(t *testing.T) {
	t.Parallel()
	dir, _ := dirOf(t, true)
	random := rand.New(rand.NewChaCha8([32]byte{}))
	all := Functions()
	called := map[string]int{}
	for range 300 {
		g := newGuest(t, Setup{Args: []string{"x"}, Env: []string{"A=b"}, Stdin: []byte("{}"), Output: 1 << 16,
			Mounts: []Mount{{"/d", dir}, {"/t", treeOf(t, map[string]string{"a": "1", "d/e": "2"})}}})
		end := uint64(len(g.mem))
		ends := []uint64{0, 1, 2, 3, 4, 5, 24, 48, end - 1, end, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 63, 1<<64 - 1}
		copy(g.mem[512:1100], strings.Repeat("./", 300))
		for range 300 {
			f := all[random.IntN(len(all))]
			args := make([]uint64, 9)
			for i := range args {
				if args[i] = ends[random.IntN(len(ends))]; random.IntN(2) == 0 {
					args[i] = uint64(random.IntN(1100))
				}
			}
			open := len(g.open)
			func() {
				defer func() {
					switch x := recover().(type) {
					case nil, Exit:
					case error:
						require.Equal(t, ErrOutput, x, "%s %v", f.Name, args)
					default:
						t.Fatalf("%s %v: %v", f.Name, args, x)
					}
				}()
				if f.Call(g.World, g.mem, args) == files.OK {
					called[f.Name]++
				} else {
					assert.Equal(t, open, len(g.open), f.Name)
				}
			}()
		}
		g.Close()
	}
	for _, name := range []string{"fd_read", "fd_write", "path_filestat_get", "fd_close", "poll_oneoff", "random_get"} {
		assert.NotZero(t, called[name], "%s never succeeded: nothing was checked", name)
	}
}
