package crypto

import (
	"bytes"
	"slices"
)

// arrange sorts the members of an object whose keys did not come in canonical order, and refuses duplicates and keys that fold alike.
func (p *parser) arrange(f *frame, n *node) string {
	t := p.t
	from := len(t.order)
	for at := f.node + 1; at < n.next; at = t.nodes[at+1].next {
		t.order = append(t.order, at)
	}
	keys := t.order[from:]
	if !f.sorted {
		slices.SortFunc(keys, t.compareKeys)
		for i := 1; i < len(keys); i++ {
			if t.compareKeys(keys[i-1], keys[i]) == 0 {
				p.i = t.offset(max(keys[i-1], keys[i]))
				return "duplicate key"
			}
		}
		n.flags |= permuted
		n.order = uint32(from)
	}
	if p.limits.Fold && !f.lower {
		if second := t.foldAlike(keys); second != 0 {
			p.i = t.offset(second)
			return "keys that differ only by letter case"
		}
	}
	if f.sorted {
		t.order = t.order[:from]
	}
	return ""
}

// compareKeys orders keys by their UTF-16 code units, RFC 8785 section 3.2.3. For ASCII that is the order of bytes.
func (t *Tree) compareKeys(x, y uint32) int {
	a, b := &t.nodes[x], &t.nodes[y]
	s, u := t.text(a), t.text(b)
	s, u = s[1:len(s)-1], u[1:len(u)-1]
	if (a.flags|b.flags)&(escaped|wide) == 0 {
		return bytes.Compare(s, u)
	}
	for len(s) > 0 && len(u) > 0 {
		c, i := decode(s)
		d, j := decode(u)
		if c != d {
			if x, y := firstUnit(c), firstUnit(d); x != y {
				return int(x - y)
			}
			return int(c - d) // two pairs with one high surrogate
		}
		s, u = s[i:], u[j:]
	}
	return len(s) - len(u)
}

// firstUnit is the first UTF-16 code unit of a rune.
func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	return 0xD800 + (r-0x10000)>>10
}

// lower tells whether folding leaves a key as it is.
func (t *Tree) lower(key uint32) bool {
	n := &t.nodes[key]
	if n.flags&wide != 0 {
		return false
	}
	for _, c := range t.text(n) {
		if c-'A' < 26 {
			return false
		}
	}
	return true
}

// foldAlike gives the second of two keys that are equal under folding, or 0. It sorts a copy: no choice of keys makes it slow.
func (t *Tree) foldAlike(keys []uint32) uint32 {
	from := len(t.order)
	t.order = append(t.order, keys...)
	folded := t.order[from:]
	t.order = t.order[:from]
	slices.SortFunc(folded, t.compareFolded)
	for i := 1; i < len(folded); i++ {
		if t.compareFolded(folded[i-1], folded[i]) == 0 {
			return max(folded[i-1], folded[i])
		}
	}
	return 0
}

// offset is where in the text a key stands.
func (t *Tree) offset(key uint32) int {
	if n := &t.nodes[key]; n.flags&inSide != 0 {
		return int(n.order)
	} else {
		return int(n.off)
	}
}

func (t *Tree) compareFolded(x, y uint32) int {
	s, u := t.text(&t.nodes[x]), t.text(&t.nodes[y])
	s, u = s[1:len(s)-1], u[1:len(u)-1]
	for len(s) > 0 && len(u) > 0 {
		c, i := decode(s)
		d, j := decode(u)
		if c, d = foldRune(c), foldRune(d); c != d {
			return int(c - d)
		}
		s, u = s[i:], u[j:]
	}
	return len(s) - len(u)
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
