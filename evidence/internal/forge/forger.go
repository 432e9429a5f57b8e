package forge

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// The forger: a pack taken apart so that one thing can be falsified and everything else be made
// right again, links, hashes and signatures. It knows the formats by their JSON alone, not by the
// code under test.

// A Model is a pack in pieces.
type Model struct {
	testing.TB
	Nodes  []*Node
	Blobs  map[string][]byte // by name, in hex
	docs   map[string][]byte // as they were
	by     byte              // who signs the manifest
	logBy  byte              // who signs the checkpoint
	origin string            // if it is not Origin

	cosigned   bool     // the witnesses cosign the checkpoint
	cosignedAt uint64   // when the first of them does
	names      []string // those of the entries

	lines    func([]byte) []byte                    // changes entries.jsonl; all that is said of it follows
	relate   func(n *Node)                          // changes an entry when those before it have their hashes
	root     func() [32]byte                        // in place of the root
	note     func(text string) []byte               // in place of the signed note
	Manifest func(p Object)                         // changes the manifest's predicate
	envelope func([]byte) []byte                    // changes the manifest's bytes
	members  func([]Member) []Member                // changes the archive
	keep     struct{ note, manifest, lines []byte } // in place of what would be made
}

// A Node is one entry.
type Node struct {
	st       Object // the statement
	prev     *Node  // of its session; nil: genesis
	parents  []*Node
	decision *Node // of a receipt
	by       byte  // who signs

	linked  func(st Object)         // changes the statement after links and hashes were made right
	Payload func([]byte) []byte     // changes what is signed
	message func(pae []byte) []byte // changes what the signature is over
	sealed  func([]byte) []byte     // changes the envelope
	frozen  bool                    // keeps its line
	hash    string
	Line    []byte

	gone    bool                  // its stub stands in its place
	stubbed func(s Object)        // changes the stub
	spelt   func([]byte) []byte   // changes the stub's line
	stub    []byte                // the line
	is      Object                // what the line says, after all changes
	members []*Node               // the set of a condense entry
	chosen  func([]*Node) []*Node // changes it
}

// P returns the predicate.
func (n *Node) P() Object { return n.st["predicate"].(Object) }

// Kind returns the kind of the entry, as in its predicateType.
func (n *Node) Kind() string { return strings.Split(n.st["predicateType"].(string), "/")[5] }

// Text returns a field of the predicate that is text, and "" if it is not.
func (n *Node) Text(k string) string {
	s, _ := n.P()[k].(string)
	return s
}

// D is the judgement in it.
func (n *Node) D() Object {
	d, _ := n.P()["decision"].(Object)
	return d
}

// TakeApart reads a pack.
func TakeApart(t testing.TB, pack []byte) *Model {
	t.Helper()
	return takeApart(t, Untar(t, pack))
}

// takeApart reads the members of a pack, none of whose entries are stubs.
func takeApart(t testing.TB, members []Member) *Model {
	t.Helper()
	m := &Model{TB: t, Blobs: map[string][]byte{}, docs: map[string][]byte{}, by: seedK2, logBy: SeedL,
		cosignedAt: CosignedAt, names: baseNames}
	seeds := map[string]byte{}
	for _, s := range []byte{SeedK1, seedK2, seedK3, seedG1, seedG2} {
		id := crypto.KeyID(Public(t, s))
		seeds[id.String()] = s
	}
	byHash := map[string]*Node{}
	last := map[string]*Node{}
	for _, x := range members {
		if name, ok := strings.CutPrefix(x.Name, "blobs/"); ok {
			m.Blobs[name], m.docs[name] = x.Body, x.Body
		}
		if x.Name == "checkpoint" {
			text, _, _ := strings.Cut(string(x.Body), "\n\n")
			if strings.Contains(string(x.Body), noteLineOf(t, text+"\n", Origin, seedL2)) {
				m.logBy = seedL2
			}
			m.cosigned = strings.HasSuffix(string(x.Body), cosignatures(t, text+"\n"))
		}
		if x.Name == "manifest.json" {
			m.by = seeds[sigOf(parseObject(t, x.Body))["keyid"].(string)]
		}
		if x.Name != "entries.jsonl" {
			continue
		}
		for line := range bytes.Lines(x.Body) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			n := &Node{st: parseObject(t, base64Of(t, parseObject(t, line)["payload"])), hash: leafOf(line), Line: line}
			p := n.P()
			n.by, n.prev = seeds[n.Text("key")], last[n.Text("session")]
			for _, h := range p["parents"].([]any) {
				n.parents = append(n.parents, byHash[h.(string)])
			}
			n.decision = byHash[n.Text("decisionHash")]
			last[n.Text("session")], byHash[n.hash] = n, n
			m.Nodes = append(m.Nodes, n)
		}
	}
	return m
}

// The is the entry of that name in the base log, as long as none was taken out or put in.
func (m *Model) The(name string) *Node {
	m.Helper()
	i := slices.Index(m.names, name)
	require.True(m, i >= 0 && len(m.Nodes) == len(m.names), "no entry %q", name)
	return m.Nodes[i]
}

func (m *Model) index(n *Node) int { return slices.Index(m.Nodes, n) }

// Judgements returns the entries with a judgement.
func Judgements(m *Model) (list []*Node) {
	for _, n := range m.Nodes {
		if n.D() != nil {
			list = append(list, n)
		}
	}
	return list
}

// sigOf returns the signature of an envelope.
func sigOf(env Object) Object { return env["signatures"].([]any)[0].(Object) }

// Document returns the digest of the first policy document.
func Document(m *Model) string {
	return m.The("p").P()["documents"].([]any)[0].(Object)["digest"].(string)
}
