package eino

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/adapt"
	"github.com/helmkernel/helm/internal/contain"
)

// Tool returns a tool of the same kinds as t, whose every call is judged by k. The kinds are
// InvokableTool, StreamableTool or both, and EnhancedInvokableTool, EnhancedStreamableTool or both.
//
// It returns an error if k or t is nil, if t is of none of these kinds or of a plain and an
// enhanced one, if it was wrapped before, or if it has no name, or one that no policy can declare.
// It calls t.Info once, with a context of no host.
func Tool(k *helm.Kernel, t tool.BaseTool) (tool.BaseTool, error) {
	g, err := govern(k, t)
	if err != nil {
		return nil, err
	}
	return g.wrapped()
}

// A governed tool is what its wrappers of all kinds have in common.
type governed struct {
	kernel *helm.Kernel
	inner  tool.BaseTool
	name   string
}

func govern(k *helm.Kernel, t tool.BaseTool) (*governed, error) {
	if k == nil {
		return nil, errors.New("eino: there is no kernel")
	}
	if t == nil {
		return nil, errors.New("eino: there is no tool")
	}
	if _, ok := t.(wrapper); ok {
		return nil, errors.New("eino: the tool is wrapped already")
	}
	info, err := infoOf(context.Background(), t)
	if err != nil {
		return nil, fmt.Errorf("eino: the tool has no information: %w", err)
	}
	if !contracts.IsTool(info.Name) {
		return nil, errors.New("eino: the tool's name cannot be in a policy: want 1 to 128 letters, digits and ._:@/-")
	}
	return &governed{k, t, info.Name}, nil
}

var errNoInfo = errors.New("the tool returned none")

// infoOf returns the information of a tool, which may panic.
func infoOf(ctx context.Context, t tool.BaseTool) (info *schema.ToolInfo, err error) {
	defer contain.Error(&err, "the tool's Info")
	if info, err = t.Info(ctx); err == nil && info == nil {
		err = errNoInfo
	}
	return info, err
}

// wrapped returns the wrapper of the tool's kinds.
func (g *governed) wrapped() (tool.BaseTool, error) {
	i, isInvokable := g.inner.(tool.InvokableTool)
	s, isStreamable := g.inner.(tool.StreamableTool)
	ei, isEnhanced := g.inner.(tool.EnhancedInvokableTool)
	es, isEnhancedStream := g.inner.(tool.EnhancedStreamableTool)
	plain, enhanced := isInvokable || isStreamable, isEnhanced || isEnhancedStream
	switch {
	case plain && enhanced:
		return nil, errors.New("eino: the tool is a plain and an enhanced one: which of them runs depends on the agent")
	case isInvokable && isStreamable:
		return &both{g, invokable{g, i}, streamable{g, s}}, nil
	case isInvokable:
		return &invoked{g, invokable{g, i}}, nil
	case isStreamable:
		return &streamed{g, streamable{g, s}}, nil
	case isEnhanced && isEnhancedStream:
		return &enhancedBoth{g, enhancedInvokable{g, ei}, enhancedStreamable{g, es}}, nil
	case isEnhanced:
		return &enhancedInvoked{g, enhancedInvokable{g, ei}}, nil
	case isEnhancedStream:
		return &enhancedStreamed{g, enhancedStreamable{g, es}}, nil
	}
	return nil, errors.New("eino: the tool cannot run: it is neither invokable nor streamable")
}

// The wrappers have no method of a kind that the tool is not of, since the framework looks for it.
type (
	invoked struct {
		*governed
		invokable
	}
	streamed struct {
		*governed
		streamable
	}
	both struct {
		*governed
		invokable
		streamable
	}
	enhancedInvoked struct {
		*governed
		enhancedInvokable
	}
	enhancedStreamed struct {
		*governed
		enhancedStreamable
	}
	enhancedBoth struct {
		*governed
		enhancedInvokable
		enhancedStreamable
	}
)

// A wrapper is a tool that Tool returned.
type wrapper interface{ unwrap() *governed }

func (g *governed) unwrap() *governed { return g }

// Info returns the tool's own information, or an error if the tool has another name now.
func (g *governed) Info(ctx context.Context) (*schema.ToolInfo, error) {
	info, err := infoOf(ctx, g.inner)
	if err == nil && info.Name != g.name {
		return nil, fmt.Errorf("eino: %s has another name now: wrap it again", g.name)
	}
	return info, err
}

// GetType returns the tool's own type, for callbacks.
func (g *governed) GetType() string {
	if name, ok := components.GetType(g.inner); ok {
		return name
	}
	return reflect.Indirect(reflect.ValueOf(g.inner)).Type().Name()
}

// IsCallbacksEnabled reports whether the tool calls callbacks itself, when it runs.
func (g *governed) IsCallbacksEnabled() bool { return components.IsCallbacksEnabled(g.inner) }

// definition returns the digest of what the tool publishes now, or none if it has another name now.
func (g *governed) definition(ctx context.Context) contracts.Digest {
	info, err := g.Info(ctx)
	if err != nil {
		return contracts.Digest{}
	}
	_, d, err := published(info)
	if err != nil {
		return contracts.Digest{}
	}
	return d
}

// call returns a call of the tool that is to be judged, or nil and the judged arguments if the
// middleware has had this very call judged.
func (g *governed) call(ctx context.Context, args string, run runner) (c *call, judged string) {
	if p, ok := ctx.Value(passKey{}).(*pass); ok && p.isFor(g, args, compose.GetToolCallID(ctx)) {
		return nil, p.args
	}
	return &call{kernel: g.kernel, name: g.name, run: run,
		definition: func() contracts.Digest { return g.definition(ctx) }}, args
}

// List returns tools as an MCP server would list them, {"tools": [{"name": …}, …]}, from what
// BaseTool.Info returns. It is what helm policy new makes a draft of; the framework's own tools,
// such as adk.ToolInfoExit, need entries in a policy too.
func List(infos ...*schema.ToolInfo) ([]byte, error) {
	list := []byte(`{"tools":[`)
	for i, info := range infos {
		if info == nil {
			return nil, fmt.Errorf("eino: tool %d has no information", i)
		}
		entry, _, err := published(info)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, entry...)
	}
	return append(list, "]}"...), nil
}

func published(info *schema.ToolInfo) (entry []byte, d contracts.Digest, err error) {
	defer contain.Error(&err, "eino: the schema of a tool")
	s, err := info.ToJSONSchema()
	if err != nil {
		return nil, d, errors.New("eino: the schema of a tool is no JSON Schema")
	}
	return adapt.Published(info.Name, info.Desc, s)
}
