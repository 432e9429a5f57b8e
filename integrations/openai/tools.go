package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/adapt"
)

// A Tool is what a model may call and what then runs. [Function] and [Custom] make one.
type Tool struct {
	name, description string
	custom            bool
	offer             func() ([]byte, error) // as the API of chat completions has it
	schema            any
	driver            helm.Driver
}

// Function returns a tool whose arguments are a JSON object. Its driver gets the bytes that were
// judged, defaults of the policy filled in.
func Function(definition shared.FunctionDefinitionParam, d helm.Driver) Tool {
	t := Tool{name: definition.Name, description: definition.Description.Value, driver: d,
		offer: definition.MarshalJSON}
	if definition.Parameters != nil {
		t.schema = definition.Parameters
	}
	return t
}

// Custom returns a tool whose input is a text. The text that it returns is the output.
func Custom(
	definition openai.ChatCompletionCustomToolCustomParam, run func(ctx context.Context, input string) (string, error),
) Tool {
	t := Tool{name: definition.Name, description: definition.Description.Value, custom: true,
		offer: definition.MarshalJSON, schema: json.RawMessage(inputSchema)}
	if run != nil {
		t.driver = input(run)
	}
	return t
}

const inputSchema = `{"type":"object","required":["input"],"properties":{"input":{"type":"string"}},` +
	`"additionalProperties":false}`

// input is the function of a custom tool as a driver.
type input func(ctx context.Context, input string) (string, error)

func (f input) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	return helm.Text(func(ctx context.Context, args json.RawMessage) (string, error) {
		var members map[string]any
		if err := json.Unmarshal(args, &members); err != nil {
			return "", errors.New("the arguments are no object")
		}
		text, ok := members["input"].(string)
		if !ok {
			return "", errors.New("the arguments have no input")
		}
		return f(ctx, text)
	}).Run(ctx, c)
}

// defined is a driver with the definition under which its tool is offered.
type defined struct {
	helm.Driver
	definition contracts.Digest
}

func (d defined) Definition() contracts.Digest { return d.definition }

// Tools is a set of tools that is offered to a model, and that [Run] and [RunResponse] run. It does
// not change: a definition that the host changes afterwards is offered as it was. It is safe for
// concurrent use. A nil *Tools has no tool.
type Tools struct {
	tools  []offered
	byName map[string]int
	atOnce int
	ask    func(helm.Decision)
}

// offered is a tool with what is said of it.
type offered struct {
	custom          bool
	chat, responses json.RawMessage
	entry           json.RawMessage // its published form
	driver          helm.Driver
}

// NewTools returns a set of tools. It returns an error for a tool without a driver, a name that no
// tool can have or that another one has, a definition that is no strict JSON, and a sandboxed
// driver, which must be the kernel's own: put it into [helm.Options].Drivers, and offer the tool
// without this package.
func NewTools(tools ...Tool) (*Tools, error) {
	s := &Tools{byName: make(map[string]int, len(tools))}
	for _, t := range tools {
		if !contracts.IsTool(t.name) {
			return nil, fmt.Errorf("openai: %q is no name of a tool", t.name)
		}
		if _, twice := s.byName[t.name]; twice {
			return nil, fmt.Errorf("openai: %s: two tools have this name", t.name)
		}
		o, err := t.offered()
		if err != nil {
			return nil, fmt.Errorf("openai: %s: %w", t.name, err)
		}
		s.byName[t.name] = len(s.tools)
		s.tools = append(s.tools, o)
	}
	return s, nil
}

// offered encodes a tool for both APIs.
func (t Tool) offered() (offered, error) {
	o := offered{custom: t.custom, driver: t.driver}
	switch d := t.driver.(type) {
	case nil:
		return o, errors.New("it has no driver")
	case helm.Func:
		if d == nil {
			return o, errors.New("it has no driver")
		}
	case helm.Text:
		if d == nil {
			return o, errors.New("it has no driver")
		}
	case executor.Sandboxed:
		return o, errors.New("its driver is sandboxed: put it into helm.Options.Drivers")
	}
	var definition contracts.Digest
	var err error
	if o.entry, definition, err = adapt.Published(t.name, t.description, t.schema); err != nil {
		return o, err
	}
	if _, has := t.driver.(executor.Defined); !has {
		o.driver = defined{t.driver, definition}
	}
	b, err := t.offer()
	if err != nil {
		return o, errors.New("its definition has no JSON form")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return o, errors.New("its definition is no object")
	}
	if t.custom {
		err = o.asCustom(members)
	} else {
		err = o.asFunction(members, t.schema)
	}
	return o, err
}

