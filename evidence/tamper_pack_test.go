package evidence

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// archived changes the members of the archive.
func archived(change func(ms []member) []member) func(*model) {
	return func(m *model) { m.members = change }
}

// headed changes the header of entries.jsonl, whose checksum follows.
func headed(change func(h []byte)) func(*model) {
	return archived(func(ms []member) []member { ms[2].head = change; return ms })
}

func renamed(to string) func(*model) {
	return archived(func(ms []member) []member { ms[2].name = to; return ms })
}

func inserted(i int, x member) func(*model) {
	return archived(func(ms []member) []member { return slices.Insert(ms, i, x) })
}

func typeflag(c byte) func(h []byte) { return func(h []byte) { h[156] = c } }

// claims changes what the manifest claims.
func claims(change func(m *model, p object)) func(*model) {
	return func(m *model) { m.manifest = func(p object) { change(m, p) } }
}

func sub(p object, k string) object { return p[k].(object) }

// trailing changes the end of the pack.
func trailing(change func(pack []byte) []byte) func(*model, []byte) []byte {
	return func(_ *model, pack []byte) []byte { return change(pack) }
}

// flipped changes one byte of a blob in the archive.
func flipped(which func(m *model) string) func(*model) {
	return func(m *model) {
		name := which(m)
		m.members = func(ms []member) []member {
			for i := range ms {
				if ms[i].name == "blobs/"+name {
					ms[i].body = bytes.Clone(ms[i].body)
					ms[i].body[len(ms[i].body)/2] ^= 1
					return ms
				}
			}
			m.Fatal("no such blob")
			return nil
		}
	}
}

func document(m *model) string {
	return m.the("p").p()["documents"].([]any)[0].(object)["digest"].(string)
}

