package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/archivist"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/lastseen"
	"github.com/helmkernel/helm/internal/priormarks"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// A priorLog folds the log that a new kernel continues.
type priorLog struct {
	origin   string
	trust    *registry.State             // at first the one in which the log must have begun
	revoked  map[contracts.Digest]uint64 // keys, and by which entry
	size     uint64
	policies *policyLog
	ledger   *past.Ledger
	open     map[uint64]openCall // by the index of the decision
	sessions map[string]*priorSession
	approved []approvedCall
	marks    *priormarks.Fold
	last     *lastseen.Checkpoint
	archive  *archivist.Archivist
	hashes   map[contracts.Digest]uint64 // of open, which receipts name
	entries  map[uint64]contracts.Digest // PolicyHashes by the index of the policy entry, which stubs name
}

// newPrior returns the fold of no entries.
func (sh *shared) newPrior() *priorLog {
	return &priorLog{
		origin:   sh.options.Origin,
		trust:    sh.options.initial,
		revoked:  map[contracts.Digest]uint64{},
		policies: &sh.policies,
		ledger:   &sh.ledger,
		open:     map[uint64]openCall{},
		sessions: map[string]*priorSession{},
		marks:    priormarks.New(),
		last:     sh.options.last,
		archive:  sh.archive,
		hashes:   map[contracts.Digest]uint64{},
		entries:  map[uint64]contracts.Digest{},
	}
}

// A priorSession is the state of a session that is not closed.
type priorSession struct {
	bindings map[string]*binding
	past     past.Session
}

// An approvedCall is an ALLOW that consumed approvals. Which ones is in its inputs.
type approvedCall struct {
	session string
	at      contracts.Time
	record  *contracts.DecisionRecord
}

// An openCall was permitted and has no receipt.
type openCall struct {
	hash    contracts.Digest
	session string
	policy  contracts.Digest
	tool    string
	key     string // its idempotency key
	charges []contracts.Charge
	record  *contracts.DecisionRecord // nil if a stub is left of the decision
}

// add folds one line. A stub takes the part of its entry, as if nothing that the entry names could
// be read.
func (l *priorLog) add(x proofgraph.Line) error {
	l.size = x.Index + 1
	l.archive.Line(&x)
	run, err := l.fold(&x)
	if err == nil {
		session, parents := sessionOf(&x), x.Parents
		err = l.marks.Add(session, parents, run)
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", x.Index, err)
	}
	l.last.Add(x.Hash, l.trust)
	return nil
}

func sessionOf(x *proofgraph.Line) string {
	if x.Stub != nil {
		return x.Stub.Session
	}
	return x.Statement.Session
}

// fold folds one line, and returns the run that it is the receipt of, or nil.
func (l *priorLog) fold(x *proofgraph.Line) (*priormarks.Run, error) {
	if x.Stub != nil {
		return l.foldStub(x)
	}
	st := x.Statement
	if st.Genesis != nil && st.Genesis.Trust != l.trust.Digest() {
		return nil, errors.New("the log began with another trust state")
	}
	if _, ok := l.trust.Key(st.Key, registry.Kernel, x.Index); !ok {
		return nil, errors.New("not of a kernel key of the log's trust state there")
	}
	switch {
	case st.Genesis != nil:
	case st.Trust != nil:
		return nil, l.addTrust(x.Index, st.Trust)
	case st.Policy != nil:
		l.policies.add(st.Policy, nil)
		l.marks.Policy(st.Policy)
		l.entries[x.Index] = st.Policy.Policy
	case st.Condense != nil: // the log and the archivist know its set
	case st.Decision != nil:
		return nil, l.addDecision(x.Index, x.Hash, st)
	case st.Receipt != nil && st.Receipt.Decision == nil:
		return l.addReceipt(x, st)
	case st.Receipt != nil: // a denial leaves nothing
	case st.Close != nil:
		delete(l.sessions, st.Session)
		l.marks.Close(st.Session)
	case st.Message != nil:
		l.session(st.Session).past.Message(st.Message.TextHash, "")
	default:
		return nil, fmt.Errorf("%s entries are not supported by this version of helm", st.Kind())
	}
	return nil, nil
}

// foldStub folds a stub.
func (l *priorLog) foldStub(x *proofgraph.Line) (*priormarks.Run, error) {
	s := x.Stub
	if d := s.Decision; d != nil {
		policy, ok := l.entries[d.Policy]
		if !ok {
			return nil, fmt.Errorf("policy: entry %d is no policy entry", d.Policy)
		}
		call := openCall{x.Hash, s.Session, policy, d.Tool, d.Idempotency, d.Charges, nil}
		return nil, l.permit(x.Index, call, s.Time, binding{tool: d.Tool}) // of arguments that no call has
	}
	r, reason := s.Receipt, contracts.ReasonAllow
	if r.Outcome == contracts.Failed { // no other failure goes
		reason = contracts.ReasonToolError
	}
	return l.finish(x, r.Decision, s.Time, &contracts.Receipt{
		Outcome: r.Outcome, Reason: reason, Settled: r.Settled, FactsHash: r.FactsHash})
}

