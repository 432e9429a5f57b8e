package jsonschema

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

func nesting(v crypto.Value) int {
	k := v.Kind()
	if k != crypto.Object && k != crypto.Array {
		return 0
	}
	most := 0
	for it := v.Iter(); it.Next(); {
		most = max(most, nesting(it.Value()))
	}
	return 1 + most
}

func TestDepth(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 1, compile(t, `{"type":"object"}`, true).Depth())
	for a, want := range map[string]int{
		`{"type":"string"}`: 1,
		`{"enum":[1,"x"]}`:  1,
		`{"type":"array","items":{"type":"number"}},"b":{"type":["object","null"],"properties":{"c":{"type":"object","additionalProperties":false}}}`: 3,
		`{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"string"}]}`:                                                                    2,
		`{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}}`:                                                         3,
		`{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"array","items":{"type":"array","items":{"type":"boolean"}}}`:                                     3,
	} {
		s := compile(t, `{"type":"object","properties":{"a":`+a+`}}`, true)
		assert.Equal(t, want, s.Depth(), "%s", a)
	}
	for _, s := range []*Schema{nil, {}} {
		assert.Equal(t, 0, s.Depth(), "a schema that allows nothing nests")
	}
	assert.Equal(t, Unbounded, compile(t, `{"type":"object","properties":{"a":{"type":"string"}}}`, false).Depth(),
		"an open schema")
}

// No valid value is nested deeper than Depth, for any schema; for some schemas a value reaches it.
func TestDepthBounds(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := &random{Rand: rand.New(rand.NewPCG(7, 8)), closed: true}
	bounded, reached := 0, 0
	for range 1500 {
		doc := r.document("object")
		s, err := Compile(parse(t, string(r.text(doc))), true)
		if err != nil {
			continue
		}
		bound := s.Depth()
		if bound < Unbounded {
			bounded++
		}
		for range 20 {
			v := parse(t, string(r.text(r.value(doc, 4))))
			if s.Validate(v) != nil {
				continue
			}
			n := nesting(v)
			if n > bound {
				t.Fatalf("%s\nbounds %s by %d", r.text(doc), v.Append(nil), bound)
			}
			if n == bound && n > 1 {
				reached++
			}
		}
	}
	assert.True(t, bounded >= 500 && reached >= 100, "only %d schemas were bounded, %d values reached the bound",
		bounded, reached)
}
