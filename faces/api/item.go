package api

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
)

// An item is an entry as it is told. Nothing of arguments or outputs is in it.
type item struct {
	Index   uint64           `json:"index"`
	Hash    contracts.Digest `json:"hash"`
	Kind    contracts.Kind   `json:"kind"`
	Stub    bool             `json:"stub,omitempty"` // only its stub is left
	Session string           `json:"session"`
	Seq     uint64           `json:"seq"`
	Time    string           `json:"time"`
	call
	Entry string `json:"entry,omitempty"` // the signed bytes, or those of the stub, in base64
}

// A call is what an entry tells of one.
type call struct {
	Tool      string               `json:"tool,omitempty"`
	Verdict   string               `json:"verdict,omitempty"`
	Outcome   contracts.Outcome    `json:"outcome,omitempty"`
	Reason    contracts.ReasonCode `json:"reason,omitempty"`
	Rule      string               `json:"rule,omitempty"`
	Condition int                  `json:"condition,omitempty"` // that failed first
	Effect    contracts.EffectType `json:"effect,omitempty"`
	Risk      contracts.Risk       `json:"risk,omitempty"`
	Caller    *caller              `json:"caller,omitempty"`
	Decision  *decision            `json:"decision,omitempty"`
	Charges   []charge             `json:"charges,omitempty"`
	Settled   []settlement         `json:"settled,omitempty"`
	Sandbox   string               `json:"sandbox,omitempty"`  // the profile of the one that it ran in
	Reported  bool                 `json:"reported,omitempty"` // it ran elsewhere: HELM did not see it run
}

type caller struct {
	ID     string   `json:"id"`
	Tenant string   `json:"tenant,omitempty"`
	Roles  []string `json:"roles,omitempty"`
}

// A decision is the entry in which a call was judged.
type decision struct {
	ID    string           `json:"id"` // session/seq
	Index uint64           `json:"index"`
	Hash  contracts.Digest `json:"hash"`
	Time  string           `json:"time"`
}

type charge struct {
	Budget string `json:"budget"`
	Of     string `json:"of,omitempty"`
	Window string `json:"window"`
	Amount uint64 `json:"amount"`
	Before uint64 `json:"before"`
	Limit  uint64 `json:"limit"`
}

type settlement struct {
	Budget string `json:"budget"`
	Of     string `json:"of,omitempty"`
	Amount uint64 `json:"amount"`
}

// itemOf returns what is told of an entry by itself.
func itemOf(i uint64, l *entry.Line) *item {
	session, seq, at := l.Place()
	x := &item{Index: i, Hash: l.Hash, Kind: l.Kind(), Session: session, Seq: seq, Time: at.String()}
	if l.Stub != nil {
		x.left(i, l)
		return x
	}
	st := l.Entry
	if r := st.Receipt; r != nil {
		x.Tool, x.Verdict, x.Outcome, x.Reason, x.Effect = r.Tool, r.Verdict.String(), r.Outcome, r.Reason, r.EffectType
		x.settles(r.Settled)
		if r.Sandbox != nil {
			x.Sandbox, x.Reported = r.Sandbox.Profile, r.Sandbox.Profile == contracts.ProfileReported
		}
	}
	if d := st.Judgement(); d != nil {
		x.Tool, x.Verdict, x.Reason = d.Tool, d.Verdict.String(), d.Reason
		x.judged(i, l)
	}
	return x
}

// left adds what the stub of an entry tells. Only what was allowed can have one.
func (x *item) left(i uint64, l *entry.Line) {
	x.Stub, x.Verdict = true, contracts.Allow.String()
	if r := l.Stub.Receipt; r != nil {
		x.Outcome = r.Outcome
		x.settles(r.Settled)
		return
	}
	x.judged(i, l)
}

func (x *item) settles(list []contracts.Settlement) {
	for _, s := range list {
		x.Settled = append(x.Settled, settlement{s.Budget, s.Of, s.Amount})
	}
}

// judged adds what the entry of the decision tells.
func (x *item) judged(i uint64, l *entry.Line) {
	_, _, at := l.Place()
	x.Decision = &decision{l.Name(), i, l.Hash, at.String()}
	if s := l.Stub; s != nil {
		x.Tool = s.Decision.Tool
		x.charged(s.Decision.Charges)
		return
	}
	d := l.Judgement()
	x.Tool, x.Rule, x.Effect, x.Risk = d.Tool, d.Rule, d.EffectType, d.Risk
	if d.Verdict == contracts.Deny {
		x.Condition = d.Condition
	}
	x.Caller = &caller{d.Caller.ID, d.Caller.Tenant, d.Caller.Roles}
	x.charged(d.Charges)
}

func (x *item) charged(list []contracts.Charge) {
	for _, c := range list {
		x.Charges = append(x.Charges, charge{c.Budget, c.Of, c.Window, c.Amount, c.Before, c.Limit})
	}
}

// items reads the first entries of a list, and the decisions of those that are receipts.
func (x *index) items(ctx context.Context, s *sight, list []uint64, signed bool) (found []*item, err error) {
	var lack []undecided
	decided := map[uint64]*item{} // stubs of receipts, by the index of their decision
	n, err := x.first(ctx, list, func(i uint64, e contracts.Entry, l *entry.Line) error {
		it := itemOf(i, l)
		if signed {
			it.Entry = base64.StdEncoding.EncodeToString(e)
		}
		found = append(found, it)
		switch {
		case l.Stub != nil && l.Stub.Receipt != nil:
			if of := l.Stub.Receipt.Decision; s.may(of) && of < i {
				decided[of] = it
			}
		case l.Stub == nil && l.Entry.Receipt != nil && l.Entry.Receipt.Decision == nil:
			lack = append(lack, undecided{it, l.Entry.Receipt.DecisionHash, i})
		}
		return nil
	})
	if err == nil {
		err = x.each(ctx, slices.Sorted(maps.Keys(decided)), func(i uint64, _ contracts.Entry, l *entry.Line) error {
			if l.Decides() {
				decided[i].judged(i, l)
			}
			return nil
		})
	}
	for err == nil && len(lack) > 0 {
		lack, err = x.decide(ctx, s, lack)
	}
	return inOrder(found, list[:n], func(x *item) uint64 { return x.Index }), err
}

// An undecided item is a receipt whose decision is earlier in the log than a place.
type undecided struct {
	*item
	decision contracts.Digest
	before   uint64
}

// decide reads the decisions of receipts, and returns those for which it found another entry, which
// has the same first bits of its hash.
func (x *index) decide(ctx context.Context, s *sight, lack []undecided) (again []undecided, err error) {
	list := make([]uint64, 0, len(lack))
	n := 0
	for _, u := range lack {
		if u.before = s.earlier(u.before, bitsOf(u.decision)); u.before < uint64(len(s.entries)) {
			lack[n] = u
			list = append(list, u.before)
			n++
		}
	}
	n = 0
	err = x.each(ctx, list, func(i uint64, _ contracts.Entry, l *entry.Line) error {
		u := lack[n]
		n++
		if l.Hash == u.decision {
			u.judged(i, l)
		} else {
			again = append(again, u)
		}
		return nil
	})
	return again, err
}

// earlier returns the last ALLOW before a place, of those that may be read, whose hash has these
// bits, or a place after the log.
func (s *sight) earlier(i uint64, bits uint32) uint64 {
	for i > 0 {
		if i--; s.entries[i].bits() == bits && s.entries[i].what() == allow && s.may(i) {
			return i
		}
	}
	return uint64(len(s.entries))
}
