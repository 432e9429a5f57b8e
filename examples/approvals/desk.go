package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

//go:embed policy.yaml
var policyText []byte

const origin = "example.org/approvals" // the log's name

// A desk is the host: it makes the agent's calls, and prints the outcome.
type desk struct {
	out   io.Writer
	k     *helm.Kernel
	store *proofgraph.Memory
	key   crypto.PrivateKey
}

// open makes the kernel, which knows Ann as an owner.
func open(out io.Writer, ann crypto.PublicKey) (*desk, error) {
	document, err := policy.Parse("policy.yaml", policyText)
	if err != nil {
		return nil, err
	}
	stack, err := guardian.Compile(document)
	if err != nil {
		return nil, err
	}
	trust, err := registry.New(0, registry.Key{Name: "ann", Public: ann, Role: registry.Approver,
		Roles: []string{"owner"}})
	if err != nil {
		return nil, err
	}
	d := &desk{out: out, store: proofgraph.NewMemory()}
	if d.key, err = crypto.GenerateKey(); err != nil {
		return nil, err
	}
	d.k, err = helm.New(helm.Options{Policy: stack, Key: d.key, Store: d.store, Origin: origin, Trust: trust,
		Drivers: map[string]executor.Driver{"bank.pay": helm.Func(pay)}})
	return d, err
}

// hire makes Ann's key. Outside of an example she makes it herself and shares it with no one: the
// kernel knows only its public half.
func hire(dir string) (ann crypto.PublicKey, keyFile string, err error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, "", err
	}
	var text bytes.Buffer
	if err := crypto.WriteKey(&text, key); err != nil {
		return nil, "", err
	}
	keyFile = filepath.Join(dir, "ann.pem")
	if err := os.WriteFile(keyFile, text.Bytes(), 0o600); err != nil {
		return nil, "", err
	}
	ann, err = crypto.PublicOf(key)
	return ann, keyFile, err
}

// pay is the tool.
func pay(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"paid":` + string(args) + `}`), nil
}

// call makes one of the agent's calls, with the approvals there are.
func (d *desk) call(ctx context.Context, args string, approvals ...contracts.Envelope) helm.Decision {
	decision, receipt := d.k.Guard(ctx, helm.Intent{Tool: "bank.pay", Args: json.RawMessage(args),
		Approvals: approvals})
	fmt.Fprintf(d.out, "bank.pay %s\n", args)
	if decision.Err() != nil {
		fmt.Fprintf(d.out, "%v  %s: %s\n", decision.Verdict, decision.Reason, decision.Why)
	} else {
		fmt.Fprintf(d.out, "%v  %s\n", decision.Verdict, receipt.Output)
	}
	fmt.Fprintf(d.out, "receipt %v, entry %d of the log\n", receipt.Record.Outcome, receipt.Index)
	return decision
}

// audit is the auditor's side: it has a pack and a trust state, and nothing else.
func (d *desk) audit(ctx context.Context) error {
	if _, err := d.k.Checkpoint(ctx); err != nil {
		return err
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, d.store, d.key); err != nil {
		return err
	}
	report, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: d.k.Trust(), Origin: origin})
	if err != nil {
		return err
	}
	if !report.Success(evidence.Logged) {
		return errors.New("not what was asked for: the pack verifies and proves too little")
	}
	fmt.Fprintf(d.out, "level %v, signer %v: %d entries, %d verdicts replayed\n", report.Level, report.Signer,
		report.Size, report.Replay.Replayed)
	return nil
}
