package main

import (
	"context"
	"errors"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

const turns = 20 // of one conversation at most: a denied model may try again for ever

// converse is the agent: it makes the model's calls until the model is done. Genkit's own loop
// would end with an error at a tool that does not exist, before any hook, and leave no receipt. So
// Genkit returns the calls, and runs none. It has decoded their arguments: a duplicate key is gone
// by then.
func converse(ctx context.Context, g *genkit.Genkit, m ai.Model, o *office.Office, who helm.Caller,
	session, say string) error {
	var tools []ai.ToolRef
	for _, t := range o.Tools() {
		schema, err := office.Schema[map[string]any](t)
		if err != nil {
			return err
		}
		none := func(*ai.ToolContext, any) (any, error) { return nil, errors.New("calls go through the kernel") }
		tools = append(tools, ai.NewTool(t.Name, office.Description(t), none, ai.WithInputSchema(schema)))
	}
	history := []*ai.Message{ai.NewUserTextMessage(say)}
	for range turns {
		answer, err := genkit.Generate(ctx, g, ai.WithModel(m), ai.WithMessages(history...), ai.WithTools(tools...),
			ai.WithReturnToolRequests(true))
		if err != nil {
			return err
		}
		var results []*ai.Part
		for _, part := range answer.ToolRequests() {
			args, err := office.Args(part.ToolRequest.Input)
			if err != nil {
				return err
			}
			d, r := o.Guard(ctx, helm.Intent{Tool: part.ToolRequest.Name, Args: args, Caller: who, Session: session})
			text, _ := d.ForModel(r)
			results = append(results, ai.NewResponseForToolRequest(part, text))
		}
		if len(results) == 0 {
			return nil
		}
		history = append(answer.History(), ai.NewMessage(ai.RoleTool, nil, results...))
	}
	return errors.New("the model did not come to an end")
}
