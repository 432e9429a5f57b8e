package contracts

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// DecisionRecord is the judgement of a call, made before anything ran, and the data it was made
// from. An ALLOW is in a decision entry, a denial in a DENIED receipt. docs/FORMATS.md section 3.
type DecisionRecord struct {
	Approvals          []Digest // digests of the presented envelopes that counted; sorted
	ArgsForm           string   // "raw" if the arguments are not strict JSON; otherwise ""
	ArgsHash           Digest   // of the canonical arguments after defaults; if "raw", of the bytes as received
	Attestations       []Digest
	Caller             Caller
	Charges            []Charge
	Condition          int // the first that failed; 8 for ALLOW
	Delegation         *Digest
	EffectType         EffectType // "" if the tool is not declared
	Expires            Time       // 0 in a denial
	ID                 string     // session/seq
	Idempotency        string
	InputsHash         Digest
	Pending            *Digest // digest of the ApprovalRequest
	PolicyDecisionHash Digest
	PolicyHash         Digest
	Reason             ReasonCode
	Risk               Risk
	Rule               string   // layer:bundle:id
	Signals            []string // threat signals in the arguments
	Tool               string
	Verdict            Verdict
}

// Charge is the amount that an ALLOW takes from a budget.
type Charge struct {
	Amount uint64
	Before uint64 // the balance before the charge
	Budget string // layer:bundle:id
	Limit  uint64
	Of     string // whose balance; "" if all share it
	Window string // the first instant of the window, or "session", or "total"
}

func (c *Charge) visit(f *form) {
	f.count("amount", &c.Amount)
	f.count("before", &c.Before)
	f.text("budget", required, &c.Budget, ruleName)
	f.count("limit", &c.Limit)
	f.text("of", optional, &c.Of, words128)
	f.text("window", required, &c.Window, windowWord)
}

func (d *DecisionRecord) visit(f *form) {
	f.digests("approvals", optional, 1, MaxListed, &d.Approvals)
	f.text("argsForm", optional, &d.ArgsForm, rawWord)
	f.digest("argsHash", &d.ArgsHash)
	f.digests("attestations", optional, 1, MaxListed, &d.Attestations)
	f.object("caller", true, d.Caller.visit)
	list(f, "charges", optional, 1, MaxCharges, &d.Charges, (*Charge).visit)
	condition := uint64(d.Condition)
	f.uint("condition", required, &condition, 0, 8)
	d.Condition = int(condition)
	f.maybe("delegation", &d.Delegation)
	f.text("effectType", optional, (*string)(&d.EffectType), effectWord)
	f.time("expires", optional, &d.Expires)
	f.text("id", required, &d.ID, decisionID)
	f.text("idempotency", optional, &d.Idempotency, words256)
	f.digest("inputsHash", &d.InputsHash)
	f.maybe("pending", &d.Pending)
	f.digest("policyDecisionHash", &d.PolicyDecisionHash)
	f.digest("policyHash", &d.PolicyHash)
	f.text("reason", required, (*string)(&d.Reason), decisionReason)
	f.text("risk", optional, (*string)(&d.Risk), riskWord)
	f.text("rule", optional, &d.Rule, ruleName)
	f.texts("signals", optional, 1, MaxListed, &d.Signals, id)
	f.text("tool", required, &d.Tool, toolName)
	f.verdict(&d.Verdict)
}

var decisionReason = word{"a reason of a judgement", func(s string) bool {
	r := ReasonCode(s)
	return r == ReasonAllow || r.Known() && r.Condition() != NoCondition && !r.row().unlogged
}}

// Equal reports whether d and e have the same canonical form.
func (d *DecisionRecord) Equal(e *DecisionRecord) bool {
	switch {
	case d.Verdict != e.Verdict, d.Reason != e.Reason, d.Condition != e.Condition, d.Rule != e.Rule:
	case d.ID != e.ID, d.Tool != e.Tool, d.EffectType != e.EffectType, d.Risk != e.Risk:
	case d.ArgsForm != e.ArgsForm, d.Idempotency != e.Idempotency, d.Expires != e.Expires:
	case d.ArgsHash != e.ArgsHash, d.InputsHash != e.InputsHash:
	case d.PolicyHash != e.PolicyHash, d.PolicyDecisionHash != e.PolicyDecisionHash:
	case !sameDigest(d.Delegation, e.Delegation), !sameDigest(d.Pending, e.Pending):
	case !d.Caller.Equal(e.Caller), !slices.Equal(d.Charges, e.Charges):
	case !slices.Equal(d.Approvals, e.Approvals), !slices.Equal(d.Attestations, e.Attestations):
	case !slices.Equal(d.Signals, e.Signals):
	default:
		return true
	}
	return false
}

func sameDigest(a, b *Digest) bool { return a == b || a != nil && b != nil && *a == *b }

// Append appends the canonical form.
func (d *DecisionRecord) Append(dst []byte) []byte { return write(dst, d.visit) }

