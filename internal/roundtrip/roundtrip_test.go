package roundtrip

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/crypto"
)

type opts struct {
	Force bool   `json:"force,omitempty"`
	Name  string `json:"name"`
}

type panics struct{}

func (*panics) UnmarshalJSON([]byte) error { panic("private") }

// Misfit names the innermost field, and no member of a map, which is data.
func TestMisfit(t *testing.T) {
	t.Parallel()
	type argument struct {
		N    int            `json:"n"`
		Opts opts           `json:"opts"`
		Ref  *opts          `json:"ref,omitempty"`
		Map  map[string]int `json:"map,omitempty"`
		List []int          `json:"list,omitempty"`
		Bad  *panics        `json:"bad,omitempty"`
		At   *time.Time     `json:"at,omitempty"`
	}
	for _, x := range []struct {
		json  string
		of    any
		place string
	}{
		{`{"n":1.5,"opts":{"name":"private"}}`, argument{}, "/n"},
		{`{"n":1,"opts":{"name":5}}`, argument{}, "/opts/name"},
		{`{"n":1,"opts":{"force":false,"name":"private"}}`, argument{}, "/opts/force"},
		{`{"n":1,"opts":{"other":1,"name":"private"}}`, argument{}, "/opts/other"},
		{`{"n":1,"opts":{}}`, argument{}, "/opts"},
		{`{"n":1,"opts":{"name":"x"},"ref":{"force":false,"name":"x"}}`, argument{}, "/ref/force"},
		{`{"n":1,"opts":{"name":"x"},"ref":null}`, argument{}, "/ref"},
		{`{"n":1,"opts":{"name":"x"},"map":{"private":"x"}}`, argument{}, "/map"},
		{`{"n":1,"opts":{"name":"x"},"list":[1,"private"]}`, argument{}, "/list"},
		{`{"n":1,"opts":{"name":"x"},"bad":"private"}`, argument{}, "/bad"},
		{`{"n":1,"opts":{"name":"x"},"at":"private"}`, argument{}, "/at"},
		{`{"N":1}`, argument{}, "/N"},
		{`{"n":1,"live":true}`, argument{}, "/live"},
		{`{"n":1,"a private name":true}`, argument{}, "/*"},
		{`{"n":1,"opts":{"name":"x"}}`, &argument{}, ""},
		{`{"private":"x"}`, map[string]int{}, ""},
		{`{"private":"x"}`, time.Time{}, ""},
		{`{"x":"private"}`, &panics{}, "/x"},
		{`{"x":1}`, struct {
			X chan int `json:"x"`
		}{}, "/x"},
		{`{"n":`, argument{}, ""},
	} {
		assert.Equal(t, x.place, Misfit([]byte(x.json), reflect.TypeOf(x.of)), x.json)
	}
}

type lower struct {
	Dry bool `json:"-"`
}

type own struct{ Any any }

func (own) MarshalText() ([]byte, error) { return nil, nil }

// A part that no JSON carries is found in whatever an interface holds.
func TestLost(t *testing.T) {
	t.Parallel()
	type row struct {
		Any any `json:"any"`
	}
	type tree struct {
		Rows []row        `json:"rows"`
		Next *row         `json:"next"`
		Pair [2]any       `json:"pair"`
		Map  map[int]*row `json:"map"`
		*row
		Text []string `json:"text"`
	}
	const dry = `the field Dry: no JSON carries it: its tag is "-"`
	for name, x := range map[string]struct {
		v    any
		want string
	}{
		"nothing":                 {tree{Text: []string{"private"}}, ""},
		"plain values":            {tree{Rows: []row{{1}, {"private"}, {nil}}, Pair: [2]any{true, 1.5}}, ""},
		"in an element":           {tree{Rows: []row{{1}, {lower{}}}}, dry},
		"behind a pointer":        {tree{Next: &row{&lower{}}}, dry},
		"in an array":             {tree{Pair: [2]any{1, []any{lower{}}}}, dry},
		"in a map":                {tree{Map: map[int]*row{1: {lower{}}}}, dry},
		"in an embedded pointer":  {tree{row: &row{lower{}}}, dry},
		"in an interface in one":  {tree{Next: &row{row{[]row{{lower{}}}}}}, dry},
		"a function":              {row{func() {}}, "the argument: a func has no JSON form"},
		"in a type with a method": {row{own{lower{}}}, ""},
	} {
		v := reflect.ValueOf(x.v)
		assert.Equal(t, x.want, Type{open: true}.Lost(v), name)
	}
	assert.Equal(t, "", Of(reflect.TypeFor[own]()).Lost(reflect.ValueOf(own{lower{}})), "methods of its own")
	assert.Equal(t, dry, Of(reflect.TypeFor[lower]()).Lost(reflect.Value{}), "of the type, without a value")
	assert.Equal(t, "", Of(reflect.TypeFor[any]()).Lost(reflect.Value{}), "no value")
}

