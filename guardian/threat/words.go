package threat

import "unicode/utf8"

// words finds instructions to a model among the words of a text. The letters of a word are packed
// in five bits each, so that no word is copied.
type words struct {
	word                   uint64
	count, verb, adjective int // the number of words so far, and of the last that were of a kind, from 1
}

// apart is the number of words within which the next kind of word follows.
const apart = 5

// A kind is the place of a word in an instruction: ignore previous rules.
type kind uint8

const (
	verb kind = iota + 1
	adjective
	object
)

// letter appends a letter to the word.
func (w *words) letter(c byte) { w.word = pack(w.word, c) }

// letters appends the ASCII letters that a text begins with to the word, and returns how many.
func (w *words) letters(text []byte) int {
	word := w.word
	for i, c := range text {
		if classes[c]&letter == 0 {
			w.word = word
			return i
		}
		word = pack(word, c)
	}
	w.word = word
	return len(text)
}

const (
	longest = 12 // letters that a packed word holds
	tooLong = 1 << 63
)

// pack appends a letter, of whichever case, to a packed word.
func pack(word uint64, c byte) uint64 {
	if word>>(5*(longest-1)) != 0 {
		return tooLong
	}
	return word<<5 | uint64(c&31)
}

// end ends the word, if there is one, and returns the signal that it completes.
func (w *words) end() (seen Set) {
	if w.word == 0 {
		return 0
	}
	word := w.word
	w.word = 0
	w.count++
	if word>>(5*4) == 0 {
		return 0 // no word of the table has fewer than five letters
	}
	switch kinds.of(word) {
	case verb:
		w.verb = w.count
	case adjective:
		if w.verb > 0 && w.count-w.verb <= apart {
			w.adjective = w.count
		}
	case object:
		if w.adjective > 0 && w.count-w.adjective <= apart {
			return instruction
		}
	}
	return 0
}

// A wordTable has the kinds of words, by a hash of them.
type wordTable [128]struct {
	word uint64
	kind kind
}

var kinds = newWordTable(map[kind][]string{
	verb:      {"ignore", "disregard", "forget", "override", "bypass"},
	adjective: {"previous", "prior", "above", "earlier", "preceding", "foregoing", "initial", "original", "system"},
	object: {
		"instruction", "instructions", "direction", "directions", "prompt", "prompts", "command", "commands", "rules",
		"guideline", "guidelines",
	},
})

func newWordTable(list map[kind][]string) (t wordTable) {
	for k, words := range list {
		for _, text := range words {
			var word uint64
			for i := range len(text) {
				word = pack(word, text[i])
			}
			slot := hash(word)
			for t[slot].word != 0 {
				slot = (slot + 1) % len(t)
			}
			t[slot].word, t[slot].kind = word, k
		}
	}
	return t
}

func hash(word uint64) int { return int(word * 0x9e3779b97f4a7c15 >> 57) }

// of returns the kind of a packed word, or 0 for a word that the table does not have.
func (t *wordTable) of(word uint64) kind {
	for slot := hash(word); t[slot].word != 0; slot = (slot + 1) % len(t) {
		if t[slot].word == word {
			return t[slot].kind
		}
	}
	return 0
}

// specials are the tokens that begin or end a turn of a chat.
var specials = [...]string{
	"<|im_start|>", "<|im_end|>", "<|system|>", "<|endoftext|>", "<<sys>>", "[inst]", "[/inst]",
}

// special returns instruction if a text begins with one of specials, and else no signal. It stops
// at the first character that no token has there; the first two are the only ones that another
// token may begin with, so no code point of I is skipped more than twice.
func special(text []byte) Set {
	left := 1<<len(specials) - 1 // the tokens that the text may begin with, as bits
	for i, n := 0, 0; i < len(text) && left != 0; {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		i += size
		if invisible(r) {
			continue
		}
		if 0xff01 <= r && r <= 0xff5e {
			r += '!' - 0xff01
		}
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		for k, token := range specials {
			switch {
			case left&(1<<k) == 0:
			case rune(token[n]) != r:
				left &^= 1 << k
			case n+1 == len(token):
				return instruction
			}
		}
		n++
	}
	return 0
}
