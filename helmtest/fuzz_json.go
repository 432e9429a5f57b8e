package helmtest

import (
	"encoding/json"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// A value of arguments that are changed is nil, a bool, a string, a number, a []any or an *object.
type (
	number string
	object struct{ members []member } // keys may come twice
	member struct {
		key   string
		value any
	}
)

// parsed returns JSON as a value, or Missing if it is not strict.
func parsed(b []byte) crypto.Value {
	tree := new(crypto.Tree)
	if tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: 128}) != nil {
		return crypto.Value{}
	}
	return tree.Root()
}

func valueOf(v crypto.Value) any {
	switch v.Kind() {
	case crypto.Object:
		o := new(object)
		for it := v.Iter(); it.Next(); {
			o.members = append(o.members, member{string(it.Key()), valueOf(it.Value())})
		}
		return o
	case crypto.Array:
		list := []any{}
		for x := range v.Elements() {
			list = append(list, valueOf(x))
		}
		return list
	case crypto.String:
		return v.Text()
	case crypto.Number:
		return number(v.Append(nil))
	case crypto.Bool:
		return v.Bool()
	}
	return nil
}

func encode(dst []byte, v any) []byte {
	switch x := v.(type) {
	case *object:
		dst = append(dst, '{')
		for i, m := range x.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(encode(dst, m.key), ':')
			dst = encode(dst, m.value)
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = encode(dst, e)
		}
		return append(dst, ']')
	case number:
		return append(dst, x...)
	case string:
		b, err := json.Marshal(x)
		if err != nil {
			return append(dst, `""`...)
		}
		return append(dst, b...)
	case bool:
		if x {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	}
	return append(dst, "null"...)
}

// sample returns a value that a simple schema takes; one of a keyword that it does not know may not
// fit, and is then refused as any other.
func sample(schema crypto.Value, depth int) any {
	if d := schema.Get("default"); d.Exists() {
		return valueOf(d)
	}
	for _, key := range []string{"const", "enum"} {
		if x := schema.Get(key); x.Kind() == crypto.Array && x.Len() > 0 {
			return valueOf(x.At(0))
		} else if x.Exists() {
			return valueOf(x)
		}
	}
	kind := schema.Get("type")
	if kind.Kind() == crypto.Array {
		kind = kind.At(0)
	}
	switch kind.Text() {
	case "object":
		o := new(object)
		required := schema.Get("required")
		for it := schema.Get("properties").Iter(); it.Next() && depth < 8; {
			for x := range required.Elements() {
				if x.Text() == string(it.Key()) {
					o.members = append(o.members, member{x.Text(), sample(it.Value(), depth+1)})
				}
			}
		}
		return o
	case "array":
		list := []any{}
		if n, _ := schema.Get("minItems").Uint(); n > 0 && n < 16 {
			for range n {
				list = append(list, sample(schema.Get("items"), depth+1))
			}
		}
		return list
	case "string":
		if n, _ := schema.Get("minLength").Uint(); n > 0 && n < 1024 {
			return strings.Repeat("a", int(n))
		}
		return "a"
	case "integer", "number":
		if x := schema.Get("minimum"); x.Exists() {
			return valueOf(x)
		}
		return number("1")
	case "boolean":
		return true
	}
	return nil
}

// segments returns those of a JSON Pointer.
func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	list := strings.Split(pointer[1:], "/")
	for i, s := range list {
		list[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return list
}
