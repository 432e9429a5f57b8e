package program

import (
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A Tool is what one bundle declares of it, and what each document of the stack says of it.
type Tool struct {
	Name    string
	Effect  contracts.EffectType
	Risk    contracts.Risk
	Surface Surface
	Driver  Driver
	Limits  Limits // the lower of its own and the ceilings'
	Ceilings
	*Shape
	Output    Output
	Digest    contracts.Digest // of its declaration in the bundle
	Excluded  Exclusion
	Gates     []Gate // nil: its arguments are not scanned
	ScopeRule string // that a false entry of scope denies with
	Expiry    Expiry // of the bundle
	Rules     []Rule // of the bundle
	Overlays  []Clause
	Floors    []Clause
	Requires  []*Requirement
	Budgets   []Budget
	Compared  [][]string // pointers by which later calls, of any tool, are compared with this one's
}

// Ceilings are what floors say of the arguments of a tool, apart from its limits.
type Ceilings struct {
	Depth   int    // of the arguments; 0: as deep as any may be
	DepthBy string // the prefix of the rules of the floor that says so
	ArgsBy  string // likewise of the size in the limits; "": the tool itself does
}

// More is what overlays say of a tool with which a stack was narrowed, after all that its documents
// said before. The tools of that stack are not touched, since many stacks share them.
type More struct {
	Overlays []Clause
	Requires []*Requirement
	Budgets  []Budget
	Compared [][]string
	Subjects []Subject // of the tool, and then what the overlays look at, too; nil: those of the tool
}

// An Output is what is declared of what the tool says.
type Output struct {
	Schema  *jsonschema.Schema // nil: any
	Facts   *Facts             // nil: it declares none
	Trusted bool               // it does not taint
	Labels  []string           // that a session carries after it; sorted
	Given   []Given            // by the signals in it; nil: it is not scanned
}

// A Surface is what documents select tools by, apart from name and effect.
type Surface struct {
	Connector string
	Egress    bool
}

// A Driver is what the driver of a tool must declare.
type Driver struct {
	Demands    Demands          // of its sandbox, in stack order
	Definition contracts.Digest // zero: any
}

// An Exclusion says why a profile permits no call of a tool. The zero Exclusion is none.
type Exclusion struct {
	Reason contracts.ReasonCode
	What   string
}

// An Expiry is when a document expires. The zero Expiry is never.
type Expiry struct {
	At   contracts.Time
	Rule string // that the expired document denies with
}

// Passed reports whether the document has expired at t.
func (x *Expiry) Passed(t contracts.Time) bool { return x.At != 0 && t >= x.At }

// Limits are what one run of a tool may take.
type Limits struct {
	Args    int // bytes of the canonical arguments
	Output  int // bytes of the output
	Timeout time.Duration
}

// MaxArgs is the most bytes that canonical arguments of any call have.
const MaxArgs = 1 << 20

// Lower returns the lower of both, limit by limit.
func (x Limits) Lower(y Limits) Limits {
	return Limits{min(x.Args, y.Args), min(x.Output, y.Output), min(x.Timeout, y.Timeout)}
}

// A Shape is what predicates see of a tool. Tools of a bundle share a shape if the texts of their
// input and scope are equal: what is said of all of them is read once, and what is looked at in
// every call stays in the processor's caches, however many tools there are.
type Shape struct {
	Input    *jsonschema.Schema
	Open     []string // pointers into the input from which it may be anything
	Scope    []Node
	Declared [][]string // pointers that scope declares as a path, URL, host or address
	Subjects []Subject

	slots map[subjectKey]int32 // of Subjects; nil when all are known
}

// Slot returns the slot of a subject, and adds the subject if it is new.
func (x *Shape) Slot(s Subject) int32 {
	if x.slots == nil {
		x.slots = map[subjectKey]int32{}
		for i := range x.Subjects {
			x.slots[x.Subjects[i].key()] = int32(i)
		}
	}
	key := s.key()
	if i, ok := x.slots[key]; ok {
		return i
	}
	i := int32(len(x.Subjects))
	x.slots[key] = i
	x.Subjects = append(x.Subjects, s)
	return i
}

// Seal drops what only Slot needs.
func (x *Shape) Seal() { x.slots = nil }
