package genkit

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/integrations/genkit/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const rules = `helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
tools:
  note: {effect: write, input: {type: object, required: [text], properties: {text: {type: string}}}}
  refund:
    effect: write
    input:
      type: object
      required: [amount]
      properties: {amount: {type: integer}, currency: {type: string, default: EUR}}
  pay: {effect: write, input: {type: object, required: [amount], properties: {amount: {type: integer}}}}
  price:
    effect: read
    input: {type: object, properties: {}}
    output: {type: object, required: [price], properties: {price: {type: number}}}
rules:
  - {id: reads, allow: [price, note]}
  - {id: small, allow: refund, when: {arg: /amount, le: 100}}
  - {id: pays, allow: pay}
requires:
  - {id: four-eyes, tools: [pay], all: [{approval: {roles: [owner], ttl: 15m}}]}
`

// A world is a kernel over a log in memory, a Genkit, and tools whose effects are counted where
// HELM does not see it.
type world struct {
	t     *testing.T
	k     *helm.Kernel
	g     *genkit.Genkit
	store *proofgraph.Memory
	key   crypto.PrivateKey
	ann   crypto.PrivateKey // approves

	mu      sync.Mutex
	effects []string
}

func newWorld(t *testing.T) *world { return newWorldOf(t, rules) }

func newWorldOf(t *testing.T, rules string) *world {
	t.Helper()
	document, err := policy.Parse("policy.yaml", []byte(rules))
	require.NoError(t, err)
	stack, err := guardian.Compile(document)
	require.NoError(t, err)
	w := &world{t: t, g: genkit.Init(t.Context()), store: proofgraph.NewMemory()}
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
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.k.Close()) })
	return w
}

// again is the same world with another Genkit, which has no tools.
func (w *world) again() { w.g = genkit.Init(w.t.Context()) }

// ctx is that of the host, with which it runs the agent.
func (w *world) ctx() context.Context {
	return helm.With(w.t.Context(), helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "chat-1"})
}

// does is a function whose runs have an effect.
func (w *world) does(name string) ai.ToolFunc[map[string]any, string] {
	return func(_ *ai.ToolContext, in map[string]any) (string, error) {
		args, err := json.Marshal(in)
		if err != nil {
			return "", err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.effects = append(w.effects, name+" "+string(args))
		return name + " did it", nil
	}
}

// bare makes a tool of Genkit's own.
func (w *world) bare(name string) ai.Tool {
	return genkit.DefineTool(w.g, name, "Does it.", w.does(name))
}

// guarded makes one under guard.
func (w *world) guarded(name string) ai.Tool {
	w.t.Helper()
	tool, err := DefineTool(w.k, w.g, name, "Does it.", w.does(name))
	require.NoError(w.t, err)
	return tool
}

// run runs calls, all in one step, by a model that is offered tools.
func (w *world) run(
	use []ai.Middleware, tools []ai.Tool, calls ...script.Call,
) (*ai.ModelResponse, []script.Told, error) {
	m := &script.Model{Last: "done", Steps: [][]script.Call{calls}}
	return w.play(m, use, tools, ai.WithPrompt("Go on."))
}

func (w *world) play(
	m *script.Model, use []ai.Middleware, tools []ai.Tool, o ...ai.GenerateOption,
) (*ai.ModelResponse, []script.Told, error) {
	if genkit.LookupModel(w.g, "script") == nil {
		m.Define(w.g)
	}
	var refs []ai.ToolRef
	for _, t := range tools {
		refs = append(refs, t)
	}
	o = append(o, ai.WithModelName("script"), ai.WithTools(refs...), ai.WithUse(use...))
	made, err := genkit.Generate(w.ctx(), w.g, o...)
	return made, m.Told(), err
}

// mustHave checks which effects there were, and forgets them.
func (w *world) mustHave(effects ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.ElementsMatch(w.t, effects, w.effects)
	w.effects = nil
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
