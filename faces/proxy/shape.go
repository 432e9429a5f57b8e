package proxy

import (
	"errors"
	"strings"

	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// A shape says which members an object has, from the root of an answer down to its calls. A scalar
// is neither an object nor a list. A leaf passes whole, whatever it is.
type shape struct {
	members map[string]*shape // of an object
	element *shape            // of an array
	folded  map[string]bool   // names of members, folded
}

// Not two pointers to empty structs, which may be the same.
var scalar, leaf = &shape{folded: map[string]bool{}}, &shape{folded: map[string]bool{}}

// object returns the shape of an object: the names of scalars, and with a star those of leaves, and
// other members.
func object(names []string, others map[string]*shape) *shape {
	s := &shape{members: map[string]*shape{}, folded: map[string]bool{}}
	for _, name := range names {
		name, whole := strings.CutSuffix(name, "*")
		s.members[name] = scalar
		if whole {
			s.members[name] = leaf
		}
	}
	for name, o := range others {
		s.members[name] = o
	}
	for name := range s.members {
		s.folded[folded(name)] = true
	}
	return s
}

func list(element *shape) *shape { return &shape{element: element} }

// Errors of answers. An answer that has one is not passed on.
var (
	errShape = errors.New("an answer in another form than the API has")
	errName  = errors.New("a name in an answer that is one of the API's in other letter case")
)

// clean returns a value without the members that its shape lacks and that are not to pass, and adds
// their number to removed. What is null may be absent.
func (s *shape) clean(v rawjson.Value, pass map[string]bool, removed *int) (rawjson.Value, error) {
	switch {
	case s == leaf || v.Kind() == rawjson.Null:
		return v, nil
	case s == scalar:
		if v.Kind() == rawjson.Object || v.Kind() == rawjson.Array {
			return v, errShape
		}
		return v, nil
	case s.element != nil:
		if v.Kind() != rawjson.Array {
			return v, errShape
		}
		return s.cleanList(v, pass, removed)
	case v.Kind() != rawjson.Object:
		return v, errShape
	}
	var fault error
	v = v.Edit(func(m rawjson.Member) []byte {
		of, known := s.members[m.Name]
		switch {
		case known:
			x, err := of.clean(m.Value, pass, removed)
			if err != nil {
				fault = err
			}
			return x.Raw()
		case s.folded[folded(m.Name)]:
			fault = errName
		case pass[m.Name] && m.Name != "helm":
			return m.Value.Raw()
		}
		*removed++
		return nil
	})
	return v, fault
}

func (s *shape) cleanList(v rawjson.Value, pass map[string]bool, removed *int) (rawjson.Value, error) {
	var all [][]byte
	changed := false
	for e := range v.Elements() {
		x, err := s.element.clean(e, pass, removed)
		if err != nil {
			return v, err
		}
		changed = changed || len(x.Raw()) != len(e.Raw())
		all = append(all, x.Raw())
	}
	if !changed {
		return v, nil
	}
	return rawjson.List(all), nil
}
