package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/keys"
	"github.com/helmkernel/helm/internal/priormarks"
	"github.com/helmkernel/helm/internal/state"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A remembered is the body of a state: what the folds of a log's first entries hold. The fields of
// policies, of condense entries, of calls without a receipt and of approvals are not in it. These
// entries are read again: it has their hashes.
type remembered struct {
	Again    []savedEntry            `json:"again"` // policy entries, and condense entries of which members stand whole
	Archive  json.RawMessage         `json:"archive"`
	Changes  json.RawMessage         `json:"changes"`
	Ledger   *past.Ledger            `json:"ledger"`
	Marks    *past.Marks             `json:"marks"`
	Nonces   []string                `json:"nonces,omitempty"` // of approvals that were used, sorted
	Prefix   *proofgraph.Prefix      `json:"prefix"`
	Revoked  map[string]uint64       `json:"revoked,omitempty"`  // entries that revoked a key, by its id
	Sessions map[string]savedSession `json:"sessions,omitempty"` // those that are not closed
	Trust    json.RawMessage         `json:"trust"`
}

type savedEntry struct {
	Hash  contracts.Digest `json:"hash"`
	Index uint64           `json:"index"`
}

type savedSession struct {
	Approved []savedEntry            `json:"approved,omitempty"` // the ALLOWs that consumed approvals
	Bindings map[string]savedBinding `json:"bindings,omitempty"` // by idempotency key
	Past     json.RawMessage         `json:"past"`
}

type savedBinding struct {
	Args     contracts.Digest `json:"args"`
	Decision uint64           `json:"decision"`
	ID       string           `json:"id,omitempty"`
	Receipt  uint64           `json:"receipt"`
	Roles    []string         `json:"roles,omitempty"`
	Tenant   string           `json:"tenant,omitempty"`
	Tool     string           `json:"tool"`
}

// save returns what l holds, as the body of a state. Its entries are those of the prefix.
func (l *priorLog) save(prefix *proofgraph.Prefix) ([]byte, error) {
	x := remembered{Ledger: l.ledger, Marks: l.marks, Nonces: l.used.list(), Prefix: prefix,
		Trust: l.trust.Canonical()}
	var err error
	if x.Archive, err = l.archive.MarshalJSON(); err != nil {
		return nil, err
	}
	if x.Changes, err = json.Marshal(l.fold.Changes()); err != nil {
		return nil, err
	}
	whole := l.archive.Whole()
	for _, ref := range l.again {
		_, policy := l.entries[ref.Index]
		if _, found := slices.BinarySearch(whole, ref.Index); policy || found {
			x.Again = append(x.Again, savedEntry{ref.Hash, ref.Index})
		}
	}
	for id, index := range l.revoked {
		if x.Revoked == nil {
			x.Revoked = map[string]uint64{}
		}
		x.Revoked[id.String()] = index
	}
	for name, s := range l.sessions {
		r, err := s.save()
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		if x.Sessions == nil {
			x.Sessions = map[string]savedSession{}
		}
		x.Sessions[name] = *r
	}
	return state.Marshal(x)
}

// save returns nil if nothing is to be remembered of the session.
func (s *priorSession) save() (*savedSession, error) {
	var r savedSession
	var err error
	if r.Past, err = s.past.MarshalJSON(); err != nil {
		return nil, err
	}
	none, err := new(past.Session).MarshalJSON()
	if err != nil {
		return nil, err
	}
	if len(s.bindings) == 0 && bytes.Equal(r.Past, none) {
		return nil, nil
	}
	for _, ref := range s.approved {
		r.Approved = append(r.Approved, savedEntry{ref.Hash, ref.Index})
	}
	for key, b := range s.bindings {
		if r.Bindings == nil {
			r.Bindings = map[string]savedBinding{}
		}
		by := b.caller
		r.Bindings[key] = savedBinding{b.args, b.decision, by.ID, b.receipt, by.Roles, by.Tenant, b.tool}
	}
	return &r, nil
}

