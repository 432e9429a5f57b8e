package forge

import (
	"errors"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

// TestDesk: verdicts over the past and over what others sign verify, and replay.
func TestDesk(t *testing.T) {
	t.Parallel()
	d := FixtureLog(t)
	r, err := verifyBytes(t, d.Pack(evidence.Write), evidence.Options{Trust: d.Trust, Origin: Origin})
	if err != nil || !r.Success(0) || r.Replay.Replayed != r.Allows+r.Denials || r.Allows != 12 || r.Denials != 13 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestLies: a kernel that lied to its guardian about the past signed a verdict that follows from
// the lie, and all else is in order. The log tells, at that entry.
func TestLies(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for name, x := range map[string]struct {
		story func(d *Fixture) (Ask, Liar)
		field string
	}{
		"one call fewer": {func(d *Fixture) (Ask, Liar) {
			for range 8 {
				d.Look("/a")
			}
			return d.Ask("act", `{"path":"/a"}`), Liar{FakeCalls: func(_ string, n uint64) uint64 { return n - 1 }}
		}, "predicate.decision.condition"},
		"no call at all": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`), Liar{FakeCalls: func(string, uint64) uint64 { return 0 }}
		}, "inputs.state.calls"},
		"too many of all": {func(d *Fixture) (Ask, Liar) {
			return d.Ask("look", `{"path":"/a"}`), Liar{FakeCalls: func(tool string, n uint64) uint64 {
				if tool == "" {
					return 41
				}
				return n
			}}
		}, "predicate.decision.condition"},
		"no receipt": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			return d.Ask("shut", `{}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					return contracts.PriorReceipt{Tool: r.Tool, Same: r.Same}, nil
				}}
		}, "predicate.decision.condition"},
		"no receipt, and another instead": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					if r.Tool == "open" {
						r.Entry, r.Time = nil, 0
					}
					return r, nil
				}}
		}, "inputs.state.receipts"},
		"an older receipt": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			first := d.Memory.Runs[0]
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			return d.Ask("shut", `{}`), named(first.Entry, first.Time)
		}, "inputs.state.receipts"},
		"an old receipt as a new one": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			d.Now += 2 * 3_600_000
			return d.Ask("shut", `{}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					r.Time = d.Now
					return r, nil
				}}
		}, "predicate.decision.condition"},
		"a receipt of a call that failed": {func(d *Fixture) (Ask, Liar) {
			d.Allowed(d.Ask("open", `{}`)).Failed(contracts.ReasonToolError)
			return d.Ask("shut", `{}`), named(d.Proofs.Chain("s1").Last(), d.Proofs.Chain("s1").Time())
		}, "predicate.decision.condition"},
		"a receipt of another session": {func(d *Fixture) (Ask, Liar) {
			d.Session = "s2"
			d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
			d.Session = "s1"
			return d.Ask("shut", `{}`), named(d.Memory.Runs[0].Entry, d.Memory.Runs[0].Time)
		}, "predicate.decision.condition"},
		"a receipt of another tool": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			return d.Ask("shut", `{}`), named(d.Memory.Runs[0].Entry, d.Memory.Runs[0].Time)
		}, "predicate.decision.condition"},
		"a receipt of no log": {func(d *Fixture) (Ask, Liar) {
			return d.Ask("shut", `{}`), named(contracts.Digest{1}, d.Now)
		}, "predicate.decision.condition"},
		"a receipt of other values": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			r := d.Memory.Runs[0]
			return d.Ask("act", `{"path":"/b"}`), LookedAt(r.Entry, r.Time)
		}, "predicate.decision.condition"},
		"an older receipt of these values": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			r := d.Memory.Runs[0]
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`), LookedAt(r.Entry, r.Time)
		}, "inputs.state.receipts"},
		"none of these values": {func(d *Fixture) (Ask, Liar) {
			d.Look("/a")
			return d.Ask("act", `{"path":"/a"}`),
				Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
					r.Entry, r.Time = nil, 0
					return r, nil
				}}
		}, "predicate.decision.condition"},
		"it cannot tell": {func(d *Fixture) (Ask, Liar) {
			return d.Ask("shut", `{}`), Liar{FakeReceipt: func(contracts.PriorReceipt) (contracts.PriorReceipt, error) {
				return contracts.PriorReceipt{}, errors.New("forgotten")
			}}
		}, "predicate.decision.reason"},
		"a used request is not": {func(d *Fixture) (Ask, Liar) {
			r := d.Pending(`{"amount":1}`)
			d.Allowed(d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, r))).Ran(`1`)
			return d.Ask("pay", `{"amount":1}`, d.answered(SeedA, r, 1, contracts.Allow)),
				Liar{FakeUsed: func(bool) bool { return false }}
		}, "predicate.decision.approvals"},
		"a request is used that is not": {func(d *Fixture) (Ask, Liar) {
			r := d.Pending(`{"amount":1}`)
			return d.Ask("pay", `{"amount":1}`, d.Approve(SeedA, r)), Liar{FakeUsed: func(bool) bool { return true }}
		}, "predicate.decision.condition"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lies := range []bool{false, true} {
				d := NewFixture(t)
				d.Look("/x")
				d.Memory.Runs = nil
				a, l := x.story(d)
				if lies {
					d.Memory.Lie = func(p past.Past) past.Past { l.Past = p; return l }
				}
				at := d.Call(a).index
				d.Memory.Lie = nil
				d.Session = "s3"
				d.Look("/x")
				d.Checkpoint()
				r, err := verifyBytes(t, d.Pack(evidence.Write), evidence.Options{Trust: d.Trust, Origin: Origin})
				if !lies {
					if err != nil || !r.Success(0) {
						t.Fatalf("without the lie: %v", err)
					}
					continue
				}
				mustRefuse(t, r, err, evidence.ErrReplay)
				if r.Fault != nil && (r.Fault.Entry != int64(at) || r.Replay.Differing != 1 ||
					r.Fault.Field != x.field) {
					t.Errorf("%v, %d differ; want entry %d, %s", r.Fault, r.Replay.Differing, at, x.field)
				}
			}
		})
	}
}

func named(entry contracts.Digest, at contracts.Time) Liar {
	return Liar{FakeReceipt: func(r contracts.PriorReceipt) (contracts.PriorReceipt, error) {
		r.Entry, r.Time = &entry, at
		return r, nil
	}}
}
