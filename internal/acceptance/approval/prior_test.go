package approval

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
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const there = `{"from":"16","to":"17"}`

func look(account string) string { return fmt.Sprintf(`{"account":%q}`, account) }

// Money moves to an account only if a look at it succeeded in this session, not long ago.
func TestPriorReceipt(t *testing.T) {
	t.Parallel()
	const missing = contracts.ReasonMissingRequirement
	b := kerneltest.NewBank(t)
	b.MustNotDo(missing, "move", there)
	b.MustDo("look", look("16"))
	b.MustNotDo(missing, "move", there) // another account

	// A look that was denied, failed or withheld satisfies nothing.
	b.MustNotDo(contracts.ReasonSchemaViolation, "look", `{"account":"17","page":"two"}`)
	b.Tool = kerneltest.NoOutput(kerneltest.ErrTool)
	_, r := b.Do("look", look("17"))
	require.Equal(t, contracts.Failed, r.Record.Outcome)
	require.Equal(t, int64(1), b.Runs.Swap(0))
	b.Tool = kerneltest.Returns(`{"account":17}`, nil)
	_, r = b.Do("look", look("17"))
	require.Equal(t, contracts.Withheld, r.Record.Outcome)
	require.Equal(t, int64(1), b.Runs.Swap(0))
	b.MustNotDo(missing, "move", there)
	b.Reopen()
	b.MustNotDo(missing, "move", there)
	b.Tool = kerneltest.ReturnsArgs

	// A look in another session satisfies nothing here.
	d, _ := b.Do("look", look("17"), kerneltest.InSession("other"))
	require.NoError(t, d.Err())
	require.Equal(t, int64(1), b.Runs.Swap(0))
	b.MustNotDo(missing, "move", there)

	b.MustDo("look", `{"account":"17","page":2}`)
	b.MustDo("move", there)
	b.MustNotDo(missing, "move", `{"from":"17","to":"18"}`)
	b.Pass(30 * time.Minute)
	b.MustDo("move", there)
	b.Pass(time.Millisecond)
	b.MustNotDo(missing, "move", there) // too long ago
	b.MustDo("look", look("17"))
	b.MustDo("move", there)
	// the session of calls without one is shared
	b.MustNotDo(contracts.ReasonFailClosedError, "move", there, kerneltest.InSession(""))
	b.MustNotDo(contracts.ReasonFailClosedError, "move", there,
		func(in *helm.Intent) { in.Session = contracts.DefaultSession })
	b.MustAgree(b.MustPass())
}

// A call that is permitted and not concluded satisfies nothing yet.
func TestPriorReceiptOfRunningCall(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	b.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "look" {
			d, r := b.Kernel.Guard(ctx, helm.Intent{Tool: "move", Args: []byte(there)})
			assert.Equal(t, contracts.ReasonMissingRequirement, d.Reason, "from inside")
			assert.Equal(t, contracts.Denied, r.Record.Outcome)
		}
		return executor.Result{Output: c.Args}, nil
	}
	b.MustDo("look", look("17"))
	b.MustDo("move", there)
	b.MustPass()
}

