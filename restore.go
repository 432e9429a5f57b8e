package helm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
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
	open     map[contracts.Digest]openCall // by the hash of the decision
	sessions map[string]*priorSession
	approved []approvedCall
	marks    *priormarks.Fold
	last     *lastseen.Checkpoint
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
	index   uint64
	session string
	record  *contracts.DecisionRecord
}

// add folds one entry.
func (l *priorLog) add(index uint64, _ contracts.Entry, hash contracts.Digest, st *contracts.Statement) error {
	l.size = index + 1
	if st.Genesis != nil && st.Genesis.Trust != l.trust.Digest() {
		return errors.New("entry 0: the log began with another trust state")
	}
	if _, ok := l.trust.Key(st.Key, registry.Kernel, index); !ok {
		return fmt.Errorf("entry %d: not of a kernel key of the log's trust state there", index)
	}
	var run *contracts.DecisionRecord // of the receipt
	if st.Receipt != nil {
		run = l.open[st.Receipt.DecisionHash].record
	}
	if err := l.fold(index, hash, st); err != nil {
		return err
	}
	if err := l.marks.Add(st, run); err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	l.last.Add(hash, l.trust)
	return nil
}

func (l *priorLog) fold(index uint64, hash contracts.Digest, st *contracts.Statement) error {
	switch {
	case st.Genesis != nil:
	case st.Trust != nil:
		return l.addTrust(index, st.Trust)
	case st.Policy != nil:
		l.policies.add(st.Policy, nil)
	case st.Decision != nil:
		return l.addDecision(index, hash, st)
	case st.Receipt != nil && st.Receipt.Decision == nil:
		return l.addReceipt(index, hash, st)
	case st.Receipt != nil: // a denial leaves nothing
	case st.Close != nil:
		delete(l.sessions, st.Session)
	case st.Message != nil:
		l.session(st.Session).past.Message(st.Message.TextHash, "")
	default:
		return fmt.Errorf("entry %d: %s entries are not supported by this version of helm", index, st.Kind())
	}
	return nil
}

func (l *priorLog) addTrust(index uint64, t *contracts.TrustRecord) error {
	next, err := l.trust.Apply(t, l.origin, index)
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	l.trust = next
	if t.Event.Type == "revoke" {
		l.revoked[*t.Event.ID] = index
	}
	return nil
}

func (l *priorLog) addDecision(index uint64, hash contracts.Digest, st *contracts.Statement) error {
	d := st.Decision
	if err := l.ledger.Charge(d.Charges); err != nil {
		return fmt.Errorf("entry %d: charges: %w", index, err)
	}
	l.open[hash] = openCall{index, st.Session, d}
	s := l.session(st.Session)
	if len(d.Approvals) == 0 {
		s.past.Allow(d, st.Time, nil)
	} else {
		l.approved = append(l.approved, approvedCall{st.Session, st.Time, d})
	}
	if d.Idempotency != "" {
		if s.bindings == nil {
			s.bindings = map[string]*binding{}
		}
		s.bindings[d.Idempotency] = &binding{caller: d.Caller, tool: d.Tool, args: d.ArgsHash, decision: index}
	}
	return nil
}

func (l *priorLog) addReceipt(index uint64, hash contracts.Digest, st *contracts.Statement) error {
	r := st.Receipt
	call, ok := l.open[r.DecisionHash]
	if ok {
		if err := l.ledger.Settle(call.record.Charges, r.Settled, r.Reason); err != nil {
			return fmt.Errorf("entry %d: settled: %w", index, err)
		}
	}
	if !ok || call.session != st.Session {
		return fmt.Errorf("entry %d: a receipt of no decision of its session that lacks one", index)
	}
	l.close(r.DecisionHash, index)
	if r.Outcome == contracts.Executed && st.Session != contracts.DefaultSession {
		run := past.Run{Tool: r.Tool, Decision: call.index, Receipt: index, Entry: hash, Time: st.Time}
		l.session(st.Session).past.Execute(run, crypto.Value{}, past.Facts{Digest: r.FactsHash})
	}
	return nil
}

// close notes the receipt of an open call.
func (l *priorLog) close(decision contracts.Digest, receipt uint64) {
	call := l.open[decision]
	delete(l.open, decision)
	if s := l.sessions[call.session]; s != nil {
		if b := s.bindings[call.record.Idempotency]; b != nil {
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
	if err := l.marks.Restore(&sh.marks, sh.log.Lookup, state, from.fetch); err != nil {
		return err
	}
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
	hashes := slices.SortedFunc(maps.Keys(l.open), func(a, b contracts.Digest) int {
		return cmp.Compare(l.open[a].index, l.open[b].index)
	})
	for _, hash := range hashes {
		call := l.open[hash]
		receipt := receipts.Unknown(call.record, hash)
		var b brought
		var err error
		b.taints, b.labels, err = l.marks.Brings(call.record, receipt, logReader{store: sh.options.Store}.fetch)
		if err != nil {
			return fmt.Errorf("entry %d: %w", call.index, err)
		}
		st, settle := &contracts.Statement{Receipt: receipt}, sh.settle(call.record.Charges, receipt, nil)
		s := sh.session(call.session)
		s.mu.Lock()
		slot, err := sh.record(s, st, []contracts.Digest{hash}, settle, b)
		s.mu.Unlock()
		if err == nil {
			err = slot.Wait()
		}
		if err != nil {
			return err
		}
		l.close(hash, slot.Index())
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
