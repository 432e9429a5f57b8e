package guardian

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A part is one value of a document, and its JSON Pointer.
type part struct {
	v  crypto.Value
	at string
}

func (p part) get(key string) part { return part{p.v.Get(key), p.at + "/" + value.EscapeSegment(key)} }

// has is there of get, without the pointer.
func (p part) has(key string) bool { return p.v.Get(key).Kind() != crypto.Missing }

func (p part) there() bool { return p.v.Kind() != crypto.Missing }

// elements gives those of an array; of any other value the value itself, for keys that take one or a list.
func (p part) elements() []part {
	if p.v.Kind() != crypto.Array {
		return []part{p}
	}
	var out []part
	for e := range p.v.Elements() {
		out = append(out, part{e, p.at + "/" + strconv.Itoa(len(out))})
	}
	return out
}

// A loader reads one document. What it cannot read it refuses and leaves out, so that one look finds the first error of the document, and
// an error causes no others.
type loader struct {
	doc     contracts.Document
	tree    crypto.Tree
	errs    []*LoadError
	root    part
	whole   bool   // it is known what document this is, so the rest can be read
	layer   string // P0, P1 or P2
	name    string // of the document, or of its bundle
	prefix  string // of the names of rules: layer:name:
	record  contracts.PolicyDocument
	expires contracts.Time // 0: never
	terms   *terms         // of P0 and P2
	narrows bool           // the overlay is put over a stack that is in use
	lists   map[string]*list
	tools   map[string]*tool    // those that the document can speak of: of P1 its own, of P0 and P2 all
	names   []string            // of the tools, sorted
	shapes  map[string]*shape   // of a bundle's tools, by the text of input and scope
	read    map[string]constant // operands by pointer: a rule about many tools reads each once
	idle    idle                // of the rule being read
	ids     map[string]bool     // of rules, requirements and budgets
	stated  []stated            // its requirements
}

func (l *loader) refuse(at, what, remedy string) {
	l.errs = append(l.errs, &LoadError{Document: l.doc.Name, Pos: l.pos(at), Pointer: at, What: what, Remedy: remedy})
}

// pos is where a value stands, or the nearest one around it that has a place.
func (l *loader) pos(at string) contracts.Pos {
	for {
		if pos, ok := l.doc.Lines[at]; ok {
			return pos
		}
		if at == "" {
			return contracts.Pos{}
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
}

// first is the first error in the order of the source, or of the canonical form where the document has no lines.
func (l *loader) first() *LoadError {
	if len(l.errs) == 0 {
		return nil
	}
	return slices.MinFunc(l.errs, func(a, b *LoadError) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Column - b.Pos.Column
	})
}

// object refuses what is not one, and keys that it does not have. later are keys of the format that this version does not support.
func (l *loader) object(p part, keys, later []string) bool {
	if p.v.Kind() != crypto.Object {
		l.refuse(p.at, "is "+article(p.v.Kind())+", not an object", "write the keys "+strings.Join(keys, ", "))
		return false
	}
	l.only(p, keys, later, func(key string) string { return instead(key, keys, later) })
	return true
}

// only refuses keys that an object does not have, and tells whether there are none; instead says what to write for one.
func (l *loader) only(p part, keys, later []string, instead func(key string) string) bool {
	before := len(l.errs)
	for it := p.v.Iter(); it.Next(); {
		key := string(it.Key())
		switch at := p.at + "/" + value.EscapeSegment(key); {
		case slices.Contains(keys, key):
		case slices.Contains(later, key):
			l.unsupported(at, key)
		default:
			l.refuse(at, "unknown key "+quote(key), instead(key))
		}
	}
	return len(l.errs) == before
}

func (l *loader) unsupported(at, what string) {
	l.refuse(at, what+" is not supported by this version of helm", "remove it")
}

// need is a key that must be there. If it is only misspelt, that is what is said.
func (l *loader) need(p part, key string) (part, bool) {
	if x := p.get(key); x.there() {
		return x, true
	}
	for it := p.v.Iter(); it.Next(); {
		if name := string(it.Key()); near(name, key) {
			l.refuse(p.at+"/"+value.EscapeSegment(name), "unknown key "+quote(name), "did you mean "+key+"?")
			return part{}, false
		}
	}
	l.refuse(p.at, "no "+key, "add "+key)
	return part{}, false
}

func (l *loader) text(p part) (string, bool) {
	if p.v.Kind() != crypto.String {
		l.refuse(p.at, "is "+article(p.v.Kind())+", not a string", "quote it")
		return "", false
	}
	return p.v.Text(), true
}

// word is a string of a form.
func (l *loader) word(p part, is func(string) bool, form string) (string, bool) {
	s, ok := l.text(p)
	if ok && !is(s) {
		l.refuse(p.at, quote(s)+" is not "+form, "correct it")
		return "", false
	}
	return s, ok
}

func (l *loader) oneOf(p part, words ...string) (string, bool) {
	s, ok := l.text(p)
	if !ok || slices.Contains(words, s) {
		return s, ok
	}
	remedy := "write one of them"
	for _, w := range words {
		if near(s, w) {
			remedy = "did you mean " + w + "?"
		}
	}
	l.refuse(p.at, quote(s)+" is not one of "+strings.Join(words, ", "), remedy)
	return "", false
}

func (l *loader) boolean(p part) (bool, bool) {
	if p.v.Kind() != crypto.Bool {
		l.refuse(p.at, "is "+article(p.v.Kind())+", not a boolean", "write true or false")
		return false, false
	}
	return p.v.Bool(), true
}

// list is an array of low to high elements.
func (l *loader) list(p part, low, high int) ([]part, bool) {
	if p.v.Kind() != crypto.Array {
		l.refuse(p.at, "is "+article(p.v.Kind())+", not a list", "write a list")
		return nil, false
	}
	if n := p.v.Len(); n < low || n > high {
		l.refuse(p.at, "a list of "+strconv.Itoa(n), "write "+strconv.Itoa(low)+" to "+strconv.Itoa(high)+" elements")
		return nil, false
	}
	return p.elements(), true
}

// distinct is a list of strings, none twice.
func (l *loader) distinct(p part, low int) []part {
	list, ok := l.list(p, low, maxListed)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(e part) bool {
		s, ok := l.text(e)
		if ok && seen[s] {
			l.refuse(e.at, quote(s)+" twice", "name it once")
		}
		seen[s] = true
		return !ok
	})
}

