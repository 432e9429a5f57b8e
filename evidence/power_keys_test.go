package evidence

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// entryOf has the last entry signed with another key.
func entryOf(seed byte) func(*model) {
	return func(m *model) { m.the("o").by = seed }
}

// signedAs has the manifest signed by a key.
func signedAs(seed byte) func(*model) { return func(m *model) { m.by = seed } }

// without takes a blob out of the archive, and lets all else stand that somebody signed.
func without(name func(m *model) string) func(*model) {
	return func(m *model) {
		gone := "blobs/" + name(m)
		m.members = func(ms []member) []member {
			return slices.DeleteFunc(ms, func(x member) bool { return x.name == gone })
		}
	}
}

// outsiders hold no key.
var outsiders = []power{
	{nobody, true, "make up a log, roots included, for auditors who have no trust root", "LOGGED, UNPINNED, NONE; kept: DIVERGED", func(w *theft) {
		falsified(attacker)(w)
		w.o.Trust = nil
	}},
	{nobody, false, "pass it off on auditors who have the trust root", "INVALID: KEY", falsified(attacker)},
	{nobody, false, "begin it with the real trust root and other keys", "INVALID: KEY", falsified(func(m *model) {
		for _, n := range m.nodes {
			n.by = seedX
		}
		m.by, m.logBy = seedX, seedX
	})},

	{aPack, true, "show an old pack as the latest", "LOGGED, NONE; kept: STALE", func(w *theft) { w.show(w.copied(20, seedK1)) }},
	{aPack, true, "show the latest pack again: it is FRESH however old it is", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		w.keep(20)
		w.show(w.copied(20, seedK1))
	}},
	{aPack, false, "take an entry out", "INVALID: CHAIN", falsified(lines(func(m *model, l [][]byte) [][]byte { return slices.Delete(l, indexOf("d1"), indexOf("d1")+1) }))},
	{aPack, false, "cut it back to an earlier checkpoint", "INVALID: MANIFEST", func(w *theft) {
		m := takeApart(w, w.pack)
		m.keep.manifest = untar(w, w.pack)[0].body
		m.build()
		m.keep.note = lastOf(m, 20, merkle(leavesOf(m, 20)), testOrigin)
		m.keep.lines = bytes.Join(bytes.SplitAfter(untar(w, w.pack)[2].body, []byte("\n"))[:20], nil)
		for name := range m.blobs {
			if !bytes.Contains(base64s(m, m.nodes[:20]), []byte(name)) {
				delete(m.blobs, name)
			}
		}
		w.made = m.build()
	}},
	{aPack, false, "leave out the inputs of a call", "INVALID: MANIFEST", falsified(without(func(m *model) string { return m.the("a1").d()["inputsHash"].(string) }))},
	{aPack, false, "pass one log off as another", "INVALID: CHAIN", func(w *theft) {
		w.o.Origin, w.o.Last = testOrigin+"2", nil
	}},
}

// base64s is what entries say.
func base64s(m *model, nodes []*node) (b []byte) {
	for _, n := range nodes {
		b = append(b, canonical(n.st)...)
	}
	return b
}

