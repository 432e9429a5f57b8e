package contracts

import (
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// Every combination of outcome, verdict, reason, output and facts: a reader accepts exactly those
// in the table, and so does a builder.
func TestReceiptTable(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	type row struct {
		outcome Outcome
		verdict Verdict
		output  bool
		perhaps bool // an output
	}
	table := map[ReasonCode]row{ // docs/FORMATS.md section 4, written down once more
		"ALLOW":                        {Executed, Allow, true, false},
		"TOOL_ERROR":                   {Failed, Allow, false, true},
		"TOOL_PANIC":                   {Failed, Deny, false, false},
		"ERR_COMPUTE_GAS_EXHAUSTED":    {Failed, Deny, false, false},
		"ERR_COMPUTE_TIME_EXHAUSTED":   {Failed, Deny, false, false},
		"ERR_COMPUTE_MEMORY_EXHAUSTED": {Failed, Deny, false, false},
		"ERR_CONNECTOR_CONTRACT_DRIFT": {Withheld, Deny, true, false},
		"ERR_COMPUTE_OUTPUT_EXHAUSTED": {Withheld, Deny, false, false},
		"TOOL_TIMEOUT":                 {Indeterminate, Deny, false, false},
		"TOOL_CANCELED":                {Indeterminate, Deny, false, false},
		"OUTCOME_UNKNOWN":              {Indeterminate, Deny, false, false},
	}
	exhaustions := map[ReasonCode]bool{ // which nothing but a sandbox with grants ends a run with
		"ERR_COMPUTE_GAS_EXHAUSTED": true, "ERR_COMPUTE_TIME_EXHAUSTED": true, "ERR_COMPUTE_MEMORY_EXHAUSTED": true}
	reasons := []ReasonCode{"", "NO_SUCH_REASON", "allow"}
	for r := range Reasons() {
		reasons = append(reasons, r)
	}
	out := digest("output")
	cases, taken := 0, 0
	for _, reason := range reasons {
		for _, outcome := range append(outcomes, "", "DONE") {
			for _, verdict := range []Verdict{Deny, Allow} {
				for _, form := range []string{"", "jcs", "raw", "utf8"} {
					for variant := range 8 {
						r := &Receipt{Outcome: outcome, Verdict: verdict, Reason: reason, ArgsHash: digest("args"),
							DecisionHash: digest("prev"), EffectType: Write, Tool: "t", OutputForm: form}
						if variant&1 != 0 {
							r.OutputHash = &out
						}
						if variant&2 != 0 {
							r.FactsHash = &out
						}
						if variant&4 != 0 {
							r.Sandbox = &SandboxUse{Gas: 1, Profile: "wasi", Grants: &out}
						}
						effect := r.Effect()
						r.EffectHash = effect.Hash()
						cases++
						want, ok := table[reason]
						ok = ok && outcome == want.outcome && verdict == want.verdict && form != "utf8" &&
							(form != "") == (r.OutputHash != nil) && (want.perhaps || (form != "") == want.output) &&
							(r.FactsHash == nil || outcome == Executed && form == "jcs") && (r.Sandbox == nil ||
							reason != ReasonOutcomeUnknown) && (r.Sandbox != nil || !exhaustions[reason])
						if err := r.Check(); (err == nil) != ok {
							t.Fatalf("%s %s %s %q %d: Check says %v", outcome, verdict, reason, form, variant, err)
						}
						st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Lamport: 1, Seq: 1,
							Session: "s", Time: 5}, Receipt: r}
						if outcome == Denied {
							continue // which a reader takes for a denial, and finds without its decision
						}
						_, err := reopen(t, st.Append(nil))
						require.Equal(t, ok, err == nil, "%s %s %s %q %d: a reader says %v", outcome, verdict, reason,
							form, variant, err)
						if ok {
							taken++
						}
					}
				}
			}
		}
	}
	// ALLOW: jcs with facts or without, and raw; drift: jcs and raw; the tool's own error: those
	// and none; four without an output; each with a sandbox or without. Three exhaustions with a
	// sandbox. And unknown.
	want := 2*(3+2+3+4) + 3 + 1
	assert.True(t, taken == want && cases >= 10_000, "%d of %d combinations are taken, want %d", taken, cases, want)
}

// A failed tool's output is recorded iff there is one: the hash of no bytes says that there is
// none.
func TestReceiptOfAFailedOutput(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"jcs", "raw"} {
		for text, ok := range map[string]bool{"": false, "x": true} {
			out := digest(text)
			if text == "" {
				out = crypto.Sum(nil)
			}
			r := &Receipt{Outcome: Failed, Verdict: Allow, Reason: ReasonToolError, ArgsHash: digest("args"),
				DecisionHash: digest("prev"), EffectType: Write, Tool: "t", OutputForm: form, OutputHash: &out}
			effect := r.Effect()
			r.EffectHash = effect.Hash()
			assert.Equal(t, ok, r.Check() == nil, "%s %q", form, text)
			st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Lamport: 1, Seq: 1,
				Session: "s", Time: 5}, Receipt: r}
			_, err := reopen(t, st.Append(nil))
			assert.Equal(t, ok, err == nil, "%s %q: %v", form, text, err)
		}
	}
}

