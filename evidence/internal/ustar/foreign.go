package ustar

import (
	"bytes"
	"fmt"
	"io"
)

// foreigners are the kinds of file that are most often given in place of a pack, by their first
// bytes.
var foreigners = []struct{ magic, what string }{
	{"\x1f\x8b", "compressed with gzip; a pack is a plain USTAR archive: gunzip it first"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd; a pack is a plain USTAR archive: decompress it first"},
	{"\xfd7zXZ\x00", "compressed with xz; a pack is a plain USTAR archive: decompress it first"},
	{"BZh", "compressed with bzip2; a pack is a plain USTAR archive: decompress it first"},
	{"PK\x03\x04", "a ZIP archive; a pack is a plain USTAR archive"},
}

// foreign returns what kind of file b, its first bytes and at most a block, begins, or "" if it may
// begin an archive.
func foreign(b []byte) string {
	if len(b) == 0 {
		return "empty: not a byte of a pack is there; a pipe says no size and cannot be read at any place: " +
			"copy it to a file first"
	}
	if len(b) == Block && (zero(b) || bytes.HasPrefix(b[257:], []byte("ustar"))) {
		return "" // an archive, perhaps with no members
	}
	for _, x := range foreigners {
		if bytes.HasPrefix(b, []byte(x.magic)) {
			return x.what
		}
	}
	switch {
	case isText(b):
		return "text; a pack is a plain USTAR archive"
	case bytes.HasPrefix(b, []byte(Members[Manifest]+"\x00")) && len(b) < Block:
		return "" // the first bytes of a pack that was cut off
	}
	return "not an archive; a pack is a plain USTAR archive"
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

// unreadable returns why the bytes before an offset of a pack could not be read: the pack ends
// before it, or the reader does, or the reader fails.
func unreadable(size, end int64, err error) (what string, cause error) {
	switch {
	case end > size:
		return fmt.Sprintf("truncated: it goes on to byte %d at least, and ends at %d", end, size), nil
	case err == io.ErrUnexpectedEOF:
		return fmt.Sprintf("truncated: the reader ends before the %d bytes that were given as its size", size), nil
	}
	if end <= Block { // not even the first block
		return "it cannot be read; a pack is read at any place, which neither a pipe nor a directory can be: " +
			"copy it to a file first", err
	}
	return "it cannot be read", err
}
