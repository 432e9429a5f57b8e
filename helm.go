// Package helm decides whether a tool call of an AI agent may run, runs it, and leaves a signed
// receipt that anyone can check offline.
//
// Make a [Kernel] with [New] and pass every call through [Kernel.Guard], or wrap a function once
// with [Wrap]. An [Intent] describes the call. The result is a [Decision] and a [Receipt]:
//
//	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: proofgraph.NewMemory()})
//	d, r := k.Guard(ctx, helm.Intent{
//		Tool: "fs.read", Args: args, Caller: who, Session: "chat-1", Driver: helm.Func(readFile),
//	})
//	if err := d.Err(); err != nil {
//		return err // denied, withheld, or the tool's own error
//	}
//	use(r.Output)
//
// Do not run the tool yourself after an Allow: the kernel has run it already, and recorded it. Do
// not judge by d.Record, the decision before anything ran: d.Verdict is the last word.
//
// Whatever fails, this holds:
//
//   - Anything unknown, invalid, missing, failing or panicking is DENY. A zero or nil Kernel,
//     Decision or Error denies.
//   - The driver gets exactly the canonical bytes that were judged, defaults filled in, and no
//     others.
//   - The signed permission is durable before the driver runs, and the receipt before the output is
//     released. If signing or storing fails, the kernel seals: every later call is KERNEL_SEALED,
//     and the next New over the store settles the calls that were running.
//   - The same policy and inputs yield the same verdict, reason, rule and hashes, on any machine.
//
// An error from [Decision.Err] answers one question first: did it run? [ErrDenied]: surely not.
// [ErrWithheld]: it did, or may have, and nothing is released. Neither: the tool's own error.
// Reason.Advice() returns the text for the model.
//
// A policy is loaded from YAML by policy.Load, or compiled by guardian.Compile. A key is made by
// crypto.GenerateKey; any crypto.Signer over Ed25519 will do, one in a KMS for instance. The log
// lives in a [proofgraph.Store]. Package evidence writes and verifies packs of it, and
// evidence/erasure erases the data of a call that is kept besides the signed entries.
//
// A call that a person must approve is denied APPROVAL_REQUIRED, and [Decision].Pending is the
// request to sign. The answer goes into Intent.Approvals when the same call is made again; it then
// runs, once. It is no answer to any other call, nor under another policy. See examples/approvals.
//
// A policy may ask who supplied a value: the user in their own words, which the host passes on by
// [Kernel.UserMessage], or a tool in a fact of an earlier output. It may also ask what the session
// has read: outputs of untrusted tools taint a session, and tools and threat signals label it.
//
// The roots of Options.Trust sign events that change who may sign ([Kernel.Govern]): they add and
// revoke keys, the kernel's own too, and a freeze denies every call. [Kernel.Swap] replaces the
// policy under running calls. [Kernel.Narrow] returns a kernel for one task, over the same log,
// that can only deny more; under its [Kernel.Context] it judges functions that were wrapped once,
// and tools that call tools.
//
// Limits: arguments of 1 MiB, nested 64 deep; names and lists as in docs/FORMATS.md section 1, the
// common ones at [Intent]. [Kernel] says how much memory and storage a kernel takes.
package helm

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/admission"
	"github.com/helmkernel/helm/internal/archivist"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/drivers"
	"github.com/helmkernel/helm/internal/notary"
	"github.com/helmkernel/helm/internal/priormarks"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A Kernel judges calls, runs those that are admissible, and records all of them. [New] makes one
