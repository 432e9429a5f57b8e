package forge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

// TestLost: what an ALLOW consumed whose inputs are gone is known only to the kernel that made
// it. Whether a request was that one is as the kernel says, if it may have been.
func TestLost(t *testing.T) {
	t.Parallel()
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
		"it was made later, and is said used":  {late: true, says: &yes, want: errReplay},
		"it is of another call":                {other: true},
		"it is of another call, and said used": {other: true, says: &yes, want: errReplay},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewFixture(t)
			first := d.Pending(`{"amount":1}`)
			args := `{"amount":1}`
			if x.other {
				args = `{"amount":2}`
			}
			second := first
			if !x.same && !x.late {
				second = d.Pending(args)
			}
			a := d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, first))
			a.Drop = true
			d.Allowed(a).Ran(`1`)
			if x.late {
				second = d.Pending(args)
			}
			if x.says != nil {
				d.Memory.Lie = func(p past.Past) past.Past {
					return Liar{Past: p, FakeUsed: func(bool) bool { return *x.says }}
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
			d.Denied(reason, d.Ask("pay", args, d.answered(SeedA, second, 1, contracts.Allow)))
			d.Checkpoint()
			r, err := verifyBytes(t, d.Pack(evidence.Write), evidence.Options{Trust: d.Trust, Origin: Origin})
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
	t.Parallel()
	race.Alone(t)
	d := FixtureLog(t)
	pack := d.Pack(evidence.Write)
	r := rand.New(rand.NewPCG(5, 6))
	total := len(Judgements(TakeApart(t, pack)))
	for i := range total + 60/Sample(3) {
		m := TakeApart(t, pack)
		gone := uint64(0)
		for j, n := range Judgements(m) {
			if i < total && i == j || i >= total && r.IntN(2) == 0 {
				delete(m.Blobs, n.D()["inputsHash"].(string))
				gone++
			}
		}
		v, err := verifyBytes(t, m.Build(), evidence.Options{Trust: d.Trust, Origin: Origin})
		assert.True(t, err == nil && v.Replay.NotReplayable == gone && v.Replay.Replayed == v.Allows+v.Denials-gone,
			"case %d, %d erased: %+v, %v", i, gone, v.Replay, err)
	}
	assert.Equal(t, 25, total, "%d judgements", total)
}

// TestKeysOfOthers: what approvers, attestors and delegators signed counts as long as their keys
// do, and not a place longer, whatever trust state the guardian was given.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]func(d *Fixture, end func(seed byte)) Ask{
		"an approver": func(d *Fixture, end func(byte)) Ask {
			a := d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, d.Pending(`{"amount":1}`)))
			end(SeedA)
			return a
		},
		"an attestor": func(d *Fixture, end func(byte)) Ask {
			word := d.Attest(`{"amount":10}`)
			a := d.Ask("pay", `{"amount":10}`, word, d.Approve(SeedA, d.Pending(`{"amount":10}`, word)))
			end(SeedB)
			return a
		},
		"a delegator": func(d *Fixture, end func(byte)) Ask {
			a := d.Ask("open", `{}`)
			a.With.Delegation = []contracts.Envelope{d.grant(SeedD, "ada", "agent", 0, nil, "open")}
			end(SeedD)
			return a
		},
	} {
		for _, x := range []struct {
			name         string
			revoke, lies bool
			allowed      bool
			want         error
		}{{"good", false, false, true, nil}, {"revoked", true, false, false, nil},
			{"revoked, and taken for good", true, true, true, errReplay}} {
			t.Run(name+", "+x.name, func(t *testing.T) {
				d := NewFixture(t)
				before := d.state
				a := story(d, func(seed byte) {
					if x.revoke {
						d.Revoke(seed)
					}
				})
				if x.lies {
					d.Memory.trust = before
				}
				if c := d.Call(a); bool(c.decision.Verdict) != x.allowed {
					t.Fatal(c.decision.Reason, c.Why)
				}
				d.Checkpoint()
				r, err := verifyBytes(t, d.Pack(evidence.Write), evidence.Options{Trust: d.Trust, Origin: Origin})
				if x.want != nil {
					mustRefuse(t, r, err, x.want)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestUnreadable: a kernel that could not read the arguments of an earlier call, which are there
// now, denied and recorded no answer. That is no fault of the log; that it allowed would be one.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	d := NewFixture(t)
	d.Look("/a")
	d.Memory.Lie = func(p past.Past) past.Past {
		return Liar{Past: p, FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
			if r.Same.Kind() != crypto.Missing {
				return r, errDisk
			}
			return r, nil
		}}
	}
	d.Denied(contracts.ReasonFailClosedError, d.Ask("act", `{"path":"/a"}`))
	d.Memory.Lie = nil
	d.Allowed(d.Ask("act", `{"path":"/a"}`))
	d.Checkpoint()
	pack, o := d.Pack(evidence.Write), evidence.Options{Trust: d.Trust, Origin: Origin}
	if r, err := verifyBytes(t, pack, o); err != nil || r.Replay.Replayed != 3 {
		t.Fatalf("%+v, %v", r.Replay, err)
	}
	m := TakeApart(t, pack)
	m.inputs(m.Nodes[len(m.Nodes)-1], func(in Object) {
		s := in["state"].(Object)
		s["receipts"] = slices.DeleteFunc(s["receipts"].([]any), func(x any) bool { return x.(Object)["same"] != nil })
	})
	r, err := verifyBytes(t, m.Build(), o)
	mustRefuse(t, r, err, errReplay)
}

// TestNonceOfTwoSessions: a request is for one session. An approver who signs the same nonce for
// another one has still said yes to one call, and a kernel that allows both is found; one that
// denies the second may say that the first used it, or have judged before that.
func TestNonceOfTwoSessions(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		used   bool
		reason contracts.ReasonCode
	}{"allowed twice": {}, "denied as used": {true, contracts.ReasonApprovalInvalid},
		"denied, judged before": {false, contracts.ReasonApprovalRequired}} {
		d := NewFixture(t)
		first := d.Pending(`{"amount":1}`)
		d.Allowed(d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, first))).Ran(`1`)
		d.Session = "s2"
		// for 10 there must be two approvers
		args := map[bool]string{true: `{"amount":1}`, false: `{"amount":10}`}[x.reason == ""]
		second := d.Pending(args)
		second.Nonce = first.Nonce
		late := d.Ask("pay", args, d.answered(SeedA, second, 1, contracts.Allow))
		d.Memory.Lie = func(p past.Past) past.Past { return Liar{Past: p, FakeUsed: func(bool) bool { return x.used }} }
		if x.reason == "" {
			d.Allowed(late).Ran(`1`)
		} else {
			d.Denied(x.reason, late)
		}
		d.Checkpoint()
		o := evidence.Options{Trust: d.Trust, Origin: Origin}
		r, err := verifyBytes(t, d.Pack(evidence.Write), o)
		if x.reason == "" {
			mustRefuse(t, r, err, errReplay)
			continue
		}
		assert.True(t, err == nil && r.Replay.Replayed == 4, "%s: %+v, %v", name, r.Replay, err)
		m := TakeApart(t, d.Pack(evidence.Write))
		delete(m.Blobs, Judgements(m)[1].D()["inputsHash"].(string)) // of the first ALLOW
		r, err = verifyBytes(t, m.Build(), o)
		assert.True(t, err == nil && r.Replay.Replayed == 3, "%s, its inputs erased: %+v, %v", name, r.Replay, err)
	}
}
