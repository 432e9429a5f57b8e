package forge

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// An Object is a JSON object.
type Object = map[string]any

// parsed are the objects parsed so far, by their text: most rows take the same pack apart.
var parsed sync.Map

// clone copies JSON.
func clone(x any) any {
	switch x := x.(type) {
	case Object:
		c := make(Object, len(x))
		for k, v := range x {
			c[k] = clone(v)
		}
		return c
	case []any:
		c := make([]any, len(x))
		for i, v := range x {
			c[i] = clone(v)
		}
		return c
	}
	return x
}

func parseObject(t testing.TB, b []byte) Object {
	t.Helper()
	if o, ok := parsed.Load(string(b)); ok {
		return clone(o).(Object)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var o Object
	require.NoError(t, d.Decode(&o))
	parsed.Store(string(b), clone(o))
	return o
}

// listOf returns the objects of a list, and none if it is not there.
func listOf(o Object, name string) (out []Object) {
	list, _ := o[name].([]any)
	for _, x := range list {
		out = append(out, x.(Object))
	}
	return out
}

// canonical writes RFC 8785 for what records hold.
func canonical(x any) []byte {
	switch x := x.(type) {
	case Object:
		keys := slices.Sorted(maps.Keys(x))
		b := []byte{'{'}
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(crypto.AppendString(b, k), ':'), canonical(x[k])...)
		}
		return append(b, '}')
	case []any:
		b := []byte{'['}
		for i, y := range x {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, canonical(y)...)
		}
		return append(b, ']')
	case string:
		return crypto.AppendString(nil, x)
	case nil:
		return []byte("null")
	}
	return fmt.Append(nil, x) // numbers and booleans
}

// HexSum returns the SHA-256 of b in hex.
func HexSum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// HexOf returns the SHA-256 of the canonical form of x in hex.
func HexOf(x any) string { return HexSum(canonical(x)) }

func leafOf(b []byte) string { return HexSum(append([]byte{0}, b...)) }

func base64Of(t testing.TB, s any) []byte {
	t.Helper()
	b, err := crypto.DecodeBase64(nil, []byte(s.(string)))
	require.NoError(t, err)
	return b
}
