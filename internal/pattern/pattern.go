// Package pattern reads the regular expressions of policies: the operators regex and finds, and the
// pattern of a schema. It counts their steps, and refuses what depends on the Unicode tables of a
// toolchain, since a verdict must not.
//
// A step is a character, a class, a dot or an assertion, as written. What a counted repetition
// follows counts as often as its greatest number, and at least once: [ab]{2,5}c has 6 steps.
package pattern

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Remedy is what to write in place of a pattern that Steps refuses.
const Remedy = "write the ranges"

// Visits returns how many visits it costs to test a pattern of so many steps on a text of so many
// bytes.
func Visits(steps, bytes int) int { return int(int64(steps) * int64(bytes) >> 13) }

// Steps returns the number of steps of an expression that package regexp compiles. The error says
// what in it depends on the tables of Unicode: \p and \P, and under (?i) whatever is beyond ASCII.
func Steps(expression string) (int, error) {
	s := scanner{rest: expression, groups: make([]group, 1)}
	for s.rest != "" && s.err == nil {
		s.next()
	}
	top := s.groups[0]
	return top.steps + top.last, s.err
}

// A scanner goes through an expression once.
type scanner struct {
	rest   string
	groups []group // those that are open, the whole expression first
	err    error
}

// A group is an expression in parentheses, as far as it was read.
type group struct {
	steps int  // without those of last
	last  int  // steps of what a repetition would repeat
	fold  bool // (?i) holds
}

func (s *scanner) top() *group { return &s.groups[len(s.groups)-1] }

// took notes that a repetition would repeat so many steps.
func (s *scanner) took(steps int) {
	g := s.top()
	g.steps, g.last = g.steps+g.last, steps
}

func (s *scanner) next() {
	switch c := s.rest[0]; c {
	case '(':
		s.open()
	case ')':
		inner := *s.top()
		if len(s.groups) > 1 {
			s.groups = s.groups[:len(s.groups)-1]
		}
		s.rest = s.rest[1:]
		s.took(inner.steps + inner.last)
	case '|':
		s.rest = s.rest[1:]
		s.took(0)
	case '*', '+', '?':
		s.rest = s.rest[1:]
	case '{':
		s.repeat()
	case '[':
		s.class()
		s.took(1)
	case '\\':
		if quoted, ok := strings.CutPrefix(s.rest, `\Q`); ok {
			s.quoted(quoted)
			return
		}
		s.escape()
		s.took(1)
	default:
		s.character()
		s.took(1)
	}
}

// open reads the begin of a group, or flags.
func (s *scanner) open() {
	fold := s.top().fold
	if !strings.HasPrefix(s.rest, "(?") || strings.HasPrefix(s.rest, "(?P<") || strings.HasPrefix(s.rest, "(?<") {
		if name := strings.IndexByte(s.rest, '>'); strings.HasPrefix(s.rest, "(?") && name >= 0 {
			s.rest = s.rest[name:]
		}
		s.rest = s.rest[1:]
		s.groups = append(s.groups, group{fold: fold})
		return
	}
	set := true
	for i, c := range s.rest[2:] {
		switch c {
		case 'i':
			fold = set
		case '-':
			set = false
		case ':', ')':
			s.rest = s.rest[2+i+1:]
			if c == ':' {
				s.groups = append(s.groups, group{fold: fold})
			} else {
				s.top().fold = fold
			}
			return
		}
	}
	s.rest = ""
}

// repeat reads {n}, {n,} or {n,m}. A { that begins none of these is a character.
func (s *scanner) repeat() {
	inside, after, closed := strings.Cut(s.rest[1:], "}")
	low, high, two := strings.Cut(inside, ",")
	n, ok := number(low)
	if two && high != "" && ok {
		n, ok = number(high)
	}
	if !ok || !closed {
		s.character()
		s.took(1)
		return
	}
	s.rest = after
	s.top().last *= max(n, 1)
}

// number reads the number of a repetition, which has no leading zero.
func number(digits string) (n int, ok bool) {
	notDigit := func(c rune) bool { return c < '0' || c > '9' }
	if strings.ContainsFunc(digits, notDigit) || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// class reads a class in brackets.
func (s *scanner) class() {
	s.rest = strings.TrimPrefix(s.rest[1:], "^")
	for first := true; s.rest != "" && s.err == nil; first = false {
		switch {
		case s.rest[0] == ']' && !first:
			s.rest = s.rest[1:]
			return
		case strings.HasPrefix(s.rest, "[:"):
			if _, after, ok := strings.Cut(s.rest[2:], ":]"); ok {
				s.rest = after
				continue
			}
			s.character()
		case s.rest[0] == '\\':
			s.escape()
		default:
			s.character()
		}
	}
}

// character reads one character that stands for itself.
func (s *scanner) character() {
	r, size := utf8.DecodeRuneInString(s.rest)
	s.rest = s.rest[size:]
	s.fixed(r)
}

// fixed refuses a character that would be folded by the tables of Unicode.
func (s *scanner) fixed(r rune) {
	if r >= utf8.RuneSelf && s.top().fold && s.err == nil {
		s.err = errors.New("under (?i) it has a character beyond ASCII: what that matches depends on the toolchain")
	}
}

// quoted reads \Q...\E, whose characters stand for themselves.
func (s *scanner) quoted(rest string) {
	text, after, _ := strings.Cut(rest, `\E`)
	for s.rest = text; s.rest != ""; {
		s.character()
		s.took(1)
	}
	s.rest = after
}

// escape reads a backslash and what belongs to it.
func (s *scanner) escape() {
	if len(s.rest) < 2 {
		s.rest = ""
		return
	}
	c, digits := s.rest[1], ""
	switch rest := s.rest[2:]; {
	case c == 'p' || c == 'P':
		s.err = errors.New("it has a Unicode class, " + s.rest[:2] + ": what that matches depends on the toolchain")
		return
	case c == 'x' && strings.HasPrefix(rest, "{"):
		digits, s.rest, _ = strings.Cut(rest[1:], "}")
	case c == 'x' && len(rest) >= 2:
		digits, s.rest = rest[:2], rest[2:]
	case c >= '0' && c <= '7':
		n := 1
		for n < 3 && 1+n < len(s.rest) && s.rest[1+n] >= '0' && s.rest[1+n] <= '7' {
			n++
		}
		r, _ := strconv.ParseUint(s.rest[1:1+n], 8, 32)
		s.rest = s.rest[1+n:]
		s.fixed(rune(r))
		return
	default:
		s.rest = s.rest[1:]
		s.character()
		return
	}
	r, _ := strconv.ParseUint(digits, 16, 32)
	s.fixed(rune(r))
}
