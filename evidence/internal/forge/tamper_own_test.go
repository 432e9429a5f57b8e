package forge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// output changes the output of a receipt, which is kept.
func output(name, form, text string) func(*Model) {
	return func(m *Model) {
		p := m.The(name).P()
		delete(m.Blobs, p["outputHash"].(string))
		p["outputForm"], p["outputHash"] = form, m.blob([]byte(text))
	}
}

// becomes makes another kind of an entry of the kernel's chain.
func becomes(kind, subject string, digest func(p Object) any, fields Object) func(*Model) {
	return func(m *Model) {
		n := m.The("p2")
		p := n.P()
		for _, k := range []string{"documents", "engine", "policy"} {
			delete(p, k)
		}
		maps.Copy(p, fields)
		n.st["predicateType"] = "https://github.com/helmkernel/helm/" + kind + "/v1"
		n.linked = func(st Object) {
			maps.Copy(p, fields)
			setSubject(st, subject, digest(p))
		}
	}
}

// repolicy replaces the document of the first policy, and the hash in all its verdicts.
func repolicy(document string, change func(p Object)) func(*Model) {
	return func(m *Model) {
		n := m.The("p")
		p := n.P()
		was := p["policy"]
		if document != "" {
			d := p["documents"].([]any)[0].(Object)
			delete(m.Blobs, d["digest"].(string))
			d["digest"] = m.blob(canonical(parseObject(m, []byte(document))))
		}
		if change != nil {
			change(p)
		}
		now := HexOf(Object{"documents": p["documents"], "engine": p["engine"]})
		for _, x := range m.Nodes {
			if d := x.D(); d != nil && d["policyHash"] == was {
				d["policyHash"] = now
			}
		}
	}
}

// erase takes the inputs of all judgements out, and the outputs.
func erase(m *Model) {
	for _, n := range m.Nodes {
		if d := n.D(); d != nil {
			delete(m.Blobs, d["inputsHash"].(string))
		}
		if h, ok := n.P()["outputHash"].(string); ok {
			delete(m.Blobs, h)
		}
	}
}

func both(list ...func(*Model)) func(*Model) {
	return func(m *Model) {
		for _, f := range list {
			f(m)
		}
	}
}

// state changes what inputs say was read of the session's past.
func state(change func(s Object)) func(*Model) {
	return func(m *Model) { m.inputs(m.The("n1"), func(in Object) { change(in["state"].(Object)) }) }
}

// otherEngine has the policies of the log be those of another version of the engine, whose verdicts
// are not made again.
func otherEngine(m *Model) {
	repolicy("", newest)(m)
}

// newest makes a policy another engine's.
func newest(p Object) { p["engine"] = Object{"rules": 99, "threat": 7} }

// pastOf puts what the log says about the past of main into the inputs of n1, except for a change.
func pastOf(change func(m *Model, s Object)) func(*Model) {
	return func(m *Model) {
		m.Build() // for the hashes as they are now
		a2 := m.The("a2")
		m.inputs(m.The("n1"), func(in Object) {
			s := in["state"].(Object)
			s["calls"] = []any{Object{"count": 4, "of": "fs.read"}, Object{"count": 4}}
			s["receipts"] = []any{Object{"entry": a2.hash, "time": a2.Text("time"), "tool": "fs.read"},
				Object{"tool": "fs.stat"}}
			change(m, s)
		})
	}
}

// valued has one receipt be asked for by values, and named.
func valued(tool, entry string) func(m *Model, s Object) {
	return func(m *Model, s Object) {
		n := m.The(entry)
		s["receipts"] = []any{Object{"entry": n.hash, "same": Object{"/path": "/srv/a"}, "time": n.Text("time"),
			"tool": tool}}
	}
}

