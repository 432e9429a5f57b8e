package forge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/vectorfile"
	"github.com/helmkernel/helm/trust/registry"
)

// vectorsDir has the vectors of package conformance. Those of logs are made here, since no other
// package may use the makers of logs. The answers in them are written there.
const vectorsDir = "../../../conformance/vectors"

func keepVectors(t *testing.T, folder string, cases []vectorfile.Case) {
	t.Helper()
	vectorfile.Keep(t, filepath.Join(vectorsDir, folder), cases, *update)
}

// A packVector is a pack, and what its verifier knows.
type packVector struct {
	about string
	pack  []byte
	trust *registry.State
	key   crypto.PublicKey
	last  []byte
	want  error // nil: it is valid
}

// TestVectorPacks keeps the folder packs.
func TestVectorPacks(t *testing.T) {
	var list []packVector
	list = append(list, smallVectors(t)...)
	list = append(list, baseVectors(t)...)
	for _, x := range []struct {
		about string
		m     *Maker
	}{{"requirements, approvals and attestations", FixtureLog(t).Maker}, {"budgets", BudgetLog(t)},
		{"sources, taint and labels", KnowsLog(t)}} {
		list = append(list, packVector{about: x.about, pack: x.m.Pack(evidence.Write), trust: x.m.Trust})
	}
	list = append(list, budgetVectors(t)...)
	var cases []vectorfile.Case
	for _, x := range list {
		o := evidence.Options{Trust: x.trust, Kernel: x.key, Origin: Origin, Last: x.last}
		options := Object{"origin": Origin}
		files := map[string][]byte{"pack.tar": x.pack}
		if x.trust != nil {
			options["trust"] = true
			files["trust.json"] = x.trust.Canonical()
		}
		if x.key != nil {
			options["key"] = string(crypto.AppendBase64(nil, x.key))
		}
		if x.last != nil {
			options["last"] = true
			files["last"] = x.last
		}
		files["options.json"] = append(canonical(options), '\n')
		r, err := verifyBytes(t, x.pack, o)
		if x.want == nil {
			assert.NoError(t, err, x.about)
		} else {
			assert.ErrorIs(t, err, x.want, x.about)
			assert.Equal(t, evidence.Invalid, r.Level, x.about)
		}
		cases = append(cases, vectorfile.Case{About: x.about, Files: files})
	}
	keepVectors(t, "packs", cases)
}

// baseRows are the rows of the catalogue whose packs are vectors: what the small log cannot show.
var baseRows = []string{"R12 bound twice", "R20 f1", "R24 later policy", "R38", "C18", "T01 one root", "T09", "T16 ALLOW"}

// baseVectors are falsified base logs.
func baseVectors(t *testing.T) (list []packVector) {
	w := newTampered(t)
	list = append(list, packVector{about: "the base log, which has nearly everything", pack: w.pack, trust: w.o.Trust})
	for _, name := range baseRows {
		i := slices.IndexFunc(tamperings(), func(x tampering) bool { return strings.TrimSpace(x.id+" "+x.name) == name })
		require.True(t, i >= 0, "no row %q", name)
		x := tamperings()[i]
		_, pack, _ := w.falsify(t, x)
		list = append(list, packVector{about: "the base log: row " + name + " of the tamper catalogue", pack: pack,
			trust: w.o.Trust, want: x.want})
	}
	return list
}

