package compile

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
)

const (
	numeric = jsonschema.TypeNumber | jsonschema.TypeInteger
	textual = jsonschema.TypeString
	scalar  = textual | numeric | jsonschema.TypeBoolean
	anyType = scalar | jsonschema.TypeArray | jsonschema.TypeObject
)

// An operator of the table in docs/POLICY.md, section 2.
type operator struct {
	name  string
	op    program.Op
	takes jsonschema.Types // of the value; a constant operand narrows it to its own type
	as    program.Reading
	folds bool
}

var operators = []operator{
	{"eq", program.OpEq, scalar, program.AsValue, true},
	{"ne", program.OpNe, scalar, program.AsValue, true},
	{"in", program.OpIn, textual | numeric, program.AsValue, true},
	{"not_in", program.OpNotIn, textual | numeric, program.AsValue, true},
	{"lt", program.OpLt, numeric, program.AsNumber, false},
	{"le", program.OpLe, numeric, program.AsNumber, false},
	{"gt", program.OpGt, numeric, program.AsNumber, false},
	{"ge", program.OpGe, numeric, program.AsNumber, false},
	{"prefix", program.OpPrefix, textual, program.AsText, true},
	{"suffix", program.OpSuffix, textual, program.AsText, true},
	{"regex", program.OpMatch, textual, program.AsText, false},
	{"finds", program.OpMatch, textual, program.AsText, false},
	{"within", program.OpWithin, textual, program.AsPath, false},
	{"url", program.OpURL, textual, program.AsURL, false},
	{"host", program.OpHost, textual, program.AsHost, false},
	{"email", program.OpEmail, textual, program.AsEmail, false},
	{"cidr", program.OpCIDR, textual, program.AsIP, false},
	{"age_le", program.OpAge, textual, program.AsMoment, false},
	{"type", program.OpType, anyType, program.AsValue, false},
	{"exists", program.OpExists, anyType, program.AsValue, false},
	{"has", program.OpHas, 0, program.AsValue, false},
	{"from", program.OpFrom, textual | numeric, program.AsWhole, false},
}

var (
	combinators = grammar.Combinators
	quantifiers = grammar.Quantifiers
	comparisons = grammar.Comparisons
	subjectKeys = grammar.Subjects
	callerTests = []string{"eq", "ne", "in", "not_in", "prefix"} // of its id and tenant
	scopeTests  = grammar.ScopeTests
)

func operatorNamed(name string) operator {
	for _, o := range operators {
		if o.name == name {
			return o
		}
	}
	return operator{}
}

var operatorNames = grammar.Operators

const factKey = "fact"

// leafKeys are those that a predicate with a subject may have.
var leafKeys = grammar.Leaf

// predicateKeys are those of all forms of a predicate.
var predicateKeys = grammar.Predicate

// foreign are words of other policy and query languages, in lower case without - and _, and the
// words for them here.
var foreign = map[string]string{
	"and": "all", "allof": "all", "or": "any", "anyof": "any",
	"equals": "eq", "equal": "eq", "is": "eq", "=": "eq", "==": "eq",
	"notequals": "ne", "notequal": "ne", "neq": "ne", "isnot": "ne", "!=": "ne",
	"oneof": "in", "notin": "not_in", "nin": "not_in", "noneof": "not_in",
	"lessthan": "lt", "<": "lt", "lte": "le", "max": "le", "maximum": "le", "<=": "le",
	"greaterthan": "gt", ">": "gt", "gte": "ge", "min": "ge", "minimum": "ge", ">=": "ge",
	"startswith": "prefix", "endswith": "suffix",
	"matches": "regex", "match": "regex", "pattern": "regex", "like": "regex",
	"contains": "finds", "includes": "finds", "search": "finds",
	"under": "within", "domain": "host", "present": "exists", "len": "count", "length": "count", "forall": "every",
}

// suggest says what was expected in place of a key of a predicate.
func suggest(key string, known, offer []string) string {
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
	if word := foreign[plain]; word != "" {
		return "did you mean " + word + "?"
	}
	for _, k := range slices.Concat(known, combinators, quantifiers, []string{"that", "session", "receipt"}) {
		if near(key, k) {
			return "did you mean " + k + "?"
		}
	}
	return "write one of " + strings.Join(offer, ", ")
}
