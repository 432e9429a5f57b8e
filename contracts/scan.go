package contracts

import "github.com/helmkernel/helm/crypto"

// A scanner reads JSON from its bytes alone, each of them once, if these are canonical and all its
// strings are printable ASCII without escapes. What it does not accept, right or wrong, is to be
// parsed, which finds the error if there is one. A form reads from it as from what was parsed.
type scanner struct {
	b      []byte
	at     int  // where in b
	first  bool // the next member is the object's first
	failed bool
	names  names
}

// from begins to read b.
func (s *scanner) from(b []byte) { s.b, s.at, s.first, s.failed = b, 0, false, false }

// done reports whether all was accepted.
func (s *scanner) done() bool { return !s.failed && s.at == len(s.b) }

// skip moves past text if that is next.
func (s *scanner) skip(text string) bool {
	end := s.at + len(text)
	if end > len(s.b) || string(s.b[s.at:end]) != text {
		return false
	}
	s.at = end
	return true
}

// must moves past text, which has to be next. That of a brace begins or ends an object.
func (s *scanner) must(text string) {
	if !s.skip(text) {
		s.failed = true
	}
	s.first = text == "{"
}

// member moves to the value of the named member if that is next.
func (s *scanner) member(name string) bool {
	if s.failed {
		return false
	}
	at := s.at
	if !s.first {
		at++ // a comma
	}
	end := at + len(name) + 3
	if end <= len(s.b) && s.b[at] == '"' && string(s.b[at+1:end-2]) == name && s.b[end-2] == '"' &&
		s.b[end-1] == ':' && (s.first || s.b[at-1] == ',') {
		s.at, s.first = end, false
		return true
	}
	return false
}

// next reports whether the named member is next.
func (s *scanner) next(name string) bool {
	at, first := s.at, s.first
	ok := s.member(name)
	s.at, s.first = at, first
	return ok
}

// begin moves to the first element of an array, which has one.
func (s *scanner) begin() bool {
	s.must("[")
	return !s.failed
}

// another moves on after element n, counted from 1, and reports whether there is another one.
func (s *scanner) another(n, low, high int) bool {
	if n < high && s.skip(",") {
		return !s.failed
	}
	if s.must("]"); n < low {
		s.failed = true
	}
	return false
}

// text returns the bytes of a string.
func (s *scanner) text() []byte {
	if s.skip(`"`) {
		for i, c := range s.b[s.at:] {
			if c == '"' {
				text := s.b[s.at : s.at+i]
				s.at += i + 1
				return text
			}
			if c < ' ' || c > '~' || c == '\\' {
				break
			}
		}
	}
	s.failed = true
	return nil
}

func (s *scanner) uint() (n uint64) {
	i := s.at
	for ; i < len(s.b) && i < s.at+17 && '0' <= s.b[i] && s.b[i] <= '9'; i++ {
		n = n*10 + uint64(s.b[i]-'0')
	}
	if i == s.at || i > s.at+1 && s.b[s.at] == '0' || n > crypto.MaxInt {
		s.failed = true
	}
	s.at = i
	return n
}

func (s *scanner) digest() crypto.Digest {
	d, err := crypto.ParseDigest(s.text())
	if err != nil {
		s.failed = true
	}
	return d
}

// A names has strings that were read before, so that the next record with the same need not copy
// them.
type names [64]string

// of returns the string with these bytes.
func (n *names) of(b []byte) string {
	h := uint(len(b))
	for _, c := range b[:min(4, len(b))] {
		h = 31*h + uint(c)
	}
	for _, c := range b[max(0, len(b)-4):] {
		h = 31*h + uint(c)
	}
	s := &n[h%uint(len(n))]
	if *s != string(b) {
		*s = string(b)
	}
	return *s
}
