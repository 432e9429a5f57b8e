package forge

import (
	"slices"
	"strings"
)

// indexIn is the index of an entry of CondensedLog.
func indexIn(name string) int { return slices.Index(condensedNames, name) }

// parentsOf sets the parents of a stub to the hashes of entries before it.
func parentsOf(name string, of ...string) func(*Model) {
	return stubbed(name, func(m *Model, s Object) {
		list := []any{}
		for _, x := range of {
			list = append(list, m.The(x).hash)
		}
		s["parents"] = sortedStrings(list)
	})
}

// outside puts the stub of a copy of an entry before another. It is in no range: a fault of its own
// is found first.
func outside(before, name string) func(*Model) {
	return func(m *Model) {
		n, i := m.copy(m.The(name)), m.index(m.The(before))
		n.gone, n.by = true, seedK2
		n.P()["time"] = m.Nodes[i-1].Text("time")
		m.insert(i, n)
	}
}

// afterClose lets go of a call in s2 that came after its close. All else of it is right.
func afterClose(m *Model) {
	d, r, at := m.copy(m.The("n1")), m.copy(m.The("m1")), indexIn("x")+1
	c, closed := m.The("c"), m.The("x").Text("time")
	for i, n := range []*Node{d, r} {
		n.gone = true
		n.P()["session"], n.P()["time"] = "s2", closed
		m.insert(at+i, n)
	}
	r.decision = d
	c.P()["to"], c.P()["size"] = intOf(c.P()["to"])+2, intOf(c.P()["size"])+2
}

