package contracts

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// Profiles that no document declares.
const (
	ProfilePure     = "pure"     // the zero Sandbox
	ProfileReported = "reported" // the tool ran elsewhere, and its outcome was reported
)

const missingGrants = "missing with the profile reported, and only with it"

// Limits of docs/FORMATS.md sections 1 and 2, the same for writers and readers. Lengths are in
// bytes.
const (
	MaxEntry       = 32 << 10 // length of an entry
	MaxPayload     = 16 << 10 // length of an entry's payload
	MaxEnvelope    = 32 << 10 // length of an envelope that a caller presents
	MaxInputs      = 4 << 20  // length of an inputs document
	MaxPresented   = 1 << 20  // length of the envelopes of one call together, and of its facts together
	MaxInputsDepth = 64 + 2   // nesting of an inputs document
	MaxRecordDepth = 128      // nesting of all JSON but arguments and inputs
	MaxParents     = 32       // entries that one entry may name besides Prev
	MaxRoles       = 32       // roles of a caller, a key or a request
	MaxListed      = 16       // approvals, attestations or signals of one call
	MaxCharges     = 8        // budgets that one call charges
	MaxDocuments   = 64       // documents of one policy stack
	MaxRole        = 64       // length of a role
	MaxWords       = 128      // length of a label, a sandbox profile, a signer's name and the like
	MaxCallerID    = 256      // length of a caller's id, a tenant, an idempotency key

	maxID           = 64  // length of the id of a bundle, rule, budget, document, fact or signal
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

// A word is a form that a string must have. The text what completes "not …" in an error.
type word struct {
	what string
	ok   func(string) bool
}

var (
	sessionName = word{"a session name", func(s string) bool {
		return s == SessionKernel || s == SessionRefused || IsSession(s)
	}}
	askedName  = word{"a session name", IsSession}
	originName = word{"an origin", IsOrigin}
	toolName   = word{"a tool name", IsTool}
	id         = word{"an id", IsID}
	ruleName   = word{"layer:bundle:id", func(s string) bool {
		if len(s) < 6 || s[0] != 'P' || s[1] < '0' || s[1] > '2' || s[2] != ':' {
			return false
		}
		bundle, id, ok := strings.Cut(s[3:], ":")
		return ok && IsID(bundle) && IsID(id)
	}}
	sourceName = word{"user or tool#fact", func(s string) bool { // of provenance
		tool, fact, ok := strings.Cut(s, "#")
		return s == "user" || ok && IsTool(tool) && IsID(fact)
	}}
	words64     = wordsOf(MaxRole)
	words128    = wordsOf(MaxWords)
	words256    = wordsOf(MaxCallerID)
	subjectName = wordsOf(maxSubjectName)
	decisionID  = word{"session/seq", func(s string) bool { return IsWords(s, maxDecisionName) }}
	nonceText   = word{"32 lower-case hex digits", func(s string) bool {
		return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
	}}
	kindName = word{"a predicate type", func(s string) bool {
		s, starts := strings.CutPrefix(s, kindPrefix)
		s, ends := strings.CutSuffix(s, kindSuffix)
		return starts && ends && s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
	}}
	effectWord = oneOf("read", "write", "destructive")
	riskWord   = oneOf("low", "medium", "high")
	rawWord    = oneOf("raw")
	windowWord = word{"session, total or a time", func(s string) bool {
		_, err := ParseTime(s)
		return s == "session" || s == "total" || err == nil
	}}
)

func wordsOf(max int) word {
	what := "1 to " + strconv.Itoa(max) + " bytes without control characters"
	return word{what, func(s string) bool { return IsWords(s, max) }}
}

func oneOf(list ...string) word {
	return word{"one of " + strings.Join(list, " "), func(s string) bool { return slices.Contains(list, s) }}
}

// IsWords reports whether s is not empty, has no control characters, is valid UTF-8, and is at most
// max bytes long in canonical JSON without the quotes.
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

// IsSession reports whether s may name a session in a request.
func IsSession(s string) bool { return len(s) <= maxName && consistsOf(s, "._:@/-") && s[0] != '@' }

// IsTool reports whether s may name a tool.
func IsTool(s string) bool { return len(s) <= maxName && consistsOf(s, "._:@/-") }

// IsOrigin reports whether s may name a log.
func IsOrigin(s string) bool { return len(s) <= maxOrigin && consistsOf(s, "._/-") }

// IsID reports whether s may name a bundle, a rule, a budget, a document, a fact or a signal.
func IsID(s string) bool { return len(s) <= maxID && consistsOf(s, "._-") }

// consistsOf reports whether s is not empty and has only ASCII letters, digits and the bytes of
// others.
func consistsOf(s, others string) bool {
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

// Hashed returns the name that a record has in place of s if s breaks the limits of its field:
// sha256: and the digest of its bytes.
func Hashed(s string) string { return hashedName + crypto.Sum([]byte(s)).String() }

// IsHashed reports whether s has the form that [Hashed] returns.
func IsHashed(s string) bool {
	if len(s) != len(hashedName)+64 || s[:len(hashedName)] != hashedName {
		return false
	}
	_, err := crypto.ParseDigest(s[len(hashedName):])
	return err == nil
}
