package helm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
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
			kept, err := w.k.Checkpoint(context.Background()) // by somebody who looks again when all keys are others
			if err != nil {
				t.Fatal(err)
			}

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
			w.mustVerify()

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
			var pack bytes.Buffer
			for _, old := range []crypto.Signer{seedKey(t, 1), seedKey(t, seedL2), seedKey(t, seedR1)} {
				if err := evidence.Write(context.Background(), &pack, w.store.Store, old); err == nil || pack.Len() > 0 {
					t.Errorf("a pack by a key that is no kernel key any more: %v", err)
				}
			}
			if err := evidence.Write(context.Background(), &pack, w.store.Store, w.key.PrivateKey); err != nil {
				t.Fatal(err)
			}
			verify := evidence.Options{Trust: w.k.Trust(), Origin: origin, Last: kept.Note}
			report, err = evidence.Verify(context.Background(), bytes.NewReader(pack.Bytes()), int64(pack.Len()), verify)
			if err != nil || report.History != evidence.Fresh || !report.Success(evidence.Logged) {
				t.Errorf("after the checkpoint of the beginning: %v, %+v", err, report)
			}
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

// A registry may have kernel keys of its own, also under the names that New gives. For others to go on it has those that the log began with.
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
			began := append(slices.Clone(listed[:n]), registry.Key{Name: "log", Public: must(crypto.PublicOf(crypto.DeriveLogKey(seedKey(t, 1)))), Role: registry.Log})
			if n < len(listed) {
				began = append(began, listed[len(listed)-1])
			}
			w.o.Trust = must(registry.New(2, began...))
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
			report := w.mustVerify()
			if n == 4 {
				w.mustAgree(report)
			}
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

// An event as large as any that is read has its place in an entry: it seals no kernel.
func TestGovernLargestEvent(t *testing.T) {
	w := newRealm(t, func(o *helm.Options) { o.Origin = strings.Repeat("o", 255) })
	var e contracts.TrustEvent
	sign := func(n int) (contracts.Envelope, error) {
		e = contracts.TrustEvent{Type: "root", Origin: w.o.Origin, Version: 2, Threshold: 1}
		seeds := []byte{seedR1, seedR2}
		for i := range n {
			seeds = append(seeds, byte(100+i))
		}
		for _, seed := range seeds {
			e.Keys = append(e.Keys, contracts.RootKey{Name: strings.Repeat("n", 128), Public: public(t, seed)})
		}
		e = w.event(e, seeds...)
		first, err := contracts.TrustRecord{Event: e}.Sign(seedKey(t, seedR1))
		if err != nil {
			return nil, err
		}
		return must(contracts.ParseTrust(first)).Sign(seedKey(t, seedR2))
	}
	n := 1
	largest, err := sign(n)
	for ; err == nil; n++ {
		var next contracts.Envelope
		if next, err = sign(n + 1); err == nil {
			largest = next
		}
	}
	if n < 20 {
		t.Fatalf("%d keys are too many: %v", n, err)
	}
	if err := w.k.Govern(context.Background(), largest); err != nil {
		t.Fatal(err)
	}
	if d, _ := w.of(w.k, 1); d.Err() != nil {
		t.Error(d.Err())
	}
}
