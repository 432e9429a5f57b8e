package forge

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/trust/registry"
)

// archived changes the members of the archive.
func archived(change func(ms []Member) []Member) func(*Model) {
	return func(m *Model) { m.members = change }
}

// headed changes the header of entries.jsonl, whose checksum follows.
func headed(change func(h []byte)) func(*Model) {
	return archived(func(ms []Member) []Member { ms[2].Head = change; return ms })
}

func renamed(to string) func(*Model) {
	return archived(func(ms []Member) []Member { ms[2].Name = to; return ms })
}

func inserted(i int, x Member) func(*Model) {
	return archived(func(ms []Member) []Member { return slices.Insert(ms, i, x) })
}

func typeflag(c byte) func(h []byte) { return func(h []byte) { h[156] = c } }

// claims changes what the manifest claims.
func claims(change func(m *Model, p Object)) func(*Model) {
	return func(m *Model) { m.Manifest = func(p Object) { change(m, p) } }
}

func sub(p Object, k string) Object { return p[k].(Object) }

// trailing changes the end of the pack.
func trailing(change func(pack []byte) []byte) func(*Model, []byte) []byte {
	return func(_ *Model, pack []byte) []byte { return change(pack) }
}

// flipped changes one byte of a blob in the archive.
func flipped(which func(m *Model) string) func(*Model) {
	return func(m *Model) {
		name := which(m)
		m.members = func(ms []Member) []Member {
			for i := range ms {
				if ms[i].Name == "blobs/"+name {
					ms[i].Body = bytes.Clone(ms[i].Body)
					ms[i].Body[len(ms[i].Body)/2] ^= 1
					return ms
				}
			}
			m.Fatal("no such blob")
			return nil
		}
	}
}

