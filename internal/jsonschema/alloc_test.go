// The race detector makes sync.Pool forget, and so allocate.
//go:build !race

package jsonschema

import "testing"

// TestNoAllocation: validating a valid value allocates nothing, nor does looking for defaults if
// none is missing.
func TestNoAllocation(t *testing.T) {
	for _, c := range []struct {
		schema, value string
		closed        bool
	}{
		{hotSchema, hotArgs, true},
		{`{"type":"object","minProperties":1,"maxProperties":9,"propertyNames":{"pattern":"^[a-z-]+$","enum":["a","b-c"]},"dependentRequired":{"a":["b-c"]},"additionalProperties":{"type":"object","properties":{"x":{"type":["integer","string"],"default":1}}}}`,
			`{"a":{"x":2},"b-c":{"x":"y"}}`, true},
		{`{"items":{"anyOf":[{"type":"integer","multipleOf":0.5},{"oneOf":[{"type":"string","pattern":"é|\\n"},{"type":"string","maxLength":2}]},{"type":"null"}]}}`,
			`[1,"a\nb","ab",null,"xéx",1e21,"a\u0001"]`, false},
		{`{"uniqueItems":true}`, `[1,2,3,4,5,6,7,8,9,{"a":1},{"a":2},[],"x\n"]`, false},
		{`{"enum":["a","b","c","d","e","f","g","h","i",{"x":[1]}]}`, `{"x":[1]}`, false},
		{`{"type":"object","properties":{"p":{"$ref":"#/$defs/p"}},"$defs":{"p":{"type":"object","required":["x"],"properties":{"x":{"type":"integer","default":1}}}}}`, `{"p":{"x":2}}`, true},
	} {
		s, v := compile(t, c.schema, c.closed), parse(t, c.value)
		var dst [64]byte
		if got := testing.AllocsPerRun(100, func() {
			if s.Validate(v) != nil {
				t.Fatalf("%s is not valid", c.value)
			}
			if _, filled := s.AppendDefaults(dst[:0], v); filled {
				t.Fatalf("%s lacks defaults", c.value)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations", c.schema, got)
		}
	}
}
