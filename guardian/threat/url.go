package threat

import "unicode/utf8"

// atStart returns the signals that a text has at its start only, or as a whole.
func atStart(text []byte) (seen Set) {
	if n := metadataName(text); n > 0 && n == len(text) {
		seen |= metadataHost
	}
	for len(text) > 0 && text[0] <= ' ' {
		text = text[1:]
	}
	if script(text) {
		seen |= scriptURL
	}
	if document(text) {
		seen |= dataDocument
	}
	return seen
}

// script reports whether a text begins with a URL that a browser runs. A browser takes tabs and
// newlines out of a URL, and so does script between the letters of the scheme.
func script(text []byte) bool { return scriptOf(text, "javascript") || scriptOf(text, "vbscript") }

func scriptOf(text []byte, scheme string) bool {
	i := 0
	for n := range len(scheme) {
		for n > 0 && i < len(text) && (text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
			i++
		}
		if i == len(text) || fold(text[i]) != scheme[n] {
			return false
		}
		i++
	}
	return i+1 < len(text) && text[i] == ':' && text[i+1] > ' '
}

// attribute reports whether a text, which = follows, ends with the name of an attribute of HTML
// that is a URL.
func attribute(text []byte) bool {
	return endsFold(text, "href") || endsFold(text, "src") || endsFold(text, "action")
}

// quote returns 1 if a text begins with a quote, else 0.
func quote(text []byte) int {
	if len(text) > 0 && (text[0] == '"' || text[0] == '\'') {
		return 1
	}
	return 0
}

// document reports whether a text begins with a data: URL of a type that a browser shows as a
// document, or runs.
func document(text []byte) bool {
	if !hasFold(text, "data:") {
		return false
	}
	text = text[len("data:"):]
	for _, media := range []string{
		"text/html", "application/xhtml+xml", "image/svg+xml", "text/javascript", "application/javascript",
	} {
		if n := len(media); hasFold(text, media) && n < len(text) && (text[n] == ';' || text[n] == ',') {
			return true
		}
	}
	return false
}

// images finds images with URLs that could carry data to a server.
type images struct {
	alt, tag bool   // in ![ … of Markdown, or in <img … of HTML
	read     [4]int // to where the last URL was read, by the byte of closers that ends it
}

// closers are the bytes that end a URL in ( ), in quotes of either kind, and without quotes.
const closers = `)"'>`

const (
	maxURL     = 2048 // bytes of a URL that are looked at
	minQuery   = 16   // bytes of a query that could carry data
	minSegment = 48   // bytes of such a segment of a path
)

// bracket looks at one of ! < > [ ] at i.
func (m *images) bracket(text []byte, i int) Set {
	after := text[i+1:]
	switch text[i] {
	case '!':
		m.alt = m.alt || len(after) > 0 && after[0] == '['
	case '<':
		m.tag = m.tag || hasFold(after, "img")
	case '>':
		m.tag = false
	case ']':
		image := m.alt && len(after) > 0 && after[0] == '('
		m.alt = false
		if image {
			return m.remote(text, i+2, 0)
		}
	}
	return 0
}

// source looks at the = at i.
func (m *images) source(text []byte, i int) Set {
	if !m.tag || !endsFold(text[:i], "src") {
		return 0
	}
	i++
	i += run(text[i:], blank, len(text))
	switch {
	case i == len(text):
		return 0
	case text[i] == '"':
		return m.remote(text, i+1, 1)
	case text[i] == '\'':
		return m.remote(text, i+1, 2)
	}
	return m.remote(text, i, 3)
}

// remote returns remoteImage if at i, after blanks, begins a URL that could carry data. What ends
// it is the byte of closers with an index.
//
// A URL that begins in another, and is ended by the same byte, is a part of it, and is not read
// again. It could carry data only if the other could: its query is in the query of the other, and
// its path in the path or in the query.
func (m *images) remote(text []byte, i, closer int) Set {
	i += run(text[i:], blank, len(text))
	if closer == 0 && i < len(text) && text[i] == '<' {
		i++
	}
	if i < m.read[closer] || !hasFold(text[i:], "http") {
		return 0
	}
	begin := i
	i += len("http")
	if i < len(text) && fold(text[i]) == 's' {
		i++
	}
	if !hasFold(text[i:], "://") {
		return 0
	}
	i += len("://")
	end, yes := carries(text, i, maxURL-(i-begin), closers[closer])
	if yes {
		return remoteImage
	}
	m.read[closer] = end
	return 0
}

// carries reports whether the URL that is after :// at i could carry data in as many bytes as are
// left of it. If not, it returns where the URL ends. A byte that is not UTF-8 counts as three,
// those of U+FFFD.
func carries(text []byte, i, left int, closer byte) (end int, yes bool) {
	query, part := -1, -1 // bytes after the first ?, and after a slash of the path; -1: there is none
	for i < len(text) && left > 0 && text[i] != closer && classes[text[i]]&urlEnd == 0 {
		c, size, count := text[i], 1, 1
		if c >= utf8.RuneSelf {
			_, size = utf8.DecodeRune(text[i:])
			if count = size; size == 1 {
				count = len("\ufffd")
			}
		}
		count = min(count, left)
		left -= count
		i += size
		switch {
		case query >= 0:
			if query += count; query >= minQuery {
				return i, true
			}
		case c == '/' || c == '?' || c == '#':
			if part >= minSegment {
				return i, true
			}
			part = -1
			if c == '/' {
				part = 0
			} else if c == '?' {
				query = 0
			}
		case part >= 0 && classes[c]&segment != 0:
			part++
		default:
			part = -1
		}
	}
	return i, part >= minSegment
}
