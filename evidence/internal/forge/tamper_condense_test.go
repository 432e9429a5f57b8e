package forge

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// newCondensed is the pack of CondensedLog with stubs in the place of all that may go.
func newCondensed(t *testing.T) *tampered {
	t.Helper()
	made := Condensed(t)
	whole := made.Build()
	w := &tampered{T: t, cases: map[string]map[string]int{}}
	w.apart = func(t testing.TB) *Model {
		m := TakeApart(t, whole)
		m.names, m.cosigned, m.cosignedAt = made.names, made.cosigned, made.cosignedAt
		m.Build()
		m.letGo(m.The("c").members...)
		m.Build()
		return m
	}
	m := w.apart(t)
	var set []string
	for _, n := range m.The("c").members {
		set = append(set, m.names[m.index(n)])
	}
	require.Equal(t, condensedSet, set, "the set")
	w.pack = m.Build()
	w.o = evidence.Options{Trust: State(t), Origin: Origin, Last: LastOf(m, 20, rootOf(m, 20), Origin),
		Witnesses: WitnessKeys(t), Quorum: 2}
	var r evidence.Report
	var err error
	for range 2 { // the first fills pools
		w.takes = Allocated(func() { r, err = verifyBytes(t, w.pack, w.o) })
	}
	// or the refusals below would prove nothing
	require.True(t, err == nil && r.Success(0) && r.Level == evidence.Witnessed && r.History == evidence.Fresh &&
		r.Replay.Replayed == 14 && r.Replay.KernelsOwn == 4 && r.Replay.NotReplayable+r.Replay.Differing == 0,
		"the condensed pack: %+v, %v", r, err)
	return w
}

// TestTamperCondensed runs the rows of group G, and those of this version's own that are of stubs
// and of sets.
func TestTamperCondensed(t *testing.T) {
	race.Alone(t)
	newCondensed(t).runAll(condensedRows())
}

func condensedRows() []tampering { return slices.Concat(condenseRows, stubRows, setRows) }

// stubbed changes the stub of an entry, and all that depends on it.
func stubbed(name string, change func(m *Model, s Object)) func(*Model) {
	return func(m *Model) { m.The(name).stubbed = func(s Object) { change(m, s) } }
}

func setS(name, field string, value any) func(*Model) {
	return stubbed(name, func(_ *Model, s Object) { s[field] = value })
}

func withoutS(name, field string) func(*Model) {
	return stubbed(name, func(m *Model, s Object) {
		require.Contains(m, s, field)
		delete(s, field)
	})
}

// respeltStub changes the bytes of a stub.
func respeltStub(name string, change func(s string) string) func(*Model) {
	return func(m *Model) {
		m.The(name).spelt = func(b []byte) []byte { return []byte(change(string(b))) }
	}
}

// chosen changes the set of c, from which its other fields follow.
func chosen(change func(m *Model, set []*Node) []*Node) func(*Model) {
	return func(m *Model) {
		m.The("c").chosen = func(set []*Node) []*Node {
			set = change(m, set)
			slices.SortFunc(set, func(a, b *Node) int { return m.index(a) - m.index(b) })
			return set
		}
	}
}

// asIs has the set of c stay what it was.
func asIs(m *Model) {
	var set []*Node
	for _, name := range condensedSet {
		set = append(set, m.The(name))
	}
	chosen(func(*Model, []*Node) []*Node { return slices.Clone(set) })(m)
}

// also has other entries go with the set.
func also(names ...string) func(*Model) {
	return func(m *Model) {
		var more []*Node
		for _, name := range names {
			more = append(more, m.The(name))
		}
		m.letGo(more...)
		chosen(func(_ *Model, set []*Node) []*Node { return append(set, more...) })(m)
	}
}

// whole puts entries back in the place of their stubs.
func whole(names ...string) func(*Model) {
	return func(m *Model) {
		for _, name := range names {
			m.whole(m.The(name))
		}
	}
}

