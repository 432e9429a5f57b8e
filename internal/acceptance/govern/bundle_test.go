package govern

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/trust/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// publishers is a trust state of two publishers, a root and an approver.
func publishers(t testing.TB) *registry.Registry {
	t.Helper()
	key := func(name string, role registry.Role, roles ...string) registry.Key {
		return registry.Key{Name: name, Public: kerneltest.NamedPublic(t, name), Role: role, Roles: roles}
	}
	r, err := registry.New(1, key("root", registry.Root), key("press", registry.Publisher),
		key("other press", registry.Publisher), key("olga", registry.Approver, "owner"))
	require.NoError(t, err)
	return r
}

// edition returns a version of the bundle, and the signature of it.
func edition(t testing.TB, version, signer string, edits ...string) (contracts.Document, contracts.Envelope) {
	t.Helper()
	text := strings.Replace(kerneltest.Policy, "version: 1", "version: "+version, 1)
	doc := kerneltest.Document(t, strings.NewReplacer(edits...).Replace(text))
	return doc,
		sealedBundle(t, signer, contracts.Bundle{Name: "test", Version: uint64(version[0] - '0'),
			Digest: crypto.Sum(doc.Canonical)})
}

func sealedBundle(t testing.TB, signer string, b contracts.Bundle) contracts.Envelope {
	t.Helper()
	e, err := b.Sign(kerneltest.NamedKey(t, signer))
	require.NoError(t, err)
	return e
}

// opened opens and compiles a bundle.
func opened(w *kerneltest.World, doc contracts.Document, signed contracts.Envelope) *guardian.Policy {
	w.T.Helper()
	bundle, err := w.Kernel.OpenBundle(signed, doc)
	require.NoError(w.T, err)
	p, err := guardian.Compile(bundle)
	require.NoError(w.T, err)
	return p
}

// underPress is a world under the first edition of the bundle, which was opened before there was a
// kernel.
func underPress(t *testing.T) *kerneltest.World {
	r := publishers(t)
	w := kerneltest.New(t, func(o *helm.Options) {
		state, err := r.Initial(kerneltest.Public(t, 1),
			crypto.DeriveLogKey(kerneltest.SeedKey(t, 1)).Public().(crypto.PublicKey))
		require.NoError(t, err)
		doc, signed := edition(t, "1", "press")
		doc, err = registry.OpenBundle(state, signed, doc)
		require.NoError(t, err)
		o.Policy, err = guardian.Compile(doc)
		require.NoError(t, err)
		o.Trust = r
	})
	w.Governed = true
	return w
}

// A bundle comes from its publisher, is opened, compiled, and put into force by New and by Swap. An
// old edition, as well signed as the new one, does not come back, neither under this kernel nor
// under the next one over the same log.
func TestSignedBundle(t *testing.T) {
	t.Parallel()
	w := underPress(t)
	w.MustAllow(w.Kernel, 1)
	stricter := []string{"allow: [echo, ", "allow: ["}
	doc, signed := edition(t, "2", "press", stricter...)
	second := opened(w, doc, signed)
	w.Swap(second)
	w.MustCall(kerneltest.Denied(contracts.ReasonNoPolicyDefined), "echo", `{}`)
	doc, signed = edition(t, "4", "other press")
	w.Swap(opened(w, doc, signed)) // by another publisher
	w.MustAllow(w.Kernel, 1)

	old, oldSignature := edition(t, "1", "press")
	first := opened(w, old, oldSignature) // its signature is still valid
	size := w.Size()
	err := w.Kernel.Swap(context.Background(), first)
	assert.ErrorContains(t, err, "policy P1 test: version 1 goes back: the log has had version 4",
		"Swap to an old edition")
	assert.Equal(t, size, w.Size(), "a refused swap wrote to the log")
	w.MustAllow(w.Kernel, 1)
	w.Close()
	w.Options.Policy = second
	k, err := helm.New(w.Options)
	assert.Nil(t, k, "New with an old edition")
	assert.ErrorContains(t, err, "version 2 goes back: the log has had version 4")
	doc, signed = edition(t, "5", "press", stricter...)
	w.Options.Policy = opened(w, doc, signed)
	w.Open()
	w.MustCall(kerneltest.Denied(contracts.ReasonNoPolicyDefined), "echo", `{}`)
	w.MustVerify()
}