// ownRows are not in the catalogue: what this version refuses by name, and what REPLAY compares
// as well as the verdict.
var ownRows = []tampering{
	{id: "own", name: "gap", cut: func(m *Model) {
		m.The("d1").sealed = func([]byte) []byte {
			return []byte(`{"gap":{"from":4,"nodes":["` + ones64 + `"],"to":5}}`)
		}
	}, want: errEnvelope},
	{id: "own", name: "condense", cut: becomes("condense", "condense", func(p Object) any { return p["root"] },
		Object{"dropped": 1, "from": 1, "root": ones64, "size": 2, "stubs": ones64, "to": 2,
			"until": "1970-01-01T00:00:00.000Z"}), want: errGap},
	{id: "own", name: "charge", cut: setD("a1", "charges", charge(0, 1, 3)), want: errBudget},
	{id: "own", name: "settlement", cut: setP("a2", "settled", []any{Object{"amount": 1, "budget": "P1:files:reads"}}),
		want: errBudget},
	{id: "own", name: "facts", cut: func(m *Model) { m.The("a2").P()["factsHash"] = m.blob([]byte(`{"/n":[1]}`)) },
		want: errReplay},
	{id: "own", name: "facts that are none",
		cut: func(m *Model) { m.The("a2").P()["factsHash"] = m.blob([]byte(`[1]`)) }, want: errBlob},
	{id: "own", name: "balances", cut: state(func(s Object) {
		s["budgets"] = []any{Object{"budget": "P1:files:reads", "spent": 0, "window": "total"}}
	}), want: errReplay},
	{id: "own", name: "tainted", cut: state(func(s Object) { s["tainted"] = false }), want: errReplay},
	{id: "own", name: "labels", cut: state(func(s Object) { s["labels"] = []any{} }), want: errReplay},
	{id: "own", name: "used", cut: state(func(s Object) { s["used"] = []any{} }), want: errReplay},
	{id: "own", name: "calls that nobody asked for",
		cut: state(func(s Object) { s["calls"] = []any{Object{"count": 4}} }), want: errReplay},
	{id: "own", name: "a receipt that nobody asked for",
		cut: state(func(s Object) { s["receipts"] = []any{Object{"tool": "fs.write"}} }), want: errReplay},
	{id: "own", name: "sources", cut: state(func(s Object) {
		s["from"] = []any{Object{"count": 0, "found": []any{}, "source": "user", "state": zeros64}}
	}), want: errReplay},
	{id: "own", name: "facts of a receipt", cut: pastOf(func(m *Model, s Object) {
		s["receipts"].([]any)[0].(Object)["facts"] = Object{"/n": []any{1}}
	}), want: errReplay},
	{id: "own", name: "another engine's charge without its balance", cut: both(otherEngine, func(m *Model) {
		m.The("o").D()["charges"] = charge(0, 1, 3)
	}), want: errReplay},
	{id: "own", name: "another engine's refusal of its own, which asked", cut: both(otherEngine, func(m *Model) {
		m.inputs(m.The("k"), func(in Object) { in["state"].(Object)["calls"] = []any{Object{"count": 6}} })
	}), want: errReplay},
	{id: "own", name: "a refusal of the kernel's own, which asked", cut: func(m *Model) {
		m.inputs(m.The("k"), func(in Object) { in["state"].(Object)["calls"] = []any{Object{"count": 6}} })
	}, want: errReplay},
	{id: "own", name: "another engine's approval, which is none", cut: both(otherEngine, func(m *Model) {
		e1 := m.The("e1")
		e := parseObject(m,
			m.Blobs[e1.D()["inputsHash"].(string)])["envelopes"].(Object)["attestations"].([]any)[0].(Object)
		approvedBy(m, e1, e)
	}), want: errReplay},
	{id: "own", name: "another engine's approval, which is used and counts", cut: both(otherEngine, func(m *Model) {
		e1 := m.The("e1")
		m.inputs(e1, func(in Object) { in["state"].(Object)["used"] = e1.D()["approvals"] })
	}), want: errReplay},
	{id: "own", name: "a floor", cut: repolicy(`{"helm":"policy/v1","layer":"P0","name":"files","version":3}`,
		func(p Object) {
			p["documents"].([]any)[0].(Object)["layer"] = "P0"
		}), want: errReplay},
	{id: "own", name: "budgets",
		cut: repolicy(strings.Replace(FilesPolicy(3), `"rules":[`,
			`"budgets":[{"cost":1,"id":"b","limit":1,"per":"all","tools":["fs.read"],"window":"day"}],"rules":[`, 1),
			nil), want: errReplay},
	{id: "own", name: "another document than named", cut: repolicy("", func(p Object) {
		d := p["documents"].([]any)[0].(Object)
		d["version"] = 9
	}), want: errBlob},
	{id: "own", name: "another layer than named", cut: repolicy("", func(p Object) {
		p["documents"].([]any)[0].(Object)["layer"] = "P0"
	}), want: errBlob},
	{id: "own", name: "another name than named", cut: repolicy("", func(p Object) {
		p["documents"].([]any)[0].(Object)["name"] = "filez"
	}), want: errBlob},
	{id: "own", name: "a document without a name", cut: repolicy(`{"bundle":{"version":3},"layer":"P1"}`, nil),
		want: errBlob},
	{id: "own", name: "a document without a version", cut: repolicy(`{"bundle":{"name":"files"},"layer":"P1"}`, nil),
		want: errBlob},
	{id: "own", name: "a document that is no bundle", cut: repolicy(`{"bundle":7,"layer":"P1"}`, nil), want: errBlob},
	{id: "own", name: "another engine's document, of another version", cut: repolicy("", func(p Object) {
		newest(p)
		p["documents"].([]any)[0].(Object)["version"] = 9
	}), want: errBlob},
	{id: "own", name: "a document of a policy that nobody was judged under, of another version",
		cut: unused(func(p Object) { p["documents"].([]any)[0].(Object)["version"] = 9 }), want: errBlob},
	{id: "own", name: "a document of a policy that nobody was judged under, of another name",
		cut: unused(func(p Object) { p["documents"].([]any)[0].(Object)["name"] = "filez" }), want: errBlob},
	{id: "own", name: "a document of a policy that nobody was judged under, of another layer",
		cut: unused(func(p Object) { p["documents"].([]any)[0].(Object)["layer"] = "P0" }), want: errBlob},
	{id: "own", name: "no rules", cut: repolicy("", func(p Object) { p["engine"].(Object)["rules"] = 0 }),
		want: errRecord},
	{id: "own", name: "a threat table below the first", cut: repolicy("",
		func(p Object) { p["engine"].(Object)["threat"] = -1 }), want: errRecord},

	{id: "own", name: "executed, not as pinned", cut: output("a2", "jcs", `{"txt":1}`), want: errReplay},
	{id: "own", name: "drift, as pinned", cut: output("w2", "jcs", `{"text":"c"}`), want: errReplay},
	{id: "own", name: "raw, though pinned", cut: output("a2", "raw", `not JSON`), want: errReplay},
	{id: "own", name: "not canonical", cut: output("m1", "jcs", `{"a": 1}`), want: errBlob},
	{id: "own", name: "not JSON", cut: output("m1", "jcs", `not JSON`), want: errBlob},
	{id: "own", name: "drift of nothing", cut: func(m *Model) {
		p := m.The("m1").P()
		p["outcome"], p["reason"], p["verdict"] = "WITHHELD", "ERR_CONNECTOR_CONTRACT_DRIFT", "DENY"
	}, want: errReplay},
	{id: "own", name: "drift of nothing, erased", cut: func(m *Model) {
		p := m.The("m1").P()
		p["outcome"], p["reason"], p["verdict"] = "WITHHELD", "ERR_CONNECTOR_CONTRACT_DRIFT", "DENY"
		delete(m.Blobs, p["outputHash"].(string))
	}, want: errReplay},
	{id: "own", name: "another sandbox", cut: func(m *Model) { sub(m.The("y2").P(), "sandbox")["module"] = ones64 },
		want: errReplay},
	{id: "own", name: "a sandbox of no driver", cut: func(m *Model) {
		m.The("f2").P()["sandbox"] = Object{"gas": 1, "grants": ones64, "module": ones64, "profile": "none"}
	}, want: errReplay},
	{id: "own", name: "a rule of its own", cut: setD("b3", "rule", "P1:files:secrets"), want: errReplay},
	{id: "own", name: "another effect, erased",
		cut: both(func(m *Model) { m.The("e1").D()["effectType"], m.The("e2").P()["effectType"] = "read", "read" },
			erase), want: errReplay},
	{id: "own", name: "another risk, erased", cut: both(setD("b3", "risk", "high"), erase), want: errReplay},
	{id: "own", name: "no effect of a refusal, erased", cut: both(func(m *Model) {
		d := m.The("q").D()
		if d["effectType"] == nil {
			m.Fatal("it has none")
		}
		delete(d, "effectType")
		delete(d, "risk")
	}, erase), want: errReplay},
	{id: "own", name: "a longer time limit, erased", cut: both(func(m *Model) {
		d := m.The("a1").D()
		at, err := contracts.ParseTime(d["expires"].(string))
		require.NoError(m, err)
		d["expires"] = (at + 3_600_000).String()
	}, erase), want: errReplay},
	{id: "own", name: "an effect of a refusal", cut: func(m *Model) {
		d := m.The("r").D()
		d["effectType"], d["risk"] = "write", "high"
	}, want: errReplay},

	{id: "own", name: "another origin",
		o: func(_ *Model, o *evidence.Options) { o.Origin, o.Last = "example.test/other", nil }, want: errChain},
	{id: "own", name: "trust state missing, pinned", cut: func(m *Model) { delete(m.Blobs, m.The("g").Text("trust")) },
		o: pinned, want: errTrust},
	{id: "own", name: "trust state malformed, pinned", cut: func(m *Model) {
		g := m.The("g")
		delete(m.Blobs, g.Text("trust"))
		g.P()["trust"] = m.blob([]byte(`{"frozen":false}`))
	}, o: pinned, want: errTrust},
	{id: "own", name: "trust state malformed", cut: func(m *Model) {
		g := m.The("g")
		delete(m.Blobs, g.Text("trust"))
		g.P()["trust"] = m.blob([]byte(`{"frozen":false}`))
	}, want: errTrust},
	{id: "own", name: "the pinned key is no kernel key", cut: func(m *Model) {
		m.The("g").by = SeedX
	}, o: func(m *Model, o *evidence.Options) { o.Trust, o.Kernel, o.Last = nil, Public(m, SeedX), nil }, want: errKey},
	{id: "own", name: "an ALLOW while frozen", cut: initially(`"frozen":false`, `"frozen":true`), o: unpinned,
		want: errTrust},
	{id: "own", name: "a revoked delegation", cut: both(initially(`"revoked":[]`, `"revoked":["`+ones64+`"]`),
		setD("n1", "delegation", ones64)), o: unpinned, want: errTrust},
	{id: "own", name: "a delegation that was not presented", cut: setD("n1", "delegation", ones64), want: errReplay},
	{id: "own", name: "entry 0 is no genesis", cut: func(m *Model) { m.remove(m.The("g")) }, want: errChain},
	{id: "own", name: "no entry", cut: func(m *Model) { m.keep.lines = []byte{} }, want: errChain},

	// The order of the checks that come after the entries.
	{id: "own", name: "BLOB before REPLAY", cut: both(setD("b3", "rule", "P1:files:secrets"),
		func(m *Model) { m.blob([]byte("stray")) }), want: errBlob},
	{id: "own", name: "MANIFEST before BLOB", cut: both(func(m *Model) { m.blob([]byte("stray")) },
		claims(func(_ *Model, p Object) { p["size"] = 1 })), want: errManifest},
	{id: "own", name: "CHECKPOINT before MANIFEST", cut: both(claims(func(_ *Model, p Object) { p["size"] = 1 }),
		remark(func(_ *Model, text string) string { return text + "x\n" })), want: errCheckpoint},
	{id: "own", name: "MERKLE before CHECKPOINT", cut: marked(func(m *Model, text string) []byte {
		return []byte(strings.Replace(text, fmt.Sprintf("\n%d\n", len(m.Nodes)), "\n32\n", 1) + "\n" + stranger(m,
			text) + noteLineOf(m, text, Origin, SeedL))
	}), want: errMerkle},
	{id: "own", name: "the log before the checkpoint", cut: both(setP("a2", "tool", "fs.list"),
		remark(func(_ *Model, text string) string { return text + "x\n" })), want: errReference},
}

