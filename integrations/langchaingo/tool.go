package langchaingo

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/tmc/langchaingo/tools"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/adapt"
)

// Tool returns t under guard: each call is judged by k, and runs if it is admissible. Caller,
// session and approvals come from the context with which the agent is run: see [helm.With]. It is
// safe for concurrent use if t is.
//
// It is an error if k or t is nil, if t is guarded already, or if its name is none that HELM knows:
// 1 to 128 letters, digits and . _ : @ / -. A tool with a space in its name needs another one:
//
//	type renamed struct{ tools.Tool }
//
//	func (renamed) Name() string { return "web_search" }
func Tool(k *helm.Kernel, t tools.Tool) (tools.Tool, error) {
	switch {
	case k == nil:
		return nil, errNoKernel
	case isNil(t):
		return nil, errors.New("helm/langchaingo: there is no tool")
	}
	if _, twice := t.(*guarded); twice {
		return nil, fmt.Errorf("helm/langchaingo: %s is guarded already", t.Name())
	}
	g := &guarded{kernel: k, tool: t, name: t.Name(), description: t.Description()}
	if !contracts.IsTool(g.name) {
		return nil, fmt.Errorf("helm/langchaingo: %q names no tool, which has 1 to 128 letters, digits and "+
			". _ : @ / -: wrap it in a tool with such a name", g.name)
	}
	var err error
	if _, g.definition, err = adapt.Published(g.name, g.description, nil); err != nil {
		return nil, fmt.Errorf("helm/langchaingo: %s: %w", g.name, err)
	}
	return g, nil
}

var errNoKernel = errors.New("helm/langchaingo: there is no kernel")

// isNil reports whether there is no value, or one that is a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// A guarded tool is the driver of its own calls.
type guarded struct {
	kernel            *helm.Kernel
	tool              tools.Tool
	name, description string // as the model is shown them
	definition        contracts.Digest
}

var _ tools.Tool = (*guarded)(nil)

func (g *guarded) Name() string        { return g.name }
func (g *guarded) Description() string { return g.description }

// Call has the call judged and run. It never returns an error.
func (g *guarded) Call(ctx context.Context, input string) (string, error) {
	return guard(ctx, g.kernel, helm.Intent{Tool: g.name, Args: arguments(input), Driver: driver{g}}), nil
}

// guard returns what the model is told of a call.
func guard(ctx context.Context, k *helm.Kernel, in helm.Intent) string {
	d, r := k.Guard(ctx, in)
	if d.Pending != nil {
		tell(ctx, d)
	}
	text, _ := d.ForModel(r)
	return text
}

// tell hands a decision to the host.
func tell(ctx context.Context, d helm.Decision) {
	defer func() { _ = recover() }()
	if ask, ok := ctx.Value(pendingKey{}).(func(helm.Decision)); ok && ask != nil {
		ask(d)
	}
}

type pendingKey struct{}

// OnPending returns a context under which ask is called with the decision of each call that waits
// for an approval: its Pending is the request to sign, and its Args are the arguments that it is
// about. The answer goes into [helm.Intent.Approvals] of a later run. ask is called before the
// model is told, by the goroutine that runs the tool. A panic in it is dropped.
func OnPending(ctx context.Context, ask func(helm.Decision)) context.Context {
	return context.WithValue(ctx, pendingKey{}, ask)
}

type driver struct{ *guarded }

var _ executor.Defined = driver{}

// Definition returns the digest of what the model is shown of the tool, if it is still true.
func (d driver) Definition() contracts.Digest {
	if d.tool.Name() != d.name || d.tool.Description() != d.description {
		return contracts.Digest{}
	}
	return d.definition
}

// Run calls the tool with the text of the judged arguments.
func (d driver) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	output, err := d.tool.Call(ctx, text(c.Args))
	if err != nil {
		return executor.Result{}, err
	}
	p := d.kernel.Policy()
	return executor.Result{Output: []byte(output), Raw: p == nil || !p.HasOutput(d.name)}, nil
}
