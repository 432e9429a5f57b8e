package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

// ErrInUse means that another process holds the directory.
var ErrInUse = errors.New("another process holds the state directory")

// Options are what a State is made of besides its configuration.
type Options struct {
	Drivers map[string]helm.Driver
	Observe func(context.Context, helm.Event)

	// Telemetry is told of the calls that are handed over. Nil: nothing is told.
	Telemetry Telemetry

	Log  *slog.Logger  // nil: nothing is logged
	Wait time.Duration // for a process that holds the directory
	Open int           // calls that may be handed over at once; 0 is the default of handoff.New
}

// A State is a kernel over a state directory. It is safe for concurrent use.
type State struct {
	config    *Config
	log       *slog.Logger
	key       crypto.PrivateKey
	store     *filestore.Store
	kernel    *helm.Kernel
	desk      *handoff.Desk
	tokens    *auth.Tokens
	approvals *Approvals
	opened    atomic.Bool // approvals is set
	closing   closing
}

// Open opens the state directory of a configuration: it holds its log, so that no other process
// does, settles what an earlier one left, and begins a kernel. If another process holds it the
// error Is ErrInUse.
func Open(ctx context.Context, c *Config, o Options) (_ *State, err error) {
	defer func() { err = barred(err) }()
	s := &State{config: c, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.closing.done = make(chan struct{})
	if err := checkDir(c.Dir); err != nil {
		return nil, err
	}
	key, err := readKey(c.Dir)
	if err != nil {
		return nil, err
	}
	s.key = key
	trust, err := initialTrust(c.Dir)
	if err != nil {
		return nil, err
	}
	reg, err := registryOf(trust)
	if err != nil {
		return nil, faulty(filepath.Join(c.Dir, "trust.json"), "no state that a log begins with: "+err.Error(),
			"put it back from a backup", err)
	}
	pol, err := loadPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	if s.tokens, err = auth.OpenTokens(filepath.Join(c.Dir, "tokens.json")); err != nil {
		return nil, err
	}
	if s.store, err = openLog(c.Dir, o.Wait); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.store.Close())
		}
	}()
	r, err := begin(ctx, c.Dir, s.store, trust)
	if err != nil {
		return nil, err
	}
	if r.next == 0 {
		if err := beginsWith(c.Dir, reg, key, trust); err != nil {
			return nil, err
		}
	}
	s.kernel, err = helm.New(helm.Options{Policy: pol, Key: key, Origin: r.Origin, Store: s.store, Drivers: o.Drivers,
		Trust: reg, Observe: s.observe(o.Observe)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, err)
	}
	s.desk = handoff.New(s.kernel, o.Open)
	s.desk.Watch(WatchOf(o.Telemetry))
	if s.approvals, err = ownApprovals(ctx, c.Dir, r, s.store, s.kernel.Policy); err != nil {
		return nil, errors.Join(err, s.kernel.Close())
	}
	s.opened.Store(true)
	return s, nil
}

// observe returns an observer that passes events on. The approvals follow the log.
func (s *State) observe(next func(context.Context, helm.Event)) func(context.Context, helm.Event) {
	return func(ctx context.Context, e helm.Event) {
		if s.opened.Load() {
			s.approvals.follow(e.Index)
		}
		if next != nil {
			next(ctx, e)
		}
	}
}

// loadPolicy loads a policy from files. A pipe in the place of one would keep a start, or a
// Reload, as long as its other end likes.
func loadPolicy(files []string) (*guardian.Policy, error) {
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return nil, faulty(name, "no regular file", "put one there", nil)
		}
	}
	return policy.Load(files...)
}

// readKey reads the key of the kernel.
func readKey(dir string) (k crypto.PrivateKey, err error) {
	name := filepath.Join(dir, "key.pem")
	b, err := readWhole(name, own, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return k, faulty(name, "it is missing",
			"put it back from the place that keeps it; if it is lost, begin another directory", err)
	}
	if err != nil {
		return k, err
	}
	if k, err = crypto.LoadKey(bytes.NewReader(b)); err != nil {
		return k, faulty(name, "no key, or a part of one: "+said(err),
			"put it back from the place that keeps it", err)
	}
	return k, nil
}