func pinned(m *Model, o *evidence.Options) { o.Trust, o.Kernel, o.Last = nil, Public(m, SeedK1), nil }

func unpinned(_ *Model, o *evidence.Options) { o.Trust, o.Last = nil, nil }

// initially changes the initial trust state.
func initially(from, to string) func(*Model) {
	return func(m *Model) {
		b := m.Blobs[m.The("g").Text("trust")]
		s, err := registry.ParseState([]byte(strings.Replace(string(b), from, to, 1)))
		require.NoError(m, err)
		require.NotEqual(m, crypto.Sum(b), s.Digest(), "the trust state has nothing to change")
		replaceTrust(m, s)
	}
}

// unused enters the first policy again, with a change. Nobody is judged under it.
func unused(change func(p Object)) func(*Model) {
	return func(m *Model) {
		n := &Node{st: clone(m.The("p").st).(Object), by: m.by}
		for _, x := range m.Nodes {
			if x.Text("session") == "" {
				n.prev = x
			}
		}
		n.P()["time"] = n.prev.Text("time")
		change(n.P())
		m.Nodes = append(m.Nodes, n)
	}
}

// otherPasts are what inputs of another engine may say of the past though the log says otherwise:
// they are compared with decision and entry alone.
var otherPasts = map[string]func(*Model){
	"what the log says": pastOf(func(*Model, Object) {}),
	"calls":             pastOf(func(_ *Model, s Object) { s["calls"].([]any)[1].(Object)["count"] = 5 }),
	"calls of a tool":   pastOf(func(_ *Model, s Object) { s["calls"].([]any)[0].(Object)["count"] = 3 }),
	"receipts": pastOf(func(_ *Model, s Object) {
		s["receipts"] = []any{Object{"tool": "fs.read"}, Object{"tool": "fs.stat"}}
	}),
	"a receipt that is none": pastOf(func(m *Model, s Object) {
		s["receipts"].([]any)[0].(Object)["entry"] = m.The("a1").hash
	}),
	"a receipt by values":               pastOf(valued("fs.read", "a2")),
	"a receipt by values of a decision": pastOf(valued("fs.read", "a1")),
	"a receipt by values, none": pastOf(func(_ *Model, s Object) {
		s["receipts"] = []any{Object{"same": Object{"/path": "/srv/z"}, "tool": "fs.read"}}
	}),
	"facts": pastOf(func(m *Model, s Object) {
		s["receipts"].([]any)[0].(Object)["facts"] = Object{"/n": []any{1}}
	}),
	"labels and taint": pastOf(func(_ *Model, s Object) { s["labels"], s["tainted"] = []any{}, true }),
	"sources": pastOf(func(_ *Model, s Object) {
		s["from"] = []any{Object{"count": 0, "found": []any{}, "source": "user", "state": zeros64}}
	}),
	"an approval for another session": func(m *Model) {
		q := m.request()
		q.Session = "s2"
		e := m.answer(q, SeedA, 0)
		approvedBy(m, m.The("e1"), e)
		m.inputs(m.The("eu"), func(in Object) { // which presents it again
			in["envelopes"].(Object)["approvals"], in["state"].(Object)["used"] = []any{e}, []any{HexOf(e)}
		})
	},
	"a used approval": said(func(*Model, []any) []any { return []any{} }),
}

