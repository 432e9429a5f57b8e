package evidence

import (
	"errors"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// The checks, in the order in which they fire: the first that fails is the answer. errors.Is finds them in what [Verify] and
// [VerifyStore] return.
var (
	ErrInput      = errors.New("INPUT")      // what the caller gave
	ErrStore      = errors.New("STORE")      // in place of ARCHIVE, of VerifyStore: the store fails, or does not keep to what a store is
	ErrArchive    = errors.New("ARCHIVE")    // tar bytes: headers, names, order, padding, end
	ErrEncoding   = errors.New("ENCODING")   // of an entry: strict canonical JSON, base64, sizes, lines; from here to TRUST entry by entry
	ErrEnvelope   = errors.New("ENVELOPE")   // DSSE and statement shape
	ErrKey        = errors.New("KEY")        // a kernel key that is valid at the index
	ErrSignature  = errors.New("SIGNATURE")  // Ed25519 over the pre-authentication encoding
	ErrRecord     = errors.New("RECORD")     // what one entry shows by itself
	ErrChain      = errors.New("CHAIN")      // seq, prev, time, closes, one genesis
	ErrGraph      = errors.New("GRAPH")      // parents, lamport
	ErrReference  = errors.New("REFERENCE")  // receipts and decisions, policies, keys that are used once
	ErrBudget     = errors.New("BUDGET")     // charges and settlements
	ErrTrust      = errors.New("TRUST")      // the trust state, its events, and who acts while frozen
	ErrGap        = errors.New("GAP")        // condensed stretches
	ErrMerkle     = errors.New("MERKLE")     // size and root
	ErrCheckpoint = errors.New("CHECKPOINT") // that member, and the log key's line in it
	ErrManifest   = errors.New("MANIFEST")   // that member, and what it says of the others
	ErrBlob       = errors.New("BLOB")       // bytes under a name, their form, which must be there and which may
	ErrReplay     = errors.New("REPLAY")     // the guardian's verdict again, and kept inputs and outputs against the log
)

// An Error says which check failed, and where. It holds no argument, no output and no key but public ones.
type Error struct {
	Check error  // one of the above
	Entry int64  // index of the entry, or -1 where it is of none
	Field string // dotted path in the record, or the member or blob; may be ""
	What  string
	Err   error // where reader or store could not be read: what they said
}

func (e *Error) Error() string { return "evidence: " + e.told(": entry ") }

// told is check, place and what is wrong, on one line that is not long, whatever names a pack may have thought of.
func (e *Error) told(at string) string {
	s := e.Check.Error()
	if e.Entry >= 0 {
		s += at + strconv.FormatInt(e.Entry, 10)
	}
	if e.Field != "" {
		s += ": " + short(e.Field)
	}
	s += ": " + short(e.What)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return plain(s)
}

// short is text without the rest of it: a name in a policy document may be of megabytes, and what is wrong is not seen behind it.
func short(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// plain is text as a terminal shows it: what is not printable ASCII is escaped.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		s = strconv.QuoteToASCII(s)
		s = strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`)
	}
	return s
}

// Unwrap gives the check, and the cause where there is one.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Check}
	}
	return []error{e.Check, e.Err}
}

// otherOrigin shows both: they are public, and had their form checked.
func otherOrigin(is, want string) string { return "of the origin " + is + ", not " + want }

// formatError returns the departure of a record from its form: every error of reading one is such.
func formatError(err error) *contracts.FormatError {
	var f *contracts.FormatError
	if !errors.As(err, &f) {
		f = &contracts.FormatError{What: err.Error()}
	}
	return f
}

// checkOf gives the check that a departure from the form of an entry falls to.
func checkOf(c contracts.Class) error {
	switch c {
	case contracts.Encoding:
		return ErrEncoding
	case contracts.Shape:
		return ErrEnvelope
	}
	return ErrRecord
}
