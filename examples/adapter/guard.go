package adapter

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/helmkernel/helm"
)

// Guarded returns a tool whose calls k judges. The tool runs with the bytes that were judged, and
// the model reads what was released, or why the call was denied.
func Guarded(k *helm.Kernel, t Tool) (Tool, error) {
	if k == nil || t.Name == "" || t.Call == nil {
		return Tool{}, errors.New("a guarded tool needs a kernel, a name and a function")
	}
	run := t.Call
	return guarded(k, t.Name, helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		text, err := run(ctx, args)
		return json.RawMessage(text), err
	})), nil
}

// Unknown is for [New]: a call of a tool that the agent does not have is denied, and has a receipt.
func Unknown(k *helm.Kernel) func(name string) Tool {
	return func(name string) Tool { return guarded(k, name, nil) }
}

func guarded(k *helm.Kernel, name string, d helm.Driver) Tool {
	judge := helm.Tool(k, name, d)
	return Tool{Name: name, Call: func(ctx context.Context, args []byte) (string, error) {
		text, _ := judge(ctx, args) // the framework has no mark for calls that failed
		return text, nil            // no error: it would end the loop, and lose what other calls returned
	}}
}
