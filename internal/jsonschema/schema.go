package jsonschema

import (
	"sync"

	"github.com/helmkernel/helm/crypto"
)

const (
	maxSchemas = 10_000  // schemas and required names, after $ref is expanded
	maxNesting = 64      // nesting of schemas, after $ref is expanded
	maxPattern = 1 << 10 // bytes
	maxEnum    = 10_000  // values
	// bytes that defaults fill in: in all at compile time, and each time later; arguments may not
	// be longer
	maxFilled = 1 << 20
)

// Schema is a compiled schema. It is immutable and safe for concurrent use by multiple goroutines.
// A nil or zero Schema allows nothing.
type Schema struct {
	root    *node
	closed  bool
	filler  *filler   // nil if there are no defaults
	scratch sync.Pool // of *scratch
}

// A node is one schema at one kind of place. The target of a $ref is compiled once for each kind,
// so nodes form a graph. It has no cycles.
type node struct {
	at    string // position in the document, as a JSON Pointer
	open  bool   // of a closed schema: the values are at, or below, a pointer that is open
	types Types  // allowed by the keyword type; number sets the bit of integer too
	may   Types  // the ones that enum, const, $ref, anyOf and oneOf leave

	constant *set // nil, like each field below, if the keywords are absent
	enum     *set
	number   *number
	text     *text
	array    *array
	object   *object
	all      []*node // the schema that $ref leads to
	anyOf    []*node
	oneOf    []*node
	composed bool // of one of these three; in a schema that is validated against

	value     crypto.Value // the default
	defaultAt string       // position of the first default in it, or ""
	size      int          // number of schemas and required names, expanded
	height    int          // depth of nesting, expanded
}

// Compile compiles a schema. In a closed schema, for the arguments of a tool, an absent
// additionalProperties means false; in an open one, for outputs, true. From each of the open
// pointers down a closed schema is an open one: see section Closed schemas. That an open pointer
// names anything is for the caller to check, by [Schema.Lookup]. The error is a *[Error]. The
// Schema keeps no reference to v.
func Compile(v crypto.Value, closed bool, open ...[]string) (*Schema, error) {
	doc, tree := v.Append(nil), new(crypto.Tree)
	if err := tree.Parse(doc, crypto.Limits{Bytes: len(doc), Depth: crypto.MaxDepth}); err != nil {
		return nil, &Error{"", "there is no schema", "write an object"}
	}
	c := compiler{
		doc: tree.Root(), closed: closed,
		nodes: make(map[key]*node), patterns: make(map[string]*expression), sets: make(map[string]*set),
	}
	s := c.compile(open)
	if c.err != nil {
		return nil, c.err
	}
	return s, nil
}

// Error says why Compile refused a schema.
type Error struct {
	Pointer string // into the schema
	What    string
	Remedy  string
}

// Error returns "jsonschema: pointer: what; remedy".
func (e *Error) Error() string {
	at := e.Pointer
	if at == "" {
		at = "the root"
	}
	return "jsonschema: " + at + ": " + e.What + "; " + e.Remedy
}

// Violation is the first constraint of a schema that a value violates. It never contains a value.
// Of the names that are not in the schema it contains only those of a closed schema's values that
// are 1 to 64 of A-Z a-z 0-9 _ . -; others stand as * in a pointer.
type Violation struct {
	Pointer    string // of the value; if a member is missing or not declared, of the object
	Constraint string // the constraint, such as "maxLength: 140"
}

// String returns "pointer: constraint".
func (v *Violation) String() string { return v.Pointer + ": " + v.Constraint }
