package compile

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// Forms that a word must have.
const (
	formID    = "1 to 64 of A-Z a-z 0-9 . _ -"
	formWords = "1 to 128 bytes without control characters"
)

func isWords(s string) bool { return contracts.IsWords(s, contracts.MaxWords) }

// maxListed is the most members that a list has, or an operand.
const maxListed = 10_000

// object refuses what is not one, and unknown keys. It reports whether it is one.
func (r *reader) object(p docValue, keys []string) bool {
	if p.v.Kind() != crypto.Object {
		r.refuse(p.at, "is "+article(p.v.Kind())+", not an object", "write the keys "+strings.Join(keys, ", "))
		return false
	}
	r.only(p, keys, func(key string) string { return instead(key, keys) })
	return true
}

// strict is object, but reports whether there are no unknown keys either.
func (r *reader) strict(p docValue, keys []string) bool {
	before := r.refused
	return r.object(p, keys) && r.refused == before
}

// only refuses unknown keys of an object, and reports whether there are none. instead says what to
// write for one.
func (r *reader) only(p docValue, keys []string, instead func(key string) string) bool {
	before := r.refused
	for it := p.v.Iter(); it.Next(); {
		key := string(it.Key())
		if !slices.Contains(keys, key) {
			r.refuse(p.at+"/"+value.EscapeSegment(key), "unknown key "+quote(key), instead(key))
		}
	}
	return r.refused == before
}

// need returns the value of a key that must exist. If the key is only misspelt, the error says so.
func (r *reader) need(p docValue, key string) (docValue, bool) {
	if x := p.get(key); x.exists() {
		return x, true
	}
	for it := p.v.Iter(); it.Next(); {
		if name := string(it.Key()); near(name, key) {
			r.refuse(p.at+"/"+value.EscapeSegment(name), "unknown key "+quote(name), "did you mean "+key+"?")
			return docValue{}, false
		}
	}
	r.refuse(p.at, "no "+key, "add "+key)
	return docValue{}, false
}

func (r *reader) text(p docValue) (string, bool) {
	if p.v.Kind() != crypto.String {
		r.refuse(p.at, "is "+article(p.v.Kind())+", not a string", "quote it")
		return "", false
	}
	return p.v.Text(), true
}

// word reads a string of a form.
func (r *reader) word(p docValue, is func(string) bool, form string) (string, bool) {
	s, ok := r.text(p)
	if ok && !is(s) {
		r.refuse(p.at, quote(s)+" is not "+form, "correct it")
		return "", false
	}
	return s, ok
}

// wordIf is word for one that may be left out.
func (r *reader) wordIf(p docValue, is func(string) bool, form string) string {
	if !p.exists() {
		return ""
	}
	s, _ := r.word(p, is, form)
	return s
}

func (r *reader) oneOf(p docValue, words ...string) (string, bool) {
	s, ok := r.text(p)
	if !ok || slices.Contains(words, s) {
		return s, ok
	}
	remedy := "write one of them"
	for _, w := range words {
		if near(s, w) {
			remedy = "did you mean " + w + "?"
		}
	}
	r.refuse(p.at, quote(s)+" is not one of "+strings.Join(words, ", "), remedy)
	return "", false
}

func (r *reader) boolean(p docValue) (bool, bool) {
	if p.v.Kind() != crypto.Bool {
		r.refuse(p.at, "is "+article(p.v.Kind())+", not a boolean", "write true or false")
		return false, false
	}
	return p.v.Bool(), true
}

// list reads an array of low to high elements.
func (r *reader) list(p docValue, low, high int) ([]docValue, bool) {
	if p.v.Kind() != crypto.Array {
		r.refuse(p.at, "is "+article(p.v.Kind())+", not a list", "write a list")
		return nil, false
	}
	if n := p.v.Len(); n < low || n > high {
		r.refuse(p.at, "a list of "+strconv.Itoa(n), "write "+strconv.Itoa(low)+" to "+strconv.Itoa(high)+" elements")
		return nil, false
	}
	return p.elements(), true
}

// distinct reads a list of strings, none twice.
func (r *reader) distinct(p docValue, low int) []docValue {
	list, ok := r.list(p, low, maxListed)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(e docValue) bool {
		s, ok := r.text(e)
		if ok && seen[s] {
			r.refuse(e.at, quote(s)+" twice", "name it once")
		}
		seen[s] = true
		return !ok
	})
}

