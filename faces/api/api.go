package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/proofgraph"
)

// Options are what the API is made of.
type Options struct {
	Kernel *helm.Kernel
	Store  proofgraph.Store // the kernel's log, which is only read
	Key    crypto.Signer    // a kernel key of the log: it signs packs
	Auth   *auth.Auth       // the one whose Handler lets requests in

	// ReadOnly leaves out the paths that do something. What follows is theirs.
	ReadOnly  bool
	Desk      *handoff.Desk // of the kernel: calls that are run elsewhere
	Approvals Approvals

	Telemetry state.Telemetry // nil: nothing is told

	// Run runs the calls that ask for run: here. If it is nil they are the kernel's, with its own
	// drivers.
	Run func(context.Context, helm.Intent) (helm.Decision, helm.Receipt)

	// Serves reports whether Run has a driver for a tool, or may have one: then no caller runs it.
	// If it is nil only the kernel's own drivers count.
	Serves func(ctx context.Context, tool string) bool
}

// New returns the handler of the paths in openapi.json, and of no other ones. It is to be called
// inside Options.Auth.Handler: it answers only whom that let in.
func New(o Options) (http.Handler, error) {
	var lacks []string
	for _, need := range []struct {
		is   bool
		name string
	}{
		{o.Kernel == nil, "Kernel"}, {o.Store == nil, "Store"}, {o.Key == nil, "Key"}, {o.Auth == nil, "Auth"},
		{o.Desk == nil && !o.ReadOnly, "Desk"}, {o.Approvals == nil && !o.ReadOnly, "Approvals"},
	} {
		if need.is {
			lacks = append(lacks, need.name)
		}
	}
	if lacks != nil {
		return nil, fmt.Errorf("api: Options: missing: %s", strings.Join(lacks, ", "))
	}
	o.Telemetry = state.Contained(o.Telemetry)
	a := &api{o: o, within: time.Minute, reading: newReading(&o)}
	a.acting = acting{o: &a.o, reads: &a.reading}
	return a, nil
}

// api answers requests.
type api struct {
	o      Options
	within time.Duration // in which a client takes something of an answer
	reading
	acting
}

// A path is one row of the table of all that is served.
type path struct {
	method, path string
	scopes       []auth.Scope // each is needed
	acts         bool         // it is not there if the API only reads
	query        []string     // parameters, each at most once; any other is refused
	do           func(*api, http.ResponseWriter, *http.Request)
}

// match reports whether the segments are of the path, and sets its values in the request.
func (p *path) match(segments []string, r *http.Request) bool {
	pattern := strings.Split(p.path, "/")
	if len(pattern) != len(segments) {
		return false
	}
	for i, s := range pattern {
		name, isValue := strings.CutPrefix(s, "{")
		switch {
		case !isValue && s != segments[i], isValue && segments[i] == "":
			return false
		case isValue:
			r.SetPathValue(strings.TrimSuffix(name, "}"), segments[i])
		}
	}
	return true
}

// segments returns the parts of a path, decoded one by one: an encoded slash is in a name, and
// leads to no other path.
func segments(u *url.URL) ([]string, error) {
	list := strings.Split(u.EscapedPath(), "/")
	for i, s := range list {
		var err error
		if list[i], err = url.PathUnescape(s); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slow := &patient{w, a.within}
	defer slow.until(time.Time{}) // of this request alone
	a.serve(slow, r)
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	parts, err := segments(r.URL)
	if err != nil {
		bad(w, r, "the path is not encoded as paths are")
		return
	}
	var found *path
	var methods []string
	for i := range paths {
		p := &paths[i]
		if p.acts && a.o.ReadOnly || !p.match(parts, r) {
			continue
		}
		methods = append(methods, p.method)
		if p.method == r.Method {
			found = p
		}
	}
	if methods == nil {
		auth.Refuse(w, r, http.StatusNotFound, "helm_not_found", "there is no such path")
		return
	}
	if !auth.Method(w, r, methods...) {
		return
	}
	who := auth.From(r.Context())
	for _, s := range found.scopes {
		if !who.May(s) {
			auth.Refuse(w, r, http.StatusForbidden, "helm_forbidden", "this needs a token of scope "+string(s))
			return
		}
	}
	if err := parameters(r, found.query); err != nil {
		bad(w, r, err.Error())
		return
	}
	found.do(a, w, r)
}

// parameters refuses a query that is not understood: a filter that is misspelt would else find
// everything. r.Form has the parameters then.
func parameters(r *http.Request, known []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return errors.New("the query is not encoded as queries are")
	}
	for name, list := range values {
		if !slices.Contains(known, name) {
			return errors.New("this path has no such parameter as one in the query")
		}
		if len(list) > 1 {
			return fmt.Errorf("the parameter %s is there twice", name)
		}
	}
	r.Form = values
	return nil
}

// bad answers a request that is at fault.
func bad(w http.ResponseWriter, r *http.Request, message string) {
	auth.Refuse(w, r, http.StatusBadRequest, "helm_bad_request", message)
}

// absent answers a request for something that is not there, or may not be read.
func absent(w http.ResponseWriter, r *http.Request, message string) {
	auth.Refuse(w, r, http.StatusNotFound, "helm_not_found", message)
}

// unavailable answers a request that nothing is wrong with. The cause is told nobody.
func unavailable(w http.ResponseWriter, r *http.Request, message string) {
	auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", message)
}
