package adk_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/loopagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/exitlooptool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/geminitool"
	"google.golang.org/adk/v2/tool/loadmemorytool"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/integrations/adk"
	"github.com/helmkernel/helm/integrations/adk/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

func exitLoop(t *testing.T) tool.Tool {
	t.Helper()
	x, err := exitlooptool.New()
	require.NoError(t, err)
	return x
}

// The policy that is drafted of the list pins definitions that the guarded tools have.
func TestDeclared(t *testing.T) {
	t.Parallel()
	type find struct {
		Number string `json:"number"`
		Page   int    `json:"page,omitempty"`
	}
	finds := func(description string) tool.Tool {
		x, err := functiontool.New(functiontool.Config{Name: "find", Description: description},
			func(agent.Context, find) (string, error) { return "found", nil })
		require.NoError(t, err)
		return x
	}
	helper, err := llmagent.New(llmagent.Config{Name: "helper", Description: "Helps.", Model: script.New("Helped."),
		InputSchema: &genai.Schema{Type: genai.TypeObject, Required: []string{"type"}, Properties: map[string]*genai.Schema{
			"type":  {Type: genai.TypeString, Enum: []string{"A", "B"}},
			"many":  {Type: genai.TypeArray, Items: &genai.Schema{Type: genai.TypeInteger, Nullable: genai.Ptr(true)}},
			"other": {AnyOf: []*genai.Schema{{Type: genai.TypeString}, {Type: genai.TypeNumber}}},
		}}})
	require.NoError(t, err)
	tools := []tool.Tool{finds("Finds an invoice."), exitLoop(t), loadmemorytool.New(), agenttool.New(helper, nil)}
	list, err := adk.Declared(tools...)
	require.NoError(t, err)
	again, err := adk.Declared(tools...)
	require.NoError(t, err)
	require.Equal(t, string(list), string(again))
	var entries []map[string]any
	require.NoError(t, json.Unmarshal(list, &entries))
	require.Len(t, entries, 5)
	assert.Equal(t, map[string]any{"type": "object", "required": []any{"type"}, "properties": map[string]any{
		"type":  map[string]any{"type": "string", "enum": []any{"A", "B"}},
		"many":  map[string]any{"type": "array", "items": map[string]any{"type": []any{"integer", "null"}}},
		"other": map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}},
	}}, entries[3]["inputSchema"])
	assert.Equal(t, "transfer_to_agent", entries[4]["name"])

	draft, _, err := policy.New(list, "shop")
	require.NoError(t, err)
	text := strings.Replace(string(draft), "rules: []",
		"rules:\n  - {id: all, allow: [find, exit_loop, load_memory, helper, transfer_to_agent]}", 1)
	text = regexp.MustCompile(`effect: destructive`).ReplaceAllString(text, "effect: write")
	doc, err := policy.Parse("shop.yaml", []byte(text))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	k, err := helm.New(helm.Options{Policy: p, Key: key(t, 1), Store: proofgraph.NewMemory()})
	require.NoError(t, err)
	defer k.Close()

	run := func(tools []tool.Tool, subs []agent.Agent, calls ...script.Call) *chat {
		var all []tool.Tool
		for _, one := range tools {
			g, err := adk.Tool(k, one)
			require.NoError(t, err)
			all = append(all, g)
		}
		guard, err := adk.Plugin(k)
		require.NoError(t, err)
		x := newChat(t, llmagent.Config{Tools: all, SubAgents: subs}, []*plugin.Plugin{guard}, calls...)
		x.say(hello())
		return x
	}
	told := run(tools, nil, script.Call{Tool: "find", Args: `{"number":"4711","page":2}`},
		script.Call{Tool: "helper", Args: `{"type":"A","many":[1,2]}`}).told()
	assert.Equal(t, []map[string]any{{"result": "found"}, {"result": "Helped."}}, told)
	told = run([]tool.Tool{finds("Finds anything.")}, nil, script.Call{Tool: "find", Args: `{"number":"4711"}`}).told()
	assert.Contains(t, told[0]["error"], "find was denied: DRIVER_NOT_BOUND")
	x := run(nil, []agent.Agent{helper}, script.Call{Tool: "transfer_to_agent", Args: `{"agent_name":"helper"}`})
	assert.Equal(t, "helper", x.events[len(x.events)-1].Author)

	for want, list := range map[string][]tool.Tool{
		"twice in the list":      {finds("a"), finds("b")},
		"not declared to models": {geminitool.New("search", "", &genai.Tool{GoogleSearch: &genai.GoogleSearch{}})},
		"no tool":                {nil},
	} {
		_, err := adk.Declared(list...)
		require.ErrorContains(t, err, want)
	}
}

// exit_loop ends a loop if the call was allowed, and not else.
func TestExitLoop(t *testing.T) {
	t.Parallel()
	for args, rounds := range map[string]int{`{}`: 1, `{"now":true}`: 3} {
		w := newWorld(t)
		step := script.Step{{Tool: "exit_loop", Args: args}}
		m := script.New("Done.", step, step, step)
		clerk, err := llmagent.New(llmagent.Config{Name: "clerk", Model: m, Tools: w.guard(exitLoop(t))})
		require.NoError(t, err)
		loop, err := loopagent.New(loopagent.Config{MaxIterations: 3,
			AgentConfig: agent.Config{Name: "loop", SubAgents: []agent.Agent{clerk}}})
		require.NoError(t, err)
		newRun(t, loop, m, []*plugin.Plugin{w.plugin()}).say(hello())
		assert.Len(t, w.seen(), rounds, args)
	}
}

// Sub-agents that run as tools in one turn are guarded by the plugin.
func TestSingleTurn(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		`{"request":"a"}`: {"vault NO_POLICY_DEFINED", "helper ALLOW"},
		`{"request":1}`:   {"helper SCHEMA_VIOLATION"},
	} {
		w := newWorld(t)
		m := script.New("Done.", script.Step{{Tool: "helper", Args: args}})
		helper := sub(t, []tool.Tool{w.guard(w.plain("vault"))[0]},
			llmagent.Config{Name: "helper", Mode: llmagent.ModeSingleTurn})
		clerk, err := llmagent.New(llmagent.Config{Name: "clerk", Model: m, SubAgents: []agent.Agent{helper}})
		require.NoError(t, err)
		newRun(t, clerk, m, []*plugin.Plugin{w.plugin()}).say(hello())
		assert.Equal(t, want, w.seen())
		assert.Empty(t, w.effects())
	}
}