// budgetVectors falsify charges and settlements.
func budgetVectors(t *testing.T) (list []packVector) {
	m := BudgetLog(t)
	pack := m.Pack(evidence.Write)
	node := func(x *Model, name string) *Node { return x.Nodes[slices.Index(budgetNames, name)] }
	for _, c := range []struct {
		about string
		cut   func(x *Model)
	}{
		{"budgets: a charge that forgets those before", func(x *Model) {
			n := node(x, "b1")
			for _, c := range n.D()["charges"].([]any) {
				if c.(Object)["budget"] == "P1:files:reads" {
					c.(Object)["before"] = 0
				}
			}
			x.inputs(n, func(in Object) {
				for _, b := range in["state"].(Object)["budgets"].([]any) {
					if b.(Object)["budget"] == "P1:files:reads" {
						b.(Object)["spent"] = 0
					}
				}
			})
		}},
		{"budgets: a settlement that keeps less", func(x *Model) {
			node(x, "a2").P()["settled"].([]any)[1].(Object)["amount"] = 0
		}},
	} {
		x := TakeApart(t, pack)
		c.cut(x)
		list = append(list, packVector{about: c.about, pack: x.Build(), trust: m.Trust, want: errBudget})
	}
	return list
}

// smallVectors are a log of six entries and what may be wrong with it: genesis, policy, decision
// and receipt of the session a, an open decision of b, a denial of a.
func smallVectors(t *testing.T) (list []packVector) {
	m := SmallLog(t, 0)
	whole := m.Pack(evidence.Write)
	model := TakeApart(t, whole)
	n := len(model.Nodes)
	add := func(x packVector) {
		x.about = "six entries: " + x.about
		if x.pack == nil {
			x.pack = whole
		}
		list = append(list, x)
	}
	root := rootOf(model, n)
	add(packVector{about: "trust state", trust: m.Trust})
	add(packVector{about: "pinned key", key: Public(t, SeedK1)})
	add(packVector{about: "nothing known of the signer"})
	add(packVector{about: "fresh", trust: m.Trust, last: LastOf(model, n, root, Origin)})
	add(packVector{about: "fresh, by a smaller checkpoint", trust: m.Trust,
		last: LastOf(model, 4, rootOf(model, 4), Origin)})
	add(packVector{about: "stale", trust: m.Trust, last: LastOf(model, n+1, root, Origin)})
	add(packVector{about: "diverged", trust: m.Trust, last: LastOf(model, n, rootOf(model, 5), Origin)})
	add(packVector{about: "another history of the same length", trust: m.Trust, pack: SmallLog(t, 1).Pack(evidence.Write),
		last: LastOf(model, n, root, Origin)})
	add(packVector{about: "another pinned key", key: Public(t, SeedX), want: errKey})
	add(packVector{about: "another trust state", trust: State(t), want: errTrust})
	add(packVector{about: "a key and a trust state", trust: m.Trust, key: Public(t, SeedK1), want: errInput})
	add(packVector{about: "the last checkpoint is none", trust: m.Trust, last: []byte("x\n"), want: errInput})
	add(packVector{about: "another log's last checkpoint", trust: m.Trust,
		last: signNote(m, "example.test/other\n1\n"+strings.Repeat("A", 43)+"=\n", "example.test/other", SeedL),
		want: errInput})
	for _, x := range smallFaults {
		model = TakeApart(t, whole)
		if x.cut != nil {
			x.cut(model)
		}
		pack := model.Build()
		if x.pack != nil {
			pack = x.pack(pack)
		}
		require.False(t, bytes.Equal(pack, whole), "%s: nothing was falsified", x.about)
		add(packVector{about: x.about, pack: pack, trust: m.Trust, want: x.want})
	}
	return list
}

// at changes the predicate of an entry when links and hashes are right already.
func at(i int, change func(p Object)) func(*Model) {
	return func(m *Model) { m.Nodes[i].linked = func(st Object) { change(st["predicate"].(Object)) } }
}

