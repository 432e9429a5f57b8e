package ustar

import (
	"bytes"
	"fmt"
	"io"
)

// foreigners are the kinds of file that are most often given in place of an archive, by their first
// bytes, and what to do about it.
var foreigners = []struct{ magic, what, then string }{
	{"\x1f\x8b", "compressed with gzip", ": gunzip it first"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd", ": decompress it first"},
	{"\xfd7zXZ\x00", "compressed with xz", ": decompress it first"},
	{"BZh", "compressed with bzip2", ": decompress it first"},
	{"PK\x03\x04", "a ZIP archive", ""},
}

// other returns what an error adds if archives of another kind begin with a member of that name, or
// "".
func (k Kind) other(first []byte) string {
	for _, x := range [...]Kind{Pack, Excerpt} {
		if x.name != k.name && x.lists[0][0] == string(first) {
			return ": " + x.name + " begins so, and this should be " + k.name
		}
	}
	return ""
}

// foreign returns what kind of file b, its first bytes and at most a block, begins, or "" if it may
// begin an archive.
func (k Kind) foreign(b []byte) string {
	if len(b) == 0 {
		return "empty: not a byte of " + k.name + " is there; a pipe says no size and cannot be read at any place: " +
			"copy it to a file first"
	}
	if len(b) == Block && (zero(b) || bytes.HasPrefix(b[257:], []byte("ustar"))) {
		return "" // an archive, perhaps with no members
	}
	plain := "; " + k.name + " is a plain USTAR archive"
	for _, x := range foreigners {
		if bytes.HasPrefix(b, []byte(x.magic)) {
			return x.what + plain + x.then
		}
	}
	switch {
	case isText(b):
		return "text" + plain
	case bytes.HasPrefix(b, []byte(k.lists[0][0]+"\x00")) && len(b) < Block:
		return "" // the first bytes of an archive that was cut off
	}
	return "not an archive" + plain
}

// isText reports whether b has no control characters but those of lines.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}

// unreadable returns why the bytes before an offset of an archive could not be read: the archive
// ends before it, or the reader does, or the reader fails.
func (k Kind) unreadable(size, end int64, err error) (what string, cause error) {
	switch {
	case end > size:
		return fmt.Sprintf("truncated: it goes on to byte %d at least, and ends at %d", end, size), nil
	case err == io.ErrUnexpectedEOF:
		return fmt.Sprintf("truncated: the reader ends before the %d bytes that were given as its size", size), nil
	}
	if end <= Block { // not even the first block
		return "it cannot be read; " + k.name + " is read at any place, which neither a pipe nor a directory can be: " +
			"copy it to a file first", err
	}
	return "it cannot be read", err
}
