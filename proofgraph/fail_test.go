package proofgraph

import (
	"context"
	stdcrypto "crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

var errDisk = errors.New("disk on fire")

const endsIt = "ends the goroutine" // of a caller, which then gets no error

// ways are how an append can go wrong.
var ways = []struct {
	name   string
	do     func(s *spy, at int)
	stored bool  // though the log hears of a failure
	is     error // the cause of the error
}{
	{"fails", func(s *spy, at int) { s.before = failAt(at, func() error { return errDisk }) }, false, errDisk},
	{"conflicts", func(s *spy, at int) { s.before = failAt(at, func() error { return ErrConflict }) }, false,
		ErrConflict},
	{"panics", func(s *spy, at int) { s.before = failAt(at, func() error { panic("secret of the store") }) }, false,
		nil},
	{endsIt, func(s *spy, at int) { s.before = failAt(at, func() error { runtime.Goexit(); return nil }) }, false, nil},
	{"stores and says it failed", func(s *spy, at int) { s.after = failAt(at, func() error { return errDisk }) }, true,
		errDisk},
	{"stores and panics", func(s *spy, at int) { s.after = failAt(at, func() error { panic(errDisk) }) }, true, nil},
}

func failAt(at int, how func() error) func(int, Batch) error {
	return func(n int, _ Batch) error {
		if n == at {
			return how()
		}
		return nil
	}
}

// If any append goes wrong, in any way, with one caller and with many, then the log is sealed,
// every waiting goroutine gets the cause, nothing is written any more, every entry that was
// reported durable is there, and a log that is opened over the store again goes on from there.
func TestStoreGoesWrongAtEachAppend(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, way := range ways {
		for at := 1; at <= 9; at++ {
			for _, callers := range []int{1, 16} {
				t.Run(fmt.Sprintf("%s at %d, %d callers", way.name, at, callers), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						tried++
						w := newWorld(t)
						spy := w.watch()
						w.open()
						way.do(spy, at)
						var mu sync.Mutex
						durable := map[contracts.Digest]bool{}
						failed := 0
						places := newHosts(w, 5)
						places.run(callers, 12, func(s *Slot, err error) {
							mu.Lock()
							defer mu.Unlock()
							if err == nil {
								durable[s.Hash()] = true
								return
							}
							failed++
							assert.True(t, errors.Is(err, ErrSealed) && err == w.log.Err() && (way.is == nil ||
								errors.Is(err, way.is)), "failed with %v", err)
							assert.NotContains(t, err.Error(), "secret",
								"the error shows what the store panicked with: %v", err)
						})
						require.True(t, w.log.Err() != nil && (failed != 0 || way.name == "ends the goroutine"),
							"no caller got an error")
						mustBeSealed(t, w, places.sessions[0].chain)
						assert.True(t, len(spy.appends) == at+1, "%d appends, the one at %d went wrong",
							len(spy.appends), at)
						there := map[contracts.Digest]bool{}
						for _, f := range w.reread() {
							there[f.hash] = true
						}
						for hash := range durable {
							assert.True(t, there[hash], "what was called durable is not there")
						}
						extra := len(there) - 1 - len(durable)
						assert.True(t, (extra > 0) == way.stored, "%d entries are there that were not reported", extra)
						w.store = w.memory
						w.open()
						for hash := range there {
							_, ok := w.log.Lookup(hash)
							assert.True(t, ok, "an entry is not read again")
						}
						newHosts(w, 5).run(3, 3, nil)
						if n := len(w.reread()); n != len(there)+9 {
							t.Errorf("%d entries, want 9 more than %d", n, len(there))
						}
					})
				})
			}
		}
	}
	assert.Equal(t, tried, len(ways)*9*2, "%d cases", tried)
}

func mustBeSealed(t *testing.T, w *world, c *Chain) {
	t.Helper()
	cause, size := w.log.Err(), w.size()
	require.ErrorIs(t, cause, ErrSealed, "the log is not sealed")
	w.log.Seal(errors.New("another cause"))
	assert.True(t, w.log.Err() == cause, "a later cause replaced the first")
	s, err := w.log.take(&Draft{Chain: c, Time: c.Time()})
	assert.True(t, s == nil && err == cause, "Place: %v", err)
	_, err = w.log.Next()
	assert.True(t, err == cause, "Next: %v", err)
	if _, err := w.log.Checkpoint(context.Background()); err != cause {
		t.Error("Checkpoint:", err)
	}
	assert.Equal(t, size, w.size(), "something was written")
}

