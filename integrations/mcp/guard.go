package mcp

import (
	"context"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
)

// Guard has the kernel judge a call that came to another face, and run it on the server that has
// the tool. Without one the call has no driver, and is denied. The intent has its caller, its
// session and all that is presented; its driver must be nil. Calls of one caller and session go
// over the same connections, and so do those in a caller's sessions that no request named.
//
// If no connection can be had, nothing is judged: the decision is DENY FAIL_CLOSED_ERROR without a
// receipt.
func (h *Handler) Guard(ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
	name := in.Session
	if isFresh(in.Caller, name) {
		name = auth.SessionName(in.Caller, ownSession)
	}
	s, err := h.enter(keyOf(in.Caller, name), in.Caller, name, "", false, true)
	if err != nil {
		return helm.Decision{Reason: contracts.ReasonFailClosedError, Why: "mcp: " + err.Error()}, helm.Receipt{}
	}
	defer h.leave(s)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if in.Driver == nil {
		if f := s.reach(ctx, in.Tool, nil, cancel); f.upstream != nil {
			p := h.g.options.Kernel.Policy()
			f.structured = p != nil && p.HasOutput(in.Tool)
			in.Driver = h.g.spanned(f)
			f.begin()
			defer f.judged()
		}
	}
	return h.g.options.Kernel.Guard(ctx, in)
}

// isFresh reports whether a session has a name as [auth.Auth.Session] makes one for a request that
// names none.
func isFresh(c helm.Caller, name string) bool {
	rest, ok := strings.CutPrefix(name, auth.SessionName(c, "p-"))
	return ok && len(rest) == 26 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Serves reports whether a server has a tool, or may have it: with prefixes the name says so, else
// the server's list, as it is now. A list that cannot be had may have every tool.
func (g *Gateway) Serves(ctx context.Context, tool string) bool {
	if g.reserved(tool) {
		return true
	}
	if g.options.Prefix {
		server, _, _ := strings.Cut(tool, "__")
		for _, s := range g.options.Servers {
			if s.Name == server {
				return true
			}
		}
		return false
	}
	u := g.reader()
	if u == nil {
		return true
	}
	l, err := u.tools(ctx)
	if err != nil {
		return true
	}
	_, listed := l.tools[tool]
	return listed
}

// reader returns the connection by which the gateway itself reads the list of its one server; nil
// if it is closed.
func (g *Gateway) reader() *upstream {
	if g.shared != nil {
		return g.shared[0]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	if g.own == nil {
		g.own = g.upstreams()
	}
	return g.own[0]
}
