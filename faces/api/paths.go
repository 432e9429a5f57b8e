package api

import (
	"slices"

	"github.com/helmkernel/helm/faces/auth"
)

var (
	read    = []auth.Scope{auth.Read}
	calls   = []auth.Scope{auth.Call}
	approve = []auth.Scope{auth.Approve}
	admin   = []auth.Scope{auth.Admin}
)

// paths is all that is served. openapi.json describes each row.
var paths = []path{
	{"GET", "/api/v1/proofgraph/sessions", read, false, paging, (*api).sessions},
	{"GET", "/api/v1/proofgraph/sessions/{session_id}/receipts", read, false, slices.Concat(paging, filters),
		(*api).receipts},
	{"GET", "/helm/receipts", read, false, slices.Concat(paging, filters, []string{"session"}), (*api).receipts},
	{"GET", "/api/v1/proofgraph", read, false, slices.Concat(paging, chosen, drawing), (*api).proofgraph},
	{"GET", "/helm/proofgraph", read, false, slices.Concat(paging, chosen, drawing), (*api).proofgraph},
	{"GET", "/api/v1/entry", read, false, []string{"name"}, (*api).entry},
	{"GET", "/api/v1/verify", []auth.Scope{auth.ReadAll}, false, nil, (*api).verify},
	{"GET", "/api/v1/pack", []auth.Scope{auth.ReadAll, auth.Inputs}, false, nil, (*api).pack},
	{"GET", "/api/v1/checkpoint", read, false, nil, (*api).checkpoint},
	{"GET", "/api/v1/openapi.json", nil, false, nil, describe},

	{"POST", "/api/v1/guard", calls, true, nil, (*api).guard},
	{"GET", "/api/v1/calls", calls, true, nil, (*api).calls},
	{"POST", "/api/v1/calls/{id}/outcome", calls, true, nil, (*api).outcome},
	{"DELETE", "/api/v1/calls/{id}", calls, true, nil, (*api).drop},
	{"GET", "/api/v1/approvals", approve, true, nil, (*api).approvals},
	{"POST", "/api/v1/approvals", approve, true, nil, (*api).approve},
	{"GET", "/api/v1/approvals/{nonce}", approve, true, nil, (*api).approval},
	{"POST", "/api/v1/sessions/{session_id}/close", admin, true, nil, (*api).closeSession},
	{"POST", "/api/v1/govern", admin, true, nil, (*api).govern},
	{"POST", "/api/v1/checkpoint", admin, true, nil, (*api).newCheckpoint},
	{"GET", "/api/v1/policy", []auth.Scope{auth.ReadAll}, false, nil, (*api).policy},
}
