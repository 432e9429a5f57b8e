package eino

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/adapt"
)

// A call is one that is to be judged. It is its own driver.
type call struct {
	kernel     *helm.Kernel
	name       string
	definition func() contracts.Digest // nil: none
	run        runner
	final      bool // never interrupts
}

var _ executor.Defined = (*call)(nil)

// Run runs the tool under an address of its own in the framework, so that data by which this call
// was resumed is not taken for an answer to the tool's own interrupt.
func (c *call) Run(ctx context.Context, judged contracts.Call) (executor.Result, error) {
	return c.run(compose.AppendAddressSegment(ctx, "helm", c.name), string(judged.Args))
}

// Definition returns what the tool publishes, if the policy pins it.
func (c *call) Definition() contracts.Digest {
	if p := c.kernel.Policy(); c.definition != nil && p != nil {
		if _, pinned := p.Definition(c.name); pinned {
			return c.definition()
		}
	}
	return contracts.Digest{}
}

// The states of a call that was interrupted.
const (
	waits    = `{"helm":` // and the request: it waits for an approver
	runsInto = "the tool interrupted its run"
)

// guard has the call judged. An error is for the framework: the call is interrupted.
func (c *call) guard(ctx context.Context, args string) (helm.Decision, helm.Receipt, error) {
	resumed, _, state := tool.GetInterruptState[string](ctx)
	in := helm.Intent{Tool: c.name, Args: json.RawMessage(args), Driver: c}
	if resumed && strings.HasPrefix(state, waits) {
		target, _, payload := tool.GetResumeContext[any](ctx)
		if !target {
			return helm.Decision{}, helm.Receipt{}, tool.StatefulInterrupt(ctx, state, state)
		}
		in.Approvals, _ = adapt.Approvals(payload) // none on error: the call is denied again
	}
	d, r := c.kernel.Guard(ctx, in)
	if err := d.Err(); d.Allowed() && err != nil {
		if interrupt := interruptOf(ctx, err); interrupt != nil {
			return d, r, interrupt
		}
	}
	if d.Pending != nil && !resumed && !c.final && interruptible(ctx) && ctx.Value(refuseKey{}) == nil {
		if info, err := adapt.Interrupt(d.Pending); err == nil {
			return d, r, tool.StatefulInterrupt(ctx, string(info), string(info))
		}
	}
	return d, r, nil
}

// interruptOf returns the interrupt that the error of a tool is, as one of the call, or nil. One of
// the form that Eino had before it had addresses has no parts, and is passed on as it is.
func interruptOf(ctx context.Context, err error) error {
	if _, ok := compose.IsInterruptRerunError(err); !ok || !interruptible(ctx) {
		return nil
	}
	all := tool.CompositeInterrupt(ctx, nil, runsInto, err)
	if _, ok := compose.IsInterruptRerunError(all); !ok {
		return err
	}
	return all
}

// interruptible reports whether the call is one of an agent or graph, and not a direct one.
func interruptible(ctx context.Context) bool { return len(compose.GetCurrentAddress(ctx)) > 0 }

type refuseKey struct{}

// WithoutInterrupts returns a context for a run that nobody can resume, because it has no
// checkpoint. A call under it that waits for an approver does not interrupt the run: the model is
// told that the call was denied, and whom it waits for. A tool that interrupts the run itself still
// does.
func WithoutInterrupts(ctx context.Context) context.Context {
	return context.WithValue(ctx, refuseKey{}, true)
}

// text returns what the model is shown of a call of a plain tool.
func (c *call) text(ctx context.Context, args string) (string, error) {
	d, r, err := c.guard(ctx, args)
	if err != nil {
		return "", err
	}
	text, _ := d.ForModel(r)
	return text, nil
}

// parts returns what the model is shown of a call of an enhanced tool.
func (c *call) parts(ctx context.Context, args string) (*schema.ToolResult, error) {
	d, r, err := c.guard(ctx, args)
	if err != nil {
		return nil, err
	}
	text, failed := d.ForModel(r)
	if !failed {
		if result, ok := shown(r.Output); ok {
			return result, nil
		}
	}
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: text}}}, nil
}