// the archive, the manifest, the blobs.
var packRows = []tampering{
	{id: "P01", name: "mode", cut: headed(func(h []byte) { copy(h[100:], "0000755\x00") }), want: errArchive},
	{id: "P01", name: "mtime", cut: headed(func(h []byte) { copy(h[136:], "00000000001\x00") }), want: errArchive},
	{id: "P01", name: "uid", cut: headed(func(h []byte) { copy(h[108:], "0001750\x00") }), want: errArchive},
	{id: "P01", name: "uname", cut: headed(func(h []byte) { copy(h[265:], "root") }), want: errArchive},
	{id: "P01", name: "GNU", cut: headed(func(h []byte) { copy(h[257:], "ustar  \x00") }), want: errArchive},
	{id: "P02", name: "spaces", cut: archived(func(ms []Member) []Member {
		ms[2].Late = func(h []byte) { h[148] = ' ' }
		return ms
	}), want: errArchive},
	{id: "P02", name: "exchanged", cut: archived(func(ms []Member) []Member {
		ms[2].Late = func(h []byte) { h[154], h[155] = h[155], h[154] }
		return ms
	}), want: errArchive},
	{id: "P03", cut: archived(func(ms []Member) []Member {
		n := len(ms[2].Body)
		ms[2].Head = func(h []byte) {
			clear(h[124:136])
			h[124], h[133], h[134], h[135] = 0x80, byte(n>>16), byte(n>>8), byte(n)
		}
		return ms
	}), want: errArchive},
	{id: "P04", name: "path",
		cut:  inserted(2, Member{Name: "PaxHeaders/x", Body: []byte("17 path=entries2\n"), Head: typeflag('x')}),
		want: errArchive},
	{id: "P04", name: "size",
		cut:  inserted(2, Member{Name: "PaxHeaders/x", Body: []byte("10 size=1\n"), Head: typeflag('x')}),
		want: errArchive},
	{id: "P04", name: "long name",
		cut:  inserted(3, Member{Name: "././@LongLink", Body: []byte("blobs/x\x00"), Head: typeflag('L')}),
		want: errArchive},
	{id: "P05", cut: marked(func(m *Model, text string) []byte {
		return []byte(text + "\n" + noteLineOf(m, text, Origin, SeedL) + stranger(m, text))
	}),
		pack: func(m *Model, _ []byte) []byte {
			m.members = func(ms []Member) []Member {
				i := bytes.LastIndex(ms[1].Body[:len(ms[1].Body)-1], []byte("\n"))
				ms[1].Body = ms[1].Body[:i+1]
				return ms
			}
			return m.Build()
		}, want: errManifest},
	{id: "P06", name: "symbolic", cut: archived(func(ms []Member) []Member {
		ms[3].Body, ms[3].Head = nil, func(h []byte) { h[156] = '2'; copy(h[157:], "entries.jsonl") }
		return ms
	}), want: errArchive},
	{id: "P06", name: "hard", cut: archived(func(ms []Member) []Member {
		to := ms[4].Name
		ms[3].Body, ms[3].Head = nil, func(h []byte) { h[156] = '1'; copy(h[157:], to) }
		return ms
	}), want: errArchive},
	{id: "P06", name: "directory", cut: inserted(3, Member{Name: "blobs/", Head: typeflag('5')}), want: errArchive},
	{id: "P07", cut: func(m *Model) { m.blob([]byte("stray")) }, want: errBlob},
	{id: "P08", name: "members", cut: archived(func(ms []Member) []Member { ms[0], ms[1] = ms[1], ms[0]; return ms }),
		want: errArchive},
	{id: "P08", name: "blobs", cut: archived(func(ms []Member) []Member { ms[3], ms[4] = ms[4], ms[3]; return ms }),
		want: errArchive},
	{id: "P09", cut: archived(func(ms []Member) []Member {
		x := ms[2]
		x.Body = x.Body[:bytes.IndexByte(x.Body, '\n')+1]
		return slices.Insert(ms, 3, x)
	}), want: errArchive},
	{id: "P10", cut: archived(func(ms []Member) []Member { ms[0].Pad = 1; return ms }), want: errArchive},
	{id: "P11", name: "one", pack: trailing(func(b []byte) []byte { return b[:len(b)-TarBlock] }), want: errArchive},
	{id: "P11", name: "none", pack: trailing(func(b []byte) []byte { return b[:len(b)-2*TarBlock] }), want: errArchive},
	{id: "P11", name: "three", pack: trailing(func(b []byte) []byte { return append(b, make([]byte, TarBlock)...) }),
		want: errArchive},
	{id: "P11", name: "filled", pack: trailing(func(b []byte) []byte {
		return append(b, make([]byte, 10240-len(b)%10240)...)
	}), want: errArchive},
	{id: "P12", name: "archive", pack: trailing(func(b []byte) []byte { return append(b, b...) }), want: errArchive},
	{id: "P12", name: "byte", pack: trailing(func(b []byte) []byte { return append(b, 0) }), want: errArchive},
	{id: "P13", name: "./", cut: renamed("./entries.jsonl"), want: errArchive},
	{id: "P13", name: "/", cut: renamed("/entries.jsonl"), want: errArchive},
	{id: "P13", name: "..", cut: renamed("blobs/../entries.jsonl"), want: errArchive},
	{id: "P13", name: "prefix", cut: archived(func(ms []Member) []Member {
		name, ok := strings.CutPrefix(ms[3].Name, "blobs/")
		if !ok {
			return ms
		}
		ms[3].Name, ms[3].Head = name, func(h []byte) { copy(h[345:], "blobs") }
		return ms
	}), want: errArchive},
	{id: "P14", cut: func(m *Model) {
		p := m.The("p")
		d := p.P()["documents"].([]any)[0].(Object)
		old := d["digest"].(string)
		delete(m.Blobs, old)
		if Document(m) == m.The("p2").P()["documents"].([]any)[0].(Object)["digest"] {
			m.Fatal("both policies have the document")
		}
		was := p.P()["policy"]
		d["digest"] = m.blob([]byte("{\n" + strings.Repeat(" ", 3) + string(m.docs[old][1:])))
		p.P()["policy"] = HexOf(Object{"documents": p.P()["documents"], "engine": p.P()["engine"]})
		for _, n := range m.Nodes {
			if x := n.D(); x != nil && x["policyHash"] == was {
				x["policyHash"] = p.P()["policy"]
			}
		}
	}, want: errBlob},
	{id: "P15",
		cut:  archived(func(ms []Member) []Member { return append(ms, Member{Name: "README", Body: []byte("hello")}) }),
		want: errArchive},
	{id: "P16", pack: func(m *Model, pack []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(pack)
		require.NoError(m, err)
		require.NoError(m, w.Close())
		return b.Bytes()
	}, want: errArchive},
	{id: "P17", name: "inputs", cut: flipped(func(m *Model) string { return m.The("a1").D()["inputsHash"].(string) }),
		want: errBlob},
	{id: "P17", name: "document", cut: flipped(Document), want: errBlob},
	{id: "P17", name: "output", cut: flipped(func(m *Model) string { return m.The("a2").Text("outputHash") }), want: errBlob},
	{id: "P18", name: "document", cut: func(m *Model) { delete(m.Blobs, Document(m)) }, want: errBlob},
	{id: "P18", name: "trust", cut: func(m *Model) { delete(m.Blobs, m.The("g").Text("trust")) }, want: errBlob},
	{id: "P19", name: "size", cut: claims(func(m *Model, p Object) { p["size"] = len(m.Nodes) - 1 }), want: errManifest},
	{id: "P19", name: "bytes",
		cut:  claims(func(_ *Model, p Object) { e := sub(p, "entries"); e["bytes"] = e["bytes"].(int) - 1 }),
		want: errManifest},
	{id: "P19", name: "origin", cut: claims(func(_ *Model, p Object) { p["origin"] = Origin + "2" }), want: errManifest},
	{id: "P19", name: "line feed",
		cut: func(m *Model) { m.envelope = func(b []byte) []byte { return append(b, '\n') } }, want: errManifest},
	{id: "P20", name: "left out",
		cut: claims(func(m *Model, p Object) { p["sessions"] = sessionsOf(m, "s2", 0, false) }), want: errManifest},
	{id: "P20", name: "count",
		cut:  claims(func(_ *Model, p Object) { s := sub(p, "sessions"); s["count"] = s["count"].(int) + 1 }),
		want: errManifest},
	{id: "P20", name: "count of s2",
		cut: claims(func(m *Model, p Object) { p["sessions"] = sessionsOf(m, "s2", 1, true) }), want: errManifest},
	{id: "P21", name: "head", cut: claims(func(m *Model, p Object) { p["proofGraphHash"] = HexOf(headsOf(m)[1:]) }),
		want: errManifest},
	{id: "P21", name: "unsorted", cut: claims(func(m *Model, p Object) {
		h := headsOf(m)
		if HexOf(h) != p["proofGraphHash"] {
			m.Fatal("the heads are not those")
		}
		slices.Reverse(h)
		p["proofGraphHash"] = HexOf(h)
	}), want: errManifest},
	{id: "P22", name: "lack",
		cut:  claims(func(m *Model, p Object) { b := sub(p, "blobs"); b["count"] = b["count"].(int) - 1 }),
		want: errManifest},
	{id: "P22", name: "root", cut: claims(func(_ *Model, p Object) { sub(p, "blobs")["root"] = ones64 }), want: errManifest},
	{id: "P22", name: "bytes",
		cut:  claims(func(_ *Model, p Object) { b := sub(p, "blobs"); b["bytes"] = b["bytes"].(int) + 1 }),
		want: errManifest},
	{id: "P23", cut: func(m *Model) { m.by = SeedL }, want: errManifest},
	{id: "P24", name: "no LF", cut: func(m *Model) { m.lines = func(b []byte) []byte { return b[:len(b)-1] } },
		want: errEncoding},
	{id: "P24", name: "CR LF", cut: func(m *Model) {
		m.lines = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }
	}, want: errEncoding},
	{id: "P24", name: "empty line", cut: func(m *Model) { m.lines = func(b []byte) []byte { return append(b, '\n') } },
		want: errEncoding},
}

