package contracts

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// Limits of docs/FORMATS.md sections 1 and 2, for writers and readers alike. Lengths are in bytes.
const (
	MaxEntry       = 32 << 10 // length of an entry
	MaxPayload     = 16 << 10 // length of an entry's payload
	MaxEnvelope    = 32 << 10 // length of an envelope that a caller presents
	MaxInputs      = 4 << 20  // length of an inputs document
	MaxPresented   = 1 << 20  // length of a call's envelopes together, and of its facts
	MaxInputsDepth = 64 + 2   // nesting of an inputs document
	MaxRecordDepth = 128      // nesting of all JSON but arguments and inputs
	MaxParents     = 32       // entries that one names beside prev
	MaxRoles       = 32       // roles of a caller, a key or a request
	MaxListed      = 16       // approvals, attestations and signals, of each
	MaxCharges     = 8        // budgets that one call charges
	MaxDocuments   = 64       // documents of one policy stack
	MaxRole        = 64       // length of a role
	MaxWords       = 128      // length of a label, a sandbox profile, a signer's name and the like
	MaxCallerID    = 256      // length of a caller's id, a tenant, an idempotency key

	maxID           = 64  // length of the id of a bundle, rule, budget, document or signal
	maxName         = 128 // length of a session's or a tool's name
	maxOrigin       = 255 // length of a log's name
	maxSubjectName  = maxOrigin
	maxDecisionName = maxName + 1 + 16 // session/seq
)

// Sessions that have a name of their own.
const (
	SessionKernel  = ""         // the kernel's own chain
	SessionRefused = "@refused" // holds denials that their own session cannot hold
	DefaultSession = "main"     // stands for no session in a request
)

const (
	hashedName    = "sha256:"
	statementType = "https://in-toto.io/Statement/v1"
	payloadType   = "application/vnd.in-toto+json"
	kindPrefix    = "https://github.com/helmkernel/helm/"
	kindSuffix    = "/v1"
)

// A word is a form that a string must have.
type word struct {
	what string
	ok   func(string) bool
}

var (
	sessionName = word{"a session name", func(s string) bool { return s == SessionKernel || s == SessionRefused || IsSession(s) }}
	askedName   = word{"a session name", IsSession}
	originName  = word{"an origin", IsOrigin}
	toolName    = word{"a tool name", IsTool}
	id          = word{"an id", IsID}
	ruleName    = word{"layer:bundle:id", isRule}
	sourceName  = word{"user or tool#fact", isSource}
	words64     = word{"1 to 64 bytes without control characters", func(s string) bool { return IsWords(s, MaxRole) }}
	words128    = word{"1 to 128 bytes without control characters", func(s string) bool { return IsWords(s, MaxWords) }}
	words256    = word{"1 to 256 bytes without control characters", func(s string) bool { return IsWords(s, MaxCallerID) }}
	subjectName = word{"1 to 255 bytes without control characters", func(s string) bool { return IsWords(s, maxSubjectName) }}
	decisionID  = word{"session/seq", func(s string) bool { return IsWords(s, maxDecisionName) }}
	nonceText   = word{"32 lower-case hex digits", isNonce}
	kindName    = word{"a predicate type", isKindName}
	effectWord  = oneOf("read", "write", "destructive")
	riskWord    = oneOf("low", "medium", "high")
	rawWord     = oneOf("raw")
	windowWord  = word{"session, total or a time", func(s string) bool {
		_, err := ParseTime(s)
		return s == "session" || s == "total" || err == nil
	}}
)

func oneOf(list ...string) word {
	return word{"one of " + strings.Join(list, " "), func(s string) bool { return slices.Contains(list, s) }}
}

// IsWords tells whether s is not empty, has no control characters, and is at most max bytes in its canonical JSON form without quotes.
func IsWords(s string, max int) bool {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c == 0x7f:
			return false
		case c == '"' || c == '\\':
			n++
		}
	}
	return n > 0 && n <= max && utf8.ValidString(s)
}

// IsSession tells whether s may name a session of a caller.
func IsSession(s string) bool { return len(s) <= maxName && made(s, "._:@/-") && s[0] != '@' }

// IsTool tells whether s may name a tool.
func IsTool(s string) bool { return len(s) <= maxName && made(s, "._:@/-") }

// IsOrigin tells whether s may name a log.
func IsOrigin(s string) bool { return len(s) <= maxOrigin && made(s, "._/-") }

// IsID tells whether s may name a bundle, a rule, a budget, a document or a signal.
func IsID(s string) bool { return len(s) <= maxID && made(s, "._-") }

// made tells whether s is of letters, digits and the others, at least one.
func made(s, others string) bool {
next:
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' {
			continue
		}
		for j := range len(others) {
			if c == others[j] {
				continue next
			}
		}
		return false
	}
	return s != ""
}

// isRule accepts layer:bundle:id.
func isRule(s string) bool {
	if len(s) < 6 || s[0] != 'P' || s[1] < '0' || s[1] > '2' || s[2] != ':' {
		return false
	}
	for i := 3; i < len(s); i++ {
		if s[i] == ':' {
			return IsID(s[3:i]) && IsID(s[i+1:])
		}
	}
	return false
}

// isSource accepts the sources of provenance: the user's own words, or a fact of a tool.
func isSource(s string) bool {
	tool, fact, ok := strings.Cut(s, "#")
	return s == "user" || ok && IsTool(tool) && IsWords(fact, MaxWords) && !strings.Contains(fact, "#")
}

func isNonce(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 32
}

func isKindName(s string) bool {
	n := len(s) - len(kindPrefix) - len(kindSuffix)
	if n < 1 || s[:len(kindPrefix)] != kindPrefix || s[len(s)-len(kindSuffix):] != kindSuffix {
		return false
	}
	for _, c := range s[len(kindPrefix) : len(kindPrefix)+n] {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// Hashed is the name under which a string is recorded that breaks the limits of its field: sha256: and the digest of its bytes.
func Hashed(s string) string { return hashedName + crypto.Sum([]byte(s)).String() }

// IsHashed tells whether s has the form that Hashed gives.
func IsHashed(s string) bool {
	if len(s) != len(hashedName)+64 || s[:len(hashedName)] != hashedName {
		return false
	}
	_, err := crypto.ParseDigest(s[len(hashedName):])
	return err == nil
}
