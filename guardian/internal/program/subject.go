package program

// An Origin says where a subject is looked up.
type Origin uint8

// Where a subject is looked up.
const (
	FromArgs    Origin = iota // below the arguments
	FromElement               // below the element that a quantifier has come to
	FromID                    // the caller's id
	FromTenant                // the caller's tenant
	FromFact                  // the facts of the receipt that is asked for
)

// A Reading is what an operator needs to know of a value.
type Reading uint8

// How a value is read.
const (
	AsValue     Reading = iota // its type and canonical text
	AsNumber                   // a double
	AsText                     // the content of a string
	AsPath                     // an absolute path
	AsURL                      // a location
	AsHost                     // a host
	AsEmail                    // an address and its domain
	AsIP                       // an IP address
	AsMoment                   // a time
	AsElement                  // an array, to walk through
	AsMembers                  // an array or a map, to walk through
	AsWhole                    // a value with its type and canonical text, to ask sources for
	AsSet                      // all values of a fact
	AsFoldedSet                // the same, letters of ASCII in both cases equal
)

// A Subject is one value read in one way. All predicates of a tool that look at the same subject
// share a slot.
type Subject struct {
	From    Origin
	As      Reading
	Path    []string // decoded segments; of a fact, its name
	Pointer string   // for people; of a fact, its key in facts documents
}

// A subjectKey tells the subjects of a shape apart.
type subjectKey struct {
	from    Origin
	as      Reading
	pointer string
}

func (s *Subject) key() subjectKey { return subjectKey{s.From, s.As, s.Pointer} }
