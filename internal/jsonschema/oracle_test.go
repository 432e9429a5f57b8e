package jsonschema

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// compileBoth compiles a random schema with Compile and with the oracle, for which a closed schema
// gets additionalProperties false. A default that the schema does not allow is removed: other tests
// have those.
func compileBoth(t *testing.T, r *random, doc mapping) (*Schema, *santhosh.Schema) {
	t.Helper()
	var ours *Schema
	for ours == nil {
		s, err := Compile(parse(t, string(r.text(doc))), r.closed)
		var e *Error
		if errors.As(err, &e) && strings.HasSuffix(e.Pointer, "/default") {
			delete(follow(doc, strings.TrimSuffix(e.Pointer, "/default")), "default")
			continue
		}
		if err != nil {
			t.Logf("%v: %s", err, r.text(doc))
			return nil, nil
		}
		ours = s
	}
	text := r.text(doc)
	if r.closed {
		text = r.text(closeAll(doc))
	}
	schema, err := santhosh.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := santhosh.NewCompiler()
	require.NoError(t, c.AddResource("mem:///s", schema))
	theirs, err := c.Compile("mem:///s")
	require.NoError(t, err, "%s: the oracle refuses it", text)
	return ours, theirs
}

// follow resolves a pointer in a schema as encoding/json has it.
func follow(v any, pointer string) mapping {
	for _, s := range strings.Split(pointer, "/")[1:] {
		s = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
		switch x := v.(type) {
		case mapping:
			v = x[s]
		case []any:
			v = x[s[0]-'0']
		}
	}
	return v.(mapping)
}

