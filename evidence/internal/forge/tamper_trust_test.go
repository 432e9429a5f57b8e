package forge

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"filippo.io/edwards25519"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/trust/registry"
)

// governed appends a trust event, signed by these.
func governed(event func(m *Model) Object, by ...byte) func(*Model) {
	return func(m *Model) { m.govern(event(m), by...) }
}

// adding is the event that adds a key.
func adding(seed byte, role string) func(*Model) Object {
	return func(m *Model) Object { return m.adds(seed, role) }
}

func freezing(m *Model) Object { return Object{"type": "freeze", "why": "w"} }

// resigned signs the event of an entry again.
func resigned(name string, by ...byte) func(*Model) {
	return func(m *Model) { m.resign(m.The(name), by...) }
}

// instead puts another event in the place of one: complete, but for the version, and signed by
// these.
func instead(name string, event func(m *Model) Object, by ...byte) func(*Model) {
	return func(m *Model) {
		n := m.The(name)
		e := event(m)
		e["version"] = numberOf(m, n.event()["version"])
		n.P()["event"] = m.complete(e)
		m.resign(n, by...)
	}
}

// event changes that of an entry, which is proved and signed again.
func event(name string, change func(m *Model, e Object), by ...byte) func(*Model) {
	return func(m *Model) {
		n := m.The(name)
		e := n.event()
		change(m, e)
		m.complete(e)
		m.resign(n, by...)
	}
}

func with(field string, value any) func(*Model, Object) {
	return func(_ *Model, e Object) { e[field] = value }
}

// again appends a copy of an entry.
func again(m *Model, name string) *Node {
	c := m.copy(m.The(name))
	c.by = seedK2
	c.P()["time"] = m.The("o").Text("time")
	m.push(c)
	return c
}

