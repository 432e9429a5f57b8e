package threat

import "unicode/utf8"

// A scanner goes through a text once. Where a signal may begin, it looks ahead; what looks ahead
// stops at the next such place, or at a fixed distance, so no byte is looked at more than a few
// times.
type scanner struct {
	seen   Set
	hidden hidden
	words  words
	images images
}

// scan goes from byte to byte. Most bytes of other scripts begin no code point of the table, and
// pass like spaces: neither they nor bytes that are not UTF-8 do more than end a word.
func (s *scanner) scan(text []byte) {
	for i := 0; i < len(text); {
		c := classes[text[i]]
		switch {
		case c&letter != 0:
			if c&first != 0 && (i == 0 || classes[text[i-1]]&token == 0) && key(text[i:]) {
				s.seen |= secret
			}
			i += s.words.letters(text[i:])
			continue
		case c&lead != 0:
			i += s.point(text, i)
			continue
		case s.words.word != 0:
			s.seen |= s.words.end()
		}
		if c&mark != 0 {
			s.mark(text, i)
		}
		i++
	}
	s.seen |= s.words.end()
}

// mark looks at the byte of ASCII at i.
func (s *scanner) mark(text []byte, i int) {
	after := text[i+1:]
	switch text[i] {
	case 0:
		s.seen |= nul
	case 0x1b:
		if len(after) > 0 && escapes(after[0]) {
			s.seen |= terminalEscape
		}
	case '-':
		if privateKey(text[i:]) {
			s.seen |= secret
		}
	case ':':
		if len(after) >= 2 && after[0] == '/' && after[1] == '/' {
			s.seen |= authority(text[:i], after[2:])
		}
	case '@':
		if mixedHost(after, false) {
			s.seen |= mixedScriptHost
		}
	case '/':
		if string(after[:min(len(after), len("dev/tcp/"))]) == "dev/tcp/" {
			s.seen |= shellCode
		}
	case ';', '&', '|':
		if command(after) {
			s.seen |= shellCode
		}
	case '(':
		switch {
		case i == 0:
		case text[i-1] == '$' && substitution(after):
			s.seen |= shellCode
		case text[i-1] == ']' && script(after):
			s.seen |= scriptURL
		}
	case '=':
		if attribute(text[:i]) && script(after[quote(after):]) {
			s.seen |= scriptURL
		}
		s.seen |= s.images.source(text, i)
	case '!', '>', ']':
		s.seen |= s.images.bracket(text, i)
	case '<', '[':
		s.seen |= s.images.bracket(text, i) | special(text[i:])
	default:
		s.seen |= control
	}
}

// escapes reports whether U+001B and c begin a sequence that a terminal obeys.
func escapes(c byte) bool {
	switch c {
	case '[', ']', '(', ')', 'P', 'X', '^', '_', '#', '%':
		return true
	}
	return false
}

// point looks at the code point at i, which is not of ASCII, and returns its length.
func (s *scanner) point(text []byte, i int) int {
	r, size := utf8.DecodeRune(text[i:])
	switch {
	case invisible(r): // and words go on
		s.seen |= s.hidden.point(text, i, r, size)
		return size
	case 0xff01 <= r && r <= 0xff5e:
		if c := fold(byte(r - 0xff01 + '!')); 'a' <= c && c <= 'z' {
			s.words.letter(c)
			return size
		}
		s.seen |= s.words.end() | special(text[i:])
		return size
	}
	s.seen |= s.words.end()
	switch {
	case r == flagBase:
		if n := flag(text[i:]); n > 0 {
			s.hidden.flag(i, n)
			return n
		}
	case r <= 0x9f: // and at least 0x80
		s.seen |= control
		if r == 0x90 || r == 0x9b || r == 0x9d {
			s.seen |= terminalEscape
		}
	}
	return size
}