// words is the set of those of a list; check refuses what is none.
func (l *loader) words(p part, low int, check func(part)) map[string]bool {
	set := map[string]bool{}
	for _, e := range l.distinct(p, low) {
		check(e)
		set[e.v.Text()] = true
	}
	return set
}

func article(k crypto.Kind) string {
	switch k {
	case crypto.Array, crypto.Object:
		return "an " + k.String()
	case crypto.Missing, crypto.Null:
		return k.String()
	}
	return "a " + k.String()
}

// quote shows a word of a document in a message, cut short.
func quote(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "…"
	}
	return strconv.Quote(s)
}

// instead says what was expected in place of a key. It offers nothing that would be refused next.
func instead(key string, keys, later []string) string {
	for _, k := range keys {
		if near(key, k) {
			return "did you mean " + k + "?"
		}
	}
	for _, k := range later {
		if near(key, k) {
			return "remove it: " + k + " is not supported by this version of helm"
		}
	}
	if len(keys) == 1 {
		return "write " + keys[0] + " alone"
	}
	return "write one of " + strings.Join(keys, ", ")
}

// near tells whether one letter more, less, other or in another place makes a of b, or the case of letters.
func near(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch {
	case len(a) == len(b)+1:
		return a[1:] == b
	case len(b) == len(a)+1:
		return b[1:] == a
	case len(a) != len(b) || len(a) == 0:
		return false
	}
	return a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
}

// parse reads the document's canonical form.
func (l *loader) parse() (part, bool) {
	const most = 64 << 20
	if err := l.tree.Parse(l.doc.Canonical, crypto.Limits{Bytes: most, Depth: contracts.MaxRecordDepth, Object: true}); err != nil {
		l.refuse("", err.Error(), "hand in canonical JSON of at most 64 MiB")
		return part{}, false
	}
	root := l.tree.Root()
	if !bytes.Equal(root.Append(make([]byte, 0, len(l.doc.Canonical))), l.doc.Canonical) {
		l.refuse("", "not in canonical form", "write it as RFC 8785 says")
		return part{}, false
	}
	return part{root, ""}, true
}
