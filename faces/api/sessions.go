package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/entry"
)

// A session is what is told of one: of its entries that the asker may read.
type session struct {
	Session string           `json:"session"`
	Entries uint64           `json:"entries"`
	Allows  uint64           `json:"allows"`
	Denials uint64           `json:"denials"`
	Open    uint64           `json:"open"` // allowed, and it is not known yet how the call ended
	First   uint64           `json:"first"`
	Last    uint64           `json:"last"`
	Head    contracts.Digest `json:"head"` // the hash of the last entry
	Closed  bool             `json:"closed"`
}

// sessions answers with the sessions, by the places of their first entries.
func (a *reading) sessions(w http.ResponseWriter, r *http.Request) {
	s, ok := a.look(w, r)
	if !ok {
		return
	}
	l, err := listOf(r.Form, s)
	if err != nil {
		bad(w, r, err.Error())
		return
	}
	p := page[*session]{}
	p.Items, p.Next, p.Size = s.sessionsOf(&l)
	if err := a.heads(r.Context(), p.Items); err != nil {
		unavailable(w, r, unreadable)
		return
	}
	auth.Answer(w, p)
}

// sessionsOf returns a part of the list of sessions, without their heads.
func (s *sight) sessionsOf(l *list) (items []*session, next *uint64, size uint64) {
	const seen = 1 << 15                            // a session that is in no item
	numbers := make([]uint16, len(s.view.sessions)) // of their items, from 1; 0: there was no entry yet
	first := make([]uint64, 0, l.limit)
	more := false
	for i := range uint64(len(s.entries)) {
		if !s.may(i) || numbers[s.sessionOf(i)] != 0 {
			continue
		}
		numbers[s.sessionOf(i)] = seen
		size++
		switch {
		case l.down && (l.begin || i < l.from):
			if more = more || len(first) == l.limit; len(first) == l.limit {
				copy(first, first[1:])
				first = first[:l.limit-1]
			}
			first = append(first, i)
		case !l.down && (l.begin || i > l.from):
			if len(first) == l.limit {
				more = true
				continue
			}
			first = append(first, i)
		}
	}
	if l.down {
		slices.Reverse(first)
	}
	items = make([]*session, len(first))
	for n, i := range first {
		items[n] = &session{Session: s.view.sessions[s.sessionOf(i)], First: i}
		numbers[s.sessionOf(i)] = uint16(n + 1)
	}
	if more {
		next = &first[len(first)-1]
	}
	for i := range uint64(len(s.entries)) {
		if !s.may(i) {
			continue
		}
		n := numbers[s.sessionOf(i)]
		if n == seen {
			continue
		}
		x := items[n-1]
		x.Entries, x.Last = x.Entries+1, i
		switch s.entries[i].what() {
		case allow:
			x.Allows++
			x.Open++
		case receipt:
			x.Open--
		case denied:
			x.Denials++
		case closing:
			x.Closed = true
		}
	}
	return items, next, size
}

// heads reads the hashes of the last entries.
func (a *reading) heads(ctx context.Context, items []*session) error {
	at := map[uint64]*session{}
	var list []uint64
	for _, x := range items {
		at[x.Last] = x
		list = append(list, x.Last)
	}
	return a.log.each(ctx, upwards(list), func(i uint64, _ contracts.Entry, l *entry.Line) error {
		at[i].Head = l.Hash
		return nil
	})
}