// the archive, the manifest, the blobs.
var packRows = []tampering{
	{id: "P01", name: "mode", cut: headed(func(h []byte) { copy(h[100:], "0000755\x00") }), want: ErrArchive},
	{id: "P01", name: "mtime", cut: headed(func(h []byte) { copy(h[136:], "00000000001\x00") }), want: ErrArchive},
	{id: "P01", name: "uid", cut: headed(func(h []byte) { copy(h[108:], "0001750\x00") }), want: ErrArchive},
	{id: "P01", name: "uname", cut: headed(func(h []byte) { copy(h[265:], "root") }), want: ErrArchive},
	{id: "P01", name: "GNU", cut: headed(func(h []byte) { copy(h[257:], "ustar  \x00") }), want: ErrArchive},
	{id: "P02", name: "spaces", cut: archived(func(ms []member) []member {
		ms[2].late = func(h []byte) { h[148] = ' ' }
		return ms
	}), want: ErrArchive},
	{id: "P02", name: "exchanged", cut: archived(func(ms []member) []member {
		ms[2].late = func(h []byte) { h[154], h[155] = h[155], h[154] }
		return ms
	}), want: ErrArchive},
	{id: "P03", cut: archived(func(ms []member) []member {
		n := len(ms[2].body)
		ms[2].head = func(h []byte) {
			clear(h[124:136])
			h[124], h[133], h[134], h[135] = 0x80, byte(n>>16), byte(n>>8), byte(n)
		}
		return ms
	}), want: ErrArchive},
	{id: "P04", name: "path", cut: inserted(2, member{name: "PaxHeaders/x", body: []byte("17 path=entries2\n"), head: typeflag('x')}), want: ErrArchive},
	{id: "P04", name: "size", cut: inserted(2, member{name: "PaxHeaders/x", body: []byte("10 size=1\n"), head: typeflag('x')}), want: ErrArchive},
	{id: "P04", name: "long name", cut: inserted(3, member{name: "././@LongLink", body: []byte("blobs/x\x00"), head: typeflag('L')}), want: ErrArchive},
	{id: "P05", cut: marked(func(m *model, text string) []byte {
		return []byte(text + "\n" + noteLineOf(m, text, testOrigin, seedL) + stranger(m, text))
	}),
		pack: func(m *model, _ []byte) []byte {
			m.members = func(ms []member) []member {
				i := bytes.LastIndex(ms[1].body[:len(ms[1].body)-1], []byte("\n"))
				ms[1].body = ms[1].body[:i+1]
				return ms
			}
			return m.build()
		}, want: ErrManifest},
	{id: "P06", name: "symbolic", cut: archived(func(ms []member) []member {
		ms[3].body, ms[3].head = nil, func(h []byte) { h[156] = '2'; copy(h[157:], "entries.jsonl") }
		return ms
	}), want: ErrArchive},
	{id: "P06", name: "hard", cut: archived(func(ms []member) []member {
		to := ms[4].name
		ms[3].body, ms[3].head = nil, func(h []byte) { h[156] = '1'; copy(h[157:], to) }
		return ms
	}), want: ErrArchive},
	{id: "P06", name: "directory", cut: inserted(3, member{name: "blobs/", head: typeflag('5')}), want: ErrArchive},
	{id: "P07", cut: func(m *model) { m.blob([]byte("stray")) }, want: ErrBlob},
	{id: "P08", name: "members", cut: archived(func(ms []member) []member { ms[0], ms[1] = ms[1], ms[0]; return ms }), want: ErrArchive},
	{id: "P08", name: "blobs", cut: archived(func(ms []member) []member { ms[3], ms[4] = ms[4], ms[3]; return ms }), want: ErrArchive},
	{id: "P09", cut: archived(func(ms []member) []member {
		x := ms[2]
		x.body = x.body[:bytes.IndexByte(x.body, '\n')+1]
		return slices.Insert(ms, 3, x)
	}), want: ErrArchive},
	{id: "P10", cut: archived(func(ms []member) []member { ms[0].pad = 1; return ms }), want: ErrArchive},
	{id: "P11", name: "one", pack: trailing(func(b []byte) []byte { return b[:len(b)-block] }), want: ErrArchive},
	{id: "P11", name: "none", pack: trailing(func(b []byte) []byte { return b[:len(b)-2*block] }), want: ErrArchive},
	{id: "P11", name: "three", pack: trailing(func(b []byte) []byte { return append(b, make([]byte, block)...) }), want: ErrArchive},
	{id: "P11", name: "filled", pack: trailing(func(b []byte) []byte {
		return append(b, make([]byte, 10240-len(b)%10240)...)
	}), want: ErrArchive},
	{id: "P12", name: "archive", pack: trailing(func(b []byte) []byte { return append(b, b...) }), want: ErrArchive},
	{id: "P12", name: "byte", pack: trailing(func(b []byte) []byte { return append(b, 0) }), want: ErrArchive},
	{id: "P13", name: "./", cut: renamed("./entries.jsonl"), want: ErrArchive},
	{id: "P13", name: "/", cut: renamed("/entries.jsonl"), want: ErrArchive},
	{id: "P13", name: "..", cut: renamed("blobs/../entries.jsonl"), want: ErrArchive},
	{id: "P13", name: "prefix", cut: archived(func(ms []member) []member {
		name, ok := strings.CutPrefix(ms[3].name, "blobs/")
		if !ok {
			return ms
		}
		ms[3].name, ms[3].head = name, func(h []byte) { copy(h[345:], "blobs") }
		return ms
	}), want: ErrArchive},
	{id: "P14", cut: func(m *model) {
		p := m.the("p")
		d := p.p()["documents"].([]any)[0].(object)
		old := d["digest"].(string)
		delete(m.blobs, old)
		if document(m) == m.the("p2").p()["documents"].([]any)[0].(object)["digest"] {
			m.Fatal("both policies have the document")
		}
		was := p.p()["policy"]
		d["digest"] = m.blob([]byte("{\n" + strings.Repeat(" ", 3) + string(m.docs[old][1:])))
		p.p()["policy"] = hexOf(object{"documents": p.p()["documents"], "engine": p.p()["engine"]})
		for _, n := range m.nodes {
			if x := n.d(); x != nil && x["policyHash"] == was {
				x["policyHash"] = p.p()["policy"]
			}
		}
	}, want: ErrBlob},
	{id: "P15", cut: archived(func(ms []member) []member { return append(ms, member{name: "README", body: []byte("hello")}) }), want: ErrArchive},
	{id: "P16", pack: func(m *model, pack []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(pack)
		m.must(err)
		m.must(w.Close())
		return b.Bytes()
	}, want: ErrArchive},
	{id: "P17", name: "inputs", cut: flipped(func(m *model) string { return m.the("a1").d()["inputsHash"].(string) }), want: ErrBlob},
	{id: "P17", name: "document", cut: flipped(document), want: ErrBlob},
	{id: "P17", name: "output", cut: flipped(func(m *model) string { return m.the("a2").text("outputHash") }), want: ErrBlob},
	{id: "P18", name: "document", cut: func(m *model) { delete(m.blobs, document(m)) }, want: ErrBlob},
	{id: "P18", name: "trust", cut: func(m *model) { delete(m.blobs, m.the("g").text("trust")) }, want: ErrBlob},
	{id: "P19", name: "size", cut: claims(func(m *model, p object) { p["size"] = len(m.nodes) - 1 }), want: ErrManifest},
	{id: "P19", name: "bytes", cut: claims(func(_ *model, p object) { e := sub(p, "entries"); e["bytes"] = e["bytes"].(int) - 1 }), want: ErrManifest},
	{id: "P19", name: "origin", cut: claims(func(_ *model, p object) { p["origin"] = testOrigin + "2" }), want: ErrManifest},
	{id: "P19", name: "line feed", cut: func(m *model) { m.envelope = func(b []byte) []byte { return append(b, '\n') } }, want: ErrManifest},
	{id: "P20", name: "left out", cut: claims(func(m *model, p object) { p["sessions"] = sessionsOf(m, "s2", 0, false) }), want: ErrManifest},
	{id: "P20", name: "count", cut: claims(func(_ *model, p object) { s := sub(p, "sessions"); s["count"] = s["count"].(int) + 1 }), want: ErrManifest},
	{id: "P20", name: "count of s2", cut: claims(func(m *model, p object) { p["sessions"] = sessionsOf(m, "s2", 1, true) }), want: ErrManifest},
	{id: "P21", name: "head", cut: claims(func(m *model, p object) { p["proofGraphHash"] = hexOf(headsOf(m)[1:]) }), want: ErrManifest},
	{id: "P21", name: "unsorted", cut: claims(func(m *model, p object) {
		h := headsOf(m)
		if hexOf(h) != p["proofGraphHash"] {
			m.Fatal("the heads are not those")
		}
		slices.Reverse(h)
		p["proofGraphHash"] = hexOf(h)
	}), want: ErrManifest},
	{id: "P22", name: "lack", cut: claims(func(m *model, p object) { b := sub(p, "blobs"); b["count"] = b["count"].(int) - 1 }), want: ErrManifest},
	{id: "P22", name: "root", cut: claims(func(_ *model, p object) { sub(p, "blobs")["root"] = ones64 }), want: ErrManifest},
	{id: "P22", name: "bytes", cut: claims(func(_ *model, p object) { b := sub(p, "blobs"); b["bytes"] = b["bytes"].(int) + 1 }), want: ErrManifest},
	{id: "P23", cut: func(m *model) { m.by = seedL }, want: ErrManifest},
	{id: "P24", name: "no LF", cut: func(m *model) { m.lines = func(b []byte) []byte { return b[:len(b)-1] } }, want: ErrEncoding},
	{id: "P24", name: "CR LF", cut: func(m *model) {
		m.lines = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }
	}, want: ErrEncoding},
	{id: "P24", name: "empty line", cut: func(m *model) { m.lines = func(b []byte) []byte { return append(b, '\n') } }, want: ErrEncoding},
}

