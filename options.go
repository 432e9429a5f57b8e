package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/clock"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/cosigned"
	"github.com/helmkernel/helm/internal/drivers"
	"github.com/helmkernel/helm/internal/lastseen"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Options are the parts that a kernel is made of. New copies them and refuses the zero value.
type Options struct {
	// Policy decides. Required.
	Policy *guardian.Policy

	// Key signs entries: an Ed25519 key, in memory or in a KMS. Required. A key that is not in
	// memory has 10 seconds for a signature; then the kernel is sealed, as if it had failed.
	Key crypto.Signer

	// LogKey signs checkpoints. If it is nil it is derived from a Key in memory; New refuses any
	// other Key then.
	LogKey crypto.Signer

	// Origin is the log's name: 1 to 255 letters, digits and . _ / -. If it is empty it is "helm/"
	// and the first 16 digits of Key's id, so set it if the log was begun with another Key.
	Origin string

	// Store keeps the log. Required. The caller closes it, after the kernel.
	Store proofgraph.Store

	// Drivers run the calls, by tool. New refuses a tool that the policy does not declare. For
	// tools that only a later policy declares ([Kernel.Swap]) use Intent.Driver.
	Drivers map[string]executor.Driver

	// Trust is the initial trust state: the keys that the log began with. Later changes are in
	// the log. If it is nil only Key and LogKey count, for good.
	Trust *registry.Registry

	// Last is nil, or a checkpoint of this log that was kept somewhere else: the signed note
	// (proofgraph.Checkpoint.Note). New refuses a log that does not extend it, for instance an
	// older copy that was put back, on which approvals, idempotency keys and budgets would be used
	// again. New judges it as evidence.Options.Last is judged: the caller vouches for it, and a
	// line of a log key that does not verify is an error.
	Last []byte

	// Keep says which bytes the store keeps besides the log. The zero value keeps inputs, which
	// replay needs, and no outputs.
	Keep Keep

	// Checkpoint says when checkpoints are made without a call of [Kernel.Checkpoint].
	Checkpoint Checkpoints

	// Now is the clock; nil means time.Now. Time never runs back within a session, whatever it
	// says. If it shows more than 2 minutes before the session's time, or a year outside 1970 to
	// 9999, or panics, calls are DENY FAIL_CLOSED_ERROR as long as that lasts. With time.Now they
	// are so too if it is more than a day ahead of the last reading and the time that has passed
	// since, until it has gone on from there for a minute, as that of a machine that slept does.
	Now func() time.Time

	// Rand is the source of nonces; nil means crypto/rand.
	Rand io.Reader

	// Observe is called with each event after the fact, synchronously and without any lock. Its
	// panics are contained.
	Observe func(context.Context, Event)
}

// Keep says which bytes stay in the store besides the log. Hashes of both are always recorded.
type Keep struct {
	DropInputs bool // verdicts can then not be replayed; texts of the user and facts of outputs are kept
	Outputs    bool // a repeat of an idempotency key then finds the first output
	Modules    bool // an auditor can then run calls of sandboxed tools again; erasing a session leaves them
}

// Checkpoints says when a kernel makes checkpoints by itself, next to those of [Kernel.Checkpoint].
// If Every and After are zero it never does.
//
// A checkpoint is made on a goroutine that ends with it, and no call waits for it. A kernel that is
// idle has no goroutine and no timer. If a checkpoint fails the kernel goes on: there is an [Event]
// with Why "checkpoint" and its Err, and it is tried again when the next one is due. If Every or
// After is set, [Kernel.Close] makes a checkpoint of the entries after the last one.
type Checkpoints struct {
	// Every is after how many durable entries since the last checkpoint one is due; 0: after none.
	Every uint64

	// After is how long after the first durable entry since the last checkpoint one is due; 0: none
	// is. It is not negative.
	After time.Duration

	// Done, if it is not nil, is called with each checkpoint that the kernel made, those of
	// [Kernel.Checkpoint] too, in order of size, one at a time and on a goroutine of its own. While
	// it runs later checkpoints are made, and it is then called with the latest of them alone. Its
	// panics are contained. Close waits for it, at most 10 seconds; then its context ends.
	Done func(context.Context, proofgraph.Checkpoint)

	// Witnesses are the verifier keys of those whose cosignatures [Kernel.Cosigned] keeps with the
	// checkpoint: C2SP tlog-cosignature by Ed25519, name+hash+base64 of 0x04 and the public key.
	// Their names and their keys differ. The kernel asks them nothing.
	Witnesses []string

	// Quorum is how many of the Witnesses have to cosign a size of the log before anything that is
	// in it may be let go: 1 to as many as there are and at most 15, and 0 without any.
	Quorum int
}

// An Event reports a call to an observer. It has no arguments and no outputs, but Why may name a
// member of the arguments. That of a checkpoint which failed, with Why "checkpoint", and that of a
// state which could not be made or taken, with Why "state", have Why and Err alone, and so no Tool.
type Event struct {
	Tool    string
	Session string
	ID      string // of the decision: session/seq; "" if nothing was recorded
	Verdict contracts.Verdict
	Reason  contracts.ReasonCode
	Why     string
	Rule    string // that decided: layer:bundle:id; "" if none did
	Index   uint64 // of the receipt
	Err     error  // if nothing was recorded: the error of the kernel, its store, its signer or the context
	Repeat  bool   // the call repeats an idempotency key: ID and Index are those of the first
	Late    bool   // an abandoned driver ended; its result was dropped

	// Declared reports whether the kernel's policy declares the tool. If it does not, Tool is as
	// the caller wrote it.
	Declared bool

	// Took is how long the driver ran, by a monotonic clock, or how long it was waited for if it
	// was abandoned. It is 0 if nothing ran, and for a repeat.
	Took time.Duration
}

