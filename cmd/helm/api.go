package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/faces/api"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/integrations/mcp"
)

// apiAddress is where serve listens if the configuration does not say.
const apiAddress = "127.0.0.1:8080"

func serving(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "serve the kernel over HTTP to agents in any language", Args: arguments(cobra.NoArgs),
		Long: "Serve the kernel at http://127.0.0.1:8080, or the address listen: {api: …}: agents ask for each call\n" +
			"at /api/v1/guard, run it or have it run by an MCP server of the configuration, and read the log. The\n" +
			"tools of the servers are at /mcp and /mcp/v1/* too, and with upstreams there are the paths of helm\n" +
			"proxy. SIGHUP reads policy, tokens and certificate again, and takes no policy that is faulty or older.\n" +
			"SIGTERM ends it after the calls that run, within the limit drain of the configuration; what an agent\n" +
			"has not reported by then is INDETERMINATE. A second one ends it at once. See docs/api.md.",
	}
	file := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := state.ReadConfig(*file)
		if err != nil {
			return err
		}
		own := *conf
		if own.Listen.API == "" {
			own.Listen.API = apiAddress
		}
		own.Listen.MCP = own.Listen.API // where clients find it here
		var servers []mcp.Server
		if len(own.Servers) > 0 {
			if servers, err = serversOf(&own); err != nil {
				return err
			}
		}
		return hold(c.Context(), a, &own, overAPI(servers))
	}
	return c
}

// overAPI returns a face of the whole API. It serves until the context ends and what runs has
// ended.
func overAPI(servers []mcp.Server) face {
	return func(ctx context.Context, a *app, h *held) error {
		conf := h.Config()
		o := api.Options{Kernel: h.Kernel(), Store: h.Store(), Key: h.Key(), Auth: h.who, Desk: h.Desk(),
			Approvals: h.Approvals(), Telemetry: h.export.telemetry()}
		in := routes{"/helm/messages": h.who.Messages(h.Kernel())}
		if len(conf.Proxy.Upstreams) > 0 {
			p, err := h.proxy()
			if err != nil {
				return err
			}
			defer p.Close()
			in["/v1/"] = p
		}
		l, err := h.listens(ctx, conf.Listen.API)
		if err != nil {
			return err
		}
		defer l.Close()
		base := mcpURL(conf, l.Addr().String())
		if err := h.front(servers, ""); err != nil { // without servers it has no tools
			return err
		}
		clients, err := h.gateway.Handler(mcp.HandlerOptions{
			Auth: h.who, Sessions: conf.Limits.MCPSessions, Idle: conf.Limits.MCPIdle,
			Resource: base + "/mcp", Issuer: conf.Issuer, Unwell: h.unwell,
		})
		if err != nil {
			return err
		}
		if len(servers) > 0 {
			o.Run, o.Serves = clients.Guard, h.gateway.Serves
		}
		kernel, err := api.New(o)
		if err != nil {
			return err
		}
		in["/"] = kernel
		fmt.Fprint(a.errs, apiBanner(conf, base)+
			advice(conf, h.Tokens().Any(), state.AsksForSession(h.Kernel().Policy())))
		return h.overWeb(ctx, l, newAPIDoor(h.lets(in), clients, h.unwell))
	}
}

// An apiDoor is a door before an API and a gateway, which lets requests in itself.
type apiDoor struct {
	*door
	clients *mcp.Handler
}

func newAPIDoor(in http.Handler, clients *mcp.Handler, unwell func() string) *apiDoor {
	return &apiDoor{newDoor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isMCP(r.URL.Path) {
			clients.ServeHTTP(w, r)
			return
		}
		in.ServeHTTP(w, r)
	}), unwell), clients}
}

func isMCP(path string) bool {
	return path == "/mcp" || strings.HasPrefix(path, "/mcp/") ||
		strings.HasPrefix(path, "/.well-known/oauth-protected-resource")
}

// Drain also ends the sessions of the gateway's clients, whose streams would be waited for.
func (b *apiDoor) Drain(ctx context.Context) error {
	var of error
	var ended sync.WaitGroup
	ended.Go(func() { of = b.clients.Drain(ctx) })
	err := b.door.Drain(ctx)
	ended.Wait()
	return errors.Join(err, of)
}

// apiBanner says what is served at an address, and what of it is governed.
func apiBanner(c *state.Config, base string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "helm serve at %s\n\nGoverned: calls that agents ask for at POST /api/v1/guard\n", base)
	if len(c.Servers) > 0 {
		names := make([]string, len(c.Servers))
		for i, s := range c.Servers {
			names[i] = s.Name
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "  and at /mcp and POST /mcp/v1/execute, of the servers %s\n", strings.Join(names, ", "))
	}
	for _, x := range proxyPaths {
		if u, ok := c.Proxy.Upstreams[x.api]; ok {
			fmt.Fprintf(&b, "  and in the answers to POST %-21s from %s\n", x.path, u.URL)
		}
	}
	b.WriteString("Not governed: what an agent runs without asking here. What it runs itself after it asked is what\n" +
		"it says it is: HELM does not see that.\n")
	return b.String()
}
