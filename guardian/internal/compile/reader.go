package compile

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A reader reads the values of one document, and notes its errors.
type reader struct {
	doc     contracts.Document
	tree    crypto.Tree
	errs    []*LoadError
	refused int                       // how often; an error that is noted already counts, too
	noted   map[refusal]*program.Tool // see note
	places  *places                   // nil: of a grant
}

// A refusal is a place and what is wrong there.
type refusal struct{ at, what string }

// refuse notes an error, once: a value that is the same for many tools may be read for each.
func (r *reader) refuse(at, what, remedy string) {
	r.refused++
	if r.note(refusal{at, what}, nil) {
		return
	}
	r.errs = append(r.errs, &LoadError{Document: r.doc.Name, Pos: r.pos(at), Pointer: at, What: what, Remedy: remedy})
}

// note notes for which tool a refusal is, and reports whether it was noted before, for another tool
// or for none.
func (r *reader) note(x refusal, t *program.Tool) (before bool) {
	of, before := r.noted[x]
	if before {
		return of != t || t == nil
	}
	if r.noted == nil {
		r.noted = map[refusal]*program.Tool{}
	}
	r.noted[x] = t
	return false
}

// places are those of a document that a trace of a judgement may name: JSON Pointers, each once.
type places struct {
	list  []string // from 1 on
	known map[string]int32
}

// placed returns the number of a place, or 0 in a grant, which is no document of the stack.
func (r *reader) placed(at string) int32 {
	if r.places == nil {
		return 0
	}
	n, ok := r.places.known[at]
	if !ok {
		n = int32(len(r.places.list))
		r.places.list = append(r.places.list, at)
		r.places.known[at] = n
	}
	return n
}

// pos returns the position of a value or, if it has none, of the nearest one around it that has.
func (r *reader) pos(at string) contracts.Pos {
	for {
		if pos, ok := r.doc.Lines[at]; ok {
			return pos
		}
		if at == "" {
			return contracts.Pos{}
		}
		at = at[:strings.LastIndexByte(at, '/')]
	}
}

// sorted returns the errors in the order of the source or, if the document has no lines, in that of
// reading.
func (r *reader) sorted() []*LoadError {
	slices.SortStableFunc(r.errs, func(a, b *LoadError) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	return r.errs
}

// parse reads the document's canonical form.
func (r *reader) parse() (docValue, bool) {
	const most = 64 << 20
	limits := crypto.Limits{Bytes: most, Depth: contracts.MaxRecordDepth, Object: true}
	if err := r.tree.Parse(r.doc.Canonical, limits); err != nil {
		r.refuse("", err.Error(), "hand in canonical JSON of at most 64 MiB")
		return docValue{}, false
	}
	root := r.tree.Root()
	if !bytes.Equal(root.Append(make([]byte, 0, len(r.doc.Canonical))), r.doc.Canonical) {
		r.refuse("", "not in canonical form", "write it as RFC 8785 says")
		return docValue{}, false
	}
	return docValue{root, ""}, true
}

// A docValue is one value of a document, and its JSON Pointer.
type docValue struct {
	v  crypto.Value
	at string
}

func (p docValue) get(key string) docValue {
	return docValue{p.v.Get(key), p.at + "/" + value.EscapeSegment(key)}
}

// has is exists of get, without making the pointer.
func (p docValue) has(key string) bool { return p.v.Get(key).Kind() != crypto.Missing }

func (p docValue) exists() bool { return p.v.Kind() != crypto.Missing }

func (p docValue) isObject() bool { return p.v.Kind() == crypto.Object }

// elements returns those of an array. Of any other value it returns the value itself, for keys that
// take one value or a list.
func (p docValue) elements() []docValue {
	if p.v.Kind() != crypto.Array {
		return []docValue{p}
	}
	var out []docValue
	for e := range p.v.Elements() {
		out = append(out, docValue{e, p.at + "/" + strconv.Itoa(len(out))})
	}
	return out
}
