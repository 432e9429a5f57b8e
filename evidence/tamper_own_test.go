package evidence

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// output gives a receipt another output, which is kept.
func output(name, form, text string) func(*model) {
	return func(m *model) {
		p := m.the(name).p()
		delete(m.blobs, p["outputHash"].(string))
		p["outputForm"], p["outputHash"] = form, m.blob([]byte(text))
	}
}

// becomes makes another kind of an entry of the kernel's chain.
func becomes(kind, subject string, digest func(p object) any, fields object) func(*model) {
	return func(m *model) {
		n := m.the("p2")
		p := n.p()
		for _, k := range []string{"documents", "engine", "policy"} {
			delete(p, k)
		}
		for k, v := range fields {
			p[k] = v
		}
		n.st["predicateType"] = "https://github.com/helmkernel/helm/" + kind + "/v1"
		n.linked = func(st object) { setSubject(st, subject, digest(p)) }
	}
}

// repolicy gives the first policy another document, and all its verdicts the hash.
func repolicy(document string, change func(p object)) func(*model) {
	return func(m *model) {
		n := m.the("p")
		p := n.p()
		was := p["policy"]
		if document != "" {
			d := p["documents"].([]any)[0].(object)
			delete(m.blobs, d["digest"].(string))
			d["digest"] = m.blob(canonical(parseObject(m, []byte(document))))
		}
		if change != nil {
			change(p)
		}
		now := hexOf(object{"documents": p["documents"], "engine": p["engine"]})
		for _, x := range m.nodes {
			if d := x.d(); d != nil && d["policyHash"] == was {
				d["policyHash"] = now
			}
		}
	}
}

// erase takes the inputs of all judgements out, and the outputs.
func erase(m *model) {
	for _, n := range m.nodes {
		if d := n.d(); d != nil {
			delete(m.blobs, d["inputsHash"].(string))
		}
		if h, ok := n.p()["outputHash"].(string); ok {
			delete(m.blobs, h)
		}
	}
}

func both(list ...func(*model)) func(*model) {
	return func(m *model) {
		for _, f := range list {
			f(m)
		}
	}
}

// state changes what inputs say was read of the session's past.
func state(change func(s object)) func(*model) {
	return func(m *model) { m.inputs(m.the("n1"), func(in object) { change(in["state"].(object)) }) }
}

// otherEngine has the policies of the log be those of another version of the engine, whose verdicts are not made again.
func otherEngine(m *model) {
	repolicy("", func(p object) { p["engine"] = object{"rules": 99, "threat": 7} })(m)
}

// pastOf gives the inputs of n1 what the log says of the past of main, but for a change.
func pastOf(change func(m *model, s object)) func(*model) {
	return func(m *model) {
		m.build() // for the hashes as they are now
		a2 := m.the("a2")
		m.inputs(m.the("n1"), func(in object) {
			s := in["state"].(object)
			s["calls"] = []any{object{"count": 4, "of": "fs.read"}, object{"count": 4}}
			s["receipts"] = []any{object{"entry": a2.hash, "time": a2.text("time"), "tool": "fs.read"}, object{"tool": "fs.stat"}}
			change(m, s)
		})
	}
}

// valued has one receipt be asked for by values, and named.
func valued(tool, entry string) func(m *model, s object) {
	return func(m *model, s object) {
		n := m.the(entry)
		s["receipts"] = []any{object{"entry": n.hash, "same": object{"/path": "/srv/a"}, "time": n.text("time"), "tool": tool}}
	}
}

