package value

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// A Set holds byte strings, ordered by length and then by content, so that a look-up compares
// little. The members of a folded set are in lower case, and so is every letter of ASCII that is
// compared with them.
type Set struct {
	members [][]byte
	folded  bool
}

// NewSet returns the set of the members, folded or not.
func NewSet(members []string, fold bool) *Set {
	s := &Set{folded: fold}
	for _, m := range members {
		b := []byte(m)
		if fold {
			b = AppendLower(nil, b)
		}
		s.members = append(s.members, b)
	}
	slices.SortFunc(s.members, s.compare)
	s.members = slices.CompactFunc(s.members, bytes.Equal)
	return s
}

func (s *Set) compare(member, b []byte) int {
	if len(member) != len(b) {
		return len(member) - len(b)
	}
	if !s.folded {
		return bytes.Compare(member, b)
	}
	for i, c := range b {
		c = lower(c)
		if c != member[i] {
			return int(member[i]) - int(c)
		}
	}
	return 0
}

// Contains reports whether b is a member.
func (s *Set) Contains(b []byte) bool {
	lo, hi := 0, len(s.members)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		c := s.compare(s.members[mid], b)
		if c == 0 {
			return true
		}
		if c < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return false
}

func lower(c byte) byte {
	if c-'A' < 26 {
		return c + 'a' - 'A'
	}
	return c
}

// AppendLower appends b with its ASCII letters in lower case.
func AppendLower(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, lower(c))
	}
	return dst
}

// EqualFold reports whether a and b are equal but for the case of ASCII letters. Other letters do
// not fold: there is no locale, and there are no two spellings of different length.
func EqualFold[A, B []byte | string](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// A Subtree is a path and everything below it.
type Subtree struct {
	Below string // the path with a final slash
	Self  bool   // the path without it is in, too
}

// PathTree returns the subtree of an absolute path, itself included.
func PathTree(path string) Subtree {
	return Subtree{Below: strings.TrimSuffix(path, "/") + "/", Self: true}
}

// Subtrees are ordered, and none lies within another. So only one of them can contain a path: the
// last that does not sort after it.
type Subtrees []Subtree

// NewSubtrees orders the subtrees, and leaves out those that lie within another.
func NewSubtrees(list []Subtree) Subtrees {
	slices.SortFunc(list, func(a, b Subtree) int { return strings.Compare(a.Below, b.Below) })
	var out Subtrees
	for _, x := range list {
		n := len(out)
		switch {
		case n > 0 && out[n-1].Below == x.Below:
			out[n-1].Self = out[n-1].Self || x.Self
		case n > 0 && strings.HasPrefix(x.Below, out[n-1].Below):
		default:
			out = append(out, x)
		}
	}
	return out
}

// Contains reports whether a path lies in one of the subtrees.
func (s Subtrees) Contains(path []byte) bool {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if after(s[mid].Below, path) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == 0 {
		return false
	}
	x := s[lo-1]
	switch n := len(x.Below); {
	case n <= len(path):
		return string(path[:n]) == x.Below
	case n == len(path)+1:
		return x.Self && string(path) == x.Below[:n-1]
	}
	return false
}

// after reports whether below sorts after path and a slash.
func after(below string, path []byte) bool {
	n := min(len(below), len(path))
	if below[:n] != string(path[:n]) {
		return below[:n] > string(path[:n])
	}
	if len(below) == n {
		return false // path goes on, or is just below
	}
	return below[n] > '/' || below[n] == '/' && len(below) > n+1
}

// Networks are ordered, and none lies within another.
type Networks []netip.Prefix

// NewNetworks orders the networks, and leaves out those that lie within another.
func NewNetworks(list []netip.Prefix) Networks {
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out Networks
	for _, x := range list {
		if n := len(out); n == 0 || !out[n-1].Overlaps(x) {
			out = append(out, x)
		}
	}
	return out
}

// Contains reports whether an address is in one of the networks.
func (s Networks) Contains(a netip.Addr) bool {
	_, ok := s.Around(a)
	return ok
}

// Around returns the network that an address is in.
func (s Networks) Around(a netip.Addr) (netip.Prefix, bool) {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s[mid].Addr().Compare(a) > 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == 0 || !s[lo-1].Contains(a) {
		return netip.Prefix{}, false
	}
	return s[lo-1], true
}
