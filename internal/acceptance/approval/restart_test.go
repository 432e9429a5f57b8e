package approval

import (
	"context"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In every later process a request is good for one use, and a used one stays used, in whichever
// approver's envelope.
func TestApprovalOverRestart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T) func(*helm.Options){
		"in memory": func(*testing.T) func(*helm.Options) { return func(*helm.Options) {} },
		"on disk": func(t *testing.T) func(*helm.Options) {
			return func(o *helm.Options) {
				s, err := filestore.Open(t.TempDir(), filestore.Options{})
				require.NoError(t, err)
				t.Cleanup(func() { s.Close() })
				o.Store = &kerneltest.FaultyStore{Store: s}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t, change(t))
			b.Store = kerneltest.Faulty(b.Options.Store)
			asked := b.AskToPay()
			ann, bob := b.Approve(asked, kerneltest.Ann), b.Approve(asked, kerneltest.Bob)
			b.Reopen()
			b.Pass(time.Second)
			b.MustPay(ann)
			b.Reopen()
			b.MustNotPay(contracts.ReasonApprovalInvalid, ann)
			b.MustNotPay(contracts.ReasonApprovalInvalid, bob)
			b.Pass(time.Second)
			b.MustPay(bob, b.ApprovedRent(kerneltest.Ann))
			b.MustPass()
		})
	}
}

// If inputs are not kept, or were erased, no later process can know which request an ALLOW
// consumed. So after a restart all requests of the same call until then count as used, and later
// ones are good. A process that knows relies on what it knows, and the verifier accepts both.
func TestApprovalOverRestartWithoutInputs(t *testing.T) {
	t.Parallel()
	const one = `{"to":"landlord","amount":1}`
	for _, x := range []struct {
		name                       string
		dropped, erased, restarted bool
	}{{"kept", false, false, true}, {"dropped", true, false, true}, {"erased", false, true, true},
		{"dropped, and known", true, false, false}, {"erased, and known", false, true, false}} {
		t.Run(x.name, func(t *testing.T) {
			b := kerneltest.NewBank(t, func(o *helm.Options) { o.Keep.DropInputs = x.dropped })
			first := b.AskToPay()
			b.Pass(time.Second)
			second := b.AskToPay()
			other := b.Ask("pay", one)
			d, _ := b.MustPay(b.Approve(first, kerneltest.Ann))
			if x.erased {
				whole := b.Store.Store
				b.Store.Store = kerneltest.ReadStore{Store: whole, OnBlob: func(x contracts.Digest) ([]byte, error) {
					if x == d.Record.InputsHash {
						return nil, proofgraph.ErrNoBlob
					}
					return whole.Blob(context.Background(), x)
				}}
			}
			if x.restarted {
				b.Reopen()
			}
			b.MustNotPay(contracts.ReasonApprovalInvalid, b.Approve(first, kerneltest.Bob))
			if x.restarted && x.name != "kept" {
				b.MustNotPay(contracts.ReasonApprovalInvalid, b.Approve(second, kerneltest.Bob))
			} else {
				b.MustPay(b.Approve(second, kerneltest.Bob))
			}
			b.MustDo("pay", one, kerneltest.With(b.Approve(other, kerneltest.Bob)))
			b.Pass(time.Second)
			b.MustPay(b.ApprovedRent(kerneltest.Bob))
			report := b.MustPass()
			if x.name == "erased" {
				b.MustAgree(report)
			}
		})
	}
}

// A store that cannot read its blobs, or has others, cannot be continued: what the kernel took for
// used would differ from the log.
func TestApprovalOverDamagedInputs(t *testing.T) {
	kerneltest.OneWriter(t, "New reads no inputs of a log that others write to")
	t.Parallel()
	for name, lie := range map[string]func() ([]byte, error){
		"lost":     func() ([]byte, error) { return nil, kerneltest.ErrDisk },
		"mangled":  func() ([]byte, error) { return []byte("mangled"), nil },
		"panics":   func() ([]byte, error) { panic("disk") },
		"is empty": func() ([]byte, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			asked := b.AskToPay()
			d, _ := b.MustPay(b.Approve(asked, kerneltest.Ann))
			b.Close()
			honest := b.Store.Store
			b.Store.Store = kerneltest.ReadStore{Store: honest, OnBlob: func(of contracts.Digest) ([]byte, error) {
				if of == d.Record.InputsHash {
					return lie()
				}
				return honest.Blob(t.Context(), of)
			}}
			k, err := helm.New(b.Options)
			assert.Nil(t, k)
			assert.ErrorContains(t, err, d.Record.ID)
			b.Store.Store = honest
			b.Open()
			b.MustNotPay(contracts.ReasonApprovalInvalid, b.Approve(asked, kerneltest.Bob))
			b.MustPass()
		})
	}
}

