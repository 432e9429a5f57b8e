package program

// A Source says where a subject is looked up.
type Source uint8

// Where a subject is looked up.
const (
	FromArgs    Source = iota // below the arguments
	FromElement               // below the element that a quantifier has come to
	FromID                    // the caller's id
	FromTenant                // the caller's tenant
)

// A Reading is what an operator needs to know of a value.
type Reading uint8

// How a value is read.
const (
	AsValue   Reading = iota // its type and canonical text
	AsNumber                 // a double
	AsText                   // the content of a string
	AsPath                   // an absolute path
	AsURL                    // a location
	AsHost                   // a host
	AsEmail                  // an address and its domain
	AsIP                     // an IP address
	AsMoment                 // a time
	AsElement                // an array, to walk through
	AsMembers                // an array or a map, to walk through
)

// A Subject is one value read in one way. All predicates of a tool that look at the same subject
// share a slot.
type Subject struct {
	From    Source
	As      Reading
	Path    []string // decoded segments
	Pointer string   // for people
}

// A subjectKey tells the subjects of a shape apart.
type subjectKey struct {
	from    Source
	as      Reading
	pointer string
}

func (s *Subject) key() subjectKey { return subjectKey{s.From, s.As, s.Pointer} }
