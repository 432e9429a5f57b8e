package forge

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// entryOf has the last entry signed with another key.
func entryOf(seed byte) func(*Model) {
	return func(m *Model) { m.The("o").by = seed }
}

// signedAs has the manifest signed by a key.
func signedAs(seed byte) func(*Model) { return func(m *Model) { m.by = seed } }

// without takes a blob out of the archive, and leaves all that was signed as it is.
func without(name func(m *Model) string) func(*Model) {
	return func(m *Model) {
		gone := "blobs/" + name(m)
		m.members = func(ms []Member) []Member {
			return slices.DeleteFunc(ms, func(x Member) bool { return x.Name == gone })
		}
	}
}

// outsiders hold no key.
var outsiders = []claim{
	{nobody, true, "make up a log, roots included, for auditors who have no trust root",
		"LOGGED, UNPINNED, NONE; kept: DIVERGED", func(w *adversary) {
			falsified(attacker)(w)
			w.o.Trust = nil
		}},
	{nobody, false, "pass it off on auditors who have the trust root", "INVALID: KEY", falsified(attacker)},
	{nobody, false, "begin it with the real trust root and other keys", "INVALID: KEY", falsified(func(m *Model) {
		for _, n := range m.Nodes {
			n.by = SeedX
		}
		m.by, m.logBy = SeedX, SeedX
	})},

	{aPack, true, "show an old pack as the latest", "LOGGED, NONE; kept: STALE",
		func(w *adversary) { w.show(w.copied(20, SeedK1)) }},
	{aPack, true, "show the latest pack again: it is FRESH however old it is", "LOGGED, NONE; kept: FRESH",
		func(w *adversary) {
			w.keep(20)
			w.show(w.copied(20, SeedK1))
		}},
	{aPack, false, "take an entry out", "INVALID: CHAIN",
		falsified(lines(func(m *Model, l [][]byte) [][]byte {
			return slices.Delete(l, indexOf("d1"), indexOf("d1")+1)
		}))},
	{aPack, false, "cut it back to an earlier checkpoint", "INVALID: MANIFEST", func(w *adversary) {
		m := TakeApart(w, w.pack)
		m.keep.manifest = Untar(w, w.pack)[0].Body
		m.Build()
		m.keep.note = LastOf(m, 20, rootOf(m, 20), Origin)
		m.keep.lines = bytes.Join(bytes.SplitAfter(Untar(w, w.pack)[2].Body, []byte("\n"))[:20], nil)
		for name := range m.Blobs {
			if !bytes.Contains(base64s(m, m.Nodes[:20]), []byte(name)) {
				delete(m.Blobs, name)
			}
		}
		w.made = m.Build()
	}},
	{aPack, false, "leave out the inputs of a call", "INVALID: MANIFEST",
		falsified(without(func(m *Model) string { return m.The("a1").D()["inputsHash"].(string) }))},
	{aPack, false, "pass one log off as another", "INVALID: CHAIN", func(w *adversary) {
		w.o.Origin, w.o.Last = Origin+"2", nil
	}},
}

// base64s is what entries say.
func base64s(m *Model, nodes []*Node) (b []byte) {
	for _, n := range nodes {
		b = append(b, canonical(n.st)...)
	}
	return b
}

