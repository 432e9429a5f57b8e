package adk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/toolconfirmation"
	"google.golang.org/adk/v2/tool/toolutils"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/adapt"
	"github.com/helmkernel/helm/internal/contain"
)

// stopStreaming is a name that ADK answers by itself, whatever tool has it.
const stopStreaming = "stop_streaming"

// Tool returns t, guarded by k, under the same name and declaration. A streaming tool becomes one
// that returns once: the whole stream, after its receipt.
//
// A call is judged with the arguments that reach the tool, so with what hooks of ADK made of them.
// A denial is the result {"error": TEXT}. An output that is a JSON object is the result as it is;
// any other, and the text of a stream, is {"result": TEXT}. What the tool does to its
// [session.EventActions] counts only if its output is released or the tool's own error is told.
// What it writes to the session's state, ADK writes there at once.
//
// Tool returns an error if k or t is nil; if t is guarded already, is long-running, because its
// result then comes later and from elsewhere, or is of a kind that ADK does not run as a function:
// one that the model's provider runs, or that only changes the request; if it defers its response;
// and if its name is not one of a tool, is not the declared one, or is one that ADK answers itself.
//
// The tool is safe for concurrent use if t is.
func Tool(k *helm.Kernel, t tool.Tool) (tool.Tool, error) {
	if k == nil {
		return nil, errors.New("adk: no kernel")
	}
	if isNil(t) {
		return nil, errors.New("adk: no tool")
	}
	if _, ok := t.(*guarded); ok {
		return nil, fmt.Errorf("adk: %s is guarded already", t.Name())
	}
	g := &guarded{kernel: k, inner: t, name: t.Name()}
	if err := g.check(); err != nil {
		return nil, err
	}
	return g, nil
}

