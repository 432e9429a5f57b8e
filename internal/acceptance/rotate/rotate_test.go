package rotate

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A log begun with one key continues with others, which its trust events added: in memory and in
// files, over any number of processes, each of which may end between the event and the change of
// keys. Entries by the first key stay verifiable, under the initial trust state.
func TestRotate(t *testing.T) {
	t.Parallel()
	for _, files := range []bool{false, true} {
		t.Run(fmt.Sprintf("files %v", files), func(t *testing.T) {
			reopen := func() {}
			w := kerneltest.NewGoverned(t, func(o *helm.Options) {
				o.LogKey = nil
				o.Key = kerneltest.SeedKey(t, 1)
				if files {
					s := &kerneltest.FaultyStore{}
					o.Store = s
					reopen = kerneltest.OnFiles(t, s)
				}
			})
			if files {
				w.Store = kerneltest.Faulty(w.Options.Store)
			}
			next := func(key, log byte) {
				t.Helper()
				w.Close()
				reopen()
				w.UseKeys(key, log)
				w.Open()
			}
			once := kerneltest.WithKey("once")
			_, first := w.Echo(w.Kernel, 1, once)
			mustRefuseKeys(w, t, map[string][2]byte{"not added": {kerneltest.Kernel2, 0}})
			// for an auditor who verifies again when all keys are others
			kept, err := w.Kernel.Checkpoint(context.Background())
			require.NoError(t, err)

			w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
			next(1, 0) // the process ends before the key is changed
			mustRefuseKeys(w, t, map[string][2]byte{"a log key that is derived of the new": {kerneltest.Kernel2, 0},
				"a log key that is not added": {kerneltest.Kernel2, kerneltest.Log2}})
			w.GovernByRoots(w.Adding(kerneltest.Log2, "log 2", registry.Log))
			derived := crypto.KeyID(kerneltest.Must(crypto.PublicOf(crypto.DeriveLogKey(kerneltest.SeedKey(t, 1)))))
			w.MustVerify()

			next(kerneltest.Kernel2, kerneltest.Log2)
			w.MustAllow(w.Kernel, 2)
			again, r := w.Echo(w.Kernel, 1, once)
			assert.Equal(t, contracts.ReasonOutputNotKept, again.Reason, "what the first key signed")
			assert.Equal(t, first.Index, r.Index)
			w.MustVerify()
			w.GovernByRoots(w.Revoking(1))
			w.GovernByRoots(w.Event(contracts.TrustEvent{Type: "revoke", ID: &derived}))
			w.MustAllow(w.Kernel, 3)
			mustRefuseKeys(w, t, map[string][2]byte{"revoked": {1, kerneltest.Log2},
				"revoked, and its log key": {1, 0}})
			w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
			w.MustVerify()

			next(kerneltest.Kernel2, kerneltest.Log2)
			again, r = w.Echo(w.Kernel, 1, once)
			assert.Equal(t, contracts.ReasonOutputNotKept, again.Reason, "after its revocation")
			assert.Equal(t, first.Index, r.Index)
			w.MustAllow(w.Kernel, 4)
			w.MustFollowTrust()
			report := w.MustVerify()
			assert.Equal(t, uint64(4), report.Allows)
			assert.Equal(t, uint64(4), report.Replay.Replayed)
			w.MustAgree(report)
			var pack bytes.Buffer
			for _, old := range []crypto.Signer{kerneltest.SeedKey(t, 1), kerneltest.SeedKey(t, kerneltest.Log2),
				kerneltest.SeedKey(t, kerneltest.Root1)} {
				err := evidence.Write(context.Background(), &pack, w.Store.Store, old)
				assert.Error(t, err, "a pack by a key that is no kernel key any more")
				assert.LessOrEqual(t, pack.Len(), 0)
			}
			require.NoError(t, evidence.Write(context.Background(), &pack, w.Store.Store, w.Key.PrivateKey))
			verify := evidence.Options{Trust: w.Kernel.Trust(), Origin: kerneltest.Origin, Last: kept.Note}
			report, err = evidence.Verify(context.Background(), bytes.NewReader(pack.Bytes()), int64(pack.Len()),
				verify)
			assert.NoError(t, err, "after the checkpoint of the beginning")
			assert.Equal(t, evidence.Fresh, report.History)
			assert.True(t, report.Success(evidence.Logged))
		})
	}
}

