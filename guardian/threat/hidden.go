package threat

import "unicode/utf8"

// invisible reports whether r is of the table's I: code points that most programs do not show.
func invisible(r rune) bool {
	switch {
	case r < 0x2000:
		return r == 0x34f || r == 0x61c || r == 0x115f || r == 0x1160 || r == 0x17b4 || r == 0x17b5 ||
			0x180b <= r && r <= 0x180f
	case r < 0xfe00:
		return 0x200b <= r && r <= 0x200f || 0x202a <= r && r <= 0x202e || 0x2060 <= r && r <= 0x206f || r == 0x3164
	}
	return variation(r) || r == 0xfeff || r == 0xffa0 || 0xfff0 <= r && r <= 0xfffb ||
		0x1d173 <= r && r <= 0x1d17a || 0xe0000 <= r && r <= 0xe0fff
}

// variation reports whether r is of the table's V: the variation selectors, all of which are of I.
func variation(r rune) bool { return 0xfe00 <= r && r <= 0xfe0f || 0xe0100 <= r && r <= 0xe01ef }

// splitting reports whether hidden-letter counts r, a code point of I, between letters.
func splitting(r rune) bool {
	return r == 0x34f || 0x200b <= r && r <= 0x200d || 0x2060 <= r && r <= 0x2064 || r == 0xfeff || variation(r)
}

// hidden is about invisible code points. Flags are taken out of the text: what is on the two sides
// of a flag is next to each other.
type hidden struct {
	flags       struct{ from, to int } // the flags that were read last, in a row
	run, runEnd int                    // code points of I in a row, and where they end
	varEnd      int                    // where the last code point of V ends; 0: there is none
	splits      int                    // letters that are split from the next
}

// point returns the signals that the code point r of I at i completes.
func (h *hidden) point(text []byte, i int, r rune, size int) (seen Set) {
	before := i // where the text before r ends, without flags
	if h.flags.to == i {
		before = h.flags.from
	}
	if h.runEnd != before {
		h.run = 0
	}
	h.run++
	h.runEnd = i + size
	if h.run >= 4 {
		seen |= hiddenRun
	}
	if variation(r) {
		if h.varEnd > 0 && h.varEnd == before {
			seen |= hiddenRun
		}
		h.varEnd = i + size
	}
	switch {
	case 0xe0000 <= r && r <= 0xe007f:
		seen |= hiddenTag
	case r == 0x202d || r == 0x202e:
		seen |= bidiOverride
	case 0x202a <= r && r <= 0x202c || 0x2066 <= r && r <= 0x2069:
		seen |= bidiEmbedding
	}
	if splitting(r) && before > 0 && is(text, before-1, letter) {
		after := i + size
		for n := flag(text[after:]); n > 0; n = flag(text[after:]) {
			after += n
		}
		if is(text, after, alnum) {
			h.splits++
		}
		if h.splits >= 3 {
			seen |= hiddenLetter
		}
	}
	return seen
}

// flag notes a flag of n bytes at i.
func (h *hidden) flag(i, n int) {
	if h.flags.to != i {
		h.flags.from = i
	}
	h.flags.to = i + n
}

const flagBase = 0x1f3f4 // the black flag, which the tags of a region follow

// flag returns the length of the flag of a region that a text begins with, or 0 if it does not.
func flag(text []byte) int {
	r, n := utf8.DecodeRune(text)
	if r != flagBase {
		return 0
	}
	for tags := 0; tags <= 6; tags++ {
		r, size := utf8.DecodeRune(text[n:])
		n += size
		switch {
		case r == 0xe007f && tags >= 3:
			return n
		case 0xe0030 <= r && r <= 0xe0039 || 0xe0061 <= r && r <= 0xe007a:
		default:
			return 0
		}
	}
	return 0
}
