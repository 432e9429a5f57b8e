package api

import (
	"context"
	"encoding/json"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
)

// Approvals are the requests that wait for a person: *state.Approvals.
type Approvals interface {
	Pending(ctx context.Context) ([]state.Pending, error)
	Get(ctx context.Context, nonce string) (state.Pending, error)
	Answer(ctx context.Context, nonce string, e contracts.Envelope) error
	Ask(request *contracts.ApprovalRequest, args json.RawMessage) (nonce string, err error)
	For(ctx context.Context, c helm.Caller, session, tool string, args []byte,
		policy contracts.Digest) []helm.Envelope
}

var _ Approvals = (*state.Approvals)(nil)