// ranged changes what c says of its range.
func ranged(fields Object) func(*Model) {
	return func(m *Model) {
		for k, v := range fields {
			m.The("c").P()[k] = v
		}
	}
}

// timeAfter is a time some milliseconds after that of an entry.
func timeAfter(m *Model, name string, by int64) string {
	return timeOf(m, m.The(name).Text("time"), by)
}

// secondRange pushes a second condense entry over the range of c. It does not know of the first.
func secondRange(m *Model) {
	c := m.copy(m.The("c"))
	c.P()["time"] = m.Nodes[len(m.Nodes)-1].Text("time")
	c.chosen = func([]*Node) []*Node { return m.Nodes[slices.Index(condensedNames, "c")].members }
	m.push(c)
}

// fresh has the caller have kept a checkpoint of what the row makes.
func fresh(m *Model, o *evidence.Options) { o.Last = LastOf(m, 21, rootOf(m, 21), Origin) }

var (
	witnessed = evidence.Report{Level: evidence.Witnessed, History: evidence.Fresh, Signer: evidence.Trusted}
	diverged  = evidence.Report{Level: evidence.Witnessed, History: evidence.Diverged, Signer: evidence.Trusted}
)

// replaced changes bytes of entries.jsonl in the pack alone, and the sizes in the archive.
func replaced(name string, change func(line string) string) func(*Model, []byte) []byte {
	return func(m *Model, pack []byte) []byte {
		ms := Untar(m, pack)
		l := slices.Collect(bytes.Lines(ms[EntriesAt].Body))
		i := slices.Index(m.names, name)
		l[i] = []byte(change(string(l[i])))
		ms[EntriesAt].Body = bytes.Join(l, nil)
		return TarOf(ms)
	}
}

// otherEntry flips a bit of the leaf hash in a stub.
func otherEntry(line string) string {
	at := strings.Index(line, `"entry":"`) + len(`"entry":"`)
	other := map[byte]string{'0': "1", '1': "0", '2': "3", '3': "2", '4': "5", '5': "4", '6': "7", '7': "6", '8': "9",
		'9': "8", 'a': "b", 'b': "a", 'c': "d", 'd': "c", 'e': "f", 'f': "e"}
	return line[:at] + other[line[at]] + line[at+1:]
}

