// Command sandbox runs tools that are WebAssembly modules. A summary of a table is allowed, and an
// auditor runs it again. Then the holder of the kernel's key changes one byte of an output, and the
// auditor finds it. Last, a module tries to get out, in many ways.
//
//	go run ./examples/sandbox
//
// It builds the modules in examples/sandbox/guests with the go command, so run it in this
// repository.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing/fstest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/examples/internal/command"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/sandbox"
)

//go:embed policy.yaml
var policyText string

const (
	origin = "example.org/sandbox" // the log's name
	prices = "city,price\nOslo,4.5\nRome,3\nRome,2.25\n"
)

// templates is a tree. Its digest is granted, so the auditor needs the same files.
var templates = fstest.MapFS{
	"reminder.txt": {Data: []byte("Dear {{.name}}, your invoice {{.invoice}} is due on {{.due}}.\n")},
}

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func start(ctx context.Context, args []string, out, errs io.Writer) int {
	return command.Plain("sandbox", args, errs, func() error { return run(ctx, out) })
}

func run(ctx context.Context, out io.Writer) error {
	guests, err := build(ctx)
	if err != nil {
		return err
	}
	runtime, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return err
	}
	defer runtime.Close(ctx)
	stack, err := compile(guests)
	if err != nil {
		return err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	h := host{out: out, runtime: runtime, guests: guests, policy: stack, key: key}
	if err := h.work(ctx); err != nil {
		return err
	}
	if err := h.claims(ctx); err != nil {
		return err
	}
	return h.escapes(ctx)
}

// compile pins the module of the summary.
func compile(guests map[string][]byte) (*guardian.Policy, error) {
	text := strings.Replace(policyText, "[SUMMARY]", "["+crypto.Sum(guests["summary"]).String()+"]", 1)
	document, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	return guardian.Compile(document)
}

// A host runs a kernel with sandboxed tools.
type host struct {
	out     io.Writer
	runtime *sandbox.Runtime
	guests  map[string][]byte
	policy  *guardian.Policy
	key     crypto.PrivateKey
}

// Its clock stands still, which a guest would notice if it saw another.
func now() time.Time { return time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC) }

func (h *host) kernel(store proofgraph.Store, drivers map[string]executor.Driver) (*helm.Kernel, error) {
	return helm.New(helm.Options{Policy: h.policy, Key: h.key, Origin: origin, Store: store, Drivers: drivers,
		Keep: helm.Keep{Outputs: true, Modules: true}, Now: now})
}

func marshal(args any) json.RawMessage {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err) // no value of this program has no JSON form
	}
	return b
}