// The misbehaviours of a signer.
var misbehaviours = map[string]func(key crypto.PrivateKey, msg []byte) ([]byte, error){
	"fails":                func(crypto.PrivateKey, []byte) ([]byte, error) { return nil, errDisk },
	"panics":               func(crypto.PrivateKey, []byte) ([]byte, error) { panic("secret of the signer") },
	"ends the goroutine":   func(crypto.PrivateKey, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil },
	"signs something else": func(k crypto.PrivateKey, msg []byte) ([]byte, error) { return crypto.Sign(k, msg[1:]) },
	"signs nothing":        func(crypto.PrivateKey, []byte) ([]byte, error) { return nil, nil },
	"changes what it signs": func(k crypto.PrivateKey, msg []byte) ([]byte, error) {
		msg[20]++
		return crypto.Sign(k, msg)
	},
}

// A remote signer misbehaves at its nth signature.
type remote struct {
	key   crypto.PrivateKey
	at    int64
	count atomic.Int64
	how   func(crypto.PrivateKey, []byte) ([]byte, error)
}

func (r *remote) Public() stdcrypto.PublicKey { return r.key.Public() }

func (r *remote) Sign(_ io.Reader, msg []byte, _ stdcrypto.SignerOpts) ([]byte, error) {
	if r.count.Add(1)-1 == r.at {
		return r.how(r.key, msg)
	}
	return ed25519.Sign(ed25519.NewKeyFromSeed(seedBytes(1)), msg), nil
}

func seedBytes(b byte) []byte {
	seed := make([]byte, 32)
	for i := range seed {
		seed[i] = b
	}
	return seed
}

func TestSignerGoesWrongAtEachSignature(t *testing.T) {
	t.Parallel()
	for name, how := range misbehaviours {
		for at := range int64(6) {
			for _, callers := range []int{1, 8} {
				t.Run(fmt.Sprintf("%s at %d, %d callers", name, at, callers), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						w.options.Key = &remote{key: seedKey(t, 1), at: at, how: how}
						if at == 0 {
							done := make(chan struct{})
							go func() {
								defer close(done)
								l, err := Open(context.Background(), w.store, w.options, nil)
								assert.True(t, err != nil && l == nil, "opened with a genesis that was not signed")
							}()
							<-done
							assert.Equal(t, uint64(0), w.size(), "something was written")
							return
						}
						w.open()
						places := newHosts(w, 3)
						var durable atomic.Int64
						places.run(callers, 6, func(s *Slot, err error) {
							if err == nil {
								durable.Add(1)
								return
							}
							assert.NotContains(t, err.Error(), "secret",
								"the error shows what the signer panicked with: %v", err)
						})
						mustBeSealed(t, w, places.sessions[0].chain)
						if n := int64(len(w.reread())); n != durable.Load()+1 {
							t.Errorf("%d entries, %d durable", n, durable.Load())
						}
						w.open()
						newHosts(w, 3).run(2, 2, nil)
						w.reread()
					})
				})
			}
		}
	}
}

