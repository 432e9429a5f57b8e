//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A desk keeps requests in memory, and waits for answers.
type desk struct {
	mu      sync.Mutex
	request *contracts.ApprovalRequest
	answers []helm.Envelope
	decided chan struct{}
	waited  atomic.Int64
}

func (d *desk) Ask(r *contracts.ApprovalRequest, args json.RawMessage) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := r.About(args); err != nil {
		return "", err
	}
	if d.request == nil {
		d.request = r
	}
	return d.request.Nonce, nil
}

func (d *desk) For(_ context.Context, _ helm.Caller, _, tool string, _ []byte, _ contracts.Digest) []helm.Envelope {
	d.mu.Lock()
	defer d.mu.Unlock()
	if tool != "pay" {
		return nil
	}
	return d.answers
}

func (d *desk) Wait(ctx context.Context, nonce string) error {
	d.waited.Add(1)
	if nonce != d.nonce() {
		return errors.New("no such request")
	}
	select {
	case <-d.decided:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *desk) nonce() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.request == nil {
		return ""
	}
	return d.request.Nonce
}

func (d *desk) answer(t *testing.T, approve bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sign := d.request.Refuse
	if approve {
		sign = d.request.Approve
	}
	e, err := sign(approver(t))
	require.NoError(t, err)
	d.answers = append(d.answers, e)
	close(d.decided)
}

func approver(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := crypto.NewKeyFromSeed([]byte(strings.Repeat("a", 32)))
	require.NoError(t, err)
	return key
}

// An old transport is that of a client from before 2026-07-28, which does not discover.
type old struct{ sdk.Transport }

type oldConnection struct{ sdk.Connection }

func (o old) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := o.Transport.Connect(ctx)
	return oldConnection{c}, err
}

func (o oldConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "server/discover" {
		m = &jsonrpc.Request{ID: r.ID, Method: "no/such"}
	}
	return o.Connection.Write(ctx, m)
}

// TestApproval: the user of a client is told what an approver is asked, and the call is judged
// again when the answer came. Whatever the client says, it approves nothing.
func TestApproval(t *testing.T) {
	t.Parallel()
	type world struct {
		*gate
		desk   *desk
		client *sdk.ClientSession
		told   *atomic.Value
	}
	begin := func(t *testing.T, isOld bool, wait time.Duration, capable *sdk.ElicitationCapabilities, say func(w *world) string) *world {
		w := &world{desk: &desk{decided: make(chan struct{})}, told: &atomic.Value{}}
		w.gate = newGate(t, func(o *GatewayOptions) {
			o.Approvals, o.ApprovalWait = w.desk, wait
			o.ApprovalURL = func(nonce string) string { return "https://helm.example/" + nonce }
		})
		o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{Elicitation: capable}}
		if capable != nil {
			o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				w.told.Store(r.Params)
				return &sdk.ElicitResult{Action: say(w)}, nil
			}
		}
		if isOld {
			w.client = w.connectOver(o, func(t sdk.Transport) sdk.Transport { return old{t} })
		} else {
			w.client = w.connect(o)
		}
		return w
	}
	form := &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}
	page := &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}
	for _, isOld := range []bool{true, false} {
		// An approver approves while the user is told: it runs once.
		w := begin(t, isOld, time.Minute, form, func(w *world) string { w.desk.answer(t, true); return "accept" })
		r, said := w.call(w.client, "pay", `{"n":1}`)
		assert.True(t, !r.IsError && said == "fine", said)
		asked := w.told.Load().(*sdk.ElicitParams)
		assert.Contains(t, asked.Message, w.desk.nonce())
		assert.Equal(t, "form", asked.Mode)
		assert.NotContains(t, asked.Message, `"n"`)
		assert.Equal(t, contracts.Executed, w.last().Outcome)
		w.desk.mu.Lock()
		w.desk.decided = make(chan struct{})
		w.desk.mu.Unlock()
		r, _ = w.call(w.client, "echo", `{}`)
		assert.False(t, r.IsError)

		// Nobody but the user answers.
		w = begin(t, isOld, 200*time.Millisecond, page, func(*world) string { return "accept" })
		r, said = w.call(w.client, "pay", `{"n":1}`)
		assert.True(t, r.IsError && strings.Contains(said, w.desk.nonce()), said)
		asked = w.told.Load().(*sdk.ElicitParams)
		assert.Equal(t, "https://helm.example/"+w.desk.nonce(), asked.URL)
		assert.NotZero(t, w.desk.waited.Load())
		assert.Zero(t, strings.Count(w.noted("in"), "tools/call"))

		// The user does not want to wait.
		w = begin(t, isOld, time.Hour, form, func(*world) string { return "decline" })
		r, said = w.call(w.client, "pay", `{"n":1}`)
		assert.True(t, r.IsError && strings.Contains(said, w.desk.nonce()), said)

		// An approver refuses.
		w = begin(t, isOld, time.Minute, form, func(w *world) string { w.desk.answer(t, false); return "accept" })
		r, said = w.call(w.client, "pay", `{"n":1}`)
		assert.True(t, r.IsError && strings.Contains(said, " was denied: "), said)
		assert.Zero(t, strings.Count(w.noted("in"), "tools/call"))

		// A client that cannot be told gets the denial; the call that is made again later runs.
		w = begin(t, isOld, time.Hour, nil, nil)
		for range 2 {
			r, said = w.call(w.client, "pay", `{"n":1}`)
			assert.True(t, r.IsError && strings.Contains(said, w.desk.nonce()), said)
			assert.Equal(t, w.desk.nonce(), r.Meta["helmkernel/verdict"].(map[string]any)["pending"])
		}
		w.desk.answer(t, true)
		r, said = w.call(w.client, "pay", `{"n":2}`)
		assert.True(t, r.IsError, "it is no answer to another call: %s", said)
		r, said = w.call(w.client, "pay", `{"n":1}`)
		assert.False(t, r.IsError, said)
		r, said = w.call(w.client, "pay", `{"n":1}`)
		assert.True(t, r.IsError, "it runs once: %s", said)
	}
}

// TestRequestState: what a client says that it was told counts for nothing.
func TestRequestState(t *testing.T) {
	t.Parallel()
	d := &desk{decided: make(chan struct{})}
	g := newGate(t, func(o *GatewayOptions) { o.Approvals, o.ApprovalWait = d, 50*time.Millisecond })
	c, err := g.gateway.open(helm.Caller{}, "s", "")
	require.NoError(t, err)
	defer c.close()
	r := &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Name: "pay", Arguments: json.RawMessage(`{"n":1}`),
		RequestState:   strings.Repeat("f", 32),
		InputResponses: sdk.InputResponseMap{"approval": &sdk.ElicitResult{Action: "accept"}},
		Meta: sdk.Meta{"io.modelcontextprotocol/protocolVersion": stateless,
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}}},
	}}
	result, err := c.callTool(t.Context(), r)
	require.NoError(t, err)
	b, err := json.Marshal(result)
	require.NoError(t, err)
	assert.Contains(t, string(b), `"isError":true`)
	assert.Contains(t, string(b), `"resultType":"complete"`)
	assert.EqualValues(t, 1, d.waited.Load())
	r.Params.RequestState, r.Params.InputResponses = "", nil
	result, err = c.callTool(t.Context(), r)
	require.NoError(t, err)
	b, err = json.Marshal(result)
	require.NoError(t, err)
	assert.Contains(t, string(b), `"resultType":"input_required"`)
	assert.Contains(t, string(b), `"requestState":"`+d.nonce()+`"`)
	assert.Zero(t, strings.Count(g.noted("in"), "tools/call"))
}
