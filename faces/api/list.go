package api

import (
	"errors"
	"iter"
	"net/url"
	"strconv"
)

// A list is the part of the log that a request asks for.
type list struct {
	from  uint64 // the place in the log after which it goes on
	begin bool   // it begins at an end of the log: there is no from
	down  bool   // from later entries to earlier ones
	limit int
}

// paging are the parameters of lists.
var paging = []string{"after", "before", "limit", "order"}

const mostItems = 1000

// A page is a part of a list, as it is answered.
type page[T any] struct {
	Items []T     `json:"items"`
	Next  *uint64 `json:"next"` // the cursor of the next part; nil: this part ends at the end of the list
	Size  uint64  `json:"size"` // of the whole list, for this asker, without filters
}

// cut sets where the next part begins if this one has not all that were chosen for it.
func (p *page[T]) cut(chosen []uint64) {
	if n := len(p.Items); n < len(chosen) {
		p.Next = &chosen[n-1]
	}
	if p.Items == nil {
		p.Items = []T{} // no null
	}
}

// listOf reads the parameters of a list. A cursor is an entry that the asker may read.
func listOf(q url.Values, s *sight) (l list, err error) {
	l = list{begin: true, limit: 100}
	if q.Has("limit") {
		n, ok := decimal(q.Get("limit"))
		if !ok || n < 1 || n > mostItems {
			return l, errors.New("limit is a number from 1 to 1000")
		}
		l.limit = int(n)
	}
	switch {
	case !q.Has("order") || q.Get("order") == "asc":
	case q.Get("order") == "desc":
		l.down = true
	default:
		return l, errors.New("order is asc or desc")
	}
	cursor, wrong := "after", "before"
	if l.down {
		cursor, wrong = wrong, cursor
	}
	if q.Has(wrong) {
		return l, errors.New("after goes with order=asc, before with order=desc")
	}
	if q.Has(cursor) {
		var ok bool
		if l.from, ok = decimal(q.Get(cursor)); !ok || !s.may(l.from) {
			return l, errors.New(cursor + " is the index of no entry here")
		}
		l.begin = false
	}
	return l, nil
}

// decimal reads a number that is written in the one way in which numbers are.
func decimal(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// places returns the places of the log in the order of the list, beginning after the cursor.
func (l *list) places(size uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if l.down {
			i := l.from
			if l.begin {
				i = size
			}
			for i > 0 && yield(i-1) {
				i--
			}
			return
		}
		i := l.from + 1
		if l.begin {
			i = 0
		}
		for i < size && yield(i) {
			i++
		}
	}
}

// lookedAt is how many entries a request looks at, at most. If a filter finds too few among these
// the next request goes on.
const lookedAt = 10_000
