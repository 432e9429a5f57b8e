// Package script has a model that plays a script, for the example and the tests. Nothing of it is
// for other programs.
package script

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
)

// A Model proposes the calls of its script, an element for each answer, and then says a text. It
// keeps what it was shown.
type Model struct {
	mu    sync.Mutex
	steps [][]schema.ToolCall
	text  string
	shown []*schema.Message
	tools []*schema.ToolInfo
	args  map[string]string
}

// New returns a model with a script.
func New(text string, steps ...[]schema.ToolCall) *Model {
	return &Model{text: text, steps: steps, args: map[string]string{}}
}

// Call returns a call for a script.
func Call(id, tool, args string) schema.ToolCall {
	return schema.ToolCall{ID: id, Type: "function", Function: schema.FunctionCall{Name: tool, Arguments: args}}
}

// Calls returns the calls of one answer: pairs of a tool and its arguments.
func Calls(pairs ...string) (list []schema.ToolCall) {
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, Call(fmt.Sprintf("%s-%d", pairs[i], i/2), pairs[i], pairs[i+1]))
	}
	return list
}

// Shown returns the results of tools that the model was shown, each once.
func (m *Model) Shown() []*schema.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shown)
}

// Tools returns what the model was told of tools, last.
func (m *Model) Tools() []*schema.ToolInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tools
}

// WithTools keeps what the model is told of tools.
func (m *Model) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tools = tools
	return m, nil
}

// Generate returns the next answer of the script. The results that it is shown are those after the
// model's last answer.
func (m *Model) Generate(_ context.Context, in []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := 0
	for i, message := range in {
		if message.Role == schema.Assistant {
			last = i
		}
	}
	for _, message := range in[last:] {
		if message.Role == schema.Tool {
			m.shown = append(m.shown, message)
		}
	}
	if len(m.steps) == 0 {
		return schema.AssistantMessage(m.text, nil), nil
	}
	calls := m.steps[0]
	m.steps = m.steps[1:]
	for _, c := range calls {
		m.args[c.ID] = c.Function.Arguments
	}
	return schema.AssistantMessage("", calls), nil
}

// Stream returns the next answer of the script in one piece.
func (m *Model) Stream(ctx context.Context, in []*schema.Message, options ...model.Option) (
	*schema.StreamReader[*schema.Message], error,
) {
	answer, err := m.Generate(ctx, in, options...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{answer}), nil
}

// Say sets what the model says after its script.
func (m *Model) Say(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = text
}

// Call returns the arguments of a call that the model has proposed.
func (m *Model) Call(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.args[id]
}
