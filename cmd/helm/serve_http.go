package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
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

// whoAsks returns what knows who asks over HTTP, and how often a caller may.
func whoAsks(c *state.Config, tokens *auth.Tokens, log *slog.Logger) (*auth.Auth, error) {
	metadata := ""
	if c.Issuer != "" {
		metadata = mcpURL(c, mcpListens(c)) + "/.well-known/oauth-protected-resource"
	}
	return auth.New(auth.Options{
		Tokens: tokens, Hosts: c.Hosts, Origins: c.Origins,
		SessionHeaders: c.SessionHeaders, SessionRequired: c.SessionRequired,
		Body: int64(c.Limits.Body), Requests: c.Limits.Requests, CallerRequests: c.Limits.CallerRequests,
		Denials: c.Limits.Denials, Metadata: metadata, Log: log,
	})
}

// overHTTP serves clients over streamable HTTP, until the context ends and what runs has ended.
func overHTTP(ctx context.Context, _ *app, h *held) error {
	conf := h.Config()
	l, err := auth.Listen(ctx, auth.ListenOptions{
		Address: mcpListens(conf), Cert: conf.Cert, Key: conf.Key, Plain: conf.Plain, Tokens: h.Tokens(),
	})
	if err != nil {
		return err
	}
	defer l.Close()
	h.rereads(l.Reload)
	base := mcpURL(conf, l.Addr().String())
	handler, err := h.gateway.Handler(mcp.HandlerOptions{
		Auth: h.who, Sessions: conf.Limits.MCPSessions, Idle: conf.Limits.MCPIdle,
		Resource: base + "/mcp", Issuer: conf.Issuer,
		Unwell: func() string {
			if h.Kernel().Err() != nil {
				return "sealed"
			}
			return ""
		},
	})
	if err != nil {
		return err
	}
	server := auth.Server(handler)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	h.log.Info("MCP clients are served", "url", base+"/mcp", "tokens", h.Tokens().Any())
	if conf.Plain && conf.Cert == "" {
		h.log.Warn("insecure_plain_http: who reads the network reads tokens and calls")
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// What runs has the time of the drain, and streams end with their sessions.
	draining, cancel := context.WithDeadline(context.WithoutCancel(ctx), h.late())
	defer cancel()
	err = handler.Drain(draining)
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if server.Shutdown(closing) != nil {
		_ = server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
