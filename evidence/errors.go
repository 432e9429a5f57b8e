package evidence

import (
	"errors"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// The checks, in the order in which they fire: the first that fails is the answer. errors.Is finds
// them in what [Verify], [VerifyStore], [VerifyExcerpt], [OpenPack] and [BackTest] return.
var (
	// ErrInput is a fault of what the caller gave: reader and size, store, trust root, origin, last
	// checkpoint, witnesses, quorum, cosigned checkpoint, level, candidate.
	ErrInput = errors.New("INPUT")

	// ErrStore takes the place of ErrArchive in VerifyStore: the store fails, or does not keep to
	// what a store is.
	ErrStore = errors.New("STORE")

	// ErrArchive is a fault of the tar bytes: headers, names, order, padding, end. It is also a
	// pack that cannot be read.
	ErrArchive = errors.New("ARCHIVE")

	// ErrEncoding is an entry that is not strict canonical JSON, or a fault of its base64, sizes or
	// lines. From here to ErrTrust the checks are done entry by entry.
	ErrEncoding = errors.New("ENCODING")

	// ErrEnvelope is a fault of the shape of a DSSE envelope or a statement.
	ErrEnvelope = errors.New("ENVELOPE")

	// ErrKey is an entry that is signed by no kernel key that is valid at its index.
	ErrKey = errors.New("KEY")

	// ErrSignature is an Ed25519 signature that does not verify over the pre-authentication
	// encoding.
	ErrSignature = errors.New("SIGNATURE")

	// ErrRecord is a fault that one entry shows by itself.
	ErrRecord = errors.New("RECORD")

	// ErrChain is a fault of seq, prev or time, an entry after a close, or a genesis that is not
	// the first entry and the only one.
	ErrChain = errors.New("CHAIN")

	// ErrGraph is a fault of parents or Lamport times.
	ErrGraph = errors.New("GRAPH")

	// ErrReference is a fault between receipts and decisions, of policies, or of idempotency keys
	// and approvals, which are used once.
	ErrReference = errors.New("REFERENCE")

	// ErrBudget is a fault of charges or settlements.
	ErrBudget = errors.New("BUDGET")

	// ErrTrust is a fault of the trust state or its events, or an act that they forbid.
	ErrTrust = errors.New("TRUST")

	// ErrGap is a condense entry whose set is not the one that the log shows, found in its turn
	// among the entries; a stub of no set, found after them; or a stub that is not the one of an
	// entry in Options.Kept, or of one that may not go, found in its turn.
	ErrGap = errors.New("GAP")

	// ErrMerkle is a checkpoint whose size or root is not the log's, or a proof that does not lead
	// from its entry to that root.
	ErrMerkle = errors.New("MERKLE")

	// ErrCheckpoint is a fault of the checkpoint, or of the log key's line in it; or
	// Options.Cosigned, or the checkpoint in a proof, is another one.
	ErrCheckpoint = errors.New("CHECKPOINT")

	// ErrManifest is a fault of the manifest, or of its claims about the other members.
	ErrManifest = errors.New("MANIFEST")

	// ErrBlob is a blob whose content does not hash to its name or has not the form of its role,
	// that is missing and must be there, or that no entry names.
	ErrBlob = errors.New("BLOB")

	// ErrReplay is a verdict that the guardian does not repeat, or kept inputs or outputs that the
	// log contradicts.
	ErrReplay = errors.New("REPLAY")

	// ErrRerun is a receipt that is not what a module returns when its call is run again. With an
	// Err it is a call that could not be run, for a reason that is no fault of the pack.
	ErrRerun = errors.New("RERUN")

	// ErrCosign is a signature line of one of Options.Witnesses that is not their cosignature of
	// the checkpoint; or, of a log that is WITNESSED, a condense entry that is more than 5 minutes
	// later than the witnesses' time.
	ErrCosign = errors.New("COSIGN")
)

// ErrCondensed is an error of [Write]: the store has let go of entries by a condense entry that its
// checkpoint is not of. A pack up to that checkpoint would not say why. What was older is proved by
// consistency proofs and excerpts.
var ErrCondensed = errors.New("an entry was let go of by a condense entry after the checkpoint: " +
	"make a checkpoint with Kernel.Checkpoint first")

// An Error says which check failed, and where. It holds no arguments, no output and no keys but
// public ones.
type Error struct {
	Check error  // one of ErrInput to ErrCosign
	Entry int64  // index of the entry, of an excerpt as its proof says; -1: it is of none, or not known
	Field string // dotted path in the record, of an excerpt after the member; or the member or blob; may be ""
	What  string
	Err   error // of the reader, the store or Options.Rerun, if it failed
}

// newError returns an error of no entry.
func newError(check error, field, what string) *Error {
	return &Error{Check: check, Entry: -1, Field: field, What: what}
}

// errorAt returns an error of the entry with that index.
func errorAt(index uint64, check error, field, what string) *Error {
	return &Error{Check: check, Entry: int64(index), Field: field, What: what}
}

// cannotRead returns the error that a reader or a store failed with err.
func cannotRead(check error, field string, err error) *Error {
	return &Error{Check: check, Entry: -1, Field: field, What: "it cannot be read", Err: err}
}

func (e *Error) Error() string { return "evidence: " + e.told(": entry ") }

// told returns check, place and what is wrong, on one line that is not long, whatever names a pack
// may have.
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

// short cuts a long text: a name in a policy document may have megabytes, and would hide what is
// wrong.
func short(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// plain escapes all that is not printable ASCII, for terminals.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		s = strconv.QuoteToASCII(s)
		s = strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`)
	}
	return s
}

// Unwrap returns the check, and the cause if there is one.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Check}
	}
	return []error{e.Check, e.Err}
}

// otherOrigin shows both origins: they are public, and their form was checked.
func otherOrigin(is, want string) string { return "of the origin " + is + ", not " + want }

// formatError returns the departure of a record from its form; every error of reading a record is
// one.
func formatError(err error) *contracts.FormatError {
	var f *contracts.FormatError
	if !errors.As(err, &f) {
		f = &contracts.FormatError{What: err.Error()}
	}
	return f
}

// checkOf returns the check to which a departure from the form of an entry belongs.
func checkOf(c contracts.Class) error {
	switch c {
	case contracts.Encoding:
		return ErrEncoding
	case contracts.Shape:
		return ErrEnvelope
	}
	return ErrRecord
}
