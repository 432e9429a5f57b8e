package eino_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/integrations/eino/internal/script"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/trust/registry"
)

const deskPolicy = `
helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
tools:
  note:
    effect: write
    input: {type: object, required: [text], properties: {text: {type: string}, n: {type: integer, default: 1}}}
  jot:
    effect: read
    input: {type: object, properties: {text: {type: string}}}
  vault:
    effect: write
    input: {type: object, properties: {text: {type: string}}}
  pay:
    effect: write
    input: {type: object, required: [to], properties: {to: {type: string}}}
  clerk:
    effect: write
    input: {type: object, required: [request], properties: {request: {type: string}}}
  brief:
    effect: read
    input: {type: object, properties: {text: {type: string}}}
    limits: {timeout: 1s, output: 1KiB}
rules:
  - {id: vault, deny: vault}
  - {id: much, deny: note, when: {arg: /n, gt: 50}}
  - {id: desk, allow: [note, jot, pay, brief, clerk]}
requires:
  - {id: owner, tools: [pay], all: [{approval: {roles: [owner], ttl: 10m}}]}
`

const owner = 41 // the seed of the key of who approves

func desk(t *testing.T, change ...func(*helm.Options)) *kerneltest.World {
	t.Helper()
	change = append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, deskPolicy)
		o.Drivers = map[string]executor.Driver{}
		var err error
		o.Trust, err = registry.New(0, registry.Key{Name: "owner", Public: kerneltest.Public(t, owner),
			Role: registry.Approver, Roles: []string{"owner"}})
		require.NoError(t, err)
	}}, change...)
	return kerneltest.New(t, change...)
}

// host is the context with which a host runs an agent.
func host(t *testing.T) context.Context {
	return helm.With(t.Context(), helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "chat-1"})
}

// receipts returns the tool and the reason of each receipt, in the order of the log.
func receipts(w *kerneltest.World) (list []string) {
	w.T.Helper()
	w.MustVerify()
	for _, st := range w.Statements() {
		if st.Receipt == nil {
			continue
		}
		name, reason := st.Receipt.Tool, st.Receipt.Reason
		if d := st.Receipt.Decision; d != nil {
			name, reason = d.Tool, d.Reason
		}
		list = append(list, name+" "+string(reason))
	}
	return list
}

// effects counts what tools did, where no kernel sees it.
type effects struct {
	mu   sync.Mutex
	list []string
}

func (e *effects) add(name, args string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, name+args)
}

func (e *effects) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.list...)
}

// A body is what a tool of any kind does.
type body func(ctx context.Context, args string) (chunks []string, err error)

func says(chunks ...string) body {
	return func(context.Context, string) ([]string, error) { return chunks, nil }
}

// An info is the information of a tool.
type info struct{ schema.ToolInfo }

func (i *info) Info(context.Context) (*schema.ToolInfo, error) { return &i.ToolInfo, nil }

// The kinds of tool.
const (
	plain          = "plain"
	streaming      = "streamed"
	plainBoth      = "plain and streamed"
	enhanced       = "enhanced"
	enhancedStream = "enhanced and streamed"
	enhancedBoth   = "enhanced, both"
	anything       = "a plain and an enhanced one"
	nothing        = "none"
)

var kinds = []string{plain, streaming, plainBoth, enhanced, enhancedStream, enhancedBoth}

type (
	runs struct {
		run func(context.Context, string) (string, error)
	}
	streams struct {
		stream func(context.Context, string) (*schema.StreamReader[string], error)
	}
	runsParts struct {
		run func(context.Context, string) (*schema.ToolResult, error)
	}
	streamsParts struct {
		stream func(context.Context, string) (*schema.StreamReader[*schema.ToolResult], error)
	}
)

func (r runs) InvokableRun(ctx context.Context, args string, _ ...tool.Option) (string, error) {
	return r.run(ctx, args)
}

func (s streams) StreamableRun(
	ctx context.Context, args string, _ ...tool.Option,
) (*schema.StreamReader[string], error) {
	return s.stream(ctx, args)
}

func (r runsParts) InvokableRun(
	ctx context.Context, args *schema.ToolArgument, _ ...tool.Option,
) (*schema.ToolResult, error) {
	return r.run(ctx, args.Text)
}

func (s streamsParts) StreamableRun(
	ctx context.Context, args *schema.ToolArgument, _ ...tool.Option,
) (*schema.StreamReader[*schema.ToolResult], error) {
	return s.stream(ctx, args.Text)
}

func parts(text string) *schema.ToolResult {
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: text}}}
}

// stream sends chunks and then an error, if there is one, from a goroutine, as tools do.
func stream[T any](chunks []T, err error) (*schema.StreamReader[T], error) {
	r, w := schema.Pipe[T](1)
	go func() {
		defer w.Close()
		for _, c := range chunks {
			if w.Send(c, nil) {
				return
			}
		}
		if err != nil {
			var none T
			w.Send(none, err)
		}
	}()
	return r, nil
}

