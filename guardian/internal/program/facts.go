package program

import (
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// maxPlainFact is the most bytes of the canonical text of a value, without quotes.
const maxPlainFact = 256

// A Fact is what a tool declares of its output.
type Fact struct {
	Name    string
	Key     string   // of facts documents
	Path    []string // into the output
	Count   bool     // it is the number of elements of the array there
	Text    bool     // its values are texts that others are looked for in
	Vouches bool     // it may be a source
	Many    bool     // it may have more than one value
	Lacking bool     // it may have none
	Types   jsonschema.Types
}

// Facts are those of a tool, in the canonical order of their keys.
type Facts struct {
	List     []Fact
	Asked    bool // as sources, by a document of the stack that was compiled
	declared *past.Declaration
}

// Declared returns what the tool declares of its facts, as sources.
func (x *Facts) Declared() *past.Declaration { return x.declared }

// Declare ends the reading of a tool's facts.
func (x *Facts) Declare() {
	var list []past.Fact
	for i := range x.List {
		if f := &x.List[i]; !f.Count {
			list = append(list, past.Fact{Key: f.Key, Text: f.Text, Vouches: f.Vouches})
		}
	}
	x.declared = past.NewDeclaration(list)
}

// Source returns a fact of the tool as a source.
func (x *Facts) Source(tool string, f *Fact) Source {
	return Source{tool + "#" + f.Name, past.Source{Tool: tool, Fact: f.Key, Declared: x.declared}}
}

// Named returns a fact, or nil.
func (x *Facts) Named(name string) *Fact {
	if x == nil {
		return nil
	}
	for i := range x.List {
		if x.List[i].Name == name {
			return &x.List[i]
		}
	}
	return nil
}

// Append appends the facts document of an output. A fact that would bring it over its limit, if
// every later one were null, is null.
func (x *Facts) Append(dst []byte, output crypto.Value) []byte {
	from, nulls := len(dst), 0
	for i := range x.List {
		nulls += len(crypto.AppendString(nil, x.List[i].Key)) + len(":null,")
	}
	dst = append(dst, '{')
	for i := range x.List {
		f := &x.List[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		start := len(dst)
		dst = append(crypto.AppendString(dst, f.Key), ':')
		nulls -= len(dst) - start + len("null,")
		most := contracts.MaxFacts - nulls - len("}") // for the document up to here
		start = len(dst)
		var ok bool
		if dst, ok = f.append(dst, output, from+most); !ok {
			dst = append(dst[:start], "null"...)
		}
	}
	return append(dst, '}')
}

// Check reports whether a facts document may be that of an output: all facts are there and no
// other, and each is null, or has values of its types that are within their limits.
func (x *Facts) Check(document crypto.Value) bool {
	if document.Len() != len(x.List) {
		return false
	}
	for i := range x.List {
		f := &x.List[i]
		values := document.Get(f.Key)
		if values.Kind() != crypto.Null && (values.Kind() != crypto.Array || !f.may(values)) {
			return false
		}
	}
	return true
}

// may reports whether these may be the values of a fact.
func (f *Fact) may(values crypto.Value) bool {
	n := values.Len()
	if n > contracts.MaxFactValues || !f.Many && (n > 1 || n == 0 && !f.Lacking) {
		return false
	}
	for v := range values.Elements() {
		var is jsonschema.Types
		switch v.Kind() {
		case crypto.String:
			is = jsonschema.TypeString
		case crypto.Number:
			is = jsonschema.TypeNumber | jsonschema.TypeInteger
		case crypto.Bool:
			is = jsonschema.TypeBoolean
		}
		if f.Types&is == 0 || f.tooLong(v) {
			return false
		}
	}
	return true
}

// append appends the values of a fact, and reports whether they are within their limits and end
// before the byte end.
func (f *Fact) append(dst []byte, output crypto.Value, end int) ([]byte, bool) {
	x := extract{fact: f, dst: append(dst, '['), end: end}
	ok := x.values(output, f.Path)
	if x.n > 0 {
		x.dst = x.dst[:len(x.dst)-1]
	}
	x.dst = append(x.dst, ']')
	return x.dst, ok && len(x.dst) <= end
}

// An extract is the values of a fact so far, each before a comma.
type extract struct {
	fact *Fact
	dst  []byte
	end  int
	n    int
}

// values appends the values at a pointer. Those that are missing or null are left out.
func (x *extract) values(v crypto.Value, path []string) bool {
	for i, seg := range path {
		if seg != value.Star {
			v = value.Follow(v, path[i:i+1])
			continue
		}
		for it := v.Iter(); it.Next(); {
			if !x.values(it.Value(), path[i+1:]) {
				return false
			}
		}
		return true
	}
	switch kind := v.Kind(); {
	case x.fact.Count && kind == crypto.Array:
		x.dst = strconv.AppendInt(x.dst, int64(v.Len()), 10)
	case x.fact.Count || !v.Exists() || kind >= crypto.Array:
		return true
	case x.fact.tooLong(v):
		return false
	default:
		x.dst = append(x.dst, v.Raw()...)
	}
	x.n++
	x.dst = append(x.dst, ',')
	return x.n <= contracts.MaxFactValues && len(x.dst) <= x.end
}

func (f *Fact) tooLong(v crypto.Value) bool {
	switch {
	case v.Kind() != crypto.String:
		return len(v.Raw()) > maxPlainFact
	case f.Text:
		return len(v.Bytes()) > contracts.MaxFactText
	}
	return len(v.Raw())-len(`""`) > maxPlainFact
}