// keepers hold the store, from which the kernel makes packs in good faith.
var keepers = []claim{
	{theStore, true, "put an older copy back", "LOGGED, NONE; kept: STALE",
		func(w *adversary) { w.show(w.copied(20, SeedK1)) }},
	{theStore, true, "put an older copy back, on which the kernel goes on", "LOGGED, NONE; kept: DIVERGED",
		func(w *adversary) { w.show(w.goesOn(20, SeedK1, 20)) }},
	{theStore, true, "lose what came after the last checkpoint that anyone has", "LOGGED, NONE; kept: FRESH",
		func(w *adversary) {
			w.keep(20)
			w.show(w.copied(24, SeedK1))
		}},
	{theStore, true, "erase the inputs and outputs of calls", "LOGGED, 22 not replayable, NONE; kept: FRESH",
		falsified(erase)},
	{theStore, true,
		"put an older checkpoint back, if the log is verified in place; the report counts the entries after it",
		"LOGGED, NONE; kept: STALE", func(w *adversary) {
			w.kept = w.copied(30, SeedK1)
			note := w.copied(20, SeedK1).Checkpoint()
			require.NoError(w.kept, w.kept.Store.Append(w.Context(), proofgraph.Batch{At: 30, Checkpoint: note}))
			r, err := w.verify(evidence.Options{Trust: w.o.Trust})
			assert.True(w, err == nil && r.Size == 20 && r.Behind == 10, "%d entries, %d behind them, %v", r.Size,
				r.Behind, err)
		}},
	{theStore, true, "cut the log short, if it is verified in place, under a checkpoint of their own",
		"INTACT, NONE; kept: STALE", func(w *adversary) {
			w.kept = w.copied(24, SeedK1)
			w.kept.logBy = SeedX
			w.mark(w.kept)
		}},
	{theStore, false, "erase a policy document", "INVALID: BLOB",
		falsified(func(m *Model) { delete(m.Blobs, Document(m)) })},
	{theStore, false, "change an entry", "INVALID: SIGNATURE", falsified(func(m *Model) {
		old := sigOf(parseObject(m, m.The("a2").Line))["sig"]
		m.The("a2").P()["outputHash"] = ones64
		m.The("a2").sealed = func(e []byte) []byte {
			env := parseObject(m, e)
			sigOf(env)["sig"] = old
			return canonical(env)
		}
	})},
	{theStore, false, "add an entry of their own", "INVALID: KEY", falsified(entryOf(SeedX))},
	{theStore, false, "remove entries that the checkpoint covers", "INVALID: MERKLE", falsified(func(m *Model) {
		m.Build()
		m.keep.note = LastOf(m, len(m.Nodes), rootOf(m, len(m.Nodes)), Origin)
		m.remove(m.The("o"))
	})},
}

// mark signs a checkpoint over what a store has, by the key of m.logBy, whose kernel it is or
// not.
func (w *adversary) mark(m *Maker) {
	w.Helper()
	size, err := m.Store.Size(w.Context())
	require.NoError(m, err)
	k := TakeApart(w, w.pack)
	k.Build()
	root := rootOf(k, int(size))
	text := fmt.Sprintf("%s\n%d\n%s\n", Origin, size, encoded(root[:]))
	require.NoError(m,
		m.Store.Append(w.Context(), proofgraph.Batch{At: size, Checkpoint: signNote(w, text, Origin, m.logBy)}))
}

// fake makes a judgement that no policy makes, and leaves out what it was made from.
func (w *adversary) fake(m *Model) *Node {
	n := m.Nodes[len(m.Nodes)-1]
	if n.D()["verdict"] != "ALLOW" {
		w.Fatal("no ALLOW")
	}
	n.by, n.D()["caller"] = seedK2, Object{"id": "mallory"}
	return n
}

// permissive is a policy under which everybody may do the worst.
const permissive = `{"bundle":{"name":"files","version":9},"helm":"policy/v1","layer":"P1","rules":[` +
	`{"allow":"fs.format","id":"all"}],` +
	`"tools":{"fs.format":{"effect":"destructive","input":{"type":"object"},"risk":"high"}}}`

var (
	aFormat = Ask{Session: "since", Tool: "fs.format", Args: `{}`, Who: contracts.Caller{ID: "mallory"}}
	aList   = Ask{Session: "since", Tool: "fs.list", Args: `{}`, Who: Reader}
)

// another is a log from the start, of calls that were never made, years ago.
func (w *adversary) another(logBy byte) {
	w.Helper()
	m := newMakerOf(w, Origin, State(w), 1)
	m.Now -= 5 * 365 * 24 * 3600 * 1000
	m.logBy = logBy
	m.open(SeedK1, [16]byte{})
	m.Use(FilesPolicy(1))
	for i := range 25 {
		m.Allowed(Ask{Session: "main", Tool: "fs.read", Args: fmt.Sprintf(`{"path":"/srv/%d"}`, i),
			Who: Reader}).Ran(`{"text":"never read"}`)
	}
	w.show(m)
}

