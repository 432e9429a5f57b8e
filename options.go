package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Options are what a kernel is made of. New copies them and refuses the zero value.
type Options struct {
	Policy  *guardian.Policy             // required
	Key     crypto.Signer                // required: Ed25519, in memory or in a KMS; signs entries
	LogKey  crypto.Signer                // signs checkpoints; nil: derived from a Key in memory, else New refuses
	Origin  string                       // the log's name, 1 to 255 letters, digits and . _ / -; "" is "helm/" and the first 16 digits of Key's id, so give it where the log was begun with another
	Store   proofgraph.Store             // required; the caller closes it, after the kernel
	Drivers map[string]executor.Driver   // by tool; one for a tool that the policy does not declare is never called
	Trust   *registry.Registry           // the keys that the log began with; what changed since, it has itself. nil: only Key and LogKey, for good
	Keep    Keep                         // the zero value keeps inputs, which replay needs, and not outputs
	Now     func() time.Time             // nil: time.Now; what it says never runs back within a session
	Rand    io.Reader                    // nil: crypto/rand; nonces
	Observe func(context.Context, Event) // after the fact, synchronously, without any lock; its panics are contained
}

// Keep says which bytes stay in the store beside the log. Hashes of both are always recorded.
type Keep struct {
	DropInputs bool // verdicts can then not be replayed
	Outputs    bool // a repeat of an idempotency key then finds the first output
}

// Event tells an observer what became of a call. It has no arguments and no outputs.
type Event struct {
	Tool    string
	Session string
	ID      string // of the decision: session/seq; "" where nothing was recorded
	Verdict contracts.Verdict
	Reason  contracts.ReasonCode
	Why     string
	Index   uint64 // of the receipt
	Err     error  // where nothing was recorded: what the kernel, its store, its signer or the context said; else nil
	Repeat  bool   // the call repeats an idempotency key: ID and Index are those of the first
	Late    bool   // an abandoned driver ended; its result was dropped
}

// prepared is Options with every default filled in. They are not embedded: a Kernel's users would reach them, and round it its tools.
type prepared struct {
	options Options
	keyID   contracts.Digest
	logID   contracts.Digest
	derived bool            // the log key, from the key
	initial *registry.State // in which the log began
}

func prepare(o Options) (*prepared, error) {
	var missing []string
	for _, need := range []struct {
		name string
		have bool
	}{{"Policy", o.Policy != nil}, {"Key", o.Key != nil}, {"Store", o.Store != nil}} {
		if !need.have {
			missing = append(missing, need.name)
		}
	}
	if missing != nil {
		return nil, fmt.Errorf("helm: Options: missing %s: there are no defaults for what decides, signs and remembers", strings.Join(missing, ", "))
	}
	if len(o.Policy.Documents()) == 0 {
		return nil, errors.New("helm: Options.Policy: no documents: make it with guardian.Compile or policy.Load")
	}
	p := new(prepared)
	public, err := crypto.PublicOf(o.Key)
	if err != nil {
		return nil, fmt.Errorf("helm: Options.Key: %w", err)
	}
	if o.LogKey == nil {
		key, ok := crypto.InMemory(o.Key)
		if !ok {
			return nil, errors.New("helm: Options.LogKey: missing: it is derived only from a Key in memory; give a second Ed25519 signer")
		}
		o.LogKey = crypto.DeriveLogKey(key)
		p.derived = true
	}
	logPublic, err := crypto.PublicOf(o.LogKey)
	if err != nil {
		return nil, fmt.Errorf("helm: Options.LogKey: %w", err)
	}
	if bytes.Equal(public, logPublic) {
		return nil, errors.New("helm: Options.LogKey: the same key as Key: a key has one role; give another one, or none")
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
	o.Drivers = maps.Clone(o.Drivers)
	for tool, d := range o.Drivers {
		if !bound(d) {
			return nil, fmt.Errorf("helm: Options.Drivers: %q is nil", tool)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p.options = o
	return p, nil
}

// now is the clock; a panic in it is an error.
func (p *prepared) now() (t contracts.Time, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = panicked("Options.Now", x)
		}
	}()
	return contracts.TimeOf(p.options.Now()), nil
}

// observe reports what happened. Whatever the observer does, the call is over.
func (p *prepared) observe(ctx context.Context, e Event) {
	if p.options.Observe == nil {
		return
	}
	defer func() { _ = recover() }()
	p.options.Observe(ctx, e)
}
