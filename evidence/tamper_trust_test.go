package evidence

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"filippo.io/edwards25519"

	"github.com/helmkernel/helm/trust/registry"
)

// governed appends a trust event, signed by these.
func governed(event func(m *model) object, by ...byte) func(*model) {
	return func(m *model) { m.govern(event(m), by...) }
}

// adding is the event that adds a key.
func adding(seed byte, role string) func(*model) object {
	return func(m *model) object { return m.adds(seed, role) }
}

func freezing(m *model) object { return object{"type": "freeze", "why": "w"} }

// resigned signs the event of an entry anew.
func resigned(name string, by ...byte) func(*model) {
	return func(m *model) { m.resign(m.the(name), by...) }
}

// instead puts another event in the place of one: complete, but for the version, and signed by these.
func instead(name string, event func(m *model) object, by ...byte) func(*model) {
	return func(m *model) {
		n := m.the(name)
		e := event(m)
		e["version"] = numberOf(m, n.event()["version"])
		n.p()["event"] = m.complete(e)
		m.resign(n, by...)
	}
}

// event changes that of an entry, which is proved and signed anew.
func event(name string, change func(m *model, e object), by ...byte) func(*model) {
	return func(m *model) {
		n := m.the(name)
		e := n.event()
		change(m, e)
		m.complete(e)
		m.resign(n, by...)
	}
}

func with(field string, value any) func(*model, object) {
	return func(_ *model, e object) { e[field] = value }
}

// again appends a copy of an entry.
func again(m *model, name string) *node {
	c := m.copy(m.the(name))
	c.by = seedK2
	c.p()["time"] = m.the("o").text("time")
	m.push(c)
	return c
}

// weak adds a key whose encoding is given, with a proof that verifies under it. Only the point itself is wrong.
func weak(public []byte) func(*model) {
	return func(m *model) {
		e := m.adds(seedX, "kernel")
		e["id"], e["public"] = hexSum(public), encoded(public)
		m.complete(e)
		for i := 0; ; i++ { // another name is another message
			e["name"] = fmt.Sprint("new ", i)
			if proof := forged(m, public, paeOf(m.bare(e))); proof != nil {
				e["proof"] = encoded(proof)
				break
			}
		}
		m.govern(e, seedR1, seedR2)
	}
}