// A place that is given up is a hole: entries after it are never written, and every goroutine that
// waits for one gets the cause.
func TestAHoleEndsTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := opened(t)
		arrived, release := gate(w.watch())
		w.open()
		var all sync.WaitGroup
		wait := func(s *Slot, want bool) {
			all.Go(func() {
				if err := s.Wait(); (err == nil) != want || err != nil && !errors.Is(err, errDisk) {
					t.Errorf("entry %d: %v", s.Index(), err)
				}
			})
		}
		before, too := w.place(w.log.Chain("a")), w.place(w.log.Chain("e"))
		hole, behind, later := w.place(w.log.Chain("b")), w.place(w.log.Chain("c")), w.place(w.log.Chain("d"))
		w.sign(before)
		w.sign(too)
		wait(before, true) // they are being written when the hole appears: that goes on
		wait(too, true)
		<-arrived
		w.sign(behind)
		wait(behind, false)
		synctest.Wait()
		void(hole, errDisk)
		void(hole, errors.New("again"))
		wait(too, true)
		synctest.Wait()
		assert.ErrorIs(t, sign(later, message()), errDisk, "signed in a sealed log")
		assert.ErrorIs(t, sign(hole, message()), errDisk, "signed in a place that was given up")
		release <- nil
		all.Wait()
		mustBeSealed(t, w, w.log.Chain("a"))
		if n := len(w.reread()); n != 3 {
			t.Errorf("%d entries", n)
		}
		assert.True(t, len(w.log.slots) == 0 && w.log.asleep == 0, "a goroutine is still in the queue")
	})
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func TestSealing(t *testing.T) {
	t.Parallel()
	w := opened(t)
	s := w.place(w.log.Chain("a"))
	w.sign(s)
	assert.False(t, over(w.log.Sealed()), "sealed before it was")
	w.log.Seal(nil)
	assert.True(t, over(w.log.Sealed()), "the channel of Sealed is not closed")
	err := s.Wait()
	assert.True(t, err == w.log.Err() && errors.Is(err, ErrSealed), "%v", err)
	mustBeSealed(t, w, w.log.Chain("b"))
	assert.Equal(t, uint64(1), w.size(), "an entry was written to a sealed log")
}

func TestRecordsThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		st   *contracts.Statement
		says string
	}{
		"none":  {nil, "no record"},
		"empty": {new(contracts.Statement), "no record"},
		"too large": {&contracts.Statement{Receipt: &contracts.Receipt{Tool: strings.Repeat("x",
			contracts.MaxPayload)}}, "16384"},
		"a genesis": {&contracts.Statement{Genesis: new(contracts.Genesis)}, "genesis"},
		"one that errs": {&contracts.Statement{Condense: (*contracts.Condense)(nil),
			Trust: &contracts.TrustRecord{Event: contracts.TrustEvent{Type: "key"}}}, "panicked"},
	} {
		w := opened(t)
		s := w.place(w.log.Chain("a"))
		err := sign(s, c.st)
		assert.True(t, err != nil && strings.Contains(err.Error(), c.says), "%s: %v", name, err)
		waited := s.Wait()
		assert.True(t, waited != nil && errors.Is(waited, ErrSealed), "%s: %v", name, waited)
		mustBeSealed(t, w, w.log.Chain("b"))
	}
}

// If the log is sealed while an entry is signed, the entry is not written, and its session does not
// go on.
func TestSealedWhileSigning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seal func()
	w.options.Key = &remote{key: seedKey(t, 1), at: 1, how: func(k crypto.PrivateKey, msg []byte) ([]byte, error) {
		seal()
		return crypto.Sign(k, msg)
	}}
	w.open()
	seal = func() { w.log.Seal(errDisk) }
	c := w.log.Chain("a")
	s := w.place(c)
	assert.ErrorIs(t, sign(s, message()), errDisk, "signed")
	if err := s.Wait(); !errors.Is(err, errDisk) || c.Next() != 0 {
		t.Error(err, c.Next())
	}
	mustBeSealed(t, w, c)
}

// A signer that ends its goroutine does not end that of the caller, and seals the log.
func TestSignerEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Key = &remote{key: seedKey(t, 1), at: 1, how: misbehaviours["ends the goroutine"]}
	w.open()
	s := w.place(w.log.Chain("a"))
	require.ErrorIs(t, sign(s, message()), errGone)
	mustBeSealed(t, w, w.log.Chain("b"))
}

// The largest record that may be signed makes an entry that may be read; one byte more is refused.
func TestTheLargestRecord(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 1} {
		w := opened(t)
		s := w.place(w.log.Chain("a"))
		st := &contracts.Statement{Header: Place{s}.Header(), Trust: &contracts.TrustRecord{}}
		why := &st.Trust.Event.Why
		st.Trust.Event.Type = "freeze"
		*why = strings.Repeat("x", contracts.MaxPayload-len(st.Append(nil))+more)
		if err := sign(s, st); (err != nil) != (more > 0) {
			t.Fatalf("%d more: %v", more, err)
		}
		n := len(s.Entry())
		assert.False(t, more == 0 && (n > contracts.MaxEntry || n < contracts.MaxEntry/2), "%d bytes", n)
	}
}