// headsOf are the heads of the log, sorted.
func headsOf(m *Model) []any {
	heads := map[string]bool{}
	for _, n := range m.Nodes {
		heads[n.hash] = true
		delete(heads, n.Text("prev"))
		for _, h := range n.P()["parents"].([]any) {
			delete(heads, h.(string))
		}
	}
	return sortedAny(heads)
}

// sessionsOf makes the manifest's sessions, of which one is falsified.
func sessionsOf(m *Model, name string, more int, there bool) Object {
	count, last := map[string]int{}, map[string]string{}
	var order []string
	for _, n := range m.Nodes {
		s := n.Text("session")
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
		leaves = append(leaves, append([]byte{0}, canonical(Object{"count": count[s], "last": last[s], "session": s})...))
	}
	return Object{"count": len(leaves), "root": hexRoot(leaves)}
}

// attacker signs everything by other keys, under a trust state of other keys: it changes hands
// and roots as the log does.
func attacker(m *Model) {
	const his = 100
	var pairs []string
	seeds := map[any]byte{}
	for seed := byte(1); seed <= SeedD; seed++ {
		seeds[keyHex(m, seed)] = seed
		pairs = append(pairs, keyHex(m, seed), keyHex(m, seed+his), encoded(Public(m, seed)), encoded(Public(m, seed+his)))
	}
	swap := strings.NewReplacer(pairs...)
	m.by, m.logBy = m.by+his, m.logBy+his
	for _, n := range m.Nodes {
		n.by += his
		if n.Kind() != "trust" {
			continue
		}
		e := parseObject(m, []byte(swap.Replace(string(canonical(n.event())))))
		if keys, ok := e["keys"].([]any); ok {
			slices.SortFunc(keys,
				func(a, b any) int { return strings.Compare(a.(Object)["id"].(string), b.(Object)["id"].(string)) })
		}
		var by, all []byte
		for _, s := range listOf(n.P(), "signatures") {
			by = append(by, seeds[s["keyid"]]+his)
		}
		for _, seed := range seeds {
			all = append(all, seed+his)
		}
		m.prove(e, all...)
		n.P()["event"] = e
		m.resign(n, by...)
	}
	approver(m, SeedA+his)
	replaceTrust(m, StateOf(m, 2, SeedK1+his, SeedL+his, StateKeys(m, his)...))
}