// keepers hold the store, from which the kernel makes packs in good faith.
var keepers = []power{
	{theStore, true, "put an older copy back", "LOGGED, NONE; kept: STALE", func(w *theft) { w.show(w.copied(20, seedK1)) }},
	{theStore, true, "put an older copy back, on which the kernel goes on", "LOGGED, NONE; kept: DIVERGED", func(w *theft) { w.show(w.goesOn(20, seedK1, 20)) }},
	{theStore, true, "lose what came after the last checkpoint that anyone has", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		w.keep(20)
		w.show(w.copied(24, seedK1))
	}},
	{theStore, true, "erase the inputs and outputs of calls", "LOGGED, 22 not replayable, NONE; kept: FRESH", falsified(erase)},
	{theStore, true, "put an older checkpoint back, if the log is verified in place; Report.Behind counts the entries after it", "LOGGED, NONE; kept: STALE", func(w *theft) {
		w.kept = w.copied(30, seedK1)
		note := w.copied(20, seedK1).checkpoint()
		w.kept.must(w.kept.store.Append(w.Context(), proofgraph.Batch{At: 30, Checkpoint: note}))
		if r, err := w.verify(Options{Trust: w.o.Trust}); err != nil || r.Size != 20 || r.Behind != 10 {
			w.Errorf("%d entries, %d behind them, %v", r.Size, r.Behind, err)
		}
	}},
	{theStore, true, "cut the log short, if it is verified in place, under a checkpoint of their own", "INTACT, NONE; kept: STALE", func(w *theft) {
		w.kept = w.copied(24, seedK1)
		w.kept.logBy = seedX
		w.mark(w.kept)
	}},
	{theStore, false, "erase a policy document", "INVALID: BLOB", falsified(func(m *model) { delete(m.blobs, document(m)) })},
	{theStore, false, "change an entry", "INVALID: SIGNATURE", falsified(func(m *model) {
		old := sigOf(parseObject(m, m.the("a2").line))["sig"]
		m.the("a2").p()["outputHash"] = ones64
		m.the("a2").sealed = func(e []byte) []byte {
			env := parseObject(m, e)
			sigOf(env)["sig"] = old
			return canonical(env)
		}
	})},
	{theStore, false, "add an entry of their own", "INVALID: KEY", falsified(entryOf(seedX))},
	{theStore, false, "remove entries that the checkpoint covers", "INVALID: MERKLE", falsified(func(m *model) {
		m.build()
		m.keep.note = lastOf(m, len(m.nodes), merkle(leavesOf(m, len(m.nodes))), testOrigin)
		m.remove(m.the("o"))
	})},
}

// mark signs a checkpoint over what a store has, by whoever is to sign it, whose kernel it is or not.
func (w *theft) mark(m *maker) {
	w.Helper()
	size, err := m.store.Size(w.Context())
	m.must(err)
	k := takeApart(w, w.pack)
	k.build()
	root := merkle(leavesOf(k, int(size)))
	text := fmt.Sprintf("%s\n%d\n%s\n", testOrigin, size, encoded(root[:]))
	m.must(m.store.Append(w.Context(), proofgraph.Batch{At: size, Checkpoint: signNote(w, text, testOrigin, m.logBy)}))
}

// fake makes a judgement that no policy gives, and leaves out what it was made from.
func (w *theft) fake(m *model) *node {
	n := m.nodes[len(m.nodes)-1]
	if n.d()["verdict"] != "ALLOW" {
		w.Fatal("no ALLOW")
	}
	n.by, n.d()["caller"] = seedK2, object{"id": "mallory"}
	return n
}

// permissive is a policy under which everybody may do the worst.
const permissive = `{"bundle":{"name":"files","version":9},"helm":"policy/v1","layer":"P1","rules":[{"allow":"fs.format","id":"all"}],` +
	`"tools":{"fs.format":{"effect":"destructive","input":{"type":"object"},"risk":"high"}}}`

var (
	aFormat = ask{session: "since", tool: "fs.format", args: `{}`, who: contracts.Caller{ID: "mallory"}}
	aList   = ask{session: "since", tool: "fs.list", args: `{}`, who: reader}
)

// another is a log from the start, of calls that nobody made, years ago.
func (w *theft) another(logBy byte) {
	w.Helper()
	m := newMakerOf(w, testState(w), 1)
	m.now -= 5 * 365 * 24 * 3600 * 1000
	m.logBy = logBy
	m.open(seedK1, [16]byte{})
	m.use(testPolicy(1))
	for i := range 25 {
		m.allowed(ask{session: "main", tool: "fs.read", args: fmt.Sprintf(`{"path":"/srv/%d"}`, i), who: reader}).ran(`{"text":"never read"}`)
	}
	w.show(m)
}

