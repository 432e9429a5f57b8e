package main

import (
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Keys are all of the example's. Outside of it each has a place of its own: that of the kernel with
// the replicas, and those of people with these people.
type keys struct {
	kernel, ann, root, guard crypto.PrivateKey
}

func newKeys() (k keys, err error) {
	for _, key := range []*crypto.PrivateKey{&k.kernel, &k.ann, &k.root, &k.guard} {
		if *key, err = crypto.GenerateKey(); err != nil {
			return keys{}, err
		}
	}
	return k, nil
}

// pem is the kernel's key as replicas get it.
func (k keys) pem() (string, error) {
	var text strings.Builder
	err := crypto.WriteKey(&text, k.kernel)
	return text.String(), err
}

// A trust has the public keys of those who may approve and freeze.
type trust struct {
	Ann   crypto.PublicKey // an owner of the business
	Root  crypto.PublicKey // who may change the trust state
	Guard crypto.PublicKey // who is on call
}

func (k keys) trust() (t trust, err error) {
	for _, x := range []struct {
		key    crypto.PrivateKey
		public *crypto.PublicKey
	}{{k.ann, &t.Ann}, {k.root, &t.Root}, {k.guard, &t.Guard}} {
		if *x.public, err = crypto.PublicOf(x.key); err != nil {
			return trust{}, err
		}
	}
	return t, nil
}

// registry returns the trust state that the log begins with, the same in each replica.
func (t trust) registry() (*registry.Registry, error) {
	return registry.New(1,
		registry.Key{Name: "ann", Public: t.Ann, Role: registry.Approver, Roles: []string{"owner"}},
		registry.Key{Name: "root", Public: t.Root, Role: registry.Root},
		registry.Key{Name: "on call", Public: t.Guard, Role: registry.Freezer})
}

// initial returns that state as an auditor gets it, with the keys of kernel and log.
func (k keys) initial() (*registry.State, error) {
	t, err := k.trust()
	if err != nil {
		return nil, err
	}
	r, err := t.registry()
	if err != nil {
		return nil, err
	}
	kernel, err := crypto.PublicOf(k.kernel)
	if err != nil {
		return nil, err
	}
	log, err := crypto.PublicOf(crypto.DeriveLogKey(k.kernel))
	if err != nil {
		return nil, err
	}
	return r.Initial(kernel, log)
}

// The versions of the trust state: 1 is the initial one.
const (
	frozen = 2 + iota
	unfrozen
)

// freeze returns an event that denies every call, which one person can sign, and unfreeze the one
// that ends it, which the roots sign.
func (k keys) freeze() (contracts.Envelope, error) {
	event := contracts.TrustEvent{Type: "freeze", Why: "a payment that nobody knows", Origin: origin, Version: frozen}
	return contracts.TrustRecord{Event: event}.Sign(k.guard)
}

func (k keys) unfreeze() (contracts.Envelope, error) {
	event := contracts.TrustEvent{Type: "unfreeze", Why: "it was an example", Origin: origin, Version: unfrozen}
	return contracts.TrustRecord{Event: event}.Sign(k.root)
}
