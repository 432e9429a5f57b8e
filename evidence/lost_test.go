package evidence

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

// TestLost: what an ALLOW consumed whose inputs are gone, nobody can tell but the kernel that made it. Whether a request was that one is as
// the kernel says, if it may have been.
func TestLost(t *testing.T) {
	yes, no := true, false
	for name, x := range map[string]struct {
		late, other bool  // the request was made after that ALLOW, or for another call
		same        bool  // it is the one that was consumed, by another answer
		says        *bool // what the kernel says; nil: what is so
		want        error
	}{
		"it was consumed":                      {same: true},
		"it was consumed, and is said not":     {same: true, says: &no}, // that cannot be told
		"it was not":                           {},
		"it may have been, and is said so":     {says: &yes},
		"it was made later":                    {late: true},
		"it was made later, and is said used":  {late: true, says: &yes, want: ErrReplay},
		"it is of another call":                {other: true},
		"it is of another call, and said used": {other: true, says: &yes, want: ErrReplay},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			first := d.pending(`{"amount":1}`)
			args := `{"amount":1}`
			if x.other {
				args = `{"amount":2}`
			}
			second := first
			if !x.same && !x.late {
				second = d.pending(args)
			}
			a := d.ask("pay", `{"amount":1}`, d.approve(seedA, first))
			a.drop = true
			d.allowed(a).ran(`1`)
			if x.late {
				second = d.pending(args)
			}
			if x.says != nil {
				d.memory.lie = func(p past.Past) past.Past {
					return liar{Past: p, used: func(bool) bool { return *x.says }}
				}
			}
			used := x.same
			if x.says != nil {
				used = *x.says
			}
			reason := contracts.ReasonAllow
			if used {
				reason = contracts.ReasonApprovalInvalid
			}
			d.denied(reason, d.ask("pay", args, d.answered(seedA, second, 1, contracts.Allow)))
			d.checkpoint()
			r, err := verifyBytes(t, d.pack(), Options{Trust: d.trust, Origin: testOrigin})
			if x.want != nil {
				mustRefuse(t, r, err, x.want)
			} else if err != nil || r.Replay.NotReplayable != 1 {
				t.Errorf("%+v, %v", r.Replay, err)
			}
		})
	}
}

// TestErasing: whatever inputs are erased of a log that is right, nothing in it becomes wrong.
func TestErasing(t *testing.T) {
	race.Alone(t)
	d := deskLog(t)
	pack := d.pack()
	r := rand.New(rand.NewPCG(5, 6))
	total := len(judgements(takeApart(t, pack)))
	for i := range total + 60 {
		m := takeApart(t, pack)
		gone := uint64(0)
		for j, n := range judgements(m) {
			if i < total && i == j || i >= total && r.IntN(2) == 0 {
				delete(m.blobs, n.d()["inputsHash"].(string))
				gone++
			}
		}
		v, err := verifyBytes(t, m.build(), Options{Trust: d.trust, Origin: testOrigin})
		if err != nil || v.Replay.NotReplayable != gone || v.Replay.Replayed != v.Allows+v.Denials-gone {
			t.Errorf("case %d, %d erased: %+v, %v", i, gone, v.Replay, err)
		}
	}
	if total != 25 {
		t.Errorf("%d judgements", total)
	}
}

func judgements(m *model) (list []*node) {
	for _, n := range m.nodes {
		if n.d() != nil {
			list = append(list, n)
		}
	}
	return list
}

