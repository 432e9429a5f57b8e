package adk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/toolconfirmation"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/integrations/adk"
	"github.com/helmkernel/helm/integrations/adk/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const rules = `
helm: policy/v1
layer: P1
bundle: {name: notes, version: 1}
tools:
  note: {effect: write, limits: {timeout: 5s}, input: {type: object, required: [text],
    properties: {text: {type: string}, n: {type: integer, maximum: 50}}}}
  vault: {effect: write, limits: {timeout: 5s}, input: {type: object, required: [text],
    properties: {text: {type: string}, n: {type: integer, maximum: 50}}}}
  pay: {effect: write, limits: {timeout: 5s}, input: {type: object, required: [text],
    properties: {text: {type: string}, n: {type: integer, maximum: 50}}}}
  slow: {effect: write, limits: {timeout: 1s}, input: {type: object}}
  helper: {effect: read, input: {type: object, required: [request], properties: {request: {type: string}}}}
  transfer_to_agent: {effect: read, input: {type: object, required: [agent_name], properties: {agent_name: {enum: [billing]}}}}
  exit_loop: {effect: read, input: {type: object, properties: {}}}
  load_memory: {effect: read, input: {type: object, required: [query], properties: {query: {type: string}}}}
  strict: {effect: read, input: {type: object}, output: {type: object, required: [ok], properties: {ok: {type: boolean}}}}
rules:
  - {id: open, allow: [note, pay, slow, helper, transfer_to_agent, exit_loop, load_memory, strict]}
requires:
  - {id: owner, tools: [pay], all: [{approval: {roles: [owner], ttl: 10m}}]}
