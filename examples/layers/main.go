// Command layers shows the three layers of a policy at work: a floor (P0), a bundle (P1) and an
// overlay for one task (P2). A call runs if the bundle allows it and neither of the others denies
// it. Each denial names the rule and its layer.
//
//	go run ./examples/layers
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/examples/internal/command"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

var (
	//go:embed floor.yaml
	floor string
	//go:embed bundle.yaml
	bundle string
	//go:embed task.yaml
	task string
)

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func start(ctx context.Context, args []string, out, errs io.Writer) int {
	return command.Plain("layers", args, errs, func() error { return run(ctx, out) })
}

func run(ctx context.Context, out io.Writer) error {
	stack, err := compile(bundle)
	if err != nil {
		return err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	// It stands for the real tools.
	tool := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"done"`), nil
	})
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: proofgraph.NewMemory(),
		Drivers: map[string]executor.Driver{"invoice.read": tool, "invoice.credit": tool, "invoice.list": tool,
			"invoice.delete": tool}})
	if err != nil {
		return err
	}
	defer k.Close()
	d := desk{ctx, out}

	d.says("Floor and bundle. A clerk:")
	d.call(k, "invoice.read", `{"number": "4711"}`, "clerk")
	d.call(k, "invoice.credit", `{"number": "4711", "amount": 80}`, "clerk")
	d.call(k, "invoice.credit", `{"number": "4711", "amount": 450}`, "clerk") // the bundle would allow it
	d.call(k, "invoice.credit", `{"number": "4711", "amount": 900}`, "clerk")
	d.call(k, "invoice.delete", `{"number": "4711"}`, "clerk") // and this
	d.says("A clerk who is a guest in the house:")
	d.call(k, "invoice.credit", `{"number": "4711", "amount": 80}`, "clerk", "guest")

	overlay, err := policy.Parse("task.yaml", []byte(task))
	if err != nil {
		return err
	}
	narrow, err := k.Narrow(overlay)
	if err != nil {
		return err
	}
	defer narrow.Close()
	d.says("With the task's overlay over them:")
	d.call(narrow, "invoice.list", `{}`, "clerk")
	d.call(narrow, "invoice.credit", `{"number": "4712", "amount": 20}`, "clerk")
	d.call(narrow, "invoice.credit", `{"number": "4711", "amount": 20}`, "clerk")
	d.call(narrow, "invoice.credit", `{"number": "4711", "amount": 20}`, "clerk") // once more

	stricter, err := compile(strings.NewReplacer("version: 1", "version: 2", "gt: 500", "gt: 50").Replace(bundle))
	if err != nil {
		return err
	}
	if err := k.Swap(ctx, stricter); err != nil {
		return err
	}
	d.says("Version 2 of the bundle, for the task too:")
	d.call(k, "invoice.credit", `{"number": "4711", "amount": 80}`, "clerk")
	d.call(narrow, "invoice.credit", `{"number": "4711", "amount": 80}`, "clerk")

	d.says("What is refused, with nothing changed:")
	if err := k.Swap(ctx, stack); err != nil { // back to version 1
		d.says("  " + strings.ReplaceAll(err.Error(), "; ", ";\n    "))
	}
	wider, err := policy.Parse("task.yaml",
		[]byte(strings.Replace(task, "{id: this-one, deny:", "{id: this-one, allow:", 1)))
	if err != nil {
		return err
	}
	if _, err := k.Narrow(wider); err != nil {
		d.says("  " + strings.ReplaceAll(err.Error(), "; ", ";\n    "))
	}
	return nil
}

// compile makes a stack of the floor and a bundle.
func compile(bundle string) (*guardian.Policy, error) {
	p0, err := policy.Parse("floor.yaml", []byte(floor))
	if err != nil {
		return nil, err
	}
	p1, err := policy.Parse("bundle.yaml", []byte(bundle))
	if err != nil {
		return nil, err
	}
	return guardian.Compile(p0, p1)
}

// A desk makes calls and prints the decisions.
type desk struct {
	ctx context.Context
	out io.Writer
}

func (d desk) says(line string) { fmt.Fprintln(d.out, line) }

func (d desk) call(k *helm.Kernel, tool, args string, roles ...string) {
	a, _ := k.Guard(d.ctx, helm.Intent{Tool: tool, Args: json.RawMessage(args),
		Caller: helm.Caller{ID: "ann", Roles: roles}, Session: "chat-4711"})
	by := a.Record.Rule
	if by == "" {
		by = a.Why
	}
	fmt.Fprintf(d.out, "  %s %s\n    %v %s %s\n", tool, args, a.Verdict, a.Reason, by)
}