func (l *priorLog) addTrust(index uint64, t *contracts.TrustRecord) error {
	next, err := l.trust.Apply(t, l.origin, index)
	if err != nil {
		return err
	}
	l.trust = next
	if t.Event.Type == "revoke" {
		l.revoked[*t.Event.ID] = index
	}
	return nil
}

func (l *priorLog) addDecision(index uint64, hash contracts.Digest, st *contracts.Statement) error {
	d := st.Decision
	call := openCall{hash, st.Session, d.PolicyHash, d.Tool, d.Idempotency, d.Charges, d}
	return l.permit(index, call, st.Time, binding{caller: d.Caller, tool: d.Tool, args: d.ArgsHash})
}

// permit folds an ALLOW, which binds its idempotency key, if it has one.
func (l *priorLog) permit(index uint64, c openCall, at contracts.Time, bound binding) error {
	if err := l.ledger.Charge(c.charges); err != nil {
		return fmt.Errorf("charges: %w", err)
	}
	l.open[index], l.hashes[c.hash] = c, index
	s := l.session(c.session)
	if c.record == nil || len(c.record.Approvals) == 0 {
		s.past.Allow(&contracts.DecisionRecord{Tool: c.tool}, at, nil)
	} else {
		l.approved = append(l.approved, approvedCall{c.session, at, c.record})
	}
	if c.key != "" {
		if s.bindings == nil {
			s.bindings = map[string]*binding{}
		}
		b := bound
		b.decision = index
		s.bindings[c.key] = &b
	}
	return nil
}

// addReceipt folds a receipt of an ALLOW.
func (l *priorLog) addReceipt(x *proofgraph.Line, st *contracts.Statement) (*priormarks.Run, error) {
	decision, ok := l.hashes[st.Receipt.DecisionHash]
	if !ok {
		return nil, errNoCall
	}
	if i := slices.Index(x.Parents, decision); i >= 0 { // of the same session
		x.Parents = slices.Delete(x.Parents, i, i+1)
	}
	return l.finish(x, decision, st.Time, st.Receipt)
}

var errNoCall = errors.New("a receipt of no decision of its session that lacks one")

// finish folds a receipt, which has what a stub has of one, and returns its run.
func (l *priorLog) finish(
	x *proofgraph.Line, decision uint64, at contracts.Time, r *contracts.Receipt,
) (*priormarks.Run, error) {
	call, ok := l.open[decision]
	if !ok || call.session != sessionOf(x) {
		return nil, errNoCall
	}
	if err := l.ledger.Settle(call.charges, r.Settled, r.Reason); err != nil {
		return nil, fmt.Errorf("settled: %w", err)
	}
	l.close(decision, x.Index)
	if r.Outcome == contracts.Executed && call.session != contracts.DefaultSession {
		run := past.Run{Tool: call.tool, Decision: decision, Receipt: x.Index, Entry: x.Hash, Time: at}
		l.session(call.session).past.Execute(run, crypto.Value{}, past.Facts{Digest: r.FactsHash})
	}
	return call.run(r), nil
}

// run returns the run of a receipt.
func (c *openCall) run(r *contracts.Receipt) *priormarks.Run {
	return priormarks.RunOf(r, c.tool, c.policy)
}

// close notes the receipt of an open call.
func (l *priorLog) close(decision, receipt uint64) {
	call := l.open[decision]
	delete(l.open, decision)
	delete(l.hashes, call.hash)
	if s := l.sessions[call.session]; s != nil {
		if b := s.bindings[call.key]; b != nil {
			b.receipt = receipt
		}
	}
}

// session returns the state of the session with that name. It may be new.
func (l *priorLog) session(name string) *priorSession {
	s := l.sessions[name]
	if s == nil {
		s = new(priorSession)
		l.sessions[name] = s
	}
	return s
}