// scanned reports whether condition 7 may have been judged: for an ALLOW, and for a denial there or
// after it. Approvals, which belong to condition 4, are judged last.
func (d *DecisionRecord) scanned() bool {
	return d.Condition >= 7 || d.Condition == 4 && d.Reason != ReasonMissingRequirement
}

// Seal sets the fields that follow from the others: the id, the hash of the inputs, and the hash
// that binds the verdict to the policy and the inputs.
func (d *DecisionRecord) Seal(session string, seq uint64, inputs Digest) {
	d.ID = decisionName(session, seq)
	d.InputsHash = inputs
	d.PolicyDecisionHash = d.hash()
}

func decisionName(session string, seq uint64) string {
	var buf [maxDecisionName]byte
	return string(strconv.AppendUint(append(append(buf[:0], session...), '/'), seq, 10))
}

// hash returns the digest of canonical {condition, inputsHash, policyHash, reason, rule?, verdict}.
func (d *DecisionRecord) hash() Digest {
	var buf [512]byte
	b := append(buf[:0], `{"condition":`...)
	b = strconv.AppendInt(b, int64(d.Condition), 10)
	b, _ = d.InputsHash.AppendText(append(b, `,"inputsHash":"`...))
	b, _ = d.PolicyHash.AppendText(append(b, `","policyHash":"`...))
	b = crypto.AppendString(append(b, `","reason":`...), string(d.Reason))
	if d.Rule != "" {
		b = crypto.AppendString(append(b, `,"rule":`...), d.Rule)
	}
	b = crypto.AppendString(append(b, `,"verdict":`...), d.Verdict.String())
	return crypto.Sum(append(b, '}'))
}

// check tests what holds for every judgement by itself. allow says whether it is in a decision
// entry.
func (d *DecisionRecord) check(h *Header, allow bool, fail func(field, what string)) {
	declared := d.EffectType != ""
	switch {
	case bool(d.Verdict) != allow:
		fail("verdict", "decision entries hold ALLOW, DENIED receipts DENY")
	case allow != (d.Reason == ReasonAllow):
		fail("reason", "does not go with the verdict")
	case allow && d.Condition != 8 || !allow && !d.Reason.denies(d.Condition):
		fail("condition", "not that of the reason")
	case (d.Reason == ReasonSessionClosed) && h.Session != SessionRefused ||
		h.Session == SessionRefused && d.Condition != 0:
		fail("reason", "does not belong in this session")
	case d.ID != decisionName(h.Session, h.Seq):
		fail("id", "not session/seq")
	case d.PolicyDecisionHash != d.hash():
		fail("policyDecisionHash", "does not recompute")
	case !declared && (allow || d.Condition >= 2):
		fail("effectType", "missing, though the tool is declared")
	case declared && d.Reason == ReasonToolNotFound:
		fail("effectType", "of a tool that is not declared")
	case declared != (d.Risk != ""):
		fail("risk", "goes with effectType")
	case d.Reason.NamesRule() != (d.Rule != ""):
		fail("rule", "there iff the reason names one")
	case d.Reason == ReasonDestinationNotAllowed && !strings.HasSuffix(d.Rule, ":scope"):
		fail("rule", "the id is the word scope")
	case allow && d.Expires == 0:
		fail("expires", "missing field")
	case !allow && d.Expires != 0:
		fail("expires", "of a denial")
	case allow && d.Expires < h.Time:
		fail("expires", "before the entry's time")
	case (d.Reason == ReasonApprovalRequired) != (d.Pending != nil):
		fail("pending", "there iff an approval is required")
	case len(d.Signals) > 0 && !d.scanned():
		fail("signals", "condition 7 was not judged")
	case d.Reason == ReasonThreatSignalDetected && len(d.Signals) == 0:
		fail("signals", "missing field")
	case d.ArgsForm != "" && (allow || d.Condition != 0):
		fail("argsForm", "raw arguments are denied at condition 0")
	case d.Reason == ReasonIdempotencyConflict && d.Idempotency == "":
		fail("idempotency", "missing field")
	case !allow && len(d.Charges) > 0:
		fail("charges", "of a denial")
	}
	checkCharges(d.Charges, h.Session, h.Time, fail)
}

// checkCharges tests the charges of an ALLOW.
func checkCharges(charges []Charge, session string, at Time, fail func(field, what string)) {
	byBudget := func(a, b *Charge) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Of, b.Of))
	}
	if !ascends(charges, byBudget) {
		fail("charges", "not sorted by budget and of, and unique")
	}
	for _, c := range charges {
		start, err := ParseTime(c.Window)
		switch {
		case c.Before+c.Amount > c.Limit:
			fail("charges", "over the limit")
		case c.Window == "session" && c.Of != session:
			fail("charges.of", "a window of the session is charged to the session")
		case err == nil && start > at:
			fail("charges.window", "in the future")
		}
	}
}
