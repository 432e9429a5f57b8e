package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// The knife: a pack taken apart so that one thing can be falsified and everything else be made right again, links, hashes and signatures.
// It knows the formats by their JSON alone, not by the code under test.

type object = map[string]any

// A model is a pack in pieces.
type model struct {
	testing.TB
	nodes  []*node
	blobs  map[string][]byte // by name, in hex
	docs   map[string][]byte // as they were
	by     byte              // who signs the manifest
	logBy  byte              // who signs the checkpoint
	origin string            // where it is another than testOrigin

	lines    func([]byte) []byte                    // changes entries.jsonl; all that is said of it follows
	root     func() [32]byte                        // in place of the root
	note     func(text string) []byte               // in place of the signed note
	manifest func(p object)                         // changes the manifest's predicate
	envelope func([]byte) []byte                    // changes the manifest's bytes
	members  func([]member) []member                // changes the archive
	keep     struct{ note, manifest, lines []byte } // in place of what would be made
}

// A node is one entry.
type node struct {
	st       object // the statement
	prev     *node  // of its session; nil: genesis
	parents  []*node
	decision *node // of a receipt
	by       byte  // who signs

	linked  func(st object)         // changes the statement after links and hashes were made right
	payload func([]byte) []byte     // changes what is signed
	message func(pae []byte) []byte // changes what the signature is over
	sealed  func([]byte) []byte     // changes the envelope
	frozen  bool                    // keeps its line
	hash    string
	line    []byte
}

// A member is one of the archive.
type member struct {
	name string
	body []byte
	head func(h []byte) // changes the header; its checksum follows
	late func(h []byte) // changes it after that
	pad  byte
}

func (n *node) p() object    { return n.st["predicate"].(object) }
func (n *node) kind() string { return strings.Split(n.st["predicateType"].(string), "/")[5] }
func (n *node) text(k string) string {
	s, _ := n.p()[k].(string)
	return s
}

// d is the judgement in it.
func (n *node) d() object {
	d, _ := n.p()["decision"].(object)
	return d
}

func parseObject(t testing.TB, b []byte) object {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		t.Fatal(err)
	}
	return o
}

// canonical writes RFC 8785 for what records hold.
func canonical(x any) []byte {
	switch x := x.(type) {
	case object:
		keys := slices.Sorted(maps.Keys(x))
		b := []byte{'{'}
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(crypto.AppendString(b, k), ':'), canonical(x[k])...)
		}
		return append(b, '}')
	case []any:
		b := []byte{'['}
		for i, y := range x {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, canonical(y)...)
		}
		return append(b, ']')
	case string:
		return crypto.AppendString(nil, x)
	case nil:
		return []byte("null")
	}
	return fmt.Append(nil, x) // numbers and booleans
}

func hexSum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
func hexOf(x any) string     { return hexSum(canonical(x)) }
func leafOf(b []byte) string { return hexSum(append([]byte{0}, b...)) }

