package forge

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Stubs as the forger knows them: what is left of an entry is made from the entry, by its JSON.

// drop makes the stub of a node, which from there on stands for it. The leaf hash is the stub's.
func (m *Model) drop(n *Node) {
	m.Helper()
	n.stub, n.is = m.stubOf(n), nil
	s := parseObject(m, n.stub)["stub"].(Object)
	if n.stubbed != nil {
		n.stubbed(s)
		n.stub = canonical(Object{"stub": s})
	}
	if n.is = s; n.spelt != nil {
		n.stub = n.spelt(n.stub)
	}
	if h, ok := s["entry"].(string); ok {
		n.hash = h
	}
}

// stubOf returns the stub of an entry of this model, which is linked and signed.
func (m *Model) stubOf(n *Node) []byte {
	m.Helper()
	p := n.P()
	s := Object{"entry": leafOf(n.Line)}
	for _, k := range []string{"lamport", "seq", "session", "time"} {
		s[k] = p[k]
	}
	parents := slices.Clone(p["parents"].([]any))
	if d := n.D(); d != nil {
		s["tool"], s["policy"] = d["tool"], m.index(m.policyOf(n))
		for _, k := range []string{"charges", "idempotency"} {
			if d[k] != nil {
				s[k] = d[k]
			}
		}
	} else {
		s["decision"] = m.index(n.decision)
		for _, k := range []string{"factsHash", "outcome", "settled"} {
			if p[k] != nil {
				s[k] = p[k]
			}
		}
		parents = slices.DeleteFunc(parents, func(h any) bool { return h == p["decisionHash"] })
	}
	if len(parents) > 0 {
		s["parents"] = parents
	}
	return canonical(Object{"stub": s})
}

// standing is the line in the place of an entry.
func (n *Node) standing() []byte {
	if n.gone {
		return n.stub
	}
	return n.Line
}

// named are the hashes that the line in an entry's place names.
func (n *Node) named() (list []string) {
	parents := n.P()["parents"].([]any)
	if n.gone {
		parents, _ = n.is["parents"].([]any)
		if n.decision != nil {
			list = append(list, n.decision.hash)
		}
	}
	for _, h := range parents {
		list = append(list, h.(string))
	}
	return append(list, n.Text("prev"))
}

// leafIn returns the leaf hash of the entry of which a line is, or is the stub.
func leafIn(line []byte) string {
	var x struct{ Stub struct{ Entry string } }
	if bytes.HasPrefix(line, []byte(`{"stub":`)) && json.Unmarshal(line, &x) == nil && x.Stub.Entry != "" {
		return x.Stub.Entry
	}
	return leafOf(line)
}

// policyOf returns the policy entry of a judgement.
func (m *Model) policyOf(n *Node) *Node {
	i := slices.IndexFunc(m.Nodes, func(x *Node) bool {
		return x.Kind() == "policy" && x.Text("policy") == n.D()["policyHash"]
	})
	if i < 0 {
		m.Fatalf("no policy of %v", n.D()["id"])
	}
	return m.Nodes[i]
}

// letGo has the stubs of these entries stand in their place, and lets go of blobs that no other
// names.
func (m *Model) letGo(set ...*Node) {
	for _, n := range set {
		n.gone = true
	}
	m.forget()
}

// sets are the entries of the log that are in a set.
func (m *Model) sets() (list []*Node) {
	for _, n := range m.Nodes {
		list = append(list, n.members...)
	}
	return list
}

// LetGo puts stubs in the place of the entries of its sets for which goes reports true, and whole
// entries in the place of all others.
func (m *Model) LetGo(goes func(index int) bool) {
	m.Build() // which makes the sets
	for _, n := range m.Nodes {
		m.whole(n)
	}
	for _, n := range m.sets() {
		n.gone = goes(m.index(n))
	}
	m.forget()
}

// whole puts an entry back in the place of its stub, with the blobs that it names.
func (m *Model) whole(n *Node) {
	n.gone = false
	for _, d := range n.blobs() {
		if b := m.docs[d]; b != nil {
			m.Blobs[d] = b
		}
	}
}

// forget takes out the blobs that no whole entry names.
func (m *Model) forget() {
	held := map[string]bool{}
	for _, n := range m.Nodes {
		if !n.gone {
			for _, d := range n.blobs() {
				held[d] = true
			}
		}
	}
	maps.DeleteFunc(m.Blobs, func(name string, _ []byte) bool { return !held[name] })
}

// blobs are the names of those that an entry names.
func (n *Node) blobs() (list []string) {
	p := n.P()
	for _, k := range []string{"trust", "textHash", "outputHash", "factsHash"} {
		list = append(list, n.Text(k))
	}
	for _, d := range listOf(p, "documents") {
		list = append(list, d["digest"].(string))
	}
	if d := n.D(); d != nil {
		list = append(list, d["inputsHash"].(string))
	}
	if box, ok := p["sandbox"].(Object); ok {
		list = append(list, box["module"].(string))
	}
	return list
}
