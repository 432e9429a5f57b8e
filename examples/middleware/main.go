// Command middleware shows HELM as the middleware of an agent loop: the framework's tool functions are wrapped once, and what HELM denies
// goes back to the model as a tool result, with advice on what to do instead.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var policyText []byte

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "middleware:", err)
		os.Exit(1)
	}
}

// A Tool is what a framework calls: arguments as the model wrote them in, text for the model out.
type Tool func(ctx context.Context, args json.RawMessage) (string, error)

// Middleware wraps a tool.
type Middleware func(name string, next Tool) Tool

// guard makes the middleware of a kernel. The tool's own errors are the framework's business; a denial is an answer.
func guard(k *helm.Kernel) Middleware {
	return func(name string, next Tool) Tool {
		driver := helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			text, err := next(ctx, args)
			if err != nil {
				return nil, err
			}
			return json.Marshal(text)
		})
		return func(ctx context.Context, args json.RawMessage) (string, error) {
			d, r := k.Guard(ctx, helm.Intent{Tool: name, Args: args, Driver: driver})
			err := d.Err()
			var refused *helm.Error
			if errors.As(err, &refused) {
				return fmt.Sprintf("%s (%s). %s", refused.Reason, refused.Why, refused.Reason.Advice()), nil
			}
			if err != nil {
				return "", err
			}
			var text string
			return text, json.Unmarshal(r.Output, &text)
		}
	}
}

func run(ctx context.Context, out io.Writer) error {
	document, err := policy.Parse("policy.yaml", policyText)
	if err != nil {
		return err
	}
	stack, err := guardian.Compile(document)
	if err != nil {
		return err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: proofgraph.NewMemory()})
	if err != nil {
		return err
	}
	defer k.Close()

	tools := map[string]Tool{"order.find": find, "order.refund": refund, "order.delete": remove}
	wrap := guard(k)
	for name, tool := range tools {
		tools[name] = wrap(name, tool)
	}
	ctx = helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "chat-7"})
	return loop(ctx, out, &model{}, tools)
}

// loop is an agent: it asks the model, makes the call, and tells the model what came of it, until the model is done.
func loop(ctx context.Context, out io.Writer, m *model, tools map[string]Tool) error {
	result := ""
	for {
		call, ok := m.next(result)
		if !ok {
			return nil
		}
		fmt.Fprintf(out, "model  %s %s\n", call.tool, call.args)
		text, err := tools[call.tool](ctx, json.RawMessage(call.args))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "tool   %s\n", text)
		result = text
	}
}
