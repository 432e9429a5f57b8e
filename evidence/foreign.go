package evidence

import (
	"bytes"
	"fmt"
	"io"
)

// foreigners are what is given for a pack, by the bytes that it begins with.
var foreigners = []struct{ magic, what string }{
	{"\x1f\x8b", "compressed with gzip; a pack is a plain USTAR archive: gunzip it first"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd; a pack is a plain USTAR archive: decompress it first"},
	{"\xfd7zXZ\x00", "compressed with xz; a pack is a plain USTAR archive: decompress it first"},
	{"BZh", "compressed with bzip2; a pack is a plain USTAR archive: decompress it first"},
	{"PK\x03\x04", "a ZIP archive; a pack is a plain USTAR archive"},
}

// foreign says what a file is that does not begin as an archive does, given its first bytes, a block at most; "" where it does.
func foreign(b []byte) string {
	if len(b) == 0 {
		return "empty: not a byte of a pack is there; a pipe says no size and cannot be read at any place: copy it to a file first"
	}
	if len(b) == block && (zero(b) || bytes.HasPrefix(b[257:], []byte("ustar"))) {
		return "" // an archive, be it of nothing
	}
	for _, x := range foreigners {
		if bytes.HasPrefix(b, []byte(x.magic)) {
			return x.what
		}
	}
	switch {
	case isText(b):
		return "text; a pack is a plain USTAR archive"
	case bytes.HasPrefix(b, []byte(members[manifestMember]+"\x00")) && len(b) < block:
		return "" // a pack's first bytes, and too few of them
	}
	return "not an archive; a pack is a plain USTAR archive"
}

// isText is so for what people and programs write as text: no control characters but those of lines.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}

// unread says why bytes up to an offset could not be read of a pack: the pack ends before them, or the reader does, or the reader fails.
func unread(size, end int64, err error) (string, error) {
	switch {
	case end > size:
		return fmt.Sprintf("truncated: it goes on to byte %d at least, and ends at %d", end, size), nil
	case err == io.ErrUnexpectedEOF:
		return fmt.Sprintf("truncated: the reader ends before the %d bytes that were given as its size", size), nil
	}
	if end <= block { // not even the first
		return "it cannot be read; a pack is read at any place, which neither a pipe nor a directory can be: copy it to a file first", err
	}
	return "it cannot be read", err
}