// A call with an unknown outcome has used its approval.
func TestApprovalOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	yes := b.ApprovedRent(kerneltest.Ann)
	b.Store.FailIn(2) // the receipt
	d, r := b.Pay(yes)
	b.MustBe(d, r, kerneltest.NotStored())
	b.Open()
	unknown := false
	for _, st := range b.Statements() {
		unknown = unknown || st.Receipt != nil && st.Receipt.Reason == contracts.ReasonOutcomeUnknown
	}
	assert.True(t, unknown, "the call was not settled")
	b.MustNotPay(contracts.ReasonApprovalInvalid, yes)
	b.MustAgree(b.MustPass())
}

// A permission that could not be stored ran nothing. Whether it used the approval is up to the log,
// which the next kernel reads: the entry may be there, though the store returned an error.
func TestApprovalOfLostPermission(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		how   func(error) error
		after contracts.ReasonCode
	}{
		"not written":          {nil, contracts.ReasonAllow},
		"written all the same": {func(error) error { return kerneltest.ErrDisk }, contracts.ReasonApprovalInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			b := kerneltest.NewBank(t)
			yes := b.ApprovedRent(kerneltest.Ann)
			b.Store.OnFail = x.how
			b.Store.FailIn(1)
			d, r := b.Pay(yes)
			b.MustBe(d, r, kerneltest.Want{Reason: contracts.ReasonFailClosedError, Err: helm.ErrDenied})
			d, _ = b.Do("tell", `{}`)
			assert.Equal(t, contracts.ReasonKernelSealed, d.Reason, "the kernel goes on")
			b.Open()
			if x.after == contracts.ReasonAllow {
				b.MustPay(yes)
			} else {
				b.MustNotPay(x.after, yes)
			}
			b.MustPass()
		})
	}
}

// A call that finds its budget spent after it was approved has consumed nothing: there was no
// ALLOW.
func TestApprovalUnderSpentBudget(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t,
			kerneltest.BankPolicy+
				"budgets:\n  - {id: few, tools: [pay], limit: 1, per: all, window: hour, cost: 1, refund: error}\n")
	})
	yes := b.ApprovedRent(kerneltest.Ann)
	elsewhere := kerneltest.InSession("elsewhere")
	theirs := b.Approve(b.Ask("pay", kerneltest.Rent, elsewhere), kerneltest.Ann)
	b.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		if c.Session == "elsewhere" {
			d, _ := b.Pay(yes)
			assert.Equal(t, contracts.ReasonBudgetExceeded, d.Reason)
		}
		return executor.Result{}, kerneltest.ErrTool
	}
	d, _ := b.Do("pay", kerneltest.Rent, elsewhere, kerneltest.With(theirs))
	assert.ErrorIs(t, d.Err(), kerneltest.ErrTool)
	assert.Equal(t, int64(1), b.Runs.Swap(0))
	b.Tool = kerneltest.ReturnsArgs
	b.MustPay(yes)
	b.MustPass()
}

// A closed session has no past to read. A call of that session is denied, and other sessions are as
// they were.
func TestApprovalOfClosedSession(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	b.MustPay(b.ApprovedRent(kerneltest.Bob))
	b.Pass(time.Second)
	yes := b.ApprovedRent(kerneltest.Ann)
	require.NoError(t, b.Kernel.CloseSession(context.Background(), "chat"))
	for range 2 {
		d, r := b.Pay(yes)
		b.MustBe(d, r, kerneltest.Denied(contracts.ReasonSessionClosed))
		b.Reopen()
	}
	b.MustPass()
}