// asFunction encodes a function from the members of its definition. The schema is encoded here,
// because the client's encoder makes a string of a json.Number.
func (o *offered) asFunction(m map[string]json.RawMessage, schema any) (err error) {
	if schema != nil {
		if m["parameters"], err = encode(schema); err != nil {
			return err
		}
	}
	if o.chat, err = encode(map[string]any{"type": "function", "function": m}); err != nil {
		return err
	}
	m["type"] = json.RawMessage(`"function"`)
	fill(m, "parameters", `{"type":"object","properties":{}}`)
	fill(m, "strict", "false")
	o.responses, err = encode(m)
	return err
}

// asCustom encodes a custom tool from the members of its definition. In responses the members of a
// grammar stand in the format itself.
func (o *offered) asCustom(m map[string]json.RawMessage) (err error) {
	if o.chat, err = encode(map[string]any{"type": "custom", "custom": m}); err != nil {
		return err
	}
	var format struct {
		Type    string                     `json:"type"`
		Grammar map[string]json.RawMessage `json:"grammar"`
	}
	if m["format"] != nil {
		if err := json.Unmarshal(m["format"], &format); err != nil {
			return errors.New("its format is no object")
		}
	}
	if format.Grammar != nil {
		format.Grammar["type"] = json.RawMessage(`"grammar"`)
		if m["format"], err = encode(format.Grammar); err != nil {
			return err
		}
	}
	m["type"] = json.RawMessage(`"custom"`)
	o.responses, err = encode(m)
	return err
}

func fill(m map[string]json.RawMessage, name, value string) {
	if m[name] == nil {
		m[name] = json.RawMessage(value)
	}
}

// encode is json.Marshal without the escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// Parallel returns the same tools, of which up to n calls of one answer run at the same time. With
// 1, and before this is called, the calls of an answer are judged and run in its order, each after
// the receipt of the one before.
func (s *Tools) Parallel(n int) *Tools {
	if s == nil {
		return nil
	}
	other := *s
	other.atOnce = n
	return &other
}

// Ask returns the same tools, with a function that is called for each call that waits for an
// approver: its decision has the request, Pending, and the arguments that it is about. The function
// is called before [Run] returns, for one call after the other in the order of the answer. A panic
// in it is dropped.
func (s *Tools) Ask(f func(helm.Decision)) *Tools {
	if s == nil {
		return nil
	}
	other := *s
	other.ask = f
	return &other
}

// Chat returns the tools for a request for a chat completion.
func (s *Tools) Chat() []openai.ChatCompletionToolUnionParam {
	if s == nil {
		return nil
	}
	out := make([]openai.ChatCompletionToolUnionParam, len(s.tools))
	for i := range s.tools {
		out[i] = param.Override[openai.ChatCompletionToolUnionParam](json.RawMessage(bytes.Clone(s.tools[i].chat)))
	}
	return out
}

// Responses returns the tools for a request for a response. A function whose definition says
// nothing about strict is not strict, as in chat completions.
func (s *Tools) Responses() []responses.ToolUnionParam {
	if s == nil {
		return nil
	}
	out := make([]responses.ToolUnionParam, len(s.tools))
	for i := range s.tools {
		out[i] = param.Override[responses.ToolUnionParam](json.RawMessage(bytes.Clone(s.tools[i].responses)))
	}
	return out
}

// List returns the published forms of the tools as a JSON array, of which policy.New drafts a
// policy.
func (s *Tools) List() json.RawMessage {
	list := []byte("[")
	if s != nil {
		for i := range s.tools {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, s.tools[i].entry...)
		}
	}
	return append(list, ']')
}
