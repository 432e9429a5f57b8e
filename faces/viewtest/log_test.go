package viewtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/faces/view"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const desk = `helm: policy/v1
layer: P1
bundle: {name: desk, version: 1}
tools:
  crm.search:
    effect: read
    input: {type: object, properties: {name: {type: string}}, required: [name], additionalProperties: false}
  mail.send:
    effect: write
    input: {type: object, properties: {to: {type: string}, text: {type: string, maxLength: 1048576}}, required: [to, text],
      additionalProperties: false}
  bank.transfer:
    effect: destructive
    sandbox: reported
    input: {type: object, properties: {sum: {type: integer}, to: {type: string}}, required: [sum, to], additionalProperties: false}
rules:
  - {id: search, allow: [crm.search]}
  - {id: mail, allow: [mail.send]}
  - {id: small, allow: [bank.transfer], when: {arg: /sum, le: 500}}
budgets:
  - {id: mails-a-day, tools: [mail.send], cost: 1, limit: 40, window: day, per: caller}
`

// A world is a kernel over a log in memory.
type world struct {
	kernel *helm.Kernel
	store  *proofgraph.Memory
	desk   *handoff.Desk
}

func newWorld(t *testing.T) *world {
	t.Helper()
	doc, err := policy.Parse("desk.yaml", []byte(desk))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	w := &world{store: proofgraph.NewMemory()}
	back := helm.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })
	w.kernel, err = helm.New(helm.Options{Policy: p, Key: key, Origin: "example.org/desk", Store: w.store,
		Keep: helm.Keep{Outputs: true}, Drivers: map[string]helm.Driver{"crm.search": back,
			"mail.send": helm.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
				if bytes.Contains(args, []byte("nobody@")) {
					return nil, errors.New("no such address")
				}
				return args, nil
			})},
		Now: func() time.Time { at = at.Add(1370 * time.Millisecond); return at }})
	require.NoError(t, err)
	w.desk = handoff.New(w.kernel, 0)
	t.Cleanup(func() {
		assert.NoError(t, w.desk.Close(context.Background()))
		assert.NoError(t, w.kernel.Close())
	})
	return w
}

func (w *world) call(session, caller, tool string, args any, after ...contracts.Ref) helm.Receipt {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	_, r := w.kernel.Guard(context.Background(), helm.Intent{Tool: tool, Args: b, Session: session,
		Caller: helm.Caller{ID: caller, Tenant: "acme"}, After: after})
	return r
}

type object map[string]any

// day makes a log of some days at a desk.
func (w *world) day(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	for i := range 12 {
		session := fmt.Sprintf("acme/chat-%d", i+1)
		found := w.call(session, "ann", "crm.search", object{"name": "Lovelace"})
		w.call(session, "ann", "mail.send", object{"to": "ada@example.org", "text": "Your invoice is ready."}, found.Ref())
		if i%3 == 0 {
			w.call(session, "ann", "bank.transfer", object{"sum": 9000, "to": "DE02"}, found.Ref())
			w.call(session, "bob", "mail.send", object{"to": "nobody@example.org", "text": "Hello?"})
		}
		if i%4 == 1 {
			w.call(session, "bob", "shell.run", object{"command": "rm -rf /"})
			_, _, ticket := w.desk.Begin(ctx, helm.Intent{Tool: "bank.transfer", Session: session,
				Args: []byte(`{"sum":120,"to":"DE02"}`), Caller: helm.Caller{ID: "ann", Tenant: "acme"},
				After: []contracts.Ref{found.Ref()}}, contracts.Digest{})
			require.NotNil(t, ticket)
			if i == 5 {
				ticket.Drop()
			} else {
				ticket.Settle(handoff.Outcome{Output: []byte(`{"id":"tx-1"}`)})
			}
		}
	}
}

// page writes the page of the log to a file, and returns the name.
func (w *world) page(t *testing.T, o view.Options) string {
	t.Helper()
	ctx := context.Background()
	_, err := w.kernel.Checkpoint(ctx)
	require.NoError(t, err)
	r, err := evidence.VerifyStore(ctx, w.store, evidence.Options{Trust: w.kernel.Trust()})
	require.NoError(t, err)
	o.Report = &r
	if o.Steps == nil {
		o.About = "Of the log in its place, when this page was written."
		o.Steps = func(uint64) []string { return []string{"5  P1:desk:mail  P1:desk  /rules/1/when  true  /to string"} }
	}
	var b bytes.Buffer
	require.NoError(t, view.Write(ctx, &b, w.store, o))
	return save(t, b.Bytes())
}

func save(t *testing.T, page []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(name, page, 0o600))
	return name
}

// letGo puts stubs in the place of the calls of a session that ran, and returns how many entries
// went.
func (w *world) letGo(t *testing.T, session string) int {
	t.Helper()
	ctx := context.Background()
	n, err := w.store.Size(ctx)
	require.NoError(t, err)
	var r contracts.Reader
	at := map[contracts.Digest]uint64{}
	stubs := map[uint64][]byte{}
	i := uint64(0)
	for e, err := range w.store.Entries(ctx, 0, n) {
		require.NoError(t, err)
		sealed, err := r.Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		at[e.Hash()] = i
		switch x := st.Receipt; {
		case st.Session != session:
		case st.Decision != nil:
			stubs[i] = contracts.NewStub(st, e.Hash(), 1).Append(nil)
		case x != nil && x.Outcome == contracts.Executed:
			stubs[i] = contracts.NewStub(st, e.Hash(), at[x.DecisionHash]).Append(nil)
		}
		i++
	}
	require.NoError(t, w.store.Condense(ctx, func(yield func(uint64, []byte) bool) {
		for _, i := range slices.Sorted(maps.Keys(stubs)) {
			if !yield(i, stubs[i]) {
				return
			}
		}
	}, func(func(contracts.Digest) bool) {}))
	return len(stubs)
}