// smallFaults are one thing each that is wrong with the small log. Everything else is made right
// again, and signed.
var smallFaults = []struct {
	about string
	cut   func(m *Model)
	pack  func(b []byte) []byte
	want  error
}{
	{"mode of a member", headed(func(h []byte) { copy(h[100:], "0000755\x00") }), nil, errArchive},
	{"a directory", inserted(3, Member{Name: "blobs/", Head: typeflag('5')}), nil, errArchive},
	{"members exchanged", archived(func(ms []Member) []Member { ms[0], ms[1] = ms[1], ms[0]; return ms }), nil, errArchive},
	{"padding", archived(func(ms []Member) []Member { ms[0].Pad = 1; return ms }), nil, errArchive},
	{"one block at the end", nil, func(b []byte) []byte { return b[:len(b)-TarBlock] }, errArchive},
	{"a byte after the end", nil, func(b []byte) []byte { return append(b, 0) }, errArchive},
	{"cut off", nil, func(b []byte) []byte { return b[:len(b)/2] }, errArchive},
	{"the checkpoint is missing", archived(func(ms []Member) []Member { return slices.Delete(ms, 1, 2) }), nil, errArchive},

	{"an envelope with a space", func(m *Model) { m.Nodes[3].sealed = replace(":", ": ") }, nil, errEncoding},
	{"a payload that is not canonical", func(m *Model) {
		m.Nodes[3].Payload = replace(`"verdict":"ALLOW"`, `"verdict" :"ALLOW"`)
	}, nil, errEncoding},
	{"a key twice", func(m *Model) {
		m.Nodes[2].Payload = replace(`"verdict":"ALLOW"`, `"verdict":"DENY","verdict":"ALLOW"`)
	}, nil, errEncoding},
	{"no line end", func(m *Model) {
		m.lines = func(b []byte) []byte { return b[:len(b)-1] }
	}, nil, errEncoding},
	{"a member too many in an envelope", func(m *Model) {
		reseal(m, m.Nodes[3], func(env Object) { env["note"] = "x" })
	}, nil, errEnvelope},
	{"no signature", func(m *Model) {
		reseal(m, m.Nodes[3], func(env Object) { env["signatures"] = []any{} })
	}, nil, errEnvelope},
	{"another statement type", func(m *Model) { m.Nodes[3].st["_type"] = "https://in-toto.io/Statement/v0.1" }, nil,
		errEnvelope},
	{"a stranger's entry", func(m *Model) { m.Nodes[3].by = SeedX }, nil, errKey},
	{"an entry by the log key", func(m *Model) { m.Nodes[5].by = SeedL }, nil, errKey},
	{"a signature over other bytes", func(m *Model) {
		m.Nodes[3].message = func(pae []byte) []byte { return pae[bytes.IndexByte(pae, '{'):] }
	}, nil, errSignature},
	{"a field is missing", at(3, func(p Object) { delete(p, "effectHash") }), nil, errRecord},
	{"a field too many", at(2, func(p Object) { p["note"] = "x" }), nil, errRecord},
	{"an effect hash of other bytes", at(3, func(p Object) { p["effectHash"] = ones64 }), nil, errRecord},
	{"a denial of condition 1 for a reason of another", at(5, func(p Object) {
		p["decision"].(Object)["reason"] = "SESSION_CLOSED"
	}), nil, errRecord},
	{"a time with an offset", at(3, func(p Object) {
		p["time"] = strings.Replace(p["time"].(string), "Z", "+00:00", 1)
	}), nil, errRecord},
	{"a negative number", at(3, func(p Object) { p["lamport"] = json.Number("-1") }), nil, errRecord},
	{"a user's session with a kernel's name", at(3, func(p Object) { p["session"] = "@main" }), nil, errRecord},

	{"prev of another entry", at(4, func(p Object) { p["prev"] = zeros64 }), nil, errChain},
	{"seq one too high", func(m *Model) { m.Nodes[5].linked = func(st Object) { seq(st, 1) } }, nil, errChain},
	{"an entry removed", func(m *Model) {
		m.lines = func(b []byte) []byte { l := lineList(b); return bytes.Join(slices.Delete(l, 3, 4), nil) }
	}, nil, errChain},
	{"two entries exchanged", func(m *Model) {
		m.lines = func(b []byte) []byte { l := lineList(b); l[2], l[3] = l[3], l[2]; return bytes.Join(l, nil) }
	}, nil, errChain},
	{"an entry twice", func(m *Model) {
		m.lines = func(b []byte) []byte { l := lineList(b); return bytes.Join(slices.Insert(l, 5, l[4]), nil) }
	}, nil, errChain},
	{"a fork", func(m *Model) {
		c := m.copy(m.Nodes[5])
		c.D()["caller"] = Object{"id": "eve"}
		c.prev = m.Nodes[5].prev
		c.linked = func(st Object) { seq(st, -1) }
		m.Nodes = append(m.Nodes, c)
	}, nil, errChain},
	{"time goes back", at(3, func(p Object) { p["time"] = "2026-01-01T00:00:00.000Z" }), nil, errChain},
	{"genesis of another origin", func(m *Model) { m.Nodes[0].P()["origin"] = "example.test/other" }, nil, errChain},
	{"lamport too high", at(5, func(p Object) { p["lamport"] = p["lamport"].(int) + 1 }), nil, errGraph},
	{"lamport too low", at(4, func(p Object) { p["lamport"] = 1 }), nil, errGraph},
	{"an unknown parent", at(4, func(p Object) { p["parents"] = []any{ones64} }), nil, errGraph},
	{"parents out of order", at(4, func(p Object) { p["parents"] = []any{ones64, zeros64} }), nil, errRecord},
	{"a receipt twice", func(m *Model) {
		c := m.copy(m.Nodes[3])
		c.parents = []*Node{c.decision}
		c.P()["time"] = m.Nodes[5].Text("time")
		m.push(c)
	}, nil, errReference},
	{"a receipt of other arguments", func(m *Model) { m.Nodes[3].P()["argsHash"] = ones64 }, nil, errReference},
	{"a policy that no entry names", func(m *Model) { m.Nodes[5].D()["policyHash"] = ones64 }, nil, errReference},
	{"another tool in the receipt", func(m *Model) { m.Nodes[3].P()["tool"] = "x" }, nil, errReference},
	{"genesis of another trust state", func(m *Model) { m.Nodes[0].P()["trust"] = ones64 }, nil, errTrust},

	{"a root of other entries", wrongTree(func(m *Model) [32]byte { return rootOf(m, 5) }), nil, errMerkle},
	{"the checkpoint of one entry more", remark(func(_ *Model, text string) string {
		return strings.Replace(text, "\n6\n", "\n7\n", 1)
	}), nil, errMerkle},
	{"a size with a zero before", remark(func(_ *Model, text string) string {
		return strings.Replace(text, "\n6\n", "\n06\n", 1)
	}), nil, errCheckpoint},
	{"a checkpoint by a stranger in the log key's name", marked(func(m *Model, text string) []byte {
		return []byte(text + "\n" + noteLine(m, signWith(m, seedK2, []byte(text)), SeedL))
	}), nil, errCheckpoint},
	{"a checkpoint of another key", marked(func(m *Model, text string) []byte { return signNote(m, text, Origin, SeedX) }),
		nil, nil},
	{"the manifest's size", claims(func(_ *Model, p Object) { p["size"] = 5 }), nil, errManifest},
	{"the manifest's heads", claims(func(_ *Model, p Object) { p["proofGraphHash"] = ones64 }), nil, errManifest},
	{"the manifest's sessions", claims(func(_ *Model, p Object) { sub(p, "sessions")["count"] = 2 }), nil, errManifest},
	{"the manifest's blobs", claims(func(_ *Model, p Object) { sub(p, "blobs")["bytes"] = 1 }), nil, errManifest},
	{"a manifest by a stranger", func(m *Model) { m.by = SeedX }, nil, errManifest},
	{"a blob that nobody names", func(m *Model) { m.blob([]byte("stray")) }, nil, errBlob},
	{"a policy document is missing", func(m *Model) {
		delete(m.Blobs, m.Nodes[1].P()["documents"].([]any)[0].(Object)["digest"].(string))
	}, nil, errBlob},
	{"a policy document with a bit changed", flipped(func(m *Model) string {
		return m.Nodes[1].P()["documents"].([]any)[0].(Object)["digest"].(string)
	}), nil, errBlob},
	{"inputs with a bit changed", flipped(func(m *Model) string { return m.Nodes[2].D()["inputsHash"].(string) }), nil,
		errBlob},
	{"inputs erased", func(m *Model) { delete(m.Blobs, m.Nodes[2].D()["inputsHash"].(string)) }, nil, nil},
	{"inputs of other arguments", func(m *Model) {
		m.inputs(m.Nodes[2], func(in Object) { in["args"] = Object{"x": json.Number("1")} })
	}, nil, errReplay},
	{"inputs of another caller", func(m *Model) {
		m.inputs(m.Nodes[2], func(in Object) { in["caller"] = Object{"id": "eve"} })
	}, nil, errReplay},
	{"inputs of another session", func(m *Model) {
		m.inputs(m.Nodes[2], func(in Object) { in["session"] = "b" })
	}, nil, errReplay},
	{"inputs of another time", func(m *Model) {
		m.inputs(m.Nodes[2], func(in Object) { in["time"] = "2026-01-01T00:00:00.000Z" })
	}, nil, errReplay},
	{"inputs of another trust state", func(m *Model) {
		m.inputs(m.Nodes[2], func(in Object) { in["state"].(Object)["trust"] = ones64 })
	}, nil, errReplay},
	{"inputs with another key", func(m *Model) {
		m.inputs(m.Nodes[2], func(in Object) { in["idempotency"] = "k" })
	}, nil, errReplay},
	{"inputs with another number of drivers", func(m *Model) {
		m.inputs(m.Nodes[2], func(in Object) { in["drivers"] = json.Number("0") })
	}, nil, errReplay},
}