// smallOrder are the points of small order, as they are encoded.
func smallOrder(t testing.TB) (list [][]byte) {
	t.Helper()
	b, err := hex.DecodeString("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
	if err != nil {
		t.Fatal(err)
	}
	torsion, err := new(edwards25519.Point).SetBytes(b) // of order 8
	if err != nil {
		t.Fatal(err)
	}
	p := edwards25519.NewIdentityPoint()
	for range 8 {
		list = append(list, p.Bytes())
		p = new(edwards25519.Point).Add(p, torsion)
	}
	if p.Equal(edwards25519.NewIdentityPoint()) != 1 {
		t.Fatal("not a point of order 8")
	}
	return list
}

// forged is a signature with S = 0 that verifies under a key of small order, or nil where there is none for this message.
func forged(t testing.TB, public, message []byte) []byte {
	t.Helper()
	for _, r := range smallOrder(t) {
		if sig := append(bytes.Clone(r), make([]byte, 32)...); ed25519.Verify(public, message, sig) {
			return sig
		}
	}
	return nil
}

// weakOrder adds a multiple of a point of order 8; the first is the identity.
func weakOrder(i int) func(*model) {
	return func(m *model) { weak(smallOrder(m)[i])(m) }
}

// mixed adds a good key plus a point of order 8. Who has the good key can sign, where the hash happens to be a multiple of 8.
func mixed(m *model) {
	seed := sha512.Sum512(bytes.Repeat([]byte{seedX}, 32))
	a, err := new(edwards25519.Scalar).SetBytesWithClamping(seed[:32])
	m.must(err)
	torsion, err := new(edwards25519.Point).SetBytes(smallOrder(m)[1])
	m.must(err)
	public := new(edwards25519.Point).Add(new(edwards25519.Point).ScalarBaseMult(a), torsion).Bytes()
	e := m.adds(seedX, "kernel")
	e["id"], e["public"] = hexSum(public), encoded(public)
	m.complete(e)
	message := paeOf(m.bare(e))
	for i := byte(1); ; i++ {
		nonce := sha512.Sum512([]byte{i})
		r, err := new(edwards25519.Scalar).SetUniformBytes(nonce[:])
		m.must(err)
		front := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
		hash := sha512.Sum512(slices.Concat(front, public, message))
		k, err := new(edwards25519.Scalar).SetUniformBytes(hash[:])
		m.must(err)
		proof := append(front, new(edwards25519.Scalar).MultiplyAdd(k, a, r).Bytes()...)
		if ed25519.Verify(public, message, proof) {
			e["proof"] = encoded(proof)
			break
		}
	}
	m.govern(e, seedR1, seedR2)
}

// settles appends the receipt OUTCOME_UNKNOWN with which a recovery settles o.
func settles(m *model, by byte) {
	c, o := m.copy(m.the("u2")), m.the("o")
	c.by, c.decision, c.parents = by, o, []*node{o}
	p, d := c.p(), o.d()
	p["tool"], p["argsHash"], p["effectType"], p["time"] = d["tool"], d["argsHash"], d["effectType"], o.text("time")
	m.push(c)
}

// moved is T10: the revocation of K1 is moved behind three later entries, which K1 signs.
func moved(m *model) {
	t2 := m.the("t2")
	for _, name := range []string{"p2", "y1", "y2"} {
		m.the(name).by = seedK1
	}
	from, to := m.index(t2), m.index(m.the("y2"))
	t2.p()["time"] = m.the("y2").text("time")
	m.nodes = slices.Insert(slices.Delete(m.nodes, from, from+1), to, t2)
	m.relink()
	m.retrust()
}

// logRotated adds a second log key and revokes the first, by events at the end. The checkpoint is by the first, if it is not told otherwise.
func logRotated(m *model) {
	m.govern(m.adds(seedL2, "log"), seedR1, seedR2)
	m.govern(object{"type": "revoke", "id": keyHex(m, seedL), "why": "w"}, seedR1, seedR2)
}

// inState gives the inputs of a judgement the trust state of another entry.
func inState(name, at string) func(*model) {
	return func(m *model) {
		m.fold(func(n *node, s object) {
			if n == m.the(at) {
				m.inputs(m.the(name), func(in object) {
					if in["state"].(object)["trust"] == hexOf(s) {
						m.Fatal("the same state")
					}
					in["state"].(object)["trust"] = hexOf(s)
				})
			}
		})
	}
}

func parseState(m *model, s object) *registry.State {
	x, err := registry.ParseState(canonical(s))
	m.must(err)
	return x
}

// the trust events.
var trustRows = []tampering{
	{id: "T01", name: "no root", cut: governed(adding(seedX, "kernel")), want: ErrTrust},
	{id: "T01", name: "one root", cut: governed(adding(seedX, "kernel"), seedR1), want: ErrTrust},
	{id: "T02", name: "freeze", cut: resigned("z1", seedA), want: ErrTrust},
	{id: "T02", name: "unfreeze", cut: resigned("z2", seedF), want: ErrTrust},
	{id: "T03", name: "twice", cut: resigned("t1", seedR1, seedR1), want: ErrRecord},
	{id: "T03", name: "order", cut: func(m *model) { slices.Reverse(m.the("t1").p()["signatures"].([]any)) }, want: ErrRecord},
	{id: "T04", cut: instead("ro", func(m *model) object { return m.roots(2, seedR4, seedX) }, seedR4, seedX), want: ErrTrust},
	{id: "T05", name: "one was left out", cut: governed(freezing, seedR3), want: ErrTrust},
	{id: "T05", name: "two of them", cut: governed(adding(seedX, "kernel"), seedR2, seedR3), want: ErrTrust},
	{id: "T05", name: "all were left out", cut: both(instead("ro", func(m *model) object { return m.roots(2, seedR4, seedX) }, seedR1, seedR2, seedR4, seedX),
		governed(adding(seedK3, "kernel"), seedR1, seedR2)), want: ErrTrust},
	{id: "T06", name: "again", cut: func(m *model) { again(m, "t1") }, want: ErrTrust},
	{id: "T06", name: "the state's", cut: governed(func(m *model) object {
		e := m.adds(seedX, "kernel")
		e["version"] = numberOf(m, m.fold(nil)["version"])
		return e
	}, seedR1, seedR2), want: ErrTrust},
	{id: "T06", name: "one passed over", cut: governed(func(m *model) object {
		e := m.adds(seedX, "kernel")
		e["version"] = numberOf(m, m.fold(nil)["version"]) + 2
		return e
	}, seedR1, seedR2), want: ErrTrust},
	{id: "T07", cut: func(m *model) {
		n := m.the("t1")
		delete(n.event(), "proof")
		m.resign(n, seedR1, seedR2)
	}, want: ErrRecord},
	{id: "T08", cut: func(m *model) {
		n := m.the("t1")
		n.event()["proof"] = encoded(signWith(m, seedX, paeOf(m.bare(n.event()))))
		m.resign(n, seedR1, seedR2)
	}, want: ErrTrust},
	{id: "T09", cut: func(m *model) { m.the("o").by = seedK1 }, want: ErrKey},
	{id: "T10", cut: moved, then: Report{Level: Logged, History: Diverged, Signer: Trusted}},
	{id: "T11", cut: func(m *model) { m.the("m1").by = seedK2 }, want: ErrKey},
	{id: "T12", cut: func(m *model) { m.the("t1").by = seedK2 }, want: ErrKey},
	{id: "T13", name: "approver", cut: func(m *model) { m.the("o").by = seedA }, want: ErrKey},
	{id: "T13", name: "log", cut: func(m *model) { m.the("o").by = seedL }, want: ErrKey},
	{id: "T13", name: "root", cut: func(m *model) { m.the("o").by = seedR1 }, want: ErrKey},
	{id: "T14", name: "a second role", cut: governed(adding(seedA, "kernel"), seedR1, seedR2), want: ErrTrust},
	{id: "T14", name: "a root", cut: governed(adding(seedX, "root"), seedR1, seedR2), want: ErrTrust},
	{id: "T14", name: "no root any more", cut: governed(func(m *model) object { return object{"type": "revoke", "id": keyHex(m, seedR1), "why": "w"} }, seedR1, seedR2), want: ErrTrust},
	{id: "T15", name: "small order 0", cut: weakOrder(0), want: ErrTrust},
	{id: "T15", name: "small order 1", cut: weakOrder(1), want: ErrTrust},
	{id: "T15", name: "small order 2", cut: weakOrder(2), want: ErrTrust},
	{id: "T15", name: "small order 3", cut: weakOrder(3), want: ErrTrust},
	{id: "T15", name: "small order 4", cut: weakOrder(4), want: ErrTrust},
	{id: "T15", name: "small order 5", cut: weakOrder(5), want: ErrTrust},
	{id: "T15", name: "small order 6", cut: weakOrder(6), want: ErrTrust},
	{id: "T15", name: "small order 7", cut: weakOrder(7), want: ErrTrust},
	{id: "T15", name: "not reduced", cut: weak(append([]byte{0xee}, append(bytes.Repeat([]byte{0xff}, 30), 0x7f)...)), want: ErrTrust},
	{id: "T15", name: "and a point of order 8", cut: mixed, want: ErrTrust},
	{id: "T16", name: "ALLOW", cut: func(m *model) {
		c := m.copy(m.the("o"))
		m.insert(m.index(m.the("sf")), c)
	}, want: ErrTrust},
	{id: "T16", name: "SYSTEM_FROZEN", cut: setD("q", "reason", "SYSTEM_FROZEN"), want: ErrTrust},
	{id: "T16", name: "delegation", cut: func(m *model) { m.the("o").d()["delegation"] = m.the("un").event()["delegation"] }, want: ErrTrust},
	{id: "T19", cut: governed(adding(seedK1, "kernel"), seedR1, seedR2), want: ErrTrust},
	{id: "T20", cut: logRotated, then: Report{Level: Intact, History: Fresh, Signer: Trusted}},
	{id: "T21", cut: func(m *model) { approver(m, seedB) }, want: ErrReplay},
	{id: "T22", name: "too early", cut: func(m *model) {
		settles(m, seedK3)
		m.govern(m.adds(seedK3, "kernel"), seedR1, seedR2)
	}, want: ErrKey},
	{id: "T22", name: "revoked", cut: func(m *model) { settles(m, seedK1) }, want: ErrKey},
	{id: "T23", name: "origin", cut: governed(func(m *model) object {
		e := m.adds(seedX, "kernel")
		e["origin"] = testOrigin + "2"
		return e
	}, seedR1, seedR2), want: ErrTrust},
	{id: "T23", name: "delegator", cut: event("un", with("delegator", "bob"), seedR1, seedD), want: ErrTrust},

	{id: "own", name: "a signature that does not verify beside enough", cut: func(m *model) {
		n := m.the("t1")
		m.resign(n, seedR1, seedR2, seedR3)
		list := listOf(n.p(), "signatures")
		list[0]["sig"] = list[1]["sig"]
	}, want: ErrTrust},
	{id: "own", name: "a stranger's signature beside enough", cut: resigned("t1", seedR1, seedR2, seedX), want: ErrTrust},
	{id: "own", name: "a root event that changes nothing", cut: governed(func(m *model) object { return m.roots(2, seedR1, seedR2, seedR4) }, seedR1, seedR2, seedR4), want: ErrTrust},
	{id: "own", name: "frozen twice", cut: event("z2", with("type", "freeze"), seedR1, seedR2), want: ErrTrust},
	{id: "own", name: "the last kernel key", cut: governed(func(m *model) object { return object{"type": "revoke", "id": keyHex(m, seedK2), "why": "w"} }, seedR1, seedR2), want: ErrTrust},
	{id: "own", name: "an unknown type", cut: event("un", with("type", "rotate"), seedR1, seedR2), want: ErrTrust},
	{id: "own", name: "an event of one type in the subject of another", cut: statement("z1", func(st object) { setSubject(st, "unfreeze", hexOf(st["predicate"].(object)["event"])) }), want: ErrRecord},
	{id: "own", name: "an event in a session", cut: func(m *model) { m.the("un").p()["session"] = "main"; m.relink() }, want: ErrRecord},
	{id: "own", name: "an event taken out", cut: func(m *model) { m.remove(m.the("ka")) }, want: ErrTrust},
	{id: "own", name: "the key of another event", cut: func(m *model) {
		m.the("ka").p()["event"], m.the("t1").p()["event"] = m.the("t1").p()["event"], m.the("ka").p()["event"]
		m.the("ka").p()["signatures"], m.the("t1").p()["signatures"] = m.the("t1").p()["signatures"], m.the("ka").p()["signatures"]
	}, want: ErrTrust},
	{id: "own", name: "the state before the freeze", cut: inState("sf", "z1"), want: ErrReplay},
	{id: "own", name: "the state after the next event", cut: inState("e1", "p2"), want: ErrReplay},
	{id: "own", name: "a later state as the initial one", o: func(m *model, o *Options) { o.Trust = parseState(m, m.fold(nil)) }, want: ErrTrust},
	{id: "own", name: "a later state as the initial one, of the genesis too", cut: func(m *model) {
		replaceTrust(m, parseState(m, m.fold(nil)))
	}, o: func(m *model, o *Options) {
		o.Trust, o.Last = parseState(m, parseObject(m, m.blobs[m.the("g").text("trust")])), nil
	}, want: ErrTrust},
	{id: "own", name: "an initial state of another version", cut: initially(`"version":1`, `"version":2`), o: unpinned, want: ErrTrust},
	{id: "own", name: "a manifest by the revoked key", cut: func(m *model) { m.by = seedK1 }, want: ErrManifest},
	{id: "own", name: "a manifest by the log key that was added", cut: both(logRotated, func(m *model) { m.by, m.logBy = seedL2, seedL2 }), want: ErrManifest},
	{id: "own", name: "a line of the new log key that does not verify", cut: both(logRotated, marked(func(m *model, text string) []byte {
		return []byte(text + "\n" + noteLine(m, signWith(m, seedL, []byte(text)), seedL2))
	})), want: ErrCheckpoint},
}