// over a log. [Kernel.Narrow] makes more over the same log, which judge by more documents and share
// everything else. A nil Kernel denies everything.
//
// It is safe for concurrent use by multiple goroutines. Calls of one session are judged one after
// the other, and run side by side. Tools, observers and contexts may call the kernel. Its key,
// store and clock must not, because every call waits for them.
//
// A kernel keeps in memory a few hundred bytes for every session of its log and for every policy,
// 48 for every entry that it has read or written and that no condense entry covers
// ([Kernel.Condense]), and some 80 for every budget window that the log has had: one per caller and
// hour of a million callers is too many. For every session that is not closed it keeps the
// idempotency keys bound in it, what the user said, the values of facts that a policy asks for, and
// some 60 bytes for each call that ran in it and for the arguments that a policy compares with
// later ones. It keeps as much for good for each approval that was used. So close a session that
// ended ([Kernel.CloseSession]), and a narrowed kernel when its task is over ([Kernel.Close]).
//
// Its store keeps some 2 KiB for a denial and 4 KiB for a run. Unless Options.Keep says otherwise
// it keeps the arguments of every call too, up to 1 MiB, denied calls included. Budgets limit what
// is allowed; how often a model may be denied is for the host to limit.
type Kernel struct {
	shared   *shared              // nil in the zero Kernel
	parent   *Kernel              // nil if New made it
	overlays []contracts.Document // added to the root kernel's stack, outermost first
	stack    atomic.Pointer[stack]
	calls    inflight      // in the root kernel, the calls of all kernels over the log
	listed   *list.Element // in shared.narrowed
}

// shared is the state that all kernels over one log share: the root, which New made, and those
// narrowed from it.
type shared struct {
	options   *settings
	log       *proofgraph.Log
	root      *Kernel
	admission *admission.Queue // bounds the decisions signed ahead of the store
	abandoned drivers.Abandoned
	document  func(contracts.Digest) []byte // returns a document of the policy that New was given, or nil

	mu       sync.RWMutex // protects sessions
	sessions map[string]*session

	known
	stored map[contracts.Digest]bool      // changed like known.ledger: modules that were given to the store
	trust  atomic.Pointer[registry.State] // likewise, by the holder of the kernel session's lock

	notary  *notary.Notary
	archive *archivist.Archivist
	marked  atomic.Uint64 // size of the latest checkpoint
	states  *states       // nil if the store is no proofgraph.Rememberer

	epoch atomic.Uint64 // how often stacks were swapped

	joined bool               // the store is a proofgraph.Shared: other kernels write to the log too
	others *priormarks.Joined // the marks of its sessions; nil unless joined

	narrowedMu sync.Mutex // protects narrowed
	narrowed   list.List  // of *Kernel: those that are open, in the order in which they were made
}

// known is what a kernel knows of its log, from the first entry on.
type known struct {
	ledger   *past.Ledger // changed under the log's lock, when an entry takes its place
	used     *usedNonces  // likewise
	marks    *past.Marks  // of all entries, those of closed sessions too
	older    *older       // entries of the state that New took
	policies *policyLog
}

// capacity is the limit of a kernel's admission queue. A decision holds one, and one more for each
// 64 KiB of arguments and envelopes. So at most 1,024 decisions wait for the store, as many as one
// Append writes, and 64 MiB of their inputs.
const capacity = 1024

var (
	errNoKernel   = errors.New("helm: no kernel")
	errClosed     = errors.New("helm: the kernel was closed")
	errUnrecorded = errors.New("helm: a call that was permitted has no receipt")
)

// New returns a kernel over a store. If the store holds the log of an earlier kernel, New reads it
// once, and settles as OUTCOME_UNKNOWN the calls that were permitted and have no receipt.
//
// If the store is a [proofgraph.Rememberer] it has the state that an earlier kernel of the same Key
// has left. New then reads only the entries after it: see [Kernel.Close]. A state that does not fit
// is reported to Options.Observe, and New reads the whole log: none is ever needed. If so many
// entries are after the state that another one is due, New makes it.
//
// If the store is a [proofgraph.Shared], other kernels write to the log too, and all of them have
// one ledger, one trust state and one use of each approval. New then reads who may sign and what
// policies there are, and settles the calls of kernels that died. It reads a session when something
// is asked of it. See docs/OPERATIONS.md, Replicas.
//
// The log must have begun with the same registry. Key and LogKey may differ from those it began
// with, if its trust events added them ([Kernel.Govern]) and did not revoke them. Options.Trust
// then has the keys of the beginning too, under the names kernel and log, and Origin must be set,
// because its default is derived from Key.
func New(o Options) (*Kernel, error) {
	options, err := prepare(o)
	if err != nil {
		return nil, err
	}
	sh := &shared{
		options:   options,
		admission: admission.New(capacity),
		sessions:  map[string]*session{},
		stored:    map[contracts.Digest]bool{},
		document:  documentsOf(o.Policy),
	}
	sh.notary = notary.New(notary.Options{
		Every: o.Checkpoint.Every, After: o.Checkpoint.After, Done: o.Checkpoint.Done, Sign: sh.checkpoint,
		Failed: func(err error) { sh.observe(context.Background(), Event{Why: "checkpoint", Err: err}) },
	})
	_, sh.joined = o.Store.(proofgraph.Shared)
	if sh.states, err = newStates(sh); err != nil {
		return nil, err
	}
	k := &Kernel{shared: sh}
	sh.root = k
	if err := k.open(context.Background()); err != nil {
		if sh.log != nil {
			sh.log.Seal(err) // another kernel may take its place
		}
		return nil, fmt.Errorf("helm: %w", err)
	}
	return k, nil
}

