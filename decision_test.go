package helm

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A clone has everything of what it was made from, and shares nothing with it: every field is
// filled in, those of later versions too.
func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	var d Decision
	var r Receipt
	fill(reflect.ValueOf(&d).Elem())
	fill(reflect.ValueOf(&r).Elem())
	for _, x := range [][2]any{{d, d.clone()}, {r, r.clone()}} {
		assert.Equal(t, x[0], x[1])
		name := reflect.TypeOf(x[0]).Name()
		n := notShared(t, name, reflect.ValueOf(x[0]), reflect.ValueOf(x[1]))
		assert.GreaterOrEqual(t, n, 4, "%s: places that were compared", name)
	}
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(1)
	}
}

// notShared compares the places to which two values refer, and counts them.
func notShared(t *testing.T, path string, a, b reflect.Value) (n int) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		n++
		assert.NotEqual(t, a.Pointer(), b.Pointer(), "%s is shared", path)
		if a.Kind() == reflect.Pointer {
			return n + notShared(t, path, a.Elem(), b.Elem())
		}
		for i := range a.Len() {
			n += notShared(t, path+"[]", a.Index(i), b.Index(i))
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				n += notShared(t, path+"."+f.Name, a.Field(i), b.Field(i))
			}
		}
	case reflect.Map, reflect.Interface, reflect.Chan, reflect.Func:
		assert.Fail(t, "a clone does not copy this", "%s is a %s", path, a.Kind())
	}
	return n
}
