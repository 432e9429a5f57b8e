//go:build linux || darwin

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A world is a directory that is granted, and next to it one with a secret that is not.
type world struct {
	*testing.T
	in, out string
	fs      FS
}

func newWorld(t *testing.T, write bool) *world {
	t.Helper()
	top := t.TempDir()
	w := &world{T: t, in: filepath.Join(top, "in"), out: filepath.Join(top, "out")}
	for _, dir := range []string{w.in, w.out, filepath.Join(w.in, "sub")} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	w.host("in/a", "alpha")
	w.host("in/sub/b", "beta")
	w.host("out/secret", "hunter2")
	root, err := os.OpenRoot(w.in)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	w.fs, err = NewDir(root, write)
	require.NoError(t, err)
	return w
}

func (w *world) path(name string) string { return filepath.Join(filepath.Dir(w.in), name) }

func (w *world) host(name, content string) {
	w.Helper()
	require.NoError(w, os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *world) link(to, name string) {
	w.Helper()
	require.NoError(w, os.Symlink(to, w.path(name)))
}

func (w *world) holds(name, content string) {
	w.Helper()
	got, err := os.ReadFile(w.path(name))
	require.NoError(w, err)
	assert.Equal(w, content, string(got), name)
}

func (w *world) read(path string) (string, Errno) {
	f, err := w.fs.Open(path, How{Read: true, Follow: true})
	if err != OK {
		return "", err
	}
	defer f.Close()
	p := make([]byte, 100)
	n, err := f.ReadAt(p, 0)
	return string(p[:n]), err
}

// ways are all the ways to lead from the grant to the secret or to the directory that it is in.
func (w *world) ways() map[string]string {
	w.link(w.path("out/secret"), "in/absolute")
	w.link("../out/secret", "in/relative")
	w.link("../../out/secret", "in/sub/deep")
	w.link(w.path("out"), "in/dir")
	w.link("../out", "in/reldir")
	w.link("reldir", "in/chain")
	w.link("/proc/self/root", "in/proc")
	w.link("..", "in/up")
	require.NoError(w, os.Link(w.path("in/relative"), w.path("in/hard"))) // of the link itself
	return map[string]string{
		"link to a file, absolute": "absolute", "link to a file": "relative", "from below": "sub/deep",
		"through a directory, absolute": "dir/secret", "through a directory": "reldir/secret",
		"through two links": "chain/secret", "through proc": "proc" + w.path("out/secret"), "up": "../out/secret",
		"up by a link": "up/out/secret", "up by a link of proc": "proc/../../out/secret", "hard link to a link": "hard",
		"down and up": "sub/../../out/secret", "through itself": "up/in/../out/secret",
	}
}

func TestDirContains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	got, err := w.read("sub/../a")
	require.Equal(t, OK, err)
	require.Equal(t, "alpha", got, "or the refusals below would prove nothing")
	w.link("sub/b", "in/good")
	got, err = w.read("good")
	require.Equal(t, OK, err, "a link that stays within")
	require.Equal(t, "beta", got)
	now := uint64(time.Now().UnixNano())
	for name, path := range w.ways() {
		for what, try := range map[string]func() Errno{
			"read":   func() Errno { _, err := w.read(path); return err },
			"stat":   func() Errno { _, err := w.fs.Stat(path, true); return err },
			"list":   func() Errno { f, err := w.fs.Open(filepath.Dir(path), How{Follow: true}); return outside(f, err) },
			"write":  func() Errno { _, err := w.fs.Open(path, How{Write: true, Follow: true}); return err },
			"create": func() Errno { _, err := w.fs.Open(path, How{Write: true, Create: true, Follow: true}); return err },
			"empty":  func() Errno { _, err := w.fs.Open(path, How{Truncate: true, Follow: true}); return err },
			"times":  func() Errno { return w.fs.SetTimes(path, true, Times{Modify: &now}) },
			"mkdir":  func() Errno { return w.fs.Mkdir(path + "/n") },
		} {
			got := try()
			ok := got == Perm || what == "list" && got == OK || got == NotDir && what == "mkdir"
			assert.True(t, ok, "%s, %s: %d", what, name, got)
		}
		if filepath.Dir(path) != "." && filepath.Dir(path) != "sub" {
			assert.Equal(t, Perm, w.fs.Remove(path, false), "remove, %s", name)
			assert.Equal(t, Perm, w.fs.Rename("a", path), "rename to, %s", name)
			assert.Equal(t, Perm, w.fs.Rename(path, "stolen"), "rename from, %s", name)
		}
	}
	w.holds("out/secret", "hunter2")
	left, e := os.ReadDir(w.out)
	require.NoError(t, e)
	assert.Len(t, left, 1)
	w.holds("in/a", "alpha")

	// A link itself may go, and what it leads to stays.
	assert.Equal(t, OK, w.fs.Remove("absolute", false))
	assert.Equal(t, OK, w.fs.Rename("relative", "sub/moved"))
	assert.Equal(t, OK, w.fs.Remove("dir", false))
	w.holds("out/secret", "hunter2")
}

