package log

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// makeCalls makes six calls of every sort and counts the answers. It returns the receipts too.
func makeCalls(w *kerneltest.World) (released, denied, withheld int, stored []helm.Receipt) {
	for i, x := range []struct{ tool, args string }{
		{"echo", `{"text":"1"}`}, {"echo", `{"text":"secret"}`}, {"pinned", `{}`}, {"nobody", `{}`},
		{"echo", `{"text":"2"}`}, {"echo", `[]`},
	} {
		d, r := w.Call(x.tool, x.args, func(in *helm.Intent) { in.Session = fmt.Sprint("s", i%2) })
		err := d.Err()
		switch {
		case err == nil:
			released++
		case errors.Is(err, helm.ErrDenied):
			denied++
		case errors.Is(err, helm.ErrWithheld):
			withheld++
		}
		if len(r.Entry) > 0 {
			stored = append(stored, r)
		}
		assert.Equal(w.T, r.Output != nil, err == nil, "call %d", i)
	}
	return
}

func TestStoreFailsAtEveryCall(t *testing.T) {
	t.Parallel()
	sane := kerneltest.New(t)
	base := sane.Store.Appends() // New's own
	released, _, _, _ := makeCalls(sane)
	appends := sane.Store.Appends() - base
	require.GreaterOrEqual(t, appends, 9, "the story is not the one that the cases were made for")
	require.Equal(t, 2, released)
	for how, f := range map[string]func(error) error{
		"writes nothing":          nil,
		"writes, reports failure": func(error) error { return kerneltest.ErrDisk },
		"panics":                  func(error) error { panic("disk") },
	} {
		for n := 1; n <= appends; n++ {
			t.Run(fmt.Sprintf("%s, %d", how, n), func(t *testing.T) {
				w := kerneltest.New(t)
				w.Store.OnFail = f
				w.Store.FailIn(n)
				released, denied, withheld, stored := makeCalls(w)
				assert.NotNil(t, w.Kernel.Trust())
				assert.Equal(t, 6, released+denied+withheld)
				assert.LessOrEqual(t, withheld, 2)
				d, _ := w.Call("echo", `{}`)
				assert.Equal(t, contracts.ReasonKernelSealed, d.Reason, "not sealed")
				w.MustRecover(stored)
			})
		}
	}
}

func TestSignerFailsAtEverySignature(t *testing.T) {
	t.Parallel()
	sane := kerneltest.New(t)
	base := sane.Key.Signatures()
	makeCalls(sane)
	signatures := int(sane.Key.Signatures() - base)
	require.GreaterOrEqual(t, signatures, 9)
	for _, panics := range []bool{false, true} {
		for n := 1; n <= signatures; n++ {
			t.Run(fmt.Sprintf("panics %v, %d", panics, n), func(t *testing.T) {
				w := kerneltest.New(t)
				w.Key.Panics = panics
				w.Key.FailIn(int64(n))
				_, _, _, stored := makeCalls(w)
				d, _ := w.Call("echo", `{}`)
				assert.Equal(t, contracts.ReasonKernelSealed, d.Reason, "not sealed")
				w.MustRecover(stored)
			})
		}
	}
}

// New fails at each of its appends; the next New continues with what is there.
func TestNewFailsAtEveryAppend(t *testing.T) {
	kerneltest.OneWriter(t, "a kernel that is abandoned leaves its store a moment later")
	t.Parallel()
	for n := 1; ; n++ {
		w := kerneltest.New(t)
		w.Store.FailIn(2)
		w.Call("echo", `{}`) // open: the receipt was not stored
		w.Store.FailIn(n)
		k, err := helm.New(w.Options)
		if err == nil {
			require.NotEqual(t, 1, n, "New appended nothing")
			k.Close()
			return
		}
		assert.Nil(t, k, "append %d", n)
		assert.ErrorIs(t, err, kerneltest.ErrDisk, "append %d", n)
		w.Store.Heal()
		w.Runs.Store(0)
		w.Open()
		assert.NotEqual(t, uint64(0), w.MustVerify().Size, "an empty log")
	}
}

// New settles the calls that were open in the order of their permissions.
func TestSettledInLogOrder(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "slow" {
			w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "inner"})
		}
		return executor.Result{}, nil
	}
	w.Store.FailIn(3) // the receipt of the inner call
	w.Call("slow", `{}`)
	w.Open()
	var permitted, settled []contracts.Digest
	for i, st := range w.Statements() {
		switch {
		case st.Decision != nil:
			permitted = append(permitted, w.Entry(i).Hash())
		case st.Receipt != nil:
			settled = append(settled, st.Receipt.DecisionHash)
		}
	}
	require.Len(t, permitted, 2)
	assert.Equal(t, permitted, settled)
}

func TestCheckpointFailureSeals(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Call("echo", `{}`)
	w.Runs.Store(0)
	w.Store.FailIn(1)
	_, err := w.Kernel.Checkpoint(context.Background())
	assert.ErrorIs(t, err, kerneltest.ErrDisk, "checkpoint")
	w.MustBeSealed()
	w.MustRecover(nil)
}
