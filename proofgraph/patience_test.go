package proofgraph

import (
	"context"
	stdcrypto "crypto"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/keys"
)

// A silent signer does not answer until release is closed, after it has answered a few times.
type silent struct {
	crypto.PrivateKey
	answers atomic.Int64
	release chan struct{}
}

func newSilent(t *testing.T, seed byte, answers int64) *silent {
	s := &silent{PrivateKey: seedKey(t, seed), release: make(chan struct{})}
	s.answers.Store(answers)
	return s
}

func (s *silent) Sign(r io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	if s.answers.Add(-1) < 0 {
		<-s.release
	}
	return s.PrivateKey.Sign(r, msg, o)
}

// A signer that does not answer has failed after 10 seconds. Those who ask it at the same time, and
// those who wait for their entries, get the cause then. What it signs later is dropped.
func TestSignerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t), newSilent(t, 1, 3) // genesis, a and b
		w.options.Key = key
		w.open()
		w.say("a")
		first := w.place(w.log.Chain("b"))
		w.sign(first)
		var all sync.WaitGroup
		for i := range 2 {
			s := w.place(w.log.Chain([]string{"c", "d"}[i]))
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				begun := time.Now()
				err := sign(s, message())
				assert.Equal(t, keys.Patience-time.Duration(i)*time.Second, time.Since(begun))
				assert.ErrorIs(t, err, errSilent)
				assert.ErrorIs(t, s.Wait(), errSilent)
				assert.Nil(t, s.Entry())
			})
		}
		all.Wait()
		assert.ErrorIs(t, first.Wait(), errSilent, "nobody had written it")
		mustBeSealed(t, w, w.log.Chain("a"))
		close(key.release)
		synctest.Wait()
		assert.Len(t, w.reread(), 2)
		w.open()
		w.say("a")
		assert.Len(t, w.reread(), 3)
	})
}

// A log that cannot sign its genesis is not begun.
func TestGenesisThatIsNotSigned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t), newSilent(t, 1, 0)
		w.options.Key = key
		_, err := Open(context.Background(), w.store, w.options, nil)
		assert.ErrorIs(t, err, errSilent)
		assert.Zero(t, w.size())
		close(key.release)
	})
}

// A log key that does not answer costs the checkpoint, and the log goes on. It is not asked again
// before it has answered, so that checkpoints at intervals do not pile up goroutines.
func TestLogKeyThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t), newSilent(t, 2, 0)
		w.options.LogKey = key
		w.open()
		begun := time.Now()
		fails := func(ctx context.Context, after time.Duration) error {
			t.Helper()
			_, err := w.log.Checkpoint(ctx)
			assert.Equal(t, after, time.Since(begun))
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.ErrorIs(t, fails(ctx, time.Second), context.DeadlineExceeded)
		for i := range 3 {
			after := time.Second + time.Duration(i+1)*keys.Patience
			assert.ErrorIs(t, fails(context.Background(), after), errOverdue)
		}
		assert.EqualValues(t, -1, key.answers.Load(), "it was asked once")
		w.say("a")
		close(key.release)
		synctest.Wait()
		c := w.checkpoint()
		assert.EqualValues(t, 2, c.Size)

		key.answers.Store(0)
		key.release, begun = make(chan struct{}), time.Now()
		assert.ErrorIs(t, fails(context.Background(), keys.Patience), errSilent)
		assert.NoError(t, w.log.Err())
		close(key.release)
		synctest.Wait()
		require.EqualValues(t, 2, w.checkpoint().Size)
	})
}
