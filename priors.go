package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/priormarks"
	"github.com/helmkernel/helm/proofgraph"
)

// priors answers the guardian's questions about the past of a call: balances, and the calls,
// receipts and approvals of its session. It is used under the lock of that session. The session
// does not keep the arguments of earlier calls; they are read back from the store.
type priors struct {
	session *session
	ledger  *past.Ledger
	used    *usedNonces
	marks   *past.Marks
	others  *priormarks.Joined // in their place, if other kernels write to the log too
	parents []uint64           // of the call's entry, by index
	from    logReader
	inputs  *contracts.Reader // of inputs of earlier calls, which may be large: it goes with the call
	unread  error             // why the past could not be read
}

var _ past.Past = (*priors)(nil)

// Spent returns the balance that a charge would be made on.
func (p *priors) Spent(c contracts.Charge) uint64 { return p.ledger.Spent(c) }

// Calls returns how often an ALLOW of the session was for the tool.
func (p *priors) Calls(tool string) uint64 { return p.session.past.Calls(tool) }

// Used reports whether an ALLOW consumed the request: one of the session, or of another session if
// one nonce was signed for both.
func (p *priors) Used(_ contracts.Digest, r *contracts.ApprovalRequest) bool {
	return p.session.past.Used(r) || p.used.has(r.Nonce)
}

// Receipt returns the latest receipt of the tool in the session with the same arguments.
func (p *priors) Receipt(tool string, same crypto.Value) (r contracts.PriorReceipt, err error) {
	defer p.note(&err)
	if err = p.named(); err == nil {
		r, err = p.session.past.Receipt(tool, same, p.args)
	}
	return r, err
}

// Facts returns the facts document of a receipt.
func (p *priors) Facts(r *contracts.PriorReceipt) (v crypto.Value, err error) {
	defer p.note(&err)
	if err = p.named(); err == nil {
		v, err = p.session.past.Facts(r, p.from.fetch)
	}
	return v, err
}

// Source returns what a source supplied to the session.
func (p *priors) Source(s past.Source) (x past.Supply, err error) {
	defer p.note(&err)
	if err = p.named(); err == nil {
		x, err = p.session.past.Source(s, p.from.fetch)
	}
	return x, err
}

// Marks returns the taint and the labels of the session, and of the call's parents.
func (p *priors) Marks() (tainted bool, labels []string, err error) {
	defer p.note(&err)
	if err = p.named(); err == nil && p.others != nil {
		return p.read()
	}
	if err == nil {
		tainted, labels = p.marks.Read(p.session.past.Marks(p.marks, p.parents))
	}
	return tainted, labels, err
}

// read is Marks of a log to which others write. A call that ran elsewhere may be one of a policy of
// which the log's entry was not read yet.
func (p *priors) read() (tainted bool, labels []string, err error) {
	ctx, name := context.Background(), p.session.chain.Session()
	if tainted, labels, err = p.others.Read(ctx, name, p.parents); err == nil {
		return tainted, labels, nil
	}
	if err := p.from.log.Refresh(ctx); err != nil {
		return false, nil, err
	}
	return p.others.Read(ctx, name, p.parents)
}

// named returns an error for the session of all calls that name none: what one of them did says
// nothing of another.
func (p *priors) named() error {
	if p.session.chain.Session() == contracts.DefaultSession {
		return errors.New("the session is the one of all calls that name none: name a session")
	}
	return nil
}

// note keeps the first error, for the caller of Guard.
func (p *priors) note(err *error) {
	if p.unread == nil {
		p.unread = *err
	}
}

// args reads the arguments of an earlier call. They are valid until the next are read.
func (p *priors) args(r past.Run) (v crypto.Value, err error) {
	if p.inputs == nil {
		p.inputs = new(contracts.Reader)
	}
	in, err := p.from.inputsOf(p.inputs, r.Decision)
	if err == nil && p.others != nil {
		err = p.from.isOf(new(contracts.Reader), r)
	}
	if err != nil {
		return v, fmt.Errorf("the arguments of an earlier call, which entry %d permitted: %w", r.Decision, err)
	}
	return in.Args, nil
}

// frozenBalances is a Past that returns the balances as of slot assignment. These deny the call, so
// the state of later conditions is not read again: inputs hold the state that was read and nothing
// else.
type frozenBalances struct {
	*priors
	balances []contracts.Balance
}

// Spent returns the balance that was found.
func (f frozenBalances) Spent(c contracts.Charge) uint64 {
	for i := range f.balances {
		if b := &f.balances[i]; b.Budget == c.Budget && b.Of == c.Of && b.Window == c.Window {
			return b.Spent
		}
	}
	return crypto.MaxInt
}

