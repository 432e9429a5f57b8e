package forge

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// lines changes entries.jsonl.
func lines(change func(m *Model, l [][]byte) [][]byte) func(*Model) {
	return func(m *Model) {
		m.lines = func(b []byte) []byte {
			return bytes.Join(change(m, slices.Collect(bytes.Lines(b))), nil)
		}
	}
}

func indexOf(name string) int { return slices.Index(baseNames, name) }

// shift makes every seq of main from an entry on one higher or lower.
func shift(m *Model, from *Node, by int) {
	on := false
	for _, n := range m.Nodes {
		if on = on || n == from; on && n.Text("session") == "main" {
			n.linked = func(st Object) { seq(st, by) }
		}
	}
}

// parents changes those of the receipt m1, which has n1 and two more.
func parents(change func(m *Model, list []any, p Object) []any) func(*Model) {
	return func(m *Model) {
		n := m.The("m1")
		n.parents = append(n.parents, m.The("a2"), m.The("b2"))
		n.linked = func(st Object) {
			p := st["predicate"].(Object)
			p["parents"] = change(m, p["parents"].([]any), p)
		}
	}
}

// session moves an entry to a session of another name, which need not be legal.
func session(entry, name string) func(*Model) {
	return func(m *Model) {
		n := m.The(entry)
		n.P()["session"] = name
		m.relink()
		if n.D() != nil {
			m.inputs(n, func(in Object) { in["session"] = name })
		}
	}
}

// caller changes the caller of a1, in decision and inputs.
func caller(who Object) func(*Model) {
	return func(m *Model) {
		n := m.The("a1")
		n.D()["caller"] = who
		m.inputs(n, func(in Object) { in["caller"] = who })
	}
}

