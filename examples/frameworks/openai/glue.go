package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

const turns = 20 // of one conversation at most: a denied model may try again for ever

// converse is the agent: it makes the model's calls until the model is done. Every call goes
// through Guard, whatever tool the model names.
func converse(ctx context.Context, client openai.Client, o *office.Office, who helm.Caller, session, say string) error {
	params := openai.ChatCompletionNewParams{Model: "gpt-5",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(say)}}
	for _, t := range o.Tools() {
		schema, err := office.Schema[shared.FunctionParameters](t)
		if err != nil {
			return err
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: openai.String(office.Description(t)), Parameters: schema}))
	}
	for range turns {
		answer, err := client.Chat.Completions.New(ctx, params)
		if err != nil {
			return err
		}
		if len(answer.Choices) == 0 {
			return errors.New("the model did not answer")
		}
		message := answer.Choices[0].Message
		if len(message.ToolCalls) == 0 {
			return nil
		}
		params.Messages = append(params.Messages, message.ToParam())
		for _, call := range message.ToolCalls {
			d, r := o.Guard(ctx, helm.Intent{Tool: call.Function.Name, Args: json.RawMessage(call.Function.Arguments),
				Caller: who, Session: session})
			text, _ := d.ForModel(r)
			params.Messages = append(params.Messages, openai.ToolMessage(text, call.ID))
		}
	}
	return errors.New("the model did not come to an end")
}