// restore sets the trust state, the used approvals, the marks and the sessions to those of the log.
//
// The requests of approvals are in the inputs. If these were dropped or erased it is not known
// which requests they were, not even to verifiers; then more of them count as used, not fewer. If
// they cannot be read New fails, because a verifier, who can read them, would know better than the
// kernel.
func (sh *shared) restore(l *priorLog) error {
	sh.trust.Store(l.trust)
	var reader contracts.Reader
	from := logReader{store: sh.options.Store}
	state := func(session string) *past.Session { return &l.session(session).past }
	if err := l.marks.Restore(&sh.marks, state, nil, from.fetch); err != nil {
		return err
	}
	sh.marks.Forget(sh.archive.Members(), l.size)
	for _, a := range l.approved {
		var nonces []string
		in, err := from.inputs(&reader, a.record.InputsHash)
		switch {
		case err == nil:
			nonces = noncesOf(&reader, in.Envelopes.Approvals, a.record.Approvals)
		case !errors.Is(err, proofgraph.ErrNoBlob):
			return fmt.Errorf("inputs of decision %s, by which approvals are known that were used: %w",
				a.record.ID, err)
		}
		sh.used.add(nonces)
		if s := l.sessions[a.session]; s != nil { // it was not closed
			s.past.Allow(a.record, a.at, nonces)
		}
	}
	for name, prior := range l.sessions {
		s := sh.session(name)
		s.bindings, s.past = prior.bindings, prior.past
	}
	return nil
}

// documentsOf returns a function that returns the bytes of a document of a policy, or nil.
func documentsOf(p *guardian.Policy) func(contracts.Digest) []byte {
	return func(digest contracts.Digest) []byte {
		for i, d := range p.Record().Documents {
			if d.Digest == digest {
				return p.Document(i).Canonical
			}
		}
		return nil
	}
}

// storeRequired reads the blobs without which no pack can be written: the initial trust state and
// the documents of every policy of the log. It stores again those of them that the store lacks, or
// has damaged, and this kernel has. Another one that is not there is an error.
func (sh *shared) storeRequired(ctx context.Context, size uint64) (err error) {
	defer contain.Error(&err, "Options.Store")
	o := sh.options
	trust := o.initial.Digest()
	have := map[contracts.Digest][]byte{trust: o.initial.Canonical()}
	for i, d := range o.Policy.Record().Documents {
		have[d.Digest] = o.Policy.Document(i).Canonical
	}
	read := func(d contracts.Digest) error {
		b, err := o.Store.Blob(ctx, d)
		if err == nil && crypto.Sum(b) != d {
			err = fmt.Errorf("the store has other bytes: %w", proofgraph.ErrDamaged)
		}
		return err
	}
	required := append([]contracts.Digest{trust}, slices.SortedFunc(maps.Keys(sh.policies.documents),
		func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })...)
	var lost []contracts.Digest
	var again [][]byte
	for _, d := range required {
		err := read(d)
		if err == nil {
			continue
		}
		if !errors.Is(err, proofgraph.ErrNoBlob) && !errors.Is(err, proofgraph.ErrDamaged) {
			return fmt.Errorf("blob %s: %w", d, err)
		}
		if have[d] == nil {
			return fmt.Errorf("the document %s of an earlier policy, without which no pack can be written: %w: "+
				"append its canonical form to the store as a blob, or restore the store from a copy", d, err)
		}
		lost, again = append(lost, d), append(again, have[d])
	}
	if lost == nil {
		return nil
	}
	if err := o.Store.Append(ctx, proofgraph.Batch{At: size, Blobs: again}); err != nil {
		return fmt.Errorf("storing again what was damaged: %w", err)
	}
	for _, d := range lost {
		if err := read(d); err != nil {
			return fmt.Errorf("blob %s, which was stored again: %w", d, err)
		}
	}
	return nil
}

// settleUnfinished writes a receipt OUTCOME_UNKNOWN for each call that the process before permitted
// and did not finish, in log order.
func (sh *shared) settleUnfinished(l *priorLog) error {
	for _, index := range slices.Sorted(maps.Keys(l.open)) {
		call := l.open[index]
		if call.record == nil {
			return fmt.Errorf("entry %d: the stub of a decision without its receipt", index)
		}
		receipt := receipts.Unknown(call.record, call.hash)
		r := &recording{statement: contracts.Statement{Receipt: receipt}, parents: []contracts.Digest{call.hash},
			charges: call.record.Charges}
		var err error
		r.taints, r.labels, err = l.marks.Brings(call.run(receipt), logReader{store: sh.options.Store}.fetch)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		s := sh.session(call.session)
		s.mu.Lock()
		slot, err := sh.record(s, r)
		s.mu.Unlock()
		if err == nil {
			err = slot.Wait()
		}
		if err != nil {
			return err
		}
		l.close(index, slot.Index())
		_, declared := sh.options.Policy.Limits(receipt.Tool)
		sh.observe(context.Background(), Event{
			Tool:     receipt.Tool,
			Session:  call.session,
			ID:       call.record.ID,
			Verdict:  receipt.Verdict,
			Reason:   receipt.Reason,
			Index:    slot.Index(),
			Declared: declared,
		})
	}
	return nil
}

