package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/archivist"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/lastseen"
	"github.com/helmkernel/helm/internal/priormarks"
	"github.com/helmkernel/helm/internal/proofs"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// A priorLog folds the log that a new kernel continues. A kernel that keeps a state folds its log
// so too: see states.
type priorLog struct {
	options  *settings
	document func(contracts.Digest) []byte // of the kernel's own policy; nil for others
	trust    *registry.State               // at first the one in which the log must have begun
	revoked  map[contracts.Digest]uint64   // keys, and by which entry
	base     uint64                        // entries that were not read, but are in the state
	size     uint64
	policies *policyLog
	ledger   *past.Ledger // nil if only some sessions are folded
	open     openCalls
	sessions map[string]*priorSession
	approved []approvedCall
	used     *usedNonces
	fold     *priormarks.Fold
	marks    *past.Marks
	last     *lastseen.Checkpoint // nil unless this is the fold of New
	archive  *archivist.Archivist
	entries  map[uint64]contracts.Digest // PolicyHashes by the index of the policy entry, which stubs name
	again    []contracts.Ref             // policy and condense entries, which a state names
	older    map[uint64]contracts.Digest // entries below base that later ones have as parents
}

// newPrior returns the fold of no entries.
func (sh *shared) newPrior() *priorLog {
	return &priorLog{
		options:  sh.options,
		document: sh.document,
		trust:    sh.options.initial,
		revoked:  map[contracts.Digest]uint64{},
		policies: newPolicyLog(),
		ledger:   new(past.Ledger),
		open:     newOpenCalls(),
		sessions: map[string]*priorSession{},
		used:     new(usedNonces),
		fold:     priormarks.New(),
		marks:    new(past.Marks),
		archive:  archivist.New(sh.options.Store, sh.document),
		entries:  map[uint64]contracts.Digest{},
		older:    map[uint64]contracts.Digest{},
	}
}

// A priorSession is what a session's entries say to its later calls.
type priorSession struct {
	bindings map[string]*binding // by idempotency key: those that an ALLOW bound
	past     past.Session        // its later calls are judged by it
	approved []contracts.Ref     // the ALLOWs that consumed approvals
}

// openCalls are the calls that were permitted and have no receipt.
type openCalls struct {
	byIndex map[uint64]openCall         // by the index of the decision
	byHash  map[contracts.Digest]uint64 // which receipts name
}

func newOpenCalls() openCalls {
	return openCalls{map[uint64]openCall{}, map[contracts.Digest]uint64{}}
}

func (o openCalls) add(index uint64, c openCall) { o.byIndex[index], o.byHash[c.hash] = c, index }

func (o openCalls) remove(index uint64) {
	delete(o.byHash, o.byIndex[index].hash)
	delete(o.byIndex, index)
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
	l.noteOlder(&x)
	run, err := l.line(&x)
	if err == nil {
		err = l.fold.Add(sessionOf(&x), x.Parents, run)
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", x.Index, err)
	}
	l.last.Add(x.Hash, l.trust)
	return nil
}

// noteOlder notes the parents that are below the base.
func (l *priorLog) noteOlder(x *proofgraph.Line) {
	for i, index := range x.Parents {
		if index >= l.base {
			continue
		}
		if x.Stub != nil {
			l.older[index] = x.Stub.Parents[i]
		} else {
			l.older[index] = x.Statement.Parents[i]
		}
	}
}

func sessionOf(x *proofgraph.Line) string {
	if x.Stub != nil {
		return x.Stub.Session
	}
	return x.Statement.Session
}

