package crypto

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// setPrefix stores the first eight bytes of a key, as a big-endian number, in the place of next and
// count in other nodes: most keys differ there. No key has a zero byte in its text, so zeros at the
// end mean that the key is shorter.
func (t *Tree) setPrefix(k *node) {
	var w uint64
	if from := int(k.off) + 1; k.flags&inSide == 0 && len(t.src)-from >= 8 {
		w = binary.BigEndian.Uint64(t.src[from:])
		if size := k.end - k.off - 2; size < 8 {
			w &= ^uint64(0) << (64 - 8*size)
		}
	} else {
		text := t.text(k)
		for i, c := range text[1:min(len(text)-1, 9)] {
			w |= uint64(c) << (56 - 8*i)
		}
	}
	k.next, k.count = uint32(w>>32), uint32(w)
}

func (k *node) prefix() uint64 { return uint64(k.next)<<32 | uint64(k.count) }

// compareKeys compares keys by their UTF-16 code units, RFC 8785 section 3.2.3.
func (t *Tree) compareKeys(x, y uint32) int {
	a, b := &t.nodes[x], &t.nodes[y]
	if (a.flags|b.flags)&(escaped|wide) == 0 {
		if v, w := a.prefix(), b.prefix(); v < w {
			return -1
		} else if v > w {
			return +1
		}
	}
	return t.compareNames(a, b)
}

func (t *Tree) compareNames(a, b *node) int {
	s, u := t.text(a), t.text(b)
	s, u = s[1:len(s)-1], u[1:len(u)-1]
	if (a.flags|b.flags)&escaped != 0 {
		return compareEscaped(s, u)
	}
	// If one of them is all ASCII, one of the bytes in which they differ is ASCII, which sorts
	// before all else.
	if a.flags&b.flags&wide == 0 {
		return bytes.Compare(s, u)
	}
	n := min(len(s), len(u))
	for i := range n {
		if c, d := s[i], u[i]; c != d {
			return compareUnits(c, d)
		}
	}
	return len(s) - len(u)
}

// compareUnits compares two UTF-8 texts by the first bytes in which they differ, in the order of
// UTF-16. There U+E000 to U+FFFF, whose first byte is EE or EF in UTF-8, come after the characters
// written as surrogates, whose first byte is F0 to F4. All others are in the order of bytes.
func compareUnits(c, d byte) int {
	if c >= 0xEE && d >= 0xEE && (c >= 0xF0) != (d >= 0xF0) {
		return int(d) - int(c)
	}
	return int(c) - int(d)
}

func compareEscaped(s, u []byte) int {
	for len(s) > 0 && len(u) > 0 {
		c, i := decode(s)
		d, j := decode(u)
		if c != d {
			if v, w := firstUnit(c), firstUnit(d); v != w {
				return int(v - w)
			}
			return int(c - d) // two pairs with the same high surrogate
		}
		s, u = s[i:], u[j:]
	}
	return len(s) - len(u)
}

// firstUnit returns the first UTF-16 code unit of a character.
func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	return 0xD800 + (r-0x10000)>>10
}

// arrange sorts the members of an object whose keys are not in canonical order in the text. It
// refuses duplicate keys, and keys that fold alike.
func (p *parser) arrange(f *frame, n *node) bool {
	t := p.t
	from := len(t.order)
	for at := f.node + 1; at < n.next; at = t.nodes[at+1].next {
		t.order = append(t.order, at)
	}
	keys := t.order[from:]
	if !f.sorted {
		if second := t.sortKeys(keys, false); second != 0 {
			p.fail(t.offset(second), "duplicate key")
			return false
		}
		n.flags |= permuted
		n.order = uint32(from)
	}
	if p.limits.Fold && !f.lower {
		t.order = append(t.order, keys...)
		folded := t.order[from+len(keys):]
		if second := t.sortKeys(folded, true); second != 0 {
			p.fail(t.offset(second), "key that differs from another only by letter case")
			return false
		}
		t.order = t.order[:from+len(keys)]
	}
	if f.sorted {
		t.order = t.order[:from]
	}
	return true
}

