package contracts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmkernel/helm/crypto"
)

// DefinitionOf returns the digest of a tool's definition, from its JSON as the provider publishes
// it: of an MCP tool the whole object in the answer to tools/list. A policy pins it as the
// definition of the tool, and a driver declares it.
func DefinitionOf(json []byte) (Digest, error) {
	const most = 4 << 20
	var tree crypto.Tree
	if err := tree.Parse(json, crypto.Limits{Bytes: most, Depth: MaxRecordDepth, Object: true}); err != nil {
		return Digest{}, fmt.Errorf("contracts: definition: not one object of strict JSON, of at most 4 MiB: %w", err)
	}
	return crypto.Sum(tree.Root().Append(nil)), nil
}

// Digest is a SHA-256 hash.
type Digest = crypto.Digest

// Verdict is the answer to a call. There is no third value, and the zero value denies.
type Verdict bool

// The two verdicts.
const (
	Deny  Verdict = false
	Allow Verdict = true
)

// String returns "ALLOW" or "DENY".
func (v Verdict) String() string {
	if v {
		return "ALLOW"
	}
	return "DENY"
}

// MarshalText returns "ALLOW" or "DENY".
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the text that MarshalText returns. Any other text is an error and sets v to
// Deny.
func (v *Verdict) UnmarshalText(text []byte) error {
	*v = string(text) == "ALLOW"
	if !*v && string(text) != "DENY" {
		return errVerdict
	}
	return nil
}

// UnmarshalJSON refuses null, for which package json would not call UnmarshalText.
func (v *Verdict) UnmarshalJSON(b []byte) error {
	*v = Deny
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return errVerdict
	}
	return v.UnmarshalText(b[1 : len(b)-1])
}

var errVerdict = errors.New("contracts: verdict is neither ALLOW nor DENY")

// Outcome says how a call ended.
type Outcome string

// The outcomes.
const (
	Executed      Outcome = "EXECUTED"      // it ran; its output was released
	Failed        Outcome = "FAILED"        // it ran and failed
	Withheld      Outcome = "WITHHELD"      // it ran; its output was not released
	Indeterminate Outcome = "INDETERMINATE" // it ran, or may have
	Denied        Outcome = "DENIED"        // it did not run
)

// EffectType is the effect of a tool on the world: read, write or destructive.
type EffectType string

// The effect types.
const (
	Read        EffectType = "read"
	Write       EffectType = "write"
	Destructive EffectType = "destructive"
)

// Risk is the risk that a tool's declaration states: low, medium or high.
type Risk string

// The risks.
const (
	Low    Risk = "low"
	Medium Risk = "medium"
	High   Risk = "high"
)

// Time is a moment in milliseconds since 1970 UTC. Its text has exactly three fractional digits:
// 2006-01-02T15:04:05.000Z.
type Time int64

const (
	timeForm = "2006-01-02T15:04:05.000Z"
	maxTime  = Time(253402300799999) // 9999-12-31T23:59:59.999Z
)

// TimeOf returns t cut to milliseconds and clamped to the years 1970 to 9999, the only ones that
// records can hold.
func TimeOf(t time.Time) Time { return min(max(Time(t.UnixMilli()), 0), maxTime) }

// Time returns t as a [time.Time] in UTC.
func (t Time) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

// Add returns the time d later, at most the last of year 9999.
func (t Time) Add(d time.Duration) Time { return min(t+Time(d.Milliseconds()), maxTime) }

// String returns the text of t.
func (t Time) String() string { return string(t.append(nil)) }

func (t Time) append(b []byte) []byte {
	u := t.Time()
	year, month, day := u.Date()
	hour, minute, second := u.Clock()
	b = append(digits(b, year, 4), '-')
	b = append(digits(b, int(month), 2), '-')
	b = append(digits(b, day, 2), 'T')
	b = append(digits(b, hour, 2), ':')
	b = append(digits(b, minute, 2), ':')
	b = append(digits(b, second, 2), '.')
	return append(digits(b, u.Nanosecond()/1e6, 3), 'Z')
}

func digits(b []byte, n, width int) []byte {
	for p := [...]int{1, 10, 100, 1000}[width-1]; p > 0; p /= 10 {
		b = append(b, byte('0'+n/p%10))
	}
	return b
}

