package evidence

import "github.com/helmkernel/helm/contracts"

// Level says how much of a pack is proved. The zero Level is Invalid.
type Level uint8

const (
	Invalid Level = iota // some check failed
	Intact               // bytes, signatures, chains, graph, pairing, roots, manifest and blobs are right
	Logged               // and a log key of the trust state signed the checkpoint
)

func (l Level) String() string { return word(l, "INVALID", "INTACT", "LOGGED") }

// MarshalText gives the word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// History says how a pack stands to the last checkpoint that the caller saw.
type History uint8

const (
	None     History = iota // none was given
	Fresh                   // the pack extends it: its root was recomputed from the entries
	Stale                   // the pack is smaller: nothing is proved
	Diverged                // two histories of one log
)

func (h History) String() string { return word(h, "NONE", "FRESH", "STALE", "DIVERGED") }

// MarshalText gives the word.
func (h History) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Signer says whether the caller knows who signed.
type Signer uint8

const (
	Unpinned Signer = iota // the caller gave no trust root: anyone may have made the pack
	Trusted                // it was signed under the caller's trust root
)

func (s Signer) String() string { return word(s, "UNPINNED", "TRUSTED") }

// MarshalText gives the word.
func (s Signer) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func word[T ~uint8](i T, words ...string) string {
	if int(i) >= len(words) {
		return "unknown"
	}
	return words[i]
}

// Report is what a pack proves to this caller: String says it to people, MarshalJSON to programs. Of an INVALID pack it says only what is
// wrong: Level, Asked, Fault and Replay.Differing; all else is zero. The caller may keep and change it.
type Report struct {
	Level   Level   // what is proved of the pack
	Asked   Level   // what Options asked for
	History History // how the pack stands to Options.Last
	Signer  Signer  // whether Options says who signed
	Fault   *Error  // the first check that failed; nil unless INVALID, and where the verification was ended by its context
	Replay  Replay  // of all judgements, so its numbers but Differing add up to Allows and Denials

	Origin         string             // of the log, its name
	Size           uint64             // of the log, in entries, the genesis included; not in bytes
	Behind         uint64             // entries of a store behind its checkpoint, which were not verified: VerifyStore again when there is one of them
	Sessions       uint64             // that have entries, the kernel's own included
	Allows         uint64             // decisions ALLOW
	Denials        uint64             // decisions DENY
	Receipts       uint64             // DENIED ones included: one for each decision but the Open ones
	Open           []Call             // ALLOWs without a receipt, so what became of the calls is not known yet, in log order; nil where there are none
	Erased         []contracts.Digest // inputs, outputs and such that are named and not there, erased or never kept, sorted; nil where there are none
	MerkleRoot     contracts.Digest   // RFC 6962, over the entries; that of the checkpoint
	ProofGraphHash contracts.Digest   // over the heads: entries that no other one names
	Trust          contracts.Digest   // of the trust state at the end of the log: the initial one, and what trust events made of it
	Checkpoint     []byte             // the signed note in the pack, to be kept where this is a success: it is Options.Last of the next time
}

// Call names a call by its decision.
type Call struct {
	Index uint64
	ID    string // session/seq
}

// Replay counts judgements.
type Replay struct {
	Replayed      uint64             // the guardian gave the same verdict again, in every field
	KernelsOwn    uint64             // the kernel's own, which no policy makes
	NotReplayable uint64             // inputs not there, erased or never kept; or another engine's
	Differing     uint64             // with more than none the pack is INVALID
	Entries       []uint64           // indexes of the judgements that are NotReplayable, in log order; nil where there are none
	Engines       []contracts.Engine // other ones than this version's, that made verdicts; nil where there are none
}

// skip takes note of a judgement that cannot be made again.
func (r *Replay) skip(index uint64) {
	r.NotReplayable++
	r.Entries = append(r.Entries, index)
}

// Success tells whether a pack proves what is asked: that level or a higher one, under the caller's trust root, and that it extends the last
// checkpoint if the caller gave one. The zero Level asks for what Options did.
func (r Report) Success(asked Level) bool {
	if asked == Invalid {
		asked = max(r.Asked, Intact)
	}
	return r.Level >= asked && r.Signer == Trusted && (r.History == None || r.History == Fresh)
}