// kernels hold a kernel key.
var kernels = []claim{
	{kernelAndLog, true, "write another history from its start, of calls, callers, outputs and times that never were",
		"LOGGED, NONE; kept: DIVERGED", func(w *adversary) { w.another(SeedL) }},
	{kernelAndLog, true, "rewrite everything after the kept checkpoint", "LOGGED, NONE; kept: FRESH",
		func(w *adversary) {
			w.keep(20)
			w.show(w.goesOn(20, SeedK1, 20))
		}},
	{kernelAndLog, true, "drop the end, and sign a checkpoint without it", "LOGGED, NONE; kept: STALE",
		func(w *adversary) { w.show(w.copied(29, SeedK1)) }},
	{kernelAndLog, true, "show two auditors two logs; the checkpoint that one of them kept reveals it to the other",
		"LOGGED, NONE; kept: DIVERGED", func(w *adversary) {
			var packs, marks [2][]byte
			for i := range packs {
				m := w.goesOn(20, SeedK1, 1)
				m.Denied(contracts.ReasonPolicyViolation, Ask{Session: fmt.Sprint("auditor-", i), Tool: "fs.list",
					Args: `{}`, Who: Writer})
				marks[i] = m.Checkpoint()
				packs[i] = m.Pack(evidence.Write)
			}
			for i := range packs {
				r, err := verifyBytes(w, packs[i], evidence.Options{Trust: w.o.Trust, Origin: Origin, Last: marks[i]})
				assert.True(w, err == nil && r.Success(evidence.Logged) && r.History == evidence.Fresh,
					"auditor %d by himself: %s, %v", i, r.History, err)
				r, err = verifyBytes(w, packs[i], evidence.Options{Trust: w.o.Trust, Origin: Origin, Last: marks[1-i]})
				assert.True(w, err == nil && r.History == evidence.Diverged, "auditor %d with the other's: %s, %v", i,
					r.History, err)
			}
			w.made, w.o.Last = packs[0], marks[1]
		}},
	{kernelAndLog, true, "put into force a policy that allows everything; its documents are in the pack",
		"LOGGED, NONE; kept: FRESH", func(w *adversary) {
			m := w.copied(len(baseNames), seedK2)
			m.Use(permissive)
			m.Allowed(aFormat).Ran(`1`)
			w.show(m)
		}},
	{kernelAndLog, true, "record a verdict that no policy returns, leaving out its inputs",
		"LOGGED, 1 not replayable, NONE; kept: FRESH", func(w *adversary) {
			m := w.goesOn(len(baseNames), seedK2, 1)
			m.Allowed(aList)
			w.show(m)
			k := TakeApart(w, w.made)
			delete(k.Blobs, w.fake(k).D()["inputsHash"].(string))
			w.made = k.Build()
		}},
	{kernelAndLog, true, "say that another version of the engine judged, whose verdicts are not replayed, " +
		"and whose past is not compared with the log",
		"LOGGED, 15 not replayable, NONE; kept: DIVERGED", falsified(otherEngine)},
	{kernelAndLog, true,
		"refuse any call as the kernel's own refusal, for example as malformed; Replay.KernelsOwn counts them",
		"LOGGED, NONE; kept: FRESH", func(w *adversary) {
			m, a := w.copied(len(baseNames), seedK2), aList
			m.Use(BasePolicy(5), MailPolicy)
			a.refuse = contracts.ReasonIntentMalformed
			m.Denied(a.refuse, a)
			w.show(m)
			if r := w.report(); r.Replay.KernelsOwn != 5 { // the base log has four
				w.Errorf("%d are the kernel's own", r.Replay.KernelsOwn)
			}
		}},
	{kernelAndLog, true, "withhold how a call ended; the report lists it in Open", "LOGGED, NONE; kept: FRESH",
		func(w *adversary) {
			m := w.goesOn(len(baseNames), seedK2, 1)
			m.Allowed(aList)
			w.show(m)
			if r := w.report(); len(r.Open) != 2 { // the base log has one
				w.Errorf("%v are open", r.Open)
			}
		}},
	{kernelAndLog, true, "date the revocation of the key later, and continue until then",
		"LOGGED, NONE; kept: DIVERGED", falsified(moved)},
	{kernelAndLog, true, "name roots of their own, if auditors have the kernel key and no trust root",
		"LOGGED, NONE; kept: DIVERGED", func(w *adversary) {
			falsified(otherRoots)(w)
			w.o.Trust, w.o.Kernel = nil, Public(w, SeedK1)
		}},
	{kernelAndLog, false, "name roots of their own, if auditors have the trust root", "INVALID: TRUST",
		falsified(otherRoots)},
	{kernelAndLog, false, "record a verdict that no policy returns, if its inputs are kept", "INVALID: REPLAY",
		func(w *adversary) {
			m := w.goesOn(len(baseNames), seedK2, 1)
			m.Allowed(aList)
			w.show(m)
			k := TakeApart(w, w.made)
			n := w.fake(k)
			k.inputs(n, func(in Object) { in["caller"] = n.D()["caller"] })
			w.made = k.Build()
		}},
	{kernelAndLog, false, "approve in an approver's place", "INVALID: REPLAY",
		falsified(func(m *Model) { approver(m, SeedK1) })},
	{kernelAndLog, false, "add or revoke a key without the roots", "INVALID: TRUST",
		falsified(governed(adding(SeedX, "kernel"), seedK2))},
	{kernelAndLog, false, "allow anything while the log is frozen", "INVALID: TRUST",
		falsified(func(m *Model) { m.insert(m.index(m.The("sf")), m.copy(m.The("o"))) })},

	{kernelOnly, true, "do all that the holder of both can, but no log key signs for it",
		"INTACT, NONE; kept: DIVERGED", func(w *adversary) { w.unsigned(func() { w.another(SeedL) }) }},
	{kernelOnly, true, "drop the end, as far back as a checkpoint that was signed then", "LOGGED, NONE; kept: STALE",
		func(w *adversary) { w.show(w.copied(20, SeedK1)) }},
	{kernelOnly, true, "name a log key of their own, if auditors have the kernel key and no trust root",
		"LOGGED, NONE; kept: DIVERGED", func(w *adversary) {
			falsified(otherLog)(w)
			w.o.Trust, w.o.Kernel = nil, Public(w, SeedK1)
		}},
	{kernelOnly, false, "name a log key of their own, if auditors have the trust root", "INVALID: TRUST",
		falsified(otherLog)},
	{kernelOnly, false, "put other entries under a signed checkpoint", "INVALID: MERKLE", falsified(func(m *Model) {
		m.Build()
		m.keep.note = LastOf(m, len(m.Nodes), rootOf(m, len(m.Nodes)), Origin)
		m.The("a2").P()["outputHash"] = ones64
	})},
	{kernelOnly, false, "sign the checkpoint with the kernel key", "INTACT, NONE; kept: FRESH",
		falsified(func(m *Model) { m.logBy = seedK2 })},
	{kernelOnly, false, "sign it under the name of the log key", "INVALID: CHECKPOINT",
		falsified(marked(func(m *Model, text string) []byte {
			return []byte(text + "\n" + noteLine(m, signWith(m, seedK2, []byte(text)), SeedL))
		}))},
	{kernelOnly, false, "add a log key without the roots", "INVALID: TRUST",
		falsified(governed(adding(seedL2, "log"), seedK2))},
}