// beginLast returns an error if the store has fewer entries than Options.Last.
func (p *settings) beginLast(ctx context.Context) (err error) {
	defer contain.Error(&err, "Options.Store")
	if p.last == nil {
		return nil
	}
	size, err := p.Store.Size(ctx)
	if err != nil {
		return err
	}
	if err := p.last.Begin(size, p.initial); err != nil {
		return fmt.Errorf("Options.Last: %w", err)
	}
	return nil
}

// initialTrust finds the trust state that the log began with. If keys were rotated since, the
// original keys must be in Options.Trust. None is taken from the store, because anyone who can
// write there could begin a log with a key of their own.
func (p *settings) initialTrust(ctx context.Context) error {
	genesis, err := p.genesisTrust(ctx)
	if err != nil || genesis == nil || *genesis == p.initial.Digest() {
		return err
	}
	for _, key := range p.initial.Keys(registry.Kernel, 0) {
		for _, log := range p.initial.Keys(registry.Log, 0) {
			if s, err := p.Trust.Initial(key, log); err == nil && s.Digest() == *genesis {
				p.initial = s
				return nil
			}
		}
	}
	const other = "entry 0: the log began with another trust state than Options.Trust gives"
	if len(p.initial.Keys(registry.Root, 0)) == 0 {
		return errors.New(other + ", which has no roots, so no other is ever added: " +
			"give Key, LogKey and the registry that it was begun with")
	}
	return errors.New(other + ": give the registry that it was begun with and, " +
		"where Key or LogKey are others now, in it those of then, under the names kernel and log; " +
		"what changed since, its trust events say")
}

// genesisTrust reads the digest of the initial trust state from the first entry. It returns nil if
// there is none. Anything else that is wrong with the log is found when all of it is read.
func (p *settings) genesisTrust(ctx context.Context) (digest *contracts.Digest, err error) {
	defer contain.Error(&err, "Options.Store")
	size, err := p.Store.Size(ctx)
	if err != nil {
		return nil, err
	}
	var reader contracts.Reader
	for e, err := range p.Store.Entries(ctx, 0, min(size, 1)) {
		if err != nil {
			return nil, err
		}
		if sealed, err := reader.Open(e); err == nil {
			if st, err := sealed.Statement(); err == nil && st.Genesis != nil {
				return &st.Genesis.Trust, nil
			}
		}
	}
	return nil, nil
}

// checkSigners returns an error if a key that this kernel is to sign with may not sign the
// next entry of the log.
func (p *settings) checkSigners(l *priorLog) error {
	for _, x := range []struct {
		option string
		id     contracts.Digest
		role   registry.Role
	}{{"Key", p.keyID, registry.Kernel}, {"LogKey", p.logID, registry.Log}} {
		if _, ok := l.trust.Key(x.id, x.role, l.size); ok {
			continue
		}
		option := "Options." + x.option
		if x.option == "LogKey" && p.derived {
			option += ", which is derived from Key where it is not given"
		}
		at, revoked := l.revoked[x.id]
		switch {
		case revoked:
			return fmt.Errorf("%s: entry %d revoked it: give %s", option, at, holders(l.trust, x.role))
		case len(l.trust.Keys(registry.Root, l.size)) == 0:
			return fmt.Errorf("%s: not a %s key of the log's trust state, which has no roots, "+
				"so no other is ever added: give the one that it was begun with", option, x.role)
		default:
			return fmt.Errorf("%s: not a %s key of the log's trust state: no trust event of type key has added %v "+
				"with the role %s: have one signed for Kernel.Govern, or give %s",
				option, x.role, x.id, x.role, holders(l.trust, x.role))
		}
	}
	return nil
}

// revokedSigner returns why this kernel cannot go on in a trust state: a key that it signs with is
// revoked. It returns nil if none is.
func (p *settings) revokedSigner(s *registry.State, index uint64) error {
	const next = "helm: a trust event revoked the %s that this kernel signs with: go on with helm.New and %s"
	if _, ok := s.Key(p.keyID, registry.Kernel, index); !ok {
		return fmt.Errorf(next, "Key", holders(s, registry.Kernel))
	}
	if _, ok := s.Key(p.logID, registry.Log, index); !ok {
		return fmt.Errorf(next, "LogKey", holders(s, registry.Log))
	}
	return nil
}

// holders names the keys of a role that are not revoked.
func holders(s *registry.State, role registry.Role) string {
	var list []string
	for _, k := range s.Keys(role, crypto.MaxInt) {
		id := crypto.KeyID(k)
		h, _ := s.Holder(id, role, crypto.MaxInt)
		list = append(list, fmt.Sprintf("the key %v of %q", id, h.Name))
	}
	return strings.Join(list, " or ")
}