// line folds one line, and returns the run that it is the receipt of, or nil.
func (l *priorLog) line(x *proofgraph.Line) (*priormarks.Run, error) {
	if x.Stub != nil {
		return l.foldStub(x)
	}
	st := x.Statement
	if st.Genesis != nil && st.Genesis.Trust != l.trust.Digest() {
		return nil, errors.New("the log began with another trust state")
	}
	if _, ok := l.trust.Key(st.Key, registry.Kernel, x.Index); !ok {
		return nil, errNoKey
	}
	switch {
	case st.Genesis != nil:
	case st.Trust != nil:
		return nil, l.addTrust(x.Index, st.Trust)
	case st.Policy != nil:
		l.addPolicy(x.Index, x.Hash, st.Policy)
	case st.Condense != nil: // the log and the archivist know its set
		l.again = append(l.again, contracts.Ref{Index: x.Index, Hash: x.Hash})
	case st.Decision != nil:
		return nil, l.addDecision(x.Index, x.Hash, st)
	case st.Receipt != nil && st.Receipt.Decision == nil:
		return l.addReceipt(x, st)
	case st.Receipt != nil: // a denial leaves nothing
	case st.Close != nil:
		delete(l.sessions, st.Session)
		l.fold.Close(st.Session)
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

func (l *priorLog) addPolicy(index uint64, hash contracts.Digest, p *contracts.PolicyRecord) {
	l.policies.add(p, nil)
	l.fold.Policy(p)
	l.entries[index] = p.Policy
	l.again = append(l.again, contracts.Ref{Index: index, Hash: hash})
}

func (l *priorLog) addTrust(index uint64, t *contracts.TrustRecord) error {
	next, err := l.trust.Apply(t, l.options.Origin, index)
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
	if l.ledger != nil {
		if err := l.ledger.Charge(c.charges); err != nil {
			return fmt.Errorf("charges: %w", err)
		}
	}
	l.open.add(index, c)
	s := l.session(c.session)
	s.past.Allow(&contracts.DecisionRecord{Tool: c.tool}, at, nil)
	if c.record != nil && len(c.record.Approvals) > 0 {
		l.approve(c.session, contracts.Ref{Index: index, Hash: c.hash}, at, c.record)
	}
	if c.key != "" {
		if s.bindings == nil {
			s.bindings = map[string]*binding{}
		}
		b := bound
		b.decision, b.hash = index, c.hash
		s.bindings[c.key] = &b
	}
	return nil
}

// approve notes an ALLOW of a session that consumed approvals.
func (l *priorLog) approve(session string, ref contracts.Ref, at contracts.Time, d *contracts.DecisionRecord) {
	s := l.session(session)
	s.approved = append(s.approved, ref)
	l.approved = append(l.approved, approvedCall{session, at, d})
}

// addReceipt folds a receipt of an ALLOW.
func (l *priorLog) addReceipt(x *proofgraph.Line, st *contracts.Statement) (*priormarks.Run, error) {
	decision, ok := l.open.byHash[st.Receipt.DecisionHash]
	if !ok {
		return nil, errNoCall
	}
	if i := slices.Index(x.Parents, decision); i >= 0 { // of the same session
		x.Parents = slices.Delete(x.Parents, i, i+1)
	}
	return l.finish(x, decision, st.Time, st.Receipt)
}

var errNoKey = errors.New("not of a kernel key of the log's trust state there")

var errNoCall = errors.New("a receipt of no decision of its session that lacks one")

// finish folds a receipt, which has what a stub has of one, and returns its run.
func (l *priorLog) finish(
	x *proofgraph.Line, decision uint64, at contracts.Time, r *contracts.Receipt,
) (*priormarks.Run, error) {
	call, ok := l.open.byIndex[decision]
	if !ok || call.session != sessionOf(x) {
		return nil, errNoCall
	}
	if l.ledger != nil {
		if err := l.ledger.Settle(call.charges, r.Settled, r.Reason); err != nil {
			return nil, fmt.Errorf("settled: %w", err)
		}
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
	call := l.open.byIndex[decision]
	l.open.remove(decision)
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

// restore reads what the fold of the entries could not: which approvals were used, and the marks.
//
// The requests of approvals are in the inputs. If these were dropped or erased it is not known
// which requests they were, not even to verifiers; then more of them count as used, not fewer. If
// they cannot be read New fails, because a verifier, who can read them, would know better than the
// kernel.
func (l *priorLog) restore() error {
	from := logReader{store: l.options.Store}
	state := func(session string) *past.Session { return &l.session(session).past }
	names := map[uint64]string{}
	for _, index := range slices.Sorted(maps.Keys(l.older)) { // their Lamport times counted too
		name, err := l.sessionAt(index)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		names[index] = name
	}
	sessionOf := func(index uint64) string { return names[index] }
	if err := l.fold.Restore(l.marks, state, sessionOf, from.fetch); err != nil {
		return err
	}
	return l.consume()
}

// consume reads which requests were used by the approved calls that were folded.
func (l *priorLog) consume() error {
	var reader contracts.Reader
	from := logReader{store: l.options.Store}
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
		l.used.add(nonces)
		if s := l.sessions[a.session]; s != nil { // it was not closed
			s.past.Consume(a.record, a.at, nonces)
		}
	}
	l.approved = nil
	return nil
}

// sessionAt returns the session of an entry below the base, which a later one has as a parent. Of a
// stub the hash proves nothing but that: it must be in the set of a condense entry, which was
// compared with what the store has there.
func (l *priorLog) sessionAt(index uint64) (string, error) {
	line, err := readLine(context.Background(), l.options.Store, index)
	if err != nil {
		return "", err
	}
	if !contracts.IsStub(line) {
		if line.Hash() != l.older[index] {
			return "", errOther
		}
		st, err := entry.Open(new(contracts.Reader), line)
		if err != nil {
			return "", err
		}
		return st.Session, nil
	}
	s, err := new(contracts.Reader).Stub(line)
	switch {
	case err != nil:
		return "", err
	case s.Entry != l.older[index]:
		return "", errOther
	case !l.archive.Covers(index):
		return "", archivist.ErrNotCovered
	}
	return s.Session, nil
}

// adopt sets what the kernel knows of the log before it to what was folded.
func (sh *shared) adopt(l *priorLog) {
	sh.trust.Store(l.trust)
	sh.known = known{l.ledger, l.used, l.marks, newOlder(l), l.policies}
	sh.marks.Forget(sh.archive.Members(), l.size)
	for name, prior := range l.sessions {
		s := sh.session(name)
		s.bindings, s.past = prior.bindings, prior.past
	}
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
func (sh *shared) storeRequired(ctx context.Context, l *priorLog) (err error) {
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
	required := append([]contracts.Digest{trust}, slices.SortedFunc(maps.Keys(l.policies.documents),
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
	if err := o.Store.Append(ctx, proofgraph.Batch{At: l.size, Blobs: again}); err != nil {
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
	for _, index := range slices.Sorted(maps.Keys(l.open.byIndex)) {
		call := l.open.byIndex[index]
		if call.record == nil {
			return fmt.Errorf("entry %d: the stub of a decision without its receipt", index)
		}
		receipt := receipts.Unknown(call.record, call.hash)
		r := &recording{statement: contracts.Statement{Receipt: receipt}, parents: []contracts.Digest{call.hash},
			charges: call.record.Charges}
		var err error
		r.taints, r.labels, err = l.fold.Brings(call.run(receipt), logReader{store: sh.options.Store}.fetch)
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

// openLog opens the log and folds it, from a state if there is one. Whatever is wrong with a state,
// the log is then read whole.
func (sh *shared) openLog(ctx context.Context, begin proofgraph.Options) (*priorLog, error) {
	l, prefix, err := sh.states.load(ctx)
	if err == nil && l != nil {
		if err = sh.openFrom(ctx, begin, l, prefix); err == nil {
			return l, nil
		}
	}
	if err != nil {
		sh.states.failed(err)
	}
	l = sh.newPrior()
	return l, sh.openFrom(ctx, begin, l, nil)
}

// openFrom opens the log, whose first entries l is the fold of, and folds the others. If these are
// many it saves a state of all of them, so that the next one to open the log need not.
func (sh *shared) openFrom(
	ctx context.Context, begin proofgraph.Options, l *priorLog, prefix *proofgraph.Prefix,
) (err error) {
	defer func() {
		if err != nil && sh.log != nil {
			sh.log.Seal(err)
		}
	}()
	o := sh.options
	if err := o.beginLast(ctx); err != nil {
		return err
	}
	if l.last = o.last; prefix != nil {
		if err := l.resumeLast(ctx, prefix); err != nil {
			return fmt.Errorf("Options.Last: %w", err)
		}
	}
	many, err := sh.states.manyAfter(ctx, l.base)
	if err == nil && many > 0 {
		prefix, err = l.foldFrom(ctx, prefix, many)
	}
	if err != nil {
		return err
	}
	sh.archive, begin.Prefix, begin.Condensed = l.archive, prefix, l.condensed(ctx)
	if sh.log, err = proofgraph.Open(ctx, o.Store, begin, l.add); err != nil {
		return err
	}
	if err := l.archive.Opened(); err != nil {
		return err
	}
	if err := o.last.Err(); err != nil {
		return fmt.Errorf("Options.Last: %w", err)
	}
	if err := o.cosigned.Stored(ctx, o.Store); err != nil {
		return fmt.Errorf("Options.Store: checkpoint: %w", err)
	}
	if err := o.checkSigners(l); err != nil {
		return err
	}
	if err := sh.storeRequired(ctx, l); err != nil {
		return err
	}
	if err := l.restore(); err != nil {
		return err
	}
	if sh.states != nil {
		sh.states.begin(ctx, l, prefix)
	}
	return nil
}

// foldFrom folds the entries from a prefix on.
func (l *priorLog) foldFrom(ctx context.Context, prefix *proofgraph.Prefix, size uint64) (*proofgraph.Prefix, error) {
	o := proofgraph.Options{Origin: l.options.Origin, Prefix: prefix, Condensed: l.condensed(ctx)}
	p, err := proofgraph.Fold(ctx, l.options.Store, o, size, l.add)
	if err != nil {
		return nil, err
	}
	return p, l.archive.Opened()
}

// condensed returns the function for [proofgraph.Options].
func (l *priorLog) condensed(
	ctx context.Context,
) func(*proofgraph.Log, uint64, *contracts.Condense) (iter.Seq[uint64], error) {
	return func(log *proofgraph.Log, index uint64, c *contracts.Condense) (iter.Seq[uint64], error) {
		return l.archive.Condensed(ctx, log, index, c)
	}
}

// resumeLast compares the entries of a prefix with Options.Last, by the hashes that the store has.
func (l *priorLog) resumeLast(ctx context.Context, prefix *proofgraph.Prefix) error {
	tree, err := prefix.Tree()
	if err != nil {
		return err
	}
	return l.last.Resume(tree, func(size uint64) (contracts.Digest, error) {
		return rootBelow(ctx, l.options.Store, size, &tree)
	}, l.trust)
}

// rootBelow returns the root of the first size entries, at least one, of those that the tree is of.
func rootBelow(
	ctx context.Context, store proofgraph.Store, size uint64, tree *proofgraph.Tree,
) (root contracts.Digest, err error) {
	if root, err = proofs.Root(ctx, store, size); err != nil {
		return root, err
	}
	list, err := proofs.Consistency(ctx, store, size, tree.Size())
	if err != nil {
		return root, err
	}
	proof := make(tlog.TreeProof, len(list))
	for i, h := range list {
		proof[i] = tlog.Hash(h)
	}
	return root, tlog.CheckTree(proof, int64(tree.Size()), tlog.Hash(tree.Root()), int64(size), tlog.Hash(root))
}
