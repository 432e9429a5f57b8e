package threat

import (
	"bytes"
	"math"
	"math/bits"
)

// A form is the form of a kind of key: a prefix, and parts. No part can go on with what is after
// it, so a text is read without going back.
type form struct {
	prefix string
	parts  []part
}

// A part is so many bytes of a class, and then a text.
type part struct {
	class    class
	min, max int
	then     string
}

const noMost = math.MaxInt

// forms are the forms of keys, by the first byte, which is of the class first.
var forms = [256][]form{
	'A': {
		{"AKIA", []part{{base32, 16, 16, ""}}},
		{"ASIA", []part{{base32, 16, 16, ""}}},
		{"AIza", []part{{token, 35, 35, ""}}},
		{"AGE-SECRET-KEY-1", []part{{bech32, 58, 58, ""}}},
	},
	'S': {{"SG.", []part{{token, 22, 22, "."}, {token, 43, 43, ""}}}},
	'd': {{"dop_v1_", []part{{hexLower, 64, 64, ""}}}},
	'g': {
		{"gh", []part{{hubKind, 1, 1, "_"}, {alnum, 36, 36, ""}}},
		{"github_pat_", []part{{alnum, 22, 22, "_"}, {alnum, 59, 59, ""}}},
		{"glpat-", []part{{token, 20, 20, ""}}},
	},
	'h': {{"hf_", []part{{letter, 34, 34, ""}}}},
	'n': {{"npm_", []part{{alnum, 36, 36, ""}}}},
	'p': {{"pypi-AgEIcHlwaS5vcmc", []part{{token, 50, noMost, ""}}}},
	'r': {{"rk_live_", []part{{alnum, 24, 247, ""}}}},
	's': {
		{"sk_live_", []part{{alnum, 24, 247, ""}}},
		{"sk-ant-", []part{{lower, 3, 5, ""}, {digit, 2, 2, "-"}, {token, 80, 120, ""}}},
	},
	'x': {{"xox", []part{{slackKind, 1, 1, "-"}, {digit, 8, 14, "-"}, {alnumDash, 16, noMost, ""}}}},
}

const minDistinct = 12 // different bytes of a key: others are placeholders

// key reports whether a text, which no byte of the class token is before, begins with a key.
func key(text []byte) bool {
	for i := range forms[text[0]] {
		if n := forms[text[0]][i].match(text); n > 0 && genuine(text[:n]) {
			return true
		}
	}
	n := markedKey(text)
	return n > 0 && genuine(text[:n])
}

// match returns the length of the key that a text begins with, or 0. A byte of the class token that
// follows is found so: all parts are of bytes of that class.
func (f *form) match(text []byte) int {
	n := len(f.prefix)
	if len(text) < n || string(text[:n]) != f.prefix {
		return 0
	}
	for i := range f.parts {
		p := &f.parts[i]
		size := run(text[n:], p.class, p.max)
		n += size
		if size < p.min || len(text)-n < len(p.then) || string(text[n:n+len(p.then)]) != p.then {
			return 0
		}
		n += len(p.then)
	}
	if is(text, n, token) {
		return 0
	}
	return n
}

// markedKey is match for the keys that begin with sk- and have a mark in the middle, which their
// other parts may contain too.
func markedKey(text []byte) int {
	const (
		prefix, mark = "sk-", "T3BlbkFJ"
		least, most  = 20, 100 // bytes before and after the mark
	)
	if text[0] != prefix[0] || !bytes.HasPrefix(text, []byte(prefix)) {
		return 0
	}
	rest := text[len(prefix):]
	rest = rest[:run(rest, token, len("svcacct-")+most+len(mark)+most+1)]
	for at := least; at+len(mark)+least <= len(rest); at++ {
		if string(rest[at:at+len(mark)]) != mark || len(rest)-at-len(mark) > most {
			continue
		}
		for _, kind := range []string{"", "proj-", "svcacct-", "admin-"} {
			if n := at - len(kind); n >= least && n <= most && string(rest[:len(kind)]) == kind {
				return len(prefix) + len(rest)
			}
		}
	}
	return 0
}

// genuine reports whether a key is no placeholder. It has no call of bytes.Contains: that is
// assembly, for which the compiler would copy a string that is scanned.
func genuine(key []byte) bool {
	const example = "EXAMPLE"
	var seen [2]uint64 // keys are of ASCII
	for i, c := range key {
		seen[c>>6&1] |= 1 << (c & 63)
		if c == example[0] && len(key)-i >= len(example) && string(key[i:i+len(example)]) == example {
			return false
		}
	}
	return bits.OnesCount64(seen[0])+bits.OnesCount64(seen[1]) >= minDistinct
}

// dashes are on both sides of the lines around a private key.
const dashes = "-----"

// privateKey reports whether a text begins with a private key in armor: the line that begins it,
// headers, and the first bytes of its body. No header has dashes, which begin another line.
func privateKey(text []byte) bool {
	const begin = dashes + "BEGIN "
	if len(text) < len(begin) || text[len(dashes)] != 'B' || string(text[:len(begin)]) != begin {
		return false
	}
	text = text[len(begin):]
	n := run(text, labels, len(text))
	if !privateLabel(text[:n]) || !bytes.HasPrefix(text[n:], []byte(dashes)) {
		return false
	}
	for text = text[n+len(dashes):]; text != nil; text = afterHeader(text) {
		for size := gap(text); size > 0; size = gap(text) {
			text = text[size:]
		}
		if run(text, base64, minBody) == minBody {
			return true
		}
	}
	return false
}

const (
	maxLabel = 3  // words before PRIVATE KEY
	minBody  = 32 // bytes of base64
)

// privateLabel reports whether a label is that of a private key. It has letters, digits and spaces.
func privateLabel(label []byte) bool {
	label = bytes.TrimSuffix(label, []byte(" BLOCK"))
	words, ok := bytes.CutSuffix(label, []byte("PRIVATE KEY"))
	for n := 0; ok && len(words) > 0; n++ {
		size := run(words, alnum, len(words))
		if n == maxLabel || size == 0 || size == len(words) {
			return false
		}
		words = words[size+1:]
	}
	return ok
}

// gap returns the length of the blank or newline that a text begins with, or 0. In JSON in a string
// a newline is two characters.
func gap(text []byte) int {
	switch {
	case is(text, 0, blank):
		return 1
	case newline(text):
		return 2
	}
	return 0
}

// newline reports whether a text begins with a newline that is two characters.
func newline(text []byte) bool {
	return len(text) >= 2 && text[0] == '\\' && (text[1] == 'n' || text[1] == 'r')
}

// afterHeader returns the text after the line that a text begins with, or nil if that is no line of
// a header: a name, a colon and a value.
func afterHeader(text []byte) []byte {
	if !is(text, 0, letter) {
		return nil
	}
	n := run(text, alnumDash, len(text))
	if n == len(text) || text[n] != ':' {
		return nil
	}
	for text = text[n+1:]; len(text) > 0 && !bytes.HasPrefix(text, []byte(dashes)); text = text[1:] {
		if text[0] == '\n' || text[0] == '\r' || newline(text) {
			return text
		}
	}
	return nil
}