// TestNotReplayable: what cannot be replayed is counted and named, and is no fault.
func TestNotReplayable(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newTampered(t)
	newer := contracts.Engine{Rules: 99, Threat: 7}
	others := evidence.Replay{Replayed: 3, KernelsOwn: 4, NotReplayable: 15, Engines: []contracts.Engine{newer}}
	const other = `{"bundle":{"name":"files","version":3},"helm":"policy/v2","layer":"P1"}`
	type row struct {
		cut  func(m *Model)
		want evidence.Replay
		gone int
	}
	rows := map[string]row{
		"erased": {erase, evidence.Replay{NotReplayable: 22}, 29},
		"erased, of a policy that does not compile": {both(repolicy(other, nil), erase),
			evidence.Replay{NotReplayable: 22}, 29},
		"another engine's, erased": {both(otherEngine, erase),
			evidence.Replay{NotReplayable: 22, Engines: []contracts.Engine{newer}}, 29},
		"another engine's, which does not compile":  {repolicy(other, newest), others, 1},
		"a policy that nobody was judged under":     {unused(newest), evidence.Replay{Replayed: 18, KernelsOwn: 4}, 1},
		"another engine's text that is strict JSON": {both(otherEngine, output("m1", "raw", `{"a": 1}`)), others, 1},
		"text that is strict JSON": {output("m1", "raw", `{"a": 1}`),
			evidence.Replay{Replayed: 18, KernelsOwn: 4}, 1},
		"a module that was kept": {func(m *Model) {
			module := m.blob([]byte("\x00asm"))
			sub(m.The("y2").P(), "sandbox")["module"] = module
			m.inputs(m.The("y1"), func(in Object) { sub(in, "sandbox")["module"] = module })
		}, evidence.Replay{Replayed: 18, KernelsOwn: 4}, 0},
	}
	for name, past := range otherPasts {
		rows["another engine's past: "+name] = row{both(otherEngine, past), others, 1}
	}
	for name, x := range rows {
		t.Run(name, func(t *testing.T) {
			m := TakeApart(t, w.pack)
			x.cut(m)
			o := w.o
			o.Last = nil
			r, err := verifyBytes(t, m.Build(), o)
			if err != nil || !r.Success(0) || len(r.Erased) != x.gone || r.Replay.Replayed != x.want.Replayed ||
				r.Replay.KernelsOwn != x.want.KernelsOwn ||
				r.Replay.NotReplayable != x.want.NotReplayable ||
				uint64(len(r.Replay.Entries)) != x.want.NotReplayable || !slices.IsSorted(r.Replay.Entries) {
				t.Errorf("%+v, %v, %d erased", r, err, len(r.Erased))
			}
			assert.Equal(t, x.want.Engines, r.Replay.Engines)
		})
	}
}

