package forge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Build puts everything together again.
func (m *Model) Build() []byte {
	m.Helper()
	count := map[string]int{}
	lamport := map[*Node]int{}
	var lines []byte
	var leaves [][32]byte
	for i, n := range m.Nodes {
		m.link(n, i, count, lamport)
		if !n.frozen {
			m.sign(n)
		}
		n.hash = leafOf(n.Line)
		if n.gone {
			m.drop(n)
		}
		lines = append(append(lines, n.standing()...), '\n')
	}
	if m.lines != nil {
		lines = m.lines(lines)
	}
	if m.keep.lines != nil {
		lines = m.keep.lines
	}
	for line := range bytes.Lines(lines) {
		leaves = append(leaves, bytesOf(leafIn(bytes.TrimSuffix(line, []byte("\n")))))
	}
	root := treeOf(leaves)
	if m.root != nil {
		root = m.root()
	}
	origin := Origin
	if m.origin != "" {
		origin = m.origin
	}
	text := fmt.Sprintf("%s\n%d\n%s\n", origin, len(leaves), crypto.AppendBase64(nil, root[:]))
	mark := m.keep.note
	switch {
	case mark != nil:
	case m.note != nil:
		mark = m.note(text)
	default:
		mark = signNote(m, text, origin, m.logBy)
		if m.cosigned {
			mark = append(mark, cosignaturesAt(m, text, m.cosignedAt)...)
		}
	}
	ms := []Member{{Name: "manifest.json"}, {Name: "checkpoint", Body: mark}, {Name: "entries.jsonl", Body: lines}}
	for _, name := range slices.Sorted(maps.Keys(m.Blobs)) {
		ms = append(ms, Member{Name: "blobs/" + name, Body: m.Blobs[name]})
	}
	ms[0].Body = m.listed(lines, mark, root)
	if m.envelope != nil {
		ms[0].Body = m.envelope(ms[0].Body)
	}
	if m.keep.manifest != nil {
		ms[0].Body = m.keep.manifest
	}
	if m.members != nil {
		ms = m.members(ms)
	}
	return TarOf(ms)
}

