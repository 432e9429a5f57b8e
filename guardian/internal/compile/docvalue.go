package compile

import (
	"strconv"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A docValue is one value of a document, and its JSON Pointer.
type docValue struct {
	v  crypto.Value
	at string
}

func (p docValue) get(key string) docValue {
	return docValue{p.v.Get(key), p.at + "/" + value.EscapeSegment(key)}
}

// has is exists of get, without making the pointer.
func (p docValue) has(key string) bool { return p.v.Get(key).Kind() != crypto.Missing }

func (p docValue) exists() bool { return p.v.Kind() != crypto.Missing }

// elements returns those of an array. Of any other value it returns the value itself, for keys that
// take one value or a list.
func (p docValue) elements() []docValue {
	if p.v.Kind() != crypto.Array {
		return []docValue{p}
	}
	var out []docValue
	for e := range p.v.Elements() {
		out = append(out, docValue{e, p.at + "/" + strconv.Itoa(len(out))})
	}
	return out
}

func (p docValue) isObject() bool { return p.v.Kind() == crypto.Object }
func (p docValue) isNumber() bool { return p.v.Kind() == crypto.Number }