// replaceTrust makes another state the initial one.
func replaceTrust(m *Model, s *registry.State) {
	g := m.The("g")
	delete(m.Blobs, g.Text("trust"))
	g.P()["trust"] = m.blob(s.Canonical())
	m.retrust()
}

// given changes the options, and nothing of the pack.
func given(change func(m *Model, o *evidence.Options)) func(*Model, *evidence.Options) { return change }

// the options.
var callerRows = []tampering{
	{id: "V01", cut: attacker, o: given(func(_ *Model, o *evidence.Options) { o.Trust, o.Last = nil, nil }),
		then: evidence.Report{Level: evidence.Witnessed, History: evidence.None, Signer: evidence.Unpinned}},
	{id: "T17", cut: attacker, want: errKey},
	{id: "T18", cut: func(m *Model) {
		keys := append(StateKeys(m, 0), registry.Key{Name: "root", Public: Public(m, SeedX), Role: registry.Root})
		replaceTrust(m, StateOf(m, 2, SeedK1, SeedL, keys...))
	}, want: errTrust},
	{id: "V02", o: given(func(_ *Model, o *evidence.Options) { o.Trust = new(registry.State) }), want: errInput},
	{id: "V03", o: given(func(_ *Model, o *evidence.Options) { o.Trust, o.Kernel = nil, make(crypto.PublicKey, 32) }),
		want: errInput},
	{id: "V05", name: "space", o: given(func(_ *Model, o *evidence.Options) { o.Origin = "example test" }), want: errInput},
	{id: "V05", name: "256", o: given(func(_ *Model, o *evidence.Options) { o.Origin = strings.Repeat("a", 256) }),
		want: errInput},
	{id: "V06",
		o:    given(func(m *Model, o *evidence.Options) { o.Last = LastOf(m, len(m.Nodes)+1, [32]byte{1}, Origin) }),
		then: evidence.Report{Level: evidence.Witnessed, History: evidence.Stale, Signer: evidence.Trusted}},
	{id: "V07", name: "same size",
		o:    given(func(m *Model, o *evidence.Options) { o.Last = LastOf(m, len(m.Nodes), [32]byte{1}, Origin) }),
		then: evidence.Report{Level: evidence.Witnessed, History: evidence.Diverged, Signer: evidence.Trusted}},
	{id: "V07", name: "smaller",
		o:    given(func(m *Model, o *evidence.Options) { o.Last = LastOf(m, 14, [32]byte{1}, Origin) }),
		then: evidence.Report{Level: evidence.Witnessed, History: evidence.Diverged, Signer: evidence.Trusted}},
	{id: "V09", o: given(func(m *Model, o *evidence.Options) { o.Last = LastOf(m, 14, [32]byte{1}, Origin+"2") }),
		want: errInput},
	{id: "V09", name: "any origin",
		o: given(func(m *Model, o *evidence.Options) {
			o.Origin, o.Last = "", LastOf(m, 14, [32]byte{1}, Origin+"2")
		}), want: errInput},
	{id: "V10", o: given(func(m *Model, o *evidence.Options) {
		root := rootOf(m, 14)
		text := fmt.Sprintf("%s\n14\n%s\n", Origin, crypto.AppendBase64(nil, root[:]))
		o.Last = []byte(text + "\n" + noteLine(m, signWith(m, seedK2, []byte(text)), SeedL))
	}), want: errInput},
	{id: "V11", cut: remark(func(_ *Model, text string) string { return text + "quorum 0\n" }), want: errCheckpoint},
	{id: "own", name: "a key and a state",
		o: given(func(m *Model, o *evidence.Options) { o.Kernel = Public(m, SeedK1) }), want: errInput},
	{id: "own", name: "level", o: given(func(_ *Model, o *evidence.Options) { o.Level = evidence.Witnessed + 1 }),
		want: errInput},
	{id: "own", name: "no checkpoint", o: given(func(_ *Model, o *evidence.Options) { o.Last = []byte{} }), want: errInput},
	{id: "own", name: "pinned other",
		o: given(func(m *Model, o *evidence.Options) { o.Trust, o.Kernel = nil, Public(m, seedK2) }), want: errKey},
}
