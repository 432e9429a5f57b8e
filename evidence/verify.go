package evidence

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A verifier is the state of one verification. Whatever is in it is constant, or of the sizes that the package comment promises.
type verifier struct {
	ctx  context.Context
	r    io.ReaderAt
	o    Options
	last *signed // that the caller saw

	pack archive
	far  *window // for blobs
	buf  []byte

	// the fold of the entries
	log
	state    *registry.State
	lines    hash.Hash        // of entries.jsonl
	reader   contracts.Reader // of entries
	inputs   contracts.Reader
	json     crypto.Tree // of a blob
	pae      []byte
	text     []byte
	pending  map[uint64]*pending           // ALLOWs without a receipt, by index
	bound    map[bound]claim               // idempotency keys
	approved map[contracts.Digest]struct{} // approvals that an ALLOW consumed
	stacks   stacks
	report   Report

	// the first faults of the checks that come after the entries, though found with them
	badBlob, badReplay *Error
}

// Verify reads a pack of that size and says what it proves. The error is that of the first check that failed, an [*Error]; the Report is then
// INVALID and has it too. Without an error a pack may still prove too little: ask [Report.Success]. Verify reads r forwards, entries and
// headers once, blobs where they are named, and holds none of it; it may be slow on a large pack, and ends when ctx does.
func Verify(ctx context.Context, r io.ReaderAt, size int64, o Options) (Report, error) {
	v := newVerifier(ctx, r, o)
	err := v.verify(size)
	asked := o.Level
	if asked == Invalid {
		asked = Logged
	}
	if err == nil {
		v.report.Asked = asked
		return v.report, nil
	}
	report := Report{Asked: asked, Replay: Replay{Differing: v.report.Replay.Differing}} // of all else nothing is proved
	errors.As(err, &report.Fault)
	return report, err
}

func newVerifier(ctx context.Context, r io.ReaderAt, o Options) *verifier {
	return &verifier{ctx: ctx, r: r, o: o, lines: crypto.NewSum(), pending: map[uint64]*pending{}, bound: map[bound]claim{},
		approved: map[contracts.Digest]struct{}{}}
}

func (v *verifier) verify(size int64) error {
	last, fault := v.o.check()
	if fault != nil {
		return fault
	}
	v.last, v.state = last, v.o.Trust
	if v.state != nil || v.o.Kernel != nil {
		v.report.Signer = Trusted
	}
	w := newWindow(v.r, size, 256<<10)
	v.far = newWindow(v.r, size, 4<<10)
	if err := v.pack.open(v.ctx, w); err != nil {
		return err
	}
	if err := v.entries(w); err != nil {
		return err
	}
	if err := v.finish(); err != nil {
		return err
	}
	return v.ctx.Err()
}

// entries reads entries.jsonl line by line.
func (v *verifier) entries(w *window) error {
	x := v.pack.members[entriesMember]
	for at, end := x.at, x.at+x.size; at < end; {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		b, err := w.get(at, int(min(end-at, contracts.MaxEntry+1)))
		if err != nil {
			return &Error{ErrArchive, -1, members[entriesMember], "it cannot be read", err}
		}
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			return v.fault(ErrEncoding, "", "a line without end, or of more than 32,768 bytes")
		}
		v.lines.Write(b[:n+1])
		if f := v.entry(b[:n], at); f != nil {
			return f
		}
		at += int64(n) + 1
	}
	return nil
}

// member reads one of the first members into memory; the caller has looked at its size.
func (v *verifier) member(i int) ([]byte, *Error) {
	x := v.pack.members[i]
	b := make([]byte, x.size)
	if err := readAt(v.r, b, x.at); err != nil {
		return nil, &Error{ErrArchive, -1, members[i], "it cannot be read", err}
	}
	return b, nil
}

// fault is one of the entry at hand.
func (v *verifier) fault(check error, field, what string) *Error {
	return &Error{check, int64(v.size()), field, what, nil}
}