// sortKeys sorts keys and returns the later one of two that are equal, or 0. Most objects have few
// keys, for which insertion is fast and finds equal keys on the way. More than twelve are sorted
// first, so that no choice of keys takes quadratic time.
func (t *Tree) sortKeys(keys []uint32, folded bool) uint32 {
	if len(keys) > 12 {
		if folded {
			slices.SortFunc(keys, t.compareFolded)
		} else {
			slices.SortFunc(keys, t.compareKeys)
		}
	}
	for i := 1; i < len(keys); i++ {
		k, j := keys[i], i
		for ; j > 0; j-- {
			c := 0
			if folded {
				c = t.compareFolded(keys[j-1], k)
			} else {
				c = t.compareKeys(keys[j-1], k)
			}
			if c == 0 {
				return max(keys[j-1], k)
			}
			if c < 0 {
				break
			}
			keys[j] = keys[j-1]
		}
		keys[j] = k
	}
	return 0
}

// offset returns the offset of a key in the text.
func (t *Tree) offset(key uint32) int {
	n := &t.nodes[key]
	if n.flags&inSide != 0 {
		return int(n.order)
	}
	return int(n.off)
}

// lower reports whether a key equals its folded form. Escapes are written in lower case.
func (t *Tree) lower(k *node) bool {
	if k.flags&wide != 0 {
		return false
	}
	if k.end-k.off <= 8+2 && k.flags&escaped == 0 { // all of the key is in the prefix
		return upper(k.prefix()) == 0
	}
	text := t.text(k)
	for ; len(text) >= 8; text = text[8:] {
		if upper(binary.LittleEndian.Uint64(text)) != 0 {
			return false
		}
	}
	for _, c := range text {
		if c-'A' < 26 {
			return false
		}
	}
	return true
}

// upper sets the high bit of each byte from A to Z in a word of ASCII.
func upper(w uint64) uint64 {
	return (w + ones*(0x80-'A')) &^ (w + ones*(0x80-'Z'-1)) & highs
}

// lowered folds a word of ASCII: the bit 0x20 is the case of a letter.
func lowered(w uint64) uint64 { return w | upper(w)>>2 }

// compareFolded compares keys by their folded form. The order does not matter, only equality.
func (t *Tree) compareFolded(x, y uint32) int {
	a, b := &t.nodes[x], &t.nodes[y]
	if (a.flags|b.flags)&(escaped|wide) == 0 {
		if v, w := lowered(a.prefix()), lowered(b.prefix()); v < w {
			return -1
		} else if v > w {
			return +1
		}
	}
	s, u := t.text(a), t.text(b)
	s, u = s[1:len(s)-1], u[1:len(u)-1]
	for len(s) > 0 && len(u) > 0 {
		c, i := decode(s)
		d, j := decode(u)
		c, d = foldRune(c), foldRune(d)
		if c != d {
			return int(c - d)
		}
		s, u = s[i:], u[j:]
	}
	return len(s) - len(u)
}

// foldsApart reports whether a value is nested at most depth deep and no object in it has keys that
// fold alike. Its recursion is at most depth deep.
func (t *Tree) foldsApart(at uint32, depth int) bool {
	n := &t.nodes[at]
	if n.kind < Array {
		return true
	}
	if depth == 0 {
		return false
	}
	lower := true
	for i := at + 1; i < n.next; i = t.nodes[i].next {
		if n.kind == Object {
			lower = lower && t.lower(&t.nodes[i])
			i++
		}
		if !t.foldsApart(i, depth-1) {
			return false
		}
	}
	if lower {
		return true
	}
	keys := make([]uint32, 0, n.count)
	for i := at + 1; i < n.next; i = t.nodes[i+1].next {
		keys = append(keys, i)
	}
	return t.sortKeys(keys, true) == 0
}

// foldRune applies ASCII case folding plus U+017F = s and U+212A = k.
func foldRune(r rune) rune {
	switch {
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A'
	case r == 0x17f:
		return 's'
	case r == 0x212a:
		return 'k'
	}
	return r
}
