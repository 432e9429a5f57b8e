// Package ustar reads and writes the archives that packs and excerpts are: USTAR as docs/FORMATS.md
// specifies it in section 8. A member of one name and size has exactly one header, so a reader
// makes the header again and compares. Nothing here knows what the members say.
package ustar

import (
	"bufio"
	"bytes"
)

const (
	Block     = 512
	MaxMember = 1<<33 - 1 // eleven octal digits

	maxName = 100
)

// Zeros is a block of padding; two of them end an archive.
var Zeros [Block]byte

// Header returns the only header that a member of that name and size may have.
func Header(name []byte, size int64) (h [Block]byte) {
	copy(h[0:maxName], name)
	copy(h[100:], "0000644\x00"+"0000000\x00"+"0000000\x00")
	octal(h[124:135], size)
	copy(h[136:], "00000000000\x00")
	copy(h[148:], "        ") // the checksum counts itself as spaces
	h[156] = '0'
	copy(h[257:], "ustar\x00"+"00")
	copy(h[329:], "0000000\x00"+"0000000\x00")
	sum := int64(0)
	for _, c := range &h {
		sum += int64(c)
	}
	octal(h[148:154], sum)
	h[154] = 0
	return h
}

func octal(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = '0' + byte(n&7)
		n >>= 3
	}
}

// ParseHeader returns what a header says. It is ok only if the header is the one that Header makes
// of that.
func ParseHeader(h *[Block]byte) (name []byte, size int64, ok bool) {
	name = h[:maxName]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	size, ok = parseSize(h[:])
	return name, size, ok && len(name) > 0 && Header(name, size) == *h
}

// parseSize reads the size in a header, of eleven octal digits.
func parseSize(h []byte) (size int64, ok bool) {
	for _, c := range h[124:135] {
		if c < '0' || c > '7' {
			return 0, false
		}
		size = size<<3 | int64(c-'0')
	}
	return size, true
}

// Padding returns how many zero bytes follow a member.
func Padding(size int64) int64 { return -size & (Block - 1) }

// WriteMember writes a member with its header and padding. Its errors are those of w.Flush.
func WriteMember(w *bufio.Writer, name string, b []byte) {
	h := Header([]byte(name), int64(len(b)))
	w.Write(h[:])
	w.Write(b)
	w.Write(Zeros[:Padding(int64(len(b)))])
}
