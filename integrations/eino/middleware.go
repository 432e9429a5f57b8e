package eino

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// Middleware returns what has k judge the calls of all tools of a ToolsNode, of all four kinds,
// whether Tool wrapped them or not. A call of one that is wrapped is judged once.
//
// It must be the last one in ToolCallMiddlewares. What later ones make of the arguments was not
// judged: a tool that is wrapped judges the call again then, and one that is not gets it as it is.
// In a ChatModelAgent the middlewares of the agent are later ones: if they change arguments, wrap
// the tools and leave this out, and what they change is judged.
//
// The call is judged by the name that the model used, so a name that is an alias is a tool of its
// own to the policy. A tool whose definition the policy pins is denied, since a middleware does not
// see definitions. [Tool] has neither limit, nor has [Config] the second. A nil k denies every
// call.
func Middleware(k *helm.Kernel) compose.ToolMiddleware { return (&middleware{kernel: k}).endpoints() }

// UnknownTool returns a handler for ToolsNodeConfig.UnknownToolsHandler, by which a call of a tool
// that the agent does not have leaves a receipt and ends no turn. If the policy declares the tool
// and permits the call, it fails: it is never run, not by a driver of the kernel either. It
// interrupts no run. A nil k denies every call.
func UnknownTool(k *helm.Kernel) func(ctx context.Context, name, input string) (string, error) {
	return func(ctx context.Context, name, input string) (string, error) {
		c := &call{kernel: k, name: name, final: true,
			run: func(context.Context, string) (executor.Result, error) { return executor.Result{}, errUnknown }}
		return c.text(ctx, input)
	}
}

var errUnknown = errors.New("there is no such tool here: use one of the tools you were given")

// Config returns a configuration of a ToolsNode that k governs: each of its tools is wrapped by
// [Tool], unless it is already, [Middleware] is its last middleware, and [UnknownTool] handles
// unknown tools. Nothing of the one that was passed is changed. What middlewares after that one
// make of the arguments of its tools has no effect: the tools get the judged ones.
//
// It returns an error for a tool that Tool refuses, for two tools of one name, for aliases of
// names, which a middleware sees in place of the name (wrap the tools, and leave the middleware
// out), for an UnknownToolsHandler, and for a nil k.
func Config(k *helm.Kernel, c compose.ToolsNodeConfig) (compose.ToolsNodeConfig, error) {
	refused := func(err error) (compose.ToolsNodeConfig, error) { return compose.ToolsNodeConfig{}, err }
	if k == nil {
		return refused(errors.New("eino: there is no kernel"))
	}
	if c.UnknownToolsHandler != nil {
		return refused(errors.New("eino: leave UnknownToolsHandler to HELM, or its calls have no receipt"))
	}
	for _, a := range c.ToolAliases {
		if len(a.NameAliases) > 0 {
			return refused(errors.New("eino: a tool has an alias: use Tool and UnknownTool without Middleware"))
		}
	}
	m := &middleware{kernel: k, own: map[string]*governed{}}
	tools := make([]tool.BaseTool, len(c.Tools))
	for i, t := range c.Tools {
		if _, ok := t.(wrapper); !ok {
			made, err := Tool(k, t)
			if err != nil {
				return refused(fmt.Errorf("tool %d: %w", i, err))
			}
			t = made
		}
		g := t.(wrapper).unwrap()
		if g.kernel != k {
			return refused(fmt.Errorf("eino: tool %d: another kernel judges it", i))
		}
		if m.own[g.name] != nil {
			return refused(fmt.Errorf("eino: tool %d: another has its name, and only one of them could be called", i))
		}
		tools[i], m.own[g.name] = t, g
	}
	c.Tools = tools
	c.ToolCallMiddlewares = append(slices.Clone(c.ToolCallMiddlewares), m.endpoints())
	c.UnknownToolsHandler = UnknownTool(k)
	return c, nil
}

type middleware struct {
	kernel *helm.Kernel
	own    map[string]*governed // tools that it knows to be there
}

// A pass is for a wrapped tool, whose call the middleware has had judged already. It is used once.
type pass struct {
	kernel         *helm.Kernel
	own            *governed // the tool that it is for; nil: any of that name, with these arguments
	name, args, id string
	taker          atomic.Pointer[governed]
}

