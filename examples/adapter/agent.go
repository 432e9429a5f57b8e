// Package adapter is an agent framework of one page with its adapter, to begin one from. The agent
// knows nothing of HELM: [Guarded] and [Unknown] put its tools under guard.
package adapter

import "context"

// A Tool is a tool of the framework: a function from the model's arguments to what the model reads.
type Tool struct {
	Name string
	Call func(ctx context.Context, args []byte) (string, error)
}

// A Call is a call that the model proposes.
type Call struct {
	ID   string
	Tool string
	Args []byte
}

// A Result is what the model reads of a call.
type Result struct {
	Call string
	Text string
}

// A Model proposes calls, or has an answer if it proposes none.
type Model func(results []Result) (calls []Call, answer string)

// An Agent is the framework's loop. It is not safe for concurrent use.
type Agent struct {
	model   Model
	unknown func(name string) Tool
	tools   map[string]Tool
}

// New returns an agent with these tools. unknown returns what is called in place of a tool that the
// agent does not have.
func New(model Model, unknown func(name string) Tool, tools ...Tool) *Agent {
	a := &Agent{model: model, unknown: unknown, tools: map[string]Tool{}}
	for _, t := range tools {
		a.tools[t.Name] = t
	}
	return a
}

// Run makes the calls that the model proposes until it has an answer. An error of a tool ends it.
func (a *Agent) Run(ctx context.Context) (answer string, err error) {
	var results []Result
	for {
		calls, answer := a.model(results)
		if len(calls) == 0 {
			return answer, nil
		}
		results = nil
		for _, c := range calls {
			t, ok := a.tools[c.Tool]
			if !ok {
				t = a.unknown(c.Tool)
			}
			text, err := t.Call(ctx, c.Args)
			if err != nil {
				return "", err
			}
			results = append(results, Result{Call: c.ID, Text: text})
		}
	}
}