// outside returns OK if a listing has no secret in it.
func outside(f File, err Errno) Errno {
	if err != OK {
		return err
	}
	defer f.Close()
	f.Entries(0, func(e Entry) bool {
		if e.Name == "secret" {
			err = Fault
		}
		return true
	})
	return err
}

// What a host puts where the guest is about to open is never reached: 64 goroutines open while two
// names are swapped for a link, a directory and a FIFO.
func TestDirContainsWhileItChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	require.NoError(t, os.Mkdir(w.path("in/d"), 0o755))
	w.host("in/d/secret", "decoy")
	w.link(w.path("out"), "in/l")
	require.NoError(t, syscall.Mkfifo(w.path("in/fifo"), 0o666))
	d := 10 * time.Second
	if testing.Short() {
		d = 300 * time.Millisecond
	}
	stop := time.Now().Add(d)
	var all sync.WaitGroup
	var seen, refused atomic.Int64
	for i := range 64 {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(stop) {
				switch i % 4 {
				case 0:
					got, err := w.read("d/secret")
					assert.NotEqual(t, "hunter2", got)
					if err == OK {
						seen.Add(1)
					} else {
						refused.Add(1)
					}
				case 1:
					f, err := w.fs.Open("d", How{Follow: true, Read: true})
					if err == OK {
						f.Entries(0, func(e Entry) bool {
							assert.NotContains(t, e.Name, "hunter")
							return true
						})
						f.Close()
					}
				case 2:
					f, err := w.fs.Open("d/secret", How{Follow: true, Write: true, Truncate: true, Create: true})
					if err == OK {
						f.WriteAt([]byte("decoy"), 0)
						f.Close()
					}
				case 3:
					w.fs.Rename("d/secret", "d/other")
					w.fs.Rename("d/other", "d/secret")
				}
			}
		}()
	}
	var swap sync.Mutex                          // two at once would leave d what it never was
	for _, name := range []string{"l", "fifo"} { // d is what it was, a link out, a FIFO
		all.Add(1)
		go func() {
			defer all.Done()
			hidden := w.path("in/." + name)
			for time.Now().Before(stop) {
				swap.Lock()
				if os.Rename(w.path("in/d"), hidden) == nil {
					if os.Rename(w.path("in/"+name), w.path("in/d")) == nil {
						time.Sleep(10 * time.Microsecond)
						os.Rename(w.path("in/d"), w.path("in/"+name))
					}
					os.Rename(hidden, w.path("in/d"))
				}
				swap.Unlock()
				time.Sleep(10 * time.Microsecond)
			}
		}()
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(d + 20*time.Second):
		t.Fatal("an open never came back")
	}
	assert.NotZero(t, seen.Load(), "nothing was opened: nothing was checked")
	assert.NotZero(t, refused.Load(), "nothing was swapped: nothing was checked")
	w.holds("out/secret", "hunter2")
	left, err := os.ReadDir(w.out)
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// What is no regular file and no directory is not opened, and nothing waits for it.
func TestDirOpensNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	kinds := map[string]string{"FIFO": "fifo", "device by a link": "tolink"}
	require.NoError(t, syscall.Mkfifo(w.path("in/fifo"), 0o666))
	w.link("fifo", "in/tolink")
	if err := syscall.Mknod(w.path("in/null"), syscall.S_IFCHR|0o666, 1<<8|3); err == nil {
		kinds["device"] = "null"
	} else {
		t.Log("no device was tried: ", err)
	}
	for name, path := range kinds {
		for _, how := range []How{{Read: true}, {Write: true}, {Read: true, Write: true}, {Truncate: true}, {},
			{Create: true, Write: true}, {Directory: true}, {Sync: true, Read: true}} {
			how.Follow = true
			done := make(chan Errno, 1)
			go func() { _, err := w.fs.Open(path, how); done <- err }()
			select {
			case err := <-done:
				assert.Equal(t, Perm, err, "%s %+v", name, how)
			case <-time.After(10 * time.Second):
				t.Fatalf("%s %+v: waits", name, how)
			}
		}
		s, err := w.fs.Stat(path, true)
		assert.True(t, err == OK && s.Type == Unknown, "%s: %+v %d", name, s, err)
	}
	_, err := w.fs.Open("tolink", How{Read: true})
	assert.Equal(t, Loop, err, "not followed")
	// A FIFO that comes between the look and the opening is closed again.
	d := w.fs.(*dir)
	_, err = d.open("fifo", How{Read: true})
	assert.Equal(t, Perm, err)
	_, err = d.open("fifo", How{Write: true})
	assert.Equal(t, Perm, err)
}