// TestKeysOfOthers: what approvers, attestors and delegators signed counts as long as their keys do, and not a place longer, whatever trust state
// the guardian was given.
func TestKeysOfOthers(t *testing.T) {
	for name, story := range map[string]func(d *desk, end func(seed byte)) ask{
		"an approver": func(d *desk, end func(byte)) ask {
			a := d.ask("pay", `{"amount":1}`, d.approve(seedA, d.pending(`{"amount":1}`)))
			end(seedA)
			return a
		},
		"an attestor": func(d *desk, end func(byte)) ask {
			word := d.attest(`{"amount":10}`)
			a := d.ask("pay", `{"amount":10}`, word, d.approve(seedA, d.pending(`{"amount":10}`, word)))
			end(seedB)
			return a
		},
		"a delegator": func(d *desk, end func(byte)) ask {
			a := d.ask("open", `{}`)
			a.with.Delegation = []contracts.Envelope{d.grant(seedD, "ada", "agent", 0, nil, "open")}
			end(seedD)
			return a
		},
	} {
		for _, x := range []struct {
			name         string
			revoke, lies bool
			allowed      bool
			want         error
		}{{"good", false, false, true, nil}, {"revoked", true, false, false, nil}, {"revoked, and taken for good", true, true, true, ErrReplay}} {
			t.Run(name+", "+x.name, func(t *testing.T) {
				d := newDesk(t)
				before := d.state
				a := story(d, func(seed byte) {
					if x.revoke {
						d.revoke(seed)
					}
				})
				if x.lies {
					d.memory.trust = before
				}
				if c := d.call(a); bool(c.decision.Verdict) != x.allowed {
					t.Fatal(c.decision.Reason, c.why)
				}
				d.checkpoint()
				r, err := verifyBytes(t, d.pack(), Options{Trust: d.trust, Origin: testOrigin})
				if x.want != nil {
					mustRefuse(t, r, err, x.want)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestUnreadable: a kernel that could not read the arguments of an earlier call, which are there now, denied and recorded no answer. That is
// no fault of the log; that it allowed would be one.
func TestUnreadable(t *testing.T) {
	d := newDesk(t)
	d.look("/a")
	d.memory.lie = func(p past.Past) past.Past {
		return liar{Past: p, receipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
			if r.Same.Kind() != crypto.Missing {
				return r, errDisk
			}
			return r, nil
		}}
	}
	d.denied(contracts.ReasonFailClosedError, d.ask("act", `{"path":"/a"}`))
	d.memory.lie = nil
	d.allowed(d.ask("act", `{"path":"/a"}`))
	d.checkpoint()
	pack, o := d.pack(), Options{Trust: d.trust, Origin: testOrigin}
	if r, err := verifyBytes(t, pack, o); err != nil || r.Replay.Replayed != 3 {
		t.Fatalf("%+v, %v", r.Replay, err)
	}
	m := takeApart(t, pack)
	m.inputs(m.nodes[len(m.nodes)-1], func(in object) {
		s := in["state"].(object)
		s["receipts"] = slices.DeleteFunc(s["receipts"].([]any), func(x any) bool { return x.(object)["same"] != nil })
	})
	r, err := verifyBytes(t, m.build(), o)
	mustRefuse(t, r, err, ErrReplay)
}

// TestNonceOfTwoSessions: a request is for one session. An approver who signs the same nonce for another one has still said yes to one call, and
// a kernel that allows both is found; one that denies the second may say that the first used it, or have judged before that.
func TestNonceOfTwoSessions(t *testing.T) {
	for name, x := range map[string]struct {
		used   bool
		reason contracts.ReasonCode
	}{"allowed twice": {}, "denied as used": {true, contracts.ReasonApprovalInvalid}, "denied, judged before": {false, contracts.ReasonApprovalRequired}} {
		d := newDesk(t)
		first := d.pending(`{"amount":1}`)
		d.allowed(d.ask("pay", `{"amount":1}`, d.approve(seedA, first))).ran(`1`)
		d.session = "s2"
		args := map[bool]string{true: `{"amount":1}`, false: `{"amount":10}`}[x.reason == ""] // for 10 there must be two approvers
		second := d.pending(args)
		second.Nonce = first.Nonce
		late := d.ask("pay", args, d.answered(seedA, second, 1, contracts.Allow))
		d.memory.lie = func(p past.Past) past.Past { return liar{Past: p, used: func(bool) bool { return x.used }} }
		if x.reason == "" {
			d.allowed(late).ran(`1`)
		} else {
			d.denied(x.reason, late)
		}
		d.checkpoint()
		o := Options{Trust: d.trust, Origin: testOrigin}
		r, err := verifyBytes(t, d.pack(), o)
		if x.reason == "" {
			mustRefuse(t, r, err, ErrReplay)
			continue
		}
		if err != nil || r.Replay.Replayed != 4 {
			t.Errorf("%s: %+v, %v", name, r.Replay, err)
		}
		m := takeApart(t, d.pack())
		delete(m.blobs, judgements(m)[1].d()["inputsHash"].(string)) // of the first ALLOW
		if r, err := verifyBytes(t, m.build(), o); err != nil || r.Replay.Replayed != 3 {
			t.Errorf("%s, its inputs erased: %+v, %v", name, r.Replay, err)
		}
	}
}
