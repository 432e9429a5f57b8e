package policytest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/internal/several"
)

// A reader reads the values of a file of cases, and notes its faults.
type reader struct {
	doc    contracts.Document
	faults []*guardian.LoadError
}

// A node is one value of the file, and its JSON Pointer.
type node struct {
	v  crypto.Value
	at string
}

func (p node) exists() bool { return p.v.Kind() != crypto.Missing }

func (p node) get(key string) node {
	return node{p.v.Get(key), p.at + "/" + escape(key)}
}

// escape returns a segment of a JSON Pointer.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// refuse notes a fault.
func (r *reader) refuse(at, what, remedy string) {
	pos := explained.Position(r.doc.Lines, at)
	e := &guardian.LoadError{Document: r.doc.Name, Pos: pos, Pointer: at, What: what, Remedy: remedy}
	if !slices.ContainsFunc(r.faults, func(f *guardian.LoadError) bool { return *f == *e }) {
		r.faults = append(r.faults, e)
	}
}

// err returns the faults, in the order of the file.
func (r *reader) err() error {
	slices.SortStableFunc(r.faults, func(a, b *guardian.LoadError) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	all := make([]error, len(r.faults))
	for i, f := range r.faults {
		all[i] = f
	}
	return several.Join(all...)
}

// object reports whether p is an object, and refuses keys that it must not have.
func (r *reader) object(p node, keys ...string) bool {
	if !r.is(p, crypto.Object) {
		return false
	}
	for it := p.v.Iter(); it.Next(); {
		key := string(it.Key())
		if slices.Contains(keys, key) {
			continue
		}
		remedy := "write one of " + strings.Join(keys, ", ")
		for _, k := range keys {
			if near(key, k) {
				remedy = "did you mean " + k + "?"
				break
			}
		}
		r.refuse(p.at+"/"+escape(key), "unknown key "+strconv.Quote(shortened(key)), remedy)
	}
	return true
}

// shortened cuts a word of the file for a message.
func shortened(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// near reports whether two words differ by case, by one letter or by two that changed places.
func near(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 0:
		return a[i+1:] == b[i+1:] || i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	case 1:
		return a[i:] == b[i+1:]
	}
	return false
}

// is reports whether p is of a kind, and refuses it if it is not.
func (r *reader) is(p node, kind crypto.Kind) bool {
	if p.v.Kind() == kind {
		return true
	}
	r.refuse(p.at, "is "+p.v.Kind().String(), "write "+map[crypto.Kind]string{
		crypto.Object: "an object, like {key: value}", crypto.Array: "a list, like [a, b]",
		crypto.String: "a string", crypto.Bool: "true or false", crypto.Number: "a number",
	}[kind])
	return false
}

// need returns a member, and refuses the object if it has none.
func (r *reader) need(p node, key, remedy string) (node, bool) {
	x := p.get(key)
	if !x.exists() {
		r.refuse(p.at, "no "+key, remedy)
	}
	return x, x.exists()
}

// text reads a string, or returns "" if there is none.
func (r *reader) text(p node) string {
	if !p.exists() || !r.is(p, crypto.String) {
		return ""
	}
	if p.v.Text() == "" {
		r.refuse(p.at, "an empty string", "write something, or remove it")
	}
	return p.v.Text()
}

// words reads a list of strings, each once.
func (r *reader) words(p node) (list []string) {
	for _, e := range r.list(p) {
		s := r.text(e)
		if s != "" && slices.Contains(list, s) {
			r.refuse(e.at, strconv.Quote(shortened(s))+" twice", "name it once")
			continue
		}
		list = append(list, s)
	}
	return list
}

// list reads the elements of an array that is not empty.
func (r *reader) list(p node) (list []node) {
	if !p.exists() || !r.is(p, crypto.Array) {
		return nil
	}
	for e := range p.v.Elements() {
		list = append(list, node{e, p.at + "/" + strconv.Itoa(len(list))})
	}
	if list == nil {
		r.refuse(p.at, "an empty list", "write an element, or remove it")
	}
	return list
}

// members reads those of an object, in canonical order.
func (r *reader) members(p node) (keys []string, values []node) {
	if !p.exists() || !r.is(p, crypto.Object) {
		return nil, nil
	}
	for it := p.v.Iter(); it.Next(); {
		key := string(it.Key())
		keys, values = append(keys, key), append(values, p.get(key))
	}
	return keys, values
}

// flag reads true: false is what holds without it.
func (r *reader) flag(p node) bool {
	if !p.exists() || !r.is(p, crypto.Bool) {
		return false
	}
	if !p.v.Bool() {
		r.refuse(p.at, "false, which holds without it", "remove it")
	}
	return p.v.Bool()
}

// count reads a number of 0 to most.
func (r *reader) count(p node, most uint64) uint64 {
	n, ok := p.v.Uint()
	if !ok || n > most {
		r.refuse(p.at, "no number that can be", "write an integer from 0 to "+strconv.FormatUint(most, 10))
	}
	return n
}

// units are those of a duration, as in policies.
var units = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

// duration reads one like 20m.
func (r *reader) duration(p node) time.Duration {
	s := r.text(p)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	unit, ok := units[s[len(s)-1]]
	const most = 100 * 366 * 24 * time.Hour
	if err != nil || !ok || n == 0 || s[0] == '0' || n > uint64(most/unit) {
		r.refuse(p.at, strconv.Quote(shortened(s))+" is no duration", "write it like 5s, 20m, 24h or 7d")
		return 0
	}
	return time.Duration(n) * unit
}

// moment reads a time like those of records.
func (r *reader) moment(p node) contracts.Time {
	s := r.text(p)
	if s == "" {
		return 0
	}
	t, err := time.Parse("2006-01-02T15:04:05.999Z", s)
	if err != nil || t.Year() < 1971 || t.Year() > 9000 {
		r.refuse(p.at, strconv.Quote(shortened(s))+" is no time", `write it like "2026-11-20T10:00:00.000Z"`)
		return 0
	}
	return contracts.TimeOf(t)
}
