package helm

import (
	"reflect"
	"testing"
)

// A clone has everything of what it was made from, and shares nothing with it: every field is filled in, those of later versions too.
func TestCloneSharesNothing(t *testing.T) {
	var d Decision
	var r Receipt
	for _, v := range []reflect.Value{reflect.ValueOf(&d), reflect.ValueOf(&r)} {
		fill(v.Elem())
	}
	for _, x := range [][2]any{{d, d.clone()}, {r, r.clone()}} {
		if !reflect.DeepEqual(x[0], x[1]) {
			t.Errorf("%T: the clone differs", x[0])
		}
		if n := shared(t, reflect.TypeOf(x[0]).Name(), reflect.ValueOf(x[0]), reflect.ValueOf(x[1])); n < 4 {
			t.Errorf("%T: only %d places were compared", x[0], n)
		}
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

// shared compares the places to which two values refer, and counts them.
func shared(t *testing.T, path string, a, b reflect.Value) (n int) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		if n++; a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
		}
		if a.Kind() == reflect.Pointer {
			return n + shared(t, path, a.Elem(), b.Elem())
		}
		for i := range a.Len() {
			n += shared(t, path+"[]", a.Index(i), b.Index(i))
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				n += shared(t, path+"."+f.Name, a.Field(i), b.Field(i))
			}
		}
	case reflect.Map, reflect.Interface, reflect.Chan, reflect.Func:
		t.Errorf("%s is a %s, which nobody clones", path, a.Kind())
	}
	return n
}
