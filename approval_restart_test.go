package helm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// Whatever process comes after: what was asked for is good for one use, and what was used stays used, by whichever approver's envelope.
func TestApprovalOverRestart(t *testing.T) {
	for name, change := range map[string]func(*testing.T) func(*helm.Options){
		"in memory": func(*testing.T) func(*helm.Options) { return func(*helm.Options) {} },
		"on disk": func(t *testing.T) func(*helm.Options) {
			return func(o *helm.Options) {
				s, err := filestore.Open(t.TempDir(), filestore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				o.Store = &faulty{Store: s}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, change(t))
			b.store = b.o.Store.(*faulty)
			asked := b.ask("pay", rent)
			ann, bob := b.approve(asked, seedAnn), b.approve(asked, seedBob)
			b.reopen()
			b.pass(time.Second)
			b.mustDo("pay", rent, with(ann))
			b.reopen()
			b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(ann))
			b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(bob))
			b.pass(time.Second)
			b.mustDo("pay", rent, with(bob, b.approve(b.ask("pay", rent), seedAnn)))
			b.mustPass()
		})
	}
}

// Where inputs are not kept, or were erased, nobody can tell which request an ALLOW consumed: so after a restart all that were asked of the
// same call until then are used. What is asked later is good. A process that knows goes on by what it knows, and who verifies believes both.
func TestApprovalOverRestartWithoutInputs(t *testing.T) {
	const one = `{"to":"landlord","amount":1}`
	for _, x := range []struct {
		name                       string
		dropped, erased, restarted bool
	}{{"kept", false, false, true}, {"dropped", true, false, true}, {"erased", false, true, true}, {"dropped, and known", true, false, false}, {"erased, and known", false, true, false}} {
		t.Run(x.name, func(t *testing.T) {
			b := newBank(t, func(o *helm.Options) { o.Keep.DropInputs = x.dropped })
			first := b.ask("pay", rent)
			b.pass(time.Second)
			second := b.ask("pay", rent)
			other := b.ask("pay", one)
			d, _ := b.mustDo("pay", rent, with(b.approve(first, seedAnn)))
			if x.erased {
				whole := b.store.Store
				b.store.Store = reader{Store: whole, blob: func(x contracts.Digest) ([]byte, error) {
					if x == d.Record.InputsHash {
						return nil, proofgraph.ErrNoBlob
					}
					return whole.Blob(context.Background(), x)
				}}
			}
			if x.restarted {
				b.reopen()
			}
			b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(b.approve(first, seedBob)))
			if x.restarted && x.name != "kept" {
				b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(b.approve(second, seedBob)))
			} else {
				b.mustDo("pay", rent, with(b.approve(second, seedBob)))
			}
			b.mustDo("pay", one, with(b.approve(other, seedBob)))
			b.pass(time.Second)
			b.mustDo("pay", rent, with(b.approve(b.ask("pay", rent), seedBob)))
			report := b.mustPass()
			if x.name == "erased" {
				b.mustAgree(report)
			}
		})
	}
}

// A store that cannot read what it has, or has something else, is no store to go on with: what the kernel took for used would not be what the
// log says.
func TestApprovalOverDamagedInputs(t *testing.T) {
	for name, lie := range map[string]func(s proofgraph.Store) proofgraph.Store{
		"lost": func(s proofgraph.Store) proofgraph.Store {
			return reader{Store: s, blob: func(contracts.Digest) ([]byte, error) { return nil, errDisk }}
		},
		"mangled": func(s proofgraph.Store) proofgraph.Store { return lying{s} },
		"panics": func(s proofgraph.Store) proofgraph.Store {
			return reader{Store: s, blob: func(contracts.Digest) ([]byte, error) { panic("disk") }}
		},
		"is empty": func(s proofgraph.Store) proofgraph.Store {
			return reader{Store: s, blob: func(contracts.Digest) ([]byte, error) { return nil, nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			asked := b.ask("pay", rent)
			d, _ := b.mustDo("pay", rent, with(b.approve(asked, seedAnn)))
			if err := b.k.Close(); err != nil {
				t.Fatal(err)
			}
			honest := b.store.Store
			b.store.Store = lie(honest)
			if k, err := helm.New(b.o); k != nil || err == nil || !strings.Contains(err.Error(), d.Record.ID) {
				t.Errorf("New gives %v", err)
			}
			b.store.Store = honest
			b.open()
			b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(b.approve(asked, seedBob)))
			b.mustPass()
		})
	}
}