// ownRows are not in the catalogue: what this version refuses by name, and what REPLAY compares beside the verdict.
var ownRows = []tampering{
	{id: "own", name: "gap", cut: func(m *model) {
		m.the("d1").sealed = func([]byte) []byte { return []byte(`{"gap":{"from":4,"nodes":["` + ones64 + `"],"to":5}}`) }
	}, want: ErrGap},
	{id: "own", name: "condense", cut: becomes("condense", "condense", func(p object) any { return p["root"] },
		object{"carry": ones64, "from": 1, "kept": "high", "root": ones64, "to": 2}), want: ErrRecord},
	{id: "own", name: "message", cut: both(becomes("message", "message", func(object) any { return ones64 }, object{"textHash": ones64}),
		func(m *model) { m.the("p2").p()["session"] = "main"; m.relink() }), want: ErrRecord},
	{id: "own", name: "charge", cut: setD("a1", "charges", charge(0, 1, 3)), want: ErrBudget},
	{id: "own", name: "settlement", cut: setP("a2", "settled", []any{object{"amount": 1, "budget": "P1:files:reads"}}), want: ErrBudget},
	{id: "own", name: "facts", cut: func(m *model) { m.the("a2").p()["factsHash"] = m.blob([]byte(`{"n":[1]}`)) }, want: ErrReplay},
	{id: "own", name: "facts that are none", cut: func(m *model) { m.the("a2").p()["factsHash"] = m.blob([]byte(`[1]`)) }, want: ErrBlob},
	{id: "own", name: "balances", cut: state(func(s object) {
		s["budgets"] = []any{object{"budget": "P1:files:reads", "spent": 0, "window": "total"}}
	}), want: ErrReplay},
	{id: "own", name: "tainted", cut: state(func(s object) { s["tainted"] = false }), want: ErrReplay},
	{id: "own", name: "labels", cut: state(func(s object) { s["labels"] = []any{} }), want: ErrReplay},
	{id: "own", name: "used", cut: state(func(s object) { s["used"] = []any{} }), want: ErrReplay},
	{id: "own", name: "calls that nobody asked for", cut: state(func(s object) { s["calls"] = []any{object{"count": 4}} }), want: ErrReplay},
	{id: "own", name: "a receipt that nobody asked for", cut: state(func(s object) { s["receipts"] = []any{object{"tool": "fs.write"}} }), want: ErrReplay},
	{id: "own", name: "sources", cut: state(func(s object) {
		s["from"] = []any{object{"count": 0, "found": []any{}, "source": "user", "state": zeros64}}
	}), want: ErrReplay},
	{id: "own", name: "facts of a receipt", cut: both(otherEngine, pastOf(func(m *model, s object) { s["receipts"].([]any)[0].(object)["facts"] = object{"n": []any{1}} })), want: ErrReplay},
	{id: "own", name: "another engine's calls", cut: both(otherEngine, pastOf(func(_ *model, s object) { s["calls"].([]any)[1].(object)["count"] = 5 })), want: ErrReplay},
	{id: "own", name: "another engine's calls of a tool", cut: both(otherEngine, pastOf(func(_ *model, s object) { s["calls"].([]any)[0].(object)["count"] = 3 })), want: ErrReplay},
	{id: "own", name: "another engine's receipt, passed over", cut: both(otherEngine, pastOf(func(_ *model, s object) {
		s["receipts"] = []any{object{"tool": "fs.read"}, object{"tool": "fs.stat"}}
	})), want: ErrReplay},
	{id: "own", name: "another engine's receipt, of another time", cut: both(otherEngine, pastOf(func(m *model, s object) {
		s["receipts"].([]any)[0].(object)["time"] = m.the("a1").text("time")
	})), want: ErrReplay},
	{id: "own", name: "another engine's receipt, which is none", cut: both(otherEngine, pastOf(func(m *model, s object) {
		s["receipts"].([]any)[0].(object)["entry"] = m.the("a1").hash
	})), want: ErrReplay},
	{id: "own", name: "another engine's receipt, of another session", cut: both(otherEngine, pastOf(func(m *model, s object) {
		s["receipts"].([]any)[0].(object)["entry"], s["receipts"].([]any)[0].(object)["time"] = m.the("b2").hash, m.the("b2").text("time")
	})), want: ErrReplay},
	{id: "own", name: "another engine's receipt with values, of another tool", cut: both(otherEngine, pastOf(valued("fs.list", "a2"))), want: ErrReplay},
	{id: "own", name: "another engine's receipt with values, which failed", cut: both(otherEngine, pastOf(valued("fs.read", "f2"))), want: ErrReplay},
	{id: "own", name: "another engine's receipt with values, which is a decision", cut: both(otherEngine, pastOf(valued("fs.read", "a1"))), want: ErrReplay},
	{id: "own", name: "another engine's receipt with values, of another session", cut: both(otherEngine, pastOf(valued("fs.read", "b2"))), want: ErrReplay},
	{id: "own", name: "another engine's receipt with values, of no entry", cut: both(otherEngine, pastOf(func(m *model, s object) {
		valued("fs.read", "a2")(m, s)
		s["receipts"].([]any)[0].(object)["entry"] = ones64
	})), want: ErrReplay},
	{id: "own", name: "another engine's charge without its balance", cut: both(otherEngine, func(m *model) {
		m.the("o").d()["charges"] = charge(0, 1, 3)
	}), want: ErrReplay},
	{id: "own", name: "another engine's refusal of its own, which asked", cut: both(otherEngine, func(m *model) {
		m.inputs(m.the("k"), func(in object) { in["state"].(object)["calls"] = []any{object{"count": 6}} })
	}), want: ErrReplay},
	{id: "own", name: "a refusal of the kernel's own, which asked", cut: func(m *model) {
		m.inputs(m.the("k"), func(in object) { in["state"].(object)["calls"] = []any{object{"count": 6}} })
	}, want: ErrReplay},
	{id: "own", name: "another engine's approval, which is none", cut: both(otherEngine, func(m *model) {
		e1 := m.the("e1")
		e := parseObject(m, m.blobs[e1.d()["inputsHash"].(string)])["envelopes"].(object)["attestations"].([]any)[0].(object)
		approvedBy(m, e1, e)
	}), want: ErrReplay},
	{id: "own", name: "another engine's approval, which is used and counts", cut: both(otherEngine, func(m *model) {
		e1 := m.the("e1")
		m.inputs(e1, func(in object) { in["state"].(object)["used"] = e1.d()["approvals"] })
	}), want: ErrReplay},
	{id: "own", name: "a floor", cut: repolicy(`{"helm":"policy/v1","layer":"P0","name":"files","version":3}`, func(p object) {
		p["documents"].([]any)[0].(object)["layer"] = "P0"
	}), want: ErrReplay},
	{id: "own", name: "budgets", cut: repolicy(strings.Replace(testPolicy(3), `"rules":[`, `"budgets":[{"cost":1,"id":"b","limit":1,"per":"all","tools":["fs.read"],"window":"day"}],"rules":[`, 1), nil), want: ErrReplay},
	{id: "own", name: "another document than named", cut: repolicy("", func(p object) {
		d := p["documents"].([]any)[0].(object)
		d["version"] = 9
	}), want: ErrReplay},

	{id: "own", name: "executed, not as pinned", cut: output("a2", "jcs", `{"txt":1}`), want: ErrReplay},
	{id: "own", name: "drift, as pinned", cut: output("w2", "jcs", `{"text":"c"}`), want: ErrReplay},
	{id: "own", name: "raw, though pinned", cut: output("a2", "raw", `not JSON`), want: ErrReplay},
	{id: "own", name: "raw, though strict JSON", cut: output("m1", "raw", `{"a": 1}`), want: ErrReplay},
	{id: "own", name: "not canonical", cut: output("m1", "jcs", `{"a": 1}`), want: ErrBlob},
	{id: "own", name: "not JSON", cut: output("m1", "jcs", `not JSON`), want: ErrBlob},
	{id: "own", name: "drift of nothing", cut: func(m *model) {
		p := m.the("m1").p()
		p["outcome"], p["reason"], p["verdict"] = "WITHHELD", "ERR_CONNECTOR_CONTRACT_DRIFT", "DENY"
	}, want: ErrReplay},
	{id: "own", name: "drift of nothing, erased", cut: func(m *model) {
		p := m.the("m1").p()
		p["outcome"], p["reason"], p["verdict"] = "WITHHELD", "ERR_CONNECTOR_CONTRACT_DRIFT", "DENY"
		delete(m.blobs, p["outputHash"].(string))
	}, want: ErrReplay},
	{id: "own", name: "another sandbox", cut: func(m *model) { sub(m.the("y2").p(), "sandbox")["module"] = ones64 }, want: ErrReplay},
	{id: "own", name: "a sandbox of no driver", cut: func(m *model) {
		m.the("f2").p()["sandbox"] = object{"gas": 1, "module": ones64, "profile": "none"}
	}, want: ErrReplay},
	{id: "own", name: "a rule of its own", cut: setD("b3", "rule", "P1:files:secrets"), want: ErrReplay},
	{id: "own", name: "another effect, erased", cut: both(func(m *model) { m.the("e1").d()["effectType"], m.the("e2").p()["effectType"] = "read", "read" }, erase), want: ErrReplay},
	{id: "own", name: "another risk, erased", cut: both(setD("b3", "risk", "high"), erase), want: ErrReplay},
	{id: "own", name: "no effect of a refusal, erased", cut: both(func(m *model) {
		d := m.the("q").d()
		if d["effectType"] == nil {
			m.Fatal("it has none")
		}
		delete(d, "effectType")
		delete(d, "risk")
	}, erase), want: ErrReplay},
	{id: "own", name: "a longer time limit, erased", cut: both(func(m *model) {
		d := m.the("a1").d()
		at, err := contracts.ParseTime(d["expires"].(string))
		m.must(err)
		d["expires"] = (at + 3_600_000).String()
	}, erase), want: ErrReplay},
	{id: "own", name: "an effect of a refusal", cut: func(m *model) {
		d := m.the("r").d()
		d["effectType"], d["risk"] = "write", "high"
	}, want: ErrReplay},

	{id: "own", name: "another origin", o: func(_ *model, o *Options) { o.Origin, o.Last = "example.test/other", nil }, want: ErrChain},
	{id: "own", name: "trust state missing, pinned", cut: func(m *model) { delete(m.blobs, m.the("g").text("trust")) }, o: pinned, want: ErrTrust},
	{id: "own", name: "trust state malformed, pinned", cut: func(m *model) {
		g := m.the("g")
		delete(m.blobs, g.text("trust"))
		g.p()["trust"] = m.blob([]byte(`{"frozen":false}`))
	}, o: pinned, want: ErrTrust},
	{id: "own", name: "trust state malformed", cut: func(m *model) {
		g := m.the("g")
		delete(m.blobs, g.text("trust"))
		g.p()["trust"] = m.blob([]byte(`{"frozen":false}`))
	}, want: ErrTrust},
	{id: "own", name: "the pinned key is no kernel key", cut: func(m *model) {
		m.the("g").by = seedX
	}, o: func(m *model, o *Options) { o.Trust, o.Kernel, o.Last = nil, testPublic(m, seedX), nil }, want: ErrKey},
	{id: "own", name: "an ALLOW while frozen", cut: initially(`"frozen":false`, `"frozen":true`), o: unpinned, want: ErrTrust},
	{id: "own", name: "a revoked delegation", cut: both(initially(`"revoked":[]`, `"revoked":["`+ones64+`"]`), setD("n1", "delegation", ones64)), o: unpinned, want: ErrTrust},
	{id: "own", name: "a delegation that was not presented", cut: setD("n1", "delegation", ones64), want: ErrReplay},
	{id: "own", name: "entry 0 is no genesis", cut: func(m *model) { m.remove(m.the("g")) }, want: ErrChain},
	{id: "own", name: "no entry", cut: func(m *model) { m.keep.lines = []byte{} }, want: ErrChain},

	// The order of the checks that come after the entries.
	{id: "own", name: "BLOB before REPLAY", cut: both(setD("b3", "rule", "P1:files:secrets"), func(m *model) { m.blob([]byte("stray")) }), want: ErrBlob},
	{id: "own", name: "MANIFEST before BLOB", cut: both(func(m *model) { m.blob([]byte("stray")) }, claims(func(_ *model, p object) { p["size"] = 1 })), want: ErrManifest},
	{id: "own", name: "CHECKPOINT before MANIFEST", cut: both(claims(func(_ *model, p object) { p["size"] = 1 }), remark(func(_ *model, text string) string { return text + "x\n" })), want: ErrCheckpoint},
	{id: "own", name: "MERKLE before CHECKPOINT", cut: marked(func(m *model, text string) []byte {
		return []byte(strings.Replace(text, fmt.Sprintf("\n%d\n", len(m.nodes)), "\n32\n", 1) + "\n" + stranger(m, text) + noteLineOf(m, text, testOrigin, seedL))
	}), want: ErrMerkle},
	{id: "own", name: "the log before the checkpoint", cut: both(setP("a2", "tool", "fs.list"), remark(func(_ *model, text string) string { return text + "x\n" })), want: ErrReference},
}

