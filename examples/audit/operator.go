package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

var (
	//go:embed policy.yaml
	policyText []byte
	//go:embed candidate.yaml
	candidateText []byte
)

const origin = "example.org/desk" // the log's name

// An operator runs agents of a help desk, with the log in a directory. The auditor gets files from
// them.
type operator struct {
	dir   string
	key   crypto.PrivateKey
	store *filestore.Store
	*helm.Kernel
}

func open(dir string) (*operator, error) {
	stack, err := compile("policy.yaml", policyText)
	if err != nil {
		return nil, err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	store, err := filestore.Open(filepath.Join(dir, "log"), filestore.Options{})
	if err != nil {
		return nil, err
	}
	// It stands for the real tools.
	tool := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"done"`), nil
	})
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Origin: origin, Store: store,
		Drivers: map[string]executor.Driver{"order.read": tool, "refund.pay": tool}})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &operator{dir, key, store, k}, nil
}

func (o *operator) close() error { return errors.Join(o.Kernel.Close(), o.store.Close()) }

func compile(name string, text []byte) (*guardian.Policy, error) {
	doc, err := policy.Parse(name, text)
	if err != nil {
		return nil, err
	}
	return guardian.Compile(doc)
}

// day makes the calls of one day by the agents of two clerks, and the pack of the log in the
// evening.
func (o *operator) day(ctx context.Context, name string) (pack string, err error) {
	for _, call := range []struct {
		caller, tool, args string
		want               error
	}{
		{"ann", "order.read", `{"order":"4711-%s"}`, nil},
		{"ann", "refund.pay", `{"order":"4711-%s","euros":80}`, nil},
		{"ben", "refund.pay", `{"order":"4712-%s","euros":40}`, nil}, // without a look at the order first
		{"ben", "order.read", `{"order":"4713-%s"}`, nil},
		{"ben", "refund.pay", `{"order":"4713-%s","euros":300}`, nil},
		{"ann", "refund.pay", `{"order":"4714-%s","euros":900}`, helm.ErrDenied},
	} {
		d, _ := o.Guard(ctx, helm.Intent{Tool: call.tool, Args: fmt.Appendf(nil, call.args, name),
			Session: name + "-" + call.caller,
			Caller:  helm.Caller{ID: call.caller, Roles: []string{"clerk"}}})
		if err := d.Err(); !errors.Is(err, call.want) {
			return "", fmt.Errorf("%s: %w", call.tool, err)
		}
	}
	if _, err := o.Checkpoint(ctx); err != nil {
		return "", err
	}
	pack = filepath.Join(o.dir, name+".tar")
	f, err := os.OpenFile(pack, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	return pack, errors.Join(evidence.Write(ctx, f, o.store, o.key), f.Close())
}
