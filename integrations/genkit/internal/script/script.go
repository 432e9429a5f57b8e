// Package script is a model of Genkit that plays a script.
package script

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
)

// A Call is one that the model makes. Its arguments are decoded as plugins of models decode them:
// what is no JSON is passed on as text.
type Call struct{ Ref, Tool, Args string }

// A Told is the result of a call, as the model was shown it.
type Told struct {
	Ref, Tool string
	Output    any
	Content   []*ai.Part
}

// A Model makes the calls of its steps, and then says that it is done.
type Model struct {
	Steps [][]Call
	Last  string // what it says in the end

	mu      sync.Mutex
	next    int
	told    map[string]Told
	order   []string
	offered []string
}

// Define makes the model known to g, under the name script.
func (m *Model) Define(g *genkit.Genkit) ai.Model {
	supports := &ai.ModelSupports{Tools: true, Multiturn: true, SystemRole: true}
	return genkit.DefineModel(g, "script", &ai.ModelOptions{Supports: supports}, m.generate)
}

// Told returns what the model was told of its calls, in the order in which it was told.
func (m *Model) Told() (all []Told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ref := range m.order {
		all = append(all, m.told[ref])
	}
	return all
}

// Offered returns the names of the tools that the model was offered last.
func (m *Model) Offered() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offered
}

func (m *Model) generate(_ context.Context, r *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offered = nil
	for _, t := range r.Tools {
		m.offered = append(m.offered, t.Name)
	}
	if m.told == nil {
		m.told = map[string]Told{}
	}
	for _, message := range r.Messages {
		for _, p := range message.Content {
			if !p.IsToolResponse() {
				continue
			}
			t := p.ToolResponse
			if _, known := m.told[t.Ref]; !known {
				m.order = append(m.order, t.Ref)
			}
			m.told[t.Ref] = Told{t.Ref, t.Name, t.Output, t.Content}
		}
	}
	answer := &ai.ModelResponse{Request: r, Message: ai.NewModelTextMessage(m.Last)}
	if m.next == len(m.Steps) {
		return answer, nil
	}
	step := m.Steps[m.next]
	m.next++
	var parts []*ai.Part
	for i, c := range step {
		var args any
		if c.Args != "" && json.Unmarshal([]byte(c.Args), &args) != nil {
			args = c.Args
		}
		ref := c.Ref
		if ref == "" {
			ref = strconv.Itoa(m.next) + "." + strconv.Itoa(i)
		}
		parts = append(parts, ai.NewToolRequestPart(&ai.ToolRequest{Name: c.Tool, Input: args, Ref: ref}))
	}
	answer.Message = ai.NewModelMessage(parts...)
	return answer, nil
}