// mustRefuseKeys has New refuse keys, and say what is missing.
func mustRefuseKeys(w *kerneltest.World, t *testing.T, keys map[string][2]byte) {
	t.Helper()
	o, key := w.Options, w.Key
	defer func() { w.Options, w.Key = o, key }()
	for what, x := range keys {
		w.UseKeys(x[0], x[1])
		says := "Options.Key: not a kernel key of the log's trust state: no trust event of type key has added " +
			kerneltest.KeyID(t, x[0]).String()
		switch {
		case strings.HasPrefix(what, "revoked"):
			says = "Options.Key: entry "
		case strings.Contains(what, "derived"):
			says = "Options.LogKey, which is derived from Key if it is not given: not a log key of the log's " +
				"trust state: no trust event of type key has added "
		case strings.Contains(what, "log key"):
			says = "Options.LogKey: not a log key of the log's trust state: no trust event of type key has added " +
				kerneltest.KeyID(t, x[1]).String()
		}
		w.MustRefuseNew(what, says)
	}
}

// A registry may list kernel keys, also under the names that New uses. For others to continue the
// log it lists those that the log began with.
func TestRotateBetweenListedKeys(t *testing.T) {
	t.Parallel()
	listed := append(kerneltest.RootKeys(t), registry.Key{Name: "kernel",
		Public: kerneltest.Public(t, kerneltest.Kernel2), Role: registry.Kernel},
		registry.Key{Name: "log", Public: kerneltest.Public(t, kerneltest.Log2), Role: registry.Log},
		registry.Key{Name: "kernel", Public: kerneltest.Public(t, 1), Role: registry.Kernel})
	for n := 3; n <= len(listed); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := kerneltest.New(t, func(o *helm.Options) { o.Trust = kerneltest.Must(registry.New(2, listed[:n]...)) })
			w.Governed = true
			w.MustAllow(w.Kernel, 1)
			if n < 4 {
				w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel", registry.Kernel))
			}
			if n < 5 {
				w.GovernByRoots(w.Adding(kerneltest.Log2, "log", registry.Log))
			}
			initial := w.Kernel.Trust().Digest()
			began := append(slices.Clone(listed[:n]), registry.Key{Name: "log",
				Public: kerneltest.Must(crypto.PublicOf(crypto.DeriveLogKey(kerneltest.SeedKey(t, 1)))),
				Role:   registry.Log})
			if n < len(listed) {
				began = append(began, listed[len(listed)-1])
			}
			w.Options.Trust = kerneltest.Must(registry.New(2, began...))
			for _, turn := range [][2]byte{{kerneltest.Kernel2, kerneltest.Log2}, {1, kerneltest.Log2}, {1, 0},
				{kerneltest.Kernel2, kerneltest.Log2}} {
				w.Close()
				w.UseKeys(turn[0], turn[1])
				w.Open()
				w.MustAllow(w.Kernel, 1)
				assert.Equal(t, initial, w.Kernel.Trust().Digest(), "it begins with another state now")
			}
			w.MustFollowTrust()
			report := w.MustVerify()
			if n == 4 {
				w.MustAgree(report)
			}
		})
	}
}