// words reads a list of strings into a set. check refuses what is not allowed in it.
func (r *reader) words(p docValue, low int, check func(docValue)) map[string]bool {
	set := map[string]bool{}
	for _, e := range r.distinct(p, low) {
		check(e)
		set[e.v.Text()] = true
	}
	return set
}

// strings reads one string, or a list of them.
func (r *reader) strings(p docValue) ([]docValue, bool) {
	if p.v.Kind() == crypto.Array {
		if _, ok := r.list(p, 1, maxListed); !ok {
			return nil, false
		}
	}
	list := p.elements()
	for _, e := range list {
		if _, ok := r.text(e); !ok {
			return nil, false
		}
	}
	return list, true
}

// scalars returns the canonical text of strings only, or of numbers only.
func (r *reader) scalars(elements []docValue) (kind crypto.Kind, members []string, ok bool) {
	for i, e := range elements {
		k := e.v.Kind()
		if k != crypto.String && k != crypto.Number || i > 0 && k != kind {
			r.refuse(e.at, "is "+article(k), "write strings only, or numbers only")
			return 0, nil, false
		}
		kind, members = k, append(members, string(e.v.Raw()))
	}
	return kind, members, len(members) > 0
}

// members calls each for every member of an object.
func (r *reader) members(p docValue, each func(name string, p docValue)) {
	if p.v.Kind() != crypto.Object {
		r.refuse(p.at, "is "+article(p.v.Kind())+", not an object", "write names with what they stand for")
		return
	}
	for it := p.v.Iter(); it.Next(); {
		name := string(it.Key())
		each(name, docValue{it.Value(), p.at + "/" + value.EscapeSegment(name)})
	}
}

// duration reads one that may be left out: then d stays.
func (r *reader) duration(p docValue, d *time.Duration) (ok bool) {
	if !p.exists() {
		return true
	}
	*d, ok = value.ReadDuration(p.v.Text())
	if !ok {
		r.refuse(p.at, quoted(p)+" is no duration", "write it like 5s, 10m, 24h or 7d")
	}
	return ok
}

// size reads one that may be left out: then n stays.
func (r *reader) size(p docValue, n *int) {
	if !p.exists() {
		return
	}
	var ok bool
	*n, ok = value.ReadSize(p.v.Text())
	if !ok {
		r.refuse(p.at, quoted(p)+" is no size", "write it like 64KiB or 1MiB")
	}
}

// one returns the one key of p that is among the names. If there is none the error makes the offer.
func (r *reader) one(p docValue, names []string, offer func() []string) (string, bool) {
	var found []string
	for _, name := range names {
		if p.has(name) {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], true
	case 0:
		r.refuse(p.at, "no operator", "write one of "+strings.Join(offer(), ", "))
	default:
		what := "two operators in one predicate: " + strings.Join(found, ", ")
		r.refuse(p.get(found[1]).at, what, "combine two predicates with all")
	}
	return "", false
}

// A list is named scalars of one type. If it was refused, plain is nil.
type list struct {
	kind    crypto.Kind
	members []string // canonical text
	plain   *value.Set
	folded  *value.Set // made when a predicate folds
}

func (x *list) set(fold bool) *value.Set {
	if !fold {
		return x.plain
	}
	if x.folded == nil {
		x.folded = value.NewSet(x.members, true)
	}
	return x.folded
}

// readLists reads the lists of a document, by name.
func (r *reader) readLists(p docValue) map[string]*list {
	lists := map[string]*list{}
	if !p.exists() {
		return lists
	}
	r.members(p, func(name string, p docValue) {
		x := &list{}
		lists[name] = x // also if it is refused: a predicate that names it is not to blame
		if !contracts.IsID(name) {
			r.refuse(p.at, quote(name)+" is no name of a list", "use "+formID)
		}
		elements, ok := r.list(p, 1, maxListed)
		if !ok {
			return
		}
		if kind, members, ok := r.scalars(elements); ok {
			x.kind, x.members, x.plain = kind, members, value.NewSet(members, false)
		}
	})
	return lists
}
