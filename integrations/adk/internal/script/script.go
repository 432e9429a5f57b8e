// Package script is a model for ADK that follows a script, for programs and tests without network:
//
//	m := script.New("Done.", script.Step{{Tool: "invoice_find", Args: `{"number":"4711"}`}})
//
// Each request is answered with the calls of the next step, and after the last one with a text. The
// arguments of a call are decoded as the client of Gemini decodes them, so of a duplicate key the
// last is left, and numbers are doubles.
package script

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"

	"google.golang.org/adk/v2/model"
	"google.golang.org/genai"
)

// A Call is a call that the model makes.
type Call struct {
	ID   string // "" is chosen by ADK
	Tool string
	Args string // a JSON object; "" is {}
}

// A Step is the calls of one answer.
type Step []Call

// A Told is a result that the model was shown.
type Told struct {
	ID, Tool string
	Result   map[string]any
}

// A Model follows a script. It is safe for concurrent use by multiple goroutines.
type Model struct {
	text string

	mu    sync.Mutex // protects what follows
	steps []Step
	told  []Told
	tools []string
}

var _ model.LLM = (*Model)(nil)

// New returns a model that makes the calls of the steps, and then answers with a text.
func New(text string, steps ...Step) *Model { return &Model{text: text, steps: steps} }

// Name returns the name of the model.
func (m *Model) Name() string { return "script" }

// Told returns the results that the model was shown, in order. If the result of a call was replaced
// by another one, both are there.
func (m *Model) Told() []Told {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told)
}

// Tools returns the names of the functions that the last request offered.
func (m *Model) Tools() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.tools)
}

// GenerateContent returns the next answer. Arguments that are no JSON object are an error, as they
// are for a client.
func (m *Model) GenerateContent(
	_ context.Context, r *model.LLMRequest, _ bool,
) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		content, err := m.next(r)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(&model.LLMResponse{Content: content, TurnComplete: true}, nil)
	}
}

func (m *Model) next(r *model.LLMRequest) (*genai.Content, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(r)
	if len(m.steps) == 0 {
		return genai.NewContentFromText(m.text, genai.RoleModel), nil
	}
	content := &genai.Content{Role: genai.RoleModel}
	step := m.steps[0]
	m.steps = m.steps[1:]
	for _, c := range step {
		args := map[string]any{}
		if c.Args != "" {
			if err := json.Unmarshal([]byte(c.Args), &args); err != nil {
				return nil, fmt.Errorf("script: the arguments of a call of %s are no JSON object", c.Tool)
			}
		}
		call := &genai.FunctionCall{ID: c.ID, Name: c.Tool, Args: args}
		content.Parts = append(content.Parts, &genai.Part{FunctionCall: call})
	}
	return content, nil
}

// note records what a request shows.
func (m *Model) note(r *model.LLMRequest) {
	m.tools = nil
	if r.Config != nil {
		for _, t := range r.Config.Tools {
			for _, f := range t.FunctionDeclarations {
				m.tools = append(m.tools, f.Name)
			}
		}
	}
	for _, c := range r.Contents {
		for _, part := range c.Parts {
			if f := part.FunctionResponse; f != nil {
				t := Told{f.ID, f.Name, f.Response}
				if !slices.ContainsFunc(m.told, func(o Told) bool { return reflect.DeepEqual(o, t) }) {
					m.told = append(m.told, t)
				}
			}
		}
	}
}
