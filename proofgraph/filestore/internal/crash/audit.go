package crash

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// A counts is what audits counted. Numbers of a log are those at its end, so they are added up over
// directories, not over audits.
type counts struct {
	effects, decisions, receipts, acknowledged int
	settled                                    int // calls that New found without a receipt, in one audit
	repeated                                   int // bound keys that were tried again, in one audit
	packs                                      int // evidence that was written and verified
	erased                                     int // blobs that were erased, in one audit
}

func (t *counts) add(o counts) {
	t.effects += o.effects
	t.decisions += o.decisions
	t.receipts += o.receipts
	t.acknowledged += o.acknowledged
	t.settled += o.settled
	t.repeated += o.repeated
	t.packs += o.packs
	t.erased += o.erased
}

// An audit opens the store that a crash left, makes a kernel over it, and compares both with the
// events: what was acknowledged is there, what happened was permitted, and every permission has one
// receipt.
type audit struct {
	events   []event
	recorder recorder                                // records the events of the audit's own kernel
	through  func(proofgraph.Store) proofgraph.Store // wraps the kernel's store; nil: nothing does
	brief    bool                                    // skips the evidence, which takes longer than everything else
	before   []line                                  // the log as the crash left it
	after    []line                                  // the log as New left it
	pack     []byte                                  // its evidence, verified
	counts
	wrong []string // violations
}

func (a *audit) errorf(format string, args ...any) {
	if len(a.wrong) < 20 {
		a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
	}
}

// open opens a directory, inspects the log in it, and closes it. It returns 1 if opening removed a
// torn tail.
func (a *audit) open(d disk.Disk, dir string, z Sizes) (torn int) {
	t := &disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
		if o.Is("write", logKind) && o.Erases() {
			torn = 1
		}
		return o.Do()
	}}
	a.search(d, dir)
	s, err := Open(t, dir, z)
	if err != nil {
		a.errorf("%v", err)
		return torn
	}
	t.Hook = nil
	a.inspect(s)
	a.search(d, dir)
	if err := s.Close(); err != nil {
		a.errorf("%v", err)
	}
	return torn
}

// inspect audits a store that is open, and leaves it open.
func (a *audit) inspect(s proofgraph.Store) {
	var err error
	if a.before, err = readLog(s); err != nil {
		a.errorf("reading the log: %v", err)
		return
	}
	a.checkEvents(a.before)
	a.checkReceipts(a.before)
	a.checkCheckpoint(s)
	a.checkErased(s)
	a.checkHashes(s, a.before)
	l := &process{events: a.recorder, through: a.through}
	if err := l.start(s, nil, nil); err != nil {
		a.errorf("New: %v", err)
		return
	}
	defer l.k.Close()
	if err := l.stateless; err != nil { // a crash leaves the one before, or the next
		a.errorf("the state was not taken: %v", err)
	}
	if a.after, err = readLog(s); err != nil {
		a.errorf("reading the log after New: %v", err)
		return
	}
	a.checkRestored()
	a.repeatCalls(l)
	if err := l.checkpoint(); err != nil {
		a.errorf("Checkpoint: %v", err)
		return
	}
	if log, err := readLog(s); err == nil {
		a.checkHashes(s, log)
	}
	if n := l.runs.Load(); n != 0 {
		a.errorf("a tool ran %d times, and no call asked for it", n)
	}
	if !a.brief {
		a.verify(s)
	}
}

// checkEvents looks in the log for each event.
func (a *audit) checkEvents(log []line) {
	at, last := map[string]int{}, map[string]contracts.Kind{}
	for i, x := range log {
		at[x.hash], last[x.session] = i, x.kind
	}
	effects, ran := map[string]bool{}, map[string]bool{}
	for _, n := range a.events {
		switch i, ok := at[n.Hash]; n.Kind {
		case eventEffect:
			a.effects++
			switch {
			case !ok || log[i].kind != contracts.KindDecision:
				a.errorf("an effect without a durable decision: %s in process %d", n.ID, n.Process)
			case log[i].id != n.ID:
				a.errorf("an effect of %s under the decision %s", n.ID, log[i].id)
			case effects[n.Hash]:
				a.errorf("two effects of one decision: %s", n.ID)
			}
			effects[n.Hash], ran[fmt.Sprint(n.Process, n.ID)] = true, true
		case eventReceipt:
			a.acknowledged++
			switch {
			case !ok || uint64(i) != n.Index:
				a.errorf("an acknowledged receipt is not there: entry %d, of %s, %s in process %d", n.Index, n.ID,
					n.Reason, n.Process)
			case log[i].kind != contracts.KindReceipt || log[i].outcome != contracts.Executed && n.Released ||
				log[i].reason != n.Reason && n.Reason != contracts.ReasonOutputNotKept:
				a.errorf("a caller was told %s (released: %v), and entry %d says %s %s", n.Reason, n.Released, i,
					log[i].outcome, log[i].reason)
			}
		case eventBegun:
			if !ok || i != 0 {
				a.errorf("the log that began is not there: genesis of process %d", n.Process)
			}
		case eventSeen:
			if !ok || uint64(i) != n.Index {
				a.errorf("an auditor saw entry %d, which is not there any more", n.Index)
			}
		case eventClosed:
			if last[n.Session] != contracts.KindSession {
				a.errorf("session %s was closed, and is not", n.Session)
			}
		case eventTrouble:
			a.errorf("process %d: %s", n.Process, n.What)
		}
	}
	for _, n := range a.events {
		if n.Kind == eventDenied && ran[fmt.Sprint(n.Process, n.ID)] {
			a.errorf("%s had its effect in process %d, and its caller was told that it surely did not run", n.ID,
				n.Process)
		}
	}
}

