package approval

import (
	"context"
	"errors"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A denial has its own cause. A call that is denied for its arguments does not have the error of an
// earlier call that could not be read.
func TestCauseIsOfTheReason(t *testing.T) {
	t.Parallel()
	errRead := errors.New("read error")
	b := kerneltest.NewBank(t, func(o *helm.Options) { delete(o.Drivers, "move") })
	b.MustDo("look", look("17"))
	b.Reopen()
	b.Store.Store = kerneltest.ReadStore{Store: b.Store.Store,
		OnBlob: func(contracts.Digest) ([]byte, error) { return nil, errRead }}
	ctx := helm.With(context.Background(), helm.Intent{Session: "chat", Caller: helm.Caller{ID: "kim"}})
	type loose struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	move := helm.Wrap(b.Kernel, "move", func(context.Context, loose) (int, error) { b.Runs.Add(1); return 0, nil })
	var e *helm.Error
	_, err := move(ctx, loose{"16", "17"})
	require.ErrorAs(t, err, &e, "what cannot be read")
	assert.Equal(t, contracts.ReasonFailClosedError, e.Reason)
	assert.ErrorIs(t, err, errRead)
	unfit := helm.Wrap(b.Kernel, "move", func(context.Context, hollow) (int, error) { b.Runs.Add(1); return 0, nil })
	_, err = unfit(ctx, hollow{})
	require.ErrorAs(t, err, &e, "what does not fit")
	assert.Equal(t, contracts.ReasonSchemaViolation, e.Reason)
	assert.NotErrorIs(t, err, errRead)
	assert.Equal(t, int64(0), b.Runs.Load(), "something ran")
}

// hollow is an argument that cannot be read back.
type hollow struct{}

func (hollow) MarshalJSON() ([]byte, error) { return []byte(there), nil }

func (*hollow) UnmarshalJSON([]byte) error { return errors.New("unreadable") }
