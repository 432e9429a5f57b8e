package contracts

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDecisionEqual sets each field by itself, and those of the caller: records are equal if their
// canonical forms are.
func TestDecisionEqual(t *testing.T) {
	t.Parallel()
	tried := 0
	var each func(path string, field func(d *DecisionRecord) reflect.Value)
	each = func(path string, field func(d *DecisionRecord) reflect.Value) {
		var a, b DecisionRecord
		switch v := field(&b); v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				each(path+"."+v.Type().Field(i).Name,
					func(d *DecisionRecord) reflect.Value { return field(d).Field(i) })
			}
			return
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Array:
			v.Index(0).SetUint(1)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			t.Fatalf("%s: a field of a kind that this test does not set: %s", path, v.Kind())
		}
		tried++
		require.False(t, bytes.Equal(a.Append(nil), b.Append(nil)), "%s: not in the canonical form", path)
		c := b
		assert.True(t, !a.Equal(&b) && !b.Equal(&a) && a.Equal(new(DecisionRecord)) && b.Equal(&c),
			"%s: equal though it differs, or differs though it is equal", path)
		if v := field(&c); v.Kind() == reflect.Pointer { // of equal content, and of another
			v.Set(reflect.New(v.Type().Elem()))
			same := b.Equal(&c)
			if v.Elem().Index(0).SetUint(1); !same || b.Equal(&c) {
				t.Errorf("%s: compared as a pointer", path)
			}
		}
	}
	typ := reflect.TypeFor[DecisionRecord]()
	for i := range typ.NumField() {
		each(typ.Field(i).Name, func(d *DecisionRecord) reflect.Value { return reflect.ValueOf(d).Elem().Field(i) })
	}
	if a, b := (&DecisionRecord{Signals: []string{}}), (&DecisionRecord{}); !a.Equal(b) {
		t.Error("no signals and none differ")
	}
	assert.True(t, tried >= 24, "%d fields were tried", tried)
}
