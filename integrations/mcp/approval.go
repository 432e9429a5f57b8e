package mcp

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// Approvals keeps what approvers are asked, and their answers. *state.Approvals is one.
type Approvals interface {
	// Ask keeps a request, and returns its nonce, or that of one that is kept for the same call.
	Ask(request *contracts.ApprovalRequest, args json.RawMessage) (nonce string, err error)

	// For returns the answers to requests of a call, whose arguments are the model's.
	For(
		ctx context.Context, c helm.Caller, session, tool string, args []byte, policy contracts.Digest,
	) []helm.Envelope

	// Wait returns nil when a request is decided.
	Wait(ctx context.Context, nonce string) error
}

// ask keeps the request of a denied call for the approvers. The denial names the kept one.
func (c *client) ask(d *helm.Decision) {
	if a := c.gateway.options.Approvals; a != nil && d.Pending != nil {
		if nonce, err := a.Ask(d.Pending, d.Args); err == nil {
			kept := *d.Pending
			kept.Nonce = nonce
			d.Pending = &kept
		}
	}
}

// notice tells the user of the client what an approver is asked. Nothing of it is the model's or a
// server's.
func (c *client) notice(tool, nonce string, capable *sdk.ElicitationCapabilities) *sdk.ElicitParams {
	message := tool + " waits for the approval of request " + nonce +
		". Only an approver can grant it: accept this to wait."
	if url := c.gateway.options.ApprovalURL; url != nil && capable.URL != nil {
		return &sdk.ElicitParams{Mode: "url", Message: message, URL: url(nonce), ElicitationID: nonce}
	}
	if capable.Form == nil && capable.URL != nil {
		return nil
	}
	return &sdk.ElicitParams{Mode: "form", Message: message,
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
}

// await tells a client that can be told that an approver is asked, and waits for the answer. It
// reports whether there is one, so that the call is to be judged again. Nothing that the client
// says approves anything; it can only end the waiting. A client since 2026-07-28 is asked by a
// result, and makes the call again.
func (c *client) await(
	ctx context.Context, r *sdk.CallToolRequest, nonce string,
) (again bool, asked sdk.Result, err error) {
	capable := r.ClientCapabilities()
	if c.gateway.options.Approvals == nil || capable == nil || capable.Elicitation == nil {
		return false, nil, nil
	}
	notice := c.notice(r.Params.Name, nonce, capable.Elicitation)
	if notice == nil {
		return false, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.gateway.wait())
	defer cancel()
	if r.ProtocolVersion() < stateless {
		go func() {
			if answer, err := r.Session.Elicit(ctx, notice); err != nil || answer.Action != "accept" {
				cancel()
			}
		}()
	} else if r.Params.RequestState == "" {
		b, err := encode(map[string]any{
			"resultType": "input_required", "requestState": nonce,
			"inputRequests": map[string]any{
				"approval": map[string]any{"method": "elicitation/create", "params": notice},
			},
		})
		return false, &written{&sdk.CallToolResult{}, b}, err
	}
	for _, answer := range r.Params.InputResponses {
		if answer, ok := answer.(*sdk.ElicitResult); !ok || answer.Action != "accept" {
			return false, nil, nil
		}
	}
	return c.gateway.options.Approvals.Wait(ctx, nonce) == nil, nil, nil
}

// wait returns how long a call waits for an approver.
func (g *Gateway) wait() time.Duration {
	if g.options.ApprovalWait > 0 {
		return g.options.ApprovalWait
	}
	return 2 * time.Minute
}
