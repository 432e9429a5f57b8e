package contracts

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/helmkernel/helm/crypto"
)

// A form visits the fields of a record in canonical order. With the same visit method it either
// writes the canonical JSON or reads it strictly, so writer and reader cannot disagree. Reading
// refuses missing fields, unknown fields and values that are not of the field's form. The first
// error is kept.
type form struct {
	reading bool
	bare    bool        // writing: without the signer's key and proofs, which depend on the rest
	exact   bool        // writing: it is an error if reading the text would not return the same value
	b       []byte      // written so far
	it      crypto.Iter // reading: the members of the present object
	more    bool        // the iterator is at a member that was not taken yet
	err     *FormatError
	class   Class
	scan    *scanner // reading: from it, and not from the iterator; see scan
}

type presence bool

const (
	required presence = true
	optional presence = false // left out when it is zero
)

// forms are pooled: a form that is passed to a function value is allocated on the heap.
var forms = sync.Pool{New: func() any { return new(form) }}

func write(dst []byte, visit func(*form)) []byte {
	f := forms.Get().(*form)
	f.b = append(dst, '{')
	visit(f)
	dst = append(f.b, '}')
	*f = form{}
	forms.Put(f)
	return dst
}

// writeBare writes the bytes that the subject of a presented statement, or a proof of possession,
// is computed over.
func writeBare(visit func(*form)) []byte {
	return write(nil, func(f *form) {
		f.bare = true
		visit(f)
	})
}

// compose writes a record that a caller composed and is about to sign. It fails if reading the text
// would not return the same record.
func compose(visit func(*form)) (b []byte, err error) {
	b = write(nil, func(f *form) {
		f.exact, f.class = true, Record
		visit(f)
		err = f.failure("")
	})
	return b, err
}

// read visits the members of v, which must be an object. It puts prefix before the field in an
// error.
func read(v crypto.Value, class Class, prefix string, visit func(*form)) error {
	f := forms.Get().(*form)
	f.reading, f.class = true, class
	f.within(v, visit)
	err := f.failure(prefix)
	*f = form{}
	forms.Put(f)
	return err
}

// scan visits the object that a scanner is at. It reports whether all of it was accepted, and is
// all there is: if so, read would have accepted it with the same result.
func scan(s *scanner, visit func(*form)) bool {
	f := forms.Get().(*form)
	f.reading, f.scan = true, s
	s.must("{")
	visit(f)
	s.must("}")
	ok := f.err == nil && s.done()
	*f = form{}
	forms.Put(f)
	return ok
}

// scanned moves to the value of the named member, and reports whether it is there.
func (f *form) scanned(name string, p presence) bool {
	ok := f.scan.member(name)
	if !ok && p == required {
		f.scan.failed = true
	}
	return ok
}

// failure returns the first error, with prefix before its field. Its type is error, because a nil
// *FormatError in an error is not nil.
func (f *form) failure(prefix string) error {
	if f.err == nil {
		return nil
	}
	f.err.Field = prefix + f.err.Field
	return f.err
}

func (f *form) within(v crypto.Value, visit func(*form)) {
	if v.Kind() != crypto.Object {
		f.fail("", "not an object")
		return
	}
	it, more := f.it, f.more
	f.it = v.Iter()
	f.more = f.it.Next()
	visit(f)
	if f.err == nil && f.more {
		f.fail(shown(f.it.Key()), "unknown field")
	}
	f.it, f.more = it, more
}

// shown returns a field name that may be quoted in a message.
func shown(name []byte) string {
	if !IsID(string(name)) {
		return "(unnamed)"
	}
	return string(name)
}

func (f *form) fail(field, what string) {
	if f.err == nil {
		f.err = &FormatError{f.class, field, what}
	}
}

// under puts the name of the containing object or list before the field of the error, if there is
// one.
func (f *form) under(name string) {
	if f.err != nil {
		f.err.Field = strings.TrimSuffix(name+"."+f.err.Field, ".")
	}
}

// take returns the named member and moves past it. Members must be taken in canonical order.
func (f *form) take(name string, p presence) (crypto.Value, bool) {
	if f.err != nil {
		return crypto.Value{}, false
	}
	if f.more {
		key := f.it.Key()
		if string(key) == name {
			v := f.it.Value()
			f.more = f.it.Next()
			return v, true
		}
		if string(key) < name {
			f.fail(shown(key), "unknown field")
			return crypto.Value{}, false
		}
	}
	if p == required {
		f.fail(name, "missing field")
	}
	return crypto.Value{}, false
}

// name writes a member's name.
func (f *form) name(name string) {
	if f.b[len(f.b)-1] != '{' {
		f.b = append(f.b, ',')
	}
	f.b = append(append(append(f.b, '"'), name...), '"', ':')
}