// makeTool returns a tool of a kind that counts its effects.
func makeTool(e *effects, kind, name string, b body) tool.BaseTool {
	i := &info{schema.ToolInfo{Name: name, Desc: "The tool " + name + ".",
		ParamsOneOf: schema.NewParamsOneOfByParams(map[string]*schema.ParameterInfo{"text": {Type: schema.String}})}}
	do := func(ctx context.Context, args string) ([]string, error) {
		e.add(name, args)
		return b(ctx, args)
	}
	run := runs{func(ctx context.Context, args string) (string, error) {
		chunks, err := do(ctx, args)
		return strings.Join(chunks, ""), err
	}}
	streamed := streams{func(ctx context.Context, args string) (*schema.StreamReader[string], error) {
		return stream(do(ctx, args))
	}}
	runParts := runsParts{func(ctx context.Context, args string) (*schema.ToolResult, error) {
		chunks, err := do(ctx, args)
		return parts(strings.Join(chunks, "")), err
	}}
	streamParts := streamsParts{func(ctx context.Context, args string) (*schema.StreamReader[*schema.ToolResult], error) {
		chunks, err := do(ctx, args)
		var all []*schema.ToolResult
		for _, c := range chunks {
			all = append(all, parts(c))
		}
		return stream(all, err)
	}}
	switch kind {
	case plain:
		return struct {
			*info
			runs
		}{i, run}
	case streaming:
		return struct {
			*info
			streams
		}{i, streamed}
	case plainBoth:
		return struct {
			*info
			runs
			streams
		}{i, run, streamed}
	case enhanced:
		return struct {
			*info
			runsParts
		}{i, runParts}
	case enhancedStream:
		return struct {
			*info
			streamsParts
		}{i, streamParts}
	case enhancedBoth:
		return struct {
			*info
			runsParts
			streamsParts
		}{i, runParts, streamParts}
	case anything:
		return struct {
			*info
			runs
			streamsParts
		}{i, run, streamParts}
	}
	return i
}

// An agent is a ReAct agent with a script, in a graph that can be interrupted.
type agent struct {
	t     *testing.T
	model *script.Model
	graph compose.Runnable[[]*schema.Message, *schema.Message]
	store *checkpoints
}

type checkpoints struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (c *checkpoints) Get(_ context.Context, id string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.m[id]
	return b, ok, nil
}

func (c *checkpoints) Set(_ context.Context, id string, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[id] = b
	return nil
}

func newAgent(t *testing.T, config compose.ToolsNodeConfig, steps ...[]schema.ToolCall) *agent {
	t.Helper()
	a := &agent{t: t, model: script.New("done", steps...), store: &checkpoints{m: map[string][]byte{}}}
	ctx := t.Context()
	r, err := react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: a.model, ToolsConfig: config, MaxStep: 100})
	require.NoError(t, err)
	graph := compose.NewGraph[[]*schema.Message, *schema.Message]()
	inner, options := r.ExportGraph()
	require.NoError(t, graph.AddGraphNode("agent", inner, options...))
	require.NoError(t, graph.AddEdge(compose.START, "agent"))
	require.NoError(t, graph.AddEdge("agent", compose.END))
	a.graph, err = graph.Compile(ctx, compose.WithCheckPointStore(a.store))
	require.NoError(t, err)
	return a
}

// run runs the agent to its end, or to an interrupt.
func (a *agent) run(ctx context.Context, streamed bool, options ...compose.Option) (*schema.Message, error) {
	options = append(options, compose.WithCheckPointID("one"))
	in := []*schema.Message{schema.UserMessage("please")}
	if !streamed {
		return a.graph.Invoke(ctx, in, options...)
	}
	r, err := a.graph.Stream(ctx, in, options...)
	if err != nil {
		return nil, err
	}
	return schema.ConcatMessageStream(r)
}

// shown returns what the model was shown of each call, by its ID.
func (a *agent) shown() map[string]string {
	all := map[string]string{}
	for _, m := range a.model.Shown() {
		text := m.Content
		for _, p := range m.UserInputMultiContent {
			text += p.Text
		}
		require.NotContains(a.t, all, m.ToolCallID, "shown twice")
		all[m.ToolCallID] = text
	}
	return all
}

func asked(t *testing.T, err error) (id string, q contracts.ApprovalRequest) {
	t.Helper()
	i, ok := compose.ExtractInterruptInfo(err)
	require.True(t, ok, "%v", err)
	require.Len(t, i.InterruptContexts, 1)
	return i.InterruptContexts[0].ID, request(t, i.InterruptContexts[0].Info)
}

func calls(list ...schema.ToolCall) []schema.ToolCall { return list }

func id(i int) string { return fmt.Sprintf("call-%d", i) }

// request reads the information of an interrupt, as a host does.
func request(t *testing.T, info any) contracts.ApprovalRequest {
	t.Helper()
	text, ok := info.(string)
	require.True(t, ok, "%T", info)
	var x struct{ Helm *contracts.ApprovalRequest }
	require.NoError(t, json.Unmarshal([]byte(text), &x))
	require.NotNil(t, x.Helm)
	return *x.Helm
}
