package helm

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Kernel judges calls, runs those that are admissible, and records all. It is safe for concurrent use by multiple goroutines, and a tool
// may call the kernel that runs it. A nil Kernel denies everything.
//
// [New] makes one over a log, and [Kernel.Narrow] more over the same, which judge by more documents and share all else.
type Kernel struct {
	*common
	parent   *Kernel              // that it was narrowed from; nil: it is of New
	overlays []contracts.Document // what makes its stack of that of the root, the outermost first
	stack    atomic.Pointer[stack]
	life     life          // of the root: that of all calls
	open     *list.Element // of common.narrowed
}

// common is what kernels over one log share: the one that New made and all that are narrowed from it.
type common struct {
	*prepared
	log  *proofgraph.Log
	root *Kernel

	mu       sync.RWMutex // protects sessions
	sessions map[string]*session

	room room

	ledger   past.Ledger                    // moved under the log's lock, with the places of entries
	consumed nonces                         // likewise
	trust    atomic.Pointer[registry.State] // likewise, by whoever holds the lock of the kernel's own session

	enacted enacted
	epoch   atomic.Uint64 // how often stacks were swapped

	kin      sync.Mutex // protects narrowed
	narrowed list.List  // of *Kernel: those that are open, in the order in which they were made
}

var (
	errNoKernel   = errors.New("helm: no kernel")
	errClosed     = errors.New("helm: the kernel was closed")
	errUnsigned   = errors.New("helm: a place in the log was not used") // by a panic on the way
	errUnrecorded = errors.New("helm: a call that was permitted has no receipt")
)

// New makes a kernel over a store, which may hold the log of an earlier one: that is read once, and calls that were permitted and have no
// receipt are settled as OUTCOME_UNKNOWN. The log must have begun with the same registry. Key and LogKey may be others than it began with,
// where its trust events have added them ([Kernel.Govern]) and not revoked them. Then Options.Trust has those of the beginning too, under the
// names kernel and log, and Origin is given, for the default is of the Key.
func New(o Options) (*Kernel, error) {
	p, err := prepare(o)
	if err != nil {
		return nil, err
	}
	now, err := p.now()
	if err != nil {
		return nil, err
	}
	if err := p.options.Policy.Expired(now); err != nil {
		return nil, fmt.Errorf("helm: Options.Policy: %w", err)
	}
	if err := p.declare(p.options.Policy); err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	ctx := context.Background()
	if trouble := contained("Options.Store", func() { err = p.remember(ctx) }); trouble != nil {
		err = trouble
	}
	if err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	k := &Kernel{common: &common{prepared: p, sessions: map[string]*session{}, room: room{limit: capacity}, enacted: newEnacted()}}
	k.root = k
	po := proofgraph.Options{Origin: p.options.Origin, Key: p.options.Key, LogKey: p.options.LogKey, Trust: p.initial.Canonical(), Now: now}
	if err := crypto.ReadRandom(p.options.Rand, po.Nonce[:]); err != nil {
		return nil, fmt.Errorf("helm: Options.Rand: %w", err)
	}
	past := history{origin: p.options.Origin, trust: p.initial, revoked: map[contracts.Digest]uint64{},
		enacted: &k.enacted, ledger: &k.ledger, open: map[contracts.Digest]openCall{}, keys: map[string]map[string]*once{}, pasts: map[string]*past.Session{}}
	if k.log, err = proofgraph.Open(ctx, p.options.Store, po, past.add); err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	if err := p.entitled(&past); err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	k.trust.Store(past.trust)
	for name, keys := range past.keys {
		k.session(name).keys = keys
	}
	if err := past.consume(p, &k.consumed); err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	for name, s := range past.pasts {
		k.session(name).past = *s
	}
	if err := k.begin(); err != nil {
		return nil, fmt.Errorf("helm: %w", err)
	}
	if err := k.settle(&past); err != nil {
		return nil, fmt.Errorf("helm: settling calls without a receipt: %w", err)
	}
	return k, nil
}

// none tells whether there is a kernel at all: the zero Kernel is none.
func (k *Kernel) none() bool { return k == nil || k.common == nil }

// Trust gives the trust state that the log began with: what to hand to auditors, once. What has changed since is in the log, signed, and packs
// bring it with them.
func (k *Kernel) Trust() *registry.State {
	if k.none() {
		return nil
	}
	return k.initial
}

// Checkpoint signs the log as it is now, durably, and gives the signed note. A pack reaches to the latest checkpoint.
func (k *Kernel) Checkpoint(ctx context.Context) (proofgraph.Checkpoint, error) {
	if k.none() {
		return proofgraph.Checkpoint{}, errNoKernel
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if err := k.enter(0); err != nil {
		return proofgraph.Checkpoint{}, err
	}
	defer k.leave()
	var c proofgraph.Checkpoint
	var err error
	if trouble := contained("the context", func() { c, err = k.log.Checkpoint(ctx) }); trouble != nil {
		return proofgraph.Checkpoint{}, fmt.Errorf("helm: checkpoint: %w", trouble)
	}
	return c, err
}
