package jsonschema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// violation returns the violation that a walk recorded.
func (w *walk) violation() *Violation {
	var pointer string
	for i := len(w.path) - 1; i >= 0; i-- {
		if s := w.path[i]; s.index < 0 {
			pointer = join(pointer, s.name)
		} else {
			pointer = join(pointer, strconv.Itoa(s.index))
		}
	}
	return &Violation{pointer, w.keyword + ": " + w.node.demand(w.keyword, w.name)}
}

// demand returns the constraint of a keyword of n.
func (n *node) demand(keyword, name string) string {
	switch keyword {
	case "type":
		return n.types.String()
	case "const":
		return n.constant.list()
	case "enum":
		return "one of " + n.enum.list()
	case "minimum":
		return float(n.number.min)
	case "maximum":
		return float(n.number.max)
	case "exclusiveMinimum":
		return float(n.number.above)
	case "exclusiveMaximum":
		return float(n.number.below)
	case "multipleOf":
		d := n.number.multiple
		f, _ := strconv.ParseFloat(strconv.FormatUint(d.digits, 10)+"e"+strconv.Itoa(d.exp), 64)
		return float(f) // exact, since the text was a double
	case "minLength":
		return strconv.FormatUint(n.text.min, 10)
	case "maxLength":
		return strconv.FormatUint(n.text.max, 10)
	case "pattern":
		return plain(n.text.pattern.re.String())
	case "minItems":
		return strconv.FormatUint(n.array.min, 10)
	case "maxItems":
		return strconv.FormatUint(n.array.max, 10)
	case "uniqueItems":
		return "no element twice"
	case "required":
		return label(name)
	case "additionalProperties":
		return n.object.list(name)
	case "dependentRequired":
		return n.object.dependsOn(name)
	case "propertyNames":
		return n.object.names.list()
	case "minProperties":
		return strconv.FormatUint(n.object.min, 10)
	case "maxProperties":
		return strconv.FormatUint(n.object.max, 10)
	case "anyOf":
		return "at least one of " + strconv.Itoa(len(n.anyOf)) + " schemas"
	}
	return "exactly one of " + strconv.Itoa(len(n.oneOf)) + " schemas" // oneOf
}

func float(f float64) string { return string(crypto.AppendFloat(nil, f)) }

// Limits of messages, which only need to help correct a call.
const (
	maxListed = 20  // values or names
	maxShown  = 400 // bytes of values or names
)

// list returns the declared members, and the one that is not allowed unless that is "".
func (o *object) list(extra string) string {
	var names []string
	for _, m := range o.members {
		if m.schema != nil {
			names = append(names, label(m.name))
		}
	}
	if len(names) == 0 && extra == "" {
		return "no members are allowed"
	}
	if len(names) == 0 {
		return extra + " is not allowed, and no member is"
	}
	if extra != "" {
		extra += " is "
	}
	return extra + "not allowed beside " + abridge(names, len(names))
}

// dependsOn says which members need one that is missing.
func (o *object) dependsOn(missing string) string {
	var names []string
	for _, d := range o.dependent {
		if slices.Contains(d.needs, missing) {
			names = append(names, label(d.name))
		}
	}
	return label(missing) + " with " + abridge(names, len(names))
}

func (s *set) list() string {
	var texts []string
	for _, v := range s.values[:min(len(s.values), maxListed+1)] {
		text := plain(string(v.Append(nil)))
		if len(text) > maxShown/2 {
			text = "a value of " + strconv.Itoa(len(text)) + " bytes"
		}
		texts = append(texts, text)
	}
	return abridge(texts, len(s.values))
}

// abridge lists the first items and the number of the others.
func abridge(items []string, all int) string {
	var b strings.Builder
	for i, s := range items {
		if i == maxListed || b.Len()+len(s) > maxShown {
			return b.String() + " and " + strconv.Itoa(all-i) + " more"
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(s)
	}
	return b.String()
}
