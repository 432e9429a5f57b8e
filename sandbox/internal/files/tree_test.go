package files

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func tree(t *testing.T, m fstest.MapFS) *Tree {
	t.Helper()
	made, err := NewTree(m)
	require.NoError(t, err)
	return made
}

func names(t *testing.T, f File, cookie uint64) (all []string) {
	t.Helper()
	require.Equal(t, OK, f.Entries(cookie, func(e Entry) bool { all = append(all, e.Name); return true }))
	return all
}

// The digest is of the object {path: sha256}, keys in the order of RFC 8785: U+1F600 is before
// U+FF5E there, and after it in bytes.
func TestTreeDigest(t *testing.T) {
	t.Parallel()
	sum := func(s string) string { return crypto.Sum([]byte(s)).String() }
	object := `{"a/b":"` + sum("1") + `","c":"` + sum("") + `","` + "\U0001F600" + `":"` + sum("2") + `","` + "\uff5e" + `":"` +
		sum("3") + `"}`
	m := fstest.MapFS{"c": file(""), "\uff5e": file("3"), "a/b": file("1"), "\U0001F600": file("2")}
	assert.Equal(t, crypto.Sum([]byte(object)), tree(t, m).Digest())
	m["empty"] = &fstest.MapFile{Mode: fs.ModeDir}
	assert.Equal(t, crypto.Sum([]byte(object)), tree(t, m).Digest(), "an empty directory is no part of a tree")
	_, err := tree(t, m).Stat("empty", true)
	assert.Equal(t, NoEntry, err)
	assert.Equal(t, crypto.Sum([]byte("{}")), tree(t, fstest.MapFS{}).Digest())
}

// All that the digest does not hold is constant: the guest sees the same of the same files,
// whatever their modes and times are in the host.
func TestTreeIsConstant(t *testing.T) {
	t.Parallel()
	m := fstest.MapFS{".x": file("hidden"), "a-b": file("12"), "a/c": file("345"), "a/b/d": file("")}
	for _, f := range m {
		f.Mode = 0o777
	}
	tr := tree(t, m)
	// In byte order of whole paths: ".", ".x", "a", "a-b", "a/b", "a/b/d", "a/c".
	for path, want := range map[string]Stat{
		".":     {Ino: 1, Type: Directory},
		".x":    {Ino: 2, Type: Regular, Size: 6},
		"a":     {Ino: 3, Type: Directory},
		"a-b":   {Ino: 4, Type: Regular, Size: 2},
		"a/b":   {Ino: 5, Type: Directory},
		"a/b/d": {Ino: 6, Type: Regular},
		"a/c":   {Ino: 7, Type: Regular, Size: 3},
	} {
		want.Dev, want.Links = 1, 1
		got, err := tr.Stat(path, true)
		assert.Equal(t, OK, err, path)
		assert.Equal(t, want, got, path)
	}
	root, err := tr.Open(".", How{})
	require.Equal(t, OK, err)
	assert.Equal(t, []string{".x", "a", "a-b"}, names(t, root, 0))
	assert.Equal(t, []string{"a-b"}, names(t, root, 2))
	assert.Empty(t, names(t, root, 3))
	assert.Empty(t, names(t, root, 1<<63))

	// And whatever becomes of the files.
	m["a/c"].Data[0] = 'X'
	f, err := tr.Open("a/c", How{Read: true})
	require.Equal(t, OK, err)
	p := make([]byte, 9)
	for offset, want := range map[uint64]string{0: "345", 2: "5", 3: "", 1 << 63: ""} {
		n, err := f.ReadAt(p, offset)
		assert.Equal(t, OK, err)
		assert.Equal(t, want, string(p[:n]), "from %d", offset)
	}
}