// condenseRows are group G.
var condenseRows = []tampering{
	{id: "G01", cut: func(m *Model) { m.letGo(m.The("a1"), m.The("a2")) }, want: errGap},
	{id: "G01", name: "one of them", cut: func(m *Model) { m.letGo(m.The("a2")) }, want: errGap},
	{id: "G01", name: "outside the range", cut: func(m *Model) { m.letGo(m.The("e1"), m.The("e2")) }, want: errGap},

	{id: "G02", name: "before a whole one", pack: replaced("b2", otherEntry), want: errChain},
	{id: "G02", name: "before a whole one of main", pack: replaced("m1", otherEntry), want: errChain},
	{id: "G02", name: "before a stub", pack: replaced("b1", otherEntry), want: errGap},
	{id: "G02", name: "before a stub of main", pack: replaced("n1", otherEntry), want: errGap},
	{id: "G02", name: "signed again",
		cut: stubbed("b2", func(_ *Model, s Object) { s["entry"] = ones64 }), then: diverged},

	{id: "G03", name: "stubs", cut: left("c", func(p Object) { p["stubs"] = ones64 }), want: errGap},
	{id: "G03", name: "dropped", cut: left("c", func(p Object) { p["dropped"] = 7 }), want: errGap},
	{id: "G03", name: "root", cut: statement("c", func(st Object) {
		st["predicate"].(Object)["root"] = ones64
		setSubject(st, "condense", ones64)
	}), want: errGap},
	{id: "G03", name: "size", cut: ranged(Object{"size": slices.Index(condensedNames, "c") + 1}), want: errGap},
	{id: "G03", name: "to above size", cut: ranged(Object{"size": 20}), want: errRecord},
	{id: "G03", name: "until behind its time",
		cut: func(m *Model) { m.The("c").P()["until"] = timeAfter(m, "c", 1) }, want: errRecord},
	{id: "G03", name: "more than 64 for each",
		cut:  left("c", func(p Object) { p["to"], p["size"], p["dropped"] = 67, 67, 1 }),
		want: errRecord},
	{id: "G03", name: "more than 1,048,576", cut: left("c", func(p Object) {
		p["to"], p["size"], p["dropped"] = 2+1<<20+1, 2+1<<20+1, 1<<20
	}), want: errRecord},

	{id: "G04", name: "too few", cut: both(whole("n2", "m2"), chosen(func(m *Model, set []*Node) []*Node {
		return slices.DeleteFunc(set, func(n *Node) bool { return !n.gone })
	})), want: errGap},
	{id: "G04", name: "too few, whose stubs are there", cut: chosen(func(m *Model, set []*Node) []*Node {
		return slices.DeleteFunc(set, func(n *Node) bool { return n == m.The("n2") || n == m.The("m2") })
	}), want: errGap},
	{id: "G04", name: "too many", cut: also("a1", "a2"), want: errGap},
	{id: "G04", name: "too many, which are whole", cut: both(also("a1", "a2"), whole("a1", "a2")), want: errGap},
	{id: "G04", name: "another one", cut: both(whole("n2", "m2"), also("a1", "a2"),
		func(m *Model) {
			of := m.The("c").chosen
			m.The("c").chosen = func(set []*Node) []*Node {
				return slices.DeleteFunc(of(set), func(n *Node) bool { return n == m.The("n2") || n == m.The("m2") })
			}
		}), want: errGap},
	{id: "G05", cut: both(whole("n1", "n2", "m2", "m1"), ranged(Object{"to": 19}), also("n1")), want: errGap},
	{id: "G05", name: "of which nothing is said", cut: both(whole("n2", "m2", "m1"), ranged(Object{"to": 19})),
		want: errGap},

	{id: "G06", name: "seq", cut: stubbed("f1", func(_ *Model, s Object) { s["seq"] = intOf(s["seq"]) + 1 }),
		want: errChain},
	{id: "G06", name: "lamport",
		cut: stubbed("f1", func(_ *Model, s Object) { s["lamport"] = intOf(s["lamport"]) + 1 }), want: errGraph},
	{id: "G06", name: "lamport of a receipt",
		cut: stubbed("m1", func(_ *Model, s Object) { s["lamport"] = intOf(s["lamport"]) - 1 }), want: errGraph},
	{id: "G06", name: "time", cut: stubbed("f1", func(m *Model, s Object) { s["time"] = timeAfter(m, "d1", -1) }),
		want: errChain},
	{id: "G06", name: "session", cut: setS("f1", "session", "s2"), want: errChain},
	{id: "G06", name: "a session of its own", cut: setS("f1", "session", "s3"), want: errChain},

	{id: "G07", name: "charges", cut: withoutS("b1", "charges"), want: errBudget},
	{id: "G07", name: "before", cut: stubbed("b1", func(_ *Model, s Object) { listOf(s, "charges")[0]["before"] = 0 }),
		want: errBudget},
	{id: "G07", name: "a smaller charge", cut: both(
		stubbed("b1", func(_ *Model, s Object) { listOf(s, "charges")[0]["amount"] = 0 }),
		stubbed("b2", func(_ *Model, s Object) { listOf(s, "settled")[0]["amount"] = 0 })), want: errBudget},
	{id: "G07", name: "settled", cut: stubbed("b2", func(_ *Model, s Object) { listOf(s, "settled")[0]["amount"] = 0 }),
		want: errBudget},
	{id: "G07", name: "settled for another",
		cut: stubbed("b2", func(_ *Model, s Object) { listOf(s, "settled")[0]["of"] = `{"id":"eve"}` }), want: errBudget},
	{id: "G07", name: "not settled", cut: withoutS("b2", "settled"), want: errBudget},
	{id: "G07", name: "a refund", cut: stubbed("f2", func(_ *Model, s Object) { listOf(s, "settled")[0]["amount"] = 0 }),
		want: errBudget},

	{id: "G08", cut: setS("f2", "decision", slices.Index(condensedNames, "a1")), want: errReference},
	{id: "G09", cut: setS("f1", "policy", slices.Index(condensedNames, "a1")), want: errReference},
	{id: "G09", name: "genesis", cut: setS("f1", "policy", 0), want: errReference},
	{id: "G09", name: "a later one", cut: setS("f1", "policy", slices.Index(condensedNames, "p2")), want: errReference},
	{id: "G09", name: "without the tool", cut: setS("f1", "tool", "fs.format"), want: errReference},

	{id: "G10", cut: func(m *Model) {
		asIs(m)
		m.remove(m.The("x"))
	}, want: errGap},
	{id: "G10", name: "closed from size on", cut: func(m *Model) {
		asIs(m)
		x, h := m.The("x"), m.The("h")
		m.remove(x)
		x.P()["time"] = h.Text("time")
		m.insert(m.index(h), x)
		require.Equal(m, 25, m.index(x))
	}, want: errGap},
	{id: "G11", name: "by its own time", cut: func(m *Model) {
		asIs(m)
		m.The("c").P()["until"] = timeAfter(m, "n2", int64(day)-1)
	}, want: errGap},
	{id: "G11", name: "by an earlier entry's", cut: func(m *Model) {
		whole("f1", "f2", "n1", "n2", "m2", "m1")(m)
		ranged(Object{"to": 9})(m)
		b1, b2 := m.The("b1"), m.The("b2")
		chosen(func(*Model, []*Node) []*Node { return []*Node{b1, b2} })(m)
		aged(m, "b1", -5000)
		m.The("c").P()["until"] = timeAfter(m, "a2", int64(day)-1)
	}, want: errGap},
	{id: "G11", name: "risk", cut: both(asIs, func(m *Model) {
		m.redocument("p", "files", func(d Object) { sub(sub(d, "tools"), "fs.list")["risk"] = "high" })
	}), want: errGap},
	{id: "G11", name: "kept", cut: both(asIs, func(m *Model) {
		m.redocument("p", "files", func(d Object) { sub(sub(d, "tools"), "fs.list")["risk"] = "medium" })
		m.redocument("p", "years", func(d Object) { sub(d, "condense")["kept"] = "medium" })
	}), want: errGap},
	{id: "G11", name: "after", cut: both(asIs, func(m *Model) {
		m.redocument("p", "years", func(d Object) { sub(d, "condense")["after"] = "3d" })
	}), want: errGap},
	{id: "G11", name: "a P0 without condense", cut: both(asIs, func(m *Model) {
		m.redocument("p", "years", func(d Object) { delete(d, "condense") })
	}), want: errGap},
	{id: "G11", name: "a second P0 without condense", cut: both(asIs, func(m *Model) {
		m.another("p", `{"helm":"policy/v1","layer":"P0","name":"zz","version":1}`)
	}), want: errGap},
	{id: "G11", name: "a later policy's terms", cut: both(asIs, func(m *Model) {
		m.redocument("p", "years", func(d Object) { delete(d, "condense") })
		m.redocument("p2", "years", func(d Object) { sub(d, "condense")["after"] = "25h" })
	}), want: errGap},

	{id: "G12", cut: func(m *Model) { m.The("o").parents = []*Node{m.The("b2")} }, want: errGraph},
	{id: "G12", name: "which is whole", cut: both(whole("b1", "b2"), func(m *Model) {
		m.The("o").parents = []*Node{m.The("b2")}
	}), want: errGraph},
	{id: "G12", name: "right behind it",
		cut: func(m *Model) { m.The("y1").parents = []*Node{m.The("m1")} }, want: errGraph},

	{id: "G13", name: "a field more", cut: setS("b1", "reason", "ALLOW"), want: errRecord},
	{id: "G13", name: "a field of receipts", cut: setS("b1", "outcome", "EXECUTED"), want: errRecord},
	{id: "G13", name: "a field of decisions", cut: setS("b2", "tool", "fs.read"), want: errRecord},
	{id: "G13", name: "a space", cut: respeltStub("b1", func(s string) string {
		return strings.Replace(s, `"seq":`, `"seq": `, 1)
	}), want: errEncoding},
	{id: "G13", name: "another order", cut: respeltStub("m2", func(s string) string {
		return strings.Replace(s, `"decision":17,`, ``, 1)[:len(s)-len(`"decision":17,`)-2] + `,"decision":17}}`
	}), want: errEncoding},
	{id: "G13", name: "an escape", cut: respeltStub("b1", func(s string) string {
		return strings.Replace(s, "fs.read", `fs\u002eread`, 1)
	}), want: errEncoding},

	{id: "G14", cut: secondRange, want: errGap},
	{id: "G14", name: "which is whole", cut: both(whole(condensedSet...), secondRange), want: errGap},
	{id: "G15", cut: func(m *Model) {
		name := m.The("b1").D()["inputsHash"].(string)
		m.Blobs[name] = m.docs[name]
	}, want: errBlob},
	{id: "G15", name: "an output", cut: func(m *Model) {
		name := m.The("m2").Text("outputHash")
		m.Blobs[name] = m.docs[name]
	}, want: errBlob},
	{id: "G16", cut: both(asIs, lowered), o: fresh, then: witnessed, passes: true},

	{id: "V08", o: func(m *Model, o *evidence.Options) { o.Last = LastOf(m, 14, rootOf(m, 14), Origin) },
		then: witnessed, passes: true},
}