type passKey struct{}

// isFor reports whether the pass is for this call, and uses it up.
func (p *pass) isFor(g *governed, args, id string) bool {
	fits := p.own == g
	if p.own == nil {
		fits = p.kernel == g.kernel && p.name == g.name && p.args == args
	}
	return fits && p.id == id && p.taker.CompareAndSwap(nil, g)
}

var errReplaced = errors.New("eino: the tool was not called, or another one was in its place")

// judged returns a call that is judged by what the endpoint of a tool is told. If a tool of that
// name is known, its definition is that of the call, and no other may take its place.
func (m *middleware) judged(
	ctx context.Context, in *compose.ToolInput, run func(context.Context, *compose.ToolInput) (executor.Result, error),
) *call {
	c, own := &call{kernel: m.kernel, name: in.Name}, m.own[in.Name]
	if own != nil {
		c.definition = func() contracts.Digest { return own.definition(ctx) }
	}
	c.run = func(ctx context.Context, args string) (executor.Result, error) {
		p := &pass{kernel: m.kernel, own: own, name: in.Name, args: args, id: compose.GetToolCallID(ctx)}
		next := *in
		next.Arguments = args
		result, err := run(context.WithValue(ctx, passKey{}, p), &next)
		if err == nil && own != nil && p.taker.Load() != own {
			return executor.Result{}, errReplaced
		}
		return result, err
	}
	return c
}

func (m *middleware) endpoints() compose.ToolMiddleware {
	return compose.ToolMiddleware{
		Invokable: m.invokable, Streamable: m.streamable,
		EnhancedInvokable: m.enhancedInvokable, EnhancedStreamable: m.enhancedStreamable,
	}
}

func (m *middleware) invokable(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
	return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
		c := m.judged(ctx, in, func(ctx context.Context, in *compose.ToolInput) (executor.Result, error) {
			out, err := next(ctx, in)
			if err == nil && out == nil {
				return executor.Result{}, errNoResult
			}
			if err != nil {
				return executor.Result{}, err
			}
			return textResult(out.Result, nil)
		})
		text, err := c.text(ctx, in.Arguments)
		if err != nil {
			return nil, err
		}
		return &compose.ToolOutput{Result: text}, nil
	}
}

func (m *middleware) streamable(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
	return func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
		c := m.judged(ctx, in, func(ctx context.Context, in *compose.ToolInput) (executor.Result, error) {
			return drainText(ctx, func() (*schema.StreamReader[string], error) {
				out, err := next(ctx, in)
				if err != nil || out == nil {
					return nil, err
				}
				return out.Result, nil
			})
		})
		stream, err := onePiece(c.text(ctx, in.Arguments))
		if err != nil {
			return nil, err
		}
		return &compose.StreamToolOutput{Result: stream}, nil
	}
}

func (m *middleware) enhancedInvokable(
	next compose.EnhancedInvokableToolEndpoint,
) compose.EnhancedInvokableToolEndpoint {
	return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
		c := m.judged(ctx, in, func(ctx context.Context, in *compose.ToolInput) (executor.Result, error) {
			out, err := next(ctx, in)
			if err == nil && out == nil {
				return executor.Result{}, errNoResult
			}
			if err != nil {
				return executor.Result{}, err
			}
			return partsResult(out.Result, nil)
		})
		result, err := c.parts(ctx, in.Arguments)
		if err != nil {
			return nil, err
		}
		return &compose.EnhancedInvokableToolOutput{Result: result}, nil
	}
}

func (m *middleware) enhancedStreamable(
	next compose.EnhancedStreamableToolEndpoint,
) compose.EnhancedStreamableToolEndpoint {
	return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
		c := m.judged(ctx, in, func(ctx context.Context, in *compose.ToolInput) (executor.Result, error) {
			return drainParts(ctx, func() (*schema.StreamReader[*schema.ToolResult], error) {
				out, err := next(ctx, in)
				if err != nil || out == nil {
					return nil, err
				}
				return out.Result, nil
			})
		})
		stream, err := onePiece(c.parts(ctx, in.Arguments))
		if err != nil {
			return nil, err
		}
		return &compose.EnhancedStreamableToolOutput{Result: stream}, nil
	}
}
