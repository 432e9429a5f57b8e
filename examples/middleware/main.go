// Command middleware shows HELM as the middleware of an agent loop: every call goes through it,
// whatever tool the model names, and a denial goes back to the model as a tool result, with advice
// on what to do instead.
//
//	go run ./examples/middleware
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/examples/internal/command"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var policyText []byte

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func start(ctx context.Context, args []string, out, errs io.Writer) int {
	return command.Plain("middleware", args, errs, func() error { return run(ctx, out) })
}

// A Tool is called by a framework: it takes arguments as the model wrote them, and returns text for
// the model.
type Tool func(ctx context.Context, args json.RawMessage) (string, error)

// Middleware wraps a tool. The tool is nil if the framework has none of that name.
type Middleware func(name string, next Tool) Tool

// guard makes the middleware of a kernel. The tool's own errors go to the framework; a denial goes
// to the model.
func guard(k *helm.Kernel) Middleware {
	return func(name string, next Tool) Tool {
		in := helm.Intent{Tool: name}
		if next != nil { // else there is nothing to run: the call is denied, and the receipt says so
			in.Driver = helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
				text, err := next(ctx, args)
				if err != nil {
					return nil, err
				}
				return json.Marshal(text)
			})
		}
		return func(ctx context.Context, args json.RawMessage) (string, error) {
			call := in
			call.Args = args
			d, r := k.Guard(ctx, call)
			err := d.Err()
			var refused *helm.Error
			if errors.As(err, &refused) {
				return fmt.Sprintf("%s (%s). %s", refused.Reason, refused.Why, refused.Reason.Advice()), nil
			}
			if err != nil {
				return "", err
			}
			var text string
			err = json.Unmarshal(r.Output, &text)
			return text, err
		}
	}
}

func run(ctx context.Context, out io.Writer) error {
	k, err := newKernel()
	if err != nil {
		return err
	}
	defer k.Close()
	ctx = helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "chat-7"})
	return loop(ctx, out, new(model).next, guard(k), map[string]Tool{"order.find": find, "order.refund": refund,
		"order.delete": remove})
}

func newKernel() (*helm.Kernel, error) {
	document, err := policy.Parse("policy.yaml", policyText)
	if err != nil {
		return nil, err
	}
	stack, err := guardian.Compile(document)
	if err != nil {
		return nil, err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, err
	}
	return helm.New(helm.Options{Policy: stack, Key: key, Store: proofgraph.NewMemory()})
}

// loop is an agent: it asks the model for a call, makes it, and returns the result to the model,
// until the model is done. Every call goes through the middleware, including calls of tools that do
// not exist.
func loop(ctx context.Context, out io.Writer, next func(result string) (call, bool), wrap Middleware,
	tools map[string]Tool) error {
	result := ""
	for {
		call, ok := next(result)
		if !ok {
			return nil
		}
		fmt.Fprintf(out, "model  %s %s\n", call.tool, call.args)
		text, err := wrap(call.tool, tools[call.tool])(ctx, json.RawMessage(call.args))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "tool   %s\n", strings.ReplaceAll(text, "). ", ").\n       "))
		result = text
	}
}
