package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"google.golang.org/adk/v2/model"
	"google.golang.org/genai"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// scripted is a model that answers from a script.
type scripted struct{ script *office.Script }

func (m scripted) Name() string { return "script" }

func (m scripted) GenerateContent(_ context.Context, r *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		content, err := m.answer(r)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(&model.LLMResponse{Content: content, TurnComplete: true}, nil)
	}
}

func (m scripted) answer(r *model.LLMRequest) (*genai.Content, error) {
	if len(r.Tools) != 2 || r.Config.Tools[0].FunctionDeclarations[0].Description == "" {
		return nil, errors.New("the model gets no tools")
	}
	told := ""
	if last := r.Contents[len(r.Contents)-1].Parts[0].FunctionResponse; last != nil {
		for _, key := range []string{"output", "error"} {
			if text, ok := last.Response[key].(string); ok {
				told = text
			}
		}
	}
	call, ok, err := m.script.Next(told)
	if err != nil {
		return nil, err
	}
	if !ok {
		return genai.NewContentFromText("Done.", genai.RoleModel), nil
	}
	var args map[string]any
	err = json.Unmarshal([]byte(call.Args), &args)
	return genai.NewContentFromFunctionCall(call.Tool, args, genai.RoleModel), err
}
