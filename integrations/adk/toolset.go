package adk

import (
	"errors"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"

	"github.com/helmkernel/helm"
)

// Toolset returns ts, with each of its tools guarded by k as [Tool] guards it, whenever ADK asks
// for them: tools that ts has later are guarded too, and so are those that ts adds to a request by
// itself. If one cannot be guarded ADK gets an error instead of the list, and the run ends.
//
// Toolset returns an error if k or ts is nil, or ts is guarded already.
func Toolset(k *helm.Kernel, ts tool.Toolset) (tool.Toolset, error) {
	switch {
	case k == nil:
		return nil, errors.New("adk: no kernel")
	case ts == nil:
		return nil, errors.New("adk: no toolset")
	}
	switch ts.(type) {
	case *toolset, *processingToolset:
		return nil, errors.New("adk: the toolset is guarded already")
	}
	t := toolset{k, ts}
	if p, ok := ts.(processor); ok {
		return &processingToolset{t, p}, nil
	}
	return &t, nil
}

type toolset struct {
	kernel *helm.Kernel
	inner  tool.Toolset
}

// Name returns the toolset's own.
func (t *toolset) Name() string { return t.inner.Name() }

// Tools returns the tools of now, guarded.
func (t *toolset) Tools(ctx agent.ReadonlyContext) ([]tool.Tool, error) {
	tools, err := t.inner.Tools(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]tool.Tool, len(tools))
	for i, own := range tools {
		if g, ok := own.(*guarded); ok {
			all[i] = g
			continue
		}
		if all[i], err = Tool(t.kernel, own); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A processingToolset is one that changes the request to the model, too.
type processingToolset struct {
	toolset
	processor processor
}

// ProcessRequest has the toolset change the request.
func (t *processingToolset) ProcessRequest(ctx agent.Context, req *model.LLMRequest) error {
	return process(t.kernel, t.processor, ctx, req, nil)
}