// stubRows are what a stub shows by itself, and as the entry's place in the log.
var stubRows = slices.Concat(formRows, []tampering{
	{id: "own", name: "a stub whose parent is the entry before it", cut: parentsOf("f1", "d1"), want: errGraph},
	{id: "own", name: "a stub of a receipt whose parent is its decision", cut: parentsOf("m2", "n2"), want: errGraph},
	{id: "own", name: "a stub of a receipt whose parent is its decision, further back", cut: parentsOf("m1", "n1"),
		want: errGraph},
	{id: "own", name: "a stub whose parent is no entry",
		cut: setS("f1", "parents", []any{ones64}), want: errGraph},
	{id: "own", name: "a stub without the parent that it had", cut: withoutS("b1", "parents"), want: errGraph},
	{id: "own", name: "a stub with the hash of an earlier entry",
		cut: stubbed("f1", func(m *Model, s Object) { s["entry"] = m.The("a2").hash }), want: errGraph},
	{id: "own", name: "a stub with the hash of an earlier stub",
		cut: stubbed("f1", func(m *Model, s Object) { s["entry"] = m.The("b1").hash }), want: errGraph},
	{id: "own", name: "an entry with the hash of an earlier stub", cut: func(m *Model) {
		w1 := m.The("w1").hash // which depends on nothing of s2
		setS("b1", "entry", w1)(m)
	}, want: errGraph},

	{id: "own", name: "a stub of a receipt of itself", cut: setS("f2", "decision", indexIn("f2")), want: errGraph},
	{id: "own", name: "a stub of a receipt of a later entry", cut: setS("f2", "decision", indexIn("w1")), want: errGraph},
	{id: "own", name: "a stub of a receipt of no entry", cut: setS("f2", "decision", 1<<53-1), want: errGraph},
	{id: "own", name: "a stub of a receipt of an entry of no smaller lamport", cut: setS("b2", "decision", indexIn("f1")),
		want: errGraph},
	{id: "own", name: "a stub of a receipt of what was let go", cut: both(func(m *Model) {
		n := m.The("y2")
		n.P()["outcome"], n.P()["reason"] = "EXECUTED", "ALLOW"
		m.letGo(n)
	}, setS("y2", "decision", indexIn("n1"))), want: errGraph},
	{id: "own", name: "a stub of a receipt of what was let go, and is whole", cut: both(whole("n1"), func(m *Model) {
		n := m.The("y2")
		n.P()["outcome"], n.P()["reason"] = "EXECUTED", "ALLOW"
		m.letGo(n)
	}, setS("y2", "decision", indexIn("n1"))), want: errGraph},
	{id: "own", name: "a stub of a receipt of a denial", cut: setS("f2", "decision", indexIn("d1")), want: errReference},
	{id: "own", name: "a stub of a receipt of a receipt", cut: setS("f2", "decision", indexIn("a2")), want: errReference},
	{id: "own", name: "a stub of a receipt of another session", cut: setS("f2", "decision", indexIn("b1")),
		want: errReference},
	{id: "own", name: "a stub of a receipt of a policy", cut: setS("f2", "decision", indexIn("p")), want: errReference},
	{id: "own", name: "a receipt of what has one, whose stub is there", cut: func(m *Model) {
		c := m.copy(m.The("m1"))
		c.gone = false
		m.insert(indexIn("k"), c)
	}, want: errReference},
	{id: "own", name: "a decision whose receipt is nowhere, in a closed session",
		cut: func(m *Model) { m.remove(m.The("b2")) }, want: errReference},

	{id: "own", name: "a stub after the close of its session", cut: both(setS("n1", "session", "s2"),
		setS("n1", "seq", 4)), want: errChain},
	{id: "own", name: "a call after the close of its session", cut: afterClose, want: errChain},
	{id: "own", name: "a stub of a later time than the next", cut: stubbed("m1", func(m *Model, s Object) {
		s["time"] = timeAfter(m, "k", 1)
	}), want: errChain},
	{id: "own", name: "a stub of an ALLOW while frozen", cut: outside("sf", "n1"), want: errTrust},
	{id: "own", name: "a stub of a policy that comes later",
		cut: setS("f1", "policy", indexIn("p2")), want: errReference},
	{id: "own", name: "a stub that is its own policy", cut: setS("f1", "policy", indexIn("f1")), want: errReference},
	{id: "own", name: "a stub with a key of main that is bound", cut: setS("f1", "idempotency", "once"),
		want: errReference},
	{id: "own", name: "a stub with a key of main", cut: setS("f1", "idempotency", "twice"), want: errGap},
	{id: "own", name: "a stub with a key of a session that is closed", cut: setS("b1", "idempotency", "twice"),
		o: fresh, then: witnessed, passes: true},

	// What a stub shows of its own call is compared with nothing.
	{id: "own", name: "a stub with another tool that is declared", cut: setS("n1", "tool", "fs.stat"), o: fresh,
		then: witnessed, passes: true},
	{id: "own", name: "a stub that failed, and the call ran", cut: setS("m1", "outcome", "FAILED"), o: fresh,
		then: witnessed, passes: true},
	{id: "own", name: "a stub with facts of a tool that declares none", cut: setS("m1", "factsHash", ones64), o: fresh,
		then: witnessed, passes: true},
	{id: "own", name: "a stub of a charge of which nobody heard", cut: both(
		setS("n1", "charges", []any{Object{"amount": 1, "before": 0, "budget": "P0:years:never", "limit": 2,
			"window": "total"}}), setS("m1", "settled", []any{Object{"amount": 1, "budget": "P0:years:never"}})),
		o: fresh, then: witnessed, passes: true},

	// One half of a pair.
	{id: "own", name: "a decision that is whole", cut: whole("n1"), o: fresh, then: witnessed, passes: true},
	{id: "own", name: "a receipt that is whole", cut: whole("m1"), o: fresh, then: witnessed, passes: true},
	{id: "own", name: "all that is whole", cut: whole(condensedSet...), o: fresh, then: witnessed, passes: true},
	{id: "own", name: "a whole decision with an approval", cut: both(asIs, whole("n1"), approvedN1), want: errGap},
	{id: "own", name: "a stub of a decision with an approval", cut: both(asIs, approvedN1), o: fresh, then: witnessed,
		passes: true},
	{id: "own", name: "a whole decision with a signal", cut: both(asIs, whole("n1"), setD("n1", "signals",
		[]any{"instruction"})), want: errGap},
	{id: "own", name: "a whole receipt with a signal", cut: both(asIs, whole("m2"), setP("m2", "signals",
		[]any{"instruction"})), want: errGap},
	{id: "own", name: "a stub of a receipt with a signal", cut: both(asIs, setP("m2", "signals",
		[]any{"instruction"})), o: fresh, then: witnessed, passes: true},
	{id: "own", name: "a stub of another tool than its whole receipt", cut: both(whole("m1"),
		setS("n1", "tool", "fs.stat")), want: errReference},
	{id: "own", name: "a whole receipt of another effect than its policy declares", cut: both(whole("b2"),
		setP("b2", "effectType", "write")), want: errReplay},
	{id: "own", name: "a whole receipt of an output that its policy refuses", cut: both(whole("b2"),
		output("b2", "jcs", `{"txt":1}`)), want: errReplay},
	{id: "own", name: "a whole receipt of facts that its policy does not declare", cut: both(whole("m2"),
		func(m *Model) { m.The("m2").P()["factsHash"] = m.blob([]byte(`{"/n":[1]}`)) }), want: errReplay},
	{id: "own", name: "a whole receipt of other charges", cut: both(whole("b2"), func(m *Model) {
		listOf(m.The("b2").P(), "settled")[0]["amount"] = 0
	}), want: errBudget},

	// A document that a fold needs is missed at once, before whatever comes later.
	{id: "own", name: "the floor of a policy that stubs name", cut: both(lacksDocument("years"), prevless),
		want: errBlob},
	{id: "own", name: "the bundle of a policy that stubs name", cut: both(lacksDocument("files"), prevless),
		want: errBlob},
	{id: "own", name: "another floor under its name", cut: both(func(m *Model) {
		m.Blobs[documentOf(m, "years")] = []byte(`{"helm":"policy/v1","layer":"P0","name":"years","version":1}`)
	}, prevless), want: errBlob},

	{id: "own", name: "a gap line", cut: func(m *Model) {
		m.The("d1").sealed = func([]byte) []byte {
			return []byte(`{"gap":{"from":4,"nodes":["` + ones64 + `"],"to":5}}`)
		}
	}, want: errEnvelope},
	{id: "own", name: "a stub that is left out", cut: lines(func(_ *Model, l [][]byte) [][]byte {
		return slices.Delete(l, indexIn("n2"), indexIn("n2")+1)
	}), want: errChain},
	{id: "own", name: "a stub twice", cut: lines(func(_ *Model, l [][]byte) [][]byte {
		return slices.Insert(l, indexIn("n2"), l[indexIn("n2")])
	}), want: errChain},
	{id: "own", name: "two stubs in another order", cut: lines(func(_ *Model, l [][]byte) [][]byte {
		l[indexIn("n1")], l[indexIn("n2")] = l[indexIn("n2")], l[indexIn("n1")]
		return l
	}), want: errChain},
	{id: "own", name: "heads without what a stub names", cut: func(m *Model) {
		m.Manifest = func(p Object) { p["proofGraphHash"] = HexOf([]any{m.The("b2").hash}) }
	}, want: errManifest},
})

