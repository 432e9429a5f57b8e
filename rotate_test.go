package helm_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

// turn makes the options those of other keys; a log key of 0 is one that is derived.
func (w *world) turn(key, log byte) {
	w.t.Helper()
	w.key = &signer{PrivateKey: seedKey(w.t, key)}
	w.o.Key, w.o.LogKey = w.key, nil
	if log != 0 {
		w.o.LogKey = seedKey(w.t, log)
	} else {
		w.o.Key = w.key.PrivateKey // a log key is derived of one in memory
	}
}

// mustRefuse has New refuse, for that reason, and write nothing.
func (w *world) mustRefuse(what, says string) {
	w.t.Helper()
	size := w.size()
	k, err := helm.New(w.o)
	if k != nil || err == nil || !strings.HasPrefix(err.Error(), "helm: ") || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%s: %v, want %s", what, err, says)
	}
	if n := w.size(); n != size {
		w.t.Errorf("%s: wrote %d entries", what, n-size)
	}
}

// onFiles puts a world's store on disk; what it gives closes and opens it anew.
func onFiles(t *testing.T, w *world) (reopen func()) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	var s *filestore.Store
	open := func() {
		var err error
		if s, err = filestore.Open(dir, filestore.Options{}); err != nil {
			t.Fatal(err)
		}
		w.store.Store = s
	}
	open()
	t.Cleanup(func() { s.Close() })
	return func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		open()
	}
}

