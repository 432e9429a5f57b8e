package grammar

import "slices"

// Words that keys of files of cases take.
var (
	CaseFormats = []string{"cases/v1"}
	Verdicts    = []string{"ALLOW", "DENY"}
	Drivers     = []string{"none", "two"}
	Words       = []string{"user"} // whose texts in a transcript are messages of the user
	KeyRoles    = []string{"approver", "attestor", "delegator", "freezer", "publisher", "root"}
)

// Keys of files of cases, and of their parts.
var (
	Cases      = []string{"helm", "policy", "time", "callers", "keys", "tools", "cases", "ignore"}
	CaseCaller = []string{"id", "tenant", "roles"}
	CaseKey    = []string{"role", "roles"}
	CaseStub   = []string{"output", "error", "panic", "lost"}
	CaseWant   = []string{"want", "reason", "rule", "why", "condition", "pending", "charges", "ran"}
	CaseAsked  = []string{"roles", "quorum"} // pending
	CaseAttest = []string{"by", "type", "claims"}
	CaseGrant  = []string{"by", "to", "only", "when", "depth"}
	CaseIgnore = []string{"at", "mutant", "why"}

	// CaseSteps are what a step before a call does: one of them, which has a key for the session.
	CaseSteps = []string{"call", "user", "after", "freeze", "close"}
	CaseCall  = slices.Concat([]string{
		"name", "call", "args", "raw", "caller", "session", "after_refs", "overlay", "approve", "refuse", "attest",
		"delegation", "idempotency", "driver", "definition", "sandbox",
	}, CaseStub, CaseWant)
	CaseRow        = slices.Concat(CaseCall, []string{"before", "skip", "freeze", "close"})
	Case           = slices.Concat(CaseRow, []string{"each"})
	CaseTranscript = []string{
		"name", "transcript", "calls", "words", "caller", "session", "before", "overlay", "sandbox", "skip",
	}
)
