package helm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
)

const there = `{"from":"16","to":"17"}`

func look(account string) string { return fmt.Sprintf(`{"account":%q}`, account) }

// Money moves to an account that somebody looked at in this session, not long ago, and saw.
func TestPriorReceipt(t *testing.T) {
	const missing = contracts.ReasonMissingRequirement
	b := newBank(t)
	b.mustNotDo(missing, "move", there)
	b.mustDo("look", look("16"))
	b.mustNotDo(missing, "move", there) // another account

	// What was denied, failed or withheld showed nobody anything.
	b.mustNotDo(contracts.ReasonSchemaViolation, "look", `{"account":"17","page":"two"}`)
	b.tool = func(context.Context, contracts.Call) (executor.Result, error) { return executor.Result{}, errOwn }
	if d, r := b.do("look", look("17")); r.Record.Outcome != contracts.Failed || b.runs.Swap(0) != 1 {
		t.Fatalf("%s", d.Reason)
	}
	b.tool = func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{Output: []byte(`{"account":17}`)}, nil
	}
	if d, r := b.do("look", look("17")); r.Record.Outcome != contracts.Withheld || b.runs.Swap(0) != 1 {
		t.Fatalf("%s", d.Reason)
	}
	b.mustNotDo(missing, "move", there)
	b.reopen()
	b.mustNotDo(missing, "move", there)
	b.tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		return executor.Result{Output: c.Args}, nil
	}

	// What was seen elsewhere was not seen here.
	if d, _ := b.do("look", look("17"), func(in *helm.Intent) { in.Session = "other" }); d.Err() != nil || b.runs.Swap(0) != 1 {
		t.Fatal(d.Err())
	}
	b.mustNotDo(missing, "move", there)

	b.mustDo("look", `{"account":"17","page":2}`)
	b.mustDo("move", there)
	b.mustNotDo(missing, "move", `{"from":"17","to":"18"}`)
	b.pass(30 * time.Minute)
	b.mustDo("move", there)
	b.pass(time.Millisecond)
	b.mustNotDo(missing, "move", there) // too long ago
	b.mustDo("look", look("17"))
	b.mustDo("move", there)
	b.mustNotDo(contracts.ReasonFailClosedError, "move", there, func(in *helm.Intent) { in.Session = "" }) // everybody's session is nobody's
	b.mustNotDo(contracts.ReasonFailClosedError, "move", there, func(in *helm.Intent) { in.Session = contracts.DefaultSession })
	b.mustAgree(b.mustPass())
}

// A call that is permitted and not concluded yet has shown nothing.
func TestPriorReceiptOfRunningCall(t *testing.T) {
	b := newBank(t)
	b.tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "look" {
			if d, r := b.k.Guard(ctx, helm.Intent{Tool: "move", Args: []byte(there)}); d.Reason != contracts.ReasonMissingRequirement || r.Record.Outcome != contracts.Denied {
				t.Errorf("from inside: %s", d.Reason)
			}
		}
		return executor.Result{Output: c.Args}, nil
	}
	b.mustDo("look", look("17"))
	b.mustDo("move", there)
	b.mustPass()
}

