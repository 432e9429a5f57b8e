package waiting

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// A key in a KMS that does not answer holds up no call for more than 10 seconds, be it the
// signature of a denial, of a permission or of a receipt. It has failed then: nothing runs, or
// nothing is released, and the next New settles what was open.
func TestSignerThatDoesNotAnswer(t *testing.T) {
	kerneltest.OneWriter(t, "its stores are others")
	t.Parallel()
	for name, x := range map[string]struct {
		tool string
		at   int64
		want kerneltest.Want
	}{
		"denial": {"nobody", 1, kerneltest.Want{Reason: contracts.ReasonToolNotFound, Err: helm.ErrDenied}},
		"permission": {"echo", 1, kerneltest.Want{Reason: contracts.ReasonFailClosedError,
			Err: helm.ErrDenied}},
		"receipt": {"echo", 2, kerneltest.NotStored()},
	} {
		t.Run(name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, onStore func(*helm.Options)) {
				w, release := kerneltest.New(t, onStore), make(chan struct{})
				w.Key.Hangs = release
				w.Key.FailIn(x.at)
				begun := time.Now()
				w.MustCall(x.want, x.tool, `{}`)
				assert.Equal(t, 10*time.Second, time.Since(begun))
				w.MustBeSealed()
				close(release)
				synctest.Wait()
				w.MustRecover(nil)
			})
		})
	}
}