// lowered makes n1 a call of high risk, whose stub says what it said.
func lowered(m *Model) {
	n1, e1 := m.The("n1"), m.The("e1")
	d := n1.D()
	for _, k := range []string{"argsHash", "effectType", "risk", "rule", "tool", "caller"} {
		d[k] = e1.D()[k]
	}
	n1.stubbed = func(s Object) { s["tool"] = "fs.list" }
}

// aged moves an entry in time, with what else of it says when it was.
func aged(m *Model, name string, by int64) {
	n := m.The(name)
	n.P()["time"] = timeAfter(m, name, by)
	if d := n.D(); d != nil && d["expires"] != nil {
		d["expires"] = timeOf(m, d["expires"].(string), by)
	}
}

// timeOf is a time some milliseconds after another.
func timeOf(t testing.TB, text string, by int64) string {
	t.Helper()
	at, err := contracts.ParseTime(text)
	require.NoError(t, err)
	return (at + contracts.Time(by)).String()
}

// redocument changes a document of a policy; its hash in all verdicts follows.
func (m *Model) redocument(policy, name string, change func(d Object)) {
	m.Helper()
	m.repolicy(policy, func(documents []any) []any {
		for _, x := range documents {
			if x := x.(Object); x["name"] == name {
				d := parseObject(m, m.Blobs[x["digest"].(string)])
				change(d)
				x["digest"] = m.blob(canonical(d))
				return documents
			}
		}
		m.Fatalf("%s has no document %s", policy, name)
		return nil
	})
}

// another adds a floor to a policy, after the floor years.
func (m *Model) another(policy, document string) {
	m.Helper()
	d := parseObject(m, []byte(document))
	m.repolicy(policy, func(documents []any) []any {
		return slices.Insert(documents, 1, any(Object{"digest": m.blob(canonical(d)), "layer": d["layer"],
			"name": d["name"], "version": d["version"]}))
	})
}

// repolicy changes the documents of a policy, and the hash in all verdicts. What no policy names
// any more is not kept.
func (m *Model) repolicy(name string, change func(documents []any) []any) {
	m.Helper()
	p := m.The(name).P()
	was := p["policy"]
	p["documents"] = change(p["documents"].([]any))
	p["policy"] = HexOf(Object{"documents": p["documents"], "engine": p["engine"]})
	for _, n := range m.Nodes {
		if d := n.D(); d != nil && d["policyHash"] == was {
			d["policyHash"] = p["policy"]
		}
	}
	m.forget()
}