// load sets a fold of no entries to the one that was saved.
func (l *priorLog) load(ctx context.Context, body []byte) (*proofgraph.Prefix, error) {
	x := remembered{Ledger: l.ledger, Marks: l.marks}
	if err := state.Unmarshal(body, &x); err != nil {
		return nil, err
	}
	if x.Prefix == nil || x.Ledger != l.ledger || x.Marks != l.marks {
		return nil, errors.New("not the form of a state")
	}
	tree, err := x.Prefix.Tree()
	if err != nil {
		return nil, err
	}
	l.base, l.size = x.Prefix.Size, x.Prefix.Size
	if l.trust, err = registry.ParseState(x.Trust); err != nil {
		return nil, err
	}
	for id, index := range x.Revoked {
		var d contracts.Digest
		if err := d.UnmarshalText([]byte(id)); err != nil {
			return nil, err
		}
		l.revoked[d] = index
	}
	l.used.add(x.Nonces)
	if err := l.archive.Load(x.Archive, &tree, x.Prefix.Forgotten); err != nil {
		return nil, err
	}
	if err := l.fold.Load(x.Changes, l.marks, l.base); err != nil {
		return nil, err
	}
	for name, s := range x.Sessions {
		if err := l.loadSession(ctx, name, s); err != nil {
			return nil, err
		}
	}
	for _, c := range x.Prefix.Open {
		if mark := l.fold.Changes().At(c.Session, l.base); mark != 0 {
			l.session(c.Session).past.Resume(l.marks, mark)
		}
	}
	if err := l.readAgain(ctx, x.Again, x.Prefix.Unanswered); err != nil {
		return nil, err
	}
	return x.Prefix, nil
}

func (l *priorLog) loadSession(ctx context.Context, name string, r savedSession) error {
	s := l.session(name)
	if err := s.past.UnmarshalJSON(r.Past); err != nil {
		return err
	}
	for _, x := range r.Approved { // whether their requests are known is seen as it is of the whole log
		ref := contracts.Ref{Index: x.Index, Hash: x.Hash}
		st, err := l.reread(ctx, ref)
		if err == nil && (st.Decision == nil || st.Session != name) {
			err = errors.New("no ALLOW of its session")
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", x.Index, err)
		}
		l.approve(name, ref, st.Time, st.Decision)
	}
	for key, b := range r.Bindings {
		if s.bindings == nil {
			s.bindings = map[string]*binding{}
		}
		s.bindings[key] = &binding{
			caller:   contracts.Caller{ID: b.ID, Tenant: b.Tenant, Roles: b.Roles},
			tool:     b.Tool,
			args:     b.Args,
			decision: b.Decision,
			receipt:  b.Receipt,
		}
	}
	return nil
}

// readAgain folds the entries that a state only names.
func (l *priorLog) readAgain(ctx context.Context, again []savedEntry, unanswered []proofgraph.EntryAt) error {
	for _, x := range again {
		ref := contracts.Ref{Index: x.Index, Hash: x.Hash}
		st, err := l.reread(ctx, ref)
		if err != nil {
			return fmt.Errorf("entry %d: %w", x.Index, err)
		}
		switch {
		case st.Policy != nil:
			l.addPolicy(ref.Index, ref.Hash, st.Policy)
		case st.Condense != nil:
			l.again = append(l.again, ref)
		default:
			return fmt.Errorf("entry %d: %s is not read again", x.Index, st.Kind())
		}
		l.archive.Again(ref.Index, st)
	}
	for _, x := range unanswered {
		st, err := l.reread(ctx, contracts.Ref{Index: x.Index, Hash: x.Hash})
		if err == nil && st.Decision == nil {
			err = errors.New("no decision")
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", x.Index, err)
		}
		d := st.Decision
		l.open.add(x.Index, openCall{x.Hash, st.Session, d.PolicyHash, d.Tool, d.Idempotency, d.Charges, d})
	}
	return nil
}

// reread reads an entry below the base.
func (l *priorLog) reread(ctx context.Context, ref contracts.Ref) (*contracts.Statement, error) {
	if ref.Index >= l.base {
		return nil, errors.New("not one of the state's")
	}
	return readEntry(ctx, l.options.Store, ref)
}

var errOther = errors.New("the store's entry is not the one that the state was made of")