// beginsWith refuses a trust state that is not the one in which a log of that key begins.
func beginsWith(dir string, r *registry.Registry, key crypto.PrivateKey, trust *registry.State) error {
	public, err := crypto.PublicOf(key)
	if err != nil {
		return err
	}
	log, err := crypto.PublicOf(crypto.DeriveLogKey(key))
	if err != nil {
		return err
	}
	s, err := r.Initial(public, log)
	if err != nil || s.Digest() != trust.Digest() {
		return faulty(filepath.Join(dir, "trust.json"), "no log of the key in key.pem begins with it",
			"put back the two that helm init made together", nil)
	}
	return nil
}

// openLog opens the log, which no other process may have open.
func openLog(dir string, wait time.Duration) (*filestore.Store, error) {
	name := filepath.Join(dir, "log")
	if info, err := os.Lstat(name); err == nil && !info.IsDir() {
		return nil, faulty(name, "no directory", "put the log itself there", nil)
	}
	store, err := filestore.Open(name, filestore.Options{Wait: wait})
	if errors.Is(err, filestore.ErrInUse) {
		return nil, faulty(dir, ErrInUse.Error()+": "+err.Error(),
			"end that process, or give this one a directory of its own; "+
				"several clients of one log share a helm mcp serve", errors.Join(ErrInUse, err))
	}
	return store, err
}

// Kernel returns the kernel. It must not be closed.
func (s *State) Kernel() *helm.Kernel { return s.kernel }

// Store returns the log, which is only to be read.
func (s *State) Store() proofgraph.Store { return s.store }

// Key returns the key of the kernel, which signs packs of its log.
func (s *State) Key() crypto.PrivateKey { return s.key }

// Desk returns the desk at which calls are handed over. It must not be closed.
func (s *State) Desk() *handoff.Desk { return s.desk }

// Tokens returns who asks over HTTP.
func (s *State) Tokens() *auth.Tokens { return s.tokens }

// Approvals returns the requests that wait for a person.
func (s *State) Approvals() *Approvals { return s.approvals }

// Config returns the configuration.
func (s *State) Config() *Config { return s.config }

// Reload reads policy and tokens again. A policy that is faulty, expired, or of an older version is
// not taken, and calls go on under the one of before. While tokens are faulty none is good. Each
// part is taken without the other; the error joins what is wrong.
func (s *State) Reload(ctx context.Context) error {
	pol, err := loadPolicy(s.config.Policy)
	if err == nil {
		err = s.kernel.Swap(ctx, pol)
	}
	if err != nil {
		err = fmt.Errorf("the policy was not taken, the one of before is in force: %w", err)
		s.log.Error("reload", "error", err)
	}
	terr := s.tokens.Reload()
	if terr != nil {
		terr = fmt.Errorf("no token is good until this is mended: %w", terr)
		s.log.Error("reload", "error", terr)
	}
	if err == nil && terr == nil {
		s.log.Info("reload", "policy", s.kernel.Policy().Hash().String())
	}
	return errors.Join(err, terr)
}

// closing is the end of a State.
type closing struct {
	once sync.Once
	done chan struct{}
	err  error
}

// Close ends all of it, in this order: open calls that were handed over are dropped, the log gets a
// checkpoint, the kernel waits for its calls, the store is closed. If ctx ends meanwhile the rest
// is not waited for, and the next Open settles it. Closing again waits for the first Close, and
// returns its error.
func (s *State) Close(ctx context.Context) error {
	s.closing.once.Do(func() {
		defer close(s.closing.done)
		s.closing.err = s.close(ctx)
	})
	<-s.closing.done
	return s.closing.err
}

func (s *State) close(ctx context.Context) error {
	errs := []error{s.desk.Close(ctx)}
	ended := make(chan error, 1)
	go func() {
		_, err := s.kernel.Checkpoint(context.WithoutCancel(ctx))
		ended <- errors.Join(err, s.kernel.Close())
	}()
	select {
	case err := <-ended:
		errs = append(errs, err)
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("calls were still running, the next start settles them: %w", ctx.Err()))
	}
	s.approvals.end()
	errs = append(errs, s.store.Close())
	return errors.Join(errs...)
}
