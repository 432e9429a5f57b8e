package guardian

import (
	"slices"
	"strings"
)

var (
	combinators = []string{"all", "any", "not"}
	quantifiers = []string{"every", "some", "count"}
)

// foreign are words of other policy languages and of query languages, and what they are here; without - and _, in lower case.
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

// offer lists what may stand in a predicate that is not yet one: the operators of its subject, or else all that one can start with.
func (c *compiler) offer(p part, direct bool) []string {
	operators := slices.DeleteFunc(slices.Clone(operatorNames), func(name string) bool { return name == "has" }) // that is for roles
	switch {
	case p.has("caller"):
		return append(slices.Clone(callerTests), "has")
	case p.has("time"):
		return []string{"in"}
	case p.has("arg"), p.has("item"):
		return operators
	case direct:
		return slices.Concat(operators, combinators, subjectKeys)
	case c.in != nil:
		return slices.Concat(combinators, subjectKeys)
	}
	return slices.Concat(combinators, quantifiers, []string{"arg", "caller", "session", "time", "receipt"})
}

// suggest says what was expected in place of a key of a predicate.
func suggest(key string, known, offer []string) string {
	if word := foreign[strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))]; word != "" {
		return "did you mean " + word + "?"
	}
	for _, k := range slices.Concat(known, combinators, quantifiers, []string{"that", "session", "receipt"}) {
		if near(key, k) {
			return "did you mean " + k + "?"
		}
	}
	return "write one of " + strings.Join(offer, ", ")
}
