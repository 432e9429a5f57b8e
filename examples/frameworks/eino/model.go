package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// scripted is a model that answers from a script.
type scripted struct {
	script *office.Script
	tools  []*schema.ToolInfo
}

func (m scripted) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	m.tools = tools
	return m, nil
}

func (m scripted) Generate(_ context.Context, in []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	if len(m.tools) != 2 || m.tools[0].Desc == "" {
		return nil, errors.New("the model gets no tools")
	}
	call, ok, err := m.script.Next(in[len(in)-1].Content)
	if err != nil {
		return nil, err
	}
	if !ok {
		return schema.AssistantMessage("Done.", nil), nil
	}
	return schema.AssistantMessage("", []schema.ToolCall{{ID: "call_" + strconv.Itoa(len(in)), Type: "function",
		Function: schema.FunctionCall{Name: call.Tool, Arguments: call.Args}}}), nil
}

func (m scripted) Stream(ctx context.Context, in []*schema.Message, options ...model.Option) (
	*schema.StreamReader[*schema.Message], error) {
	message, err := m.Generate(ctx, in, options...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{message}), nil
}
