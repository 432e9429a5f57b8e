package calls

import (
	"context"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// officeHours denies writes at night.
const officeHours = `
helm: policy/v1
layer: P0
name: hours
version: 1
rules:
  - {id: night, deny: {effects: [write]}, unless: {time: utc, in: ["Mon-Sun 08:00-18:00"]}}
`

// One reading a day ahead moves a session's time there. Until the clock comes there too, no call of
// the session is judged: by a time that stands still an approval would not expire, a receipt not
// grow old, and an office not close.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	const behind = contracts.ReasonFailClosedError
	for name, files := range map[string]bool{"memory": false, "files": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := kerneltest.NewBank(t, func(o *helm.Options) {
				o.Policy = kerneltest.Compile(t, kerneltest.BankPolicy, officeHours)
				if files {
					kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
				}
			})
			const look, move = `{"account":"landlord"}`, `{"from":"ann","to":"landlord"}`
			yes := b.ApprovedRent(kerneltest.Ann) // for 10 minutes
			b.MustDo("look", look)                // counts for 30 minutes
			b.MustDo("move", move)
			b.Pass(24 * time.Hour)
			b.MustDo("tell", `{}`)

			b.Pass(-24*time.Hour + 13*time.Hour) // 22:00 of the first day
			d := b.MustNotPay(behind, yes)
			assert.Equal(t, "the clock is behind the session by 11h0m0s", d.Why)
			assert.Zero(t, d.Record.Condition)
			assert.ErrorIs(t, d.Err(), helm.ErrDenied)
			b.MustNotDo(behind, "move", move)
			b.MustNotDo(behind, "tell", `{}`)
			b.MustDo("look", look, kerneltest.InSession("other")) // whose time is earlier
			b.MustNotDo(contracts.ReasonCeilingViolation, "tell", `{}`, kerneltest.InSession("other"))

			b.Pass(11*time.Hour - 2*time.Minute) // 2 minutes before the session
			b.MustDo("tell", `{}`)
			b.Pass(-time.Millisecond)
			b.MustNotDo(behind, "tell", `{}`)

			b.Pass(2 * time.Minute)
			b.MustNotPay(contracts.ReasonApprovalExpired, yes)
			b.MustNotDo(contracts.ReasonMissingRequirement, "move", move)
			b.MustDo("tell", `{}`)
			b.MustPass()
		})
	}
}

// What judges no call is recorded whatever the clock shows, at the session's time: the end of a
// session, an event of trust, and at the next New the calls without a receipt.
func TestClockBehindRecords(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	b.MustDo("tell", `{}`)
	b.Pass(-48 * time.Hour)
	freeze := contracts.TrustEvent{Type: "freeze", Why: "drill", Origin: kerneltest.Origin, Version: 2}
	require.NoError(t, b.Kernel.CloseSession(t.Context(), "chat"))
	err := b.Kernel.Govern(t.Context(), kerneltest.SignEvent(t, freeze, kerneltest.BankRoot))
	require.NoError(t, err)
	b.MustPass()

	w := kerneltest.New(t)
	now := kerneltest.Noon
	w.Options.Now = func() time.Time { return now }
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		w.Store.FailIn(1) // the receipt
		return executor.Result{}, nil
	}
	w.MustCall(kerneltest.NotStored(), "echo", `{}`)
	now = now.Add(-48 * time.Hour)
	w.MustRecover(nil)
}

// A clock that reads what no record can hold, or panics, denies. What it read is written nowhere.
func TestClockOutOfRange(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{{}, time.Date(1969, 12, 31, 23, 59, 59, 999e6, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<62, 0), time.Unix(-1<<62, 0)} {
		now := kerneltest.Noon
		w := kerneltest.New(t, func(o *helm.Options) { o.Now = func() time.Time { return now } })
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			now = at // while the tool runs: its end is recorded all the same
			return executor.Result{}, nil
		}
		_, r := w.MustCall(kerneltest.Executed("null"), "echo", `{}`)
		d, _ := w.MustCall(kerneltest.Denied(contracts.ReasonFailClosedError), "echo", `{}`)
		assert.Equal(t, "the clock is outside the years 1970 to 9999", d.Why)
		now = kerneltest.Noon
		w.Tool = kerneltest.ReturnsArgs
		_, after := w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{}`)
		for _, r := range []helm.Receipt{r, after} {
			st, err := new(contracts.Reader).Open(r.Entry)
			require.NoError(t, err)
			s, err := st.Statement()
			require.NoError(t, err)
			assert.Equal(t, contracts.TimeOf(kerneltest.Noon), s.Header.Time)
		}
		w.MustVerify()

		o := w.Options
		o.Now = func() time.Time { return at }
		_, err := helm.New(o)
		assert.ErrorContains(t, err, "the clock is outside the years 1970 to 9999")
	}
}
