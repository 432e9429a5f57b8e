package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/integrations/mcp"
)

// mcpAddress is where mcp serve listens if the configuration does not say.
const mcpAddress = "127.0.0.1:9191"

// mcpURL returns what the addresses of mcp serve begin with, as clients have them.
func mcpURL(c *state.Config, address string) string {
	if len(c.Hosts) > 0 {
		address = c.Hosts[0]
	}
	if c.Cert != "" {
		return "https://" + address
	}
	return "http://" + address
}

func mcpListens(c *state.Config) string {
	if c.Listen.MCP == "" {
		return mcpAddress
	}
	return c.Listen.MCP
}

// endTime is how long a call waits for the end of a session that nobody uses.
const endTime = time.Second

// whoAsks returns what knows who asks over HTTP, and how often a caller may, and ends sessions that
// nobody uses.
func whoAsks(c *state.Config, s *state.State, log *slog.Logger, tell state.Telemetry) (*auth.Auth, error) {
	metadata := ""
	if c.Issuer != "" {
		metadata = mcpURL(c, mcpListens(c)) + "/.well-known/oauth-protected-resource"
	}
	var refused func(code string)
	if tell != nil {
		refused = func(code string) { tell.Tell(state.Fact{Kind: state.Refused, Name: code}) }
	}
	return auth.New(auth.Options{
		Refused: refused,
		Tokens:  s.Tokens(), Hosts: c.Hosts, Origins: c.Origins,
		SessionHeaders: c.SessionHeaders, SessionRequired: c.SessionRequired,
		Body: int64(c.Limits.Body), Requests: c.Limits.Requests, CallerRequests: c.Limits.CallerRequests,
		Denials: c.Limits.Denials, Metadata: metadata, Log: log,
		SessionIdle: c.SessionIdle, Sessions: c.Limits.Sessions, EndSession: func(session string) error {
			ctx, cancel := context.WithTimeout(context.Background(), endTime)
			defer cancel()
			return s.Kernel().CloseSession(ctx, session)
		},
	})
}

// overHTTP serves clients over streamable HTTP, until the context ends and what runs has ended.
func overHTTP(ctx context.Context, _ *app, h *held) error {
	conf := h.Config()
	l, err := h.listens(ctx, mcpListens(conf))
	if err != nil {
		return err
	}
	defer l.Close()
	base := mcpURL(conf, l.Addr().String())
	handler, err := h.gateway.Handler(mcp.HandlerOptions{
		Auth: h.who, Sessions: conf.Limits.MCPSessions, Idle: conf.Limits.MCPIdle,
		Resource: base + "/mcp", Issuer: conf.Issuer, Unwell: h.unwell,
	})
	if err != nil {
		return err
	}
	h.log.Info("MCP clients are served", "url", base+"/mcp", "tokens", h.Tokens().Any())
	return h.overWeb(ctx, l, handler)
}