// entry verifies the next entry, which lies at an offset of the pack, and adds it to the fold.
func (v *verifier) entry(line []byte, at int64) *Error {
	if bytes.HasPrefix(line, []byte(`{"gap"`)) {
		return v.fault(ErrGap, "", "a gap"+unsupported)
	}
	sealed, ferr := v.reader.Open(line)
	if ferr != nil {
		return v.fault(checkOf(ferr.Class), ferr.Field, ferr.What)
	}
	if f := v.signed(sealed); f != nil {
		return f
	}
	st, ferr := sealed.Statement()
	if ferr != nil {
		return v.fault(ErrRecord, ferr.Field, ferr.What)
	}
	if what := later(st); what != "" {
		return v.fault(ErrRecord, "predicateType", what)
	}
	c := v.chain(st.Session)
	f := v.follows(st, c)
	if f == nil {
		f = v.causes(st, c)
	}
	var call *pending
	if f == nil {
		call, f = v.refers(st, c)
	}
	if f == nil {
		f = v.charged(st)
	}
	if f == nil {
		f = v.governs(st)
	}
	if f == nil {
		f = v.replay(st, c, call, extent{at, int64(len(line))}) // faults of BLOB and REPLAY wait
	}
	if f == nil {
		if err := v.add(crypto.LeafHash(line), st, c); err != nil {
			return v.fault(ErrGraph, "", err.Error())
		}
		f = v.reached()
	}
	return f
}

// reached compares the root with that of the last checkpoint, where the log has its size.
func (v *verifier) reached() *Error {
	if v.last == nil || v.report.History != None || v.last.Size > v.size() {
		return nil
	}
	keys := v.state.Keys(registry.Log, v.last.Size)
	for _, l := range v.last.lines {
		if claimed, valid := v.last.by(l, keys); claimed && !valid {
			return &Error{ErrInput, -1, "Last", "a line of a log key does not verify", nil}
		}
	}
	var none proofgraph.Tree
	root := v.tree.Root()
	if v.last.Size == 0 {
		root = none.Root()
	}
	v.report.History = Fresh
	if v.last.Root != root {
		v.report.History = Diverged
	}
	return nil
}

// signed is KEY and SIGNATURE. Nothing else of an entry is read before.
func (v *verifier) signed(s *contracts.Sealed) *Error {
	v.pae = crypto.AppendPAE(v.pae[:0], contracts.PayloadType, s.Payload)
	if v.size() == 0 {
		if f := v.begins(s); f != nil {
			return f
		}
	}
	public, ok := v.state.Key(s.KeyID, registry.Kernel, v.size())
	if !ok {
		return v.fault(ErrKey, "signatures.keyid", "no kernel key that is valid here")
	}
	if k, ok := s.Key(); !ok || k != s.KeyID {
		return v.fault(ErrKey, "predicate.key", "not the signer")
	}
	if !crypto.Verify(public, v.pae, s.Sig) {
		return v.fault(ErrSignature, "signatures.sig", "does not verify")
	}
	return nil
}

// begins judges entry 0 by the pinned key, and takes the trust state from the pack where the caller gave none: who signs the genesis
// vouches for it.
func (v *verifier) begins(s *contracts.Sealed) *Error {
	if k := v.o.Kernel; k != nil {
		if s.KeyID != crypto.KeyID(k) {
			return v.fault(ErrKey, "signatures.keyid", "the genesis is not signed by the pinned key")
		}
		if !crypto.Verify(k, v.pae, s.Sig) {
			return v.fault(ErrSignature, "signatures.sig", "does not verify")
		}
	}
	if s.Kind != contracts.KindGenesis {
		return v.fault(ErrChain, "predicateType", "entry 0 is no genesis")
	}
	if v.state != nil {
		return nil
	}
	var t crypto.Tree
	if err := t.Parse(s.Payload, crypto.Limits{Bytes: contracts.MaxPayload, Depth: contracts.MaxRecordDepth}); err != nil {
		return v.fault(ErrEncoding, "payload", "not JSON") // cannot be: it was opened
	}
	d, err := crypto.ParseDigest(t.Root().Get("predicate").Get("trust").Bytes())
	if err == nil {
		b, _, f := v.content(d)
		if f != nil && f.Check != ErrBlob {
			return f
		}
		v.state, err = registry.ParseState(b) // of no bytes, where there are none
	}
	if err != nil {
		return v.fault(ErrTrust, "predicate.trust", "the initial trust state is not in the pack, or malformed")
	}
	return nil
}

