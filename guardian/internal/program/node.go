package program

import (
	"math"
	"regexp"
	"time"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/past"
)

// An Answer is what a predicate evaluates to. Failed is an error: no not, any or all turns it into
// another answer.
type Answer int8

// Answers of a predicate.
const (
	No Answer = iota
	Yes
	Failed
)

// AnswerOf returns Yes or No.
func AnswerOf(b bool) Answer {
	if b {
		return Yes
	}
	return No
}

// An Op is what a node does. Those before OpHas have other nodes below them.
type Op uint8

// What a node does. Those from OpEq on look at a slot, OpHas to OpLabel at none.
const (
	OpAll Op = iota + 1
	OpAny
	OpNot
	OpEvery
	OpSome
	OpCount
	OpHas
	OpTime
	OpReceipt
	OpCalls
	OpTainted
	OpLabel
	OpEq
	OpNe
	OpIn
	OpNotIn
	OpLt
	OpLe
	OpGt
	OpGe
	OpPrefix
	OpSuffix
	OpMatch // regex and finds
	OpBelow // within one path
	OpWithin
	OpURL
	OpHost
	OpEmail
	OpCIDR
	OpAge
	OpType
	OpExists
	OpFrom
)

// A Node is one predicate, compiled for one tool. The zero Node answers Failed.
type Node struct {
	Op     Op
	Num    Op          // of OpCount and OpCalls: how to compare
	Absent Answer      // for a value that is missing; Failed if the schema says that it never is
	Fold   bool        // letters of ASCII are equal in both cases
	Flag   bool        // OpExists: must not exist; OpType: an integer; OpMatch: of a grant; OpTainted: must be
	Kind   crypto.Kind // of the operand
	Slot   int32       // of the subject; negative in an element
	Ref    int32       // slot of the operand; NoSlot if it is constant
	At     int32       // its place in the document; 0: in none
	Limit  float64     // number to compare with; of OpMatch: the steps of the pattern
	Text   string
	Kids   []Node // of OpReceipt: its that, if there is one
	More   *Operand
}

// NoSlot is the slot of a node that looks at none.
const NoSlot = math.MinInt32

// FactSlot returns the slot of a subject in [Operand.Facts].
func FactSlot(i int) int32 { return NoSlot + 1 + int32(i) }

// isFact reports whether a slot that is negative is one of facts, and not of an element.
func isFact(slot int32) bool { return slot < math.MinInt32/2 }

// Kinds is a set of kinds of scalars.
type Kinds uint8

// With returns the set with a kind.
func (x Kinds) With(k crypto.Kind) Kinds { return x | 1<<k }

func (x Kinds) has(k crypto.Kind) bool { return x>>k&1 != 0 }

// An Operand is what only some nodes need.
type Operand struct {
	Set      *value.Set
	Below    value.Subtrees
	Query    value.Subtrees // of OpURL: where a query is permitted
	Wild     *value.Set     // of OpHost: names of which only those strictly below match
	Networks value.Networks
	Pattern  *regexp.Regexp
	Age      time.Duration
	Week     *value.Week
	Prior    *Prior    // of OpReceipt, OpCalls
	Facts    []Subject // of OpReceipt: what its that looks at in the facts of the receipt
	Sources  []Source  // of OpFrom
	Kinds    Kinds     // of OpFrom, and of a set that is a fact: what the value may be
	Rest     []string  // of a quantifier: segments from the first star on
	Maps     []bool    // for each star of Rest: what comes next may be a map
	Inner    []Subject // of a quantifier: what its `that` looks at in the element
}

// A Prior is what a receipt predicate, or one over calls, asks of the session's past.
type Prior struct {
	Tool string  // "": every tool
	Same []Equal // in the canonical order of their names
}

// A Source is what a value may be from: the user, or a fact of a tool.
type Source struct {
	Name string // user, or tool#fact
	Ask  past.Source
}

// An Equal is a value that two calls must have in common.
type Equal struct {
	There string   // JSON Pointer into the arguments of the earlier call
	Name  []byte   // There in canonical form
	Here  []string // the value in the present call, as segments
}
