package crypto

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// setPrefix notes the first eight bytes of a key, as a big-endian number, where other nodes have next and count: nearly all keys that
// are compared differ there. No key has a zero byte in its text, so zeros at the end say that it is shorter.
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

// compareKeys orders keys by their UTF-16 code units, RFC 8785 section 3.2.3.
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
	if a.flags&b.flags&wide == 0 { // with one all ASCII, where they differ one has an ASCII byte, which is before all else
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

// compareUnits orders two texts in UTF-8 by the first bytes in which they differ, as UTF-16 would: U+E000 to U+FFFF, which start with EE
// and EF, come after what is written as surrogates, which starts with F0 to F4. Otherwise the order of bytes is that of code units.
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
			return int(c - d) // two pairs with one high surrogate
		}
		s, u = s[i:], u[j:]
	}
	return len(s) - len(u)
}

// firstUnit is the first UTF-16 code unit of a character.
func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	return 0xD800 + (r-0x10000)>>10
}

// arrange sorts the members of an object whose keys did not come in canonical order, and refuses duplicates and keys that fold alike.
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

// sortKeys sorts keys, and gives the later one of two that are equal, or 0. Insertion is for the few keys that most objects have, and
// finds equal ones by the way; more are sorted before, so that no choice of keys makes it quadratic.
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

// offset is where in the text a key stands.
func (t *Tree) offset(key uint32) int {
	n := &t.nodes[key]
	if n.flags&inSide != 0 {
		return int(n.order)
	}
	return int(n.off)
}

// lower tells whether folding leaves a key as it is. Escapes are written in lower case.
func (t *Tree) lower(k *node) bool {
	if k.flags&wide != 0 {
		return false
	}
	if k.end-k.off <= 8+2 && k.flags&escaped == 0 { // all of it is in the prefix
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

// upper sets the high bit of bytes from A to Z, in a word of ASCII.
func upper(w uint64) uint64 {
	return (w + ones*(0x80-'A')) &^ (w + ones*(0x80-'Z'-1)) & highs
}

// lowered folds a word of ASCII: a letter's case is the bit 0x20.
func lowered(w uint64) uint64 { return w | upper(w)>>2 }

// compareFolded orders keys by what folding leaves of them: only whether it is the same counts.
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

// foldsApart tells whether a value nests no deeper, and folding leaves the keys of each object in it different. It recurses no deeper than depth.
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

// foldRune is ASCII case folding plus U+017F = s and U+212A = k.
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