// weak adds a key whose encoding is given, with a proof that verifies under it. Only the point
// itself is wrong.
func weak(public []byte) func(*Model) {
	return func(m *Model) {
		e := m.adds(SeedX, "kernel")
		e["id"], e["public"] = HexSum(public), encoded(public)
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
	require.NoError(t, err)
	torsion, err := new(edwards25519.Point).SetBytes(b) // of order 8
	require.NoError(t, err)
	p := edwards25519.NewIdentityPoint()
	for range 8 {
		list = append(list, p.Bytes())
		p = new(edwards25519.Point).Add(p, torsion)
	}
	require.Equal(t, 1, p.Equal(edwards25519.NewIdentityPoint()), "not a point of order 8")
	return list
}

// forged is a signature with S = 0 that verifies under a key of small order, or nil if there is
// none for this message.
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
func weakOrder(i int) func(*Model) {
	return func(m *Model) { weak(smallOrder(m)[i])(m) }
}

// mixed adds a good key plus a point of order 8. The holder of the good key can sign, if the hash
// happens to be a multiple of 8.
func mixed(m *Model) {
	seed := sha512.Sum512(bytes.Repeat([]byte{SeedX}, 32))
	a, err := new(edwards25519.Scalar).SetBytesWithClamping(seed[:32])
	require.NoError(m, err)
	torsion, err := new(edwards25519.Point).SetBytes(smallOrder(m)[1])
	require.NoError(m, err)
	public := new(edwards25519.Point).Add(new(edwards25519.Point).ScalarBaseMult(a), torsion).Bytes()
	e := m.adds(SeedX, "kernel")
	e["id"], e["public"] = HexSum(public), encoded(public)
	m.complete(e)
	message := paeOf(m.bare(e))
	for i := byte(1); ; i++ {
		nonce := sha512.Sum512([]byte{i})
		r, err := new(edwards25519.Scalar).SetUniformBytes(nonce[:])
		require.NoError(m, err)
		front := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
		hash := sha512.Sum512(slices.Concat(front, public, message))
		k, err := new(edwards25519.Scalar).SetUniformBytes(hash[:])
		require.NoError(m, err)
		proof := append(front, new(edwards25519.Scalar).MultiplyAdd(k, a, r).Bytes()...)
		if ed25519.Verify(public, message, proof) {
			e["proof"] = encoded(proof)
			break
		}
	}
	m.govern(e, seedR1, seedR2)
}

// settles appends the receipt OUTCOME_UNKNOWN with which a recovery settles o.
func settles(m *Model, by byte) {
	c, o := m.copy(m.The("u2")), m.The("o")
	c.by, c.decision, c.parents = by, o, []*Node{o}
	p, d := c.P(), o.D()
	p["tool"], p["argsHash"], p["effectType"], p["time"] = d["tool"], d["argsHash"], d["effectType"], o.Text("time")
	m.push(c)
}

// moved is T10: the revocation of K1 is moved after three later entries, which K1 signs.
func moved(m *Model) {
	t2 := m.The("t2")
	for _, name := range []string{"p2", "y1", "y2"} {
		m.The(name).by = SeedK1
	}
	from, to := m.index(t2), m.index(m.The("y2"))
	t2.P()["time"] = m.The("y2").Text("time")
	m.Nodes = slices.Insert(slices.Delete(m.Nodes, from, from+1), to, t2)
	m.relink()
	m.retrust()
}

// logRotated adds a second log key and revokes the first, by events at the end. The checkpoint is
// by the first, unless by says otherwise.
func logRotated(m *Model) {
	m.govern(m.adds(seedL2, "log"), seedR1, seedR2)
	m.govern(Object{"type": "revoke", "id": keyHex(m, SeedL), "why": "w"}, seedR1, seedR2)
}

// inState sets the trust state in the inputs of a judgement to that of another entry.
func inState(name, at string) func(*Model) {
	return func(m *Model) {
		m.fold(func(n *Node, s Object) {
			if n == m.The(at) {
				m.inputs(m.The(name), func(in Object) {
					if in["state"].(Object)["trust"] == HexOf(s) {
						m.Fatal("the same state")
					}
					in["state"].(Object)["trust"] = HexOf(s)
				})
			}
		})
	}
}

func parseState(m *Model, s Object) *registry.State {
	x, err := registry.ParseState(canonical(s))
	require.NoError(m, err)
	return x
}

// the trust events.
var trustRows = []tampering{
	{id: "T01", name: "no root", cut: governed(adding(SeedX, "kernel")), want: errTrust},
	{id: "T01", name: "one root", cut: governed(adding(SeedX, "kernel"), seedR1), want: errTrust},
	{id: "T02", name: "freeze", cut: resigned("z1", SeedA), want: errTrust},
	{id: "T02", name: "unfreeze", cut: resigned("z2", seedF), want: errTrust},
	{id: "T03", name: "twice", cut: resigned("t1", seedR1, seedR1), want: errRecord},
	{id: "T03", name: "order", cut: func(m *Model) { slices.Reverse(m.The("t1").P()["signatures"].([]any)) },
		want: errRecord},
	{id: "T04", cut: instead("ro", func(m *Model) Object { return m.roots(2, seedR4, SeedX) }, seedR4, SeedX),
		want: errTrust},
	{id: "T05", name: "one was left out", cut: governed(freezing, seedR3), want: errTrust},
	{id: "T05", name: "two of them", cut: governed(adding(SeedX, "kernel"), seedR2, seedR3), want: errTrust},
	{id: "T05", name: "all were left out",
		cut: both(instead("ro", func(m *Model) Object { return m.roots(2, seedR4, SeedX) }, seedR1, seedR2, seedR4,
			SeedX),
			governed(adding(seedK3, "kernel"), seedR1, seedR2)), want: errTrust},
	{id: "T06", name: "again", cut: func(m *Model) { again(m, "t1") }, want: errTrust},
	{id: "T06", name: "the state's", cut: governed(func(m *Model) Object {
		e := m.adds(SeedX, "kernel")
		e["version"] = numberOf(m, m.fold(nil)["version"])
		return e
	}, seedR1, seedR2), want: errTrust},
	{id: "T06", name: "one passed over", cut: governed(func(m *Model) Object {
		e := m.adds(SeedX, "kernel")
		e["version"] = numberOf(m, m.fold(nil)["version"]) + 2
		return e
	}, seedR1, seedR2), want: errTrust},
	{id: "T07", cut: func(m *Model) {
		n := m.The("t1")
		delete(n.event(), "proof")
		m.resign(n, seedR1, seedR2)
	}, want: errRecord},
	{id: "T08", cut: func(m *Model) {
		n := m.The("t1")
		n.event()["proof"] = encoded(signWith(m, SeedX, paeOf(m.bare(n.event()))))
		m.resign(n, seedR1, seedR2)
	}, want: errTrust},
	{id: "T09", cut: func(m *Model) { m.The("o").by = SeedK1 }, want: errKey},
	{id: "T10", cut: moved, then: evidence.Report{Level: evidence.Witnessed, History: evidence.Diverged,
		Signer: evidence.Trusted}},
	{id: "T11", cut: func(m *Model) { m.The("m1").by = seedK2 }, want: errKey},
	{id: "T12", cut: func(m *Model) { m.The("t1").by = seedK2 }, want: errKey},
	{id: "T13", name: "approver", cut: func(m *Model) { m.The("o").by = SeedA }, want: errKey},
	{id: "T13", name: "log", cut: func(m *Model) { m.The("o").by = SeedL }, want: errKey},
	{id: "T13", name: "root", cut: func(m *Model) { m.The("o").by = seedR1 }, want: errKey},
	{id: "T14", name: "a second role", cut: governed(adding(SeedA, "kernel"), seedR1, seedR2), want: errTrust},
	{id: "T14", name: "a root", cut: governed(adding(SeedX, "root"), seedR1, seedR2), want: errTrust},
	{id: "T14", name: "no root any more",
		cut: governed(func(m *Model) Object { return Object{"type": "revoke", "id": keyHex(m, seedR1), "why": "w"} },
			seedR1, seedR2), want: errTrust},
	{id: "T15", name: "small order 0", cut: weakOrder(0), want: errTrust},
	{id: "T15", name: "small order 1", cut: weakOrder(1), want: errTrust},
	{id: "T15", name: "small order 2", cut: weakOrder(2), want: errTrust},
	{id: "T15", name: "small order 3", cut: weakOrder(3), want: errTrust},
	{id: "T15", name: "small order 4", cut: weakOrder(4), want: errTrust},
	{id: "T15", name: "small order 5", cut: weakOrder(5), want: errTrust},
	{id: "T15", name: "small order 6", cut: weakOrder(6), want: errTrust},
	{id: "T15", name: "small order 7", cut: weakOrder(7), want: errTrust},
	{id: "T15", name: "not reduced", cut: weak(append([]byte{0xee}, append(bytes.Repeat([]byte{0xff}, 30), 0x7f)...)),
		want: errTrust},
	{id: "T15", name: "and a point of order 8", cut: mixed, want: errTrust},
	{id: "T16", name: "ALLOW", cut: func(m *Model) {
		c := m.copy(m.The("o"))
		m.insert(m.index(m.The("sf")), c)
	}, want: errTrust},
	{id: "T16", name: "SYSTEM_FROZEN", cut: setD("q", "reason", "SYSTEM_FROZEN"), want: errTrust},
	{id: "T16", name: "delegation",
		cut: func(m *Model) { m.The("o").D()["delegation"] = m.The("un").event()["delegation"] }, want: errTrust},
	{id: "T19", cut: governed(adding(SeedK1, "kernel"), seedR1, seedR2), want: errTrust},
	{id: "T20", cut: logRotated, then: evidence.Report{Level: evidence.Intact, History: evidence.Fresh,
		Signer: evidence.Trusted}},
	{id: "T21", cut: func(m *Model) { approver(m, SeedB) }, want: errReplay},
	{id: "T22", name: "too early", cut: func(m *Model) {
		settles(m, seedK3)
		m.govern(m.adds(seedK3, "kernel"), seedR1, seedR2)
	}, want: errKey},
	{id: "T22", name: "revoked", cut: func(m *Model) { settles(m, SeedK1) }, want: errKey},
	{id: "T23", name: "origin", cut: governed(func(m *Model) Object {
		e := m.adds(SeedX, "kernel")
		e["origin"] = Origin + "2"
		return e
	}, seedR1, seedR2), want: errTrust},
	{id: "T23", name: "delegator", cut: event("un", with("delegator", "bob"), seedR1, SeedD), want: errTrust},

	{id: "own", name: "a signature that does not verify beside enough", cut: func(m *Model) {
		n := m.The("t1")
		m.resign(n, seedR1, seedR2, seedR3)
		list := listOf(n.P(), "signatures")
		list[0]["sig"] = list[1]["sig"]
	}, want: errTrust},
	{id: "own", name: "a stranger's signature beside enough", cut: resigned("t1", seedR1, seedR2, SeedX), want: errTrust},
	{id: "own", name: "a root event that changes nothing",
		cut:  governed(func(m *Model) Object { return m.roots(2, seedR1, seedR2, seedR4) }, seedR1, seedR2, seedR4),
		want: errTrust},
	{id: "own", name: "frozen twice", cut: event("z2", with("type", "freeze"), seedR1, seedR2), want: errTrust},
	{id: "own", name: "the last kernel key",
		cut: governed(func(m *Model) Object { return Object{"type": "revoke", "id": keyHex(m, seedK2), "why": "w"} },
			seedR1, seedR2), want: errTrust},
	{id: "own", name: "an unknown type", cut: event("un", with("type", "rotate"), seedR1, seedR2), want: errTrust},
	{id: "own", name: "an event of one type in the subject of another",
		cut:  statement("z1", func(st Object) { setSubject(st, "unfreeze", HexOf(st["predicate"].(Object)["event"])) }),
		want: errRecord},
	{id: "own", name: "an event in a session", cut: func(m *Model) { m.The("un").P()["session"] = "main"; m.relink() },
		want: errRecord},
	{id: "own", name: "an event taken out", cut: func(m *Model) { m.remove(m.The("ka")) }, want: errTrust},
	{id: "own", name: "the key of another event", cut: func(m *Model) {
		m.The("ka").P()["event"], m.The("t1").P()["event"] = m.The("t1").P()["event"], m.The("ka").P()["event"]
		m.The("ka").P()["signatures"], m.The("t1").P()["signatures"] = m.The("t1").P()["signatures"],
			m.The("ka").P()["signatures"]
	}, want: errTrust},
	{id: "own", name: "the state before the freeze", cut: inState("sf", "z1"), want: errReplay},
	{id: "own", name: "the state after the next event", cut: inState("e1", "p2"), want: errReplay},
	{id: "own", name: "a later state as the initial one",
		o: func(m *Model, o *evidence.Options) { o.Trust = parseState(m, m.fold(nil)) }, want: errTrust},
	{id: "own", name: "a later state as the initial one, of the genesis too", cut: func(m *Model) {
		replaceTrust(m, parseState(m, m.fold(nil)))
	}, o: func(m *Model, o *evidence.Options) {
		o.Trust, o.Last = parseState(m, parseObject(m, m.Blobs[m.The("g").Text("trust")])), nil
	}, want: errTrust},
	{id: "own", name: "an initial state of another version", cut: initially(`"version":1`, `"version":2`), o: unpinned,
		want: errTrust},
	{id: "own", name: "a manifest by the revoked key", cut: func(m *Model) { m.by = SeedK1 }, want: errManifest},
	{id: "own", name: "a manifest by the log key that was added",
		cut: both(logRotated, func(m *Model) { m.by, m.logBy = seedL2, seedL2 }), want: errManifest},
	{id: "own", name: "a line of the new log key that does not verify",
		cut: both(logRotated, marked(func(m *Model, text string) []byte {
			return []byte(text + "\n" + noteLine(m, signWith(m, SeedL, []byte(text)), seedL2))
		})), want: errCheckpoint},
}