// formRows are the forms of a line that is a stub.
var formRows = []tampering{
	{id: "own", name: "a stub with a member beside it", cut: respeltStub("b1", func(s string) string {
		return s[:len(s)-1] + `,"x":1}`
	}), want: errRecord},
	{id: "own", name: "a stub with a payload", cut: respeltStub("b1", func(s string) string {
		return `{"payload":"",` + s[1:]
	}), want: errRecord},
	{id: "own", name: "a stub that is no object", cut: respeltStub("b1", func(string) string { return `{"stub":[]}` }),
		want: errRecord},
	{id: "own", name: "a stub of nothing", cut: respeltStub("b1", func(string) string { return `{"stub":{}}` }),
		want: errRecord},
	{id: "own", name: "two stubs in a line", cut: respeltStub("b1", func(s string) string {
		return s[:len(s)-1] + `,` + s[1:]
	}), want: errEncoding},
	{id: "own", name: "a stub with a field twice", cut: respeltStub("b1", func(s string) string {
		return strings.Replace(s, `"seq":0,`, `"seq":0,"seq":0,`, 1)
	}), want: errEncoding},
	{id: "own", name: "a stub and a byte", cut: respeltStub("b1", func(s string) string { return s + " " }),
		want: errEncoding},
	{id: "own", name: "a stub after a mark", cut: respeltStub("b1", func(s string) string { return "\xef\xbb\xbf" + s }),
		want: errEncoding},
	{id: "own", name: "a stub that is cut off", cut: respeltStub("b1", func(s string) string { return s[:len(s)-1] }),
		want: errEncoding},
	{id: "own", name: "a stub of 8,193 bytes", cut: respeltStub("b1", func(s string) string {
		return strings.Replace(s, `"tool":"fs.read"`, `"tool":"`+strings.Repeat("t", 8193-len(s)+7)+`"`, 1)
	}), want: errEncoding},
	{id: "own", name: "a stub of 8,192 bytes", cut: respeltStub("b1", func(s string) string {
		return strings.Replace(s, `"tool":"fs.read"`, `"tool":"`+strings.Repeat("t", 8192-len(s)+7)+`"`, 1)
	}), want: errRecord},
	{id: "own", name: "a stub without charges that says so", cut: setS("n1", "charges", []any{}), want: errRecord},
	{id: "own", name: "a stub without parents that says so", cut: setS("n1", "parents", []any{}), want: errRecord},
	{id: "own", name: "a stub without settlements that says so", cut: setS("m1", "settled", []any{}), want: errRecord},
	{id: "own", name: "a stub with nine charges", cut: stubbed("b1", func(_ *Model, s Object) {
		s["charges"] = slices.Repeat(s["charges"].([]any), 9)
	}), want: errRecord},
	{id: "own", name: "a stub with a charge twice", cut: stubbed("b1", func(_ *Model, s Object) {
		s["charges"] = slices.Repeat(s["charges"].([]any), 2)
	}), want: errRecord},
	{id: "own", name: "a stub with a charge over its limit", cut: stubbed("b1", func(_ *Model, s Object) {
		listOf(s, "charges")[0]["limit"] = 1
	}), want: errRecord},
	{id: "own", name: "a stub with nine settlements", cut: stubbed("b2", func(_ *Model, s Object) {
		s["settled"] = slices.Repeat(s["settled"].([]any), 9)
	}), want: errRecord},
	{id: "own", name: "a stub whose parents descend", cut: setS("b1", "parents", []any{ones64, zeros64}),
		want: errRecord},
	{id: "own", name: "a stub with one parent twice", cut: setS("b1", "parents", []any{ones64, ones64}),
		want: errRecord},
	{id: "own", name: "a stub with 33 parents", cut: stubbed("b1", func(_ *Model, s Object) {
		list := []any{}
		for i := range 33 {
			list = append(list, HexSum([]byte{byte(i)}))
		}
		s["parents"] = sortedStrings(list)
	}), want: errRecord},
	{id: "own", name: "a stub of the kernel's session", cut: setS("n1", "session", ""), want: errRecord},
	{id: "own", name: "a stub of what was refused", cut: setS("n1", "session", "@refused"), want: errRecord},
	{id: "own", name: "a stub of no session", cut: setS("n1", "session", "a b"), want: errRecord},
	{id: "own", name: "a stub of no tool", cut: setS("n1", "tool", "a b"), want: errRecord},
	{id: "own", name: "a stub of no hash", cut: setS("n1", "entry", strings.ToUpper(HexSum(nil))), want: errRecord},
	{id: "own", name: "a stub of no time", cut: setS("n1", "time", "2026-09-21T14:13:20.00Z"), want: errRecord},
	{id: "own", name: "a stub with a key that is empty", cut: setS("n1", "idempotency", ""), want: errRecord},
	{id: "own", name: "a stub of facts of a failure", cut: setS("f2", "factsHash", ones64), want: errRecord},
	{id: "own", name: "a stub of what was withheld", cut: setS("m1", "outcome", "WITHHELD"), want: errRecord},
	{id: "own", name: "a stub of what nobody knows", cut: setS("m1", "outcome", "INDETERMINATE"), want: errRecord},
	{id: "own", name: "a stub of a denial", cut: setS("m1", "outcome", "DENIED"), want: errRecord},
	{id: "own", name: "a stub of a negative index", cut: setS("m1", "decision", -1), want: errRecord},
	{id: "own", name: "a stub of text for an index", cut: setS("m1", "decision", "16"), want: errRecord},
	{id: "own", name: "a stub of null", cut: setS("n1", "parents", nil), want: errRecord},
}

// approvedN1 has an approval in n1.
func approvedN1(m *Model) { m.The("n1").D()["approvals"] = []any{ones64} }

// documentOf returns the digest of a document of the policy p.
func documentOf(m *Model, name string) string {
	for _, x := range listOf(m.The("p").P(), "documents") {
		if x["name"] == name {
			return x["digest"].(string)
		}
	}
	m.Fatalf("no document %s", name)
	return ""
}

func lacksDocument(name string) func(*Model) {
	return func(m *Model) { delete(m.Blobs, documentOf(m, name)) }
}

// prevless has the last entry follow none.
func prevless(m *Model) {
	m.The("o").linked = func(st Object) { st["predicate"].(Object)["prev"] = ones64 }
}