// follows is CHAIN.
func (v *verifier) follows(st *contracts.Statement, c *chain) *Error {
	first := v.size() == 0
	switch {
	case first != (st.Genesis != nil):
		return v.fault(ErrChain, "predicateType", "entry 0, and only it, is the genesis")
	case c.closed:
		return v.fault(ErrChain, "predicate.session", "it is closed")
	case st.Seq != c.count:
		return v.fault(ErrChain, "predicate.seq", "not the next of its session")
	case st.Prev != c.last:
		return v.fault(ErrChain, "predicate.prev", "not the hash of the session's previous entry, or of the genesis")
	case st.Time < c.time:
		return v.fault(ErrChain, "predicate.time", "before that of the session's previous entry")
	case first && v.o.Origin != "" && st.Genesis.Origin != v.o.Origin:
		return v.fault(ErrChain, "predicate.origin", "not the one that was asked for")
	case first && v.last != nil && st.Genesis.Origin != v.last.Origin:
		return &Error{ErrInput, -1, "Last", "of another origin", nil}
	}
	return nil
}

// causes is GRAPH.
func (v *verifier) causes(st *contracts.Statement, c *chain) *Error {
	want := uint64(0)
	if v.size() > 0 {
		want = c.lamport + 1 // of genesis it is 0
	}
	for _, p := range st.Parents {
		_, lamport, ok := v.index.Lookup(p)
		if !ok {
			return v.fault(ErrGraph, "predicate.parents", "one is no earlier entry")
		}
		want = max(want, lamport+1)
	}
	if st.Lamport != want {
		return v.fault(ErrGraph, "predicate.lamport", "not one more than the highest that it names")
	}
	return nil
}

// charged is BUDGET.
func (v *verifier) charged(st *contracts.Statement) *Error {
	switch {
	case st.Decision != nil && len(st.Decision.Charges) > 0:
		return v.fault(ErrBudget, "predicate.decision.charges", "a charge"+unsupported)
	case st.Receipt != nil && len(st.Receipt.Settled) > 0:
		return v.fault(ErrBudget, "predicate.settled", "a settlement"+unsupported)
	}
	return nil
}

// governs is TRUST.
func (v *verifier) governs(st *contracts.Statement) *Error {
	d := st.Judgement()
	switch {
	case st.Genesis != nil && st.Genesis.Trust != v.state.Digest():
		return v.fault(ErrTrust, "predicate.trust", "not the digest of the trust state")
	case st.Genesis != nil && v.o.Kernel != nil && !slices.ContainsFunc(v.state.Keys(registry.Kernel, 0), func(k crypto.PublicKey) bool { return bytes.Equal(k, v.o.Kernel) }):
		return v.fault(ErrTrust, "predicate.trust", "the pinned key is no kernel key of the trust state")
	case d == nil:
	case d.Verdict == contracts.Allow && v.state.Frozen():
		return v.fault(ErrTrust, "predicate.decision.verdict", "an ALLOW while the system is frozen")
	case d.Reason == contracts.ReasonSystemFrozen && !v.state.Frozen():
		return v.fault(ErrTrust, "predicate.decision.reason", "the system is not frozen")
	case d.Verdict == contracts.Allow && d.Delegation != nil && v.state.Revoked(*d.Delegation):
		return v.fault(ErrTrust, "predicate.decision.delegation", "an ALLOW on a delegation that was revoked")
	}
	return nil
}
