package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// Gate 8: every verdict follows again from the policy and the inputs that the log names.

// everyReason makes a log with a judgement of each reason, and with most outcomes.
func everyReason(t *trial, change ...func(w *world)) *world {
	w := boundary(t, change...)
	for _, f := range faults() {
		if f.reason != contracts.ReasonSystemFrozen {
			_, a := withFaults(w, nil, []fault{f})
			w.check(a.Reason == f.reason, "denied for %s, want %s", a.Reason, f.reason)
		}
	}
	asked := moving(w)
	asked.more = `,"ask":true`
	in := asked.intent()
	request := asks(w, in)
	answer := func(e contracts.Envelope) helm.Intent { in.Approvals = []contracts.Envelope{e}; return in }
	w.wantDenied(contracts.ReasonApprovalInvalid, answer(approve(w, request, "ann")))
	w.wantDenied(contracts.ReasonApprovalRefused, answer(refuse(w, request, "olga")))
	late := request
	late.NotBefore = late.NotBefore.Add(time.Millisecond)
	w.wantDenied(contracts.ReasonApprovalExpired, answer(approve(w, late, "olga")))
	w.wantRun(answer(approve(w, request, "olga")))
	for _, x := range []func() (json.RawMessage, error){
		func() (json.RawMessage, error) { return nil, errTool },
		func() (json.RawMessage, error) { panic("the tool") },
		func() (json.RawMessage, error) { runtime.Goexit(); return nil, nil },
		func() (json.RawMessage, error) {
			return json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`), nil
		},
	} {
		w.tool = helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { return x() })
		d := moving(w)
		a := w.guard(d.intent())
		w.check(a.Err() != nil && len(w.ran()) == 1, "%s, and the tool failed", a.Reason)
	}
	w.tool = nil
	d := moving(w)
	w.wantRun(d.intent())
	frozen(w)
	w.wantDenied(contracts.ReasonSystemFrozen, d.intent())
	return w
}

// neverLogged are the reasons that no log has: with them nothing is written.
var neverLogged = []contracts.ReasonCode{contracts.ReasonKernelSealed, contracts.ReasonReceiptNotStored,
	contracts.ReasonOutputNotKept}

// inputChanges are lies about what a judgement was made from, each by one who has the kernel's key.
var inputChanges = []struct {
	name string
	make func(in *contracts.Inputs)
}{
	{"args", func(in *contracts.Inputs) { in.Args = changedArgs }},
	{"argsHash", func(in *contracts.Inputs) { in.ArgsHash[0] ^= 1 }},
	{"caller.id", func(in *contracts.Inputs) { in.Caller.ID += "x" }},
	{"caller.roles", func(in *contracts.Inputs) { in.Caller.Roles = []string{"zzz"} }},
	{"caller.tenant", func(in *contracts.Inputs) { in.Caller.Tenant += "x" }},
	{"drivers", func(in *contracts.Inputs) { in.Drivers = (in.Drivers + 1) % 3 }},
	{"idempotency", func(in *contracts.Inputs) { in.Idempotency += "x" }},
	{"session", func(in *contracts.Inputs) { in.Session = "zzz" }},
	{"state.trust", func(in *contracts.Inputs) { in.State.Trust[0] ^= 1 }},
	{"state.budgets", func(in *contracts.Inputs) {
		for i := range in.State.Budgets { // one more in what a denial peeked at is not to be seen in the log
			in.State.Budgets[i].Spent = 9000
		}
	}},
	{"time", func(in *contracts.Inputs) { in.Time++ }},
	{"tool", func(in *contracts.Inputs) { in.Tool += "x" }},
	{"envelopes", func(in *contracts.Inputs) {
		in.Envelopes.Delegation = delegated(contracts.Delegation{Expires: 4e12, Nonce: "other"})
	}},
}

// changedArgs are arguments of nobody's call.
var changedArgs = func() crypto.Value {
	var t crypto.Tree
	text := []byte(`{"path":"/srv","text":"changed"}`)
	if err := t.Parse(text, crypto.Limits{Bytes: len(text), Depth: 2, Object: true}); err != nil {
		panic(err) // the text is JSON
	}
	return t.Root()
}()

func replayCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	for _, s := range storages {
		add("every verdict of a log of all reasons replays, "+s.name, func(t *trial) {
			w := everyReason(t, s.at)
			judged, own, seen := uint64(0), uint64(0), map[contracts.ReasonCode]bool{}
			for _, st := range w.statements() {
				if d := st.Judgement(); d != nil {
					judged++
					seen[d.Reason] = true
					if d.KernelsOwn() {
						own++
					}
				}
			}
			for reason := range contracts.Reasons() {
				outcome, _ := reason.Ending()
				if outcome != contracts.Denied || slices.Contains(neverLogged, reason) {
					continue
				}
				t.check(seen[reason], "no judgement of %s in the log", reason)
			}
			r := w.verified().Replay
			t.check(
				r.Replayed+r.KernelsOwn == judged && r.KernelsOwn == own && r.NotReplayable == 0,
				"of %d verdicts %d replayed, %d are the kernel's own, %d not replayable",
				judged,
				r.Replayed,
				r.KernelsOwn,
				r.NotReplayable,
			)
		})
	}
	for _, x := range inputChanges {
		add("changed inputs are found: "+x.name, func(t *trial) { changedInputs(t, x.make) })
	}
	for _, x := range []struct {
		name string
		make func(d *contracts.DecisionRecord)
	}{
		{"another rule", func(d *contracts.DecisionRecord) { d.Rule = "P1:test:look" }},
		{"another charge", func(d *contracts.DecisionRecord) { d.Charges[0].Limit++ }},
		{"another policy", func(d *contracts.DecisionRecord) { d.PolicyHash[0] ^= 1 }},
		{"another time limit", func(d *contracts.DecisionRecord) { d.Expires++ }},
		{"another risk", func(d *contracts.DecisionRecord) { d.Risk = contracts.High }},
	} {
		add("a changed decision is found: "+x.name, func(t *trial) {
			f := forging(boundary(t))
			f.honest()
			i := at(f, "open", 0)
			f.lie(i, func(st *statement) {
				x.make(st.Decision)
				st.Decision.Seal(st.Session, st.Seq, st.Decision.InputsHash)
			})
			f.found(f.store(), evidence.ErrReplay, evidence.ErrReference, evidence.ErrRecord, evidence.ErrBudget)
		})
	}
	add("a denial that should have been an ALLOW", func(t *trial) {
		w := boundary(t)
		d := moving(w)
		d.text = "barred"
		denied := w.wantDenied(contracts.ReasonPolicyViolation, d.intent())
		f := forging(w)
		f.honest()
		f.lie(int(denied.receipt.Index), func(st *statement) {
			in := inputs(w, st.Receipt.Decision.InputsHash)
			in.Caller.ID = "someone else"
			st.Receipt.Decision.Caller.ID = in.Caller.ID
			st.Receipt.Decision.Rule = "P0:acme:ceilings"
			st.Receipt.Decision.Reason, st.Receipt.Decision.Condition = contracts.ReasonCeilingViolation, 8
			seal(f, st, st.Receipt.Decision, in)
		})
		f.found(f.store(), evidence.ErrReplay)
	})
	add("erased inputs are counted, not passed", func(t *trial) {
		w := everyReason(t)
		all := w.verified().Replay
		erased := uint64(0)
		for _, st := range w.statements() {
			if d := st.Judgement(); d != nil && !d.KernelsOwn() {
				t.must(w.store.Store.(proofgraph.Eraser).EraseBlob(t.ctx, d.InputsHash), "erasing")
				erased++
			}
		}
		report := w.verified()
		t.check(report.Replay.Replayed == 0 && report.Replay.NotReplayable == erased && erased == all.Replayed,
			"of %d verdicts without inputs %d replayed, %d are not replayable", erased, report.Replay.Replayed,
			report.Replay.NotReplayable)
		t.check(uint64(len(report.Erased)) >= erased, "%d blobs are named as erased", len(report.Erased))
	})
	return list
}

// changedInputs changes one member of the inputs of an ALLOW and of a denial, and signs all that
// follows again. The verifier must find it.
func changedInputs(t *trial, change func(in *contracts.Inputs)) {
	w := boundary(t)
	d := moving(w)
	d.text = "barred"
	denied := w.wantDenied(contracts.ReasonPolicyViolation, d.intent())
	d = moving(w)
	allowed := w.wantRun(d.intent())
	for _, i := range []int{int(denied.receipt.Index), int(allowed.receipt.Index) - 1} {
		f := forging(w)
		f.honest()
		st := f.list[i]
		record := st.Judgement()
		w.check(record != nil, "entry %d is no judgement", i)
		in := inputs(w, record.InputsHash)
		change(in)
		f.lie(i, func(st *statement) { seal(f, st, st.Judgement(), in) })
		report, err := f.examined(f.store())
		w.check(err != nil && report.Level == evidence.Invalid && !report.Success(evidence.Intact),
			"%s: not found, the log is %s", fmt.Sprint(record.Reason), report.Level)
	}
}

// seal has a judgement name other inputs.
func seal(f *forger, st *statement, d *contracts.DecisionRecord, in *contracts.Inputs) {
	b := in.Append(nil)
	digest := crypto.Sum(b)
	f.blobs[digest] = b
	d.Seal(st.Session, st.Seq, digest)
}