func lineList(b []byte) [][]byte { return slices.Collect(bytes.Lines(b)) }

// TestVectorVerdicts keeps the folder verdicts: what was judged in the logs of the tests, by policy
// and trust state.
func TestVectorVerdicts(t *testing.T) {
	var cases []vectorfile.Case
	add := func(about string, m *Maker, state *registry.State, least int) {
		t.Helper()
		members := Untar(t, m.Pack(evidence.Write))
		blobs := map[string][]byte{}
		for _, x := range members {
			if name, ok := strings.CutPrefix(x.Name, "blobs/"); ok {
				blobs[name] = x.Body
			}
		}
		files := map[string][]byte{"trust.json": state.Canonical()}
		p := m.Policy()
		for i, d := range p.Documents() {
			files[fmt.Sprint(i+1, ".json")] = d.Canonical
		}
		var lines []byte
		n := 0
		decisions := DecisionsIn(t, m.Pack(evidence.Write))
		indexes := make([]uint64, 0, len(decisions))
		for i := range decisions {
			indexes = append(indexes, i)
		}
		slices.Sort(indexes)
		for _, i := range indexes {
			d := decisions[i]
			b := blobs[d.InputsHash.String()]
			if b == nil || d.PolicyHash != p.Hash() {
				continue
			}
			in, err := contracts.ParseInputs(b)
			require.NoError(t, err)
			if in.State.Trust != state.Digest() {
				continue
			}
			got, _ := p.Judge(*in, state)
			if got.Reason != d.Reason { // the kernel's own refusal
				continue
			}
			lines = append(append(lines, b...), '\n')
			n++
		}
		assert.Greater(t, n, least, about)
		files["inputs.jsonl"] = lines
		cases = append(cases, vectorfile.Case{About: fmt.Sprintf("%s: %d calls", about, n), Files: files})
	}
	fixture := FixtureLog(t)
	add("requirements, approvals and attestations", fixture.Maker, fixture.state, 20)
	budgets := BudgetLog(t)
	add("budgets", budgets, budgets.Trust, 8)
	knows := KnowsLog(t)
	add("a floor, a bundle and an overlay: sources, facts, taint, labels, signals", knows, knows.Trust, 20)
	for _, x := range []struct {
		about string
		story func(m *Maker)
		least int
	}{{"delegation", Grants, 0}, {"many calls of five sessions", func(m *Maker) {
		m.Use(FilesPolicy(2))
		Wander(m, 60, false)
	}, 20}} {
		m := NewMaker(t)
		x.story(m)
		m.Checkpoint()
		for _, s := range statesOf(t, m) {
			if n := judgedUnder(t, m, s); n > 0 {
				add(fmt.Sprintf("%s, trust state version %d", x.about, s.Version()), m, s, x.least)
			}
		}
	}
	keepVectors(t, "verdicts", cases)
}

