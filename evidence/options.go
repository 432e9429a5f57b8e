package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Options are what the caller knows from other sources than the pack. The zero Options knows
// nothing: a pack may then be INTACT or LOGGED, and is UNPINNED, never a success. Verify changes
// nothing of it, so many goroutines may share one.
type Options struct {
	// Trust is the initial trust state of the log, which its genesis names by digest. A later one
	// is refused: later ones follow from it and the trust events in the log. (An excerpt has no
	// events: VerifyExcerpt takes later ones.) The operator of the kernel hands its canonical form
	// (State.Canonical of Kernel.Trust) to the auditor once, when the log is new and by another way
	// than its packs, or publishes its digest; registry.ParseState reads it. The pack holds a copy
	// of it, which proves nothing to auditors who trust nobody yet. If it is nil, Kernel counts.
	Trust *registry.State

	// Kernel, instead of Trust, is the public key that signed the genesis, also if it was revoked
	// since: 32 bytes of Ed25519. It then vouches for the initial trust state in the pack. If both
	// are nil, the pack proves nothing of who made it. If both are given, that is INPUT.
	Kernel crypto.PublicKey

	// Origin is the log's name. "" is any: the report shows which.
	Origin string

	// Last is the checkpoint that the caller kept from earlier, a signed note
	// (proofgraph.Checkpoint.Note). The pack should reach its size and must extend it. The caller
	// vouches for it. If it is nil, an old pack passes for the latest.
	Last []byte

	// Witnesses are the verifier keys of those whose cosignatures of the checkpoint count: C2SP
	// tlog-cosignature by Ed25519, name+hash+base64 of 0x04 and the public key. Their names and
	// their keys differ. Lines of others are passed over; one that names a witness and is not its
	// cosignature is COSIGN. A witness saw that the checkpoints of a log go on from each other, and
	// not what the log says.
	Witnesses []string

	// Quorum is how many of the Witnesses make a checkpoint WITNESSED: 1 to as many as there are,
	// and 0 without any.
	Quorum int

	// Cosigned is the log's checkpoint, a signed note, with cosignatures that were made after the
	// pack. They count with those in the pack. Its three lines must be those of the checkpoint in
	// the pack or the store; it needs no line of the log. If it is nil, there is none.
	Cosigned []byte

	// Seen are condense entries that the caller, or someone whom they trust, verified while no
	// entry of their sets was let go of: [Range].Hash of reports in which Stubs was 0. To have
	// verified the range before the condense entry was written is not enough: the stubs were not
	// signed yet.
	Seen []contracts.Digest

	// Kept are entries that the caller has kept, of which the log may have stubs by now. If it has
	// one of an entry that is signed by a kernel key, and that may not go or has another stub, that
	// is GAP: two signatures of the kernel show that it lied. One that is no entry is INPUT.
	Kept []contracts.Entry

	// CrossCheck has a second implementation of RFC 8785, github.com/gowebpki/jcs, canonicalise all
	// JSON of the pack: envelopes and their payloads, inputs, documents, outputs. It must return
	// the same bytes, so an error in one implementation is found. The verification takes twice the
	// time, and up to 90 bytes of memory for each byte of the longest blob.
	CrossCheck bool

	// Progress is called with how far the verification is, on the goroutine of the caller and about
	// once per MiB of entries: done out of total, in bytes of entries.jsonl, or in entries of a
	// store, which may have to be read from the beginning again. When all checks have passed it is
	// called with done equal to total. If it is nil, it is not called.
	Progress func(done, total uint64)

	// Level is the level that is asked for; the report has it as Asked. Zero is Witnessed if there
	// are Witnesses, else Logged.
	Level Level

	// Rerun runs calls again whose sandbox was closed, and their receipts must say what it returns:
	// Runtime.Rerun of package sandbox returns one. It runs code that the pack brought, or that the
	// caller added. It is called from as many goroutines as GOMAXPROCS allows, up to 16, and must
	// return when its context ends. The calls that are under way have at most 2 GiB of memory
	// granted together. If Rerun is nil, nothing is run.
	Rerun contracts.Rerun

	// RerunGas bounds what the runs cost, since a pack may ask for years. Zero is 1e12. The gas of
	// the receipts is added up in log order: calls with which it would exceed RerunGas are counted
	// as Over, and are not run.
	RerunGas uint64
}

// asked returns the level that is asked for.
func (o *Options) asked() Level {
	switch {
	case o.Level != Invalid:
		return o.Level
	case len(o.Witnesses) > 0:
		return Witnessed
	}
	return Logged
}

// check does the check INPUT, except for witnesses, and for what only the entries can show of the
// last checkpoint, which it returns.
func (o *Options) check() (*signed, *Error) {
	bad := func(field, what string) (*signed, *Error) { return nil, newError(ErrInput, field, what) }
	switch {
	case o.Trust != nil && o.Kernel != nil:
		return bad("Trust", "given beside Kernel: give one of them")
	case o.Trust != nil && len(o.Trust.Keys(registry.Kernel, 0)) == 0:
		return bad("Trust", "a state without a kernel key: read it with registry.ParseState")
	case o.Kernel != nil && crypto.CheckPublicKey(o.Kernel) != nil:
		return bad("Kernel", "not an Ed25519 public key of prime order")
	case o.Origin != "" && !contracts.IsOrigin(o.Origin):
		return bad("Origin", "not 1 to 255 letters, digits and . _ / -")
	case o.Level > Witnessed:
		return bad("Level", "none of the levels")
	case o.Last == nil:
		return nil, nil
	}
	last, err := parseSigned(o.Last)
	switch {
	case err != nil:
		return bad("Last", err.Error())
	case o.Origin != "" && last.Origin != o.Origin:
		return bad("Last", otherOrigin(last.Origin, o.Origin))
	}
	return last, nil
}
