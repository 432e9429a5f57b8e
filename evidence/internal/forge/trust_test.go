package forge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// The forger of trust events. It folds them by their JSON, and asks of none of them whether it may
// happen.

func (n *Node) event() Object { return n.P()["event"].(Object) }

// paeOf is what signatures over an event are over, and proofs, but for the proofs in it.
func paeOf(e Object) []byte {
	return crypto.AppendPAE(nil, "application/vnd.helm.trust-event+json", canonical(e))
}

func (m *Model) bare(e Object) Object {
	c := parseObject(m, canonical(e))
	delete(c, "proof")
	for _, k := range listOf(c, "keys") {
		delete(k, "proof")
	}
	return c
}

func listOf(o Object, name string) (out []Object) {
	list, _ := o[name].([]any)
	for _, x := range list {
		out = append(out, x.(Object))
	}
	return out
}

// encoded is base64.
func encoded(b []byte) string { return string(crypto.AppendBase64(nil, b)) }

// signatures are those of an event, in the order given.
func (m *Model) signatures(e Object, by ...byte) []any {
	list := []any{}
	for _, seed := range by {
		list = append(list, Object{"keyid": keyHex(m, seed), "sig": encoded(signWith(m, seed, paeOf(e)))})
	}
	return list
}

// prove fills in the proofs of the keys that an event adds, as far as their seeds are given.
func (m *Model) prove(e Object, by ...byte) {
	for _, k := range append(listOf(e, "keys"), e) {
		for _, seed := range by {
			if k["id"] == keyHex(m, seed) && k["public"] != nil {
				k["proof"] = encoded(signWith(m, seed, paeOf(m.bare(e))))
			}
		}
	}
}

// resign signs an event again, by these keys in order of their ids.
func (m *Model) resign(n *Node, by ...byte) {
	slices.SortFunc(by, func(a, b byte) int { return strings.Compare(keyHex(m, a), keyHex(m, b)) })
	n.P()["signatures"] = m.signatures(n.event(), by...)
}

// adds is an event that adds a key, which proves itself.
func (m *Model) adds(seed byte, role string) Object {
	return Object{"type": "key", "id": keyHex(m, seed), "name": "new", "public": encoded(Public(m, seed)), "role": role}
}

// roots is an event that replaces the roots.
func (m *Model) roots(threshold int, seeds ...byte) Object {
	slices.SortFunc(seeds, func(a, b byte) int { return strings.Compare(keyHex(m, a), keyHex(m, b)) })
	var keys []any
	for _, seed := range seeds {
		keys = append(keys, Object{"id": keyHex(m, seed), "name": "new", "public": encoded(Public(m, seed))})
	}
	return Object{"type": "root", "keys": keys, "threshold": threshold}
}

// complete fills in what every event has, and proves it: the version is that of
// the state after the last entry.
func (m *Model) complete(e Object) Object {
	if e["origin"] == nil {
		e["origin"] = Origin
	}
	if e["version"] == nil {
		last := m.fold(nil)
		e["version"] = numberOf(m, last["version"]) + 1
	}
	var all []byte
	for seed := byte(1); seed <= SeedD; seed++ {
		all = append(all, seed)
	}
	m.prove(e, all...)
	return e
}

// govern appends a trust event, complete and signed by these.
func (m *Model) govern(e Object, by ...byte) *Node {
	last := m.Nodes[len(m.Nodes)-1]
	n := &Node{by: seedK2, st: Object{"_type": last.st["_type"],
		"predicateType": "https://github.com/helmkernel/helm/trust/v1",
		"predicate":     Object{"event": m.complete(e), "parents": []any{}, "session": "", "time": last.Text("time")}}}
	m.resign(n, by...)
	m.push(n)
	return n
}

func numberOf(t testing.TB, x any) int {
	t.Helper()
	n, err := x.(json.Number).Int64()
	require.NoError(t, err)
	return int(n)
}

// fold returns the trust state after the last entry. each, if any, is called with the state of
// every entry.
func (m *Model) fold(each func(n *Node, state Object)) Object {
	s := parseObject(m, m.Blobs[m.Nodes[0].Text("trust")])
	for i, n := range m.Nodes {
		if each != nil {
			each(n, s)
		}
		if n.Kind() == "trust" {
			s = parseObject(m, canonical(follow(s, n.event(), i)))
		}
	}
	return s
}

// follow makes what an event makes of a state.
func follow(s, e Object, at int) Object {
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
			if !slices.ContainsFunc(keys, func(x Object) bool { return x["id"] == k["id"] }) {
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
	slices.SortFunc(keys, func(a, b Object) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	list := []any{}
	for _, k := range keys {
		list = append(list, k)
	}
	s["keys"] = list
	return s
}

// heldOf is a new key of a state.
func heldOf(o Object, since int, fields ...string) Object {
	k := Object{"since": since}
	for _, f := range fields {
		if o[f] != nil {
			k[f] = o[f]
		}
	}
	return k
}

// retrust sets the trust state in the inputs of every judgement to what the events before it make.
func (m *Model) retrust() {
	m.fold(func(n *Node, s Object) {
		if n.D() != nil && m.Blobs[n.D()["inputsHash"].(string)] != nil {
			m.inputs(n, func(in Object) { in["state"].(Object)["trust"] = HexOf(s) })
		}
	})
}

func sortedStrings(list []any) []any {
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return list
}