// settings are Options with every default filled in.
type settings struct {
	Options
	keyID   contracts.Digest
	logID   contracts.Digest
	derived bool // LogKey is derived from Key
	clock   *clock.Clock
	initial *registry.State      // the trust state in which the log began
	last    *lastseen.Checkpoint // nil without Options.Last

	cosigned *cosigned.Log
}

// prepare checks the options and fills in the defaults.
func prepare(o Options) (*settings, error) {
	var missing []string
	for _, need := range []struct {
		name string
		have bool
	}{{"Policy", o.Policy != nil}, {"Key", o.Key != nil}, {"Store", o.Store != nil && !isNilPointer(o.Store)}} {
		if !need.have {
			missing = append(missing, need.name)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("helm: Options: missing %s: "+
			"there are no defaults for what decides, signs and remembers", strings.Join(missing, ", "))
	}
	if len(o.Policy.Record().Documents) == 0 {
		return nil, errors.New("helm: Options.Policy: no documents: make it with guardian.Compile or policy.Load")
	}
	p := new(settings)
	public, err := crypto.PublicOf(o.Key)
	if err != nil {
		return nil, fmt.Errorf("helm: Options.Key: %w", err)
	}
	if o.LogKey == nil {
		key, ok := crypto.InMemory(o.Key)
		if !ok {
			return nil, errors.New("helm: Options.LogKey: missing: " +
				"it is derived only from a Key in memory; give a second Ed25519 signer")
		}
		o.LogKey = crypto.DeriveLogKey(key)
		p.derived = true
	}
	logPublic, err := crypto.PublicOf(o.LogKey)
	if err != nil {
		return nil, fmt.Errorf("helm: Options.LogKey: %w", err)
	}
	if bytes.Equal(public, logPublic) {
		return nil, errors.New("helm: Options.LogKey: the same key as Key: " +
			"a key has one role; give another one, or none")
	}
	p.keyID, p.logID = crypto.KeyID(public), crypto.KeyID(logPublic)
	if o.Origin == "" {
		o.Origin = "helm/" + p.keyID.String()[:16]
	}
	if !contracts.IsOrigin(o.Origin) {
		return nil, errors.New("helm: Options.Origin: not 1 to 255 letters, digits and . _ / -")
	}
	if p.initial, err = o.Trust.Initial(public, logPublic); err != nil {
		return nil, fmt.Errorf("helm: Options.Trust: %w", err)
	}
	if o.Checkpoint.After < 0 {
		return nil, errors.New("helm: Options.Checkpoint.After: negative")
	}
	if p.cosigned, err = cosigned.New(o.Checkpoint.Witnesses, o.Checkpoint.Quorum); err != nil {
		return nil, err
	}
	o.Drivers = maps.Clone(o.Drivers)
	for tool, d := range o.Drivers {
		if !isDriver(d) {
			return nil, fmt.Errorf("helm: Options.Drivers: %q is nil", tool)
		}
		if _, declared := o.Policy.Limits(tool); !declared {
			return nil, fmt.Errorf("helm: Options.Drivers: %q: the policy declares no such tool: correct the name, "+
				"or pass the driver with each call, in Intent.Driver", tool)
		}
	}
	if p.last, err = lastseen.Parse(o.Last, o.Origin); err != nil {
		return nil, fmt.Errorf("helm: Options.Last: %w", err)
	}
	p.clock = clock.New(o.Now)
	p.Options = o
	return p, nil
}

// isNilPointer reports whether x is a nil pointer, which is not the nil interface.
func isNilPointer(x any) bool {
	v := reflect.ValueOf(x)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// checkDefinitions returns an error if a driver of the options does not declare the definition that
// the policy pins for its tool, because no call of that tool could run. It asks the drivers, so the
// caller must hold no lock. It waits for them until done is closed, and not for ever.
func (p *settings) checkDefinitions(policy *guardian.Policy, asking *drivers.Abandoned, done <-chan struct{}) error {
	for _, tool := range slices.Sorted(maps.Keys(p.Drivers)) {
		pinned, ok := policy.Definition(tool)
		if !ok {
			continue
		}
		defined, _ := p.Drivers[tool].(executor.Defined)
		said, err := asking.Ask(tool, defined, nil, done)
		if err == drivers.ErrEnded {
			return errEnded
		}
		if err != nil {
			return fmt.Errorf("Options.Drivers: %q: %w", tool, err)
		}
		switch declared := said.Definition; declared {
		case pinned:
		case contracts.Digest{}:
			return fmt.Errorf("Options.Drivers: %q: the policy pins a definition of this tool, "+
				"and the driver declares none: give an executor.Defined", tool)
		default:
			return fmt.Errorf("Options.Drivers: %q: the definition is %v now, and the policy pins %v: "+
				"look at what changed, then pin it in a later version of the bundle", tool, declared, pinned)
		}
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
	const other = "entry 0: the log began with another trust state than that of Options.Trust"
	if len(p.initial.Keys(registry.Root, 0)) == 0 {
		return errors.New(other + ", which has no roots, so no other is ever added: " +
			"give Key, LogKey and the registry that it was begun with")
	}
	return errors.New(other + ": give the registry that it was begun with and, " +
		"if Key or LogKey are others now, with those of then in it, under the names kernel and log; " +
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
			option += ", which is derived from Key if it is not given"
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