// open restores the state of the log, puts the policy in force and settles unfinished calls.
func (k *Kernel) open(ctx context.Context) error {
	sh, o := k.shared, k.shared.options
	now, err := sh.options.clock.Now()
	if err != nil {
		return err
	}
	if err := o.Policy.Expired(now); err != nil {
		return fmt.Errorf("Options.Policy: %w", err)
	}
	if err := o.checkDefinitions(o.Policy, &sh.abandoned, ctx.Done()); err != nil {
		return err
	}
	if err := o.initialTrust(ctx); err != nil {
		return err
	}
	if err := o.Policy.Unapprovable(o.initial); err != nil { // a state without roots stays as it began
		return fmt.Errorf("Options.Policy: %w", err)
	}
	begin := proofgraph.Options{Origin: o.Origin, Key: o.Key, LogKey: o.LogKey, Trust: o.initial.Canonical(), Now: now,
		Grown: sh.grown}
	if err := crypto.ReadRandom(o.Rand, begin.Nonce[:]); err != nil {
		return fmt.Errorf("Options.Rand: %w", err)
	}
	open := sh.openLog
	if sh.joined {
		open = sh.openJoined
	}
	prior, err := open(ctx, begin)
	if err != nil {
		return err
	}
	sh.adopt(prior)
	if err := k.begin(); err != nil {
		return err
	}
	if err := sh.settleUnfinished(prior); err != nil {
		return fmt.Errorf("settling calls without a receipt: %w", err)
	}
	if err := sh.settleDead(ctx); err != nil {
		return fmt.Errorf("settling calls of writers that are dead: %w", err)
	}
	sh.notary.Begin()
	return nil
}

// Trust returns the initial trust state: the one that the log began with. Hand it to auditors,
// once. Changes since then are in the log, signed, and packs bring them along.
func (k *Kernel) Trust() *registry.State {
	if k.none() {
		return nil
	}
	return k.shared.options.initial
}

// Policy returns the stack that k judges by now. After a Swap it is another one, so ask again for
// each list of tools that a model gets.
func (k *Kernel) Policy() *guardian.Policy {
	if k.none() {
		return nil
	}
	return k.current()
}

// checkpoint makes a checkpoint, which the notary is told of.
func (sh *shared) checkpoint(ctx context.Context) (c proofgraph.Checkpoint, err error) {
	defer contain.Error(&err, "helm: checkpoint: the context")
	if c, err = sh.log.Checkpoint(ctx); err == nil {
		sh.notary.Made(c)
		sh.states.marked(c.Size)
	}
	return c, err
}