// A builder is held to the limits that a reader has.
func TestCheckHoldsLimits(t *testing.T) {
	t.Parallel()
	good := Receipt{Outcome: Failed, Verdict: Allow, Reason: ReasonToolError, EffectType: Write, Tool: "t",
		Sandbox: &SandboxUse{Gas: crypto.MaxInt, Profile: strings.Repeat("x", 128), Grants: new(Digest)}}
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*Receipt){
		"gas":        func(r *Receipt) { r.Sandbox = &SandboxUse{Gas: crypto.MaxInt + 1, Profile: "p", Grants: new(Digest)} },
		"no profile": func(r *Receipt) { r.Sandbox = &SandboxUse{} },
		"a long profile": func(r *Receipt) {
			r.Sandbox = &SandboxUse{Gas: 1, Profile: strings.Repeat("x", 129), Grants: new(Digest)}
		},
		"no effect":        func(r *Receipt) { r.EffectType = "" },
		"effect of no one": func(r *Receipt) { r.EffectType = "execute" },
		"no tool":          func(r *Receipt) { r.Tool = "" },
		"a denial":         func(r *Receipt) { r.Decision = new(DecisionRecord) },
	} {
		r := good
		if spoil(&r); r.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A denial has each reason at its own condition and at no other, in a session in which it belongs.
func TestDenialTable(t *testing.T) {
	t.Parallel()
	taken, designs := 0, designed(t)
	for reason := range Reasons() {
		want := designs[reason]
		for condition := range 10 {
			for _, session := range []string{"chat", SessionRefused, SessionKernel} {
				d := &DecisionRecord{Condition: condition, Reason: reason, Tool: "t", ArgsHash: digest("args"),
					PolicyHash: digest("policy")}
				if reason.NamesRule() {
					d.Rule = "P1:bank:scope"
				}
				if reason == ReasonApprovalRequired {
					d.Pending = ptr(digest("request"))
				}
				if reason == ReasonIdempotencyConflict {
					d.Idempotency = "k"
				}
				if reason == ReasonThreatSignalDetected {
					d.Signals = []string{"nul"}
				}
				if reason != ReasonToolNotFound {
					d.EffectType, d.Risk = Read, Low
				}
				d.Seal(session, 3, digest("inputs"))
				st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Lamport: 1, Seq: 3,
					Session: session, Time: 5}, Receipt: &Receipt{Outcome: Denied, Decision: d}}
				ok := want.Logged && want.Outcome == Denied && condition <= 8 && (condition == want.Condition ||
					want.Condition == AnyCondition)
				switch session {
				case SessionKernel:
					ok = false
				case SessionRefused:
					ok = ok && condition == 0
				default:
					ok = ok && reason != ReasonSessionClosed
				}
				_, err := reopen(t, st.Append(nil))
				assert.Equal(t, ok, err == nil, "%s at %d in %q: %v", reason, condition, session, err)
				if ok {
					taken++
				}
			}
		}
	}
	assert.True(t, taken >= 24+5+9, "%d denials are taken", taken)
}