// A log begun with one key goes on with others, which its trust events added: in memory and in files, over any number of processes, each of
// which may end between the event and the turn. What they signed stays verifiable, under the trust state of the beginning.
func TestRotate(t *testing.T) {
	for _, files := range []bool{false, true} {
		t.Run(fmt.Sprintf("files %v", files), func(t *testing.T) {
			reopen := func() {}
			w := newRealm(t, func(o *helm.Options) {
				o.LogKey = nil
				o.Key = seedKey(t, 1)
				if files {
					s := &faulty{}
					o.Store = s
					reopen = onFiles(t, &world{t: t, store: s})
				}
			})
			if files {
				w.store = w.o.Store.(*faulty)
			}
			next := func(key, log byte) {
				t.Helper()
				if err := w.k.Close(); err != nil {
					t.Fatal(err)
				}
				reopen()
				w.turn(key, log)
				w.open()
			}
			once := func(in *helm.Intent) { in.Idempotency = "once" }
			_, first := w.of(w.k, 1, once)
			w.mustRefuseKeys(t, map[string][2]byte{"not added": {seedK2, 0}})

			w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
			next(1, 0) // the process ends before anybody turns
			w.mustRefuseKeys(t, map[string][2]byte{"a log key that is derived of the new": {seedK2, 0}, "a log key that is not added": {seedK2, seedL2}})
			w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
			derived := crypto.KeyID(must(crypto.PublicOf(crypto.DeriveLogKey(seedKey(t, 1)))))
			w.mustVerify()

			next(seedK2, seedL2)
			w.mustAllow(w.k, 2)
			again, r := w.of(w.k, 1, once)
			if again.Reason != contracts.ReasonOutputNotKept || r.Index != first.Index {
				t.Errorf("what the first key signed: %s, receipt %d, want %d: %v", again.Reason, r.Index, first.Index, again.Err())
			}
			w.mustVerify()
			w.govern(w.revoking(1), seedR1, seedR2)
			w.govern(w.event(contracts.TrustEvent{Type: "revoke", ID: &derived}), seedR1, seedR2)
			w.mustAllow(w.k, 3)
			w.mustRefuseKeys(t, map[string][2]byte{"revoked": {1, seedL2}, "revoked, and its log key": {1, 0}})
			w.turn(seedK2, seedL2)
			w.mustAgree(w.mustVerify())

			next(seedK2, seedL2)
			again, r = w.of(w.k, 1, once)
			if again.Reason != contracts.ReasonOutputNotKept || r.Index != first.Index {
				t.Errorf("after its revocation: %s, receipt %d, want %d: %v", again.Reason, r.Index, first.Index, again.Err())
			}
			w.mustAllow(w.k, 4)
			w.mustRule()
			report := w.mustVerify()
			if report.Allows != 4 || report.Replay.Replayed != 4 {
				t.Errorf("%+v", report)
			}
			w.mustAgree(report)
		})
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// mustRefuseKeys has New refuse keys, while nobody uses the log, and says what is missing.
func (w *world) mustRefuseKeys(t *testing.T, keys map[string][2]byte) {
	t.Helper()
	o, key := w.o, w.key
	defer func() { w.o, w.key = o, key }()
	for what, x := range keys {
		w.turn(x[0], x[1])
		says := "Options.Key: not a kernel key of the log's trust state: no trust event of type key has added " + keyID(t, x[0]).String()
		switch {
		case strings.HasPrefix(what, "revoked"):
			says = "Options.Key: entry "
		case strings.Contains(what, "derived"):
			says = "Options.LogKey, which is derived from Key where it is not given: not a log key of the log's trust state: no trust event of type key has added "
		case strings.Contains(what, "log key"):
			says = "Options.LogKey: not a log key of the log's trust state: no trust event of type key has added " + keyID(t, x[1]).String()
		}
		w.mustRefuse(what, says)
	}
}

// The log tells which keys it was begun with; the registry has to be that which it was begun with, whatever keys there are now.
func TestRotateRefused(t *testing.T) {
	w := newRealm(t)
	w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
	w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
	w.mustAllow(w.k, 1)
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	good := w.o
	for name, x := range map[string]struct {
		change func(o *helm.Options)
		says   string
	}{
		"no registry":       {func(o *helm.Options) { o.Trust = nil }, "another trust state than Options.Trust gives"},
		"another threshold": {func(o *helm.Options) { o.Trust = must(registry.New(1, rootKeys(t)...)) }, "another trust state"},
		"one who is not in it": {func(o *helm.Options) {
			o.Trust = must(registry.New(2, append(rootKeys(t), registry.Key{Name: "eve", Public: public(t, seedX), Role: registry.Freezer})...))
		}, "another trust state"},
		"with the new key in it": {func(o *helm.Options) {
			o.Trust = must(registry.New(2, append(rootKeys(t), registry.Key{Name: "kernel 2", Public: public(t, seedK2), Role: registry.Kernel})...))
		}, "another trust state"},
		"no origin":         {func(o *helm.Options) { o.Origin = "" }, "this store has the log " + origin},
		"an approver's key": {func(o *helm.Options) { o.Key = seedKey(t, seedA) }, "the kernel key is listed with the role approver"},
		"keys exchanged":    {func(o *helm.Options) { o.Key, o.LogKey = seedKey(t, seedL2), seedKey(t, seedK2) }, "Options.Key: not a kernel key"},
		"a stranger's":      {func(o *helm.Options) { o.Key = seedKey(t, seedX) }, "give the key " + keyID(t, 1).String() + ` of "kernel" or the key `},
	} {
		for _, key := range []byte{1, seedK2} {
			w.o = good
			w.turn(key, seedL2)
			x.change(&w.o)
			if key == 1 && name == "no origin" {
				continue // of the first key it is another name, likewise
			}
			w.mustRefuse(name, x.says)
		}
	}
	w.o = good
	store := w.store.Store
	lost, other := *keyID(t, seedX), w.k.Trust().Digest()
	for name, x := range map[string]struct {
		blob func(d contracts.Digest) ([]byte, error)
		says string
	}{
		"that is lost": {func(contracts.Digest) ([]byte, error) { return nil, fmt.Errorf("%w: %v", proofgraph.ErrNoBlob, lost) }, "lacks the trust state"},
		"of another":   {func(contracts.Digest) ([]byte, error) { return []byte("{}"), nil }, "other content"},
		"that fails":   {func(contracts.Digest) ([]byte, error) { return nil, errRead }, errRead.Error()},
		"by a panic":   {func(contracts.Digest) ([]byte, error) { panic("the disk") }, "Options.Store panicked"},
	} {
		w.turn(seedK2, seedL2)
		w.store.Store = store
		w.store.Store = blobs{store, func(d contracts.Digest) ([]byte, error) {
			if d == other {
				return x.blob(d)
			}
			return store.Blob(context.Background(), d)
		}}
		w.mustRefuse("a trust state "+name, x.says)
		w.turn(1, 0) // with the keys of the beginning nobody asks for it
		k, err := helm.New(w.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		k.Close()
	}
	w.store.Store = store
	w.turn(seedK2, seedL2)
	w.open() // or the refusals would prove nothing
	w.mustAllow(w.k, 1)
	w.mustVerify()
}

// blobs are a store's, but as somebody else gives them.
type blobs struct {
	proofgraph.Store
	blob func(d contracts.Digest) ([]byte, error)
}

func (b blobs) Blob(_ context.Context, d contracts.Digest) ([]byte, error) { return b.blob(d) }

func rootKeys(t testing.TB) (list []registry.Key) {
	for i, seed := range []byte{seedR1, seedR2, seedR3} {
		list = append(list, registry.Key{Name: fmt.Sprint("root ", i+1), Public: public(t, seed), Role: registry.Root})
	}
	return list
}

// Without a registry a log has its two keys and no others, ever. The same store under another key is refused.
func TestRotateWithoutRoots(t *testing.T) {
	w := newWorld(t)
	w.mustAllow(w.k, 1)
	w.turn(seedK2, 0)
	w.mustRefuse("another key", "Options.Key: not a kernel key of the log's trust state, which has no roots, so no other is ever added: give the one that it was begun with")
	w.turn(1, seedL2)
	w.mustRefuse("another log key", "Options.LogKey: not a log key of the log's trust state, which has no roots")
	w.turn(1, 0)
	w.open()
	w.mustAllow(w.k, 1)
}

// A registry may have kernel keys of its own, also under the names that New gives.
func TestRotateBetweenListedKeys(t *testing.T) {
	listed := append(rootKeys(t), registry.Key{Name: "kernel", Public: public(t, seedK2), Role: registry.Kernel},
		registry.Key{Name: "log", Public: public(t, seedL2), Role: registry.Log}, registry.Key{Name: "kernel", Public: public(t, 1), Role: registry.Kernel})
	for n := 3; n <= len(listed); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, func(o *helm.Options) { o.Trust = must(registry.New(2, listed[:n]...)) })
			w.governed = true
			w.mustAllow(w.k, 1)
			if n < 4 {
				w.govern(w.adding(seedK2, "kernel", registry.Kernel), seedR1, seedR2)
			}
			if n < 5 {
				w.govern(w.adding(seedL2, "log", registry.Log), seedR1, seedR2)
			}
			initial := w.k.Trust().Digest()
			for _, turn := range [][2]byte{{seedK2, seedL2}, {1, seedL2}, {1, 0}, {seedK2, seedL2}} {
				if err := w.k.Close(); err != nil {
					t.Fatal(err)
				}
				w.turn(turn[0], turn[1])
				w.open()
				w.mustAllow(w.k, 1)
				if w.k.Trust().Digest() != initial {
					t.Error("it begins with another state now")
				}
			}
			w.mustRule()
			w.mustAgree(w.mustVerify())
		})
	}
}