// An event that revokes the kernel's own key, or its log key, ends that kernel: the event is
// durable and the last entry it signs, and the cause of the seal names the key to continue with.
// Calls that ran then are withheld, and the next kernel settles them.
func TestGovernEndsTheKernel(t *testing.T) {
	t.Parallel()
	derived := crypto.KeyID(kerneltest.Must(crypto.PublicOf(crypto.DeriveLogKey(kerneltest.SeedKey(t, 1)))))
	for what, id := range map[string]*contracts.Digest{"Key": kerneltest.KeyID(t, 1), "LogKey": &derived} {
		t.Run(what, func(t *testing.T) {
			w := kerneltest.NewGoverned(t)
			task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
			bg := context.Background()
			w.GovernByRoots(w.Adding(kerneltest.Kernel2, "kernel 2", registry.Kernel))
			w.GovernByRoots(w.Adding(kerneltest.Log2, "log 2", registry.Log))
			var end error
			w.Tool = func(context.Context, contracts.Call) (executor.Result, error) { // from inside a call
				e := kerneltest.SignEvent(t, w.Event(contracts.TrustEvent{Type: "revoke", ID: id}), kerneltest.Root1,
					kerneltest.Root2)
				end = task.Govern(bg, e)
				assert.NoError(t, end)
				return executor.Result{Output: []byte(`{}`)}, nil
			}
			w.MustEcho(kerneltest.NotStored(), w.Kernel, 1)
			next := *kerneltest.KeyID(t, kerneltest.Kernel2)
			if what == "LogKey" {
				next = *kerneltest.KeyID(t, kerneltest.Log2)
			}
			d, _ := w.MustEcho(kerneltest.Sealed(), w.Kernel, 1)
			says := "a trust event revoked the " + what +
				" that this kernel signs with: go on with helm.New and the key " + next.String()
			assert.ErrorIs(t, d.Err(), proofgraph.ErrSealed, "the cause")
			assert.ErrorContains(t, d.Err(), says)
			_, err := w.Kernel.Checkpoint(bg)
			assert.ErrorIs(t, err, proofgraph.ErrSealed, "a checkpoint")
			_, err = w.Kernel.Narrow(kerneltest.Overlay(t, "more", 1, 5))
			assert.ErrorIs(t, err, proofgraph.ErrSealed, "a narrowed kernel")
			assert.ErrorIs(t, w.Kernel.Govern(bg, kerneltest.SignEvent(t, w.Freezing(), kerneltest.Freezer)),
				proofgraph.ErrSealed, "an event")
			w.MustBeSealed()
			w.MustBeClosed(task)
			assert.Equal(t, uint64(4), w.Fold(nil).Version(), "the event is not in the log")
			w.UseKeys(1, 0)
			w.MustRefuseNew("the same keys", what)
			w.UseKeys(kerneltest.Kernel2, kerneltest.Log2)
			w.Open()
			w.MustFollowTrust()
			report := w.MustVerify()
			assert.Empty(t, report.Open, "not settled")
			assert.Equal(t, uint64(1), report.Receipts)
			w.MustAgree(report)
		})
	}
}

// The largest event that can be read fits into an entry: it seals no kernel.
func TestGovernLargestEvent(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewGoverned(t, func(o *helm.Options) { o.Origin = strings.Repeat("o", 255) })
	var e contracts.TrustEvent
	sign := func(n int) (contracts.Envelope, error) {
		e = contracts.TrustEvent{Type: "root", Origin: w.Options.Origin, Version: 2, Threshold: 1}
		seeds := []byte{kerneltest.Root1, kerneltest.Root2}
		for i := range n {
			seeds = append(seeds, byte(100+i))
		}
		for _, seed := range seeds {
			e.Keys = append(e.Keys, contracts.RootKey{Name: strings.Repeat("n", 128),
				Public: kerneltest.Public(t, seed)})
		}
		e = w.Event(e, seeds...)
		first, err := contracts.TrustRecord{Event: e}.Sign(kerneltest.SeedKey(t, kerneltest.Root1))
		if err != nil {
			return nil, err
		}
		return kerneltest.Must(contracts.ParseTrust(first)).Sign(kerneltest.SeedKey(t, kerneltest.Root2))
	}
	n := 1
	largest, err := sign(n)
	for ; err == nil; n++ {
		var next contracts.Envelope
		if next, err = sign(n + 1); err == nil {
			largest = next
		}
	}
	require.GreaterOrEqual(t, n, 20, "keys are too many")
	require.NoError(t, w.Kernel.Govern(context.Background(), largest))
	d, _ := w.Echo(w.Kernel, 1)
	assert.NoError(t, d.Err())
}
