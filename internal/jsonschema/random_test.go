package jsonschema

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
)

// random makes schemas of the subset and values that are often, not always, valid. Everything is a
// Go value as encoding/json has it.
type random struct {
	*rand.Rand
	defs   []string // names in $defs that a schema may refer to
	closed bool     // leave out keywords that only an open schema may have
	branch int      // how many anyOf and oneOf are around
}

type mapping = map[string]any

// Names in canonical order are not in the order of their bytes: the last two.
var randomNames = []string{"a", "b", "ab", "c", "Z9", "é", "a/b", "x~y", "q\"", "\n", "😀", "\uFB33"}

var randomTypes = []string{"string", "number", "integer", "boolean", "null", "array", "object"}

func pick[T any](r *random, from ...T) T { return from[r.IntN(len(from))] }

func (r *random) chance(percent int) bool { return r.IntN(100) < percent }

// document is a whole schema, with $defs each of which refers to earlier ones only.
func (r *random) document(root string) mapping {
	defs := mapping{}
	r.defs = nil
	for i := range r.IntN(3) {
		name := pick(r, "d", "é", "a/b", "%", "x~y") + strconv.Itoa(i)
		defs[name] = r.schema(2)
		r.defs = append(r.defs, name)
	}
	s := r.typed(root, 3)
	if len(defs) > 0 {
		s["$defs"] = defs
	}
	return s
}

func (r *random) schema(depth int) mapping {
	if !r.closed && r.chance(5) {
		return mapping{}
	}
	types := randomTypes
	if depth == 0 {
		types = randomTypes[:5]
	}
	return r.typed(pick(r, types...), depth)
}

// typed makes a schema for values of one type; the keyword type itself may be left out of an open
// one.
func (r *random) typed(t string, depth int) mapping {
	s := mapping{}
	switch {
	case r.closed && t == "object" || r.chance(70):
		s["type"] = t
	case t != "null" && r.chance(50):
		s["type"] = []any{t, "null"}
		if r.chance(50) {
			s["type"] = []any{"null", t}
		}
	case r.closed:
		s["type"] = t
	}
	if _, one := s["type"].(string); one && depth < 3 && r.chance(10) && t != "string" && t != "null" {
		s["type"] = []any{t, "string", "null"}[:2+r.IntN(2)]
	}
	switch t {
	case "string":
		r.strings(s)
	case "number", "integer":
		r.numbers(s)
	case "array":
		r.arrays(s, depth)
	case "object":
		r.objects(s, depth)
	case "boolean":
		if r.chance(20) {
			s["const"] = r.chance(50)
		}
	}
	if r.chance(8) {
		s["enum"] = r.values(s, 1+r.IntN(12))
	}
	if r.chance(5) {
		s["const"] = r.value(s, 2)
	}
	if depth > 0 && r.chance(12) && !(r.closed && t == "object") {
		s[pick(r, "anyOf", "oneOf")] = r.branches(t, depth)
	}
	if len(r.defs) > 0 && r.chance(10) && !(r.closed && t == "object") {
		s["$ref"] = "#/$defs/" + refEscape(pick(r, r.defs...))
	}
	if r.branch == 0 && r.chance(20) {
		s["default"] = r.value(s, 2)
	}
	if r.chance(5) {
		s[pick(r, "title", "description", "$comment", "format")] = "email"
	}
	return s
}

