package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

//go:embed floor.yaml
var floorText []byte

//go:embed shop.yaml
var shopText []byte

// A shop has an agent, and its log in a directory.
type shop struct {
	name       string // of the log
	dir        string
	key        crypto.PrivateKey
	policy     *guardian.Policy
	clock      *clock
	checkpoint helm.Checkpoints

	store *filestore.Store
	*helm.Kernel

	once    sync.Once
	receipt *helm.Receipt // of the first call
}

func newShop(name, dir string, c *clock) (*shop, error) {
	floor, err := policy.Parse("floor.yaml", floorText)
	if err != nil {
		return nil, err
	}
	bundle, err := policy.Parse("shop.yaml", shopText)
	if err != nil {
		return nil, err
	}
	stack, err := guardian.Compile(floor, bundle)
	if err != nil {
		return nil, err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	return &shop{name: name, dir: filepath.Join(dir, filepath.Base(name)), key: key, policy: stack, clock: c}, nil
}

// A stateless is a store whose kernel reads the whole log.
type stateless struct{ proofgraph.Store }

// open begins the log or goes on with it, and returns how long [helm.New] took. The kernel goes on
// from the state that the one before has left, if there is one, or else reads the whole log.
func (s *shop) open(fromState bool) (took time.Duration, err error) {
	if s.store, err = filestore.Open(s.dir, filestore.Options{}); err != nil {
		return 0, err
	}
	var store proofgraph.Store = s.store
	if !fromState {
		store = stateless{store}
	}
	tool := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { // stands for the real ones
		return json.RawMessage(`"done"`), nil
	})
	began := time.Now()
	s.Kernel, err = helm.New(helm.Options{
		Policy:     s.policy,
		Key:        s.key,
		Origin:     s.name,
		Store:      store,
		Drivers:    map[string]executor.Driver{"order.read": tool, "order.note": tool, "refund.pay": tool},
		Checkpoint: s.checkpoint,
		Now:        s.clock.Now,
	})
	took = time.Since(began)
	if err != nil {
		return 0, errors.Join(err, s.store.Close())
	}
	return took, nil
}

func (s *shop) close() error { return errors.Join(s.Kernel.Close(), s.store.Close()) }

// bytes returns how many bytes of disk the log takes.
func (s *shop) bytes() (sum int64, err error) {
	files, err := os.ReadDir(s.dir)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, err
}

// read returns one entry of the log.
func (s *shop) read(ctx context.Context, index uint64) (contracts.Entry, error) {
	for e, err := range s.store.Entries(ctx, index, index+1) {
		return e, err
	}
	return nil, errors.New("no such entry")
}

// logKey returns the key that the log's checkpoints verify under.
func (s *shop) logKey() (string, error) {
	public, err := crypto.PublicOf(crypto.DeriveLogKey(s.key))
	return proofgraph.VerifierKey(s.name, public), err
}
