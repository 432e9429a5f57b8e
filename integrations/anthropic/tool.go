package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/adapt"
	"github.com/helmkernel/helm/internal/contain"
)

// Tool returns a tool under guard. Name, description and schema are those that t has now. It
// returns an error for a nil kernel or tool, a name that no tool can have, a schema that is no
// strict JSON, and a tool that is under guard already. The tool is safe for concurrent use if t is;
// it is an [io.Closer], and closes t if that is one.
func Tool(k *helm.Kernel, t sdk.BetaTool) (sdk.BetaTool, error) {
	return guard(k, t)
}

func guard(k *helm.Kernel, t sdk.BetaTool) (made *tool, err error) {
	v := reflect.ValueOf(t)
	switch {
	case k == nil:
		return nil, errors.New("anthropic: there is no kernel")
	case t == nil || v.Kind() == reflect.Pointer && v.IsNil():
		return nil, errors.New("anthropic: there is no tool")
	}
	if _, twice := t.(*tool); twice {
		return nil, errors.New("anthropic: the tool is under guard already")
	}
	defer contain.Error(&err, "anthropic: the tool")
	made = &tool{kernel: k, inner: t, name: t.Name(), description: t.Description(), schema: t.InputSchema()}
	if !contracts.IsTool(made.name) {
		return nil, fmt.Errorf("anthropic: %q is no name of a tool", made.name)
	}
	if made.entry, made.definition, err = adapt.Published(made.name, made.description, made.schema); err != nil {
		return nil, fmt.Errorf("anthropic: %s: %w", made.name, err)
	}
	return made, nil
}

// A tool is one under guard.
type tool struct {
	kernel            *helm.Kernel
	inner             sdk.BetaTool
	name, description string
	schema            sdk.BetaToolInputSchemaParam
	entry             json.RawMessage // its published form
	definition        contracts.Digest
}

func (t *tool) Name() string                              { return t.name }
func (t *tool) Description() string                       { return t.description }
func (t *tool) InputSchema() sdk.BetaToolInputSchemaParam { return t.schema }

// Close closes the tool that is under guard.
func (t *tool) Close() error {
	if c, ok := t.inner.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Execute has the kernel judge a call, and run it. Its error is what the model is told of a call
// that has no result.
func (t *tool) Execute(ctx context.Context, input json.RawMessage) ([]sdk.BetaToolResultBlockParamContentUnion, error) {
	do := func() ([]sdk.BetaToolResultBlockParamContentUnion, error) {
		run := &run{tool: t}
		return call(ctx, t.kernel, helm.Intent{Tool: t.name, Args: input, Driver: run}, &run.blocks)
	}
	c, ok := unpack(input)
	if !ok {
		return do()
	}
	input = c.input
	return once(ctx, c, do)
}

// call judges a call and returns what the model is told of it. blocks says whether the output is
// blocks, or a text; nil is a text.
func call(
	ctx context.Context, k *helm.Kernel, in helm.Intent, blocks *atomic.Bool,
) ([]sdk.BetaToolResultBlockParamContentUnion, error) {
	d, r := k.Guard(ctx, in)
	if d.Pending != nil {
		tell(ctx, d)
	}
	text, failed := d.ForModel(r)
	switch {
	case failed:
		return nil, errors.New(text) // the runner makes a result of it that is_error
	case blocks != nil && blocks.Load():
		return decode(r.Output)
	case text == "":
		return nil, nil // the API takes no empty block
	}
	return []sdk.BetaToolResultBlockParamContentUnion{{OfText: &sdk.BetaTextBlockParam{Text: text}}}, nil
}

// A run is the driver of one call.
type run struct {
	tool   *tool
	blocks atomic.Bool // the output is blocks, and not a text
}

var _ executor.Defined = (*run)(nil)

func (r *run) Definition() contracts.Digest { return r.tool.definition }

// Run runs the tool with the judged arguments.
func (r *run) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	content, err := r.tool.inner.Execute(ctx, c.Args)
	if err != nil {
		return executor.Result{}, err
	}
	if text, ok := textOf(content); ok {
		p := r.tool.kernel.Policy()
		return executor.Result{Output: []byte(text), Raw: p == nil || !p.HasOutput(r.tool.name)}, nil
	}
	b, err := json.Marshal(content)
	if err != nil {
		return executor.Result{}, contain.Fault("the result of the tool has no JSON form")
	}
	r.blocks.Store(true)
	return executor.Result{Output: b}, nil
}

// textOf returns the text of a result that has nothing else.
func textOf(content []sdk.BetaToolResultBlockParamContentUnion) (text string, ok bool) {
	if len(content) == 0 {
		return "", true
	}
	t := content[0].OfText
	if len(content) > 1 || t == nil || len(t.Citations) > 0 || !param.IsOmitted(t.CacheControl) {
		return "", false
	}
	return t.Text, true
}

// decode returns blocks that encode as the released bytes.
func decode(output []byte) ([]sdk.BetaToolResultBlockParamContentUnion, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, errors.New("the result of the tool is no list of blocks")
	}
	out := make([]sdk.BetaToolResultBlockParamContentUnion, len(list))
	for i := range list {
		out[i] = param.Override[sdk.BetaToolResultBlockParamContentUnion](list[i])
	}
	return out, nil
}

type askKey struct{}

// Ask returns a context under which f is called for each call that waits for an approver: its
// decision has the request, Pending, and the arguments that it is about. Calls of one message run
// at the same time, and so may f. A panic in it is dropped.
func Ask(ctx context.Context, f func(helm.Decision)) context.Context {
	return context.WithValue(ctx, askKey{}, f)
}

func tell(ctx context.Context, d helm.Decision) {
	defer contain.Drop()
	if f, ok := ctx.Value(askKey{}).(func(helm.Decision)); ok && f != nil {
		f(d)
	}
}

// List returns the published forms of tools under guard as a JSON array, of which policy.New drafts
// a policy. Other tools are left out.
func List(tools ...sdk.BetaTool) json.RawMessage {
	list := []byte("[")
	for _, t := range tools {
		if g, ok := t.(*tool); ok && g != nil {
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, g.entry...)
		}
	}
	return append(list, ']')
}