func pinned(m *model, o *Options) { o.Trust, o.Kernel, o.Last = nil, testPublic(m, seedK1), nil }

func unpinned(_ *model, o *Options) { o.Trust, o.Last = nil, nil }

// initially changes the initial trust state.
func initially(from, to string) func(*model) {
	return func(m *model) {
		b := m.blobs[m.the("g").text("trust")]
		s, err := registry.ParseState([]byte(strings.Replace(string(b), from, to, 1)))
		m.must(err)
		if s.Digest() == crypto.Sum(b) {
			m.Fatal("the trust state has nothing to change")
		}
		replaceTrust(m, s)
	}
}

// TestNotReplayable: what cannot be replayed is counted and named, and is no fault.
func TestNotReplayable(t *testing.T) {
	w := newTampered(t)
	newer := contracts.Engine{Rules: 99, Threat: 7}
	for name, x := range map[string]struct {
		cut  func(m *model)
		want Replay
		gone int
	}{
		"erased":             {erase, Replay{NotReplayable: 22}, 28},
		"erased, of a floor": {both(repolicy(`{"helm":"policy/v1","layer":"P0","name":"files","version":3}`, nil), erase), Replay{NotReplayable: 22}, 28},
		"another engine's": {repolicy("", func(p object) { p["engine"] = object{"rules": newer.Rules, "threat": newer.Threat} }),
			Replay{Replayed: 3, KernelsOwn: 4, NotReplayable: 15, Engines: []contracts.Engine{newer}}, 0},
		"another engine's, which asked": {both(otherEngine, pastOf(func(*model, object) {})),
			Replay{Replayed: 3, KernelsOwn: 4, NotReplayable: 15, Engines: []contracts.Engine{newer}}, 0},
		"another engine's, which asked by values": {both(otherEngine, pastOf(valued("fs.read", "a2"))),
			Replay{Replayed: 3, KernelsOwn: 4, NotReplayable: 15, Engines: []contracts.Engine{newer}}, 0},
		"another engine's, which asked for what there is not": {both(otherEngine, pastOf(func(_ *model, s object) {
			s["receipts"] = []any{object{"same": object{"/path": "/srv/z"}, "tool": "fs.read"}}
		})), Replay{Replayed: 3, KernelsOwn: 4, NotReplayable: 15, Engines: []contracts.Engine{newer}}, 0},
		"another engine's, which does not compile": {repolicy(`{"helm":"policy/v2"}`, func(p object) { p["engine"] = object{"rules": newer.Rules, "threat": newer.Threat} }),
			Replay{Replayed: 3, KernelsOwn: 4, NotReplayable: 15, Engines: []contracts.Engine{newer}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := takeApart(t, w.pack)
			x.cut(m)
			o := w.o
			o.Last = nil
			r, err := verifyBytes(t, m.build(), o)
			if err != nil || !r.Success(0) || len(r.Erased) != x.gone || r.Replay.Replayed != x.want.Replayed || r.Replay.KernelsOwn != x.want.KernelsOwn ||
				r.Replay.NotReplayable != x.want.NotReplayable || uint64(len(r.Replay.Entries)) != x.want.NotReplayable || !slices.IsSorted(r.Replay.Entries) || len(r.Replay.Engines) != len(x.want.Engines) {
				t.Errorf("%+v, %v, %d erased", r, err, len(r.Erased))
			}
			for i, e := range x.want.Engines {
				if r.Replay.Engines[i] != e {
					t.Errorf("engines %v", r.Replay.Engines)
				}
			}
		})
	}
}