// session returns the session with that name. It may be new.
func (sh *shared) session(name string) *session {
	sh.mu.RLock()
	s := sh.sessions[name]
	sh.mu.RUnlock()
	if s != nil {
		return s
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s = sh.sessions[name]; s == nil {
		s = &session{chain: sh.log.Chain(name)}
		if sh.joined {
			s.away = newOpenCalls()
		}
		sh.sessions[name] = s
	}
	return s
}

// grown is told how many entries are durable, and of how many the latest checkpoint is. It never
// waits, since the log's lock is held.
func (sh *shared) grown(size, marked uint64) {
	sh.marked.Store(marked)
	sh.notary.Grown(size, marked)
}

// maxBehind is how far the clocks of two machines may be apart that keep one log in turn.
const maxBehind = 2 * time.Minute

// clock returns the time of a session's next entry, which never runs back. If the clock has failed,
// or shows a time well before the session's, time stands still, because entries must be recorded
// all the same. Then clock returns an error too, and no call may be judged. The caller holds the
// session's lock.
func (sh *shared) clock(s *session) (contracts.Time, error) {
	last := s.chain.Time()
	now, err := sh.options.clock.Now()
	if err != nil {
		return last, err
	}
	if behind := last.Time().Sub(now.Time()); behind > maxBehind {
		return last, fmt.Errorf("the clock is behind the session by %s", behind.Round(time.Second))
	}
	return max(now, last), nil
}

// A brought is what an entry brings: taint and labels to its session, and the module that it names
// to the store. Most entries bring nothing.
type brought struct {
	taints bool
	labels []string
	module *keptModule
}

// mark folds the marks of an entry that has taken its place. It is called before the entry is
// made, so its marks are there before anybody can name it as a parent. The caller holds the lock
// of the session.
func (sh *shared) mark(s *session, index uint64, parents []uint64, b brought) {
	if !sh.joined && priormarks.Marked(s.chain.Session()) {
		s.past.Mark(sh.marks, index, parents, b.taints, b.labels)
	}
}

// A recording is an entry other than a decision. Its record is known before its place.
type recording struct {
	statement contracts.Statement
	parents   []contracts.Digest
	charges   []contracts.Charge           // of the call that it is the receipt of
	take      func(proofgraph.Place) error // of an entry that settles nothing; may be nil
	undo      func()                       // over a shared store: takes take back; may be nil
	blobs     [][]byte
	exact     bool   // over a shared store: it follows from the session's entries so far
	decision  uint64 // over a shared store: the index of the decision that it is the receipt of
	dead      bool   // and that is of a writer that is dead
	brought

	sh      *shared
	session *session
	settles func(proofgraph.Place) error                         // recording.settle, made once
	write   func(proofgraph.Place) (*contracts.Statement, error) // recording.compose, made once
	parent  [1]contracts.Digest                                  // memory for parents and blobs
	blob    [2][]byte
}

// bind makes what log.Place is to call.
func (r *recording) bind() { r.settles, r.write = r.settle, r.compose }

// record takes the place of the next entry of a session, whose lock the caller holds, and has it
// signed there.
func (sh *shared) record(s *session, r *recording) (*proofgraph.Slot, error) {
	r.sh, r.session = sh, s
	if r.write == nil {
		r.bind()
	}
	at, _ := sh.clock(s) // it stands still if it fails
	d := proofgraph.Draft{Chain: s.chain, Time: at, Parents: r.parents, Take: r.take, Write: r.write, Undo: r.undo}
	if len(r.charges) > 0 || r.module != nil {
		d.Take = r.settles
	}
	if sh.joined {
		r.join(&d)
	}
	return sh.put(s, d)
}

// settle settles a call's charges when its receipt takes its place in the log: charges that the
// receipt does not keep are given back.
func (r *recording) settle(proofgraph.Place) error {
	if m := r.module; m != nil { // a store does not store again what it has from an earlier process
		m.first = m.first || !r.sh.stored[m.name] // it may be called again: see proofgraph.Draft
		r.sh.stored[m.name] = true
	}
	if r.dead { // all of it stays charged, by a writer whose balances this one need not have asked for
		return nil
	}
	return r.sh.ledger.Settle(r.charges, r.statement.Receipt.Settled, r.statement.Receipt.Reason)
}

// compose returns the record for its place in the log.
func (r *recording) compose(at proofgraph.Place) (*contracts.Statement, error) {
	r.sh.mark(r.session, at.Index(), nil, r.brought)
	if end := r.statement.Close; end != nil {
		h := at.Header()
		end.Count, end.Last = h.Seq, h.Prev
	}
	for _, blob := range r.blobs {
		at.Keep(blob)
	}
	if r.module != nil && r.module.first {
		at.Keep(r.module.bytes)
	}
	return &r.statement, nil
}

// observe reports an event to the observer. Its panics are dropped, because the call is over.
func (sh *shared) observe(ctx context.Context, e Event) {
	if sh.options.Observe == nil {
		return
	}
	defer contain.Drop()
	sh.options.Observe(ctx, e)
}
