package api

import "github.com/helmkernel/helm/faces/auth"

var read = []auth.Scope{auth.Read}

// paths is all that is served. openapi.json describes each row.
var paths = []path{
	{"GET", "/api/v1/checkpoint", read, false, nil, (*api).checkpoint},
	{"GET", "/api/v1/openapi.json", nil, false, nil, (*api).document},
}