// closeAll is the schema with additionalProperties false wherever there are properties, which
// closes all that random makes.
func closeAll(v any) any {
	switch v := v.(type) {
	case mapping:
		out := mapping{}
		for k, x := range v {
			if k == "enum" || k == "const" || k == "default" {
				out[k] = x
			} else {
				out[k] = closeAll(x)
			}
		}
		if p, ok := v["properties"].(mapping); ok && v["additionalProperties"] == nil && (v["type"] != nil ||
			len(p) == 0) {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		var out []any
		for _, x := range v {
			out = append(out, closeAll(x))
		}
		return out
	}
	return v
}

// TestOracle compares Validate with santhosh-tekuri/jsonschema on random schemas and values, and
// checks the other promises for each.
func TestOracle(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	schemas, refused := 2000, 0
	if testing.Short() {
		schemas = 400
	}
	valid, invalid := 0, 0
	r := &random{Rand: rand.New(rand.NewPCG(1, 2))}
	for i := range schemas {
		r.closed = i%2 == 0
		root := "object"
		if !r.closed {
			root = pick(r, randomTypes...)
		}
		doc := r.document(root)
		ours, theirs := compileBoth(t, r, doc)
		if ours == nil {
			refused++
			continue
		}
		for range 20 {
			value := r.value(doc, 4)
			text := r.text(value)
			v := parse(t, string(text))
			instance, err := santhosh.UnmarshalJSON(bytes.NewReader(text))
			require.NoError(t, err)
			want := theirs.Validate(instance)
			got := ours.Validate(v)
			if (got == nil) != (want == nil) {
				t.Fatalf("closed %v\nschema %s\nvalue %s\ngot  %v\nwant %v", r.closed, r.text(doc), text, got, want)
			}
			if got != nil {
				invalid++
				mustPoint(t, v, got)
				if again := ours.Validate(parse(t, string(r.text(value)))); *again != *got {
					t.Fatalf("schema %s\nvalue %s\n%v, and in another order of keys %v", r.text(doc), text, got, again)
				}
			} else {
				valid++
				mustLookUp(t, ours, v, doc)
			}
			mustFill(t, r, ours, doc, value)
		}
	}
	t.Logf("%d valid, %d invalid, %d schemas refused", valid, invalid, refused)
	assert.True(t, valid >= schemas && invalid >= schemas && refused <= schemas/10, "too little was compared")
}

// mustPoint checks that a violation is at a value, or at the object that holds it.
func mustPoint(t *testing.T, v crypto.Value, violation *Violation) {
	t.Helper()
	there := at(v, violation.Pointer).Kind() != crypto.Missing
	if strings.Contains(violation.Pointer, "*") { // for a name that must not be shown
		segments := strings.Split(violation.Pointer, "/")[1:]
		for i, s := range segments {
			segments[i] = pointerUnescapes.Replace(s)
		}
		there = len(reach(v, segments)) > 0
	}
	if !there || violation.Constraint == "" {
		t.Fatalf("%s: violation %v where there is nothing", v.Append(nil), violation)
	}
}

// mustLookUp checks that Lookup foretold all that is in a valid value.
func mustLookUp(t *testing.T, s *Schema, v crypto.Value, doc mapping) {
	t.Helper()
	var pointers [][]string
	var walk func(v crypto.Value, p []string)
	walk = func(v crypto.Value, p []string) {
		pointers = append(pointers, slices.Clone(p))
		for it, i := v.Iter(), 0; it.Next(); i++ {
			walk(it.Value(), append(p, "*"))
			if v.Kind() == crypto.Object {
				walk(it.Value(), append(p, string(it.Key())))
			}
		}
	}
	walk(v, nil)
	for _, p := range pointers {
		place, ok := s.Lookup(p)
		values := reach(v, p)
		if !ok {
			continue // not declared: in an open schema anything may be there
		}
		for _, v := range values {
			typ := typeOf(v)
			if typ == TypeNull && !place.Nullable || typ != TypeNull && typ&place.Types == 0 && !(typ == TypeInteger &&
				place.Types&TypeNumber != 0) {
				t.Fatalf("schema %v\nvalue %s\n%q is %v, Lookup said %+v", doc, v.Append(nil), p, typ, place)
			}
		}
	}
	for _, p := range declared(nil, doc, nil) {
		place, ok := s.Lookup(p)
		if ok && !place.Optional && !slices.Contains(p, "*") && len(reach(v, p)) == 0 {
			t.Fatalf("schema %v\nvalue %s\n%q is missing, Lookup said %+v", doc, v.Append(nil), p, place)
		}
	}
}

// reach is the values at a pointer with "*" for elements and members.
func reach(v crypto.Value, p []string) (list []crypto.Value) {
	switch {
	case len(p) == 0:
		return []crypto.Value{v}
	case p[0] == "*":
		for it := v.Iter(); it.Next(); {
			list = append(list, reach(it.Value(), p[1:])...)
		}
	default:
		if x := at(v, join("", p[0])); x.Kind() != crypto.Missing {
			return reach(x, p[1:])
		}
	}
	return list
}

// declared lists the pointers of a schema's members.
func declared(list [][]string, s mapping, p []string) [][]string {
	properties, _ := s["properties"].(mapping)
	for name, child := range properties {
		q := append(slices.Clone(p), name)
		list = declared(append(list, q), child.(mapping), q)
	}
	return list
}

// mustFill compares AppendDefaults with a filler that works on maps and knows no shortcut.
func mustFill(t *testing.T, r *random, s *Schema, doc mapping, value any) {
	t.Helper()
	before := string(parse(t, string(r.text(value))).Append(nil))
	want := string(parse(t, string(r.text(simpleFill(doc, []any{doc}, value)))).Append(nil))
	got, filled := s.AppendDefaults([]byte("x"), parse(t, string(r.text(value))))
	switch {
	case !filled && (want != before || string(got) != "x"):
		t.Fatalf("schema %s\nvalue %s\nnot filled to %s", r.text(doc), before, want)
	case filled && (string(got) != "x"+want || want == before):
		t.Fatalf("schema %s\nvalue %s\nfilled to   %s\nnot         %s", r.text(doc), before, got, want)
	}
	if again, filled := s.AppendDefaults(nil, parse(t, want)); filled {
		t.Fatalf("schema %s\n%s filled again: %s", r.text(doc), want, again)
	}
}

func simpleFill(doc mapping, schemas []any, value any) any {
	schemas = slices.Clone(schemas)
	for i := 0; i < len(schemas); i++ {
		if ref, ok := schemas[i].(mapping)["$ref"].(string); ok {
			schemas = slices.Insert(schemas, i+1, any(simpleResolve(doc, ref)))
		}
	}
	switch v := value.(type) {
	case []any:
		var items []any
		for _, s := range schemas {
			if x, ok := s.(mapping)["items"]; ok {
				items = append(items, x)
			}
		}
		out := []any{}
		for _, e := range v {
			out = append(out, simpleFill(doc, items, e))
		}
		return out
	case mapping:
		holds := map[string][]any{}
		for _, s := range schemas {
			p, _ := s.(mapping)["properties"].(mapping)
			for name, x := range p {
				holds[name] = append(holds[name], x)
			}
		}
		below := func(name string) []any { // with the schemas of other members
			list := slices.Clone(holds[name])
			for _, s := range schemas {
				p, _ := s.(mapping)["properties"].(mapping)
				if rest, ok := s.(mapping)["additionalProperties"].(mapping); ok && p[name] == nil {
					list = append(list, rest)
				}
			}
			return list
		}
		out := mapping{}
		for name, x := range v {
			out[name] = simpleFill(doc, below(name), x)
		}
		for name, list := range holds {
			if _, given := v[name]; given {
				continue
			}
			if x, ok := simpleDefault(doc, list); ok {
				out[name] = simpleFill(doc, below(name), x)
			}
		}
		return out
	}
	return value
}

func simpleDefault(doc mapping, list []any) (any, bool) {
	for _, s := range list {
		if x, ok := s.(mapping)["default"]; ok && (x != nil || simpleNull(doc, s.(mapping))) {
			return x, true
		}
		if ref, ok := s.(mapping)["$ref"].(string); ok {
			if x, ok := simpleDefault(doc, []any{simpleResolve(doc, ref)}); ok {
				return x, true
			}
		}
	}
	return nil, false
}

// simpleNull reports whether a schema allows null by its types, or says so by its keyword type.
func simpleNull(doc, s mapping) bool {
	list, several := s["type"].([]any)
	switch {
	case several && slices.Contains(list, any("null")) || s["type"] == "null":
		return true
	case s["type"] != nil:
		return false
	}
	if c, ok := s["const"]; ok && c != nil {
		return false
	}
	if e, ok := s["enum"].([]any); ok && !slices.Contains(e, nil) {
		return false
	}
	may := func(s any) bool { return simpleMay(doc, s.(mapping)) }
	if ref, ok := s["$ref"].(string); ok && !may(simpleResolve(doc, ref)) {
		return false
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, ok := s[keyword].([]any); ok && !slices.ContainsFunc(list, may) {
			return false
		}
	}
	return true
}

// simpleMay reports whether a schema allows null by its types.
func simpleMay(doc, s mapping) bool {
	own := mapping{}
	for k, v := range s {
		if k != "type" {
			own[k] = v
		}
	}
	return simpleNull(doc, own) && (s["type"] == nil || simpleNull(doc, mapping{"type": s["type"]}))
}

func simpleResolve(doc mapping, ref string) any {
	for name, s := range doc["$defs"].(mapping) {
		if "#/$defs/"+refEscape(name) == ref {
			return s
		}
	}
	panic(ref)
}