func TestTreePaths(t *testing.T) {
	t.Parallel()
	tr := tree(t, fstest.MapFS{"a/b": file("x"), "a/c/d": file("y")})
	for path, want := range map[string]Errno{
		"a/b": OK, "./a//b": OK, "a/../a/b": OK, "a/c/..": OK, "a/": OK, "a/.": OK, ".": OK,
		"a/b/": NotDir, "a/b/.": NotDir, "a/b/..": NotDir, "a/b/c": NotDir,
		"b": NoEntry, "a/x/../b": NoEntry, "x/": NoEntry, "A/b": NoEntry, "a/b\\": NoEntry,
		"..": Perm, "a/../..": Perm, "a/../../a/b": Perm, "../a/b": Perm,
	} {
		_, err := tr.Stat(path, true)
		assert.Equal(t, want, err, path)
		_, err = tr.Open(path, How{Read: true})
		assert.Equal(t, want, err, path)
		if want == OK {
			want = Invalid
		}
		_, err = tr.Readlink(path)
		assert.Equal(t, want, err, path)
	}
}

// Nothing writes to a tree.
func TestTreeReadOnly(t *testing.T) {
	t.Parallel()
	tr := tree(t, fstest.MapFS{"a/b": file("x")})
	zero := uint64(0)
	for name, got := range map[string]func() Errno{
		"open to write":    func() Errno { _, err := tr.Open("a/b", How{Write: true}); return err },
		"open to truncate": func() Errno { _, err := tr.Open("a/b", How{Read: true, Truncate: true}); return err },
		"create":           func() Errno { _, err := tr.Open("a/n", How{Create: true}); return err },
		"mkdir":            func() Errno { return tr.Mkdir("n") },
		"remove":           func() Errno { return tr.Remove("a/b", false) },
		"rename":           func() Errno { return tr.Rename("a/b", "n") },
		"times":            func() Errno { return tr.SetTimes("a/b", true, Times{Access: &zero}) },
	} {
		assert.Equal(t, ReadOnly, got(), name)
	}
	_, err := tr.Open("a/b", How{Read: true, Create: true, Exclusive: true})
	assert.Equal(t, Exists, err)
	_, err = tr.Open("a/b", How{Read: true, Directory: true})
	assert.Equal(t, NotDir, err)
	f, err := tr.Open("a/b", How{Read: true, Create: true})
	require.Equal(t, OK, err, "what is there need not be created")
	_, err = f.WriteAt([]byte("y"), 0)
	assert.Equal(t, BadFile, err)
	assert.Equal(t, BadFile, f.Truncate(0))
	assert.Equal(t, NotDir, f.Entries(0, nil))
	d, err := tr.Open("a", How{})
	require.Equal(t, OK, err)
	_, err = d.ReadAt(make([]byte, 1), 0)
	assert.Equal(t, IsDirectory, err)
}

// bad is a file system whose directory says one thing and whose file is another.
type bad struct{ fstest.MapFS }

func (b bad) Open(name string) (fs.File, error) {
	if name == "a" {
		return b.MapFS.Open(".")
	}
	return b.MapFS.Open(name)
}

func TestTreeRefuses(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	many := fstest.MapFS{}
	for i := range maxTreeFiles + 1 {
		many["f/"+crypto.Sum([]byte{byte(i), byte(i >> 8)}).String()] = file("")
	}
	half := &fstest.MapFile{Data: make([]byte, maxTreeBytes/2)}
	big := fstest.MapFS{"a": half, "b": half}
	require.NotZero(t, tree(t, big).Digest(), "64 MiB are no more than 64 MiB")
	big["c"] = file("1")
	for name, c := range map[string]struct {
		fsys fs.FS
		says string
	}{
		"link":           {fstest.MapFS{"a": {Mode: fs.ModeSymlink, Data: []byte("b")}, "b": file("")}, "no regular file"},
		"FIFO":           {fstest.MapFS{"a": {Mode: fs.ModeNamedPipe}}, "no regular file"},
		"directory as a": {bad{fstest.MapFS{"a": file("")}}, "no regular file"},
		"10,001 files":   {many, "more than 10000 files"},
		"64 MiB and 1":   {big, "more than 64 MiB"},
		"no UTF-8":       {fstest.MapFS{"a\xff": file("")}, "no path"},
		"NUL":            {fstest.MapFS{"a\x00": file("")}, "no path"},
		"no valid path":  {fstest.MapFS{"..": file("")}, "no path"},
	} {
		_, err := NewTree(c.fsys)
		assert.ErrorContains(t, err, c.says, name)
	}
}
