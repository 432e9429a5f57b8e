package policy

import (
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// maxPointers bounds the memory of long keys above many values: each of those values has the key in
// its pointer.
const maxPointers = 64 << 20

// places notes the place of each value of a document, by JSON Pointer. A value on a line below its
// key has the place of the key: that is the line to look at in block style.
type places struct {
	pointer []byte // of the value being read
	lines   map[string]contracts.Pos
	size    int
}

func newPlaces() places { return places{lines: make(map[string]contracts.Pos)} }

// note notes the place of the value being read. It returns false if the pointers have become too
// many and too long.
func (p *places) note(pos contracts.Pos) bool {
	p.size += len(p.pointer)
	if p.size > maxPointers {
		return false
	}
	p.lines[string(p.pointer)] = pos
	return true
}

func memberAt(key, value contracts.Pos) contracts.Pos {
	if value.Line > key.Line {
		return key
	}
	return value
}

// enter goes to a member or element, and leave back to where enter was.
func (p *places) enter(segment string) (back int) {
	back = len(p.pointer)
	p.pointer = append(p.pointer, '/')
	p.pointer = append(p.pointer, escapeSegment.Replace(segment)...)
	return back
}

func (p *places) leave(back int) { p.pointer = p.pointer[:back] }

// RFC 6901, section 3.
var escapeSegment = strings.NewReplacer("~", "~0", "/", "~1")