func base64Of(t testing.TB, s any) []byte {
	t.Helper()
	b, err := crypto.DecodeBase64(nil, []byte(s.(string)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// takeApart reads a pack.
func takeApart(t testing.TB, pack []byte) *model {
	t.Helper()
	m := &model{TB: t, blobs: map[string][]byte{}, docs: map[string][]byte{}, by: seedK2, logBy: seedL}
	seeds := map[string]byte{}
	for _, s := range []byte{seedK1, seedK2, seedK3, seedG1, seedG2} {
		id := crypto.KeyID(testPublic(t, s))
		seeds[id.String()] = s
	}
	byHash := map[string]*node{}
	last := map[string]*node{}
	for _, x := range untar(t, pack) {
		if name, ok := strings.CutPrefix(x.name, "blobs/"); ok {
			m.blobs[name], m.docs[name] = x.body, x.body
		}
		if x.name == "checkpoint" {
			text, _, _ := strings.Cut(string(x.body), "\n\n")
			if strings.HasSuffix(string(x.body), noteLineOf(t, text+"\n", testOrigin, seedL2)) {
				m.logBy = seedL2
			}
		}
		if x.name == "manifest.json" {
			m.by = seeds[sigOf(parseObject(t, x.body))["keyid"].(string)]
		}
		if x.name != "entries.jsonl" {
			continue
		}
		for line := range bytes.Lines(x.body) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			n := &node{st: parseObject(t, base64Of(t, parseObject(t, line)["payload"])), hash: leafOf(line), line: line}
			p := n.p()
			n.by, n.prev = seeds[n.text("key")], last[n.text("session")]
			for _, h := range p["parents"].([]any) {
				n.parents = append(n.parents, byHash[h.(string)])
			}
			n.decision = byHash[n.text("decisionHash")]
			last[n.text("session")], byHash[n.hash] = n, n
			m.nodes = append(m.nodes, n)
		}
	}
	return m
}

// untar splits an archive that is right.
func untar(t testing.TB, b []byte) (out []member) {
	t.Helper()
	for b[0] != 0 {
		name, size, ok := parseHeader((*[block]byte)(b))
		if !ok {
			t.Fatal("the pack to be falsified is no archive")
		}
		out = append(out, member{name: string(name), body: bytes.Clone(b[block : block+size])})
		b = b[block+size+padding(size):]
	}
	return out
}

// the is the entry of that name in the base log, as long as none was taken out or put in.
func (m *model) the(name string) *node {
	m.Helper()
	i := slices.Index(baseNames, name)
	if i < 0 || len(m.nodes) != len(baseNames) {
		m.Fatalf("no entry %q", name)
	}
	return m.nodes[i]
}

func (m *model) index(n *node) int { return slices.Index(m.nodes, n) }

// remove takes a node out; what follows it in its session follows the one before it.
func (m *model) remove(n *node) {
	m.nodes = slices.Delete(m.nodes, m.index(n), m.index(n)+1)
	for _, x := range m.nodes {
		if x.prev == n {
			x.prev = n.prev
		}
		x.parents = slices.DeleteFunc(x.parents, func(p *node) bool { return p == n })
	}
}

// copy makes one like n.
func (m *model) copy(n *node) *node {
	c := *n
	c.st = parseObject(m, canonical(n.st))
	c.parents, c.line = slices.Clone(n.parents), nil
	return &c
}

// insert puts a node at an index; the rest of its session follows it.
func (m *model) insert(i int, n *node) {
	n.prev = nil
	for _, x := range m.nodes[:i] {
		if x.text("session") == n.text("session") {
			n.prev = x
		}
	}
	for _, x := range m.nodes[i:] {
		if x.text("session") == n.text("session") {
			x.prev = n
			break
		}
	}
	m.nodes = slices.Insert(m.nodes, i, n)
}

func (m *model) push(n *node) { m.insert(len(m.nodes), n) }

// inputs changes the inputs of a judgement; their name follows.
func (m *model) inputs(n *node, change func(in object)) {
	m.Helper()
	old := n.d()["inputsHash"].(string)
	in := parseObject(m, m.blobs[old])
	change(in)
	delete(m.blobs, old)
	n.d()["inputsHash"] = m.blob(canonical(in))
}

// blob adds one, and gives its name.
func (m *model) blob(b []byte) string {
	m.blobs[hexSum(b)] = b
	return hexSum(b)
}

// build puts everything together again.
func (m *model) build() []byte {
	m.Helper()
	count := map[string]int{}
	lamport := map[*node]int{}
	var lines []byte
	var leaves [][]byte
	for i, n := range m.nodes {
		m.link(n, i, count, lamport)
		if !n.frozen {
			m.sign(n)
		}
		n.hash = leafOf(n.line)
		lines = append(append(lines, n.line...), '\n')
	}
	if m.lines != nil {
		lines = m.lines(lines)
	}
	if m.keep.lines != nil {
		lines = m.keep.lines
	}
	for line := range bytes.Lines(lines) {
		leaves = append(leaves, append([]byte{0}, bytes.TrimSuffix(line, []byte("\n"))...))
	}
	root := merkle(leaves)
	if m.root != nil {
		root = m.root()
	}
	origin := testOrigin
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
	}
	ms := []member{{name: "manifest.json"}, {name: "checkpoint", body: mark}, {name: "entries.jsonl", body: lines}}
	for _, name := range slices.Sorted(maps.Keys(m.blobs)) {
		ms = append(ms, member{name: "blobs/" + name, body: m.blobs[name]})
	}
	ms[0].body = m.listed(lines, mark, root)
	if m.envelope != nil {
		ms[0].body = m.envelope(ms[0].body)
	}
	if m.keep.manifest != nil {
		ms[0].body = m.keep.manifest
	}
	if m.members != nil {
		ms = m.members(ms)
	}
	return tarOf(ms)
}

// link makes right what an entry says of others, and the hashes of its own.
func (m *model) link(n *node, i int, count map[string]int, lamport map[*node]int) {
	p, session := n.p(), n.text("session")
	p["key"] = keyHex(m, n.by)
	p["seq"] = count[session]
	count[session]++
	most := -1
	name := func(x *node) string {
		most = max(most, lamport[x])
		return x.hash
	}
	switch {
	case i == 0:
		p["prev"] = strings.Repeat("0", 64)
	case n.prev == nil:
		p["prev"] = name(m.nodes[0])
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
	hashes(n, p, session)
	if n.linked != nil {
		n.linked(n.st)
	}
}

// hashes makes an entry's own right, and its subject.
func hashes(n *node, p object, session string) {
	if d := n.d(); d != nil {
		d["id"] = fmt.Sprintf("%s/%v", session, p["seq"])
		hashDecision(d)
		setSubject(n.st, d["tool"], d["argsHash"])
		return
	}
	switch n.kind() {
	case "policy":
		p["policy"] = hexOf(object{"documents": p["documents"], "engine": p["engine"]})
		setSubject(n.st, "policy", p["policy"])
	case "receipt":
		if n.decision != nil {
			p["decisionHash"] = n.decision.hash
		}
		hashEffect(p)
		setSubject(n.st, p["tool"], p["effectHash"])
	case "session":
		p["count"], p["last"] = p["seq"], p["prev"]
		setSubject(n.st, session, p["last"])
	case "trust":
		e := p["event"].(object)
		setSubject(n.st, e["type"], hexOf(e))
	case "genesis":
		setSubject(n.st, p["origin"], p["trust"])
	}
}

func hashDecision(d object) {
	o := object{}
	for _, k := range []string{"condition", "inputsHash", "policyHash", "reason", "rule", "verdict"} {
		if d[k] != nil {
			o[k] = d[k]
		}
	}
	d["policyDecisionHash"] = hexOf(o)
}

func hashEffect(p object) {
	o := object{"effectType": p["effectType"], "inputHash": p["argsHash"], "toolName": p["tool"]}
	if p["outputHash"] != nil {
		o["outputHash"] = p["outputHash"]
	}
	p["effectHash"] = hexOf(o)
}

func setSubject(st object, name, digest any) {
	st["subject"] = []any{object{"digest": object{"sha256": digest}, "name": name}}
}

func keyHex(t testing.TB, seed byte) string { return crypto.KeyID(testPublic(t, seed)).String() }

func (m *model) sign(n *node) {
	m.Helper()
	payload := canonical(n.st)
	if n.payload != nil {
		payload = n.payload(payload)
	}
	n.line = m.seal(payload, n.by, n.message)
	if n.sealed != nil {
		n.line = n.sealed(n.line)
	}
}

// seal makes an envelope.
func (m *model) seal(payload []byte, by byte, message func([]byte) []byte) []byte {
	m.Helper()
	pae := crypto.AppendPAE(nil, contracts.PayloadType, payload)
	if message != nil {
		pae = message(pae)
	}
	return canonical(object{"payload": string(crypto.AppendBase64(nil, payload)), "payloadType": contracts.PayloadType,
		"signatures": []any{object{"keyid": keyHex(m, by), "sig": string(crypto.AppendBase64(nil, signWith(m, by, pae)))}}})
}

func signWith(t testing.TB, seed byte, msg []byte) []byte {
	t.Helper()
	sig, err := crypto.Sign(testKey(t, seed), msg)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// listed makes the manifest.
func (m *model) listed(lines, mark []byte, root [32]byte) []byte {
	m.Helper()
	heads, count, last := map[string]bool{}, map[string]int{}, map[string]string{}
	for _, n := range m.nodes {
		heads[n.hash] = true
		for _, h := range n.p()["parents"].([]any) {
			delete(heads, h.(string))
		}
		delete(heads, n.text("prev"))
		count[n.text("session")]++
		last[n.text("session")] = n.hash
	}
	var sessions, names [][]byte
	for _, s := range slices.Sorted(maps.Keys(count)) {
		sessions = append(sessions, append([]byte{0}, canonical(object{"count": count[s], "last": last[s], "session": s})...))
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(m.blobs)) {
		d, _ := hex.DecodeString(name)
		names = append(names, append([]byte{0}, d...))
		total += len(m.blobs[name])
	}
	origin := m.nodes[0].text("origin")
	p := object{
		"blobs":      object{"bytes": total, "count": len(names), "root": hexRoot(names)},
		"checkpoint": hexSum(mark), "entries": object{"bytes": len(lines), "sha256": hexSum(lines)}, "key": keyHex(m, m.by),
		"merkleRoot": hex.EncodeToString(root[:]), "origin": origin, "proofGraphHash": hexOf(sortedAny(heads)),
		"sessions": object{"count": len(sessions), "root": hexRoot(sessions)}, "size": bytes.Count(lines, []byte("\n")),
	}
	st := object{"_type": "https://in-toto.io/Statement/v1", "predicate": p, "predicateType": "https://github.com/helmkernel/helm/manifest/v1"}
	if m.manifest != nil {
		m.manifest(p)
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

// TestKnifeIsSharp: a pack that is taken apart and put together unchanged is the same, byte for byte. So what a row of the catalogue refuses is
// refused for the one thing that it changes, and this second writer of the formats agrees with the first.
func TestKnifeIsSharp(t *testing.T) {
	for name, p := range testPacks(t) {
		if strings.HasPrefix(name, "OK10") {
			continue // the knife made it: its checkpoint has lines of others
		}
		if got := takeApart(t, p.pack).build(); !bytes.Equal(got, p.pack) {
			t.Errorf("%s: not the same after it was taken apart and put together", name)
		}
	}
}