// chains and graph.
var chainRows = []tampering{
	{id: "C01", cut: func(m *Model) {
		b := entriesOf(m)
		l := slices.Collect(bytes.Lines(b))
		m.keep.lines = bytes.Join(slices.Delete(l, indexOf("d1"), indexOf("d1")+1), nil)
	}, want: errChain},
	{id: "C02", cut: func(m *Model) {
		d1 := m.The("d1")
		f1 := m.The("f1")
		m.remove(d1)
		shift(m, f1, 1)
	}, want: errChain},
	{id: "C03", cut: lines(func(m *Model, l [][]byte) [][]byte {
		i, j := indexOf("f1"), indexOf("d1")
		l[i], l[j] = l[j], l[i]
		return l
	}), want: errChain},
	{id: "C04", cut: lines(func(m *Model, l [][]byte) [][]byte {
		return slices.Insert(l, indexOf("d1"), l[indexOf("d1")])
	}), want: errChain},
	{id: "C05", cut: func(m *Model) {
		d1, f1 := m.The("d1"), m.The("f1")
		fork := m.copy(d1)
		fork.D()["caller"] = Object{}
		fork.prev = d1.prev
		m.Nodes = slices.Insert(m.Nodes, m.index(d1)+1, fork)
		f1.prev = fork
		on := false
		for _, n := range m.Nodes { // the fork has the seq of d1
			if on = on || n == fork; on && n.Text("session") == "main" {
				n.linked = func(st Object) { seq(st, -1) }
			}
		}
	}, want: errChain},
	{id: "C06", cut: func(m *Model) { shift(m, m.The("d1"), 1) }, want: errChain},
	{id: "C07", name: "payload", cut: func(m *Model) {
		m.The("d1").linked = func(st Object) {
			st["predicate"].(Object)["prev"] = HexSum(base64Of(m, parseObject(m, m.The("a2").Line)["payload"]))
		}
	}, want: errChain},
	{id: "C07", name: "prefix", cut: func(m *Model) {
		m.The("d1").linked = func(st Object) { st["predicate"].(Object)["prev"] = HexSum(m.The("a2").Line) }
	}, want: errChain},
	{id: "C08", cut: left("b1", func(p Object) { p["prev"] = zeros64 }), want: errChain},
	{id: "C09", cut: func(m *Model) {
		at, err := contracts.ParseTime(m.The("a2").Text("time"))
		require.NoError(m, err)
		d1 := m.The("d1")
		d1.P()["time"] = (at - 1).String()
		m.inputs(d1, func(in Object) { in["time"] = (at - 1).String() })
	}, want: errChain},
	{id: "C10", name: "parent", cut: left("b1", func(p Object) { p["lamport"] = 1 }), want: errGraph},
	{id: "C10", name: "up", cut: left("d1", func(p Object) { p["lamport"] = p["lamport"].(int) + 1 }), want: errGraph},
	{id: "C11", name: "order", cut: parents(func(_ *Model, l []any, _ Object) []any { slices.Reverse(l); return l }),
		want: errRecord},
	{id: "C11", name: "twice", cut: parents(func(_ *Model, l []any, _ Object) []any { return append(l, l[len(l)-1]) }),
		want: errRecord},
	{id: "C11", name: "prev",
		cut:  parents(func(_ *Model, l []any, p Object) []any { return sortedStrings(append(l, p["prev"])) }),
		want: errRecord},
	{id: "C12", name: "nobody", cut: left("b1", func(p Object) { p["parents"] = []any{ones64} }), want: errGraph},
	{id: "C12", name: "later", cut: func(m *Model) {
		d1 := m.The("d1") // of main, which b1 does not depend on
		i, j := m.index(d1), m.index(m.The("b1"))
		m.The("b1").parents = []*Node{d1}
		m.Build() // d1 has its hash before the two change places
		b1 := m.Nodes[j]
		d1.frozen = true
		b1.linked = func(st Object) { st["predicate"].(Object)["parents"] = []any{d1.hash} }
		m.Nodes[i], m.Nodes[j] = m.Nodes[j], m.Nodes[i]
	}, want: errGraph},
	{id: "C13", name: "31 digits", cut: left("g", func(p Object) { p["nonce"] = p["nonce"].(string)[1:] }), want: errRecord},
	{id: "C13", name: "upper case", cut: left("g", func(p Object) { p["nonce"] = "A" + p["nonce"].(string)[1:] }),
		want: errRecord},
	{id: "C13", name: "version", cut: left("g", func(p Object) { p["version"] = 2 }), want: errRecord},
	{id: "C14", cut: func(m *Model) { m.The("m1").parents = nil }, want: errRecord},
	{id: "C15", cut: func(m *Model) {
		d1, f1 := m.The("d1"), m.The("f1")
		before := d1.prev
		f1.prev = before
		d1.P()["session"] = "s2"
		m.inputs(d1, func(in Object) { in["session"] = "s2" })
		d1.linked = func(st Object) {
			p := st["predicate"].(Object)
			p["seq"], p["prev"] = 2, before.hash
			p["decision"].(Object)["id"] = "s2/2"
		}
		m.The("b1").prev = nil
		for _, name := range []string{"b1", "b2", "b3", "x"} { // s2 goes on as if d1 were not in it
			m.The(name).linked = func(st Object) {
				seq(st, -1)
				if p := st["predicate"].(Object); p["count"] != nil {
					p["count"] = p["seq"]
				}
			}
		}
	}, want: errChain},
	{id: "C16", cut: func(m *Model) {
		c := m.copy(m.The("b3"))
		c.by = seedK2
		m.push(c)
	}, want: errChain},
	{id: "C17", name: "count", cut: left("x", func(p Object) { p["count"] = p["count"].(int) - 1 }), want: errRecord},
	{id: "C17", name: "last", cut: func(m *Model) {
		m.The("x").linked = func(st Object) {
			p := st["predicate"].(Object)
			p["last"] = m.The("b2").hash
			setSubject(st, "s2", p["last"])
		}
	}, want: errRecord},
	{id: "C18", cut: func(m *Model) {
		c := m.copy(m.The("g"))
		c.P()["nonce"] = strings.Repeat("f", 32)
		m.Nodes = slices.Insert(m.Nodes, 5, c)
		m.the2("p").prev = m.Nodes[0]
		c.linked = func(st Object) { p := st["predicate"].(Object); p["prev"], p["seq"], p["lamport"] = zeros64, 0, 0 }
	}, want: errChain},
	{id: "C19", name: "space", cut: session("o", "main "), want: errRecord},
	{id: "C19", name: "129 letters", cut: session("o", strings.Repeat("a", 129)), want: errRecord},
	{id: "C19", name: "@main", cut: session("o", "@main"), want: errRecord},
	{id: "C19", name: "the kernel's", cut: session("o", ""), want: errRecord},
	{id: "C19", name: "a policy's", cut: session("p2", "main"), want: errRecord},
	{id: "C19", name: "257 bytes", cut: caller(Object{"id": strings.Repeat("a", 257)}), want: errRecord},
	{id: "C19", name: "control", cut: caller(Object{"id": "a\x7f"}), want: errRecord},
	{id: "C19", name: "roles", cut: caller(Object{"roles": []any{"reader", "a"}}), want: errRecord},
	{id: "C19", name: "tenant", cut: caller(Object{"tenant": ""}), want: errRecord},
}

// entriesOf returns entries.jsonl as it is.
func entriesOf(m *Model) []byte {
	var b []byte
	for _, n := range m.Nodes {
		b = append(append(b, n.standing()...), '\n')
	}
	return b
}

// the2 is the, when something was put in.
func (m *Model) the2(name string) *Node {
	for _, n := range m.Nodes[1:] {
		if n.Kind() == "policy" && name == "p" {
			return n
		}
	}
	return nil
}
