// Command approvals shows a call that a person must approve. It is denied with a request to sign;
// an owner signs it in another process; then the call runs, once. The approval is for that call
// alone: with other arguments, and a second time, it is denied.
//
//	go run ./examples/approvals
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

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// start is main with an exit status. Started as "approve KEYFILE" it is the approver: it reads a
// question and writes an envelope.
func start(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	var err error
	switch {
	case len(args) == 0:
		err = run(ctx, out)
	case len(args) == 2 && args[0] == "approve":
		err = approve(args[1], in, out)
	default:
		fmt.Fprintf(errs,
			"approvals: unexpected argument %q\nUsage of approvals: go run ./examples/approvals, without flags or "+
				"arguments\n", args[0])
		return 2
	}
	if err != nil {
		fmt.Fprintln(errs, "approvals:", err)
		return 1
	}
	return 0
}

// A desk is the host: it makes the agent's calls, and prints the outcome.
type desk struct {
	out   io.Writer
	k     *helm.Kernel
	store *proofgraph.Memory
	key   crypto.PrivateKey
}

// call makes one of the agent's calls, with the approvals there are.
func (d *desk) call(ctx context.Context, args string, approvals ...contracts.Envelope) *helm.Error {
	decision, receipt := d.k.Guard(ctx, helm.Intent{Tool: "bank.pay", Args: json.RawMessage(args),
		Approvals: approvals})
	fmt.Fprintf(d.out, "bank.pay %s\n", args)
	var denied *helm.Error
	if errors.As(decision.Err(), &denied) {
		fmt.Fprintf(d.out, "%v  %s: %s\n", decision.Verdict, denied.Reason, denied.Why)
	} else {
		fmt.Fprintf(d.out, "%v  %s\n", decision.Verdict, receipt.Output)
	}
	fmt.Fprintf(d.out, "receipt %v, entry %d of the log\n", receipt.Record.Outcome, receipt.Index)
	return denied
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "helm-approvals-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ann, keyFile, err := hire(dir)
	if err != nil {
		return err
	}
	d, err := open(out, ann)
	if err != nil {
		return err
	}
	defer d.k.Close()
	ctx = helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "agent-7"}, Session: "chat-1"})
	const rent, more = `{"to":"landlord","amount":900}`, `{"to":"landlord","amount":9000}`

	fmt.Fprintf(out, "1. The agent pays the rent. That is over 50, so an owner must approve it.\n\n")
	denied := d.call(ctx, rent)
	if !errors.Is(denied, helm.ErrApprovalRequired) {
		return fmt.Errorf("the call needs no approval: %w", denied)
	}
	fmt.Fprintf(out, "\n2. What an owner must sign, and what it is about.\n\n")
	asked, err := json.MarshalIndent(question{*denied.Pending, json.RawMessage(rent)}, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"%s\n\n3. Ann owns the business. She reads it in a process of her own, which has her key, and signs.\n\n",
		asked)
	yes, err := ask(ctx, keyFile, asked)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "approval %v (%d bytes)\n", yes.Digest(), len(yes))

	for _, step := range []struct{ title, args string }{
		{"4. Other arguments under Ann's approval. She did not approve these.", more},
		{"5. The call that she approved.", rent},
		{"6. The same call again, with the same approval. It was for one payment.", rent},
	} {
		fmt.Fprintf(out, "\n%s\n\n", step.title)
		d.call(ctx, step.args, yes)
	}
	fmt.Fprintf(out, "\n7. An auditor gets the pack, and Ann's key from a source they trust.\n\n")
	return d.audit(ctx)
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
	fmt.Fprintf(d.out, "level %v, signer %v: %d entries, %d verdicts replayed\n", report.Level, report.Signer,
		report.Size, report.Replay.Replayed)
	return nil
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

// pay is the tool.
func pay(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"paid":` + string(args) + `}`), nil
}