// refEscape writes a name into the fragment of a $ref.
func refEscape(name string) string {
	var out []byte
	for _, c := range []byte(name) {
		switch {
		case c == '~':
			out = append(out, "~0"...)
		case c == '/':
			out = append(out, "~1"...)
		case c == '%' || c >= 0x80:
			out = append(out, '%', "0123456789ABCDEF"[c>>4], "0123456789abcdef"[c&15])
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

func (r *random) branches(t string, depth int) (list []any) {
	r.branch++
	for range 1 + r.IntN(3) {
		switch {
		case r.chance(50):
			list = append(list, any(r.typed(t, depth-1)))
		case r.closed:
			list = append(list, any(r.schema(depth-1)))
		default:
			list = append(list, any(mapping{"required": []any{pick(r, randomNames...)}}))
		}
	}
	r.branch--
	return list
}

var randomPatterns = []string{
	"^a+$", "^[ab]{1,3}$", "b", "^[a-c]*[0-9]$", "^\\d{1,2}[.]?[a-z]+$", "^(a|b)", "é", "^[^a]$", "^$", "x|^a",
	"[\\n\\t]", "(?i)^A", "^[ab]+b$", "^é+$",
}

var randomStrings = []string{"", "a", "ab", "aab", "b", "7", "a7", "12.x", "é", "éé", "😀", "a\nb", "\t", "\u0001", "\\",
	"\"", "x", "caab", "A", "a\u001fb"}

func (r *random) strings(s mapping) {
	lo := r.IntN(3)
	if r.chance(25) {
		s["minLength"] = lo
	}
	if r.chance(25) {
		s["maxLength"] = lo + r.IntN(3)
	}
	if r.chance(35) {
		s["pattern"] = pick(r, randomPatterns...)
	}
}

var randomNumbers = []json.Number{
	"0", "1", "2", "-1", "3", "4.35", "0.01", "0.1", "100", "-2.5", "1e21", "1e-7", "1.5e300", "9007199254740992",
	"0.3", "12", "-0.07",
}

func (r *random) numbers(s mapping) {
	lo, hi := r.IntN(5)-2, r.IntN(5)+3
	if r.chance(25) {
		s[pick(r, "minimum", "exclusiveMinimum")] = lo
	}
	if r.chance(25) {
		s[pick(r, "maximum", "exclusiveMaximum")] = hi
	}
	if r.chance(25) {
		s["multipleOf"] = pick[json.Number](r, "1", "2", "0.01", "0.1", "1e-7", "3", "2.5", "1e21", "7e5")
	}
}

func (r *random) arrays(s mapping, depth int) {
	lo := r.IntN(3)
	if r.chance(25) {
		s["minItems"] = lo
	}
	if r.chance(25) {
		s["maxItems"] = lo + r.IntN(12)
	}
	if r.chance(35) {
		s["uniqueItems"] = r.chance(90)
	}
	if r.closed || r.chance(75) {
		s["items"] = r.schema(depth - 1)
	}
}

func (r *random) objects(s mapping, depth int) {
	properties := mapping{}
	names := slices.Clone(randomNames)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:r.IntN(6)]
	for _, name := range names {
		properties[name] = r.schema(depth - 1)
	}
	s["properties"] = properties
	switch {
	case depth > 0 && r.chance(20):
		s["additionalProperties"] = r.schema(depth - 1)
	case r.chance(40), r.closed && len(names) == 0:
		s["additionalProperties"] = false
	case !r.closed && r.chance(10):
		s["additionalProperties"] = true
	}
	r.bounds(s, names)
	if r.chance(60) {
		required := []any{}
		for _, name := range names {
			if r.chance(40) {
				required = append(required, name)
			}
		}
		if ap := s["additionalProperties"]; ap != false && (ap != nil || !r.closed) && r.chance(30) {
			required = append(required, "undeclared")
		}
		s["required"] = required
	}
}

// bounds adds keywords about the number of members, their names, and what they depend on.
func (r *random) bounds(s mapping, names []string) {
	if r.chance(10) {
		s["minProperties"] = r.IntN(len(names) + 1)
	}
	if r.chance(10) {
		s["maxProperties"] = len(names) + r.IntN(3)
	}
	if r.chance(10) {
		s["propertyNames"] = pick(r, mapping{"maxLength": 2}, mapping{"pattern": "^[^~]"}, mapping{"minLength": 1},
			mapping{"type": "string", "enum": []any{"a", "b", "ab", "é", "undeclared", 1}})
	}
	if len(names) > 1 && r.chance(15) {
		s["dependentRequired"] = mapping{names[0]: []any{names[1]}, names[1]: []any{}}
	}
}

func (r *random) values(s mapping, n int) (list []any) {
	var seen []string
	for range n {
		v := r.value(s, 1)
		text, _ := json.Marshal(v)
		if !slices.Contains(seen, string(text)) {
			list, seen = append(list, v), append(seen, string(text))
		}
	}
	return list
}

// value makes a value that a schema might allow.
func (r *random) value(s mapping, depth int) any {
	if r.chance(8) {
		s = mapping{}
	}
	if list, ok := s["enum"].([]any); ok && r.chance(70) {
		return pick(r, list...)
	}
	if v, ok := s["const"]; ok && r.chance(70) {
		return v
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := s[keyword].([]any); ok && r.chance(50) {
			return r.value(pick(r, list...).(mapping), depth)
		}
	}
	t := pick(r, randomTypes...)
	switch x := s["type"].(type) {
	case string:
		t = x
	case []any:
		t = pick(r, x...).(string)
	default:
		if s["properties"] != nil {
			t = "object"
		} else if s["items"] != nil {
			t = "array"
		}
	}
	if depth < 0 && (t == "array" || t == "object") {
		t = "null"
	}
	switch t {
	case "string":
		return pick(r, randomStrings...)
	case "number":
		return pick(r, randomNumbers...)
	case "integer":
		return r.IntN(8) - 2
	case "boolean":
		return r.chance(50)
	case "array":
		items, _ := s["items"].(mapping)
		list := []any{}
		for range r.IntN(4) * (1 + r.IntN(4)) {
			list = append(list, r.value(items, depth-1))
		}
		return list
	case "object":
		return r.members(s, depth)
	}
	return nil
}

func (r *random) members(s mapping, depth int) any {
	properties, _ := s["properties"].(mapping)
	required, _ := s["required"].([]any)
	m := mapping{}
	for _, name := range sortedKeys(properties) {
		if slices.Contains(required, any(name)) && r.chance(97) || r.chance(40) {
			m[name] = r.value(properties[name].(mapping), depth-1)
		}
	}
	if slices.Contains(required, any("undeclared")) && r.chance(80) {
		m["undeclared"] = r.value(nil, 0)
	}
	if r.chance(8) {
		m[pick(r, randomNames...)] = r.value(nil, 0)
	}
	if rest, ok := s["additionalProperties"].(mapping); ok {
		for range r.IntN(3) {
			if name := pick(r, randomNames...); properties[name] == nil {
				m[name] = r.value(rest, depth-1)
			}
		}
	}
	return m
}

func sortedKeys(m mapping) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// text writes JSON with the keys of objects in some order.
func (r *random) text(v any) []byte {
	switch v := v.(type) {
	case []any:
		out := []byte{'['}
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, r.text(e)...)
		}
		return append(out, ']')
	case mapping:
		out := []byte{'{'}
		keys := sortedKeys(v)
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i, k := range keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, r.text(k)...), ':'), r.text(v[k])...)
		}
		return append(out, '}')
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}
