package guardian

import (
	"slices"

	"github.com/helmkernel/helm/internal/jsonschema"
)

const (
	numeric = jsonschema.TypeNumber | jsonschema.TypeInteger
	textual = jsonschema.TypeString
	anyType = textual | numeric | jsonschema.TypeBoolean | jsonschema.TypeArray | jsonschema.TypeObject
)

// An operator of the table in docs/POLICY.md, section 2.
type operator struct {
	name  string
	op    op
	takes jsonschema.Types // of the value; with a constant, its type counts
	as    reading
	folds bool
}

var operators = []operator{
	{"eq", opEq, textual | numeric | jsonschema.TypeBoolean, asValue, true},
	{"ne", opNe, textual | numeric | jsonschema.TypeBoolean, asValue, true},
	{"in", opIn, textual | numeric, asValue, true},
	{"not_in", opNotIn, textual | numeric, asValue, true},
	{"lt", opLt, numeric, asNumber, false},
	{"le", opLe, numeric, asNumber, false},
	{"gt", opGt, numeric, asNumber, false},
	{"ge", opGe, numeric, asNumber, false},
	{"prefix", opPrefix, textual, asText, true},
	{"suffix", opSuffix, textual, asText, true},
	{"regex", opMatch, textual, asText, false},
	{"finds", opMatch, textual, asText, false},
	{"within", opWithin, textual, asPath, false},
	{"url", opURL, textual, asURL, false},
	{"host", opHost, textual, asHost, false},
	{"email", opEmail, textual, asEmail, false},
	{"cidr", opCIDR, textual, asIP, false},
	{"age_le", opAge, textual, asMoment, false},
	{"type", opType, anyType, asValue, false},
	{"exists", opExists, anyType, asValue, false},
	{"has", opHas, 0, asValue, false},
}

var (
	subjectKeys = []string{"arg", "item", "caller", "time"}
	leafLater   = []string{"fact", "from"}
	callerTests = []string{"eq", "ne", "in", "not_in", "prefix"} // of its id and tenant
)

func operatorNamed(name string) operator {
	for _, o := range operators {
		if o.name == name {
			return o
		}
	}
	return operator{}
}

var operatorNames = func() (names []string) {
	for _, o := range operators {
		names = append(names, o.name)
	}
	return names
}()

// leafKeys are those that a predicate with a subject may have.
var leafKeys = slices.Concat(subjectKeys, operatorNames, []string{"absent", "fold"})
