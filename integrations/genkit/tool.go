package genkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/api"
	"github.com/firebase/genkit/go/genkit"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/adapt"
)

// DefineTool is genkit.DefineTool for a tool whose calls are judged by k: what g has under the name
// is the guarded tool, and there is no other way to fn. It is safe for concurrent use if fn is.
//
// It is an error if k, g or fn is nil, if the name is none that HELM knows (1 to 128 letters,
// digits and . _ : @ / -), if g has a tool of the name, guarded or not, if an option is refused, or
// if the input of the tool is no object.
func DefineTool[In, Out any](
	k *helm.Kernel, g *genkit.Genkit, name, description string, fn ai.ToolFunc[In, Out], o ...ai.ToolOption,
) (ai.Tool, error) {
	return define(k, g, name, fn == nil, false, func(r api.Registry) {
		ai.DefineTool(r, name, description, fn, o...)
	})
}

// DefineMultipartTool is genkit.DefineMultipartTool for a tool whose calls are judged by k. See
// [DefineTool].
func DefineMultipartTool[In any](
	k *helm.Kernel, g *genkit.Genkit, name, description string, fn ai.MultipartToolFunc[In], o ...ai.ToolOption,
) (ai.Tool, error) {
	return define(k, g, name, fn == nil, true, func(r api.Registry) {
		ai.DefineMultipartTool(r, name, description, fn, o...)
	})
}

// Pending returns the request of an interrupted call that waits for an approval. It is an error if
// the part is none.
func Pending(p *ai.Part) (contracts.ApprovalRequest, error) {
	var none contracts.ApprovalRequest
	if p == nil || !p.IsInterrupt() {
		return none, errors.New("helm/genkit: the part is no interrupted call")
	}
	b, err := json.Marshal(p.Metadata["interrupt"])
	if err != nil {
		return none, errors.New("helm/genkit: the interrupt has no JSON form")
	}
	var info struct {
		Helm *contracts.ApprovalRequest `json:"helm"`
	}
	if err := json.Unmarshal(b, &info); err != nil || info.Helm == nil {
		return none, errors.New("helm/genkit: the interrupt is not of a call that waits for an approval")
	}
	return *info.Helm, nil
}

// define makes a tool in a registry of its own, and registers it under guard in g's.
func define(
	k *helm.Kernel, g *genkit.Genkit, name string, noFunc, multipart bool, make func(api.Registry),
) (t ai.Tool, err error) {
	switch {
	case k == nil:
		return nil, errNoKernel
	case g == nil:
		return nil, errors.New("helm/genkit: there is no Genkit")
	case noFunc:
		return nil, fmt.Errorf("helm/genkit: %q has no function", name)
	case !contracts.IsTool(name) || name == unknown:
		return nil, fmt.Errorf("helm/genkit: %q names no tool: it needs 1 to 128 letters, digits and . _ : @ / -", name)
	}
	defer func() { // Genkit panics at options, and at names, that it refuses
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("helm/genkit: %s: %v", name, p)
		}
	}()
	var within shadow
	make(&within)
	if within.action == nil {
		return nil, fmt.Errorf("helm/genkit: %s: no tool was made", name)
	}
	if kind := within.action.Desc().InputSchema["type"]; kind != nil && kind != "object" {
		return nil, fmt.Errorf("helm/genkit: %s takes no object", name)
	}
	a := &action{Action: within.action, within: &within}
	a.governed = governed{kernel: k, name: name, multipart: multipart,
		run: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			return within.action.RunJSON(ctx, args, nil)
		}}
	genkit.RegisterAction(g, twice{a})
	t = ai.LookupTool(within.Registry, name)
	shown := t.Definition()
	if _, a.definition, err = adapt.Published(name, shown.Description, shown.InputSchema); err != nil {
		return nil, fmt.Errorf("helm/genkit: %s: it stays registered, and has no definition: %w", name, err)
	}
	return t, nil
}

var errNoKernel = errors.New("helm/genkit: there is no kernel")

// An action is the guarded tool as a registry has it. The action in it has its schemas and its
// function, and is in no registry.
type action struct {
	api.Action
	governed
	within *shadow
}

var _ api.Action = (*action)(nil)

func (a *action) Name() string { return a.Action.Name() }

// Register registers the guarded tool. Schemas are those of the first registry.
func (a *action) Register(r api.Registry) {
	a.within.once.Do(func() { a.within.Registry = r })
	r.RegisterAction(a.Desc().Key, a)
}

// twice is an action that is registered as Genkit registers its own tools: under an older key too.
type twice struct{ *action }

// Register registers the action under both keys.
func (a twice) Register(r api.Registry) {
	a.action.Register(r)
	if !a.multipart {
		r.RegisterAction(api.KeyFromName(api.ActionTypeTool, a.name), a.action)
	}
}

// RunJSON has the call judged and run. Nothing is streamed, since it would be out before there is a
// receipt.
func (a *action) RunJSON(
	ctx context.Context, input json.RawMessage, _ func(context.Context, json.RawMessage) error,
) (json.RawMessage, error) {
	return a.call(ctx, input)
}

// RunJSONWithTelemetry is RunJSON. The trace of a run is below that of its caller.
func (a *action) RunJSONWithTelemetry(
	ctx context.Context, input json.RawMessage, _ func(context.Context, json.RawMessage) error,
) (*api.ActionRunResult[json.RawMessage], error) {
	output, err := a.call(ctx, input)
	if err != nil {
		return nil, err
	}
	return &api.ActionRunResult[json.RawMessage]{Result: output}, nil
}

// A shadow is a registry that keeps the action that is registered, and nobody finds it there.
type shadow struct {
	api.Registry // for schemas; set when the guarded tool is registered
	once         sync.Once
	action       api.Action
}

func (s *shadow) RegisterAction(_ string, a api.Action) { s.action = a }
