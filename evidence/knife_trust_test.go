package evidence

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/crypto"
)

// The knife for trust events. It folds them by their JSON, and asks of none of them whether it may happen.

func (n *node) event() object { return n.p()["event"].(object) }

// paeOf is what signatures over an event are over, and proofs, but for the proofs in it.
func paeOf(e object) []byte {
	return crypto.AppendPAE(nil, "application/vnd.helm.trust-event+json", canonical(e))
}

func (m *model) bare(e object) object {
	c := parseObject(m, canonical(e))
	delete(c, "proof")
	for _, k := range listOf(c, "keys") {
		delete(k, "proof")
	}
	return c
}

func listOf(o object, name string) (out []object) {
	list, _ := o[name].([]any)
	for _, x := range list {
		out = append(out, x.(object))
	}
	return out
}

// encoded is base64.
func encoded(b []byte) string { return string(crypto.AppendBase64(nil, b)) }

// signatures are those of an event, in the order given.
func (m *model) signatures(e object, by ...byte) []any {
	list := []any{}
	for _, seed := range by {
		list = append(list, object{"keyid": keyHex(m, seed), "sig": encoded(signWith(m, seed, paeOf(e)))})
	}
	return list
}

// prove fills in the proofs of the keys that an event adds, as far as their seeds are given.
func (m *model) prove(e object, by ...byte) {
	for _, k := range append(listOf(e, "keys"), e) {
		for _, seed := range by {
			if k["id"] == keyHex(m, seed) && k["public"] != nil {
				k["proof"] = encoded(signWith(m, seed, paeOf(m.bare(e))))
			}
		}
	}
}

// resign signs an event anew, by these keys in order of their ids.
func (m *model) resign(n *node, by ...byte) {
	slices.SortFunc(by, func(a, b byte) int { return strings.Compare(keyHex(m, a), keyHex(m, b)) })
	n.p()["signatures"] = m.signatures(n.event(), by...)
}

// adds is an event that adds a key, which proves itself.
func (m *model) adds(seed byte, role string) object {
	return object{"type": "key", "id": keyHex(m, seed), "name": "new", "public": encoded(testPublic(m, seed)), "role": role}
}

// roots is an event that replaces the roots.
func (m *model) roots(threshold int, seeds ...byte) object {
	slices.SortFunc(seeds, func(a, b byte) int { return strings.Compare(keyHex(m, a), keyHex(m, b)) })
	var keys []any
	for _, seed := range seeds {
		keys = append(keys, object{"id": keyHex(m, seed), "name": "new", "public": encoded(testPublic(m, seed))})
	}
	return object{"type": "root", "keys": keys, "threshold": threshold}
}

// complete fills in what an event has beside what it says, and proves it: the version is that of the state after the last entry.
func (m *model) complete(e object) object {
	if e["origin"] == nil {
		e["origin"] = testOrigin
	}
	if e["version"] == nil {
		last := m.fold(nil)
		e["version"] = numberOf(m, last["version"]) + 1
	}
	var all []byte
	for seed := byte(1); seed <= seedD; seed++ {
		all = append(all, seed)
	}
	m.prove(e, all...)
	return e
}

// govern appends a trust event, complete and signed by these.
func (m *model) govern(e object, by ...byte) *node {
	last := m.nodes[len(m.nodes)-1]
	n := &node{by: seedK2, st: object{"_type": last.st["_type"], "predicateType": "https://github.com/helmkernel/helm/trust/v1",
		"predicate": object{"event": m.complete(e), "parents": []any{}, "session": "", "time": last.text("time")}}}
	m.resign(n, by...)
	m.push(n)
	return n
}

func numberOf(t testing.TB, x any) int {
	t.Helper()
	n, err := x.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// fold gives the trust state after the last entry. each, if any, is called with the state of every entry.
func (m *model) fold(each func(n *node, state object)) object {
	s := parseObject(m, m.blobs[m.nodes[0].text("trust")])
	for i, n := range m.nodes {
		if each != nil {
			each(n, s)
		}
		if n.kind() == "trust" {
			s = parseObject(m, canonical(follow(s, n.event(), i)))
		}
	}
	return s
}

// follow makes what an event makes of a state.
func follow(s, e object, at int) object {
	s["version"] = e["version"]
	keys := listOf(s, "keys")
	switch e["type"] {
	case "key":
		keys = append(keys, heldOf(e, at, "id", "name", "public", "role", "roles"))
	case "revoke":
		for _, k := range keys {
			if k["id"] == e["id"] {
				k["revoked"] = at
			}
		}
	case "root":
		given := map[any]bool{}
		for _, k := range listOf(e, "keys") {
			given[k["id"]] = true
			if !slices.ContainsFunc(keys, func(x object) bool { return x["id"] == k["id"] }) {
				x := heldOf(k, at, "id", "name", "public")
				x["role"] = "root"
				keys = append(keys, x)
			}
		}
		for _, k := range keys {
			if k["role"] == "root" && k["revoked"] == nil && !given[k["id"]] {
				k["revoked"] = at
			}
		}
		s["threshold"] = e["threshold"]
	case "undelegate":
		s["revoked"] = sortedStrings(append(s["revoked"].([]any), e["delegation"]))
	case "freeze", "unfreeze":
		s["frozen"] = e["type"] == "freeze"
	}
	slices.SortFunc(keys, func(a, b object) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	list := []any{}
	for _, k := range keys {
		list = append(list, k)
	}
	s["keys"] = list
	return s
}

// heldOf is a new key of a state.
func heldOf(o object, since int, fields ...string) object {
	k := object{"since": since}
	for _, f := range fields {
		if o[f] != nil {
			k[f] = o[f]
		}
	}
	return k
}

// retrust gives the inputs of every judgement the trust state that the events before it make.
func (m *model) retrust() {
	m.fold(func(n *node, s object) {
		if n.d() != nil && m.blobs[n.d()["inputsHash"].(string)] != nil {
			m.inputs(n, func(in object) { in["state"].(object)["trust"] = hexOf(s) })
		}
	})
}

// TestKnifeFolds: the knife makes the states that the log was made with, so that what it changes is the only thing changed.
func TestKnifeFolds(t *testing.T) {
	made := baseLog(t)
	made.checkpoint()
	m := takeApart(t, made.pack())
	if got := canonical(m.fold(nil)); !bytes.Equal(got, made.state.Canonical()) {
		t.Errorf("%s\nwant %s", got, made.state.Canonical())
	}
}