// Whoever revokes the key that the kernel signs with, or its log key, ends that kernel: the event is durable and the last that it signs, and
// the cause of the seal says with which key to go on. What ran then is withheld; the next kernel settles it.
func TestGovernEndsTheKernel(t *testing.T) {
	derived := crypto.KeyID(must(crypto.PublicOf(crypto.DeriveLogKey(seedKey(t, 1)))))
	for what, id := range map[string]*contracts.Digest{"Key": keyID(t, 1), "LogKey": &derived} {
		t.Run(what, func(t *testing.T) {
			w := newRealm(t)
			task := w.narrow(w.k, few(t, "task", 1, 5))
			bg := context.Background()
			w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
			w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
			var end error
			w.tool = func(context.Context, contracts.Call) (executor.Result, error) { // from inside of a call
				e := signed(t, w.event(contracts.TrustEvent{Type: "revoke", ID: id}), seedR1, seedR2)
				if end = task.Govern(bg, e); end != nil {
					t.Error(end)
				}
				return executor.Result{Output: []byte(`{}`)}, nil
			}
			d, r := w.of(w.k, 1)
			w.mustBe(d, r, want{reason: contracts.ReasonReceiptNotStored, err: helm.ErrWithheld, runs: 1})
			next := *keyID(t, seedK2)
			if what == "LogKey" {
				next = *keyID(t, seedL2)
			}
			d, r = w.of(w.k, 1)
			w.mustBe(d, r, want{reason: contracts.ReasonKernelSealed, err: helm.ErrDenied})
			says := "a trust event revoked the " + what + " that this kernel signs with: go on with helm.New and the key " + next.String()
			if err := d.Err(); err == nil || !errors.Is(err, proofgraph.ErrSealed) || !strings.Contains(err.Error(), says) {
				t.Errorf("the cause: %v", err)
			}
			if _, err := w.k.Checkpoint(bg); !errors.Is(err, proofgraph.ErrSealed) {
				t.Errorf("a checkpoint: %v", err)
			}
			if _, err := w.k.Narrow(few(t, "more", 1, 5)); !errors.Is(err, proofgraph.ErrSealed) {
				t.Errorf("a narrowed kernel: %v", err)
			}
			if err := w.k.Govern(bg, signed(t, w.freezing(), seedF)); !errors.Is(err, proofgraph.ErrSealed) {
				t.Errorf("an event: %v", err)
			}
			w.mustBeSealed()
			w.mustBeClosed(task)
			if w.fold(nil).Version() != 4 {
				t.Error("the event is not in the log")
			}
			w.turn(1, 0)
			w.mustRefuse("the same keys", what)
			w.turn(seedK2, seedL2)
			w.open()
			w.mustRule()
			report := w.mustVerify()
			if len(report.Open) != 0 || report.Receipts != 1 {
				t.Errorf("not settled: %+v", report)
			}
			w.mustAgree(report)
		})
	}
}

// Whatever call of the store fails while New goes over a log that was begun with other keys: an error, no kernel, and the next New goes on.
func TestRotateFailsAtEveryCallOfTheStore(t *testing.T) {
	for _, panics := range []bool{false, true} {
		n := 1
		for ; ; n++ {
			w := newRealm(t)
			w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
			w.govern(w.adding(seedL2, "log 2", registry.Log), seedR1, seedR2)
			w.store.in(2)
			w.call("echo", `{}`) // stays open
			w.turn(seedK2, seedL2)
			o := w.o
			o.Store = &broken{Store: w.store, failAt: n, panics: panics}
			k, err := helm.New(o)
			if err == nil {
				k.Close()
				break
			}
			if k != nil || !panics && !errors.Is(err, errRead) {
				t.Errorf("call %d: %v, %v", n, k, err)
			}
			w.runs.Store(0)
			w.open()
			w.mustRule()
			if report := w.mustVerify(); len(report.Open) != 0 {
				t.Errorf("call %d: open decisions %v", n, report.Open)
			}
		}
		if n < 12 {
			t.Fatalf("New made only %d calls", n)
		}
	}
}
