package api

import (
	"slices"

	"github.com/helmkernel/helm/faces/auth"
)

var read = []auth.Scope{auth.Read}

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
}
