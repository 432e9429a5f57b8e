package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/trust/registry"
)

// Options are what the caller knows, from elsewhere than the pack. The zero Options knows nothing: a pack may then be INTACT or LOGGED, and is
// UNPINNED, never a success. Verify changes nothing of it, so many goroutines may share one.
type Options struct {
	// Trust is the initial trust state of the log, which its genesis names by digest: not a later one, which is refused. The later ones
	// follow from it and the trust events in the log. Whoever runs the kernel hands its canonical form (State.Canonical of Kernel.Trust) to
	// the auditor once, when the log is new and by another way than its packs, or publishes its digest; registry.ParseState reads it. The
	// pack holds a copy of it, which proves nothing to those who trust nobody yet. Nil: Kernel counts.
	Trust *registry.State

	// Kernel is, instead of Trust, the public key that signs the genesis, whatever became of it since: 32 bytes of Ed25519. It then vouches
	// for the initial trust state in the pack. Nil, and Trust nil too: the pack proves nothing of who made it. Both given is INPUT.
	Kernel crypto.PublicKey

	// Origin is the log's name. "" is any: the report shows which.
	Origin string

	// Last is the checkpoint that the caller kept from before, a signed note (proofgraph.Checkpoint.Note), of a size that the pack should
	// reach: it must extend it. The caller vouches for it. Nil: none, so an old pack passes for the latest.
	Last []byte

	// CrossCheck has all JSON of the pack, envelopes and what is in them, inputs, documents, outputs, canonicalised by a second implementation
	// of RFC 8785 too, github.com/gowebpki/jcs, which must give the same bytes: what one of them gets wrong is then found. The verification
	// takes twice the time, and up to 90 bytes of memory for each of the longest blob.
	CrossCheck bool

	// Progress is told how far the verification is, on the goroutine of the caller and about once per MiB of entries: done out of total, in
	// bytes of entries.jsonl, or in entries where a store is verified. It is told that all is done when all checks have passed. Nil: nobody is.
	Progress func(done, total uint64)

	// Level is what is asked for, and Report.Asked in the answer. Zero is Logged.
	Level Level
}

// check is INPUT, but for what only the entries can tell of the last checkpoint, which it gives.
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
	case o.Level > Logged:
		return bad("Level", "a level above LOGGED"+entry.Unsupported)
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
