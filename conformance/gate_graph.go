package conformance

import (
	"fmt"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// Gate 5: the links of the log are what they say, and nothing is removed, moved, changed or added.

// journal makes a log of two sessions. The last entry is a denial in the first, which no entry
// names.
func journal(t *trial, change ...func(w *world)) *world {
	w := t.newWorld([]string{idempotencyPolicy}, change...)
	look := paying()
	look.Tool, look.Idempotency, look.Session = "look", "", "a"
	first := w.wantRun(look)
	t.must(w.kernel.UserMessage(t.ctx, "b", "please pay"), "a message")
	pay := paying()
	pay.Idempotency, pay.Session, pay.After = "", "b", []contracts.Ref{first.receipt.Ref()}
	w.wantRun(pay)
	w.wantRun(look)
	t.must(w.kernel.CloseSession(t.ctx, "b"), "closing a session")
	denied := look
	denied.Caller = helm.Caller{}
	w.wantDenied(contracts.ReasonNoPolicyDefined, denied)
	w.wantDenied(contracts.ReasonNoPolicyDefined, denied)
	_, err := w.kernel.Checkpoint(t.ctx)
	t.must(err, "a checkpoint")
	return w
}

// at is the index of the nth entry of a session.
func at(f *forger, session string, n uint64) int {
	for i, st := range f.list {
		if st.Session == session && st.Seq == n {
			return i
		}
	}
	f.fail("no entry %d in session %q", n, session)
	return 0
}

type statement = contracts.Statement

// graphLies are lies about the place of an entry, each by one who has the kernel's key.
var graphLies = []struct {
	name string
	make func(f *forger)
	by   []error
}{
	{"prev is an entry of another session", func(f *forger) {
		other := f.was[at(f, "b", 0)]
		f.lie(-1, func(st *statement) { st.Prev = other })
	}, []error{evidence.ErrChain}},
	{"prev is zeros", func(f *forger) {
		f.lie(-1, func(st *statement) { st.Prev = contracts.Digest{} })
	}, []error{evidence.ErrChain, evidence.ErrRecord}},
	{"prev is the entry before the last: a fork", func(f *forger) {
		before := f.list[len(f.list)-2].Prev
		f.lie(-1, func(st *statement) {
			st.Prev, st.Seq, st.Lamport = before, st.Seq-1, st.Lamport-1
			st.Receipt.Decision.Seal(st.Session, st.Seq, st.Receipt.Decision.InputsHash)
		})
	}, []error{evidence.ErrChain}},
	{"an unknown parent", func(f *forger) {
		f.lie(-1, func(st *statement) { st.Parents = []contracts.Digest{crypto.Sum([]byte("nowhere"))} })
	}, []error{evidence.ErrGraph}},
	{"a parent that is left out", func(f *forger) {
		f.lie(at(f, "b", 2), func(st *statement) { st.Receipt.DecisionHash = f.was[at(f, "a", 0)] })
	}, []error{evidence.ErrReference, evidence.ErrRecord, evidence.ErrGraph}},
	{"prev among the parents", func(f *forger) {
		f.lie(-1, func(st *statement) { st.Parents = []contracts.Digest{st.Prev} })
	}, []error{evidence.ErrGraph, evidence.ErrRecord}},
	{"lamport one more", func(f *forger) { f.lie(-1, func(st *statement) { st.Lamport++ }) },
		[]error{evidence.ErrGraph}},
	{"lamport one less", func(f *forger) { f.lie(-1, func(st *statement) { st.Lamport-- }) },
		[]error{evidence.ErrGraph}},
	{"seq one more", func(f *forger) { f.lie(-1, func(st *statement) { st.Seq++ }) },
		[]error{evidence.ErrChain, evidence.ErrRecord}},
	{"time that runs back", func(f *forger) { f.lie(-1, func(st *statement) { st.Time-- }) },
		[]error{evidence.ErrChain, evidence.ErrReplay}},
	{"a removed entry", func(f *forger) { f.remove(len(f.list) - 2) }, []error{evidence.ErrChain}},
	{"a removed decision", func(f *forger) { f.remove(at(f, "a", 0)) }, []error{evidence.ErrChain, evidence.ErrGraph}},
	{"two entries that were swapped", func(f *forger) {
		n := len(f.list)
		f.list[n-1], f.list[n-2] = f.list[n-2], f.list[n-1]
		f.was[n-1], f.was[n-2] = f.was[n-2], f.was[n-1]
	}, []error{evidence.ErrChain}},
	{"an entry twice", func(f *forger) {
		n := len(f.list) - 1
		f.list, f.was = append(f.list, f.list[n]), append(f.was, f.was[n])
	}, []error{evidence.ErrChain, evidence.ErrGraph}},
	{"an entry after the close of its session", func(f *forger) {
		closed := at(f, "b", 3)
		f.lie(-1, func(st *statement) {
			st.Session, st.Seq, st.Prev, st.Lamport = "b", 4, f.was[closed], f.list[closed].Lamport+1
			st.Receipt.Decision.Seal(st.Session, st.Seq, st.Receipt.Decision.InputsHash)
		})
	}, []error{evidence.ErrChain, evidence.ErrRecord}},
	{"a close that counts one less", func(f *forger) {
		f.lie(at(f, "b", 3), func(st *statement) { st.Close.Count-- })
	}, []error{evidence.ErrRecord, evidence.ErrChain}},
}

func graphCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	for _, s := range storages {
		add("a log that was signed again, "+s.name, func(t *trial) { forging(journal(t, s.at)).honest() })
	}
	for _, x := range graphLies {
		add(x.name, func(t *trial) {
			f := forging(journal(t))
			x.make(f)
			f.found(f.store(), x.by...)
		})
	}
	add("an entry with another signature", func(t *trial) {
		f := forging(journal(t))
		s := f.store()
		s.entries[len(s.entries)-1] = f.sign(f.list[len(f.list)-1], "mallory")
		s.note = f.checkpoint(s.entries)
		f.found(s, evidence.ErrSignature)
	})
	add("an entry by a key that nobody knows", func(t *trial) {
		f := forging(journal(t))
		s := f.store()
		last := *f.list[len(f.list)-1]
		last.Key = keyID("mallory")
		s.entries[len(s.entries)-1] = f.sign(&last, "mallory")
		s.note = f.checkpoint(s.entries)
		f.found(s, evidence.ErrKey)
	})
	add("each entry, with one byte changed", func(t *trial) {
		f := forging(journal(t))
		for i := range f.list {
			s := f.store()
			e := s.entries[i]
			e[len(e)/2] ^= 1
			report, err := f.examined(s)
			t.check(err != nil && report.Level == evidence.Invalid, "entry %d: not found", i)
		}
	})
	add("a checkpoint of another log", func(t *trial) {
		f := forging(journal(t))
		s := f.store()
		other := s.entries[len(s.entries)-1]
		f.remove(len(f.list) - 1)
		f.lie(-1, func(st *statement) { st.Time++ })
		short := f.store()
		s.note = f.checkpoint(append(short.entries, other))
		f.found(s, evidence.ErrMerkle)
	})
	add("a checkpoint by another key", func(t *trial) {
		w := journal(t, func(w *world) { w.options.LogKey = keyOf("mallory") })
		report, err := w.verifyStore(w.store.Store, evidence.Options{Trust: w.initial(), Origin: origin})
		t.check(!report.Success(evidence.Logged), "not found: %v", err)
	})
	add("consistency: an entry that was taken out, and all after it signed again", func(t *trial) {
		w := journal(t)
		last, err := w.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		f := forging(w)
		n := len(f.list)
		gone := f.list[n-2].Header
		f.remove(n - 2)
		f.lie(-1, func(st *statement) { // as if the removed one had never been
			st.Prev, st.Seq, st.Lamport = gone.Prev, gone.Seq, gone.Lamport
			st.Receipt.Decision.Seal(st.Session, st.Seq, st.Receipt.Decision.InputsHash)
		})
		s := f.store()
		report, err := f.examined(s)
		t.must(err, "without a checkpoint that was kept, it cannot be found")
		t.check(report.History == evidence.None, "history %s, want NONE", report.History)
		o := evidence.Options{Trust: w.initial(), Origin: origin, Last: last.Note}
		report, _ = w.verifyStore(s, o)
		t.check(
			report.History == evidence.Stale && !report.Success(evidence.Logged),
			"shorter: history %s",
			report.History,
		)
		w.wantDenied(contracts.ReasonNoPolicyDefined, helm.Intent{Tool: "look", Args: raw(`{}`), Session: "a"})
		_, err = w.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		report, err = w.verifyStore(w.store.Store, o)
		t.must(err, "the true log")
		t.check(
			report.History == evidence.Fresh && report.Success(evidence.Logged),
			"longer: history %s",
			report.History,
		)
	})
	add("consistency: another log of the same size", func(t *trial) {
		w := journal(t)
		last, err := w.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		f := forging(w)
		f.lie(-1, func(st *statement) { st.Receipt.Decision.Seal(st.Session, st.Seq, st.Receipt.Decision.InputsHash) })
		f.lie(at(f, "b", 0), func(st *statement) {
			st.Message.TextHash = crypto.Sum([]byte("other words"))
			f.blobs[st.Message.TextHash] = []byte("other words")
		})
		report, err := w.verifyStore(f.store(), evidence.Options{Trust: w.initial(), Origin: origin, Last: last.Note})
		t.check(
			report.History == evidence.Diverged && !report.Success(evidence.Logged),
			"history %s: %v",
			report.History,
			err,
		)
	})
	add("inclusion: the root is that of RFC 6962", func(t *trial) {
		var tree proofgraph.Tree
		var leaves []contracts.Digest
		for n := range 70 {
			t.check(tree.Root() == rootOf(leaves) && tree.Size() == uint64(n), "another root of %d leaves", n)
			leaf := crypto.LeafHash(fmt.Append(nil, n))
			tree.Append(leaf)
			leaves = append(leaves, leaf)
		}
		w := journal(t)
		c, err := w.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		leaves = nil
		for _, e := range w.entries() {
			leaves = append(leaves, e.Hash())
		}
		t.check(c.Root == rootOf(leaves) && c.Size == uint64(len(leaves)), "the checkpoint has another root")
	})
	return list
}
