// Package grammar has the words of policy documents and of files of cases: the keys of each kind of
// object, and the words that a key takes. The loaders read by these tables, and the schema for
// editors is made of them, so that the two cannot differ.
package grammar

import "slices"

// Layers of documents.
const (
	Floor   = "P0"
	Bundle  = "P1"
	Overlay = "P2"
)

// Words that keys take.
var (
	Formats  = []string{"policy/v1"}
	Effects  = []string{"read", "write", "destructive"}
	Risks    = []string{"low", "medium", "high"} // ascending
	Kept     = []string{"medium", "high"}        // risks from which on condense keeps
	Levels   = []string{"high", "medium", "low", "none"}
	Per      = []string{"caller", "tenant", "session", "tool", "all"}
	Windows  = []string{"hour", "day", "month", "session", "total"}
	Refunds  = []string{"error"}
	Clocks   = []string{"fixed", "real"}
	Randoms  = []string{"seeded", "real"}
	Types    = []string{"string", "number", "integer", "boolean", "array", "object"}
	Sessions = []string{"calls", "labels", "tainted"} // subjects of session
)

// Keys of documents, by layer, and of their parts.
var (
	FloorKeys = []string{
		"helm", "layer", "name", "version", "expires", "labels", "lists",
		"sandboxes", "profile", "ceilings", "threat", "condense", "rules", "requires", "budgets", "only",
	}
	BundleKeys = []string{
		"helm", "layer", "bundle", "expires", "labels", "lists", "sandboxes", "tools", "rules", "requires", "budgets",
	}
	OverlayKeys = []string{
		"helm", "layer", "name", "version", "expires", "for", "lists", "rules", "requires", "budgets", "only",
	}
	BundleName  = []string{"name", "version"}
	For         = []string{"session", "caller", "tenant"}
	Profile     = []string{"effects", "connectors", "sandbox"}
	Sandbox     = []string{"args", "clock", "env", "files", "gas", "memory", "modules", "output", "random"}
	Ceilings    = []string{"args", "depth", "output", "timeout", "calls", "risk"}
	Threat      = []string{"deny", "except", "outputs"}
	Condense    = []string{"after", "kept"}
	ToolExcept  = []string{"arg", "signals"}
	FloorExcept = []string{"arg", "signals", "tools"}
	Tool        = []string{
		"effect", "risk", "connector", "egress", "trusted", "labels",
		"input", "open", "output", "facts", "scope", "limits", "sandbox", "definition", "threat",
	}
	Limits      = []string{"timeout", "output", "args"}
	Fact        = []string{"at", "text", "trusted"}
	CountedFact = []string{"count"}
	Class       = []string{"effects", "egress"} // of tools
	Rule        = []string{"id", "allow", "deny", "when", "unless"}
	Requirement = []string{"id", "tools", "when", "unless", "all", "any"}
	Needs       = []string{"approval", "attestation", "receipt"}
	Approval    = []string{"roles", "quorum", "ttl"}
	Attestation = []string{"type", "bind", "max_age"}
	Budget      = []string{"id", "tools", "limit", "per", "window", "cost", "refund", "when", "unless"}
	Cost        = []string{"arg", "scale"}
)

// Keys of predicates.
var (
	Combinators = []string{"all", "any", "not"}
	Quantifiers = []string{"every", "some", "count"}
	Comparisons = []string{"eq", "ne", "lt", "le", "gt", "ge"}
	Subjects    = []string{"arg", "item", "caller", "time"} // and, of a receipt's facts, fact
	Operators   = []string{
		"eq", "ne", "in", "not_in", "lt", "le", "gt", "ge", "prefix", "suffix", "regex", "finds",
		"within", "url", "host", "email", "cidr", "age_le", "type", "exists", "has", "from",
	}
	ScopeTests = []string{"within", "url", "host", "email", "cidr", "in"}
	Scope      = slices.Concat([]string{"arg", "absent"}, ScopeTests)
	Receipt    = []string{"receipt", "same", "max_age", "that"}
	List       = []string{"list"}
	Reference  = []string{"arg", "caller"} // and, in that of a receipt, fact

	// Leaf are the keys that a predicate with a subject may have, Predicate those of all forms.
	Leaf      = slices.Concat(Subjects, []string{"fact"}, Operators, []string{"absent", "fold"})
	Predicate = slices.Concat(Leaf, Combinators, Quantifiers,
		[]string{"that", "session", "of", "receipt", "same", "max_age"})
)
