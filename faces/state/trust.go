package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

const maxTrust = 16 << 20

// initialTrust reads trust.json, which ends in a line end or does not.
func initialTrust(dir string) (*registry.State, error) {
	name := filepath.Join(dir, "trust.json")
	b, err := readWhole(name, itself, maxTrust)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, faulty(name, "it is missing",
			"put back the one of this directory, from a backup: another does not fit the log", err)
	}
	if err != nil {
		return nil, err
	}
	s, err := registry.ParseState(bytes.TrimSuffix(b, []byte("\n")))
	if err != nil {
		return nil, faulty(name, "no trust state, or a part of one: "+said(err), "put it back from a backup", err)
	}
	return s, nil
}

var everyRole = []registry.Role{registry.Root, registry.Kernel, registry.Log, registry.Publisher, registry.Approver,
	registry.Delegator, registry.Attestor, registry.Freezer, registry.Witness}

// registryOf returns the registry of an initial state.
func registryOf(s *registry.State) (*registry.Registry, error) {
	var form struct {
		Threshold int `json:"threshold"`
	}
	if err := json.Unmarshal(s.Canonical(), &form); err != nil {
		return nil, err
	}
	return registry.New(form.Threshold, keysOf(s, 0)...)
}

// keysOf returns the keys that may sign at an index.
func keysOf(s *registry.State, index uint64) (keys []registry.Key) {
	for _, role := range everyRole {
		for _, public := range s.Keys(role, index) {
			if k, ok := s.Holder(crypto.KeyID(public), role, index); ok {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// A log is what is read of a store.
type log interface {
	Size(ctx context.Context) (uint64, error)
	Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
}

// A reading is what is known of a log up to an entry: who may sign after it, and what used up
// approvals. It verifies signatures of trust events, as the kernel does, and no others: the log is
// verified by helm.New, or by helm log verify.
type reading struct {
	Trust  *registry.State
	Origin string
	next   uint64
	used   func(approval contracts.Digest) // is told the digests of envelopes that an ALLOW used up
	policy func(layer, name string, version uint64)
	reader contracts.Reader
}

// read reads what the log has had since.
func (r *reading) read(ctx context.Context, l log) error {
	size, err := l.Size(ctx)
	if err != nil || size <= r.next {
		return err
	}
	for e, err := range l.Entries(ctx, r.next, size) {
		if err != nil {
			return err
		}
		if err := r.add(e); err != nil {
			return fmt.Errorf("entry %d: %w", r.next, err)
		}
		r.next++
	}
	return nil
}

func (r *reading) add(e contracts.Entry) error {
	if contracts.IsStub(e) && r.next > 0 {
		return nil // of a call without approvals: others do not go
	}
	sealed, err := r.reader.Open(e)
	if err != nil {
		return err
	}
	st, err := sealed.Statement()
	if err != nil {
		return err
	}
	if (st.Genesis != nil) != (r.next == 0) {
		return errors.New("not in its place: this is the log of no kernel")
	}
	switch {
	case st.Genesis != nil:
		if st.Genesis.Trust != r.Trust.Digest() {
			return errOtherTrust
		}
		r.Origin = strings.Clone(st.Genesis.Origin)
	case st.Trust != nil:
		next, err := r.Trust.Apply(st.Trust, r.Origin, r.next)
		if err != nil {
			return err
		}
		r.Trust = next
	case st.Policy != nil && r.policy != nil:
		for _, d := range st.Policy.Documents {
			r.policy(d.Layer, strings.Clone(d.Name), d.Version)
		}
	case st.Decision != nil && r.used != nil:
		for _, d := range st.Decision.Approvals {
			r.used(d)
		}
	}
	return nil
}

var errOtherTrust = errors.New("the log began with another trust state")

// begin reads the first entry, if there is one: its origin, and whether it fits the trust state.
func begin(ctx context.Context, dir string, l log, trust *registry.State) (r *reading, err error) {
	r = &reading{Trust: trust}
	for e, err := range l.Entries(ctx, 0, min(1, mustSize(ctx, l))) {
		if err != nil {
			return nil, err
		}
		if err := r.add(e); errors.Is(err, errOtherTrust) {
			return nil, faulty(filepath.Join(dir, "trust.json"),
				"it does not belong to the log in "+filepath.Join(dir, "log")+", which began with another trust state",
				"put back its own, from a backup", err)
		} else if err != nil {
			return nil, fmt.Errorf("%s: entry 0: %w", filepath.Join(dir, "log"), err)
		}
		r.next = 1
	}
	return r, nil
}

// mustSize returns 0 of a log that cannot say its size: then nothing is read of it, and who
// opens it says so.
func mustSize(ctx context.Context, l log) uint64 {
	n, err := l.Size(ctx)
	if err != nil {
		return 0
	}
	return n
}

// A Governed log is who may sign what in it now.
type Governed struct {
	Origin string // of the log; what it will be, if no kernel ever ran
	Size   uint64 // entries
	Trust  *registry.State
}

// ReadTrust reads the trust state of a state directory, with all that its log changed. A process
// may hold the directory meanwhile.
func ReadTrust(ctx context.Context, dir string) (g Governed, err error) {
	if err := checkDir(dir); err != nil {
		return g, err
	}
	trust, err := initialTrust(dir)
	if err != nil {
		return g, err
	}
	g.Trust = trust
	for _, public := range trust.Keys(registry.Kernel, 0) {
		g.Origin = "helm/" + crypto.KeyID(public).String()[:16]
	}
	store, err := filestore.OpenReadOnly(filepath.Join(dir, "log"))
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	defer store.Close()
	r, err := begin(ctx, dir, store, trust)
	if err == nil {
		err = r.read(ctx, store)
	}
	if err != nil {
		return g, err
	}
	if r.next > 0 {
		g = Governed{r.Origin, r.next, r.Trust}
	}
	return g, nil
}