// TestDiffering counts every verdict that differs, not only the first.
func TestDiffering(t *testing.T) {
	t.Parallel()
	w := newTampered(t)
	m := TakeApart(t, w.pack)
	for _, name := range []string{"a1", "b3", "r"} {
		m.inputs(m.The(name), func(in Object) { in["state"].(Object)["trust"] = ones64 })
	}
	r, err := verifyBytes(t, m.Build(), evidence.Options{Trust: w.o.Trust})
	mustRefuse(t, r, err, errReplay)
	assert.True(t, r.Replay.Differing == 3 && r.Fault.Entry == int64(indexOf("a1")) &&
		r.Fault.Field == "inputs.state.trust", "%d differ; %v", r.Replay.Differing, r.Fault)
}

// TestCallersTrustState: what V02 and V03 give as a trust state does not become one.
func TestCallersTrustState(t *testing.T) {
	t.Parallel()
	b := string(State(t).Canonical())
	_, err := registry.ParseState([]byte(b))
	require.NoError(t, err)
	key := b[strings.Index(b, "[{")+1 : strings.Index(b, "},{")+1]
	public := key[strings.Index(key, `"public":"`)+10:]
	public = public[:strings.IndexByte(public, '"')]
	small := string(crypto.AppendBase64(nil, make([]byte, 32)))
	unreduced := string(crypto.AppendBase64(nil, append([]byte{0xee},
		append([]byte(strings.Repeat("\xff", 30)), 0x7f)...)))
	for name, s := range map[string]string{
		"no keys":          b[:strings.Index(b, "[{")] + "[]" + b[strings.Index(b, "}]")+2:],
		"order of keys":    strings.Replace(strings.Replace(b, key+",", "", 1), "}]", "},"+key+"]", 1),
		"another key's id": strings.Replace(b, public, string(crypto.AppendBase64(nil, Public(t, SeedX))), 1),
		"small order":      strings.Replace(b, public, small, 1),
		"not reduced":      strings.Replace(b, public, unreduced, 1),
		"one key twice": strings.Replace(b, key, key+","+strings.Replace(key, `"role":"kernel"`, `"role":"log"`, 1),
			1),
		"white space": b + "\n",
	} {
		_, err := registry.ParseState([]byte(s))
		assert.True(t, err != nil && s != b, "%s: a trust state", name)
	}
}