// ParseTime reads the text of a Time. Each Time has exactly one text.
func ParseTime(s string) (Time, error) {
	if len(s) != len(timeForm) || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' ||
		s[19] != '.' || s[23] != 'Z' {
		return 0, errTime
	}
	none := byte(0)
	n := func(from, to int) (n int) {
		for _, c := range []byte(s[from:to]) {
			none = max(none, c-'0')
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, month, day, hour, minute, second, ms := n(0, 4), n(5, 7), n(8, 10), n(11, 13), n(14, 16), n(17, 19), n(20, 23)
	if none > 9 || year < 1970 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 ||
		minute > 59 || second > 59 {
		return 0, errTime
	}
	if month <= 2 { // a year that starts in March ends with its leap day
		year, month = year-1, month+12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*month-457)/5 + day - 719469
	return Time(days)*86_400_000 + Time((hour*60+minute)*60_000+second*1000+ms), nil
}

func daysIn(year, month int) int {
	switch {
	case month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	case month == 2:
		return 28
	case month == 4, month == 6, month == 9, month == 11:
		return 30
	}
	return 31
}

var errTime = errors.New("contracts: time is not like 2006-01-02T15:04:05.000Z")

// Caller is the person or program that a tool is called for. The zero Caller is anonymous.
type Caller struct {
	ID     string
	Tenant string
	Roles  []string // in records: sorted, without repeats
}

// Equal reports whether c and d are the same.
func (c Caller) Equal(d Caller) bool {
	return c.ID == d.ID && c.Tenant == d.Tenant && slices.Equal(c.Roles, d.Roles)
}

func (c *Caller) visit(f *form) {
	f.text("id", optional, &c.ID, words256)
	f.texts("roles", optional, 1, MaxRoles, &c.Roles, words64)
	f.text("tenant", optional, &c.Tenant, words256)
}

// Ref names an entry of a log.
type Ref struct {
	Index uint64
	Hash  Digest
}

// Entry is the exact signed bytes of one entry of the log. Nothing in it can be relied on before it
// is opened with receipts.Open.
type Entry []byte

// Hash returns the RFC 6962 leaf hash of the entry, by which other entries name it.
func (e Entry) Hash() Digest { return crypto.LeafHash(e) }

// MarshalJSON returns the entry unchanged: its bytes are JSON.
func (e Entry) MarshalJSON() ([]byte, error) { return asJSON(e) }

// Envelope is a signed statement that a caller presents: an approval, an attestation, a grant, a
// bundle's signature. Its bytes are JSON.
type Envelope []byte

// Digest returns the digest by which records name the envelope.
func (e Envelope) Digest() Digest { return crypto.Sum(e) }

// MarshalJSON returns the envelope unchanged.
func (e Envelope) MarshalJSON() ([]byte, error) { return asJSON(e) }

// UnmarshalJSON keeps a copy of b unchanged.
func (e *Envelope) UnmarshalJSON(b []byte) error {
	*e = bytes.Clone(b)
	return nil
}

func asJSON(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return []byte("null"), nil
	}
	return b, nil
}

// Document is one policy document.
type Document struct {
	Name      string         // the source, for messages: a file name
	Canonical []byte         // RFC 8785; the bytes that are hashed
	Lines     map[string]Pos // source position of each value by JSON Pointer; may be nil, and is not hashed
}

// Pos is a position in a source text. Both count from 1.
type Pos struct{ Line, Column int }

// Call is the argument of a driver: exactly the canonical bytes that were judged, and the proof
// that they were.
type Call struct {
	Tool    string
	Args    []byte // canonical JSON with defaults filled in
	Session string
	Caller  Caller
	Permit  AuthorizedExecutionIntent
}

// AuthorizedExecutionIntent is the permission to run one call once. A remote executor verifies
// Decision, an ALLOW that was durable before the call was made, against its own copy of the
// kernel's key, and refuses after Expires.
type AuthorizedExecutionIntent struct {
	DecisionID string
	Expires    Time
	Decision   Entry
}

// Decided reads Decision, without looking at its signature: it returns the leaf hash of the entry,
// which names the call, and the time at which the call was judged. The clock and the random numbers
// of a sandbox follow from these two.
func (i *AuthorizedExecutionIntent) Decided() (hash Digest, at Time, err error) {
	sealed, err := new(Reader).Open(i.Decision)
	if err != nil {
		return hash, at, err
	}
	st, err := sealed.Statement()
	if err != nil {
		return hash, at, err
	}
	if st.Decision == nil {
		return hash, at, &FormatError{Shape, "predicateType", "not that of a decision"}
	}
	return i.Decision.Hash(), st.Time, nil
}

// A FormatError says how a record departs from its form.
type FormatError struct {
	Class Class
	Field string // dotted path
	What  string
}

// Class is the layer of an entry in which an error is. A verifier reports each as a check of its
// own.
type Class string

// The classes, in the order in which an entry is checked.
const (
	Encoding Class = "ENCODING" // strict JSON, canonical bytes, base64, sizes
	Shape    Class = "ENVELOPE" // DSSE envelope and in-toto statement
	Record   Class = "RECORD"   // the predicate
)

// Error returns "contracts: class: field: what".
func (e *FormatError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("contracts: %s: %s", e.Class, e.What)
	}
	return fmt.Sprintf("contracts: %s: %s: %s", e.Class, e.Field, e.What)
}
