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
// with Why "checkpoint" and its Err, and it is tried again when the next one is due.
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
// member of the arguments. That of a checkpoint which failed has Why and Err alone, and so no Tool.
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
