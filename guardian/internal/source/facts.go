package source

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// The allowance of a source: plain values of one tool, and bytes of texts of one tool, or of the
// user.
const (
	MaxPlain = 10_000
	MaxTexts = contracts.MaxMessage
)

// Values are what a source holds. Has reports whether the value is among them, or in one of them.
type Values interface {
	Has(v crypto.Value) bool
}

// Words are the user's own: the messages of a session. Nothing is in the zero Words.
type Words struct {
	Texts
	full bool
}

// Add adds a message, which must be UTF-8. It is no source if it would exceed the allowance, or if
// an earlier one did.
func (w *Words) Add(message []byte) {
	w.full = w.full || w.length+len(message) > MaxTexts
	if !w.full {
		w.add(message)
	}
}

// Full reports whether a message was no source.
func (w *Words) Full() bool { return w.full }

// A Fact is one that a tool declares, and that is no count.
type Fact struct {
	Key     string // its pointer as written, the key of facts documents
	Text    bool   // its values are texts, in which values are looked for
	Vouches bool   // it may be asked as a source
}

// Facts holds the values of one tool's facts, from its facts documents, by one declaration.
type Facts struct {
	declared     []Fact
	held         []fact // by declared
	plain, texts int    // of the allowance
	full         bool
}

// A fact holds the values of one fact: plain or, if it is a text, texts.
type fact struct {
	plain Plain
	texts Texts
}

// Plain is a set of values. Of each it holds half the digest of its canonical form. That is enough:
// a second value with the same half takes 2^128 trials to find, or 2^64 by someone who can write
// the first into the fact, and so could write the second.
type Plain struct {
	halves map[[16]byte]struct{}
}

// plainSize is about what a value of a set takes.
const plainSize = 32

func half(v crypto.Value) [16]byte {
	d := crypto.Sum(v.Raw())
	return [16]byte(d[:16])
}

// Has reports whether the set contains the value.
func (p *Plain) Has(v crypto.Value) bool {
	_, ok := p.halves[half(v)]
	return ok
}

func (p *Plain) add(v crypto.Value) {
	if p.halves == nil {
		p.halves = map[[16]byte]struct{}{}
	}
	p.halves[half(v)] = struct{}{}
}

// NewFacts returns the facts of a tool that declares these, with no value yet.
func NewFacts(declared []Fact) *Facts {
	return &Facts{declared: declared, held: make([]fact, len(declared))}
}

// Full reports whether a document was no source.
func (f *Facts) Full() bool { return f.full }

// Add adds a facts document that [contracts.ParseFacts] accepts. The values of all declared facts
// use up the allowance, repeated ones too. A document that would exceed it is no source, nor is any
// later one.
func (f *Facts) Add(document crypto.Value) {
	plain, texts := f.plain, f.texts
	for i, d := range f.declared {
		for v := range document.Get(d.Key).Elements() {
			if f.isText(i, v) {
				texts += len(v.Bytes())
			} else {
				plain++
			}
		}
	}
	f.full = f.full || plain > MaxPlain || texts > MaxTexts
	if f.full {
		return
	}
	f.plain, f.texts = plain, texts
	for i, d := range f.declared {
		if !d.Vouches {
			continue
		}
		for v := range document.Get(d.Key).Elements() {
			switch {
			case f.isText(i, v):
				f.held[i].texts.add(v.Bytes())
			case !d.Text:
				f.held[i].plain.add(v)
			}
		}
	}
}

// Size returns about how many bytes of memory the values take.
func (f *Facts) Size() int {
	size := 0
	for i := range f.held {
		size += plainSize*len(f.held[i].plain.halves) + f.held[i].texts.Size()
	}
	return size
}

// isText reports whether a value of a fact is a text. If an earlier declaration pinned another
// type, values that are no strings may be under the pointer of texts: they are not found.
func (f *Facts) isText(i int, v crypto.Value) bool {
	return f.declared[i].Text && v.Kind() == crypto.String
}

// Of returns the values of the fact with that key, and the length of its texts. It reports false if
// no such fact is declared, or if it may not vouch.
func (f *Facts) Of(key string) (values Values, length int, ok bool) {
	for i, d := range f.declared {
		switch {
		case d.Key != key || !d.Vouches:
		case d.Text:
			return &f.held[i].texts, f.held[i].texts.length, true
		default:
			return &f.held[i].plain, 0, true
		}
	}
	return nil, 0, false
}