// headsOf are the heads of the log, sorted.
func headsOf(m *model) []any {
	heads := map[string]bool{}
	for _, n := range m.nodes {
		heads[n.hash] = true
		delete(heads, n.text("prev"))
		for _, h := range n.p()["parents"].([]any) {
			delete(heads, h.(string))
		}
	}
	return sortedAny(heads)
}

// sessionsOf makes the manifest's sessions, of which one is falsified.
func sessionsOf(m *model, name string, more int, there bool) object {
	count, last := map[string]int{}, map[string]string{}
	var order []string
	for _, n := range m.nodes {
		s := n.text("session")
		if count[s]++; count[s] == 1 {
			order = append(order, s)
		}
		last[s] = n.hash
	}
	slices.Sort(order)
	var leaves [][]byte
	for _, s := range order {
		if s == name {
			if !there {
				continue
			}
			count[s] += more
		}
		leaves = append(leaves, append([]byte{0}, canonical(object{"count": count[s], "last": last[s], "session": s})...))
	}
	return object{"count": len(leaves), "root": hexRoot(leaves)}
}

// attacker signs everything by keys of his own, under a trust state of his own: he changes hands and roots as the log does.
func attacker(m *model) {
	const his = 100
	var pairs []string
	seeds := map[any]byte{}
	for seed := byte(1); seed <= seedD; seed++ {
		seeds[keyHex(m, seed)] = seed
		pairs = append(pairs, keyHex(m, seed), keyHex(m, seed+his), encoded(testPublic(m, seed)), encoded(testPublic(m, seed+his)))
	}
	swap := strings.NewReplacer(pairs...)
	m.by, m.logBy = m.by+his, m.logBy+his
	for _, n := range m.nodes {
		n.by += his
		if n.kind() != "trust" {
			continue
		}
		e := parseObject(m, []byte(swap.Replace(string(canonical(n.event())))))
		if keys, ok := e["keys"].([]any); ok {
			slices.SortFunc(keys, func(a, b any) int { return strings.Compare(a.(object)["id"].(string), b.(object)["id"].(string)) })
		}
		var by, all []byte
		for _, s := range listOf(n.p(), "signatures") {
			by = append(by, seeds[s["keyid"]]+his)
		}
		for _, seed := range seeds {
			all = append(all, seed+his)
		}
		m.prove(e, all...)
		n.p()["event"] = e
		m.resign(n, by...)
	}
	approver(m, seedA+his)
	replaceTrust(m, stateOf(m, 2, seedK1+his, seedL+his, stateKeys(m, his)...))
}