// The rules for a judgement by itself, one departure a case.
func TestDecisionDepartures(t *testing.T) {
	t.Parallel()
	at := Time(1767225600123)
	allow := func() *DecisionRecord {
		return &DecisionRecord{ArgsHash: digest("args"), Condition: 8, EffectType: Write, Expires: at, Risk: High,
			PolicyHash: digest("policy"), Reason: ReasonAllow,
			Rule: "P1:bank:pay", Tool: "t", Verdict: Allow}
	}
	deny := func() *DecisionRecord {
		return &DecisionRecord{ArgsHash: digest("args"), Condition: 5, EffectType: Write, Risk: Low,
			PolicyHash: digest("policy"), Reason: ReasonNoPolicyDefined, Tool: "t"}
	}
	charge := func(budget, of string, before, amount, limit uint64) Charge {
		return Charge{Amount: amount, Before: before, Budget: budget, Limit: limit, Of: of, Window: "total"}
	}
	type spoil struct {
		name  string
		base  func() *DecisionRecord
		do    func(*DecisionRecord)
		after func(*DecisionRecord) // the seal
		field string                // "": taken
	}
	read := func(s spoil) error {
		d := s.base()
		if s.do != nil {
			s.do(d)
		}
		d.Seal("chat", 3, digest("inputs"))
		if s.after != nil {
			s.after(d)
		}
		st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Lamport: 1, Seq: 3, Session: "chat",
			Time: at}}
		if s.base().Verdict == Allow {
			st.Decision = d
		} else {
			st.Receipt = &Receipt{Outcome: Denied, Decision: d}
		}
		_, err := reopen(t, st.Append(nil))
		return err
	}
	for _, s := range []spoil{
		{"allow", allow, nil, nil, ""},
		{"deny", deny, nil, nil, ""},
		{"charges", allow, func(d *DecisionRecord) {
			d.Charges = []Charge{charge("P1:a:b", "", 0, 1, 1), charge("P1:a:b", "x", 4, 1, 5),
				charge("P1:a:c", "", 0, 0, 0)}
		}, nil, ""},
		{"verdict turned", allow, func(d *DecisionRecord) { d.Verdict = Deny }, nil, "verdict"},
		{"denial that allows", deny, func(d *DecisionRecord) { d.Verdict = Allow }, nil, "verdict"},
		{"allow for another reason", allow, func(d *DecisionRecord) { d.Reason = ReasonPolicyViolation }, nil,
			"reason"},
		{"denied ALLOW", deny, func(d *DecisionRecord) { d.Reason = ReasonAllow }, nil, "reason"},
		{"condition", allow, func(d *DecisionRecord) { d.Condition = 7 }, nil, "condition"},
		{"no rule", allow, func(d *DecisionRecord) { d.Rule = "" }, nil, "rule"},
		{"rule of none", deny, func(d *DecisionRecord) { d.Rule = "P1:a:b" }, nil, "rule"},
		{"scope by another word", deny,
			func(d *DecisionRecord) { d.Reason, d.Condition, d.Rule = ReasonDestinationNotAllowed, 2, "P1:a:b" }, nil,
			"rule"},
		{"id", allow, nil, func(d *DecisionRecord) { d.ID = "chat/4" }, "id"},
		{"hash", allow, nil, func(d *DecisionRecord) { d.PolicyDecisionHash[0] ^= 1 }, "policyDecisionHash"},
		{"inputs after the hash", allow, nil, func(d *DecisionRecord) { d.InputsHash[0] ^= 1 }, "policyDecisionHash"},
		{"rule after the hash", allow, nil, func(d *DecisionRecord) { d.Rule = "P1:bank:other" }, "policyDecisionHash"},
		{"no effect", allow, func(d *DecisionRecord) { d.EffectType, d.Risk = "", "" }, nil, "effectType"},
		{"no effect, denied late", deny, func(d *DecisionRecord) { d.EffectType, d.Risk = "", "" }, nil, "effectType"},
		{"effect without risk", allow, func(d *DecisionRecord) { d.Risk = "" }, nil, "risk"},
		{"risk without effect", deny,
			func(d *DecisionRecord) { d.Reason, d.Condition, d.EffectType = ReasonDriverNotBound, 1, "" }, nil, "risk"},
		{"effect of no tool", deny, func(d *DecisionRecord) { d.Reason, d.Condition = ReasonToolNotFound, 1 }, nil,
			"effectType"},
		{"no expiry", allow, func(d *DecisionRecord) { d.Expires = 0 }, nil, "expires"},
		{"expires before", allow, func(d *DecisionRecord) { d.Expires = at - 1 }, nil, "expires"},
		{"expiry of a denial", deny, func(d *DecisionRecord) { d.Expires = at }, nil, "expires"},
		{"pending of another reason", deny, func(d *DecisionRecord) { d.Pending = ptr(digest("x")) }, nil, "pending"},
		{"nothing pending", deny,
			func(d *DecisionRecord) { d.Reason, d.Condition, d.Rule = ReasonApprovalRequired, 4, "P1:a:b" }, nil,
			"pending"},
		{"raw arguments allowed", allow, func(d *DecisionRecord) { d.ArgsForm = "raw" }, nil, "argsForm"},
		{"raw arguments judged", deny, func(d *DecisionRecord) { d.ArgsForm = "raw" }, nil, "argsForm"},
		{"conflict of no key", deny, func(d *DecisionRecord) { d.Reason, d.Condition = ReasonIdempotencyConflict, 0 },
			nil, "idempotency"},
		{"charges of a denial", deny, func(d *DecisionRecord) { d.Charges = []Charge{charge("P1:a:b", "", 0, 1, 1)} },
			nil, "charges"},
		{"charges not sorted", allow, func(d *DecisionRecord) {
			d.Charges = []Charge{charge("P1:a:c", "", 0, 1, 1), charge("P1:a:b", "", 0, 1, 1)}
		}, nil, "charges"},
		{"charges of one not sorted", allow, func(d *DecisionRecord) {
			d.Charges = []Charge{charge("P1:a:b", "y", 0, 1, 1), charge("P1:a:b", "x", 0, 1, 1)}
		}, nil, "charges"},
		{"charged twice", allow, func(d *DecisionRecord) {
			d.Charges = []Charge{charge("P1:a:b", "x", 0, 1, 9), charge("P1:a:b", "x", 1, 1, 9)}
		}, nil, "charges"},
		{"over the limit", allow, func(d *DecisionRecord) { d.Charges = []Charge{charge("P1:a:b", "", 1, 1, 1)} }, nil,
			"charges"},
		{"session window of another", allow, func(d *DecisionRecord) {
			d.Charges = []Charge{{Amount: 1, Budget: "P1:a:b", Limit: 1, Of: "elsewhere", Window: "session"}}
		}, nil, "charges"},
		{"window of tomorrow", allow, func(d *DecisionRecord) {
			d.Charges = []Charge{{Amount: 1, Budget: "P1:a:b", Limit: 1, Window: (at + 1).String()}}
		}, nil, "charges"},
		{"window that is a word", allow, func(d *DecisionRecord) {
			d.Charges = []Charge{{Amount: 1, Budget: "P1:a:b", Limit: 1, Window: "day"}}
		}, nil, "charges"},
		{"nine charges", allow, func(d *DecisionRecord) {
			for _, of := range strings.Split("abcdefghi", "") {
				d.Charges = append(d.Charges, charge("P1:a:b", of, 0, 1, 1))
			}
		}, nil, "charges"},
		{"seventeen signals", allow, func(d *DecisionRecord) { d.Signals = strings.Split("abcdefghijklmnopq", "") },
			nil, "signals"},
		{"signals not sorted", allow, func(d *DecisionRecord) { d.Signals = []string{"b", "a"} }, nil, "signals"},
		{"a role twice", allow, func(d *DecisionRecord) { d.Caller.Roles = []string{"a", "a"} }, nil, "caller"},
		{"a role of 65 bytes", allow, func(d *DecisionRecord) { d.Caller.Roles = []string{strings.Repeat("x", 65)} },
			nil, "caller"},
		{"a caller of 257 bytes", allow, func(d *DecisionRecord) { d.Caller.ID = strings.Repeat("x", 257) }, nil,
			"caller"},
		{"a key of 257 bytes", allow, func(d *DecisionRecord) { d.Idempotency = strings.Repeat("x", 257) }, nil,
			"idempotency"},
		{"a tool with a space", allow, func(d *DecisionRecord) { d.Tool = "a b" }, nil, "tool"},
		{"a risk nobody knows", allow, func(d *DecisionRecord) { d.Risk = "extreme" }, nil, "risk"},
		{"an effect nobody knows", allow, func(d *DecisionRecord) { d.EffectType = "execute" }, nil, "effectType"},
		{"a reason that is never logged", deny,
			func(d *DecisionRecord) { d.Reason, d.Condition = ReasonKernelSealed, 0 }, nil, "reason"},
	} {
		err := read(s)
		if s.field == "" {
			assert.NoError(t, err, "%s", s.name)
			continue
		}
		assert.True(t, isFault(err, Record, "predicate.decision."+s.field), "%s: %v, want a fault of %s", s.name, err,
			s.field)
	}
	// The first moment of 1970 is not no expiry at all.
	d := deny()
	d.Seal("chat", 3, digest("inputs"))
	st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Seq: 3, Session: "chat", Time: at},
		Receipt: &Receipt{Outcome: Denied, Decision: d}}
	bad := strings.Replace(string(st.Append(nil)), `"id":"chat/3"`,
		`"expires":"1970-01-01T00:00:00.000Z","id":"chat/3"`, 1)
	_, err := reopen(t, []byte(bad))
	assert.True(t, err != nil && strings.Contains(err.Error(), "expires"), "a denial that expires in 1970: %v", err)
}

// The effect's hash is the digest of the canonical object, for any tool name.
func TestEffectHash(t *testing.T) {
	out := digest("output")
	for _, e := range []Effect{{Write, digest("args"), nil, "fs.write"}, {Read, digest("args"), &out, "@a/b:c"},
		{Destructive, digest("args"), &out, strings.Repeat("x", 128)}} {
		text := `{"toolName":"` + e.ToolName + `","inputHash":"` + e.InputHash.String() + `","effectType":"` +
			string(e.EffectType) + `"`
		if e.OutputHash != nil {
			text += `,"outputHash":"` + e.OutputHash.String() + `"`
		}
		want, err := jcs.Transform([]byte(text + "}"))
		require.NoError(t, err)
		assert.Equal(t, crypto.Sum(want), e.Hash(), "%s", want)
		if n := testing.AllocsPerRun(100, func() { e.Hash() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