// texts visits a set of strings, sorted by bytes.
func (f *form) texts(name string, p presence, low, high int, list *[]string, w word) {
	if !f.reading {
		f.array(name, p, len(*list), func(i int) { f.written(name, (*list)[i]) })
		return
	}
	f.elements(name, p, low, high, func(i int, v crypto.Value) {
		var s string
		f.textOf("", v, &s, w)
		if i > 0 && s <= (*list)[i-1] {
			f.fail("", "not sorted and unique")
		}
		*list = append(*list, s)
	})
}

// array writes an array of n elements.
func (f *form) array(name string, p presence, n int, element func(i int)) {
	if p == optional && n == 0 {
		return
	}
	f.name(name)
	f.b = append(f.b, '[')
	for i := range n {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		element(i)
	}
	f.b = append(f.b, ']')
}

// elements reads an array of low to high elements.
func (f *form) elements(name string, p presence, low, high int, each func(i int, v crypto.Value)) {
	v, ok := f.take(name, p)
	switch {
	case !ok:
		return
	case v.Kind() != crypto.Array:
		f.fail(name, "not an array")
		return
	case v.Len() < low || v.Len() > high:
		f.fail(name, strconv.Itoa(v.Len())+" elements, want "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
		return
	}
	it := v.Iter()
	for i := 0; it.Next() && f.err == nil; i++ {
		each(i, it.Value())
		if f.err != nil {
			f.under(strconv.Itoa(i))
			f.under(name)
		}
	}
}

// digests visits a set of digests, sorted.
func (f *form) digests(name string, p presence, low, high int, list *[]Digest) {
	if !f.reading {
		f.array(name, p, len(*list), func(i int) { f.digestValue((*list)[i]) })
		return
	}
	if f.scan != nil {
		for more := f.scanned(name, p) && f.scan.begin(); more; more = f.scan.another(len(*list), low, high) {
			*list = append(*list, f.scan.digest())
			f.sorted(*list)
		}
		return
	}
	f.elements(name, p, low, high, func(_ int, v crypto.Value) {
		var d Digest
		f.digestOf("", v, &d)
		*list = append(*list, d)
		f.sorted(*list)
	})
}

// sorted refuses the last digest of a list if it is not after the one before.
func (f *form) sorted(list []Digest) {
	if n := len(list); n > 1 && slices.Compare(list[n-2][:], list[n-1][:]) >= 0 {
		f.fail("", "not sorted and unique")
	}
}

// object visits a member that is an object. When writing, present says whether the member exists.
func (f *form) object(name string, present bool, visit func(*form)) {
	if !f.reading {
		if present {
			f.name(name)
			f.b = append(f.b, '{')
			visit(f)
			f.b = append(f.b, '}')
		}
		return
	}
	if f.scan != nil {
		if f.scanned(name, required) {
			f.scan.must("{")
			visit(f)
			f.scan.must("}")
		}
		return
	}
	if v, ok := f.take(name, required); ok {
		f.within(v, visit)
		f.under(name)
	}
}

// has reports whether the next member is the named one. When writing it returns present.
func (f *form) has(name string, present bool) bool {
	if !f.reading {
		return present
	}
	return f.err == nil && f.more && string(f.it.Key()) == name
}

// peek returns the named member of the present object without moving, so out of order.
func (f *form) peek(name string) (crypto.Value, bool) {
	if !f.more {
		return crypto.Value{}, false
	}
	for v, it := f.it.Value(), f.it; ; v = it.Value() {
		if string(it.Key()) == name {
			return v, true
		}
		if !it.Next() {
			return crypto.Value{}, false
		}
	}
}

// list visits an array of objects.
func list[T any](f *form, name string, p presence, low, high int, items *[]T, visit func(*T, *form)) {
	if !f.reading {
		f.array(name, p, len(*items), func(i int) {
			f.b = append(f.b, '{')
			visit(&(*items)[i], f)
			f.b = append(f.b, '}')
		})
		return
	}
	if f.scan != nil {
		for more := f.scanned(name, p) && f.scan.begin(); more; more = f.scan.another(len(*items), low, high) {
			*items = append(*items, *new(T))
			f.scan.must("{")
			visit(&(*items)[len(*items)-1], f)
			f.scan.must("}")
		}
		return
	}
	f.elements(name, p, low, high, func(_ int, v crypto.Value) {
		var x T
		f.within(v, func(f *form) { visit(&x, f) })
		*items = append(*items, x)
	})
}

// A visitor is a record, or an object in one.
type visitor interface{ visit(*form) }

// byForm compares the canonical forms of two records.
func byForm[V visitor](a, b V) int {
	return bytes.Compare(write(nil, a.visit), write(nil, b.visit))
}

// ascends reports whether each element compares greater than the one before, so the list is sorted
// and has no repeats.
func ascends[T any](list []T, compare func(a, b *T) int) bool {
	for i := 1; i < len(list); i++ {
		if compare(&list[i-1], &list[i]) >= 0 {
			return false
		}
	}
	return true
}