// usedNonces is the set of approval nonces consumed anywhere in the log, across sessions. A request
// is for one session, but its nonce is chosen by its author: if two sessions present one nonce at
// once, one call runs. A nonce is added while its entry takes its place in the log, so that no two
// calls find it free.
type usedNonces struct {
	mu     sync.Mutex // held for a few look-ups; protects nonces
	nonces map[string]struct{}
}

// has reports whether any of the nonces is used.
func (u *usedNonces) has(nonces ...string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, nonce := range nonces {
		if _, ok := u.nonces[nonce]; ok {
			return true
		}
	}
	return false
}

// list returns the nonces, sorted.
func (u *usedNonces) list() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.nonces))
}

// remove takes nonces back, of calls that were not written.
func (u *usedNonces) remove(nonce string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.nonces, nonce)
}

func (u *usedNonces) add(nonces []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.nonces == nil && len(nonces) > 0 {
		u.nonces = map[string]struct{}{}
	}
	for _, nonce := range nonces {
		u.nonces[nonce] = struct{}{}
	}
}

// noncesOf returns the nonces of the requests that the counted approvals answered. It returns nil
// if one of these is not presented.
func noncesOf(r *contracts.Reader, presented []contracts.Envelope, counted []contracts.Digest) (nonces []string) {
	for _, e := range presented {
		if !slices.Contains(counted, e.Digest()) {
			continue
		}
		if a := approvalOf(r, e); a != nil {
			nonces = append(nonces, a.Request.Nonce)
		}
	}
	if len(nonces) < len(counted) {
		return nil
	}
	return nonces
}

// approvalOf returns what an envelope says, which the guardian has verified, or nil if it is no
// approval.
func approvalOf(r *contracts.Reader, e contracts.Envelope) *contracts.Approval {
	sealed, err := r.Open(e)
	if err != nil {
		return nil
	}
	a, err := sealed.Approval()
	if err != nil {
		return nil
	}
	return a
}

// A logReader reads entries and blobs back. The store is not trusted to return the same bytes,
// nor not to panic.
type logReader struct {
	store proofgraph.Store
	log   *proofgraph.Log
}

// entry returns the entry that was written at that index.
func (l logReader) entry(ctx context.Context, index uint64) (e contracts.Entry, err error) {
	defer contain.Error(&err, "Options.Store")
	for e, err := range l.store.Entries(ctx, index, index+1) {
		if err != nil {
			return nil, err
		}
		if l.log.IsShared() { // only who names it knows its hash
			return e, nil
		}
		if ok, err := l.log.Find(ctx, contracts.Ref{Index: index, Hash: e.Hash()}); err != nil {
			return nil, err
		} else if !ok {
			return nil, errors.New("the store's entry is not the one that was written there")
		}
		return e, nil
	}
	return nil, errors.New("the store lacks the entry")
}

// blob returns the bytes that the store keeps under that digest, unchecked.
func (l logReader) blob(ctx context.Context, digest contracts.Digest) (b []byte, err error) {
	defer contain.Error(&err, "Options.Store")
	return l.store.Blob(ctx, digest)
}

// inputs returns the inputs with that digest. They may have been dropped or erased.
func (l logReader) inputs(r *contracts.Reader, digest contracts.Digest) (*contracts.Inputs, error) {
	b, err := l.blob(context.Background(), digest)
	if err != nil {
		return nil, err
	}
	if crypto.Sum(b) != digest {
		return nil, errors.New("the store's inputs are not those that were decided on")
	}
	return r.Inputs(b)
}

// inputsOf returns the inputs of the decision at that index. It is called under a session's lock,
// so the caller's context is asked nothing.
func (l logReader) inputsOf(r *contracts.Reader, index uint64) (*contracts.Inputs, error) {
	e, err := l.entry(context.Background(), index)
	if err != nil {
		return nil, err
	}
	sealed, err := r.Open(e)
	if err != nil {
		return nil, err
	}
	st, err := sealed.Statement()
	if err != nil {
		return nil, err
	}
	if st.Decision == nil {
		return nil, errors.New("no decision")
	}
	return l.inputs(r, st.Decision.InputsHash)
}

// isOf returns an error if the store has not the receipt of that run, or not its decision. It is
// for a log to which others write: of that the kernel does not know the hashes of all entries.
func (l logReader) isOf(r *contracts.Reader, run past.Run) error {
	ctx := context.Background()
	receipt, err := l.entry(ctx, run.Receipt)
	if err != nil {
		return err
	}
	st, err := entry.Open(r, receipt)
	if err != nil {
		return err
	}
	decision, err := l.entry(ctx, run.Decision)
	if err == nil && (receipt.Hash() != run.Entry || st.Receipt == nil || st.Receipt.DecisionHash != decision.Hash()) {
		err = errOther
	}
	return err
}

// fetch is blob for holders of a session's lock, who ask the caller's context nothing.
func (l logReader) fetch(digest contracts.Digest) ([]byte, error) {
	return l.blob(context.Background(), digest)
}
