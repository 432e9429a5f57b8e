package replicas

import (
	"context"
	stdcrypto "crypto"
	"errors"
	"io"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
)

// A remote key is not in memory, and takes a second for a signature.
type remote struct {
	stdcrypto.Signer
	mu    sync.Mutex
	now   int
	most  int   // signatures at once
	fails error // of the last one of those that are at once
}

func (r *remote) Sign(random io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	r.mu.Lock()
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	time.Sleep(time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if r.fails != nil && r.now == 0 && r.most > 1 {
		return nil, r.fails
	}
	return r.Signer.Sign(random, msg, o)
}

// queue has n calls wait while the decision of another one is written, and returns how all of them
// ended.
func (f *fleet) queue(n int, session func(i int) string) []helm.Decision {
	hold := make(chan struct{})
	f.store.Hook(sharedmem.Hooks{Before: func(_ context.Context, op sharedmem.Op) error {
		if op.Name == "Put" {
			<-hold
		}
		return nil
	}})
	decisions := make([]helm.Decision, n+1)
	var all sync.WaitGroup
	for i := range n + 1 {
		all.Go(func() { decisions[i], _ = f.call(f.kernels[0], session(i)) })
		synctest.Wait()
	}
	time.Sleep(time.Minute)
	close(hold)
	all.Wait()
	return decisions
}

const waiting = 20

func own(i int) string { return "s" + strconv.Itoa(i) }

// TestSignedTogether: a key that is not in memory is asked for the entries of all sessions of a
// batch at once, and for those of one session one after the other.
func TestSignedTogether(t *testing.T) {
	for what, session := range map[string]func(int) string{"own": own, "main": func(int) string { return "" }} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key := &remote{Signer: kerneltest.SeedKey(t, 1)}
				f := newFleet(t, 1, kerneltest.Policy, func(o *helm.Options) { o.Key = key })
				for _, d := range f.queue(waiting, session) {
					assert.NoError(t, d.Err())
				}
				if what == "own" {
					assert.GreaterOrEqual(t, key.most, waiting)
				} else {
					assert.Equal(t, 1, key.most)
				}
				f.agreed(f.kernels[0])
			})
		})
	}
}

// TestOneOfManyIsNotSigned: if one of the entries that are signed together is not, none is written,
// and the log is sealed.
func TestOneOfManyIsNotSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("the key is not to be had")
		key := &remote{Signer: kerneltest.SeedKey(t, 1), fails: refused}
		f := newFleet(t, 1, kerneltest.Policy, func(o *helm.Options) { o.Key = key })
		for i, d := range f.queue(waiting, own) {
			assert.Error(t, d.Err(), "call %d", i)
			assert.Contains(t, []contracts.ReasonCode{contracts.ReasonFailClosedError, contracts.ReasonReceiptNotStored},
				d.Reason, "call %d", i)
		}
		assert.LessOrEqual(t, f.runs.Load(), int64(1), "a call without a durable permission has run")
		decisions := 0
		for _, st := range f.statements() {
			if st.Decision != nil {
				decisions++
			}
		}
		assert.Equal(t, 1, decisions)
	})
}

// TestGathered: callers that come back after an append are in the next one together: a leader lets
// them place their entries before it makes the batch. There is one processor, so that no goroutine
// comes before it is let.
func TestGathered(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f := newFleet(t, 1, kerneltest.Policy)
	var sizes []int
	f.store.Hook(sharedmem.Hooks{Before: func(_ context.Context, op sharedmem.Op) error {
		if n := len(op.Change.Entries); n > 0 {
			sizes = append(sizes, n)
		}
		return nil
	}})
	calls := func() {
		var all sync.WaitGroup
		for i := range waiting {
			all.Go(func() {
				d, _ := f.call(f.kernels[0], own(i))
				assert.NoError(t, d.Err())
			})
		}
		all.Wait()
	}
	calls() // the sessions begin
	sizes = nil
	calls()
	// Two of all, unless the scheduler takes the processor from a caller that has run for long.
	assert.LessOrEqual(t, len(sizes), waiting/2, "appends of %d calls", waiting)
}