// checkReceipts looks among the events for the effect that each receipt records.
func (a *audit) checkReceipts(log []line) {
	effects := map[string]bool{}
	for _, n := range a.events {
		effects[n.Hash] = effects[n.Hash] || n.Kind == eventEffect
	}
	for i, x := range log {
		if x.of != "" && x.reason != contracts.ReasonOutcomeUnknown && !effects[x.of] {
			a.errorf("entry %d says %s %s of what never happened", i, x.outcome, x.reason)
		}
	}
}

// checkHashes compares the hashes that the store has of its log with those of the entries.
func (a *audit) checkHashes(s proofgraph.Store, log []line) {
	r, ok := s.(tlog.HashReader)
	if !ok || len(log) == 0 {
		return
	}
	var leaves []int64
	for i := range log {
		leaves = append(leaves, tlog.StoredHashIndex(0, int64(i)))
	}
	got, err := r.ReadHashes(leaves)
	if err != nil {
		a.errorf("the hashes of the log: %v", err)
		return
	}
	var t proofgraph.Tree
	for i, h := range got {
		if d := contracts.Digest(h); d.String() != log[i].hash {
			a.errorf("the hash of entry %d is another", i)
		}
		t.Append(contracts.Digest(h))
	}
	if root, err := tlog.TreeHash(int64(len(log)), r); err != nil || contracts.Digest(root) != t.Root() {
		a.errorf("the hashes lead to another root: %v", err)
	}
}

// checkRestored compares the entries that New wrote with the log that it found.
func (a *audit) checkRestored() {
	var want []line
	open, bound := map[string]bool{}, map[string]bool{}
	began, enacted := false, false
	for _, x := range a.before {
		began, enacted = true, enacted || x.kind == contracts.KindPolicy
		if x.kind == contracts.KindDecision {
			open[x.hash] = true
		}
		delete(open, x.of)
		if name := x.session + " " + x.key; x.key != "" && bound[name] {
			a.errorf("%s: the key is bound twice", name)
		} else if x.key != "" {
			bound[name] = true
		}
	}
	if !began {
		want = append(want, line{kind: contracts.KindGenesis})
	}
	if !enacted {
		want = append(want, line{kind: contracts.KindPolicy})
	}
	for _, x := range a.before {
		if open[x.hash] {
			want = append(want, line{kind: contracts.KindReceipt, session: x.session, of: x.hash,
				outcome: contracts.Indeterminate, reason: contracts.ReasonOutcomeUnknown})
		}
	}
	a.settled = len(open)
	if len(a.after) != len(a.before)+len(want) {
		a.errorf("New made %d entries of %d, want %d more", len(a.after), len(a.before), len(want))
		return
	}
	for i, x := range a.after {
		if i < len(a.before) {
			if x != a.before[i] {
				a.errorf("New changed entry %d", i)
			}
			continue
		}
		if x.hash = ""; x != want[i-len(a.before)] {
			a.errorf("New wrote %+v, want %+v", x, want[i-len(a.before)])
		}
	}
	receipts := map[string]int{}
	for _, x := range a.after {
		if x.kind == contracts.KindReceipt {
			receipts[x.of]++
			a.receipts++
		}
	}
	for _, x := range a.after {
		if x.kind == contracts.KindDecision {
			a.decisions++
			if n := receipts[x.hash]; n != 1 {
				a.errorf("%s has %d receipts", x.id, n)
			}
		}
	}
}

// repeatCalls makes calls again whose keys were bound before the crash. They have the first outcome
// and no second effect. If the key is bound to another call, the answer is a conflict.
func (a *audit) repeatCalls(l *process) {
	first, closed := map[string]line{}, map[string]bool{}
	for _, x := range a.after {
		first[x.of] = x
		closed[x.session] = x.kind == contracts.KindSession
	}
	for _, x := range a.after {
		if x.key == "" || closed[x.session] || a.repeated == 24 {
			continue
		}
		a.repeated++
		d, r := l.call(context.Background(), keyed(x.session, x.key))
		want := first[x.hash]
		same := x.args == crypto.Sum([]byte(`{"memo":"none","to":"`+x.key+`"}`))
		switch {
		case same && (d.Reason != want.reason || r.Entry.Hash().String() != want.hash ||
			(r.Output != nil) != (want.outcome == contracts.Executed)):
			a.errorf("%s: repeating %s gives %s (%v) of entry %d, first it was %s", x.id, x.key, d.Reason, d.Err(),
				r.Index, want.reason)
		case !same && d.Reason != contracts.ReasonIdempotencyConflict:
			a.errorf("%s: another call with the key %s gives %s", x.id, x.key, d.Reason)
		}
	}
}