`

// A world is a kernel with its log, and a person who approves.
type world struct {
	t      *testing.T
	kernel *helm.Kernel
	store  *proofgraph.Memory
	owner  crypto.PrivateKey
	late   chan struct{} // gets a value when a tool that outlived its call has ended

	mu     sync.Mutex // protects the fields below
	events []helm.Event
	ran    []string // tools that ran, and the arguments with which they did
	args   []string
}

func key(t *testing.T, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

func newWorld(t *testing.T) *world {
	t.Helper()
	doc, err := policy.Parse("notes.yaml", []byte(rules))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	w := &world{t: t, store: proofgraph.NewMemory(), owner: key(t, 7), late: make(chan struct{}, 8)}
	public, err := crypto.PublicOf(w.owner)
	require.NoError(t, err)
	trust, err := registry.New(0, registry.Key{
		Name: "ann", Public: public, Role: registry.Approver, Roles: []string{"owner"},
	})
	require.NoError(t, err)
	w.kernel, err = helm.New(helm.Options{Policy: p, Key: key(t, 1), Store: w.store, Trust: trust, Observe: w.observe})
	require.NoError(t, err)
	t.Cleanup(w.audit)
	return w
}

func (w *world) observe(_ context.Context, e helm.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Late {
		w.late <- struct{}{}
		return
	}
	w.events = append(w.events, e)
}

// audit closes the kernel, and verifies the log.
func (w *world) audit() {
	_, err := w.kernel.Checkpoint(context.Background())
	assert.NoError(w.t, err)
	assert.NoError(w.t, w.kernel.Close())
	r, err := evidence.VerifyStore(context.Background(), w.store, evidence.Options{Trust: w.kernel.Trust()})
	assert.NoError(w.t, err)
	assert.True(w.t, r.Replay.Differing+r.Replay.NotReplayable == 0, "%v", r)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		assert.NotEmpty(w.t, e.ID, "a call of %s has no receipt", e.Tool)
	}
}

// seen returns tool and reason of each call that has a receipt.
func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, e := range w.events {
		all = append(all, e.Tool+" "+string(e.Reason))
	}
	return all
}

// effects returns the tools that ran, where the kernel does not see it.
func (w *world) effects() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ran)
}

func (w *world) effect(name string, args any) {
	b, err := json.Marshal(args)
	assert.NoError(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran, w.args = append(w.ran, name), append(w.args, string(b))
}

// plain returns a tool that leaves an effect, and returns its name.
func (w *world) plain(name string, change ...func(*functiontool.Config)) tool.Tool {
	return w.does(name, func(agent.Context, map[string]any) (string, error) { return name + " done", nil }, change...)
}

func (w *world) does(
	name string, do func(agent.Context, map[string]any) (string, error), change ...func(*functiontool.Config),
) tool.Tool {
	w.t.Helper()
	c := functiontool.Config{Name: name, Description: "Does " + name + "."}
	for _, f := range change {
		f(&c)
	}
	t, err := functiontool.New(c, func(ctx agent.Context, args map[string]any) (map[string]any, error) {
		w.effect(name, args)
		text, err := do(ctx, args)
		if err != nil {
			return nil, err
		}
		return map[string]any{"did": text}, nil
	})
	require.NoError(w.t, err)
	return t
}

// streaming returns a tool that leaves an effect, and streams its name.
func (w *world) streaming(name string) tool.Tool {
	return w.streams(name, func(_ agent.Context, yield func(string, error) bool) {
		_ = yield(name, nil) && yield(" done", nil)
	})
}

func (w *world) streams(name string, do func(agent.Context, func(string, error) bool)) tool.Tool {
	w.t.Helper()
	t, err := functiontool.NewStreaming(functiontool.Config{Name: name, Description: "Streams " + name + "."},
		func(ctx agent.Context, args map[string]any) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				w.effect(name, args)
				do(ctx, yield)
			}
		})
	require.NoError(w.t, err)
	return t
}

// guard returns tools, guarded.
func (w *world) guard(tools ...tool.Tool) []tool.Tool {
	w.t.Helper()
	all := make([]tool.Tool, len(tools))
	for i, t := range tools {
		g, err := adk.Tool(w.kernel, t)
		require.NoError(w.t, err)
		all[i] = g
	}
	return all
}

func (w *world) plugin() *plugin.Plugin {
	w.t.Helper()
	p, err := adk.Plugin(w.kernel)
	require.NoError(w.t, err)
	return p
}

// A chat is a conversation with an agent.
type chat struct {
	t       *testing.T
	runner  *runner.Runner
	service session.Service
	model   *script.Model
	events  []*session.Event
	err     error
}

// newChat makes an agent with a model that makes calls, one a step.
func newChat(t *testing.T, c llmagent.Config, plugins []*plugin.Plugin, calls ...script.Call) *chat {
	t.Helper()
	var steps []script.Step
	for _, call := range calls {
		steps = append(steps, script.Step{call})
	}
	return newSteps(t, c, plugins, steps...)
}

func newSteps(t *testing.T, c llmagent.Config, plugins []*plugin.Plugin, steps ...script.Step) *chat {
	t.Helper()
	m := script.New("Done.", steps...)
	c.Name, c.Model = "clerk", m
	root, err := llmagent.New(c)
	require.NoError(t, err)
	return newRun(t, root, m, plugins)
}

func newRun(t *testing.T, root agent.Agent, m *script.Model, plugins []*plugin.Plugin) *chat {
	t.Helper()
	x := &chat{t: t, model: m, service: session.InMemoryService()}
	var err error
	x.runner, err = runner.New(runner.Config{AppName: "office", Agent: root, SessionService: x.service,
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: plugins}})
	require.NoError(t, err)
	return x
}

// host returns a context in which the host says whose calls these are.
func host() context.Context {
	return helm.With(context.Background(), helm.Intent{Caller: helm.Caller{ID: "ann"}, Session: "chat-1"})
}

// say has the agent run, and returns the results that the model was shown.
func (x *chat) say(msg *genai.Content) []map[string]any {
	x.t.Helper()
	x.sayIn(host(), msg)
	require.NoError(x.t, x.err)
	return x.told()
}

func (x *chat) told() (all []map[string]any) {
	for _, t := range x.model.Told() {
		all = append(all, t.Result)
	}
	return all
}

func (x *chat) sayIn(ctx context.Context, msg *genai.Content) {
	x.err = nil
	for e, err := range x.runner.Run(ctx, "ann", "chat", msg, agent.RunConfig{}) {
		if err != nil {
			x.err = err
			return
		}
		x.events = append(x.events, e)
	}
}

func hello() *genai.Content { return genai.NewContentFromText("Please go on.", genai.RoleUser) }

// asked returns the last request for a confirmation, and what approvers sign.
func (x *chat) asked() (id string, request contracts.ApprovalRequest) {
	x.t.Helper()
	for _, e := range x.events {
		if e.Content == nil {
			continue
		}
		for _, part := range e.Content.Parts {
			f := part.FunctionCall
			if f == nil || f.Name != toolconfirmation.FunctionCallName {
				continue
			}
			id = f.ID
			c, ok := f.Args["toolConfirmation"].(toolconfirmation.ToolConfirmation)
			require.True(x.t, ok)
			payload, err := json.Marshal(c.Payload)
			require.NoError(x.t, err)
			var p struct{ Helm *contracts.ApprovalRequest }
			require.NoError(x.t, json.Unmarshal(payload, &p))
			if p.Helm != nil {
				request = *p.Helm
			}
		}
	}
	require.NotEmpty(x.t, id, "ADK asked for nothing")
	return id, request
}

// confirm returns the user's answer to a request.
func confirm(id string, answer map[string]any) *genai.Content {
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		ID: id, Name: toolconfirmation.FunctionCallName, Response: answer,
	}}}}
}

func signed(envelopes ...contracts.Envelope) map[string]any {
	list := []any{}
	for _, e := range envelopes {
		var decoded any
		_ = json.Unmarshal(e, &decoded)
		list = append(list, decoded)
	}
	return map[string]any{"approvals": list}
}

// denyAll denies everything that a plugin of ADK is asked about.
func denyAll(t *testing.T) *plugin.Plugin {
	t.Helper()
	p, err := plugin.New(plugin.Config{Name: "deny",
		BeforeToolCallback: func(agent.Context, tool.Tool, map[string]any) (map[string]any, error) {
			return map[string]any{"error": "no"}, nil
		}})
	require.NoError(t, err)
	return p
}

// A function is what ADK runs of a tool.
type function interface {
	tool.Tool
	Declaration() *genai.FunctionDeclaration
	Run(ctx agent.Context, args any) (map[string]any, error)
}

// careless is a tool that asks nobody.
type careless struct{ function }

func (c careless) Run(ctx agent.Context, args any) (map[string]any, error) {
	return c.function.Run(agent.NewToolContext(ctx.WithDelta(&agent.CommonContextDelta{}), "", nil, nil), args)
}

// renamed is a tool that has another name than it is declared with.
type renamed struct {
	tool.Tool
	name string
}

func (r renamed) Name() string { return r.name }

func (r renamed) Declaration() *genai.FunctionDeclaration { return r.Tool.(function).Declaration() }

func (r renamed) Run(ctx agent.Context, args any) (map[string]any, error) {
	return r.Tool.(function).Run(ctx, args)
}

// A set is a toolset whose tools are those of now.
type set struct{ tools []tool.Tool }

func (*set) Name() string { return "set" }

func (s *set) Tools(agent.ReadonlyContext) ([]tool.Tool, error) { return s.tools, nil }