// kernels hold a kernel key.
var kernels = []power{
	{kernelAndLog, true, "write another history from its start, of calls, callers, outputs and times that never were", "LOGGED, NONE; kept: DIVERGED", func(w *theft) { w.another(seedL) }},
	{kernelAndLog, true, "rewrite everything after the kept checkpoint", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		w.keep(20)
		w.show(w.goesOn(20, seedK1, 20))
	}},
	{kernelAndLog, true, "drop the end, and sign a checkpoint without it", "LOGGED, NONE; kept: STALE", func(w *theft) { w.show(w.copied(29, seedK1)) }},
	{kernelAndLog, true, "show two auditors two logs; the checkpoint that one of them kept reveals it to the other", "LOGGED, NONE; kept: DIVERGED", func(w *theft) {
		var packs, marks [2][]byte
		for i := range packs {
			m := w.goesOn(20, seedK1, 1)
			m.denied(contracts.ReasonPolicyViolation, ask{session: fmt.Sprint("auditor-", i), tool: "fs.list", args: `{}`, who: writer})
			marks[i] = m.checkpoint()
			packs[i] = m.pack()
		}
		for i := range packs {
			r, err := verifyBytes(w, packs[i], Options{Trust: w.o.Trust, Origin: testOrigin, Last: marks[i]})
			if err != nil || !r.Success(Logged) || r.History != Fresh {
				w.Errorf("auditor %d by himself: %s, %v", i, r.History, err)
			}
			r, err = verifyBytes(w, packs[i], Options{Trust: w.o.Trust, Origin: testOrigin, Last: marks[1-i]})
			if err != nil || r.History != Diverged {
				w.Errorf("auditor %d with the other's: %s, %v", i, r.History, err)
			}
		}
		w.made, w.o.Last = packs[0], marks[1]
	}},
	{kernelAndLog, true, "put into force a policy that allows everything; its documents are in the pack", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m := w.copied(len(baseNames), seedK2)
		m.use(permissive)
		m.allowed(aFormat).ran(`1`)
		w.show(m)
	}},
	{kernelAndLog, true, "record a verdict that no policy returns, leaving out its inputs", "LOGGED, 1 not replayable, NONE; kept: FRESH", func(w *theft) {
		m := w.goesOn(len(baseNames), seedK2, 1)
		m.allowed(aList)
		w.show(m)
		k := takeApart(w, w.made)
		delete(k.blobs, w.fake(k).d()["inputsHash"].(string))
		w.made = k.build()
	}},
	{kernelAndLog, true, "say that another version of the engine judged, whose verdicts are not replayed", "LOGGED, 15 not replayable, NONE; kept: DIVERGED", falsified(otherEngine)},
	{kernelAndLog, true, "refuse any call as the kernel's own refusal, for example as malformed; Replay.KernelsOwn counts them", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m, a := w.copied(len(baseNames), seedK2), aList
		m.use(basePolicy(5), mailPolicy)
		a.refuse = contracts.ReasonIntentMalformed
		m.denied(a.refuse, a)
		w.show(m)
		if r := w.report(); r.Replay.KernelsOwn != 5 { // the base log has four
			w.Errorf("%d are the kernel's own", r.Replay.KernelsOwn)
		}
	}},
	{kernelAndLog, true, "withhold how a call ended; the report lists it in Open", "LOGGED, NONE; kept: FRESH", func(w *theft) {
		m := w.goesOn(len(baseNames), seedK2, 1)
		m.allowed(aList)
		w.show(m)
		if r := w.report(); len(r.Open) != 2 { // the base log has one
			w.Errorf("%v are open", r.Open)
		}
	}},
	{kernelAndLog, true, "date the revocation of the key later, and continue until then", "LOGGED, NONE; kept: DIVERGED", falsified(moved)},
	{kernelAndLog, true, "name roots of their own, if auditors have the kernel key and no trust root", "LOGGED, NONE; kept: DIVERGED", func(w *theft) {
		falsified(otherRoots)(w)
		w.o.Trust, w.o.Kernel = nil, testPublic(w, seedK1)
	}},
	{kernelAndLog, false, "name roots of their own, if auditors have the trust root", "INVALID: TRUST", falsified(otherRoots)},
	{kernelAndLog, false, "record a verdict that no policy returns, if its inputs are kept", "INVALID: REPLAY", func(w *theft) {
		m := w.goesOn(len(baseNames), seedK2, 1)
		m.allowed(aList)
		w.show(m)
		k := takeApart(w, w.made)
		n := w.fake(k)
		k.inputs(n, func(in object) { in["caller"] = n.d()["caller"] })
		w.made = k.build()
	}},
	{kernelAndLog, false, "approve in an approver's place", "INVALID: REPLAY", falsified(func(m *model) { approver(m, seedK1) })},
	{kernelAndLog, false, "add or revoke a key without the roots", "INVALID: TRUST", falsified(governed(adding(seedX, "kernel"), seedK2))},
	{kernelAndLog, false, "allow anything while the log is frozen", "INVALID: TRUST", falsified(func(m *model) { m.insert(m.index(m.the("sf")), m.copy(m.the("o"))) })},

	{kernelOnly, true, "do all that the holder of both can, but no log key signs for it", "INTACT, NONE; kept: DIVERGED", func(w *theft) { w.unsigned(func() { w.another(seedL) }) }},
	{kernelOnly, true, "drop the end, as far back as a checkpoint that was signed then", "LOGGED, NONE; kept: STALE", func(w *theft) { w.show(w.copied(20, seedK1)) }},
	{kernelOnly, true, "name a log key of their own, if auditors have the kernel key and no trust root", "LOGGED, NONE; kept: DIVERGED", func(w *theft) {
		falsified(otherLog)(w)
		w.o.Trust, w.o.Kernel = nil, testPublic(w, seedK1)
	}},
	{kernelOnly, false, "name a log key of their own, if auditors have the trust root", "INVALID: TRUST", falsified(otherLog)},
	{kernelOnly, false, "put other entries under a signed checkpoint", "INVALID: MERKLE", falsified(func(m *model) {
		m.build()
		m.keep.note = lastOf(m, len(m.nodes), merkle(leavesOf(m, len(m.nodes))), testOrigin)
		m.the("a2").p()["outputHash"] = ones64
	})},
	{kernelOnly, false, "sign the checkpoint with the kernel key", "INTACT, NONE; kept: FRESH", falsified(func(m *model) { m.logBy = seedK2 })},
	{kernelOnly, false, "sign it under the name of the log key", "INVALID: CHECKPOINT", falsified(marked(func(m *model, text string) []byte {
		return []byte(text + "\n" + noteLine(m, signWith(m, seedK2, []byte(text)), seedL))
	}))},
	{kernelOnly, false, "add a log key without the roots", "INVALID: TRUST", falsified(governed(adding(seedL2, "log"), seedK2))},
}

