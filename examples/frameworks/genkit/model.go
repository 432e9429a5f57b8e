package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/firebase/genkit/go/ai"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// scripted returns a model that answers from a script.
func scripted(script *office.Script) ai.ModelFunc {
	return func(_ context.Context, r *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
		if len(r.Tools) != 2 || r.Tools[0].Description == "" {
			return nil, errors.New("the model gets no tools")
		}
		told := ""
		if last := r.Messages[len(r.Messages)-1].Content[0]; last.IsToolResponse() {
			told, _ = last.ToolResponse.Output.(string)
		}
		call, ok, err := script.Next(told)
		if err != nil {
			return nil, err
		}
		answer := &ai.ModelResponse{Request: r, Message: ai.NewModelTextMessage("Done.")}
		if ok {
			var args map[string]any
			if err := json.Unmarshal([]byte(call.Args), &args); err != nil {
				return nil, err
			}
			answer.Message = ai.NewModelMessage(ai.NewToolRequestPart(&ai.ToolRequest{Name: call.Tool, Input: args}))
		}
		return answer, nil
	}
}
