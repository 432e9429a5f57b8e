package handoff

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

const deskPolicy = `
helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
sandboxes: {box: {output: 16MiB}}
tools:
  mail: {effect: destructive, risk: low, input: {type: object, properties: {a: {type: number}}}, sandbox: reported}
  ask: {effect: read, input: {type: object, properties: {a: {type: number}}}, limits: {timeout: 1s, output: 1KiB}}
  typed:
    effect: read
    input: {type: object, properties: {a: {type: number}}}
    output: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  here: {effect: read, input: {type: object, properties: {a: {type: number}}}}
  boxed: {effect: read, input: {type: object, properties: {a: {type: number}}}, sandbox: box}
  never: {effect: read, input: {type: object, properties: {a: {type: number}}}}
  pay: {effect: write, input: {type: object, properties: {a: {type: number}}}}
  known: {effect: read, input: {type: object, properties: {a: {type: number}}}, definition: "DEFINITION"}
budgets:
  - {id: few, tools: pay, limit: 3, window: total, per: all, cost: 1, refund: error}
rules:
  - {id: most, allow: [mail, ask, typed, here, boxed, pay, known]}
`

// A world is a kernel and a desk.
type world struct {
	*kerneltest.World
	*Desk
	gate *gate
}

// A gate is a store whose appends can be made to wait, and to fail, as those of a process that was
// killed.
type gate struct {
	proofgraph.Store
	mu    sync.RWMutex
	dead  atomic.Bool
	asked atomic.Int64 // appends so far, those that wait included
}

func (g *gate) Append(ctx context.Context, b proofgraph.Batch) error {
	g.asked.Add(1)
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.dead.Load() {
		return errKilled
	}
	return g.Store.Append(ctx, b)
}

var errKilled = errors.New("the process was killed")

// hold makes appends wait until the function that it returns is called. Await returns when one
// waits: a call is decided then, and not durable.
func (g *gate) hold() (await, release func()) {
	g.mu.Lock()
	before := g.asked.Load()
	await = func() {
		for g.asked.Load() == before {
			time.Sleep(time.Millisecond)
		}
	}
	return await, g.mu.Unlock
}

func newWorld(t *testing.T, open int, change ...func(*helm.Options)) *world {
	t.Helper()
	g := new(gate)
	change = append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, kerneltest.Edit(t, deskPolicy, "DEFINITION", definition.String()))
		o.Drivers = map[string]executor.Driver{"here": executor.Func(nothing)}
		under := kerneltest.Faulty(o.Store)
		g.Store, under.Store = under.Store, g
		o.Keep.Outputs = true
	}}, change...)
	w := kerneltest.New(t, change...)
	return &world{w, New(w.Kernel, open), g}
}

var definition = contracts.Digest{1, 2, 3}

func (w *world) intent(tool string) helm.Intent {
	return helm.Intent{Tool: tool, Args: []byte(`{"a": 1}`), Session: "s", Caller: helm.Caller{ID: "ann"}}
}

// must begins a call, which must be handed over.
func (w *world) must(tool string, change ...func(*helm.Intent)) *Ticket {
	w.T.Helper()
	in := w.intent(tool)
	for _, f := range change {
		f(&in)
	}
	d, r, t := w.Begin(context.Background(), in, definition)
	require.NotNil(w.T, t, "%v", d.Err())
	require.ErrorIs(w.T, d.Err(), helm.ErrWithheld)
	require.False(w.T, d.Allowed())
	require.Zero(w.T, r)
	return t
}

// ends has the log settled and verified: one receipt for each ALLOW and each denial.
func (w *world) ends() {
	w.T.Helper()
	require.NoError(w.T, w.Desk.Close(context.Background()))
	open := map[contracts.Digest]bool{}
	for i, st := range w.Statements() {
		hash := w.Entry(i).Hash()
		if st.Decision != nil {
			open[hash] = true
		}
		if st.Receipt != nil && st.Receipt.Decision == nil {
			assert.True(w.T, open[st.Receipt.DecisionHash], "entry %d: a second receipt, or of no decision", i)
			delete(open, st.Receipt.DecisionHash)
		}
	}
	assert.Empty(w.T, open, "permissions without a receipt")
	w.MustVerify()
}
