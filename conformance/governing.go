package conformance

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/trust/registry"
)

// keyNamed is a key of a registry that follows from its name.
func keyNamed(name string, role registry.Role, roles ...string) registry.Key {
	return registry.Key{Name: name, Public: publicOf(name), Role: role, Roles: roles}
}

// registered is an option: the log has these keys, and so many roots decide.
func registered(t *trial, threshold int, keys ...registry.Key) func(w *world) {
	r, err := registry.New(threshold, keys...)
	t.must(err, "a registry")
	return func(w *world) { w.options.Trust = r }
}

// next is a trust event that comes next in the log. The keys that it adds prove themselves.
func next(w *world, e contracts.TrustEvent, adds ...string) contracts.TrustEvent {
	e.Origin, e.Version = origin, w.state().Version()+1
	for _, name := range adds {
		var err error
		e, err = e.Prove(keyOf(name))
		w.must(err, "the proof of a new key")
	}
	return e
}

// signed is the envelope of a trust event that these sign.
func signed(w *world, e contracts.TrustEvent, by ...string) contracts.Envelope {
	record := &contracts.TrustRecord{Event: e}
	envelope := contracts.Envelope(record.Append(nil))
	for _, name := range by {
		var err error
		envelope, err = record.Sign(keyOf(name))
		w.must(err, "signing a trust event")
		record, err = contracts.ParseTrust(envelope)
		w.must(err, "reading a trust event")
	}
	return envelope
}

// govern enters a trust event that comes next, signed by these.
func govern(w *world, e contracts.TrustEvent, by ...string) {
	w.must(w.kernel.Govern(w.ctx, signed(w, e, by...)), "a trust event: "+e.Type)
}

// adding is the event that adds a key which follows from its name.
func adding(w *world, name string, role registry.Role, roles ...string) contracts.TrustEvent {
	return next(w, contracts.TrustEvent{Type: "key", Name: name, Role: string(role), Roles: roles}, name)
}

// freezing is the event that freezes the system.
func freezing(w *world) contracts.TrustEvent {
	return next(w, contracts.TrustEvent{Type: "freeze", Why: "a case"})
}