// readLine reads the line at an index.
func readLine(ctx context.Context, store proofgraph.Store, index uint64) (line contracts.Entry, err error) {
	defer contain.Error(&err, "Options.Store")
	for e, err := range store.Entries(ctx, index, index+1) {
		return e, err
	}
	return nil, errors.New("the store lacks the entry")
}

// readEntry reads an entry. A stub in its place is errOther: it has the entry's hash, which proves
// nothing else that it says.
func readEntry(ctx context.Context, store proofgraph.Store, ref contracts.Ref) (*contracts.Statement, error) {
	line, err := readLine(ctx, store, ref.Index)
	if err != nil {
		return nil, err
	}
	if contracts.IsStub(line) || line.Hash() != ref.Hash {
		return nil, errOther
	}
	return entry.Open(new(contracts.Reader), line)
}

// engine is the one that states are made for.
func engine() state.Engine { return state.Engine(guardian.Engine()) }

// resumed opens a state and returns the fold that it is of, and its prefix. It checks all that can
// be checked without the entries after it.
func (l *priorLog) resumed(ctx context.Context, saved []byte) (*proofgraph.Prefix, error) {
	o := l.options
	public, err := crypto.PublicOf(o.Key)
	if err != nil {
		return nil, err
	}
	h, body, err := state.Open(saved, public)
	if err != nil {
		return nil, err
	}
	switch {
	case h.Engine != engine():
		return nil, fmt.Errorf("of the engine %v, and this is %v", h.Engine, engine())
	case h.Origin != o.Origin:
		return nil, fmt.Errorf("of the log %s, and this is %s", h.Origin, o.Origin)
	}
	c, lines, err := proofgraph.ParseCheckpoint([]byte(h.Checkpoint))
	if err != nil {
		return nil, err
	}
	p, err := l.load(ctx, body)
	if err != nil {
		return nil, err
	}
	tree, err := p.Tree()
	if err != nil {
		return nil, err
	}
	switch {
	case c.Origin != o.Origin || c.Size != p.Size || c.Root != tree.Root():
		return nil, errors.New("its checkpoint is of other entries")
	case h.Last != p.Last || !slices.Equal(h.Nodes, p.Nodes):
		return nil, errors.New("its two lines are of different entries")
	case !signedBy(c, lines, l.trust.Keys(registry.Log, p.Size)):
		return nil, errors.New("its checkpoint is signed by no log key of the log's trust state there")
	}
	if _, ok := l.trust.Key(o.keyID, registry.Kernel, p.Size); !ok {
		return nil, errors.New("signed by a key that is no kernel key of the log's trust state there")
	}
	again, err := l.save(p)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, body) {
		return nil, errors.New("not the one form of a state")
	}
	return p, l.archive.Standing(ctx)
}

func signedBy(c proofgraph.Checkpoint, lines []proofgraph.SignatureLine, keys []crypto.PublicKey) bool {
	return slices.ContainsFunc(lines, func(line proofgraph.SignatureLine) bool {
		return slices.ContainsFunc(keys, func(key crypto.PublicKey) bool { return c.SignedBy(line, key) })
	})
}

// states keeps a state of the log in its store. A state is never taken from what the kernel holds:
// the entries after the last one are folded, as New does. So there is one way to make a state, and
// whatever state a fold begins at, it comes to the same.
//
// A state is signed over nothing that only the store says: what was folded must be a beginning of
// the log that the kernel has in memory. Else someone who can write in the store, and has no key,
// would have a fork signed.
type states struct {
	*state.Keeper
	sh     *shared
	store  proofgraph.Rememberer
	key    *keys.Key
	logKey *keys.Key
}

// newStates returns nil if the store keeps no state.
func newStates(sh *shared) (*states, error) {
	o := sh.options
	store, ok := o.Store.(proofgraph.Rememberer)
	if !ok || sh.joined { // a state is of all entries, and this kernel does not read all
		return nil, nil
	}
	key, err := crypto.Pin(o.Key)
	if err != nil {
		return nil, fmt.Errorf("helm: Options.Key: %w", err)
	}
	logKey, err := crypto.Pin(o.LogKey)
	if err != nil {
		return nil, fmt.Errorf("helm: Options.LogKey: %w", err)
	}
	s := &states{sh: sh, store: store, key: keys.New(key), logKey: keys.New(logKey)}
	s.Keeper = state.NewKeeper(s.make, s.failed)
	return s, nil
}

