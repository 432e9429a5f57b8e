package helm_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/trust/registry"
)

// publishers are two who sign bundles, beside a root and one who approves.
func publishers(t testing.TB) *registry.Registry {
	t.Helper()
	key := func(name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: keyOf(t, name).Public().(crypto.PublicKey), Role: role, Roles: roles}
	}
	r, err := registry.New(1, key("root", registry.Root), key("press", registry.Publisher), key("other press", registry.Publisher), key("olga", registry.Approver, "owner"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// edition is a version of the bundle of the tests, and what somebody signed of it.
func edition(t testing.TB, version, signer string, edits ...string) (contracts.Document, contracts.Envelope) {
	t.Helper()
	text := strings.Replace(policyText, "version: 1", "version: "+version, 1)
	doc := document(t, strings.NewReplacer(edits...).Replace(text))
	return doc, sealedBundle(t, signer, contracts.Bundle{Name: "test", Version: uint64(version[0] - '0'), Digest: crypto.Sum(doc.Canonical)})
}

func sealedBundle(t testing.TB, signer string, b contracts.Bundle) contracts.Envelope {
	t.Helper()
	e, err := b.Sign(keyOf(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// opened compiles a bundle that the kernel has opened.
func (w *world) opened(doc contracts.Document, signed contracts.Envelope) *guardian.Policy {
	w.t.Helper()
	bundle, err := w.k.OpenBundle(signed, doc)
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := guardian.Compile(bundle)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// underPress is a world under the first edition of the bundle, which was opened before there was a kernel.
func underPress(t *testing.T) *world {
	r := publishers(t)
	w := newWorld(t, func(o *helm.Options) {
		state, err := r.Initial(public(t, 1), crypto.DeriveLogKey(seedKey(t, 1)).Public().(crypto.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		doc, signed := edition(t, "1", "press")
		if doc, err = registry.OpenBundle(state, signed, doc); err != nil {
			t.Fatal(err)
		}
		if o.Policy, err = guardian.Compile(doc); err != nil {
			t.Fatal(err)
		}
		o.Trust = r
	})
	w.governed = true
	return w
}

// A bundle comes from its publisher, is opened, compiled, and put into force by New and by Swap; and an old edition, as well signed as the new
// one, does not come back, neither under the kernel nor under the next one over the same log.
func TestSignedBundle(t *testing.T) {
	w := underPress(t)
	w.mustAllow(w.k, 1)
	stricter := []string{"allow: [echo, ", "allow: ["}
	doc, signed := edition(t, "2", "press", stricter...)
	second := w.opened(doc, signed)
	w.swap(second)
	d, r := w.call("echo", `{}`)
	w.mustBe(d, r, want{reason: contracts.ReasonNoPolicyDefined, outcome: contracts.Denied, err: helm.ErrDenied})
	doc, signed = edition(t, "4", "other press")
	w.swap(w.opened(doc, signed)) // a publisher is one like the other
	w.mustAllow(w.k, 1)

	first := w.opened(edition(t, "1", "press")) // for a signature does not grow old
	size := w.size()
	if err := w.k.Swap(context.Background(), first); err == nil || !strings.Contains(err.Error(), "policy P1 test: version 1 goes back: the log has had version 4") {
		t.Errorf("Swap to an old edition: %v", err)
	}
	if w.size() != size {
		t.Error("a refused swap wrote to the log")
	}
	w.mustAllow(w.k, 1)
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.o.Policy = second
	if k, err := helm.New(w.o); k != nil || err == nil || !strings.Contains(err.Error(), "version 2 goes back: the log has had version 4") {
		t.Errorf("New with an old edition: %v", err)
	}
	doc, signed = edition(t, "5", "press", stricter...)
	w.o.Policy = w.opened(doc, signed)
	w.open()
	d, r = w.call("echo", `{}`)
	w.mustBe(d, r, want{reason: contracts.ReasonNoPolicyDefined, outcome: contracts.Denied, err: helm.ErrDenied})
	w.mustVerify()
}

// What a publisher did not sign, as it stands, is no bundle: there is no document, so nothing to put into force, and what was in force stays.
func TestUnsignedBundles(t *testing.T) {
	w := underPress(t)
	doc, good := edition(t, "2", "press")
	digest := crypto.Sum(doc.Canonical)
	if _, err := w.k.OpenBundle(good, doc); err != nil {
		t.Fatal(err) // or the refusals would prove nothing
	}
	edited := func(old, new string) contracts.Document {
		x := doc
		if x.Canonical = bytes.Replace(doc.Canonical, []byte(old), []byte(new), 1); bytes.Equal(x.Canonical, doc.Canonical) {
			t.Fatalf("the document has no %q", old)
		}
		return x
	}
	names := func(x contracts.Document, name string, version uint64) contracts.Envelope {
		return sealedBundle(t, "press", contracts.Bundle{Name: name, Version: version, Digest: crypto.Sum(x.Canonical)})
	}
	floor := document(t, layerFloor)
	spaced := doc
	spaced.Canonical = append(bytes.Clone(doc.Canonical), '\n')
	_, old := edition(t, "1", "press")
	_, foreign := edition(t, "2", "somebody")
	_, approved := edition(t, "2", "olga")
	_, rooted := edition(t, "2", "root")
	own, err := contracts.Bundle{Name: "test", Version: 2, Digest: digest}.Sign(w.key)
	if err != nil {
		t.Fatal(err)
	}
	granted := chainOf(t, contracts.Delegation{Delegator: "press", Delegate: "agent"})[0]
	flipped := bytes.Clone(good)
	at := bytes.Index(flipped, []byte(`"sig":"`)) + 20
	flipped[at] = map[bool]byte{true: 'B', false: 'A'}[flipped[at] == 'A']
	for name, x := range map[string]struct {
		signed contracts.Envelope
		doc    contracts.Document
		says   string
	}{
		"a rule more":                 {good, edited(`"finds":"secret"`, `"finds":"nothing"`), "another document was signed"},
		"another version":             {good, edited(`"version":2`, `"version":3`), "another document was signed"},
		"not canonical":               {good, spaced, "another document was signed"},
		"not canonical, and signed":   {names(spaced, "test", 2), spaced, "not in canonical form"},
		"no document":                 {good, contracts.Document{}, "another document was signed"},
		"signed as a later version":   {names(doc, "test", 9), doc, "bundle.version: not the one that was signed"},
		"signed as another bundle":    {names(doc, "best", 2), doc, "bundle.name: not the one that was signed"},
		"a floor":                     {names(floor, "acme", 2), floor, "layer: not P1"},
		"of the version before":       {old, doc, "another document was signed"},
		"by somebody":                 {foreign, doc, "KEY"},
		"by an approver":              {approved, doc, "KEY"},
		"by a root":                   {rooted, doc, "KEY"},
		"by the kernel":               {own, doc, "KEY"},
		"a signature with a flip":     {flipped, doc, ""},
		"a grant":                     {granted, doc, ""},
		"not signed":                  {nil, doc, ""},
		"null":                        {contracts.Envelope("null"), doc, ""},
		"an empty envelope":           {contracts.Envelope("{}"), doc, ""},
		"an envelope with more to it": {append(bytes.Clone(good), ' '), doc, ""},
	} {
		opened, err := w.k.OpenBundle(x.signed, x.doc)
		if err == nil || !strings.Contains(err.Error(), x.says) || opened.Canonical != nil || opened.Name != "" {
			t.Errorf("%s: %v", name, err)
		}
		p, err := guardian.Compile(opened) // by a host that looks at no errors
		if p != nil || err == nil || w.k.Swap(context.Background(), p) == nil {
			t.Errorf("%s: it was put into force", name)
		}
	}
	var none *helm.Kernel
	if opened, err := none.OpenBundle(good, doc); err == nil || opened.Canonical != nil {
		t.Error("no kernel opened a bundle")
	}
	w.mustAllow(w.k, 1)
	w.mustHold("P1:test:1")
	w.mustVerify()
}

// A publisher whose key is revoked publishes no more, also what he signed before; one whose key was added does. The kernel opens by the state
// of now, and so does a narrowed one, and the next over the same log.
func TestRevokedPublisher(t *testing.T) {
	w := underPress(t)
	second, signed := edition(t, "2", "press")
	third, later := edition(t, "3", "new press")
	if _, err := w.k.OpenBundle(later, third); err == nil {
		t.Error("a bundle by nobody who is known was opened")
	}
	e, err := contracts.TrustEvent{Type: "key", Origin: origin, Version: 2, Name: "new press", Role: "publisher"}.Prove(keyOf(t, "new press"))
	if err != nil {
		t.Fatal(err)
	}
	w.end(e, "root")
	w.swap(w.opened(second, signed))
	id := crypto.KeyID(keyOf(t, "press").Public().(crypto.PublicKey))
	w.end(contracts.TrustEvent{Type: "revoke", ID: &id}, "root")
	fourth, revoked := edition(t, "4", "press")
	look := func(when string, k *helm.Kernel) {
		t.Helper()
		for _, x := range []struct {
			signed contracts.Envelope
			doc    contracts.Document
		}{{signed, second}, {revoked, fourth}} {
			if doc, err := k.OpenBundle(x.signed, x.doc); err == nil || !strings.Contains(err.Error(), "KEY") || doc.Canonical != nil {
				t.Errorf("%s: a bundle by a key that was revoked: %v", when, err)
			}
		}
		if _, err := k.OpenBundle(later, third); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	look("at once", w.k)
	look("by a narrowed kernel", w.narrow(w.k, few(t, "task", 1, 5)))
	w.mustAllow(w.k, 1) // what is in force stays
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	w.o.Policy = compile(t, strings.Replace(policyText, "version: 1", "version: 2", 1)) // what was in force
	w.open()
	look("after a restart", w.k)
	w.swap(w.opened(third, later))
	w.mustAllow(w.k, 1)
	w.mustVerify()
}

// A publisher whom a trust event was to add, that could not be signed or stored, opens nothing: the log does not say that he is one.
func TestBundleBehindAFailedEvent(t *testing.T) {
	for name, fail := range map[string]func(w *world){"signed": func(w *world) { w.key.in(1) }, "stored": func(w *world) { w.store.in(1) }} {
		t.Run(name, func(t *testing.T) {
			w := newRealm(t)
			doc, by := edition(t, "2", "late press")
			add, err := w.event(contracts.TrustEvent{Type: "key", Name: "late press", Role: "publisher"}).Prove(keyOf(t, "late press"))
			if err != nil {
				t.Fatal(err)
			}
			fail(w)
			if err := w.k.Govern(context.Background(), signed(t, add, seedR1, seedR2)); err == nil {
				t.Fatal("it was entered")
			}
			for _, next := range []bool{false, true} {
				if next {
					w.open()
				}
				if doc, err := w.k.OpenBundle(by, doc); err == nil || doc.Canonical != nil {
					t.Errorf("next kernel %v: opened", next)
				}
			}
			w.govern(add, seedR1, seedR2)
			if _, err := w.k.OpenBundle(by, doc); err != nil {
				t.Error(err)
			}
		})
	}
}
