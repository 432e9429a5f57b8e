package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// maxFactKeys is the most bytes of all keys of a facts document: one of nulls alone is far below
// its limit.
const maxFactKeys = 64 << 10

// A factReader reads what a tool declares of its output.
type factReader struct {
	*reader
	t      *program.Tool
	pinned bool // there is a schema of the output, right or wrong
}

// read reads all facts. One that is refused has no types, and a predicate that names it is not to
// blame.
func (x factReader) read(p docValue) {
	if !x.pinned {
		x.refuse(p.at, "facts of an output that is not pinned", "declare output")
	}
	if n := p.v.Len(); p.isObject() && n > contracts.MaxFactKeys {
		x.refuse(p.at, strconv.Itoa(n)+" facts", "write at most "+strconv.Itoa(contracts.MaxFactKeys))
	}
	x.t.Output.Facts = &program.Facts{}
	list, size := &x.t.Output.Facts.List, 0
	x.members(p, func(name string, p docValue) {
		if !contracts.IsID(name) {
			x.refuse(p.at, quote(name)+" is no name of a fact", "use "+formID)
		}
		f := program.Fact{Name: name, Vouches: x.t.Output.Trusted}
		if x.pinned && x.fact(p, &f) {
			size += len(f.Key)
			for i := range *list {
				if (*list)[i].Key == f.Key {
					x.refuse(p.at, "the pointer of fact "+(*list)[i].Name+", too", "declare it once")
				}
			}
		}
		*list = append(*list, f)
	})
	if size > maxFactKeys {
		what := "the pointers of these facts have " + strconv.Itoa(size) + " bytes"
		x.refuse(p.at, what, "write shorter ones, or fewer")
	}
	*list = inCanonicalOrder(*list, func(f program.Fact) string { return f.Key })
	x.t.Output.Facts.Declare()
}

// fact reads one: a pointer, {at: PTR, text, trusted} or {count: PTR}.
func (x factReader) fact(p docValue, f *program.Fact) bool {
	before := x.refused
	at := p
	switch {
	case p.has("count"):
		x.object(p, grammar.CountedFact)
		at, f.Count, f.Vouches = p.get("count"), true, false
	case p.isObject():
		x.object(p, grammar.Fact)
		f.Text = x.isTrue(p.get("text"))
		if trusted := p.get("trusted"); x.isTrue(trusted) {
			if x.t.Output.Trusted {
				x.refuse(trusted.at, "the tool is trusted, and so are its facts", "remove trusted")
			}
			f.Vouches = true
		}
		at, _ = x.need(p, "at")
	}
	if x.refused > before {
		return false
	}
	pointer, ok := x.text(at)
	if !ok {
		return false
	}
	f.Path, ok = value.SplitPointer(pointer)
	if !ok {
		x.refuse(at.at, quote(pointer)+" is no JSON Pointer", `write it like /a/*/b, with ~0 for ~ and ~1 for /`)
		return false
	}
	f.Key, f.Many = pointer, slices.Contains(f.Path, value.Star)
	if f.Count {
		f.Key = contracts.CountPrefix + pointer
	}
	return x.t.Output.Schema != nil && x.lookUp(at, f)
}

// isTrue reads a key that is written only if it is true.
func (x factReader) isTrue(p docValue) bool {
	if !p.exists() {
		return false
	}
	is, ok := x.boolean(p)
	if ok && !is {
		x.refuse(p.at, "false, as it is without it", "remove it, or write true")
	}
	return is
}

// lookUp looks up what the output has at the pointer of a fact.
func (x factReader) lookUp(at docValue, f *program.Fact) bool {
	if f.Count && f.Many {
		x.refuse(at.at, "a * in a count", "count one array")
		return false
	}
	place, ok := x.t.Output.Schema.Lookup(f.Path)
	pointer := value.JoinPointer(f.Path)
	const containers = jsonschema.TypeArray | jsonschema.TypeObject
	switch {
	case !ok:
		remedy := "name what the schema declares; a * stands for each element, or for each member of an object " +
			"of which the schema describes all"
		x.refuse(at.at, "no "+quote(pointer)+" in the output of "+x.t.Name, remedy)
	case f.Count && place.Types&jsonschema.TypeArray == 0:
		x.refuse(at.at, "count of something that is never an array", "name an array")
	case f.Count:
		f.Types, f.Lacking = jsonschema.TypeInteger,
			place.Optional || place.Nullable || place.Types != jsonschema.TypeArray
		return true
	case place.Types&scalar == 0 || place.Types&containers != 0:
		what := "ends at null"
		if is := place.Types & containers; is != 0 {
			first, _, _ := strings.Cut(is.String(), " ")
			what = "ends at an " + first
		}
		x.refuse(at.at, what+": a fact is a string, number or boolean",
			"name one below it, as /* is each element of an array")
	case f.Text && place.Types != textual:
		first, _, _ := strings.Cut((place.Types &^ textual).String(), " ")
		if first == "integer" {
			first = "number"
		}
		x.refuse(at.at, "text: true on a "+first, "remove text: such values are compared as they are")
	default:
		f.Types, f.Lacking = place.Types, place.Optional || place.Nullable
		return true
	}
	return false
}

// inCanonicalOrder sorts members as RFC 8785 sorts their names, which differ.
func inCanonicalOrder[T any](all []T, name func(T) string) []T {
	b := []byte{'{'}
	for _, x := range all {
		b = append(crypto.AppendString(b, name(x)), ":0,"...)
	}
	var tree crypto.Tree
	limits := crypto.Limits{Bytes: len(b), Depth: 1, Object: true}
	if len(all) < 2 || tree.Parse(append(b[:len(b)-1], '}'), limits) != nil {
		return all // refused already, if two names are equal
	}
	sorted := make([]T, 0, len(all))
	root := tree.Root()
	for it := root.Iter(); it.Next(); {
		key := string(it.Key())
		sorted = append(sorted, all[slices.IndexFunc(all, func(x T) bool { return name(x) == key })])
	}
	return sorted
}