// otherRoots are named by a genesis that the kernel key signs.
func otherRoots(m *model) {
	keys := append(stateKeys(m, 0), registry.Key{Name: "root", Public: testPublic(m, seedX), Role: registry.Root})
	replaceTrust(m, stateOf(m, 2, seedK1, seedL, keys...))
}

func otherLog(m *model) {
	replaceTrust(m, stateOf(m, 2, seedK1, seedL2, stateKeys(m, 0)...))
	m.logBy = seedL2
}

// unsigned takes the log key's line out of the checkpoint of what is made.
func (w *theft) unsigned(do func()) {
	do()
	m := takeApart(w, w.made)
	m.by = seedK1
	marked(func(m *model, text string) []byte { return []byte(text + "\n" + stranger(m, text)) })(m)
	w.made = m.build()
}

// logs hold the log key.
var logs = []power{
	{logOnly, true, "sign a checkpoint of a tree that never was: a false alarm for its keeper", "LOGGED, NONE; kept: DIVERGED", func(w *theft) {
		w.o.Last = lastOf(takeApart(w, w.pack), 20, [32]byte{1}, testOrigin)
	}},
	{logOnly, true, "stop signing", "INTACT, NONE; kept: FRESH", falsified(marked(func(m *model, text string) []byte { return []byte(text + "\n" + stranger(m, text)) }))},
	{logOnly, true, "with the store too: cut the log short, if it is verified in place", "LOGGED, NONE; kept: STALE", func(w *theft) {
		w.kept = w.copied(24, seedK1)
		w.mark(w.kept)
	}},
	{logOnly, false, "put a checkpoint of another tree over the log", "INVALID: MERKLE", falsified(func(m *model) { m.root = func() [32]byte { return [32]byte{1} } })},
	{logOnly, false, "cut the log short with a new checkpoint", "INVALID: MANIFEST", func(w *theft) {
		m := takeApart(w, w.pack)
		m.keep.manifest = untar(w, w.pack)[0].body
		m.remove(m.the("o"))
		w.made = m.build()
	}},
	{logOnly, false, "sign an entry", "INVALID: KEY", falsified(entryOf(seedL))},
	{logOnly, false, "sign the manifest of a pack", "INVALID: MANIFEST", falsified(signedAs(seedL))},
}