func isNil(t tool.Tool) bool {
	if t == nil {
		return true
	}
	v := reflect.ValueOf(t)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// A function is a tool that ADK runs.
type function interface {
	declarer
	Run(ctx agent.Context, args any) (map[string]any, error)
}

// A processor is a tool or a toolset that changes the request to the model.
type processor interface {
	ProcessRequest(ctx agent.Context, req *model.LLMRequest) error
}

// A guarded tool is one of an agent, in front of the agent's own.
type guarded struct {
	kernel *helm.Kernel
	inner  tool.Tool
	name   string
}

var _ function = (*guarded)(nil)

// check returns why the tool cannot be guarded.
func (g *guarded) check() error {
	_, runs := g.inner.(function)
	_, streams := g.inner.(streaming)
	deferred, ok := g.inner.(interface{ DefersResponse() bool })
	switch {
	case !contracts.IsTool(g.name):
		return fmt.Errorf("adk: %q is no name of a tool: use 1 to 128 of A-Z a-z 0-9 . _ : @ / -", g.name)
	case g.name == stopStreaming || g.name == toolconfirmation.FunctionCallName:
		return fmt.Errorf("adk: %s: ADK answers calls of this name itself: use another", g.name)
	case g.inner.IsLongRunning():
		return fmt.Errorf("adk: %s is long-running: its result comes later, where no kernel sees it", g.name)
	case ok && deferred.DefersResponse():
		return fmt.Errorf("adk: %s defers its response: ADK starts the agent whatever a kernel says", g.name)
	case !runs && !streams:
		return fmt.Errorf("adk: %s: %T is not run by ADK as a function: no kernel can judge its calls", g.name, g.inner)
	}
	if d := g.Declaration(); d != nil && d.Name != g.name {
		return fmt.Errorf("adk: %s is declared as %q: a model would call another name", g.name, d.Name)
	}
	return nil
}

// Name returns the name that the tool had when it was guarded.
func (g *guarded) Name() string { return g.name }

// Description returns the tool's own.
func (g *guarded) Description() string { return g.inner.Description() }

// IsLongRunning returns false: no tool that is can be guarded.
func (g *guarded) IsLongRunning() bool { return false }

// Declaration returns the tool's own.
func (g *guarded) Declaration() *genai.FunctionDeclaration {
	return g.inner.(declarer).Declaration()
}

// ProcessRequest offers the guarded tool to the model, and has the tool itself do the rest.
func (g *guarded) ProcessRequest(ctx agent.Context, req *model.LLMRequest) error {
	p, ok := g.inner.(processor)
	if !ok {
		return toolutils.PackTool(req, g)
	}
	return process(g.kernel, p, ctx, req, g)
}

// process has p change a request. Tools that it adds are guarded first: own takes the place of the
// one of its name. Nothing that a provider runs can be added.
func process(k *helm.Kernel, p processor, ctx agent.Context, req *model.LLMRequest, own *guarded) error {
	added := *req
	added.Tools = nil
	from := 0
	if req.Config != nil {
		from = len(req.Config.Tools)
	}
	if err := p.ProcessRequest(ctx, &added); err != nil {
		return err
	}
	if added.Config != nil && len(added.Config.Tools) > from {
		if name := providers(added.Config.Tools[from:]); name != "" {
			return errProvider(name)
		}
	}
	tools := maps.Clone(req.Tools)
	if tools == nil {
		tools = make(map[string]any)
	}
	for _, name := range slices.Sorted(maps.Keys(added.Tools)) {
		if _, ok := tools[name]; ok {
			return fmt.Errorf("adk: duplicate tool: %q", name)
		}
		t, ok := added.Tools[name].(tool.Tool)
		switch _, guardedAlready := t.(*guarded); {
		case own != nil && name == own.name:
			t = own
		case !ok:
			return fmt.Errorf("adk: %q is offered as a tool, and is none", name)
		case !guardedAlready:
			var err error
			if t, err = Tool(k, t); err != nil {
				return err
			}
		}
		tools[name] = t
	}
	added.Tools = tools
	*req = added
	return nil
}

// Run has the kernel judge the call, and returns what the model is told. It returns no error.
func (g *guarded) Run(ctx agent.Context, args any) (map[string]any, error) {
	in := helm.Intent{Tool: g.name, Args: encoded(args)}
	run := &run{tool: g, ctx: ctx, actions: copied(ctx.Actions())}
	in.Driver = run
	answer := ctx.ToolConfirmation()
	if answer != nil {
		in.Approvals, _ = adapt.Approvals(answer.Payload) // without any there is a denial, and its receipt
		if !answer.Confirmed {
			run.rejected = true
			if len(in.Approvals) == 0 {
				d, r := g.kernel.Guard(ended(ctx), in)
				return told(d, r, false), nil
			}
		}
	}
	d, r := g.kernel.Guard(ctx, in)
	if err := d.Err(); !errors.Is(err, helm.ErrDenied) && !errors.Is(err, helm.ErrWithheld) {
		if a := ctx.Actions(); a != nil {
			*a = *run.actions
		}
	}
	_, streams := g.inner.(streaming)
	result := told(d, r, streams)
	if d.Pending != nil && answer == nil {
		_ = ask(ctx, d, result) // if nobody can be asked, the model knows of the denial
	}
	return result, nil
}

// ask has ADK ask the user, with the request that an approver is to sign. An answer of the user
// counts only with what approvers signed.
func ask(ctx agent.Context, d helm.Decision, result map[string]any) error {
	text, err := adapt.Interrupt(d.Pending)
	if err != nil {
		return err
	}
	var payload map[string]any
	if err := json.Unmarshal(text, &payload); err != nil {
		return err
	}
	hint, _ := result["error"].(string)
	return ctx.RequestConfirmation(hint, payload)
}

// encoded returns arguments as JSON. ADK decoded them before. Those that have no JSON form are
// none, which are denied.
func encoded(args any) json.RawMessage {
	var b []byte
	err := func() (err error) {
		defer contain.Error(&err, "adk: a method of an argument's type")
		b, err = json.Marshal(args)
		return err
	}()
	switch {
	case err != nil:
		return nil
	case string(b) == "null":
		return json.RawMessage("{}") // ADK has no map for a call without arguments
	}
	return b
}
