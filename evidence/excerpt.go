package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/lastseen"
	"github.com/helmkernel/helm/trust/registry"
)

// VerifyExcerpt reads an excerpt of that size, as [WriteExcerpt] writes it, and reports what it
// proves: that the kernel signed the receipt and its decision, and that both are in the log of the
// checkpoint. No verdict is replayed. The error and the Report are as those of [Verify];
// Report.Excerpt has what was proved. Options are used as follows.
//
// Trust is any trust state of the log at the receipt or later. With Kernel both entries must be
// signed by that key, and the level is INTACT, since no log key is known: ask for it with Level.
// One of the two is required: an excerpt holds no keys. If Last is of another size than the
// excerpt's checkpoint, History is Unknown, which is no success. Seen, Kept, Progress, Rerun and
// RerunGas are not used.
//
// VerifyExcerpt holds a few MiB and one blob. It ends when ctx does; a nil ctx never ends. It may
// be called by many goroutines at once, also with the same r and Options.
func VerifyExcerpt(ctx context.Context, r io.ReaderAt, size int64, o Options) (Report, error) {
	x := excerpt{v: newVerifier(ctx, o), o: &o}
	return x.v.answer(x.verify(r, size))
}

// An excerpt is the state of the verification of one.
type excerpt struct {
	v       *verifier
	o       *Options
	members *packed
	entries []excerpted
}

// An excerpted is an entry of an excerpt.
type excerpted struct {
	name  string // of its member
	proof proof
	early
}

var errLongProof = errors.New("longer than a proof may be")

// verify does all checks.
func (x *excerpt) verify(r io.ReaderAt, size int64) error {
	if f := isReader(r, size); f != nil {
		return f
	}
	if f := x.v.given(); f != nil {
		return f
	}
	if x.o.Trust == nil && x.o.Kernel == nil {
		return newError(ErrInput, "Trust", "neither it nor Kernel was given, and an excerpt holds no keys")
	}
	p, err := openPacked(x.v.ctx, r, size, ustar.Excerpt)
	if err != nil {
		return err
	}
	x.members = p
	for i := 1; i < len(p.Members); i += 2 {
		if f := x.open(i); f != nil {
			return f
		}
	}
	for _, check := range [...]func() *Error{x.pair, x.included, x.blobs, x.v.witnessed.check} {
		if err := x.v.ctx.Err(); err != nil {
			return err
		}
		if f := check(); f != nil {
			return f
		}
	}
	x.complete(&x.v.report)
	return nil
}

// open does the checks ENCODING to RECORD of the entry that is member i. Its key is judged at the
// index that its proof has, which MERKLE compares with the log. If that index cannot be read, no
// key can be judged, and MERKLE is the answer in the place of KEY.
func (x *excerpt) open(i int) *Error {
	e := excerpted{name: x.members.Names[i], proof: proof{index: -1, bad: errLongProof}}
	if x.members.Members[i+1].Size <= maxProof {
		b, f := x.members.member(i + 1)
		if f != nil {
			return f
		}
		e.proof = parseProof(b)
	}
	if x.members.Members[i].Size > contracts.MaxEntry {
		return e.fault(newError(ErrEncoding, "", "longer than an entry may be"))
	}
	b, f := x.members.member(i)
	if f != nil {
		return f
	}
	s, f := x.v.sealed(b, uint64(e.proof.index))
	switch {
	case f != nil:
		return e.fault(f)
	case e.proof.index < 0:
		return e.unproved()
	}
	e.signer, e.hash = s.KeyID, crypto.LeafHash(b)
	if f = x.signed(s, uint64(e.proof.index)); f == nil {
		e.statement, f = x.v.record(s, uint64(e.proof.index))
	}
	if f == nil && e.statement.Kind() != contracts.Kind(e.name) {
		f = newError(ErrRecord, "predicateType", "not that of a "+e.name)
	}
	if f != nil {
		return e.fault(f)
	}
	x.entries = append(x.entries, e)
	return nil
}

// signed does the checks KEY and SIGNATURE.
func (x *excerpt) signed(s *contracts.Sealed, index uint64) *Error {
	public, ok := x.o.Kernel, true
	what := "not the pinned key"
	if public == nil {
		public, ok = x.o.Trust.Key(s.KeyID, registry.Kernel, index)
		what = "no kernel key that is valid at this index: give the trust state of the log there, or a later one"
	}
	if !ok || crypto.KeyID(public) != s.KeyID {
		return newError(ErrKey, "signatures.keyid", what)
	}
	return x.v.signedBy(s, public, index)
}