// A grant to read is written by nothing.
func TestDirReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	zero := uint64(0)
	for name, got := range map[string]func() Errno{
		"write":     func() Errno { _, err := w.fs.Open("a", How{Write: true}); return err },
		"truncate":  func() Errno { _, err := w.fs.Open("a", How{Read: true, Truncate: true}); return err },
		"create":    func() Errno { _, err := w.fs.Open("n", How{Create: true}); return err },
		"exclusive": func() Errno { _, err := w.fs.Open("n", How{Create: true, Exclusive: true, Write: true}); return err },
		"mkdir":     func() Errno { return w.fs.Mkdir("n") },
		"unlink":    func() Errno { return w.fs.Remove("a", false) },
		"rmdir":     func() Errno { return w.fs.Remove("sub", true) },
		"rename":    func() Errno { return w.fs.Rename("a", "n") },
		"times":     func() Errno { return w.fs.SetTimes("a", true, Times{Access: &zero, Modify: &zero}) },
	} {
		assert.Equal(t, ReadOnly, got(), name)
	}
	f, err := w.fs.Open("a", How{Read: true})
	require.Equal(t, OK, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("y"), 0)
	assert.NotEqual(t, OK, err)
	assert.NotEqual(t, OK, f.Truncate(0))
	w.holds("in/a", "alpha")
}

func TestDirWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	old := syscall.Umask(0)
	syscall.Umask(old)
	f, err := w.fs.Open("n", How{Read: true, Write: true, Create: true, Exclusive: true, Sync: true})
	require.Equal(t, OK, err)
	n, err := f.WriteAt([]byte("23"), 2)
	assert.True(t, n == 2 && err == OK)
	assert.Equal(t, OK, f.Sync())
	w.holds("in/n", "\x00\x0023")
	assert.Equal(t, OK, f.Truncate(3))
	s, err := f.Stat()
	assert.True(t, err == OK && s.Size == 3 && s.Type == Regular && s.Links == 1, "%+v", s)
	_, err = f.WriteAt([]byte("x"), 1<<63)
	assert.Equal(t, TooBig, err)
	_, err = f.ReadAt(make([]byte, 1), 1<<63)
	assert.Equal(t, Invalid, err)
	assert.Equal(t, TooBig, f.Truncate(1<<63))
	f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	assert.Equal(t, BadFile, err)
	info, e := os.Stat(w.path("in/n"))
	require.NoError(t, e)
	assert.Zero(t, info.Mode().Perm()&^0o644, "%v", info.Mode())
	_, err = w.fs.Open("n", How{Create: true, Exclusive: true, Write: true})
	assert.Equal(t, Exists, err)

	assert.Equal(t, OK, w.fs.Mkdir("d"))
	assert.Equal(t, Exists, w.fs.Mkdir("d"))
	assert.Equal(t, OK, w.fs.Rename("n", "d/n"))
	assert.Equal(t, NotEmpty, w.fs.Remove("d", true))
	assert.Equal(t, IsDirectory, w.fs.Remove("d", false))
	assert.Equal(t, NotDir, w.fs.Remove("d/n", true))
	at := uint64(1e18 + 5)
	assert.Equal(t, OK, w.fs.SetTimes("d/n", true, Times{Modify: &at}))
	s, err = w.fs.Stat("d/n", true)
	assert.True(t, err == OK && s.Modify == at && s.Access != at, "%+v", s)
	assert.Equal(t, OK, w.fs.Remove("d/n", false))
	assert.Equal(t, OK, w.fs.Remove("d", true))
	assert.Equal(t, NoEntry, w.fs.Remove("d", true))
	w.link("a", "in/l")
	assert.Equal(t, NotSupp, w.fs.SetTimes("l", false, Times{Modify: &at}))
	to, err := w.fs.Readlink("l")
	assert.True(t, err == OK && to == "a")
	_, err = w.fs.Readlink("a")
	assert.Equal(t, Invalid, err)
	for _, how := range []How{{Write: true}, {Create: true}, {Truncate: true}} {
		_, err = w.fs.Open("sub", how)
		assert.Equal(t, IsDirectory, err)
	}
	for _, path := range []string{"a/", "a/."} {
		_, err = w.fs.Open(path, How{Read: true, Follow: true})
		assert.Equal(t, NotDir, err, path)
	}
}

// A directory is listed in batches: cookies of the last are known, and 0 begins again.
func TestDirEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	want := []string{"b"}
	for i := range 3 * batch {
		want = append(want, fmt.Sprint("f", i))
		w.host("in/sub/"+want[i+1], "")
	}
	w.link("/", "in/sub/l")
	want = append(want, "l")
	f, err := w.fs.Open("sub", How{Directory: true})
	require.Equal(t, OK, err)
	defer f.Close()
	assert.Equal(t, Invalid, f.Entries(1, nil), "nothing was read yet")
	for range 2 {
		var got []string
		last := Entry{}
		for { // seven at a time, the last of which the guest has no room for
			took := 0
			require.Equal(t, OK, f.Entries(last.Next, func(e Entry) bool {
				if took++; took == 7 {
					return false
				}
				got, last = append(got, e.Name), e
				assert.True(t, (e.Name == "l") == (e.Type == SymbolicLink) && e.Ino != 0, "%+v", e)
				return true
			}))
			if took < 7 {
				break
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		assert.Equal(t, want, got)
	}
	assert.Equal(t, Invalid, f.Entries(1, nil), "forgotten")
	assert.Equal(t, Invalid, f.Entries(1<<40, nil))
}
