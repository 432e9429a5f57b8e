package forge

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
)

// TestKnifeIsSharp: a pack that is taken apart and put together unchanged is the same, byte for
// byte. So what a row of the catalogue refuses is refused for the one thing that it changes, and
// this second writer of the formats agrees with the first.
func TestKnifeIsSharp(t *testing.T) {
	t.Parallel()
	for name, p := range testPacks(t) {
		if strings.HasPrefix(name, "OK10") {
			continue // the forger made it: its checkpoint has lines of others
		}
		got := TakeApart(t, p.pack).Build()
		assert.True(t, bytes.Equal(got, p.pack), "%s: not the same after it was taken apart and put together", name)
	}
}

// TestKnifeFolds: the forger makes the states that the log was made with, so that what it changes
// is the only thing changed.
func TestKnifeFolds(t *testing.T) {
	t.Parallel()
	made := BaseLog(t)
	made.Checkpoint()
	m := TakeApart(t, made.Pack(evidence.Write))
	got := canonical(m.fold(nil))
	assert.True(t, bytes.Equal(got, made.state.Canonical()), "%s\nwant %s", got, made.state.Canonical())
}

// remove takes a node out; what follows it in its session follows the one before it.
func (m *Model) remove(n *Node) {
	m.Nodes = slices.Delete(m.Nodes, m.index(n), m.index(n)+1)
	for _, x := range m.Nodes {
		if x.prev == n {
			x.prev = n.prev
		}
		x.parents = slices.DeleteFunc(x.parents, func(p *Node) bool { return p == n })
	}
}

// copy makes one like n.
func (m *Model) copy(n *Node) *Node {
	c := *n
	c.st = parseObject(m, canonical(n.st))
	c.parents, c.Line = slices.Clone(n.parents), nil
	return &c
}

// insert puts a node at an index; the rest of its session follows it.
func (m *Model) insert(i int, n *Node) {
	n.prev = nil
	for _, x := range m.Nodes[:i] {
		if x.Text("session") == n.Text("session") {
			n.prev = x
		}
	}
	for _, x := range m.Nodes[i:] {
		if x.Text("session") == n.Text("session") {
			x.prev = n
			break
		}
	}
	m.Nodes = slices.Insert(m.Nodes, i, n)
}

func (m *Model) push(n *Node) { m.insert(len(m.Nodes), n) }

// inputs changes the inputs of a judgement; their name follows.
func (m *Model) inputs(n *Node, change func(in Object)) {
	m.Helper()
	old := n.D()["inputsHash"].(string)
	in := parseObject(m, m.Blobs[old])
	change(in)
	delete(m.Blobs, old)
	n.D()["inputsHash"] = m.blob(canonical(in))
}

// blob adds a blob and returns its name.
func (m *Model) blob(b []byte) string {
	m.Blobs[HexSum(b)] = b
	return HexSum(b)
}

// leavesOf returns the leaves of the first n entries, with their 0x00 in front.
func leavesOf(m *Model, n int) [][]byte {
	var out [][]byte
	for _, x := range m.Nodes[:n] {
		out = append(out, append([]byte{0}, x.Line...))
	}
	return out
}

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
