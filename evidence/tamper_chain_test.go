package evidence

import (
	"bytes"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// lines changes entries.jsonl.
func lines(change func(m *model, l [][]byte) [][]byte) func(*model) {
	return func(m *model) {
		m.lines = func(b []byte) []byte {
			return bytes.Join(change(m, slices.Collect(bytes.Lines(b))), nil)
		}
	}
}

func indexOf(name string) int { return slices.Index(baseNames, name) }

// shift makes every seq of main from an entry on one higher or lower.
func shift(m *model, from *node, by int) {
	on := false
	for _, n := range m.nodes {
		if on = on || n == from; on && n.text("session") == "main" {
			n.linked = func(st object) { seq(st, by) }
		}
	}
}

// parents changes those of the receipt m1, which has n1 and two more.
func parents(change func(m *model, list []any, p object) []any) func(*model) {
	return func(m *model) {
		n := m.the("m1")
		n.parents = append(n.parents, m.the("a2"), m.the("b2"))
		n.linked = func(st object) {
			p := st["predicate"].(object)
			p["parents"] = change(m, p["parents"].([]any), p)
		}
	}
}

func sortedStrings(list []any) []any {
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return list
}

// session moves an entry to a session of another name, which need not be legal.
func session(entry, name string) func(*model) {
	return func(m *model) {
		n := m.the(entry)
		n.p()["session"] = name
		m.relink()
		if n.d() != nil {
			m.inputs(n, func(in object) { in["session"] = name })
		}
	}
}

// caller gives a1 another caller, in decision and inputs.
func caller(who object) func(*model) {
	return func(m *model) {
		n := m.the("a1")
		n.d()["caller"] = who
		m.inputs(n, func(in object) { in["caller"] = who })
	}
}

// chains and graph.
var chainRows = []tampering{
	{id: "C01", cut: func(m *model) {
		b := entriesOf(m)
		l := slices.Collect(bytes.Lines(b))
		m.keep.lines = bytes.Join(slices.Delete(l, indexOf("d1"), indexOf("d1")+1), nil)
	}, want: ErrChain},
	{id: "C02", cut: func(m *model) {
		d1 := m.the("d1")
		f1 := m.the("f1")
		m.remove(d1)
		shift(m, f1, 1)
	}, want: ErrChain},
	{id: "C03", cut: lines(func(m *model, l [][]byte) [][]byte {
		i, j := indexOf("f1"), indexOf("d1")
		l[i], l[j] = l[j], l[i]
		return l
	}), want: ErrChain},
	{id: "C04", cut: lines(func(m *model, l [][]byte) [][]byte {
		return slices.Insert(l, indexOf("d1"), l[indexOf("d1")])
	}), want: ErrChain},
	{id: "C05", cut: func(m *model) {
		d1, f1 := m.the("d1"), m.the("f1")
		fork := m.copy(d1)
		fork.d()["caller"] = object{}
		fork.prev = d1.prev
		m.nodes = slices.Insert(m.nodes, m.index(d1)+1, fork)
		f1.prev = fork
		on := false
		for _, n := range m.nodes { // the fork has the seq of d1
			if on = on || n == fork; on && n.text("session") == "main" {
				n.linked = func(st object) { seq(st, -1) }
			}
		}
	}, want: ErrChain},
	{id: "C06", cut: func(m *model) { shift(m, m.the("d1"), 1) }, want: ErrChain},
	{id: "C07", name: "payload", cut: func(m *model) {
		m.the("d1").linked = func(st object) {
			st["predicate"].(object)["prev"] = hexSum(base64Of(m, parseObject(m, m.the("a2").line)["payload"]))
		}
	}, want: ErrChain},
	{id: "C07", name: "prefix", cut: func(m *model) {
		m.the("d1").linked = func(st object) { st["predicate"].(object)["prev"] = hexSum(m.the("a2").line) }
	}, want: ErrChain},
	{id: "C08", cut: left("b1", func(p object) { p["prev"] = zeros64 }), want: ErrChain},
	{id: "C09", cut: func(m *model) {
		at, err := contracts.ParseTime(m.the("a2").text("time"))
		m.must(err)
		d1 := m.the("d1")
		d1.p()["time"] = (at - 1).String()
		m.inputs(d1, func(in object) { in["time"] = (at - 1).String() })
	}, want: ErrChain},
	{id: "C10", name: "parent", cut: left("b1", func(p object) { p["lamport"] = 1 }), want: ErrGraph},
	{id: "C10", name: "up", cut: left("d1", func(p object) { p["lamport"] = p["lamport"].(int) + 1 }), want: ErrGraph},
	{id: "C11", name: "order", cut: parents(func(_ *model, l []any, _ object) []any { slices.Reverse(l); return l }), want: ErrRecord},
	{id: "C11", name: "twice", cut: parents(func(_ *model, l []any, _ object) []any { return append(l, l[len(l)-1]) }), want: ErrRecord},
	{id: "C11", name: "prev", cut: parents(func(_ *model, l []any, p object) []any { return sortedStrings(append(l, p["prev"])) }), want: ErrRecord},
	{id: "C12", name: "nobody", cut: left("b1", func(p object) { p["parents"] = []any{ones64} }), want: ErrGraph},
	{id: "C12", name: "later", cut: func(m *model) {
		d1 := m.the("d1") // of main, which b1 does not depend on
		i, j := m.index(d1), m.index(m.the("b1"))
		m.the("b1").parents = []*node{d1}
		m.build() // d1 has its hash before the two change places
		b1 := m.nodes[j]
		d1.frozen = true
		b1.linked = func(st object) { st["predicate"].(object)["parents"] = []any{d1.hash} }
		m.nodes[i], m.nodes[j] = m.nodes[j], m.nodes[i]
	}, want: ErrGraph},
	{id: "C13", name: "31 digits", cut: left("g", func(p object) { p["nonce"] = p["nonce"].(string)[1:] }), want: ErrRecord},
	{id: "C13", name: "upper case", cut: left("g", func(p object) { p["nonce"] = "A" + p["nonce"].(string)[1:] }), want: ErrRecord},
	{id: "C13", name: "version", cut: left("g", func(p object) { p["version"] = 2 }), want: ErrRecord},
	{id: "C14", cut: func(m *model) { m.the("m1").parents = nil }, want: ErrRecord},
	{id: "C15", cut: func(m *model) {
		d1, f1 := m.the("d1"), m.the("f1")
		before := d1.prev
		f1.prev = before
		d1.p()["session"] = "s2"
		m.inputs(d1, func(in object) { in["session"] = "s2" })
		d1.linked = func(st object) {
			p := st["predicate"].(object)
			p["seq"], p["prev"] = 2, before.hash
			p["decision"].(object)["id"] = "s2/2"
		}
		m.the("b1").prev = nil
		for _, name := range []string{"b1", "b2", "b3", "x"} { // s2 goes on as if d1 were not in it
			m.the(name).linked = func(st object) {
				seq(st, -1)
				if p := st["predicate"].(object); p["count"] != nil {
					p["count"] = p["seq"]
				}
			}
		}
	}, want: ErrChain},
	{id: "C16", cut: func(m *model) {
		c := m.copy(m.the("b3"))
		c.by = seedK2
		m.push(c)
	}, want: ErrChain},
	{id: "C17", name: "count", cut: left("x", func(p object) { p["count"] = p["count"].(int) - 1 }), want: ErrRecord},
	{id: "C17", name: "last", cut: func(m *model) {
		m.the("x").linked = func(st object) {
			p := st["predicate"].(object)
			p["last"] = m.the("b2").hash
			setSubject(st, "s2", p["last"])
		}
	}, want: ErrRecord},
	{id: "C18", cut: func(m *model) {
		c := m.copy(m.the("g"))
		c.p()["nonce"] = strings.Repeat("f", 32)
		m.nodes = slices.Insert(m.nodes, 5, c)
		m.the2("p").prev = m.nodes[0]
		c.linked = func(st object) { p := st["predicate"].(object); p["prev"], p["seq"], p["lamport"] = zeros64, 0, 0 }
	}, want: ErrChain},
	{id: "C19", name: "space", cut: session("o", "main "), want: ErrRecord},
	{id: "C19", name: "129 letters", cut: session("o", strings.Repeat("a", 129)), want: ErrRecord},
	{id: "C19", name: "@main", cut: session("o", "@main"), want: ErrRecord},
	{id: "C19", name: "the kernel's", cut: session("o", ""), want: ErrRecord},
	{id: "C19", name: "a policy's", cut: session("p2", "main"), want: ErrRecord},
	{id: "C19", name: "257 bytes", cut: caller(object{"id": strings.Repeat("a", 257)}), want: ErrRecord},
	{id: "C19", name: "control", cut: caller(object{"id": "a\x7f"}), want: ErrRecord},
	{id: "C19", name: "roles", cut: caller(object{"roles": []any{"reader", "a"}}), want: ErrRecord},
	{id: "C19", name: "tenant", cut: caller(object{"tenant": ""}), want: ErrRecord},
}

// entriesOf gives entries.jsonl as it is.
func entriesOf(m *model) []byte {
	var b []byte
	for _, n := range m.nodes {
		b = append(append(b, n.line...), '\n')
	}
	return b
}

// the2 is the, when something was put in.
func (m *model) the2(name string) *node {
	for _, n := range m.nodes[1:] {
		if n.kind() == "policy" && name == "p" {
			return n
		}
	}
	return nil
}
