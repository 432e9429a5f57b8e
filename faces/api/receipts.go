package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/entry"
)

// look returns what the asker of a request may read. If the log cannot be read it answers.
func (a *reading) look(w http.ResponseWriter, r *http.Request) (*sight, bool) {
	v, err := a.log.catchUp(r.Context())
	if err != nil {
		unavailable(w, r, unreadable)
		return nil, false
	}
	s := v.sees(auth.From(r.Context()))
	return &s, true
}

// filters are the parameters that choose receipts.
var filters = []string{"tool", "verdict", "reason", "outcome", "since", "until", "entry"}

const entryIsOne = "entry is 1, or not there"

// A filter chooses receipts. What is empty chooses all.
type filter struct {
	tool, verdict, reason, outcome string
	since, until                   contracts.Time // until is not in it; zero: no end
	signed                         bool
}

// filterOf reads the parameters of a filter. What nothing could pass is at fault.
func filterOf(q url.Values) (f filter, err error) {
	f = filter{tool: q.Get("tool"), verdict: q.Get("verdict"), reason: q.Get("reason"), outcome: q.Get("outcome")}
	switch {
	case q.Has("verdict") && f.verdict != "ALLOW" && f.verdict != "DENY":
		return f, errors.New("verdict is ALLOW or DENY")
	case q.Has("reason") && !contracts.ReasonCode(f.reason).Known():
		return f, errors.New("reason is no reason code")
	case q.Has("outcome") && !contracts.Outcome(f.outcome).Known():
		return f, errors.New("outcome is no outcome")
	case q.Has("tool") && f.tool == "":
		return f, errors.New("tool names none")
	case q.Has("entry") && q.Get("entry") != "1":
		return f, errors.New(entryIsOne)
	}
	f.signed = q.Has("entry")
	for _, x := range []struct {
		name string
		at   *contracts.Time
	}{{"since", &f.since}, {"until", &f.until}} {
		if !q.Has(x.name) {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, q.Get(x.name))
		if year := t.UTC().Year(); err != nil || year < 1970 || year > 9998 {
			return f, errors.New(x.name + " is no time such as 2027-01-31T00:00:00Z")
		}
		*x.at = contracts.TimeOf(t)
	}
	return f, nil
}

// all reports whether the filter chooses every receipt.
func (f *filter) all() bool {
	return f.tool+f.verdict+f.reason+f.outcome == "" && f.since == 0 && f.until == 0
}

// passes reports whether the filter chooses a receipt. A stub has neither tool nor reason.
func (f *filter) passes(l *entry.Line) bool {
	if l.Stub != nil {
		return f.tool+f.reason == "" && f.verdict != "DENY" &&
			(f.outcome == "" || f.outcome == string(l.Stub.Receipt.Outcome)) && f.within(l.Stub.Time)
	}
	st := l.Entry
	r := st.Receipt
	tool, verdict, reason := r.Tool, r.Verdict, r.Reason
	if d := r.Decision; d != nil {
		tool, verdict, reason = d.Tool, d.Verdict, d.Reason
	}
	return (f.tool == "" || f.tool == tool) && (f.verdict == "" || f.verdict == verdict.String()) &&
		(f.reason == "" || f.reason == string(reason)) && (f.outcome == "" || f.outcome == string(r.Outcome)) &&
		f.within(st.Time)
}

func (f *filter) within(at contracts.Time) bool {
	return at >= f.since && (f.until == 0 || at < f.until)
}

// receipts answers with the receipts of a session, or of all that may be read.
func (a *reading) receipts(w http.ResponseWriter, r *http.Request) {
	s, ok := a.look(w, r)
	if !ok {
		return
	}
	f, err := filterOf(r.Form)
	if err != nil {
		bad(w, r, err.Error())
		return
	}
	l, err := listOf(r.Form, s)
	if err != nil {
		bad(w, r, err.Error())
		return
	}
	of, ok := s.of(w, r)
	if !ok {
		return
	}
	in := func(i uint64) bool { return s.entries[i].ended() && of(i) }
	p := page[*item]{Size: s.count(in)}
	var chosen []uint64
	if chosen, p.Next, err = a.choose(r.Context(), s, &l, &f, in); err == nil {
		p.Items, err = a.log.items(r.Context(), s, chosen, f.signed)
	}
	if err != nil {
		unavailable(w, r, unreadable)
		return
	}
	p.cut(chosen)
	auth.Answer(w, p)
}

// of returns which entries are of the session that a request names; all, if it names none. If there
// is no such session it answers.
func (s *sight) of(w http.ResponseWriter, r *http.Request) (in func(i uint64) bool, ok bool) {
	name, one := r.PathValue("session_id"), true
	if name == "" {
		name, one = r.Form.Get("session"), r.Form.Has("session")
	}
	if !one {
		return func(uint64) bool { return true }, true
	}
	session, ok := s.session(name)
	if !ok {
		absent(w, r, "there is no such session")
		return nil, false
	}
	return func(i uint64) bool { return s.sessionOf(i) == session }, true
}

// choose returns the receipts of a part of a list, and where the next part begins.
func (a *reading) choose(
	ctx context.Context, s *sight, l *list, f *filter, in func(uint64) bool,
) (chosen []uint64, next *uint64, err error) {
	most := l.limit
	if !f.all() {
		most = lookedAt
	}
	looked := make([]uint64, 0, most)
	more := false
	for i := range l.places(uint64(len(s.entries))) {
		if !s.may(i) || !in(i) {
			continue
		}
		if more = len(looked) == most; more {
			break
		}
		looked = append(looked, i)
	}
	if f.all() {
		if more {
			next = &looked[len(looked)-1]
		}
		return looked, next, nil
	}
	at := 0
	for at < len(looked) && len(chosen) < l.limit {
		part := looked[at:min(at+256, len(looked))]
		passes := map[uint64]bool{}
		err := a.log.each(ctx, upwards(part), func(i uint64, _ contracts.Entry, l *entry.Line) error {
			passes[i] = f.passes(l)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		for _, i := range part {
			if len(chosen) == l.limit {
				break
			}
			if at++; passes[i] {
				chosen = append(chosen, i)
			}
		}
	}
	if more || at < len(looked) {
		next = &looked[at-1]
	}
	return chosen, next, nil
}
