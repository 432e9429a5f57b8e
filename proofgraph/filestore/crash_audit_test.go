package filestore

import (
	"context"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A tally is what audits saw. Numbers of the log are those of its end, so they are added up over directories, not over audits.
type tally struct {
	effects, decisions, receipts, acknowledged int
	settled                                    int // calls that New found without a receipt, in one audit
	repeated                                   int // bound keys that were tried again, in one audit
	packs                                      int // evidence that was written and verified
	erased                                     int // blobs that were erased, in one audit
}

func (t *tally) add(o tally) {
	t.effects += o.effects
	t.decisions += o.decisions
	t.receipts += o.receipts
	t.acknowledged += o.acknowledged
	t.settled += o.settled
	t.repeated += o.repeated
	t.packs += o.packs
	t.erased += o.erased
}

// An audit opens the store that a crash left, makes a kernel over it, and holds both against the notes: what was acknowledged is there, what
// happened was permitted, and every permission has one receipt.
type audit struct {
	notes   []note
	book    notebook                                // for what the audit's own kernel answers
	through func(proofgraph.Store) proofgraph.Store // what stands between its kernel and the store; nil: nothing
	brief   bool                                    // leaves the evidence out, which takes longer than all the rest
	before  []line                                  // the log as the crash left it
	after   []line                                  // the log as New left it
	pack    []byte                                  // its evidence, verified
	tally
	wrong []string // what does not hold
}

func (a *audit) fault(format string, args ...any) {
	if len(a.wrong) < 20 {
		a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
	}
}

// visit opens a directory, inspects what is in it, and closes it. torn is 1 where opening made a torn tail undone.
func (a *audit) visit(d disk, dir string, z sizes) (torn int) {
	t := &tap{disk: d, hook: func(o *op) error {
		if o.is("write", logKind) && o.erases() {
			torn = 1
		}
		return o.do()
	}}
	a.searched(d, dir)
	s, err := open(t, dir, Options{}, z)
	if err != nil {
		a.fault("%v", err)
		return torn
	}
	t.hook = nil
	a.inspect(s)
	a.searched(d, dir)
	if err := s.Close(); err != nil {
		a.fault("%v", err)
	}
	return torn
}

// inspect is the audit of a store that is open. It leaves it open.
func (a *audit) inspect(s proofgraph.Store) {
	var err error
	if a.before, err = readLog(s); err != nil {
		a.fault("reading the log: %v", err)
		return
	}
	a.hold(a.before)
	a.happened(a.before)
	a.marked(s)
	a.forgotten(s)
	l := &life{notes: a.book, through: a.through}
	if err := l.begin(s, nil, nil); err != nil {
		a.fault("New: %v", err)
		return
	}
	defer l.k.Close()
	if a.after, err = readLog(s); err != nil {
		a.fault("reading the log after New: %v", err)
		return
	}
	a.recovered()
	a.repeat(l)
	if err := l.checkpoint(); err != nil {
		a.fault("Checkpoint: %v", err)
		return
	}
	if n := l.runs.Load(); n != 0 {
		a.fault("a tool ran %d times, and nobody called it anew", n)
	}
	if !a.brief {
		a.verify(s)
	}
}

// hold looks in the log for what the notes say.
func (a *audit) hold(log []line) {
	at, last := map[string]int{}, map[string]contracts.Kind{}
	for i, x := range log {
		at[x.hash], last[x.session] = i, x.kind
	}
	effects, lives := map[string]bool{}, map[string]bool{}
	for _, n := range a.notes {
		switch i, ok := at[n.Hash]; n.Kind {
		case noteEffect:
			a.effects++
			switch {
			case !ok || log[i].kind != contracts.KindDecision:
				a.fault("an effect without a durable decision: %s in life %d", n.ID, n.Life)
			case log[i].id != n.ID:
				a.fault("an effect of %s under the decision %s", n.ID, log[i].id)
			case effects[n.Hash]:
				a.fault("two effects of one decision: %s", n.ID)
			}
			effects[n.Hash], lives[fmt.Sprint(n.Life, n.ID)] = true, true
		case noteReceipt:
			a.acknowledged++
			switch {
			case !ok || uint64(i) != n.Index:
				a.fault("an acknowledged receipt is not there: entry %d, of %s, %s in life %d", n.Index, n.ID, n.Reason, n.Life)
			case log[i].kind != contracts.KindReceipt || log[i].outcome != contracts.Executed && n.Released || log[i].reason != n.Reason && n.Reason != contracts.ReasonOutputNotKept:
				a.fault("a caller was told %s (released: %v), and entry %d says %s %s", n.Reason, n.Released, i, log[i].outcome, log[i].reason)
			}
		case noteBegun:
			if !ok || i != 0 {
				a.fault("the log that began is not there: genesis of life %d", n.Life)
			}
		case noteSeen:
			if !ok || uint64(i) != n.Index {
				a.fault("an auditor saw entry %d, which is not there any more", n.Index)
			}
		case noteClosed:
			if last[n.Session] != contracts.KindSession {
				a.fault("session %s was closed, and is not", n.Session)
			}
		case noteTrouble:
			a.fault("life %d: %s", n.Life, n.What)
		}
	}
	for _, n := range a.notes {
		if n.Kind == noteSurely && lives[fmt.Sprint(n.Life, n.ID)] {
			a.fault("%s had its effect in life %d, and its caller was told that it surely did not run", n.ID, n.Life)
		}
	}
}

// happened looks in the notes for what the log says.
func (a *audit) happened(log []line) {
	effects := map[string]bool{}
	for _, n := range a.notes {
		effects[n.Hash] = effects[n.Hash] || n.Kind == noteEffect
	}
	for i, x := range log {
		if x.of != "" && x.reason != contracts.ReasonOutcomeUnknown && !effects[x.of] {
			a.fault("entry %d says %s %s of what never happened", i, x.outcome, x.reason)
		}
	}
}

// recovered holds what New wrote against what it found.
func (a *audit) recovered() {
	var want []line // beside the policy
	open, bound := map[string]bool{}, map[string]bool{}
	began, enacted := false, false
	for _, x := range a.before {
		began, enacted = true, enacted || x.kind == contracts.KindPolicy
		if x.kind == contracts.KindDecision {
			open[x.hash] = true
		}
		delete(open, x.of)
		if name := x.session + " " + x.key; x.key != "" && bound[name] {
			a.fault("%s: the key is bound twice", name)
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
			want = append(want, line{kind: contracts.KindReceipt, session: x.session, of: x.hash, outcome: contracts.Indeterminate, reason: contracts.ReasonOutcomeUnknown})
		}
	}
	a.settled = len(open)
	if len(a.after) != len(a.before)+len(want) {
		a.fault("New made %d entries of %d, want %d more", len(a.after), len(a.before), len(want))
		return
	}
	for i, x := range a.after {
		if i < len(a.before) {
			if x != a.before[i] {
				a.fault("New changed entry %d", i)
			}
			continue
		}
		if x.hash = ""; x != want[i-len(a.before)] {
			a.fault("New wrote %+v, want %+v", x, want[i-len(a.before)])
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
				a.fault("%s has %d receipts", x.id, n)
			}
		}
	}
}

// repeat makes calls again whose keys were bound before the crash. They have the first outcome and no second effect; where the key stands
// for another call, it is a conflict.
func (a *audit) repeat(l *life) {
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
		d, r := l.do(context.Background(), keyed(x.session, x.key))
		want := first[x.hash]
		same := x.args == crypto.Sum([]byte(`{"memo":"none","to":"`+x.key+`"}`))
		switch {
		case same && (d.Reason != want.reason || r.Entry.Hash().String() != want.hash || (r.Output != nil) != (want.outcome == contracts.Executed)):
			a.fault("%s: repeating %s gives %s (%v) of entry %d, first it was %s", x.id, x.key, d.Reason, d.Err(), r.Index, want.reason)
		case !same && d.Reason != contracts.ReasonIdempotencyConflict:
			a.fault("%s: another call with the key %s gives %s", x.id, x.key, d.Reason)
		}
	}
}
