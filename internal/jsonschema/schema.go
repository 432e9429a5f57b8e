package jsonschema

import (
	"sync"

	"github.com/helmkernel/helm/crypto"
)

const (
	maxSchemas = 10_000  // schemas and required names, after $ref is expanded
	maxNesting = 64      // of schemas, after $ref is expanded
	maxPattern = 1 << 10 // bytes
	maxEnum    = 10_000  // values
	maxFilled  = 1 << 20 // bytes that defaults fill in, at compile time all together, later each time; arguments may not be longer
)

// Schema is a compiled schema. It is immutable, and safe for concurrent use by multiple goroutines. A nil or zero Schema allows nothing.
type Schema struct {
	root    *node
	filler  *filler   // nil where no default is
	scratch sync.Pool // of *scratch
}

// A node is one schema. What a $ref leads to is compiled once, so nodes form a graph without cycles, the implied elements apart.
type node struct {
	at    string // where it stands in the document, as a JSON Pointer
	types Types  // that the keyword type allows; number sets the bit of integer too
	may   Types  // that enum, const, $ref, anyOf and oneOf leave of them

	constant *set // nil, like each of the following, where the keywords are absent
	enum     *set
	number   *number
	text     *text
	array    *array
	object   *object
	all      []*node // what $ref leads to
	anyOf    []*node
	oneOf    []*node

	value     crypto.Value // the default
	defaultAt string       // where the first default in it stands, or ""
	size      int          // schemas and required names, expanded
	height    int          // of nesting, expanded
}

// Compile reads a schema. In a closed one, for the arguments of a tool, an absent additionalProperties means false; in an open one, for
// outputs, true. The error is a *[Error]. The Schema holds nothing of v.
func Compile(v crypto.Value, closed bool) (*Schema, error) {
	doc, tree := v.Append(nil), new(crypto.Tree)
	if err := tree.Parse(doc, crypto.Limits{Bytes: len(doc), Depth: crypto.MaxDepth}); err != nil {
		return nil, &Error{"", "there is no schema", "write an object"}
	}
	c := compiler{
		doc: tree.Root(), closed: closed, anything: newAnything(),
		nodes: make(map[key]*node), patterns: make(map[string]*pattern), sets: make(map[string]*set),
	}
	s := c.compile()
	if c.err != nil {
		return nil, c.err
	}
	return s, nil
}

// Error says why a schema is refused.
type Error struct {
	Pointer string // into the schema
	What    string
	Remedy  string
}

func (e *Error) Error() string {
	at := e.Pointer
	if at == "" {
		at = "the root"
	}
	return "jsonschema: " + at + ": " + e.What + "; " + e.Remedy
}

// Violation is the first demand of a schema that a value does not meet. It never holds a value, nor a name that the schema does not.
type Violation struct {
	Pointer    string // of the value; of the object, where a member is missing or not declared
	Constraint string // what the schema demands, such as "maxLength: 140"
}

func (v *Violation) String() string { return v.Pointer + ": " + v.Constraint }