// After a restart the arguments of earlier calls are read from the store. If they are not kept, or
// are not what they were, the requirement cannot be decided: DENY. A later look satisfies it again.
func TestPriorReceiptOverRestart(t *testing.T) {
	t.Parallel()
	errRead := errors.New("read error")
	for name, x := range map[string]struct {
		lose   func(s proofgraph.Store) proofgraph.Store
		reason contracts.ReasonCode
	}{
		"kept":    {func(s proofgraph.Store) proofgraph.Store { return s }, contracts.ReasonAllow},
		"dropped": {func(s proofgraph.Store) proofgraph.Store { return s }, contracts.ReasonFailClosedError},
		"erased": {func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s,
				OnBlob: func(contracts.Digest) ([]byte, error) { return nil, proofgraph.ErrNoBlob }}
		}, contracts.ReasonFailClosedError},
		"failing": {func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s,
				OnBlob: func(contracts.Digest) ([]byte, error) { return nil, errRead }}
		}, contracts.ReasonFailClosedError},
		"panicking": {func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s, OnBlob: func(contracts.Digest) ([]byte, error) { panic("disk") }}
		}, contracts.ReasonFailClosedError},
		"empty": {func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s, OnBlob: func(contracts.Digest) ([]byte, error) { return nil, nil }}
		}, contracts.ReasonFailClosedError},
		"another document": {func(s proofgraph.Store) proofgraph.Store { return kerneltest.LyingStore{Store: s} },
			contracts.ReasonFailClosedError},
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t, func(o *helm.Options) { o.Keep.DropInputs = name == "dropped" })
			b.MustDo("look", look("17"))
			b.MustDo("look", look("16"))
			b.MustDo("move", there) // this process knows
			b.Reopen()
			honest := b.Store.Store
			b.Store.Store = x.lose(honest)
			if x.reason == contracts.ReasonAllow {
				b.MustDo("move", there)
				b.MustNotDo(contracts.ReasonMissingRequirement, "move", `{"from":"17","to":"18"}`)
			} else {
				b.MustNotDo(x.reason, "move", there)
				d := b.MustNotDo(x.reason, "move", there)
				assert.NotEmpty(t, d.Why)
				if cause := map[string]error{"failing": errRead, "erased": proofgraph.ErrNoBlob}[name]; cause != nil {
					assert.ErrorIs(t, d.Err(), cause)
				}
				b.MustDo("look", look("17"))
				b.MustDo("move", there) // the latest is known, so nothing is read
			}
			b.Store.Store = honest
			if name != "dropped" {
				b.MustDo("move", there)
			}
			b.MustPass()
		})
	}
}

// A policy that is swapped in may require a receipt that the session did not remember: it is read.
func TestPriorReceiptUnderSwap(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	b.MustDo("look", `{"account":"17","page":3}`)
	b.MustDo("look", `{"account":"16","page":4}`)
	const asks = "{receipt: look, same: {/account: /to}, max_age: 30m}"
	b.Swap(kerneltest.EditedBank(t, "version: 1", "version: 2", asks, "{receipt: look, same: {/account: /from}}"))
	b.MustDo("move", there)
	b.MustNotDo(contracts.ReasonMissingRequirement, "move", `{"from":"18","to":"17"}`)
	b.Swap(kerneltest.EditedBank(t, "version: 1", "version: 3", asks, "{receipt: look}"))
	b.MustDo("move", `{"from":"18","to":"19"}`)
	b.Swap(kerneltest.EditedBank(t, "version: 1", "version: 4", asks, "{receipt: tell}"))
	b.MustNotDo(contracts.ReasonMissingRequirement, "move", there)
	b.MustDo("tell", `{}`)
	b.MustDo("move", there)
	b.MustAgree(b.MustPass())
}

// The entries of the store are not trusted: the decision of another call is not the one of the call
// that was seen.
func TestPriorReceiptTrustsNoStore(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	other, _ := b.MustDo("look", look("16"))
	b.MustDo("look", look("17"))
	b.Reopen()
	honest := b.Store.Store
	b.Store.Store = kerneltest.ReadStore{Store: honest,
		OnEntries: func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
			return honest.Entries(ctx, from-2, to-2)
		}}
	lied := func() {
		t.Helper()
		d, r := b.Do("move", `{"from":"17","to":"16"}`)
		b.Store.Store = honest
		b.MustBe(d, r, kerneltest.Denied(contracts.ReasonFailClosedError))
	}
	lied()
	// the inputs of another call, well formed
	b.Store.Store = kerneltest.ReadStore{Store: honest, OnBlob: func(contracts.Digest) ([]byte, error) {
		return honest.Blob(context.Background(), other.Record.InputsHash)
	}}
	lied()
	b.MustDo("move", `{"from":"17","to":"16"}`)
	b.MustPass()
}

// A narrowed task that may only move money relies on the receipts of its session before it was
// narrowed, and on nothing else.
func TestPriorReceiptNarrowed(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	root := b.Kernel
	b.Kernel = b.Narrow(root, kerneltest.Document(t, "{helm: policy/v1, layer: P2, name: task, only: [move]}"))
	b.MustNotDo(contracts.ReasonMissingRequirement, "move", there)
	b.MustNotDo(contracts.ReasonPolicyViolation, "look", look("17"))
	task := b.Kernel
	b.Kernel = root
	b.MustDo("look", look("17"))
	b.Kernel = task
	b.MustDo("move", there)
	require.NoError(t, root.Swap(t.Context(), kerneltest.EditedBank(t, "version: 1}", "version: 2}")))
	b.MustDo("move", there)
	b.Kernel = root
	b.MustAgree(b.MustPass())
}
