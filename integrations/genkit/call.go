package genkit

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/firebase/genkit/go/ai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/adapt"
)

// A governed tool is one whose calls are judged. Its run takes arguments, and returns the JSON of a
// MultipartToolResponse; if it is nil there is no tool of the name.
type governed struct {
	kernel     *helm.Kernel
	name       string
	definition contracts.Digest
	multipart  bool
	run        func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)
}

// call has a call judged and run, and returns the JSON of the response to the model. Its error is
// an interrupt.
func (g *governed) call(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	input = bytes.TrimSpace(input)
	if len(input) == 0 || string(input) == "null" {
		input = json.RawMessage("{}")
	}
	if args, ok := g.permitted(ctx, input); ok {
		return g.run(ctx, args)
	}
	in := helm.Intent{Tool: g.name, Args: input}
	resumed := ai.IsToolResumed(ctx)
	if answers, ok := ai.ResumedValue[any](ctx, "approvals"); ok {
		if list, err := adapt.Approvals(map[string]any{"approvals": answers}); err == nil {
			in.Approvals = list
		}
	}
	whole := g.multipart && !g.pinned()
	if g.run != nil {
		in.Driver = &driver{g, whole}
	}
	d, r := g.kernel.Guard(ctx, in)
	if d.Pending != nil && !resumed && g.run != nil {
		if err := interrupt(d.Pending); err != nil {
			return nil, err
		}
	}
	if own, _ := ai.IsToolInterruptError(d.Err()); own {
		return nil, d.Err()
	}
	return response(d, r, whole), nil
}

// interrupt returns the error that interrupts Generate, or nil if there is nothing to show.
func interrupt(pending *contracts.ApprovalRequest) error {
	info, err := adapt.Interrupt(pending)
	if err != nil {
		return nil // the model is told instead
	}
	var metadata map[string]any
	if json.Unmarshal(info, &metadata) != nil {
		return nil
	}
	return ai.NewToolInterruptError(metadata)
}

// response returns the JSON of what the model is shown. A whole response is shown as it was
// released.
func response(d helm.Decision, r helm.Receipt, whole bool) json.RawMessage {
	if d.Err() == nil && r.Output != nil && r.Record.OutputForm == "jcs" {
		if whole {
			return r.Output
		}
		return append(append([]byte(`{"output":`), r.Output...), '}')
	}
	text, _ := d.ForModel(r)
	b, err := json.Marshal(map[string]string{"output": text})
	if err != nil {
		return json.RawMessage(`{"output":""}`)
	}
	return b
}

func (g *governed) pinned() bool {
	p := g.kernel.Policy()
	return p != nil && p.HasOutput(g.name)
}

// A driver runs one call.
type driver struct {
	*governed
	whole bool
}

var _ executor.Defined = (*driver)(nil)

// Definition returns the digest of what the model is shown of the tool.
func (d *driver) Definition() contracts.Digest { return d.definition }

// Run runs the tool with the judged arguments.
func (d *driver) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	made, err := d.run(ctx, c.Args)
	if err != nil {
		return executor.Result{}, err
	}
	if d.whole {
		return executor.Result{Output: made}, nil
	}
	var parts struct {
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(made, &parts); err != nil {
		return executor.Result{}, err
	}
	var text *string // nil of null
	if !d.pinned() && json.Unmarshal(parts.Output, &text) == nil && text != nil {
		return executor.Result{Output: []byte(*text), Raw: true}, nil
	}
	return executor.Result{Output: parts.Output}, nil
}

type permitKey struct{}

// A permit is in the context of a run that Use had judged. By it a tool that is guarded by itself
// too is judged once. It serves the call that was judged, once, and no other.
type permit struct {
	kernel *helm.Kernel
	tool   string
	args   json.RawMessage // canonical
	used   atomic.Bool
}

// permitted returns the judged arguments if this is the very call that was judged and is being run.
func (g *governed) permitted(ctx context.Context, input json.RawMessage) (json.RawMessage, bool) {
	p, ok := ctx.Value(permitKey{}).(*permit)
	if !ok || g.run == nil || p.kernel != g.kernel || p.tool != g.name {
		return nil, false
	}
	var tree crypto.Tree
	if tree.Parse(input, crypto.Limits{Bytes: 1 << 20, Depth: 64, Object: true}) != nil {
		return nil, false
	}
	return p.args, bytes.Equal(tree.Root().Append(nil), p.args) && p.used.CompareAndSwap(false, true)
}
