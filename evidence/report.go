package evidence

import (
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// Level says how much of a pack is proved. The zero Level is Invalid.
type Level uint8

// The levels; each includes the one before it.
const (
	Invalid   Level = iota // some check failed
	Intact                 // bytes, signatures, chains, graph, pairing, roots, manifest and blobs are right
	Logged                 // and a log key of the trust state signed the checkpoint
	Witnessed              // and a quorum of the caller's witnesses cosigned it
)

func (l Level) String() string { return word(l, "INVALID", "INTACT", "LOGGED", "WITNESSED") }

// MarshalText returns the word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// History compares a pack with the last checkpoint that the caller saw.
type History uint8

// The results of the comparison.
const (
	None     History = iota // none was given
	Fresh                   // the pack extends it: its root was recomputed from the entries
	Stale                   // the pack is smaller: nothing is proved
	Diverged                // two histories of one log
	Unknown                 // an excerpt, and the checkpoint is of another size: nothing is proved
)

func (h History) String() string { return word(h, "NONE", "FRESH", "STALE", "DIVERGED", "UNKNOWN") }

// MarshalText returns the word.
func (h History) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Signer says whether the caller knows who signed.
type Signer uint8

// The two answers.
const (
	Unpinned Signer = iota // the caller gave no trust root: anyone may have made the pack
	Trusted                // it was signed under the caller's trust root
)

func (s Signer) String() string { return word(s, "UNPINNED", "TRUSTED") }

// MarshalText returns the word.
func (s Signer) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func word[T ~uint8](i T, words ...string) string {
	if int(i) >= len(words) {
		return "unknown"
	}
	return words[i]
}

// Report is what a pack proves to this caller: String is for people, MarshalJSON for programs. Of
// an INVALID pack it says only what is wrong: Level, Asked, Fault, Replay.Differing and
// Rerun.Differing; all else is zero. The caller may keep and change it.
type Report struct {
	Level   Level   // how much is proved of the pack
	Asked   Level   // the level that Options asked for
	History History // the pack against Options.Last
	Signer  Signer  // whether Options says who signed
	Replay  Replay  // of all judgements, so its numbers but Differing add up to Allows and Denials
	Rerun   Rerun   // of all receipts of sandboxes, if Options has a Rerun

	// Fault is the first check that failed. It is nil unless the pack is INVALID, and nil if the
	// context ended the verification.
	Fault *Error

	Origin string // of the log, its name
	Size   uint64 // of the log, in entries, the genesis included; not in bytes
	Behind uint64 // entries of a store after its checkpoint: not verified until there is a later one
	Totals        // of an excerpt those of its entries

	// Excerpt are the entries of an excerpt, in log order; the last one is the receipt. Nil if a
	// whole log was verified.
	Excerpt []Proved

	// Witnesses are those of Options.Witnesses that cosigned the checkpoint, in that order. Time is
	// the latest with which each has cosigned it, in UTC and whole seconds, by its own clock; a
	// time after the year 9999 is reported as the last second of that year. Nil if there are none.
	Witnesses []struct {
		Name string
		Time time.Time
	}

	// Open are the ALLOWs without a receipt, in log order: it is not known yet how the calls ended.
	// Nil if there are none.
	Open []Call

	LetGo

	// Erased are inputs, outputs and such that entries name and that are not there, sorted: they
	// were erased or never kept, or are not in the excerpt. Nil if there are none.
	Erased []contracts.Digest

	MerkleRoot     contracts.Digest // RFC 6962, over the entries; that of the checkpoint
	ProofGraphHash contracts.Digest // over the heads: entries that no other one names; of an excerpt zero
	Trust          contracts.Digest // of the initial trust state with all trust events of the log applied
	Checkpoint     []byte           // the signed note; after a success keep it for the next Options.Last
}

// Totals are what a log has.
type Totals struct {
	Sessions uint64 // that have entries, the kernel's own included
	Allows   uint64 // decisions ALLOW
	Denials  uint64 // decisions DENY
	Receipts uint64 // DENIED ones included: one for each decision but the Open ones
	Reported uint64 // of Receipts: the call ran elsewhere, and its outcome was reported
}

// LetGo is what there is to say of entries that a log has let go of.
type LetGo struct {
	// Condensed are the ranges of all condense entries, in log order. Nil if there are none.
	Condensed []Range

	// Strange are the hashes of Options.Seen and of entries of Options.Kept that the log has
	// nowhere, and of those of Kept that it has as a stub and that no kernel key of it signed. They
	// are of another log, or another entry was put in their place. They are sorted; nil if there
	// are none.
	Strange []contracts.Digest
}

// A Proved is an entry that a proof shows to be in the log.
type Proved struct {
	Index     uint64
	Statement *contracts.Statement
}

// A Range is what a condense entry says of a range of the log: which of its entries, its set, may
// be let go of. Each entry of the set stands in the log as itself or as its stub. A stub does not
// show signature, key, caller, arguments, delegation and rule of its entry. If no one whom the
// caller trusts has Seen the set whole, it is the kernel's word that the stubs are those of the
// entries.
type Range struct {
	From, To uint64
	Index    uint64           // of the condense entry
	Dropped  uint64           // entries in the set
	Stubs    uint64           // of these, those that stand as their stubs
	Hash     contracts.Digest // of the condense entry
	Seen     bool             // Options.Seen has it
}

// Call names a call by its decision.
type Call struct {
	Index uint64
	ID    string // session/seq
}

// Replay counts judgements.
type Replay struct {
	Replayed      uint64   // the guardian made the same verdict again, in every field
	KernelsOwn    uint64   // the kernel's own, which no policy makes
	NotReplayable uint64   // inputs not there, erased or never kept; or another engine's
	Differing     uint64   // if there is one, the pack is INVALID
	Unseen        uint64   // sources of values, some of which is not there: what was found is as the inputs say
	Entries       []uint64 // indexes of the NotReplayable ones, in log order; nil if there are none

	// Engines are those that made verdicts and are not this version's. Nil if there are none.
	Engines []contracts.Engine
}

// skip takes note of a judgement that cannot be made again.
func (r *Replay) skip(index uint64) {
	r.NotReplayable++
	r.Entries = append(r.Entries, index)
}

// by takes note of another engine.
func (r *Replay) by(e contracts.Engine) {
	if !slices.Contains(r.Engines, e) {
		r.Engines = append(r.Engines, e)
	}
}

// Rerun counts receipts of calls that ran in a sandbox. Each is one of these, except that Unpinned
// is some of Same; calls that ran elsewhere, with the profile reported, are none. It is zero if no
// Rerun was given.
type Rerun struct {
	Same       uint64 // run again, with the same reason, output and gas
	Unpinned   uint64 // of these, those whose module no demand of the policy lists: the host chose what ran
	Open       uint64 // the sandbox was not closed: clock, chance, environment or directories of the host
	Ended      uint64 // by something else than the module: a time limit, the caller, a panic
	NotKept    uint64 // inputs, module or tree are not at hand, or the policy is another engine's
	OtherMeter uint64 // of a version of the metering that the Rerun does not have
	Over       uint64 // with these the runs would exceed RerunGas
	Differing  uint64 // if there is one, the pack is INVALID
}

// Success reports whether a pack proves the level that is asked for, or a higher one, under the
// caller's trust root, and extends the last checkpoint if the caller gave one. The zero Level
// stands for the one in Options.
func (r Report) Success(asked Level) bool {
	if asked == Invalid {
		asked = max(r.Asked, Intact)
	}
	return r.Level >= asked && r.Signer == Trusted && (r.History == None || r.History == Fresh)
}