// A document that a publisher did not sign, as it is, is no bundle: there is nothing to put into
// force, and the policy in force stays.
func TestUnsignedBundles(t *testing.T) {
	t.Parallel()
	w := underPress(t)
	doc, good := edition(t, "2", "press")
	digest := crypto.Sum(doc.Canonical)
	_, err := w.Kernel.OpenBundle(good, doc)
	require.NoError(t, err, "or the refusals would prove nothing")
	edited := func(old, new string) contracts.Document {
		x := doc
		x.Canonical = bytes.Replace(doc.Canonical, []byte(old), []byte(new), 1)
		require.False(t, bytes.Equal(x.Canonical, doc.Canonical), "the document has no %q", old)
		return x
	}
	names := func(x contracts.Document, name string, version uint64) contracts.Envelope {
		return sealedBundle(t, "press", contracts.Bundle{Name: name, Version: version, Digest: crypto.Sum(x.Canonical)})
	}
	floor := kerneltest.Document(t, kerneltest.LayerFloor)
	spaced := doc
	spaced.Canonical = append(bytes.Clone(doc.Canonical), '\n')
	_, old := edition(t, "1", "press")
	_, foreign := edition(t, "2", "stranger")
	_, approved := edition(t, "2", "olga")
	_, rooted := edition(t, "2", "root")
	own, err := contracts.Bundle{Name: "test", Version: 2, Digest: digest}.Sign(w.Key)
	require.NoError(t, err)
	granted := kerneltest.Chain(t, contracts.Delegation{Delegator: "press", Delegate: "agent"})[0]
	flipped := bytes.Clone(good)
	at := bytes.Index(flipped, []byte(`"sig":"`)) + 20
	flipped[at] = map[bool]byte{true: 'B', false: 'A'}[flipped[at] == 'A']
	for name, x := range map[string]struct {
		signed contracts.Envelope
		doc    contracts.Document
		says   string
	}{
		"a rule more": {good, edited(`"finds":"secret"`, `"finds":"nothing"`),
			"another document was signed"},
		"another version":             {good, edited(`"version":2`, `"version":3`), "another document was signed"},
		"not canonical":               {good, spaced, "another document was signed"},
		"not canonical, and signed":   {names(spaced, "test", 2), spaced, "not in canonical form"},
		"no document":                 {good, contracts.Document{}, "another document was signed"},
		"signed as a later version":   {names(doc, "test", 9), doc, "bundle.version: not the one that was signed"},
		"signed as another bundle":    {names(doc, "best", 2), doc, "bundle.name: not the one that was signed"},
		"a floor":                     {names(floor, "acme", 2), floor, "layer: not P1"},
		"of the version before":       {old, doc, "another document was signed"},
		"by a stranger":               {foreign, doc, "KEY"},
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
		opened, err := w.Kernel.OpenBundle(x.signed, x.doc)
		assert.ErrorContains(t, err, x.says, name)
		assert.Nil(t, opened.Canonical, name)
		assert.Empty(t, opened.Name, name)
		p, err := guardian.Compile(opened) // by a host that ignores errors
		assert.Nil(t, p, "%s: it was put into force", name)
		assert.Error(t, err, "%s: it was put into force", name)
		assert.Error(t, w.Kernel.Swap(context.Background(), p), "%s: it was put into force", name)
	}
	var none *helm.Kernel
	opened, err := none.OpenBundle(good, doc)
	assert.Error(t, err, "no kernel opened a bundle")
	assert.Nil(t, opened.Canonical)
	w.MustAllow(w.Kernel, 1)
	w.MustHavePolicies("P1:test:1")
	w.MustVerify()
}

// A publisher whose key is revoked publishes no more, not even what they signed before; one whose
// key was added does. The kernel opens bundles by the present trust state, as does a narrowed one,
// and the next one over the same log.
func TestRevokedPublisher(t *testing.T) {
	t.Parallel()
	w := underPress(t)
	second, signed := edition(t, "2", "press")
	third, later := edition(t, "3", "new press")
	_, err := w.Kernel.OpenBundle(later, third)
	assert.Error(t, err, "a bundle by an unknown publisher was opened")
	e, err := contracts.TrustEvent{Type: "key", Origin: kerneltest.Origin, Version: 2, Name: "new press",
		Role: "publisher"}.Prove(kerneltest.NamedKey(t, "new press"))
	require.NoError(t, err)
	w.GovernByName(e, "root")
	w.Swap(opened(w, second, signed))
	id := crypto.KeyID(kerneltest.NamedPublic(t, "press"))
	w.GovernByName(contracts.TrustEvent{Type: "revoke", ID: &id}, "root")
	fourth, revoked := edition(t, "4", "press")
	look := func(when string, k *helm.Kernel) {
		t.Helper()
		for _, x := range []struct {
			signed contracts.Envelope
			doc    contracts.Document
		}{{signed, second}, {revoked, fourth}} {
			doc, err := k.OpenBundle(x.signed, x.doc)
			assert.ErrorContains(t, err, "KEY", "%s: a bundle by a key that was revoked", when)
			assert.Nil(t, doc.Canonical, "%s: a bundle by a key that was revoked", when)
		}
		_, err := k.OpenBundle(later, third)
		assert.NoError(t, err, when)
	}
	look("at once", w.Kernel)
	look("by a narrowed kernel", w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5)))
	w.MustAllow(w.Kernel, 1) // what is in force stays
	w.Close()
	// the policy that was in force
	w.Options.Policy = kerneltest.Compile(t, strings.Replace(kerneltest.Policy, "version: 1", "version: 2", 1))
	w.Open()
	look("after a restart", w.Kernel)
	w.Swap(opened(w, third, later))
	w.MustAllow(w.Kernel, 1)
	w.MustVerify()
}

// A publisher whose trust event could not be signed or stored opens nothing: the log does not have
// them.
func TestBundleBehindAFailedEvent(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w *kerneltest.World){"signed": func(w *kerneltest.World) {
		w.Key.FailIn(1)
	}, "stored": func(w *kerneltest.World) { w.Store.FailIn(1) }} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.NewGoverned(t)
			doc, by := edition(t, "2", "late press")
			add, err := w.Event(contracts.TrustEvent{Type: "key", Name: "late press",
				Role: "publisher"}).Prove(kerneltest.NamedKey(t, "late press"))
			require.NoError(t, err)
			fail(w)
			require.Error(t, w.Kernel.Govern(context.Background(),
				kerneltest.SignEvent(t, add, kerneltest.Root1, kerneltest.Root2)), "it was entered")
			for _, next := range []bool{false, true} {
				if next {
					w.Open()
				}
				doc, err := w.Kernel.OpenBundle(by, doc)
				assert.Error(t, err, "next kernel %v: opened", next)
				assert.Nil(t, doc.Canonical, "next kernel %v: opened", next)
			}
			w.GovernByRoots(add)
			_, err = w.Kernel.OpenBundle(by, doc)
			assert.NoError(t, err)
		})
	}
}
