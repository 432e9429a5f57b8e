// Package keyed reads documents that people write, key by key: files of cases, configurations. It
// refuses what its caller does not ask for, and notes each fault with its place and what to write
// instead.
package keyed

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

// A Reader reads the values of a document, and notes its faults.
type Reader struct {
	Doc    contracts.Document
	Faults []*guardian.LoadError
}

// A Node is one value of the document, and its JSON Pointer.
type Node struct {
	V  crypto.Value
	At string
}

func (p Node) Exists() bool { return p.V.Kind() != crypto.Missing }

func (p Node) Get(key string) Node {
	return Node{p.V.Get(key), p.At + "/" + Escape(key)}
}

// Escape returns a segment of a JSON Pointer.
func Escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// Refuse notes a fault: what is wrong at a place, and what to write instead.
func (r *Reader) Refuse(at, what, remedy string) {
	pos := explained.Position(r.Doc.Lines, at)
	e := &guardian.LoadError{Document: r.Doc.Name, Pos: pos, Pointer: at, What: what, Remedy: remedy}
	if !slices.ContainsFunc(r.Faults, func(f *guardian.LoadError) bool { return *f == *e }) {
		r.Faults = append(r.Faults, e)
	}
}

// Err returns the faults, in the order of the document.
func (r *Reader) Err() error {
	slices.SortStableFunc(r.Faults, func(a, b *guardian.LoadError) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	all := make([]error, len(r.Faults))
	for i, f := range r.Faults {
		all[i] = f
	}
	return several.Join(all...)
}

// Object reports whether p is an object, and refuses keys that it must not have.
func (r *Reader) Object(p Node, keys ...string) bool {
	if !r.Is(p, crypto.Object) {
		return false
	}
	for it := p.V.Iter(); it.Next(); {
		key := string(it.Key())
		if slices.Contains(keys, key) {
			continue
		}
		remedy := "write one of " + strings.Join(keys, ", ")
		for _, k := range keys {
			if Near(key, k) {
				remedy = "did you mean " + k + "?"
				break
			}
		}
		r.Refuse(p.At+"/"+Escape(key), "unknown key "+strconv.Quote(Shortened(key)), remedy)
	}
	return true
}

// Shortened cuts a word of the document for a message.
func Shortened(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Near reports whether two words differ by case, by one letter or by two that changed places.
func Near(a, b string) bool {
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

// Is reports whether p is of a kind, and refuses it if it is not.
func (r *Reader) Is(p Node, kind crypto.Kind) bool {
	if p.V.Kind() == kind {
		return true
	}
	r.Refuse(p.At, "is "+p.V.Kind().String(), "write "+map[crypto.Kind]string{
		crypto.Object: "an object, like {key: value}", crypto.Array: "a list, like [a, b]",
		crypto.String: "a string", crypto.Bool: "true or false", crypto.Number: "a number",
	}[kind])
	return false
}

// Need returns a member, and refuses the object if it has none.
func (r *Reader) Need(p Node, key, remedy string) (Node, bool) {
	x := p.Get(key)
	if !x.Exists() {
		r.Refuse(p.At, "no "+key, remedy)
	}
	return x, x.Exists()
}

// Text reads a string, or returns "" if there is none.
func (r *Reader) Text(p Node) string {
	if !p.Exists() || !r.Is(p, crypto.String) {
		return ""
	}
	if p.V.Text() == "" {
		r.Refuse(p.At, "an empty string", "write something, or remove it")
	}
	return p.V.Text()
}

// Words reads a list of strings, each once.
func (r *Reader) Words(p Node) (list []string) {
	for _, e := range r.List(p) {
		s := r.Text(e)
		if s != "" && slices.Contains(list, s) {
			r.Refuse(e.At, strconv.Quote(Shortened(s))+" twice", "name it once")
			continue
		}
		list = append(list, s)
	}
	return list
}

// List reads the elements of an array that is not empty.
func (r *Reader) List(p Node) (list []Node) {
	if !p.Exists() || !r.Is(p, crypto.Array) {
		return nil
	}
	for e := range p.V.Elements() {
		list = append(list, Node{e, p.At + "/" + strconv.Itoa(len(list))})
	}
	if list == nil {
		r.Refuse(p.At, "an empty list", "write an element, or remove it")
	}
	return list
}

// Members reads those of an object, in canonical order.
func (r *Reader) Members(p Node) (keys []string, values []Node) {
	if !p.Exists() || !r.Is(p, crypto.Object) {
		return nil, nil
	}
	for it := p.V.Iter(); it.Next(); {
		key := string(it.Key())
		keys, values = append(keys, key), append(values, p.Get(key))
	}
	return keys, values
}

// Flag reads true: false is what holds without it.
func (r *Reader) Flag(p Node) bool {
	if !p.Exists() || !r.Is(p, crypto.Bool) {
		return false
	}
	if !p.V.Bool() {
		r.Refuse(p.At, "false, which holds without it", "remove it")
	}
	return p.V.Bool()
}

// Count reads a number of 0 to most.
func (r *Reader) Count(p Node, most uint64) uint64 {
	n, ok := p.V.Uint()
	if !ok || n > most {
		r.Refuse(p.At, "no number that can be", "write an integer from 0 to "+strconv.FormatUint(most, 10))
	}
	return n
}

// units are those of a duration, as in policies.
var units = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

// Duration reads one like 20m.
func (r *Reader) Duration(p Node) time.Duration {
	const remedy = "write it like 5s, 20m, 24h or 7d"
	if kind := p.V.Kind(); p.Exists() && kind != crypto.String {
		r.Refuse(p.At, "is "+kind.String(), remedy)
		return 0
	}
	s := r.Text(p)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	unit, ok := units[s[len(s)-1]]
	const most = 100 * 366 * 24 * time.Hour
	if err != nil || !ok || n == 0 || s[0] == '0' || n > uint64(most/unit) {
		r.Refuse(p.At, strconv.Quote(Shortened(s))+" is no duration", remedy)
		return 0
	}
	return time.Duration(n) * unit
}

// Moment reads a time like those of records.
func (r *Reader) Moment(p Node) contracts.Time {
	s := r.Text(p)
	if s == "" {
		return 0
	}
	t, err := time.Parse("2006-01-02T15:04:05.999Z", s)
	if err != nil || t.Year() < 1971 || t.Year() > 9000 {
		r.Refuse(p.At, strconv.Quote(Shortened(s))+" is no time", `write it like "2026-11-20T10:00:00.000Z"`)
		return 0
	}
	return contracts.TimeOf(t)
}
