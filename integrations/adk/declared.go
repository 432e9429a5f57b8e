package adk

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/adapt"
)

// transfer is the tool that ADK adds to agents that can hand over to others. Its published form is
// the one here: in a request it names the agents, which differ from agent to agent.
const transfer = "transfer_to_agent"

var transferSchema = map[string]any{
	"type": "object", "required": []string{"agent_name"},
	"properties": map[string]any{"agent_name": map[string]any{"type": "string"}},
}

// A declarer is a tool that models can call.
type declarer interface {
	tool.Tool
	Declaration() *genai.FunctionDeclaration
}

// Declared returns the published form of tools, to draft a policy from: a JSON array with the name,
// the description and the input schema of each.
//
//	helm policy new --tools TOOLS.json NAME >tools.yaml
//
// The definition of a tool, which the draft pins, is the digest of its element of the array.
//
// The tools are those of agents, guarded or not. Tools that ADK comes with, such as exit_loop and
// load_memory, are declared like any other. Last in the list is transfer_to_agent, which ADK adds
// by itself to agents that can hand over to others; a policy says to which. If a sub-agent has the
// mode single_turn ADK adds a tool of its name: it is published as agenttool.New(subAgent, nil) is.
// Declare set_model_response and finish_task by hand if models call them: their schemas are the
// output schemas of agents.
//
// Declared returns an error if a tool is not declared to models, or a name is twice in the list.
func Declared(tools ...tool.Tool) ([]byte, error) {
	list, seen := []json.RawMessage{}, map[string]bool{transfer: true}
	for _, t := range tools {
		if isNil(t) {
			return nil, errors.New("adk: no tool")
		}
		if seen[t.Name()] {
			return nil, fmt.Errorf("adk: %s is twice in the list", t.Name())
		}
		seen[t.Name()] = true
		entry, _, err := published(t)
		if err != nil {
			return nil, err
		}
		list = append(list, entry)
	}
	entry, _, err := adapt.Published(transfer, "", transferSchema)
	if err != nil {
		return nil, err
	}
	return json.Marshal(append(list, entry))
}

// published returns the published form of a tool, and its digest.
func published(t tool.Tool) (entry json.RawMessage, definition contracts.Digest, err error) {
	if isFrameworks(t) && t.Name() == transfer {
		return adapt.Published(transfer, "", transferSchema)
	}
	d, ok := t.(declarer)
	if !ok || d.Declaration() == nil {
		return nil, contracts.Digest{}, fmt.Errorf("adk: %s is not declared to models", t.Name())
	}
	f := d.Declaration()
	schema := f.ParametersJsonSchema
	if f.Parameters != nil {
		schema = f.Parameters
	}
	if s, ok := schema.(*genai.Schema); ok {
		if schema, err = jsonSchema(s); err != nil {
			return nil, contracts.Digest{}, err
		}
	}
	return adapt.Published(t.Name(), f.Description, schema)
}

// jsonSchema returns a schema of the Gemini API as JSON Schema.
func jsonSchema(s *genai.Schema) (map[string]any, error) {
	if s == nil {
		return map[string]any{"type": "object"}, nil
	}
	flat := *s
	flat.AnyOf, flat.Items, flat.Properties, flat.PropertyOrdering, flat.Nullable = nil, nil, nil, nil, nil
	b, err := json.Marshal(&flat)
	if err != nil {
		return nil, errors.New("adk: a schema has no JSON form")
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	if s.Type != "" {
		m["type"] = strings.ToLower(string(s.Type))
		if s.Nullable != nil && *s.Nullable {
			m["type"] = []any{m["type"], "null"}
		}
	}
	var failed error
	of := func(s *genai.Schema) any {
		x, err := jsonSchema(s)
		failed = errors.Join(failed, err)
		return x
	}
	if s.Items != nil {
		m["items"] = of(s.Items)
	}
	if s.AnyOf != nil {
		list := []any{}
		for _, x := range s.AnyOf {
			list = append(list, of(x))
		}
		m["anyOf"] = list
	}
	if s.Properties != nil {
		properties := map[string]any{}
		for name, x := range s.Properties {
			properties[name] = of(x)
		}
		m["properties"] = properties
	}
	return m, failed
}
