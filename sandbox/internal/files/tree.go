package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// The limits of a tree.
const (
	maxTreeBytes = 64 << 20
	maxTreeFiles = 10_000
)

// A Tree is a FS of regular files in memory, which never change. All that its digest does not hold
// is constant, so that a guest that reads it computes the same everywhere. It has the directories
// that its files need.
type Tree struct {
	digest crypto.Digest
	nodes  map[string]*node // by path; the root is "."
}

// A node is a file or directory of a tree, and the File that it is opened as.
type node struct {
	stat    Stat
	data    []byte
	entries []Entry // in byte order of names
}

// NewTree reads all files of fsys. A symbolic link, and anything else that is neither a regular
// file nor a directory, is an error.
func NewTree(fsys fs.FS) (*Tree, error) {
	data := map[string][]byte{}
	size := int64(0)
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%q is no regular file", name)
		case len(data) == maxTreeFiles:
			return fmt.Errorf("more than %d files", maxTreeFiles)
		case !fs.ValidPath(name) || !utf8.ValidString(name) || strings.ContainsRune(name, 0) || len(name) > MaxPath:
			return fmt.Errorf("%q is no path of a guest", name)
		}
		content, err := readFile(fsys, name, maxTreeBytes-size)
		if err != nil {
			return err
		}
		size += int64(len(content))
		data[name] = content
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newTree(data)
}

// readFile reads one file of at most limit bytes.
func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no regular file", name)
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = errors.New("more than 64 MiB")
	}
	return content, err
}

func newTree(data map[string][]byte) (*Tree, error) {
	t := &Tree{nodes: map[string]*node{".": {stat: Stat{Type: Directory}}}}
	text := []byte{'{'}
	for name, content := range data {
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = crypto.AppendString(text, name)
		text = append(text, ':')
		text = crypto.AppendString(text, crypto.Sum(content).String())
		t.nodes[name] = &node{stat: Stat{Type: Regular, Size: uint64(len(content))}, data: content}
		for dir := path.Dir(name); t.nodes[dir] == nil; dir = path.Dir(dir) {
			t.nodes[dir] = &node{stat: Stat{Type: Directory}}
		}
	}
	var object crypto.Tree
	text = append(text, '}')
	if err := object.Parse(text, crypto.Limits{Bytes: len(text), Depth: 1, Object: true}); err != nil {
		return nil, err
	}
	t.digest = crypto.Sum(object.Root().Append(nil))
	t.number()
	return t, nil
}

// number sets the inode of each path, and the entries of each directory.
func (t *Tree) number() {
	t.nodes["."].stat.Ino = 1
	names := slices.Sorted(maps.Keys(t.nodes))
	names = slices.DeleteFunc(names, func(name string) bool { return name == "." })
	for i, name := range names {
		n, dir := t.nodes[name], t.nodes[path.Dir(name)]
		n.stat.Ino = uint64(i + 2)
		dir.entries = append(dir.entries, Entry{Name: path.Base(name), Ino: n.stat.Ino, Type: n.stat.Type})
	}
	for _, n := range t.nodes {
		n.stat.Dev, n.stat.Links = 1, 1
		slices.SortFunc(n.entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		for i := range n.entries {
			n.entries[i].Next = uint64(i + 1)
		}
	}
}

// Digest returns the SHA-256 of the canonical JSON object whose keys are the paths of the files and
// whose values are the SHA-256 of their bytes, in hex.
func (t *Tree) Digest() crypto.Digest { return t.digest }

// find returns the node at a path.
func (t *Tree) find(name string) (*node, Errno) {
	at, n := ".", t.nodes["."]
	for part := range strings.SplitSeq(name, "/") {
		if n.stat.Type != Directory {
			return nil, NotDir // also of a file with a slash after it
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return nil, Perm
			}
			at = path.Dir(at)
		default:
			at = path.Join(at, part)
		}
		if n = t.nodes[at]; n == nil {
			return nil, NoEntry
		}
	}
	return n, OK
}

func (t *Tree) Open(name string, how How) (File, Errno) {
	n, err := t.find(name)
	switch {
	case err == NoEntry && how.Create:
		return nil, ReadOnly
	case err != OK:
		return nil, err
	case how.Create && how.Exclusive:
		return nil, Exists
	case how.Write || how.Truncate:
		return nil, ReadOnly
	case how.Directory && n.stat.Type != Directory:
		return nil, NotDir
	}
	return n, OK
}

func (t *Tree) Stat(name string, _ bool) (Stat, Errno) {
	n, err := t.find(name)
	if err != OK {
		return Stat{}, err
	}
	return n.stat, OK
}

func (t *Tree) Readlink(name string) (string, Errno) {
	if _, err := t.find(name); err != OK {
		return "", err
	}
	return "", Invalid // it has no links
}

func (*Tree) Mkdir(string) Errno                 { return ReadOnly }
func (*Tree) Remove(string, bool) Errno          { return ReadOnly }
func (*Tree) Rename(string, string) Errno        { return ReadOnly }
func (*Tree) SetTimes(string, bool, Times) Errno { return ReadOnly }

func (n *node) Stat() (Stat, Errno) { return n.stat, OK }

func (n *node) ReadAt(p []byte, offset uint64) (int, Errno) {
	if n.stat.Type == Directory {
		return 0, IsDirectory
	}
	return copy(p, n.data[min(offset, uint64(len(n.data))):]), OK
}

func (n *node) WriteAt([]byte, uint64) (int, Errno) { return 0, BadFile }
func (n *node) Truncate(uint64) Errno               { return BadFile }
func (n *node) Sync() Errno                         { return OK }
func (n *node) Close()                              {}

func (n *node) Entries(cookie uint64, each func(Entry) bool) Errno {
	if n.stat.Type != Directory {
		return NotDir
	}
	for _, e := range n.entries[min(cookie, uint64(len(n.entries))):] {
		if !each(e) {
			break
		}
	}
	return OK
}