// replaceTrust makes another state the initial one.
func replaceTrust(m *model, s *registry.State) {
	g := m.the("g")
	delete(m.blobs, g.text("trust"))
	g.p()["trust"] = m.blob(s.Canonical())
	m.retrust()
}

// given changes what the caller gives, and nothing of the pack.
func given(change func(m *model, o *Options)) func(*model, *Options) { return change }

func lastOf(m *model, size int, root [32]byte, origin string) []byte {
	return signNote(m, fmt.Sprintf("%s\n%d\n%s\n", origin, size, crypto.AppendBase64(nil, root[:])), origin, seedL)
}

// what the caller gives.
var callerRows = []tampering{
	{id: "V01", cut: attacker, o: given(func(_ *model, o *Options) { o.Trust, o.Last = nil, nil }), then: Report{Level: Logged, History: None, Signer: Unpinned}},
	{id: "T17", cut: attacker, want: ErrKey},
	{id: "T18", cut: func(m *model) {
		keys := append(stateKeys(m, 0), registry.Key{Name: "root", Public: testPublic(m, seedX), Role: registry.Root})
		replaceTrust(m, stateOf(m, 2, seedK1, seedL, keys...))
	}, want: ErrTrust},
	{id: "V02", o: given(func(_ *model, o *Options) { o.Trust = new(registry.State) }), want: ErrInput},
	{id: "V03", o: given(func(_ *model, o *Options) { o.Trust, o.Kernel = nil, make(crypto.PublicKey, 32) }), want: ErrInput},
	{id: "V05", name: "space", o: given(func(_ *model, o *Options) { o.Origin = "example test" }), want: ErrInput},
	{id: "V05", name: "256", o: given(func(_ *model, o *Options) { o.Origin = strings.Repeat("a", 256) }), want: ErrInput},
	{id: "V06", o: given(func(m *model, o *Options) { o.Last = lastOf(m, len(m.nodes)+1, [32]byte{1}, testOrigin) }), then: Report{Level: Logged, History: Stale, Signer: Trusted}},
	{id: "V07", name: "same size", o: given(func(m *model, o *Options) { o.Last = lastOf(m, len(m.nodes), [32]byte{1}, testOrigin) }), then: Report{Level: Logged, History: Diverged, Signer: Trusted}},
	{id: "V07", name: "smaller", o: given(func(m *model, o *Options) { o.Last = lastOf(m, 14, [32]byte{1}, testOrigin) }), then: Report{Level: Logged, History: Diverged, Signer: Trusted}},
	{id: "V09", o: given(func(m *model, o *Options) { o.Last = lastOf(m, 14, [32]byte{1}, testOrigin+"2") }), want: ErrInput},
	{id: "V09", name: "any origin", o: given(func(m *model, o *Options) { o.Origin, o.Last = "", lastOf(m, 14, [32]byte{1}, testOrigin+"2") }), want: ErrInput},
	{id: "V10", o: given(func(m *model, o *Options) {
		root := merkle(leavesOf(m, 14))
		text := fmt.Sprintf("%s\n14\n%s\n", testOrigin, crypto.AppendBase64(nil, root[:]))
		o.Last = []byte(text + "\n" + noteLine(m, signWith(m, seedK2, []byte(text)), seedL))
	}), want: ErrInput},
	{id: "V11", cut: remark(func(_ *model, text string) string { return text + "quorum 0\n" }), want: ErrCheckpoint},
	{id: "own", name: "a key and a state", o: given(func(m *model, o *Options) { o.Kernel = testPublic(m, seedK1) }), want: ErrInput},
	{id: "own", name: "level", o: given(func(_ *model, o *Options) { o.Level = Logged + 1 }), want: ErrInput},
	{id: "own", name: "no checkpoint", o: given(func(_ *model, o *Options) { o.Last = []byte{} }), want: ErrInput},
	{id: "own", name: "pinned other", o: given(func(m *model, o *Options) { o.Trust, o.Kernel = nil, testPublic(m, seedK2) }), want: ErrKey},
}