// A call of which nobody knows how it ended has used its yes.
func TestApprovalOfUnknownOutcome(t *testing.T) {
	b := newBank(t)
	yes := b.approve(b.ask("pay", rent), seedAnn)
	b.store.in(2) // the receipt
	d, r := b.do("pay", rent, with(yes))
	b.mustBe(d, r, want{reason: contracts.ReasonReceiptNotStored, err: helm.ErrWithheld, runs: 1})
	b.open()
	unknown := false
	for _, st := range b.statements() {
		unknown = unknown || st.Receipt != nil && st.Receipt.Reason == contracts.ReasonOutcomeUnknown
	}
	if !unknown {
		t.Error("the call was not settled")
	}
	b.mustNotDo(contracts.ReasonApprovalInvalid, "pay", rent, with(yes))
	b.mustAgree(b.mustPass())
}

// A permission that could not be stored ran nothing. Whether it used the yes is for the log to say, which the next kernel reads: it may be
// there, though its store said otherwise.
func TestApprovalOfLostPermission(t *testing.T) {
	for name, x := range map[string]struct {
		how   func(error) error
		after contracts.ReasonCode
	}{
		"not written":          {nil, contracts.ReasonAllow},
		"written all the same": {func(error) error { return errDisk }, contracts.ReasonApprovalInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			yes := b.approve(b.ask("pay", rent), seedAnn)
			b.store.how = x.how
			b.store.in(1)
			d, r := b.do("pay", rent, with(yes))
			b.mustBe(d, r, want{reason: contracts.ReasonFailClosedError, err: helm.ErrDenied})
			if d, _ := b.do("tell", `{}`); d.Reason != contracts.ReasonKernelSealed {
				t.Errorf("the kernel goes on: %s", d.Reason)
			}
			b.open()
			if x.after == contracts.ReasonAllow {
				b.mustDo("pay", rent, with(yes))
			} else {
				b.mustNotDo(x.after, "pay", rent, with(yes))
			}
			b.mustPass()
		})
	}
}

// Who finds nothing left of a budget, after his call was approved, has used nothing: there was no ALLOW.
func TestApprovalUnderSpentBudget(t *testing.T) {
	b := newBank(t, func(o *helm.Options) {
		o.Policy = compile(t, bankText+"budgets:\n  - {id: few, tools: [pay], limit: 1, per: all, window: hour, cost: 1, refund: error}\n")
	})
	yes := b.approve(b.ask("pay", rent), seedAnn)
	elsewhere := func(in *helm.Intent) { in.Session = "elsewhere" }
	theirs := b.approve(b.ask("pay", rent, elsewhere), seedAnn)
	b.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		if c.Session == "elsewhere" {
			if d, _ := b.do("pay", rent, with(yes)); d.Reason != contracts.ReasonBudgetExceeded {
				t.Errorf("%s", d.Reason)
			}
		}
		return executor.Result{}, errOwn
	}
	if d, _ := b.do("pay", rent, elsewhere, with(theirs)); !errors.Is(d.Err(), errOwn) || b.runs.Swap(0) != 1 {
		t.Errorf("%s %v", d.Reason, d.Err())
	}
	b.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		return executor.Result{Output: c.Args}, nil
	}
	b.mustDo("pay", rent, with(yes))
	b.mustPass()
}

// A closed session has no past that anybody could ask for; one of that name is denied, and others are as they were.
func TestApprovalOfClosedSession(t *testing.T) {
	b := newBank(t)
	b.mustDo("pay", rent, with(b.approve(b.ask("pay", rent), seedBob)))
	b.pass(time.Second)
	yes := b.approve(b.ask("pay", rent), seedAnn)
	if err := b.k.CloseSession(context.Background(), "chat"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d, r := b.do("pay", rent, with(yes))
		b.mustBe(d, r, want{reason: contracts.ReasonSessionClosed, outcome: contracts.Denied, err: helm.ErrDenied})
		b.reopen()
	}
	b.mustPass()
}
