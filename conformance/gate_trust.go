package conformance

import (
	"bytes"
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Gate 6: which keys count follows from the log, at each of its places.

func keyID(name string) contracts.Digest { return crypto.KeyID(publicOf(name)) }

// governed makes a world with three roots, of whom two decide, and a freezer.
func governed(t *trial, change ...func(w *world)) *world {
	return t.newWorld([]string{bankPolicy}, append([]func(w *world){
		registered(t, 2, keyNamed("root 1", registry.Root), keyNamed("root 2", registry.Root),
			keyNamed("root 3", registry.Root), keyNamed("on call", registry.Freezer),
			keyNamed("ann", registry.Approver, "owner"), keyNamed("kernel", registry.Kernel),
			keyNamed("log", registry.Log))}, change...)...)
}

func revoking(w *world, name string) contracts.TrustEvent {
	id := keyID(name)
	return next(w, contracts.TrustEvent{Type: "revoke", ID: &id, Why: "a case"})
}

// enthroning is the event that replaces the roots. The new ones prove themselves.
func enthroning(w *world, threshold uint64, roots ...string) contracts.TrustEvent {
	e := contracts.TrustEvent{Type: "root", Threshold: threshold}
	for _, name := range roots {
		e.Keys = append(e.Keys, contracts.RootKey{ID: keyID(name), Name: name, Public: publicOf(name)})
	}
	slices.SortFunc(e.Keys, func(a, b contracts.RootKey) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return next(w, e, roots...)
}

// refusesEvent holds the kernel to refusing an event: nothing is written.
func refusesEvent(w *world, what string, e contracts.Envelope) {
	before := len(w.entries())
	err := w.kernel.Govern(w.ctx, e)
	w.check(err != nil, "%s: taken", what)
	w.check(len(w.entries()) == before, "%s: refused, and an entry was written", what)
	w.check(w.kernel.Err() == nil, "%s: the kernel is sealed", what)
}

// unproved is an event whose new keys have another proof than their own.
func unproved(e contracts.TrustEvent) contracts.TrustEvent {
	e.Proof = make([]byte, 64)
	return e
}

func trustCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	for _, s := range storages {
		add("a key is added with its proof, "+s.name, func(t *trial) {
			w := governed(t, s.at)
			asked := asks(w, rent())
			yes := approve(w, asked, "bob")
			w.wantDenied(contracts.ReasonApprovalInvalid, rent(yes))
			govern(w, adding(w, "bob", registry.Approver, "owner"), "root 1", "root 2")
			w.wantRun(rent(yes))
			w.reopen()
			w.clock.pass(time.Second) // the same call at the same time is the same request
			w.wantRun(rent(approve(w, asks(w, rent()), "bob")))
			w.verified()
		})
		add("a revoked key: valid before, not after, "+s.name, func(t *trial) {
			w := governed(t, s.at)
			before := w.wantRun(rent(approve(w, asks(w, rent()), "ann")))
			govern(w, revoking(w, "ann"), "root 1", "root 3")
			w.clock.pass(time.Second)
			w.wantDenied(contracts.ReasonApprovalInvalid, rent(approve(w, asks(w, rent()), "ann")))
			w.wantReceipt(before, contracts.Executed)
			at, id := uint64(len(w.entries())), keyID("ann")
			s := w.state()
			_, then := s.Key(id, registry.Approver, before.receipt.Index)
			_, now := s.Key(id, registry.Approver, at)
			w.check(then && !now, "revoked: valid before %v, after %v", then, now)
			w.reopen()
			w.clock.pass(time.Second)
			w.wantDenied(contracts.ReasonApprovalInvalid, rent(approve(w, asks(w, rent()), "ann")))
			w.verified()
		})
		add("freeze and unfreeze, "+s.name, func(t *trial) {
			w := governed(t, s.at)
			in := rent()
			yes := approve(w, asks(w, in), "ann")
			govern(w, freezing(w), "on call")
			w.wantDenied(contracts.ReasonSystemFrozen, rent(yes))
			w.reopen()
			w.wantDenied(contracts.ReasonSystemFrozen, rent(yes))
			unfreeze := next(w, contracts.TrustEvent{Type: "unfreeze", Why: "a case"})
			refusesEvent(w, "an unfreeze by the freezer", signed(w, unfreeze, "on call"))
			refusesEvent(w, "an unfreeze by one root", signed(w, unfreeze, "root 1"))
			govern(w, unfreeze, "root 1", "root 2")
			w.wantRun(rent(yes))
			w.verified()
		})
	}
	add("roots are replaced by the threshold of old and new", func(t *trial) {
		w := governed(t)
		e := enthroning(w, 2, "root 3", "root 4", "root 5")
		refusesEvent(w, "by the old roots", signed(w, e, "root 1", "root 2"))
		refusesEvent(w, "by the new roots", signed(w, e, "root 4", "root 5"))
		refusesEvent(w, "by one old root", signed(w, e, "root 1", "root 4", "root 5"))
		refusesEvent(w, "by one new root", signed(w, e, "root 1", "root 2", "root 4"))
		govern(w, e, "root 1", "root 2", "root 4", "root 5")
		add := adding(w, "bob", registry.Approver, "owner")
		refusesEvent(w, "by roots that were replaced", signed(w, add, "root 1", "root 2"))
		refusesEvent(w, "by one root of two", signed(w, add, "root 1", "root 4"))
		govern(w, add, "root 3", "root 5")
		refusesEvent(w, "a root that returns",
			signed(w, enthroning(w, 1, "root 1"), "root 1", "root 3", "root 4"))
		w.verified()
	})
	add("the kernel's own key is replaced", func(t *trial) {
		w := governed(t)
		govern(w, adding(w, "kernel 2", registry.Kernel), "root 1", "root 2")
		w.kernel.Close()
		w.options.Key = keyOf("kernel 2")
		w.open()
		govern(w, revoking(w, "kernel"), "root 1", "root 2")
		asks(w, rent())
		w.packKey = "kernel 2"
		w.verified()
		w.kernel.Close()
		w.options.Key = keyOf("kernel")
		k, err := w.subject.open(w.options)
		if err == nil {
			k.Close()
		}
		w.check(err != nil, "a kernel opens with a key that was revoked")
		w.options.Key = keyOf("kernel 2")
		w.open()
	})
	for _, x := range []struct {
		name  string
		event func(w *world) contracts.Envelope
	}{
		{"a key without its proof", func(w *world) contracts.Envelope {
			return signed(w, unproved(adding(w, "bob", registry.Approver, "owner")), "root 1", "root 2")
		}},
		{"the proof of another event", func(w *world) contracts.Envelope {
			e := adding(w, "bob", registry.Approver, "owner")
			e.Name = "eve"
			return signed(w, e, "root 1", "root 2")
		}},
		{"no signature", func(w *world) contracts.Envelope { return signed(w, adding(w, "bob", registry.Attestor)) }},
		{"one root of two", func(w *world) contracts.Envelope {
			return signed(w, adding(w, "bob", registry.Attestor), "root 1")
		}},
		{"the kernel as a root", func(w *world) contracts.Envelope {
			return signed(w, adding(w, "bob", registry.Attestor), "root 1", "kernel")
		}},
		{"a stranger as a root", func(w *world) contracts.Envelope {
			return signed(w, adding(w, "bob", registry.Attestor), "root 1", "mallory")
		}},
		{"a key that is there", func(w *world) contracts.Envelope {
			return signed(w, adding(w, "ann", registry.Attestor), "root 1", "root 2")
		}},
		{"a root as a key", func(w *world) contracts.Envelope {
			return signed(w, adding(w, "bob", registry.Root), "root 1", "root 2")
		}},
		{"the last kernel key", func(w *world) contracts.Envelope {
			return signed(w, revoking(w, "kernel"), "root 1", "root 2")
		}},
		{"the last log key", func(w *world) contracts.Envelope {
			return signed(w, revoking(w, "log"), "root 1", "root 2")
		}},
		{"a key that nobody has", func(w *world) contracts.Envelope {
			return signed(w, revoking(w, "mallory"), "root 1", "root 2")
		}},
		{"the version of now", func(w *world) contracts.Envelope {
			e := freezing(w)
			e.Version--
			return signed(w, e, "on call")
		}},
		{"a version ahead", func(w *world) contracts.Envelope {
			e := freezing(w)
			e.Version++
			return signed(w, e, "on call")
		}},
		{"another log", func(w *world) contracts.Envelope {
			e := freezing(w)
			e.Origin = "example.test/other"
			return signed(w, e, "on call")
		}},
		{"a freeze by an approver", func(w *world) contracts.Envelope { return signed(w, freezing(w), "ann") }},
		{"an unfreeze of what is not frozen", func(w *world) contracts.Envelope {
			return signed(w, next(w, contracts.TrustEvent{Type: "unfreeze", Why: "a case"}), "root 1", "root 2")
		}},
		{"no root that is left", func(w *world) contracts.Envelope {
			return signed(w, enthroning(w, 2, "root 4"), "root 1", "root 2", "root 4")
		}},
		{"no event", func(w *world) contracts.Envelope { return contracts.Envelope(`{}`) }},
		{"nothing", func(w *world) contracts.Envelope { return nil }},
	} {
		add("refused: "+x.name, func(t *trial) {
			w := governed(t)
			state := w.state().Digest()
			refusesEvent(w, x.name, x.event(w))
			w.check(w.state().Digest() == state, "the state is another")
			w.wantRun(rent(approve(w, asks(w, rent()), "ann")))
			w.verified()
		})
	}
	add("the same event twice", func(t *trial) {
		w := governed(t)
		e := signed(w, freezing(w), "on call")
		t.must(w.kernel.Govern(t.ctx, e), "a freeze")
		refusesEvent(w, "the same event", e)
		w.verified()
	})
	add("without roots nothing changes", func(t *trial) {
		w := t.newWorld([]string{idempotencyPolicy})
		for _, e := range []contracts.Envelope{signed(w, freezing(w), "kernel"),
			signed(w, adding(w, "bob", registry.Approver, "owner"), "kernel")} {
			refusesEvent(w, "an event", e)
		}
		in := paying()
		in.Idempotency = ""
		w.wantRun(in)
		w.verified()
	})
	add("what is judged names the state of its place", func(t *trial) {
		w := governed(t)
		asks(w, rent())
		govern(w, freezing(w), "on call")
		w.wantDenied(contracts.ReasonSystemFrozen, rent())
		govern(w, next(w, contracts.TrustEvent{Type: "unfreeze", Why: "a case"}), "root 1", "root 2")
		asks(w, rent())
		s, seen := w.initial(), 0
		for i, st := range w.statements() {
			if d := st.Judgement(); d != nil {
				in := inputs(w, d.InputsHash)
				w.check(in.State.Trust == s.Digest(), "entry %d: judged under another state than that of its place", i)
				w.check(
					(d.Reason == contracts.ReasonSystemFrozen) == s.Frozen(),
					"entry %d: frozen is %v",
					i,
					s.Frozen(),
				)
				seen++
			}
			if st.Trust != nil {
				var err error
				s, err = s.Apply(st.Trust, origin, uint64(i))
				w.must(err, "a trust event of the log")
			}
		}
		w.check(seen == 3, "%d judgements, want 3", seen)
		w.verified()
	})
	return list
}

// inputs reads the inputs document of a judgement.
func inputs(w *world, d contracts.Digest) *contracts.Inputs {
	b, err := w.store.Store.Blob(w.ctx, d)
	w.must(err, "the inputs of a judgement")
	in, err := contracts.ParseInputs(b)
	w.must(err, "the inputs of a judgement")
	return in
}