// After a restart the arguments of earlier calls are read from the store. Where they are not kept, or are not what they were, it cannot be told
// what was seen: DENY, though somebody may have seen it. A later look is good again.
func TestPriorReceiptOverRestart(t *testing.T) {
	errRead := errors.New("read error")
	for name, x := range map[string]struct {
		lose   func(s proofgraph.Store) proofgraph.Store
		reason contracts.ReasonCode
	}{
		"kept":    {func(s proofgraph.Store) proofgraph.Store { return s }, contracts.ReasonAllow},
		"dropped": {func(s proofgraph.Store) proofgraph.Store { return s }, contracts.ReasonFailClosedError},
		"erased": {func(s proofgraph.Store) proofgraph.Store {
			return reader{Store: s, blob: func(contracts.Digest) ([]byte, error) { return nil, proofgraph.ErrNoBlob }}
		}, contracts.ReasonFailClosedError},
		"failing": {func(s proofgraph.Store) proofgraph.Store {
			return reader{Store: s, blob: func(contracts.Digest) ([]byte, error) { return nil, errRead }}
		}, contracts.ReasonFailClosedError},
		"panicking": {func(s proofgraph.Store) proofgraph.Store {
			return reader{Store: s, blob: func(contracts.Digest) ([]byte, error) { panic("disk") }}
		}, contracts.ReasonFailClosedError},
		"empty": {func(s proofgraph.Store) proofgraph.Store {
			return reader{Store: s, blob: func(contracts.Digest) ([]byte, error) { return nil, nil }}
		}, contracts.ReasonFailClosedError},
		"another document": {func(s proofgraph.Store) proofgraph.Store { return lying{s} }, contracts.ReasonFailClosedError},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, func(o *helm.Options) { o.Keep.DropInputs = name == "dropped" })
			b.mustDo("look", look("17"))
			b.mustDo("look", look("16"))
			b.mustDo("move", there) // this process knows
			b.reopen()
			honest := b.store.Store
			b.store.Store = x.lose(honest)
			if x.reason == contracts.ReasonAllow {
				b.mustDo("move", there)
				b.mustNotDo(contracts.ReasonMissingRequirement, "move", `{"from":"17","to":"18"}`)
			} else {
				b.mustNotDo(x.reason, "move", there)
				if d := b.mustNotDo(x.reason, "move", there); d.Why == "" || name == "failing" && !errors.Is(d.Err(), errRead) || name == "erased" && !errors.Is(d.Err(), proofgraph.ErrNoBlob) {
					t.Errorf("why: %s; cause: %v", d.Why, d.Err())
				}
				b.mustDo("look", look("17"))
				b.mustDo("move", there) // the latest is known, so nothing is read
			}
			b.store.Store = honest
			if name != "dropped" {
				b.mustDo("move", there)
			}
			b.mustPass()
		})
	}
}

// A policy that is swapped in may ask for what nobody kept in mind: it is read.
func TestPriorReceiptUnderSwap(t *testing.T) {
	b := newBank(t)
	b.mustDo("look", `{"account":"17","page":3}`)
	b.mustDo("look", `{"account":"16","page":4}`)
	const asks = "{receipt: look, same: {/account: /to}, max_age: 30m}"
	b.swap(edited(t, "version: 1", "version: 2", asks, "{receipt: look, same: {/account: /from}}"))
	b.mustDo("move", there)
	b.mustNotDo(contracts.ReasonMissingRequirement, "move", `{"from":"18","to":"17"}`)
	b.swap(edited(t, "version: 1", "version: 3", asks, "{receipt: look}"))
	b.mustDo("move", `{"from":"18","to":"19"}`)
	b.swap(edited(t, "version: 1", "version: 4", asks, "{receipt: tell}"))
	b.mustNotDo(contracts.ReasonMissingRequirement, "move", there)
	b.mustDo("tell", `{}`)
	b.mustDo("move", there)
	b.mustAgree(b.mustPass())
}

// The store's entries are not believed either: another call's decision is not that of the call that was seen.
func TestPriorReceiptTrustsNoStore(t *testing.T) {
	b := newBank(t)
	other, _ := b.mustDo("look", look("16"))
	b.mustDo("look", look("17"))
	b.reopen()
	honest := b.store.Store
	b.store.Store = reader{Store: honest, entries: func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
		return honest.Entries(ctx, from-2, to-2)
	}}
	lied := func() {
		t.Helper()
		d, r := b.do("move", `{"from":"17","to":"16"}`)
		b.store.Store = honest
		b.mustBe(d, r, want{reason: contracts.ReasonFailClosedError, outcome: contracts.Denied, err: helm.ErrDenied})
	}
	lied()
	b.store.Store = reader{Store: honest, blob: func(contracts.Digest) ([]byte, error) { // that of another call, well formed
		return honest.Blob(context.Background(), other.Record.InputsHash)
	}}
	lied()
	b.mustDo("move", `{"from":"17","to":"16"}`)
	b.mustPass()
}

// A task that may only move money goes by what its session saw before it was narrowed, and by nothing else.
func TestPriorReceiptNarrowed(t *testing.T) {
	b := newBank(t)
	root := b.k
	b.k = b.narrow(root, document(t, "{helm: policy/v1, layer: P2, name: task, only: [move]}"))
	b.mustNotDo(contracts.ReasonMissingRequirement, "move", there)
	b.mustNotDo(contracts.ReasonPolicyViolation, "look", look("17"))
	task := b.k
	b.k = root
	b.mustDo("look", look("17"))
	b.k = task
	b.mustDo("move", there)
	if err := root.Swap(t.Context(), edited(t, "version: 1}", "version: 2}")); err != nil {
		t.Fatal(err)
	}
	b.mustDo("move", there)
	b.k = root
	b.mustAgree(b.mustPass())
}