// fault returns the fault of the entry with its place.
func (e *excerpted) fault(f *Error) *Error {
	f.Entry = e.proof.index
	if f.Field != "" {
		f.Field = "." + f.Field
	}
	f.Field = e.name + f.Field
	return f
}

// unproved returns the fault that is in the proof.
func (e *excerpted) unproved() *Error {
	return &Error{Check: ErrMerkle, Entry: e.proof.index, Field: e.name + ".proof", What: e.proof.bad.Error()}
}

// included does the checks MERKLE and CHECKPOINT.
func (x *excerpt) included() *Error {
	bad := func(field, what string) *Error { return newError(ErrCheckpoint, field, what) }
	for i := range x.entries {
		if e := &x.entries[i]; e.proof.bad != nil {
			return e.unproved()
		}
	}
	name := x.members.Names[0]
	if x.members.Members[0].Size > maxNote {
		return bad(name, "longer than a note may be")
	}
	note, f := x.members.member(0)
	if f != nil {
		return f
	}
	c, err := parseSigned(note)
	if err != nil {
		return bad(name, err.Error())
	}
	for i := range x.entries {
		e := &x.entries[i]
		if e.proof.bad = e.proof.check(e.hash, c.Size, c.Root); e.proof.bad != nil {
			return e.unproved()
		}
	}
	for _, e := range x.entries {
		if !bytes.Equal(e.proof.checkpoint, note) {
			return bad(e.name+".proof", "its checkpoint is not the member, byte for byte")
		}
	}
	if x.o.Origin != "" && c.Origin != x.o.Origin {
		return bad("origin", otherOrigin(c.Origin, x.o.Origin))
	}
	if f := x.v.witnessed.of(c); f != nil {
		return f
	}
	r := &x.v.report
	if r.Level, f = c.level(x.o.Trust); f != nil {
		return f
	}
	r.Origin, r.Size, r.MerkleRoot, r.Checkpoint = c.Origin, c.Size, c.Root, note
	r.History, f = x.history(c)
	return f
}

// history compares the checkpoint with the last one that the caller saw.
func (x *excerpt) history(c *signed) (History, *Error) {
	last := x.v.fold.last
	switch {
	case last == nil:
		return None, nil
	case last.Origin != c.Origin:
		return None, newError(ErrInput, "Last", otherOrigin(last.Origin, c.Origin))
	case last.Size != c.Size:
		return Unknown, nil
	}
	same, err := lastseen.Compare(last.Checkpoint, last.lines, c.Root, x.o.Trust)
	switch {
	case err != nil:
		return None, newError(ErrInput, "Last", err.Error())
	case same:
		return Fresh, nil
	}
	return Diverged, nil
}

// blobs does the check BLOB. An excerpt holds no modules.
func (x *excerpt) blobs() *Error {
	b := &x.v.blobs
	b.from, b.far, b.canonical = x.members, x.members.far(), x.v.canonical
	for _, e := range x.entries {
		b.at = func() uint64 { return uint64(e.proof.index) }
		var f *Error
		entry.Blobs(e.statement, func(d contracts.Digest, as entry.Role) {
			if f == nil && as != entry.Module {
				f = x.blob(d, as)
			}
		})
		if f != nil {
			return f
		}
	}
	return x.members.unnamed()
}

// blob checks the content of a blob, if it is there.
func (x *excerpt) blob(d contracts.Digest, as entry.Role) *Error {
	b := &x.v.blobs
	content, f := b.keep(d, as)
	switch {
	case f != nil:
		return f
	case b.bad != nil:
		return b.bad
	case content == nil, as != entry.Inputs:
		return nil
	}
	in, err := new(contracts.Reader).Inputs(content)
	if err != nil {
		return b.fault(d, err.Error())
	}
	if what := b.canonical.checkInputs(content, in); what != "" {
		return b.fault(d, what)
	}
	return nil
}

// complete completes the report.
func (x *excerpt) complete(r *Report) {
	x.v.witnessed.report(r)
	for _, e := range x.entries {
		r.Excerpt = append(r.Excerpt, Proved{uint64(e.proof.index), e.statement})
	}
	r.Sessions, r.Receipts = 1, 1
	receipt := r.Excerpt[len(r.Excerpt)-1].Statement.Receipt
	if receipt.Outcome == contracts.Denied {
		r.Denials = 1
	} else {
		r.Allows = 1
	}
	if isReported(receipt) {
		r.Reported = 1
	}
	r.Replay.skip(r.Excerpt[0].Index)
	r.Trust = x.o.Trust.Digest()
	slices.SortFunc(x.v.blobs.lacking, entry.Compare)
	r.Erased = slices.Compact(x.v.blobs.lacking)
}
