package contracts

import (
	"slices"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// Receipt records how a call ended. The receipt of a denial holds the whole judgement; any other
// names its decision. docs/FORMATS.md section 4.
type Receipt struct {
	Outcome  Outcome
	Decision *DecisionRecord // of a denial; otherwise nil

	ArgsHash     Digest
	DecisionHash Digest // leaf hash of the decision's entry
	EffectHash   Digest
	EffectType   EffectType
	FactsHash    *Digest // of the facts document, a blob: see ParseFacts
	OutputForm   string  // "jcs" or "raw", with OutputHash
	OutputHash   *Digest
	Reason       ReasonCode
	Sandbox      *SandboxUse
	Settled      []Settlement // amounts that stay charged
	Signals      []string     // threat signals in an output that was released
	Tool         string
	Verdict      Verdict // the final one
}

// SandboxUse is the sandbox that a run used, and the gas.
type SandboxUse struct {
	Gas     uint64
	Grants  *Digest // of the canonical grants; nil with the profile [ProfileReported], and only with it
	Module  Digest
	Profile string
}

// Settlement is the amount of one charge that stays charged.
type Settlement struct {
	Amount uint64
	Budget string
	Of     string
}

func (s *Settlement) visit(f *form) {
	f.count("amount", &s.Amount)
	f.text("budget", required, &s.Budget, ruleName)
	f.text("of", optional, &s.Of, words128)
}

var (
	outcomeWord = word{"an outcome", func(s string) bool { return Outcome(s).Known() && Outcome(s) != Denied }}
	deniedWord  = oneOf("DENIED")
	endingWord  = word{"a reason of an outcome", func(s string) bool { return ReasonCode(s).endsRun() }}
	formWord    = oneOf("jcs", "raw")
)

func (r *Receipt) visit(f *form, h *Header) {
	if r.Decision != nil {
		f.object("decision", true, r.Decision.visit)
		h.front(f)
		f.text("outcome", required, (*string)(&r.Outcome), deniedWord)
		h.links(f)
		h.back(f)
		f.time("time", required, &h.Time)
		return
	}
	f.digest("argsHash", &r.ArgsHash)
	f.digest("decisionHash", &r.DecisionHash)
	f.digest("effectHash", &r.EffectHash)
	f.text("effectType", required, (*string)(&r.EffectType), effectWord)
	f.maybe("factsHash", &r.FactsHash)
	h.front(f)
	f.text("outcome", required, (*string)(&r.Outcome), outcomeWord)
	f.text("outputForm", optional, &r.OutputForm, formWord)
	f.maybe("outputHash", &r.OutputHash)
	h.links(f)
	f.text("reason", required, (*string)(&r.Reason), endingWord)
	if f.has("sandbox", r.Sandbox != nil) {
		if r.Sandbox == nil {
			r.Sandbox = new(SandboxUse)
		}
		f.object("sandbox", true, func(f *form) {
			f.count("gas", &r.Sandbox.Gas)
			f.maybe("grants", &r.Sandbox.Grants)
			f.digest("module", &r.Sandbox.Module)
			f.text("profile", required, &r.Sandbox.Profile, words128)
		})
	}
	h.back(f)
	list(f, "settled", optional, 1, MaxCharges, &r.Settled, (*Settlement).visit)
	f.texts("signals", optional, 1, MaxListed, &r.Signals, id)
	f.time("time", required, &h.Time)
	f.text("tool", required, &r.Tool, toolName)
	f.verdict(&r.Verdict)
}

// Effect is the record that the effectHash of a receipt is computed over.
type Effect struct {
	EffectType EffectType
	InputHash  Digest // the receipt's argsHash
	OutputHash *Digest
	ToolName   string
}

// Hash returns the digest of the canonical form. It is written by hand because it is never read and
// is made for every call that runs.
func (e *Effect) Hash() Digest {
	var buf [512]byte
	b := crypto.AppendString(append(buf[:0], `{"effectType":`...), string(e.EffectType))
	b, _ = e.InputHash.AppendText(append(b, `,"inputHash":"`...))
	if e.OutputHash != nil {
		b, _ = e.OutputHash.AppendText(append(b, `","outputHash":"`...))
	}
	b = crypto.AppendString(append(b, `","toolName":`...), e.ToolName)
	return crypto.Sum(append(b, '}'))
}

// Effect returns the effect of a receipt that is not a denial.
func (r *Receipt) Effect() Effect {
	return Effect{r.EffectType, r.ArgsHash, r.OutputHash, r.Tool}
}

// check tests what holds for every receipt by itself.
func (r *Receipt) check(h *Header, fail func(field, what string)) {
	if r.Decision != nil {
		r.Decision.check(h, false, func(field, what string) { fail("decision."+field, what) })
		return
	}
	if field, what := r.departs(); what != "" {
		fail(field, what)
		return
	}
	effect := r.Effect()
	switch {
	case r.EffectHash != effect.Hash():
		fail("effectHash", "does not recompute")
	case h.Prev != r.DecisionHash && !slices.Contains(h.Parents, r.DecisionHash):
		fail("parents", "the decision is neither prev nor among them")
	case h.Session == SessionRefused:
		fail("session", "holds denials only")
	}
}

// Check tests a receipt that is not a denial against the table of outcomes, for code that builds
// one. A reader tests the same, and recomputes the hashes.
func (r *Receipt) Check() error {
	if r.Decision != nil {
		return &FormatError{Record, "decision", "of a denial, which is judged in its place in the log"}
	}
	for _, f := range [...]struct {
		name, text string
		w          word
	}{{"effectType", string(r.EffectType), effectWord}, {"tool", r.Tool, toolName}} {
		if !f.w.ok(f.text) {
			return &FormatError{Record, f.name, "not " + f.w.what}
		}
	}
	if r.OutputForm != "" && !formWord.ok(r.OutputForm) {
		return &FormatError{Record, "outputForm", "not " + formWord.what}
	}
	if s := r.Sandbox; s != nil && (s.Gas > crypto.MaxInt || !words128.ok(s.Profile)) {
		return &FormatError{Record, "sandbox", "outside its limits"}
	}
	if !ascends(r.Signals, func(a, b *string) int { return strings.Compare(*a, *b) }) || len(r.Signals) > MaxListed ||
		slices.ContainsFunc(r.Signals, func(s string) bool { return !IsID(s) }) {
		return &FormatError{Record, "signals", "not at most 16 ids, sorted and unique"}
	}
	if field, what := r.departs(); what != "" {
		return &FormatError{Record, field, what}
	}
	return nil
}

// departs returns the field in which a receipt that is not a denial departs from the table of
// outcomes.
func (r *Receipt) departs() (field, what string) {
	row := r.Reason.row()
	if row == nil || !r.Reason.endsRun() {
		return "reason", "not that of an outcome"
	}
	switch {
	case r.Outcome != row.outcome:
		return "outcome", "not that of the reason"
	case r.Verdict != row.verdict:
		return "verdict", "not that of the reason"
	case (r.OutputHash != nil) != (r.OutputForm != ""), !row.partly && row.output != (r.OutputHash != nil):
		return "outputHash", "there iff the reason has an output"
	case row.partly && r.OutputHash != nil && *r.OutputHash == crypto.Sum(nil):
		return "outputHash", "of no bytes"
	case r.FactsHash != nil && (r.Outcome != Executed || r.OutputForm != "jcs"):
		return "factsHash", "goes with EXECUTED and jcs only"
	case len(r.Signals) > 0 && (r.OutputHash == nil || r.Outcome == Withheld):
		return "signals", "of no output that was released"
	case r.Sandbox != nil && r.Reason == ReasonOutcomeUnknown:
		return "sandbox", "of a run that nobody saw"
	case r.Sandbox != nil && (r.Sandbox.Grants == nil) != (r.Sandbox.Profile == ProfileReported):
		return "sandbox.grants", missingGrants
	case row.exhausts && (r.Sandbox == nil || r.Sandbox.Grants == nil):
		return "sandbox", "missing, though one of its limits ended the run"
	}
	return "", ""
}
