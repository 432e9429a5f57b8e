package langchaingo

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/integrations/langchaingo/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const rules = `helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
tools:
  order_find: {effect: read, input: {type: object, required: [input], properties: {input: {type: string}}}}
  note: {effect: write, input: {type: object, required: [input], properties: {input: {type: string}}}}
  refund:
    effect: write
    input:
      type: object
      required: [amount]
      properties: {amount: {type: integer}, currency: {type: string, default: EUR}}
  pay: {effect: write, input: {type: object, required: [amount], properties: {amount: {type: integer}}}}
  price:
    effect: read
    input: {type: object, required: [input], properties: {input: {type: string}}}
    output: {type: object, required: [price], properties: {price: {type: number}}}
  slow:
    effect: read
    input: {type: object, required: [input], properties: {input: {type: string}}}
    limits: {timeout: 1s}
rules:
  - {id: reads, allow: [order_find, price, slow, note]}
  - {id: small, allow: refund, when: {arg: /amount, le: 100}}
  - {id: pays, allow: pay}
requires:
  - {id: four-eyes, tools: [pay], all: [{approval: {roles: [owner], ttl: 15m}}]}
`

// A world is a kernel over a log in memory, an approver, and tools whose effects are counted where
// HELM does not see it.
type world struct {
	t        *testing.T
	k        *helm.Kernel
	store    *proofgraph.Memory
	key, ann crypto.PrivateKey
	pending  []helm.Decision

	mu      sync.Mutex
	effects []string
	events  []helm.Event
}

func newWorld(t *testing.T) *world { return newWorldOf(t, rules) }

func newWorldOf(t *testing.T, rules string) *world {
	t.Helper()
	document, err := policy.Parse("policy.yaml", []byte(rules))
	require.NoError(t, err)
	stack, err := guardian.Compile(document)
	require.NoError(t, err)
	w := &world{t: t, store: proofgraph.NewMemory()}
	w.key, err = crypto.GenerateKey()
	require.NoError(t, err)
	w.ann, err = crypto.GenerateKey()
	require.NoError(t, err)
	public, err := crypto.PublicOf(w.ann)
	require.NoError(t, err)
	ann := registry.Key{Name: "ann", Public: public, Role: registry.Approver, Roles: []string{"owner"}}
	trust, err := registry.New(0, ann)
	require.NoError(t, err)
	w.k, err = helm.New(helm.Options{
		Policy: stack, Key: w.key, Store: w.store, Origin: "example.org/test", Trust: trust,
		Observe: func(_ context.Context, e helm.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.k.Close()) })
	return w
}

// ctx is that of the host, with which it runs the agent.
func (w *world) ctx() context.Context {
	ctx := helm.With(w.t.Context(), helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "chat-1"})
	return OnPending(ctx, func(d helm.Decision) { w.pending = append(w.pending, d) })
}

// A tool is one whose runs have an effect.
type tool struct {
	w    *world
	name string
	do   func(ctx context.Context, input string) (string, error)
}

func (t *tool) Name() string        { return t.name }
func (t *tool) Description() string { return "Does " + t.name + "." }

func (t *tool) Call(ctx context.Context, input string) (string, error) {
	t.w.mu.Lock()
	t.w.effects = append(t.w.effects, t.name+" "+input)
	t.w.mu.Unlock()
	if t.do != nil {
		return t.do(ctx, input)
	}
	return t.name + " did " + input, nil
}

func (w *world) tool(name string) *tool { return &tool{w: w, name: name} }

func (w *world) guarded(t tools.Tool) tools.Tool {
	w.t.Helper()
	g, err := Tool(w.k, t)
	require.NoError(w.t, err)
	return g
}

func (w *world) agent(a agents.Agent) agents.Agent {
	w.t.Helper()
	g, err := Agent(w.k, a)
	require.NoError(w.t, err)
	return g
}

// run runs an agent, and returns what its model was told.
func (w *world) run(ctx context.Context, a agents.Agent, m *script.Model, o ...agents.Option) ([]string, error) {
	_, err := chains.Run(ctx, agents.NewExecutor(a, append(o, agents.WithMaxIterations(50))...), "Go on.")
	return m.Told(), err
}

// mustRun runs calls, a list a step, by an agent with the tools, which are under guard.
func (w *world) mustRun(ctx context.Context, list []tools.Tool, steps ...[]script.Call) []string {
	w.t.Helper()
	m := &script.Model{Steps: steps}
	told, err := w.run(ctx, w.agent(agents.NewOpenAIFunctionsAgent(m, list)), m)
	require.NoError(w.t, err)
	return told
}

// mustHave checks which effects there were, and forgets them.
func (w *world) mustHave(effects ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Equal(w.t, effects, w.effects)
	w.effects = nil
}

// mustEvent checks the decisions since the last look: verdict, tool and reason.
func (w *world) mustEvent(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for _, e := range w.events {
		got = append(got, e.Verdict.String()+" "+e.Tool+" "+string(e.Reason))
		assert.NotEmpty(w.t, e.ID, "no receipt of %s", e.Tool)
	}
	assert.Equal(w.t, want, got)
	w.events = nil
}

// mustVerify verifies a pack of the log, with replay.
func (w *world) mustVerify(allows, denials uint64) {
	w.t.Helper()
	_, err := w.k.Checkpoint(w.t.Context())
	require.NoError(w.t, err)
	var pack bytes.Buffer
	require.NoError(w.t, evidence.Write(w.t.Context(), &pack, w.store, w.key))
	r, err := evidence.Verify(w.t.Context(), bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: w.k.Trust(), Origin: "example.org/test"})
	require.NoError(w.t, err)
	require.True(w.t, r.Success(evidence.Logged), "%v", r)
	assert.EqualValues(w.t, allows, r.Allows)
	assert.EqualValues(w.t, denials, r.Denials)
	assert.EqualValues(w.t, allows+denials, r.Receipts)
	assert.EqualValues(w.t, allows+denials, r.Replay.Replayed+r.Replay.KernelsOwn)
}

// one is a step of one call.
func one(tool, input string) []script.Call { return []script.Call{{Tool: tool, Input: input}} }

// A seer is a hook that sees what the executor is about to do.
type seer struct {
	callbacks.SimpleHandler
	saw func(schema.AgentAction)
}

func (s seer) HandleAgentAction(_ context.Context, a schema.AgentAction) { s.saw(a) }
