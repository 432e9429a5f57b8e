package witness

import (
	"context"
	stdcrypto "crypto"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// TestTwoClients: two requests with one old size are both right until one is swapped in. One gets a
// line, the other the size.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	for range 50 {
		w := newWorld(t)
		w.mustAdd(0, entries(3))
		var both, all sync.WaitGroup
		both.Add(2)
		var met atomic.Int32
		w.state.swapping = func() error { // neither swaps before both have read the latest
			if met.Add(1) <= 2 {
				both.Done()
				both.Wait()
			}
			return nil
		}
		results := make([]error, 2)
		for i, n := range []int{5, 8} {
			all.Go(func() {
				l := entries(3)
				for len(l) < n {
					l = append(l, fmt.Sprint("of client ", i)) // two histories
				}
				var line []byte
				if line, results[i] = w.add(3, l); results[i] == nil {
					w.mustVerify(l, line)
				}
			})
		}
		all.Wait()
		var conflict *Conflict
		if results[0] != nil {
			results[0], results[1] = results[1], results[0]
		}
		require.NoError(t, results[0])
		require.ErrorAs(t, results[1], &conflict)
		require.Contains(t, []uint64{5, 8}, conflict.Size)
		require.Equal(t, 2, w.state.swaps)
	}
}

// TestTwoTimes: two requests for the same checkpoint as the latest both get a line.
func TestTwoTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustAdd(0, entries(3))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			line, err := w.add(3, entries(3))
			if assert.NoError(t, err) {
				w.mustVerify(entries(3), line)
			}
		})
	}
	all.Wait()
	require.Equal(t, 17, w.state.swaps)
}

// TestChangedForEver: a state that always says that another note is there ends in an error.
func TestChangedForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.state.swapping = func() error { return ErrChanged }
	_, err := w.add(0, entries(3))
	require.ErrorIs(t, err, errRounds)
}

// TestSwapFails: a state that fails otherwise is asked once, and its error is returned.
func TestSwapFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := 0
	w.state.swapping = func() error { asked++; return errDisk }
	line, err := w.add(0, entries(3))
	require.ErrorIs(t, err, errDisk)
	require.Nil(t, line)
	require.Equal(t, 1, asked)
}

// TestKilled: the process ends, or the state fails, before or after the note is swapped in, at
// random, and clients ask for one history or the other with whatever size the witness says. Of one
// size no two roots are cosigned, and what is cosigned later extends it.
func TestKilled(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() || race.Enabled {
		rounds = 8
	}
	killed := 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		trunk := entries(40)
		at := r.IntN(20)
		fork := append(entries(at), "another")
		for len(fork) < 40 {
			fork = append(fork, "and another")
		}
		state := &memory{}
		var given []slowLog // what the witness gave a line for
		for i := range 60 {
			w := newWorld(t) // another process, over the same state
			w.witness.State, w.state = state, state
			end := r.IntN(4)
			state.swapping, state.swapped = nil, nil
			switch end {
			case 0:
				state.swapping = func() error { runtime.Goexit(); return nil }
			case 1:
				state.swapped = func() error { runtime.Goexit(); return nil }
			case 2:
				state.swapped = func() error { return errDisk }
			}
			l := trunk
			if r.IntN(2) == 0 {
				l = fork
			}
			l = l[:1+i/2+r.IntN(4)]
			done := make(chan struct{})
			var line []byte
			err := errors.New("it was killed")
			go func() {
				defer close(done)
				if line, err = w.add(0, l); err == nil {
					return
				}
				var conflict *Conflict
				if errors.As(err, &conflict) && conflict.Size <= uint64(len(l)) {
					err = errors.New("it was killed")
					line, err = w.add(int(conflict.Size), l)
				}
			}()
			<-done
			if err == nil {
				w.mustVerify(l, line)
				given = append(given, l)
			} else if end < 3 {
				killed++
			}
		}
		require.NotEmpty(t, given)
		for i, a := range given {
			for _, b := range given[i:] {
				require.True(t, len(a) <= len(b) && slices.Equal(a, b[:len(a)]), "%d and %d", len(a), len(b))
			}
		}
	}
	require.Greater(t, killed, rounds)
}

// A remote is a signer that is not in memory.
type remote struct {
	crypto.PrivateKey
	how func(sign func() []byte) ([]byte, error)
}

func (r remote) Sign(_ io.Reader, msg []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	return r.how(func() []byte {
		sig, err := r.PrivateKey.Sign(nil, msg, o)
		if err != nil {
			panic(err)
		}
		return sig
	})
}

func TestSignerGoesWrong(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(func() []byte) ([]byte, error){
		"fails":              func(func() []byte) ([]byte, error) { return nil, errors.New("the HSM is locked") },
		"panics":             func(func() []byte) ([]byte, error) { panic("secret") },
		"ends its goroutine": func(func() []byte) ([]byte, error) { runtime.Goexit(); return nil, nil },
		"returns nothing":    func(func() []byte) ([]byte, error) { return nil, nil },
		"returns 63 bytes":   func(sign func() []byte) ([]byte, error) { return sign()[:63], nil },
		"returns another's":  func(sign func() []byte) ([]byte, error) { s := sign(); s[5] ^= 1; return s, nil },
	} {
		w := newWorld(t)
		good := func(sign func() []byte) ([]byte, error) { return sign(), nil }
		now := good
		w.witness.Key = remote{seedKey(t, 2), func(sign func() []byte) ([]byte, error) { return now(sign) }}
		w.mustAdd(0, entries(1))
		now = how
		line, err := w.add(1, entries(2))
		require.True(t, err != nil && line == nil, name)
		require.NotContains(t, err.Error(), "secret", name)
		require.Equal(t, 1, w.state.swaps, name)
		now = good
		w.mustAdd(1, entries(2))
	}
}

// TestSignerIsSilent: a signer that does not answer costs 10 s or the time of the context, and no
// more goroutines than signatures that it may owe; when it answers, the witness goes on.
func TestSignerIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answer := make(chan struct{})
		w.witness.Key = remote{seedKey(t, 2), func(sign func() []byte) ([]byte, error) { <-answer; return sign(), nil }}
		start := time.Now()
		_, err := w.add(0, entries(1))
		require.ErrorIs(t, err, errSilent)
		require.Equal(t, patience, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = w.witness.Add(ctx, 0, nil, entries(1).signedBy(t, w.logKey))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for range maxAsked - 2 {
			go func() {
				_, err := w.add(0, entries(1))
				assert.ErrorIs(t, err, errSilent)
			}()
		}
		synctest.Wait()
		_, err = w.add(0, entries(1))
		require.ErrorIs(t, err, errOwes)
		time.Sleep(patience)
		synctest.Wait()
		require.Zero(t, w.state.swaps)
		close(answer)
		synctest.Wait()
		w.mustAdd(0, entries(1))
	})
}
