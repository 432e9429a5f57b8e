// Package script is a model of langchaingo that plays a script.
package script

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/tmc/langchaingo/llms"
)

// A Call is one that the model makes.
type Call struct{ Tool, Input string }

// A Model makes the calls of its steps, and then says that it is done. A model that writes text has
// one call in a step, as agents of langchaingo read no more of a text.
type Model struct {
	Steps [][]Call
	Text  bool   // writes its calls as text, for OneShotZeroAgent
	Last  string // what it says in the end; "done" if it is empty

	mu   sync.Mutex
	next int
	told []string
}

var _ llms.Model = (*Model)(nil)

// Told returns what the model was told of its calls, in their order.
func (m *Model) Told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.told...)
}

// GenerateContent plays the next step.
func (m *Model) GenerateContent(
	_ context.Context, prompt []llms.MessageContent, _ ...llms.CallOption,
) (*llms.ContentResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next > 0 {
		m.told = append(m.told, results(prompt, m.next)...)
	}
	if m.next == len(m.Steps) {
		say := cmp.Or(m.Last, "done")
		if m.Text {
			say = "Final Answer: " + say
		}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: say}}}, nil
	}
	step := m.Steps[m.next]
	m.next++
	choice := &llms.ContentChoice{}
	for i, c := range step {
		if m.Text {
			choice.Content += "Action: " + c.Tool + "\nAction Input: " + c.Input
			continue
		}
		choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{ID: strconv.Itoa(m.next) + "." + strconv.Itoa(i),
			Type: "function", FunctionCall: &llms.FunctionCall{Name: c.Tool, Arguments: c.Input}})
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

// Call is for models that answer a text alone.
func (m *Model) Call(ctx context.Context, prompt string, o ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, o...)
}

// results returns the results of a step in a prompt.
func results(prompt []llms.MessageContent, step int) (told []string) {
	for _, message := range prompt {
		for _, part := range message.Parts {
			switch p := part.(type) {
			case llms.ToolCallResponse:
				if strings.HasPrefix(p.ToolCallID, strconv.Itoa(step)+".") {
					told = append(told, p.Content)
				}
			case llms.TextContent:
				if _, after, ok := cutLast(p.Text, "\nObservation: "); ok {
					told = []string{strings.TrimSuffix(after, "\n")}
				}
			}
		}
	}
	return told
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Text returns a text as OpenAIFunctionsAgent has its models write it.
func Text(s string) string {
	b, err := json.Marshal(map[string]string{"__arg1": s})
	if err != nil {
		panic(err) // a map of strings
	}
	return string(b)
}