type stamped struct {
	*time.Time
	Dry bool
}

type chain struct {
	Next *chain `json:"next"`
}

// chained returns n objects, each in the one before.
func chained(n int) (c *chain) {
	for range n {
		c = &chain{c}
	}
	return c
}

// A difference is named by its place, never by the values.
func TestChanged(t *testing.T) {
	t.Parallel()
	type argument struct {
		N    int               `json:"n"`
		Ref  *opts             `json:"ref"`
		List []int             `json:"list"`
		Raw  []byte            `json:"raw"`
		Map  map[string]string `json:"map,omitempty"`
		Any  any               `json:"any"`
		At   *stamped          `json:"at"`
		*opts
		Number json.Number `json:"number"`
	}
	now := time.Unix(1, 0)
	const changed, left = ": would not arrive as it was passed", ": is left out by omitempty or omitzero"
	for name, x := range map[string]struct {
		passed, arrives any
		want            string // how it begins; "" if nothing is lost
	}{
		"the same":              {argument{N: 1, List: []int{1}}, argument{N: 1, List: []int{1}}, ""},
		"a default for nil":     {argument{}, argument{Ref: &opts{Force: true}, List: []int{1}, Raw: []byte{1}, Any: 1}, ""},
		"another number":        {argument{N: 1}, argument{N: 2}, "/n" + changed},
		"one number":            {argument{Number: "1e1"}, argument{Number: "10"}, ""},
		"not one number":        {argument{Number: "1e1"}, argument{Number: "11"}, "/number" + changed},
		"zero":                  {argument{}, argument{N: 2}, "/n" + left},
		"lost behind a pointer": {argument{Ref: &opts{Name: "x"}}, argument{}, "/ref/name" + changed},
		"nothing in a pointer":  {argument{Ref: &opts{}}, argument{}, ""},
		"shorter":               {argument{List: []int{1, 2}}, argument{List: []int{1}}, "/list" + changed},
		"an element":            {argument{List: []int{1, 2}}, argument{List: []int{1, 3}}, "/list/1" + changed},
		"bytes":                 {argument{Raw: []byte("a")}, argument{Raw: []byte("b")}, "/raw" + changed},
		"a member lost":         {argument{Map: map[string]string{"private": ""}}, argument{}, "/map/*" + changed},
		"a member":              {argument{Map: map[string]string{"private": "x"}}, argument{Map: map[string]string{"private": "y"}}, "/map/*" + changed},
		"a member added":        {argument{Map: map[string]string{"a": ""}}, argument{Map: map[string]string{"a": "", "b": ""}}, ""},
		"an empty map":          {argument{Map: map[string]string{}}, argument{Map: map[string]string{"a": ""}}, "/map" + left},
		"in an interface":       {argument{Any: "x"}, argument{Any: "y"}, "/any" + changed},
		"of another type":       {argument{Any: opts{}}, argument{Any: map[string]any{}}, ""},
		"beside an embedded one": {argument{At: &stamped{&now, true}}, argument{At: &stamped{&now, false}},
			"/at/Dry" + changed},
		"nil, with methods":           {argument{}, argument{At: &stamped{&now, true}}, ""},
		"embedded, and not there":     {argument{}, argument{opts: &opts{Name: "x"}}, ""},
		"embedded, and lost":          {argument{opts: &opts{Name: "x"}}, argument{}, "/name" + changed},
		"all of it":                   {1, 2, "the argument would not arrive"},
		"as deep as arguments may be": {chained(64), chained(64), ""},
		"deeper than is looked into":  {chained(2 * crypto.MaxDepth), chained(2 * crypto.MaxDepth), "/next/next"},
	} {
		got := Changed(reflect.ValueOf(x.passed), reflect.ValueOf(x.arrives))
		assert.True(t, (got == "") == (x.want == "") && len(got) >= len(x.want) && got[:len(x.want)] == x.want, "%s: %.200s",
			name, got)
		assert.NotContains(t, got, "private", name)
	}
}