// link makes right what an entry says of others, and the hashes of its own.
func (m *Model) link(n *Node, i int, count map[string]int, lamport map[*Node]int) {
	if m.relate != nil {
		m.relate(n)
	}
	p, session := n.P(), n.Text("session")
	p["key"] = keyHex(m, n.by)
	p["seq"] = count[session]
	count[session]++
	most := -1
	name := func(x *Node) string {
		most = max(most, lamport[x])
		return x.hash
	}
	switch {
	case i == 0:
		p["prev"] = strings.Repeat("0", 64)
	case n.prev == nil:
		p["prev"] = name(m.Nodes[0])
	default:
		p["prev"] = name(n.prev)
	}
	parents := []any{}
	for _, x := range n.parents {
		if x != n.prev {
			parents = append(parents, name(x))
		}
	}
	slices.SortFunc(parents, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	p["parents"] = slices.Compact(parents)
	p["lamport"] = most + 1
	lamport[n] = most + 1
	if n.Kind() == "condense" {
		m.condense(n, i)
	}
	hashes(n, p, session)
	if n.linked != nil {
		n.linked(n.st)
	}
}

// hashes makes an entry's own right, and its subject.
func hashes(n *Node, p Object, session string) {
	if d := n.D(); d != nil {
		d["id"] = fmt.Sprintf("%s/%v", session, p["seq"])
		hashDecision(d)
		setSubject(n.st, d["tool"], d["argsHash"])
		return
	}
	switch n.Kind() {
	case "policy":
		p["policy"] = HexOf(Object{"documents": p["documents"], "engine": p["engine"]})
		setSubject(n.st, "policy", p["policy"])
	case "receipt":
		if n.decision != nil {
			p["decisionHash"] = n.decision.hash
		}
		hashEffect(p)
		setSubject(n.st, p["tool"], p["effectHash"])
	case "message":
		setSubject(n.st, "message", p["textHash"])
	case "session":
		p["count"], p["last"] = p["seq"], p["prev"]
		setSubject(n.st, session, p["last"])
	case "trust":
		e := p["event"].(Object)
		setSubject(n.st, e["type"], HexOf(e))
	case "genesis":
		setSubject(n.st, p["origin"], p["trust"])
	case "condense":
		setSubject(n.st, "condense", p["root"])
	}
}

func hashDecision(d Object) {
	o := Object{}
	for _, k := range []string{"condition", "inputsHash", "policyHash", "reason", "rule", "verdict"} {
		if d[k] != nil {
			o[k] = d[k]
		}
	}
	d["policyDecisionHash"] = HexOf(o)
}

func hashEffect(p Object) {
	o := Object{"effectType": p["effectType"], "inputHash": p["argsHash"], "toolName": p["tool"]}
	if p["outputHash"] != nil {
		o["outputHash"] = p["outputHash"]
	}
	p["effectHash"] = HexOf(o)
}

func setSubject(st Object, name, digest any) {
	st["subject"] = []any{Object{"digest": Object{"sha256": digest}, "name": name}}
}

func keyHex(t testing.TB, seed byte) string { return crypto.KeyID(Public(t, seed)).String() }

func (m *Model) sign(n *Node) {
	m.Helper()
	payload := canonical(n.st)
	if n.Payload != nil {
		payload = n.Payload(payload)
	}
	n.Line = m.seal(payload, n.by, n.message)
	if n.sealed != nil {
		n.Line = n.sealed(n.Line)
	}
}

// seal makes an envelope.
func (m *Model) seal(payload []byte, by byte, message func([]byte) []byte) []byte {
	m.Helper()
	pae := crypto.AppendPAE(nil, contracts.PayloadType, payload)
	if message != nil {
		pae = message(pae)
	}
	return canonical(Object{"payload": string(crypto.AppendBase64(nil, payload)), "payloadType": contracts.PayloadType,
		"signatures": []any{Object{"keyid": keyHex(m, by),
			"sig": string(crypto.AppendBase64(nil, signWith(m, by, pae)))}}})
}

// signatures are those made so far, by seed and message: most of a pack that is put together again
// is as it was.
var signatures sync.Map

func signWith(t testing.TB, seed byte, msg []byte) []byte {
	t.Helper()
	by := [33]byte{32: seed}
	sum := sha256.Sum256(msg)
	copy(by[:], sum[:])
	sig, ok := signatures.Load(by)
	if !ok {
		made, err := crypto.Sign(Key(t, seed), msg)
		require.NoError(t, err)
		sig, _ = signatures.LoadOrStore(by, made)
	}
	return bytes.Clone(sig.([]byte))
}

// listed makes the manifest.
func (m *Model) listed(lines, mark []byte, root [32]byte) []byte {
	m.Helper()
	heads, count, last := map[string]bool{}, map[string]int{}, map[string]string{}
	for _, n := range m.Nodes {
		heads[n.hash] = true
		for _, h := range n.named() {
			delete(heads, h)
		}
		count[n.Text("session")]++
		last[n.Text("session")] = n.hash
	}
	var sessions, names [][]byte
	for _, s := range slices.Sorted(maps.Keys(count)) {
		sessions = append(sessions, append([]byte{0}, canonical(Object{"count": count[s], "last": last[s], "session": s})...))
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(m.Blobs)) {
		d, _ := hex.DecodeString(name)
		names = append(names, append([]byte{0}, d...))
		total += len(m.Blobs[name])
	}
	origin := m.Nodes[0].Text("origin")
	p := Object{
		"blobs":      Object{"bytes": total, "count": len(names), "root": hexRoot(names)},
		"checkpoint": HexSum(mark), "entries": Object{"bytes": len(lines), "sha256": HexSum(lines)},
		"key":        keyHex(m, m.by),
		"merkleRoot": hex.EncodeToString(root[:]), "origin": origin, "proofGraphHash": HexOf(sortedAny(heads)),
		"sessions": Object{"count": len(sessions), "root": hexRoot(sessions)}, "size": bytes.Count(lines, []byte("\n")),
	}
	st := Object{"_type": "https://in-toto.io/Statement/v1", "predicate": p,
		"predicateType": "https://github.com/helmkernel/helm/manifest/v1"}
	if m.Manifest != nil {
		m.Manifest(p)
	}
	setSubject(st, p["origin"], p["merkleRoot"])
	return m.seal(canonical(st), m.by, nil)
}

func sortedAny(set map[string]bool) []any {
	out := []any{}
	for _, h := range slices.Sorted(maps.Keys(set)) {
		out = append(out, h)
	}
	return out
}