// failed reports why there is no state, or why one was not taken. Neither stops anything.
func (s *states) failed(err error) {
	s.sh.observe(context.Background(), Event{Why: "state", Err: fmt.Errorf("helm: state: %w", err)})
}

// marked is told of a checkpoint.
func (s *states) marked(size uint64) {
	if s != nil {
		s.Marked(size)
	}
}

// close makes the last state.
func (s *states) close(sealed bool) {
	if s != nil {
		s.Close(sealed)
	}
}

// make makes a state of the entries that the store's checkpoint is of or, for the last one, of all
// entries, and returns its size.
func (s *states) make(ctx context.Context, last bool) (size uint64, err error) {
	had := s.Size()
	l, prefix, err := s.fold(ctx, had, last)
	switch {
	case err != nil:
		return 0, err
	case prefix == nil:
		return had, nil
	}
	// Condense and Drop go on from here: a signer or a store may be slow. What is saved is in
	// memory by now, and its root is compared by leaf hashes, which a stub has too. If a set goes
	// meanwhile that the state has as whole, it is as if it went afterwards: New looks (Standing).
	if err := s.save(ctx, l, prefix); err != nil {
		return 0, err
	}
	return prefix.Size, nil
}

// fold folds the entries that a state is to be of. The prefix is nil if they are not more than had.
func (s *states) fold(ctx context.Context, had uint64, last bool) (l *priorLog, p *proofgraph.Prefix, err error) {
	defer contain.Error(&err, "Options.Store")
	release, err := s.sh.archive.Hold(ctx) // a Drop would put stubs of sets of which the fold does not know
	if err != nil {
		return nil, nil, err
	}
	defer release()
	store := s.sh.options.Store
	note, err := store.Checkpoint(ctx)
	if err != nil {
		return nil, nil, err
	}
	var c proofgraph.Checkpoint
	if note != nil {
		if c, _, err = proofgraph.ParseCheckpoint(note); err != nil {
			return nil, nil, err
		}
	}
	size := c.Size
	if last {
		if size, err = store.Size(ctx); err != nil {
			return nil, nil, err
		}
	}
	if size <= had {
		return nil, nil, nil
	}
	return s.foldTo(ctx, size)
}

// foldTo folds the first size entries, from the state in the store on, if that can be taken.
func (s *states) foldTo(ctx context.Context, size uint64) (*priorLog, *proofgraph.Prefix, error) {
	if l, prefix, _ := s.load(ctx); l != nil && prefix.Size <= size { // one that is not taken is replaced
		if prefix, err := l.foldFrom(ctx, prefix, size); err == nil && l.restore() == nil {
			return l, prefix, nil
		}
	}
	l := s.sh.newPrior()
	prefix, err := l.foldFrom(ctx, nil, size)
	if err == nil {
		err = l.restore()
	}
	return l, prefix, err
}

// save signs the state of what was folded and stores it.
func (s *states) save(ctx context.Context, l *priorLog, prefix *proofgraph.Prefix) (err error) {
	defer contain.Error(&err, "Options.Store")
	tree, err := prefix.Tree()
	if err != nil {
		return err
	}
	o, log := s.sh.options, s.sh.log.Tree()
	root := log.Root()
	if log.Size() != tree.Size() {
		root, err = rootBelow(ctx, o.Store, tree.Size(), &log)
	}
	if err == nil && root != tree.Root() {
		err = errors.New("other hashes than those of its entries")
	}
	if err != nil {
		return fmt.Errorf("the store does not have the log's entries any more: %w", err)
	}
	note, err := o.Store.Checkpoint(ctx)
	if err != nil {
		return err
	}
	c := proofgraph.Checkpoint{Origin: o.Origin, Size: prefix.Size, Root: tree.Root()}
	if note != nil {
		stored, lines, err := proofgraph.ParseCheckpoint(note)
		switch {
		case err != nil:
			return err
		case stored.Size != c.Size:
		case stored.Root != c.Root:
			return errors.New("the store's checkpoint is of other entries")
		case signedBy(stored, lines, l.trust.Keys(registry.Log, c.Size)):
			c.Note = stored.Note
		}
	}
	if c.Note == nil {
		if c, err = proofgraph.SignCheckpoint(s.logKey, c); err != nil {
			return err
		}
	}
	body, err := l.save(prefix)
	if err != nil {
		return err
	}
	b, err := state.Seal(state.Head{Checkpoint: string(c.Note), Engine: engine(), Last: prefix.Last,
		Nodes: prefix.Nodes, Origin: o.Origin}, body, s.key)
	if err != nil {
		return err
	}
	return s.store.SaveState(ctx, b)
}