// otherRoots are named by a genesis that the kernel key signs.
func otherRoots(m *Model) {
	keys := append(StateKeys(m, 0), registry.Key{Name: "root", Public: Public(m, SeedX), Role: registry.Root})
	replaceTrust(m, StateOf(m, 2, SeedK1, SeedL, keys...))
}

func otherLog(m *Model) {
	replaceTrust(m, StateOf(m, 2, SeedK1, seedL2, StateKeys(m, 0)...))
	m.logBy = seedL2
}

// unsigned takes the log key's line out of the checkpoint of what is made.
func (w *adversary) unsigned(do func()) {
	do()
	m := TakeApart(w, w.made)
	m.by = SeedK1
	marked(func(m *Model, text string) []byte { return []byte(text + "\n" + stranger(m, text)) })(m)
	w.made = m.Build()
}

// logs hold the log key.
var logs = []claim{
	{logOnly, true, "sign a checkpoint of a tree that never was: a false alarm for its keeper",
		"LOGGED, NONE; kept: DIVERGED", func(w *adversary) {
			w.o.Last = LastOf(TakeApart(w, w.pack), 20, [32]byte{1}, Origin)
		}},
	{logOnly, true, "stop signing", "INTACT, NONE; kept: FRESH",
		falsified(marked(func(m *Model, text string) []byte { return []byte(text + "\n" + stranger(m, text)) }))},
	{logOnly, true, "with the store too: cut the log short, if it is verified in place", "LOGGED, NONE; kept: STALE",
		func(w *adversary) {
			w.kept = w.copied(24, SeedK1)
			w.mark(w.kept)
		}},
	{logOnly, false, "put a checkpoint of another tree over the log", "INVALID: MERKLE",
		falsified(func(m *Model) { m.root = func() [32]byte { return [32]byte{1} } })},
	{logOnly, false, "cut the log short with a new checkpoint", "INVALID: MANIFEST", func(w *adversary) {
		m := TakeApart(w, w.pack)
		m.keep.manifest = Untar(w, w.pack)[0].Body
		m.remove(m.The("o"))
		w.made = m.Build()
	}},
	{logOnly, false, "sign an entry", "INVALID: KEY", falsified(entryOf(SeedL))},
	{logOnly, false, "sign the manifest of a pack", "INVALID: MANIFEST", falsified(signedAs(SeedL))},
}