// TestDiffering counts every verdict that differs, not only the first.
func TestDiffering(t *testing.T) {
	w := newTampered(t)
	m := takeApart(t, w.pack)
	for _, name := range []string{"a1", "b3", "r"} {
		m.inputs(m.the(name), func(in object) { in["state"].(object)["trust"] = ones64 })
	}
	r, err := verifyBytes(t, m.build(), Options{Trust: w.o.Trust})
	mustRefuse(t, r, err, ErrReplay)
	if r.Replay.Differing != 3 || r.Fault.Entry != int64(indexOf("a1")) || r.Fault.Field != "inputs.state.trust" {
		t.Errorf("%d differ; %v", r.Replay.Differing, r.Fault)
	}
}

// TestCallersTrustState: what V02 and V03 give as a trust state does not become one.
func TestCallersTrustState(t *testing.T) {
	b := string(testState(t).Canonical())
	if _, err := registry.ParseState([]byte(b)); err != nil {
		t.Fatal(err)
	}
	key := b[strings.Index(b, "[{")+1 : strings.Index(b, "},{")+1]
	public := key[strings.Index(key, `"public":"`)+10:]
	public = public[:strings.IndexByte(public, '"')]
	small := string(crypto.AppendBase64(nil, make([]byte, 32)))
	unreduced := string(crypto.AppendBase64(nil, append([]byte{0xee}, append([]byte(strings.Repeat("\xff", 30)), 0x7f)...)))
	for name, s := range map[string]string{
		"no keys":          b[:strings.Index(b, "[{")] + "[]" + b[strings.Index(b, "}]")+2:],
		"order of keys":    strings.Replace(strings.Replace(b, key+",", "", 1), "}]", "},"+key+"]", 1),
		"another key's id": strings.Replace(b, public, string(crypto.AppendBase64(nil, testPublic(t, seedX))), 1),
		"small order":      strings.Replace(b, public, small, 1),
		"not reduced":      strings.Replace(b, public, unreduced, 1),
		"one key twice":    strings.Replace(b, key, key+","+strings.Replace(key, `"role":"kernel"`, `"role":"log"`, 1), 1),
		"white space":      b + "\n",
	} {
		if _, err := registry.ParseState([]byte(s)); err == nil || s == b {
			t.Errorf("%s: a trust state", name)
		}
	}
}