// load returns the fold and the prefix of the state in the store. They are nil if the store has
// none, or none that can be taken, and then the error says why.
func (s *states) load(ctx context.Context) (l *priorLog, prefix *proofgraph.Prefix, err error) {
	defer func() {
		if err != nil {
			l, prefix = nil, nil
		}
	}()
	defer contain.Error(&err, "Options.Store")
	if s == nil {
		return nil, nil, nil
	}
	saved, err := s.store.State(ctx)
	if err != nil || saved == nil {
		return nil, nil, err
	}
	size, err := s.sh.options.Store.Size(ctx)
	if err != nil {
		return nil, nil, err
	}
	l = s.sh.newPrior()
	if prefix, err = l.resumed(ctx, saved); err != nil {
		return nil, nil, err
	}
	if prefix.Size > size {
		return nil, nil, fmt.Errorf("of %d entries, and the store has %d", prefix.Size, size)
	}
	genesis, err := readLine(ctx, s.sh.options.Store, 0)
	if err == nil && genesis.Hash() != prefix.Genesis {
		err = errors.New("the log began with another entry")
	}
	return l, prefix, err
}

// begin saves the state of all entries that New folded, if one is due. prefix is then of all of
// them.
func (s *states) begin(ctx context.Context, l *priorLog, prefix *proofgraph.Prefix) {
	s.Kept(l.base)
	if prefix == nil || prefix.Size == l.base || prefix.Size != l.size {
		return
	}
	if err := s.save(ctx, l, prefix); err != nil {
		s.Tried(l.size)
		s.failed(err)
		return
	}
	s.Kept(l.size)
}

// manyAfter returns the number of entries in the store, if a state is due there, or 0.
func (s *states) manyAfter(ctx context.Context, base uint64) (size uint64, err error) {
	defer contain.Error(&err, "Options.Store")
	if s == nil {
		return 0, nil
	}
	if size, err = s.sh.options.Store.Size(ctx); err != nil || !state.Due(size, base) {
		return 0, err
	}
	return size, nil
}

// older is what a kernel knows of the entries of the state that it began with, in place of a mark
// of each.
type older struct {
	store   proofgraph.Store
	base    uint64
	changes priormarks.Changes

	mu    sync.Mutex // protects known
	known map[uint64]bool
}

func newOlder(l *priorLog) *older {
	o := &older{store: l.options.Store, base: l.base, known: map[uint64]bool{}}
	if o.base > 0 {
		o.changes = l.fold.Changes()
	}
	return o
}

// find reports whether the log has that entry and it can be a parent. Its mark is in marks then. An
// error is of the store.
func (o *older) find(log *proofgraph.Log, marks *past.Marks, ref contracts.Ref) (bool, error) {
	found, err := log.Find(context.Background(), ref)
	if err != nil || !found || ref.Index >= o.base {
		return found, err
	}
	o.mu.Lock()
	known := o.known[ref.Index]
	o.mu.Unlock()
	if known {
		return true, nil
	}
	st, err := readEntry(context.Background(), o.store, ref)
	if err == errOther { // as Find says of an entry that it does not know
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !marks.Put(ref.Index, o.changes.At(st.Session, ref.Index)) {
		return false, errors.New("a mark that is not one of the log's")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known[ref.Index] = true
	return true, nil
}