// statesOf are the initial trust state of a log, and those after its events.
func statesOf(t *testing.T, m *Maker) []*registry.State {
	states := []*registry.State{m.Trust}
	var r contracts.Reader
	index := uint64(0)
	for line := range bytes.Lines(Untar(t, m.Pack(evidence.Write))[EntriesAt].Body) {
		sealed, err := r.Open(bytes.TrimSuffix(line, []byte("\n")))
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		if st.Trust != nil {
			next, err := states[len(states)-1].Apply(st.Trust, Origin, index)
			require.NoError(t, err)
			states = append(states, next)
		}
		index++
	}
	return states
}

// judgedUnder counts the inputs that name a trust state.
func judgedUnder(t *testing.T, m *Maker, s *registry.State) (n int) {
	for _, x := range Untar(t, m.Pack(evidence.Write)) {
		n += bytes.Count(x.Body, []byte(`"trust":"`+s.Digest().String()+`"},"time"`))
	}
	return n
}

// TestVectorCheckpoints keeps the folder checkpoints.
func TestVectorCheckpoints(t *testing.T) {
	m := SmallLog(t, 0)
	note := m.Checkpoint()
	text, _, _ := strings.Cut(string(note), "\n\n")
	text += "\n"
	f := strings.Split(text, "\n")
	body := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	var cases []vectorfile.Case
	add := func(about string, b []byte) {
		keys := Object{"keys": []any{string(crypto.AppendBase64(nil, Public(t, SeedL)))}, "origin": Origin}
		cases = append(cases, vectorfile.Case{About: about,
			Files: map[string][]byte{"input": b, "keys.json": append(canonical(keys), '\n')}})
	}
	signed := func(about, body string) { add(about, signNote(m, body, Origin, SeedL)) }
	model := TakeApart(t, m.Pack(evidence.Write))
	add("a checkpoint", note)
	add("a stranger's line after the log key's", []byte(text+"\n"+noteLineOf(t, text, Origin, SeedL)+
		noteLineOf(t, text, "witness.example", SeedX)))
	signed("an empty log", body(Origin, "0", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="))
	signed("a size of 2^53-1", body(Origin, "9007199254740991", f[2]))
	signed("a size with a zero before", body(Origin, "06", f[2]))
	signed("a size with a sign", body(Origin, "+6", f[2]))
	signed("no size", body(Origin, "", f[2]))
	signed("a root of 31 bytes", body(Origin, "6", strings.Repeat("A", 40)+"AA=="))
	signed("a root with spare bits", body(Origin, "6", strings.Repeat("A", 42)+"B="))
	signed("a root without padding", body(Origin, "6", strings.TrimSuffix(f[2], "=")))
	signed("an extension line", text+"extension\n")
	signed("two lines", body(Origin, "6"))
	add("another origin", signNote(m, body("example.test/other", "6", f[2]), "example.test/other", SeedL))
	add("the log's key under another name", []byte(text+"\n"+noteLineOf(t, text, "example.test/other", SeedL)))
	add("a stranger's line first", []byte(text+"\n"+noteLineOf(t, text, "witness.example", SeedX)+
		noteLineOf(t, text, Origin, SeedL)))
	add("another key", signNote(m, text, Origin, SeedX))
	add("another key under the hash of the log's", []byte(text+"\n"+noteLine(model, signWith(t, SeedX, []byte(text)),
		SeedL)))
	add("a signature of other bytes", []byte(body(Origin, "5", f[2])+"\n"+noteLineOf(t, text, Origin, SeedL)))
	add("no signature", []byte(text+"\n"))
	add("no empty line", []byte(text+noteLineOf(t, text, Origin, SeedL)))
	add("no line end", bytes.TrimSuffix(note, []byte("\n")))
	add("a hyphen for the dash", bytes.Replace(note, []byte("— "), []byte("- "), 1))
	add("carriage returns", bytes.ReplaceAll(note, []byte("\n"), []byte("\r\n")))
	add("nothing", nil)
	keepVectors(t, "checkpoints", cases)
}

// TestVectorEnvelopes keeps the folder envelopes.
func TestVectorEnvelopes(t *testing.T) {
	m := BaseLog(t)
	m.Say("main", "hello")
	m.Checkpoint()
	model := TakeApart(t, m.Pack(evidence.Write))
	var cases []vectorfile.Case
	add := func(about string, e []byte, seeds ...byte) {
		keys := []any{}
		for _, s := range seeds {
			keys = append(keys, string(crypto.AppendBase64(nil, Public(t, s))))
		}
		b := append(canonical(Object{"keys": keys, "origin": ""}), '\n')
		cases = append(cases, vectorfile.Case{About: about, Files: map[string][]byte{"input": e, "keys.json": b}})
	}
	kernel := []byte{SeedK1, seedK2}
	seen := map[string]bool{}
	for _, n := range model.Nodes {
		kind := n.Kind()
		if kind == "receipt" {
			kind += " " + n.Text("outcome")
		}
		if kind == "trust" {
			kind += " " + n.P()["event"].(Object)["type"].(string)
		}
		if !seen[kind] {
			seen[kind] = true
			add("an entry: "+kind, n.Line, kernel...)
		}
	}
	e1 := model.Nodes[slices.Index(baseNames, "e1")]
	for _, x := range presented(t, m) {
		add("presented: "+x.about, x.e, x.by)
	}
	good := e1.Line
	change := func(about string, f func(n *Node)) {
		x := TakeApart(t, m.Pack(evidence.Write))
		n := x.Nodes[model.index(e1)]
		f(n)
		x.Build()
		require.False(t, bytes.Equal(n.Line, good), "%s: nothing was falsified", about)
		add("an entry: "+about, n.Line, kernel...)
	}
	add("an entry: of another key", good, SeedX, SeedL)
	add("an entry: of no key", good)
	change("a space", func(n *Node) { n.sealed = replace(":", ": ") })
	change("a line end", func(n *Node) { n.sealed = func(e []byte) []byte { return append(e, '\n') } })
	change("a byte order mark", func(n *Node) { n.sealed = func(e []byte) []byte { return append([]byte("\ufeff"), e...) } })
	change("a member too many", func(n *Node) { reseal(model, n, func(env Object) { env["note"] = "x" }) })
	change("two signatures", func(n *Node) {
		reseal(model, n, func(env Object) { s := env["signatures"].([]any); env["signatures"] = append(s, s[0]) })
	})
	change("no signature", func(n *Node) { reseal(model, n, func(env Object) { env["signatures"] = []any{} }) })
	change("another payload type", func(n *Node) {
		reseal(model, n, func(env Object) { env["payloadType"] = "application/json" })
	})
	change("the payload in the URL alphabet", func(n *Node) {
		reseal(model, n, func(env Object) {
			s := env["payload"].(string)
			env["payload"] = strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(s)
		})
	})
	change("a signature over the payload alone", func(n *Node) {
		n.message = func(pae []byte) []byte { return pae[bytes.IndexByte(pae, '{'):] }
	})
	change("a bit of the signature", func(n *Node) {
		reseal(model, n, func(env Object) {
			sig := base64Of(model, sigOf(env)["sig"])
			sig[3] ^= 1
			sigOf(env)["sig"] = string(crypto.AppendBase64(nil, sig))
		})
	})
	change("a signature with S beyond the order", func(n *Node) {
		reseal(model, n, func(env Object) {
			sig := base64Of(model, sigOf(env)["sig"])
			addOrder(sig[32:])
			sigOf(env)["sig"] = string(crypto.AppendBase64(nil, sig))
		})
	})
	change("another key id in the predicate", func(n *Node) {
		n.linked = func(st Object) { st["predicate"].(Object)["key"] = ones64 }
	})
	change("another statement type", func(n *Node) { n.st["_type"] = "https://in-toto.io/Statement/v0.1" })
	change("another kind", func(n *Node) {
		n.st["predicateType"] = "https://github.com/helmkernel/helm/decisions/v1"
	})
	change("two subjects", func(n *Node) {
		n.linked = func(st Object) { s := st["subject"].([]any); st["subject"] = append(s, s[0]) }
	})
	change("another subject", func(n *Node) {
		n.linked = func(st Object) { setSubject(st, "x", ones64) }
	})
	change("a payload with a number in another form", func(n *Node) { n.Payload = replace(`"seq":`, `"seq":0e0,"seq":`) })
	change("a field too many", func(n *Node) { n.linked = func(st Object) { st["predicate"].(Object)["note"] = "x" } })
	change("a field is missing", func(n *Node) { n.linked = func(st Object) { delete(st["predicate"].(Object), "time") } })
	change("a null", func(n *Node) { n.linked = func(st Object) { st["predicate"].(Object)["time"] = nil } })
	keepVectors(t, "envelopes", cases)
}

// addOrder adds the order of the group to a scalar in little-endian bytes.
func addOrder(s []byte) {
	order := []byte{0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
		31: 0x10}
	carry := 0
	for i := range s {
		carry += int(s[i]) + int(order[i])
		s[i] = byte(carry)
		carry >>= 8
	}
}

// presented are envelopes that callers present, one of each kind.
func presented(t *testing.T, m *Maker) (list []struct {
	about string
	e     []byte
	by    byte
}) {
	add := func(about string, by byte, e contracts.Envelope, err error) {
		t.Helper()
		require.NoError(t, err)
		list = append(list, struct {
			about string
			e     []byte
			by    byte
		}{about, e, by})
	}
	request := contracts.ApprovalRequest{ArgsHash: crypto.Sum([]byte("args")), Caller: Reader, Expires: Start + 1000,
		Nonce: strings.Repeat("0", 32), NotBefore: Start, PolicyHash: crypto.Sum([]byte("policy")), Quorum: 1,
		Roles: []string{"lead"}, SchemaHash: crypto.Sum([]byte("schema")), Session: "main", Tool: "fs.write"}
	yes := contracts.Approval{Request: request, Time: Start, Verdict: contracts.Allow}
	e, err := yes.Sign(Key(t, SeedA))
	add("approval", SeedA, e, err)
	no := yes
	no.Verdict = contracts.Deny
	e, err = no.Sign(Key(t, SeedA))
	add("refusal", SeedA, e, err)
	add("attestation", SeedB, m.Attest(`{"amount":1}`), nil)
	add("delegation", SeedD, m.grant(SeedD, "ada", "bob", 1, nil, "fs.list"), nil)
	e, err = contracts.Bundle{Digest: crypto.Sum([]byte("document")), Name: "files", Version: 3}.Sign(Key(t, seedF))
	add("bundle", seedF, e, err)
	return list
}

// TestVectorTrust keeps the folder trust.
func TestVectorTrust(t *testing.T) {
	keepVectors(t, "trust", trustVectors(t))
}
