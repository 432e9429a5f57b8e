package policy

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
)

// readJSON has crypto parse the text, and walks over it once more for the places.
func readJSON(b []byte) (contracts.Document, *guardian.LoadError) {
	var t crypto.Tree
	if err := t.Parse(b, crypto.Limits{Bytes: maxJSON, Depth: maxDepth, Object: true}); err != nil {
		what, c := err.Error(), start(b)
		var at *crypto.SyntaxError
		if errors.As(err, &at) {
			what = at.What
			c.advance(at.Offset)
		}
		return contracts.Document{}, refuse(c.pos, "not strict JSON: "+what,
			"expected one JSON object of at most 4 MiB, nested at most 128 deep, without duplicate keys")
	}
	w := walker{cursor: start(b), places: newPlaces()}
	w.space()
	if !w.value(w.pos, w.pos) {
		return contracts.Document{}, refuse(w.pos, "keys too long above too many values",
			"shorten the keys, or split the document")
	}
	return contracts.Document{Canonical: t.Root().Append(nil), Lines: w.lines}, nil
}

// A walker goes over a text that crypto has accepted, so it looks only for where values begin and
// end. It recurses no deeper than crypto let the text be nested.
type walker struct {
	cursor
	places
	tree crypto.Tree // for keys with escapes
}

// value notes and passes the value at the cursor. The value is a member's if its key is at another
// place.
func (w *walker) value(key, at contracts.Pos) bool {
	if !w.note(memberAt(key, at)) {
		return false
	}
	switch w.b[w.at] {
	case '{':
		return w.members()
	case '[':
		return w.elements()
	case '"':
		w.str()
	default:
		end := bytes.IndexAny(w.b[w.at:], ",]} \t\r\n")
		w.advance(w.at + end) // the root is an object, so something follows
	}
	return true
}

func (w *walker) members() bool {
	for w.next('}') {
		key := w.pos
		back := w.enter(w.text(w.str()))
		w.space()
		w.step() // the colon
		w.space()
		if !w.value(key, w.pos) {
			return false
		}
		w.leave(back)
	}
	return true
}

func (w *walker) elements() bool {
	for i := 0; w.next(']'); i++ {
		back := w.enter(strconv.Itoa(i))
		if !w.value(w.pos, w.pos) {
			return false
		}
		w.leave(back)
	}
	return true
}

// next passes the opening bracket or a comma, and reports whether a member or element follows. If
// not, it passes the closing bracket.
func (w *walker) next(closing byte) bool {
	w.space()
	if w.b[w.at] != closing {
		w.step()
		w.space()
	}
	if w.b[w.at] == closing {
		w.step()
		return false
	}
	return true
}

// str passes a string and returns its text, quotes included.
func (w *walker) str() []byte {
	i := w.at + 1
	for ; w.b[i] != '"'; i++ {
		if w.b[i] == '\\' {
			i++
		}
	}
	text := w.b[w.at : i+1]
	w.advance(i + 1)
	return text
}

// text returns the value of a string in quotes.
func (w *walker) text(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	if err := w.tree.Parse(quoted, crypto.Limits{Bytes: len(quoted), Depth: 1}); err != nil {
		return "" // cannot happen: crypto read the same text
	}
	return w.tree.Root().Text()
}

func (w *walker) space() {
	for w.at < len(w.b) && (w.b[w.at] == ' ' || w.b[w.at] == '\t' || w.b[w.at] == '\n' || w.b[w.at] == '\r') {
		w.step()
	}
}

func (w *walker) step() { w.advance(w.at + 1) }
