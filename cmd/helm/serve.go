package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/integrations/mcp"
)

func wrap(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "wrap -- COMMAND [ARG...]", Short: "put the kernel before one MCP server, over stdio",
		Long: "Run an MCP server, and be one on stdin and stdout whose tools are those that the policy allows. A\n" +
			"client is told this command in place of the server's. The state directory of the configuration\n" +
			"takes one process: for several clients, or servers, there is helm mcp serve. It ends when stdin does.",
		Example: "helm mcp wrap --config /etc/helm/helm.yaml -- mcp-files /srv/data",
	}
	file := configFlag(c)
	name := c.Flags().String("name", "server", "`NAME` of the server, for prefix: true")
	session := sessionFlag(c)
	env := c.Flags().StringArray("env", nil,
		"`NAME` of a variable that the server gets, besides PATH, HOME, LANG, TMPDIR; may be repeated")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 || c.ArgsLenAtDash() != 0 {
			return wrongly(c, errors.New("the server's command stands after --"))
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		conf, err := state.ReadConfig(*file)
		if err != nil {
			return err
		}
		server := mcp.Server{Name: *name, Command: args, Env: *env, Stderr: os.Stderr}
		return hold(c.Context(), a, conf, fronting([]mcp.Server{server}, *session, overStdio))
	}
	return c
}

func serve(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "put the kernel before MCP servers", Args: arguments(cobra.NoArgs),
		Long: "Be an MCP server whose tools are those of the configured servers that the policy allows: over\n" +
			"HTTP at /mcp of the address listen: {mcp: …}, 127.0.0.1:9191 without it, with /mcp/v1/capabilities,\n" +
			"/mcp/v1/execute, /helm/messages and /healthz; or with --stdio for one client. SIGHUP reads policy,\n" +
			"tokens and certificate again, and takes no policy that is faulty or older. SIGTERM ends it after the\n" +
			"calls that run, within the limit drain of the configuration; a second one ends it at once.",
	}
	file := configFlag(c)
	session := sessionFlag(c)
	stdio := c.Flags().Bool("stdio", false, "serve one client on stdin and stdout")
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := state.ReadConfig(*file)
		if err != nil {
			return err
		}
		servers, err := serversOf(conf)
		if err != nil {
			return err
		}
		face := face(overHTTP)
		switch {
		case *stdio:
			face = overStdio
		case *session != "":
			return wrongly(c, errors.New("--session is of --stdio: over HTTP clients name their sessions"))
		}
		return hold(c.Context(), a, conf, fronting(servers, *session, face))
	}
	return c
}

func sessionFlag(c *cobra.Command) *string {
	return c.Flags().String("session", "", "`NAME` of the session in the log; without it each process has its own")
}

// A held state is what a process serves.
type held struct {
	*state.State
	gateway *mcp.Gateway // nil: none
	who     *auth.Auth
	log     *slog.Logger
	export  *export

	mu    sync.Mutex
	again []func() error // what else is read again
	last  []func()       // what is closed before the state is
	ends  time.Time      // when what runs must have ended; zero: it does not end yet
}

// closes adds something that is closed when what was served has ended, or its time is over.
func (h *held) closes(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = append(h.last, f)
}

func (h *held) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.last {
		f()
	}
}

// A face serves until the context ends, and then until what runs has ended.
type face func(context.Context, *app, *held) error

// fronting returns a face with a gateway before MCP servers. Over stdio the session has this name;
// empty, it is a fresh one.
func fronting(servers []mcp.Server, session string, then face) face {
	return func(ctx context.Context, a *app, h *held) error {
		if err := h.front(servers, session); err != nil {
			return err
		}
		return then(ctx, a, h)
	}
}

// front puts a gateway before MCP servers.
func (h *held) front(servers []mcp.Server, session string) error {
	if session == "" {
		session = "mcp-" + strings.ToLower(rand.Text())
	}
	conf := h.Config()
	g, err := mcp.NewGateway(mcp.GatewayOptions{
		Kernel: h.Kernel(), Servers: servers, Prefix: conf.Prefix, Share: conf.Share, Log: h.log,
		Session: auth.SessionName(helm.Caller{}, session), Limits: h.who,
		Approvals: h.Approvals(), ApprovalWait: conf.ApprovalWait, Govern: conf.Govern, Telemetry: h.export.telemetry(),
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.gateway = g
	h.mu.Unlock()
	h.closes(func() { _ = g.Close() })
	return nil
}

// late returns when what runs must have ended. The time begins with the first call.
func (h *held) late() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends.IsZero() {
		h.ends = time.Now().Add(drainOf(h.Config()))
	}
	return h.ends
}

// rereads adds something that is read again at SIGHUP.
func (h *held) rereads(f func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.again = append(h.again, f)
}

// drainOf returns how long calls may take that run when the process ends.
func drainOf(c *state.Config) time.Duration {
	if c.Limits.Drain == 0 {
		return 30 * time.Second
	}
	return c.Limits.Drain
}

// hold opens the state directory, and serves until the context ends. What runs then has as long as
// the configuration says.
func hold(ctx context.Context, a *app, conf *state.Config, serves face) error {
	log := slog.New(slog.NewTextHandler(a.errs, nil))
	x, err := exporting(ctx, log)
	if err != nil {
		return err
	}
	defer x.flush(ctx)
	o := state.Options{Log: log}
	x.options(&o)
	s, err := state.Open(ctx, conf, o)
	if err != nil {
		return err
	}
	h := &held{State: s, log: log, export: x}
	if h.who, err = whoAsks(conf, s, log, x.telemetry()); err != nil {
		return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		signal.Reset(os.Interrupt, syscall.SIGTERM) // the second ends it at once
		select {
		case <-ended:
			return // by itself
		default:
			log.Info("it ends when no call runs; a second signal ends it at once", "within", drainOf(conf))
		}
		late := time.NewTimer(time.Until(h.late()))
		defer late.Stop()
		select {
		case <-late.C:
			h.close()
		case <-ended:
		}
	})
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		for range hup {
			h.reload(ctx)
		}
	}()
	err = serves(ctx, a, h)
	close(ended)
	signal.Stop(hup)
	close(hup)
	<-reloaded
	h.close()
	late := h.late()
	if least := time.Now().Add(time.Second); late.Before(least) {
		late = least // for a checkpoint
	}
	closing, cancel := context.WithDeadline(context.WithoutCancel(ctx), late)
	defer cancel()
	return errors.Join(err, s.Close(closing))
}

// reload reads again what may change. The state says what it has not taken.
func (h *held) reload(ctx context.Context) {
	err := h.Reload(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.gateway != nil {
		h.gateway.Changed()
	}
	for _, again := range h.again {
		if err := again(); err != nil {
			h.log.Error("reload", "error", err)
		}
	}
}

// overStdio serves one client.
func overStdio(ctx context.Context, a *app, h *held) error {
	err := h.gateway.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(a.stdin), Writer: output{a.stdout}})
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		if time.Now().After(h.late()) {
			return errCut
		}
		return nil // a signal, and what ran has ended
	case err != nil:
		return fmt.Errorf("the client: %w", err)
	}
	return nil
}

// errCut says that the time of the drain was not enough.
var errCut = errors.New("calls still ran when the time to end was over, and nobody knows what came of them: " +
	"limits: {drain: …} gives more")

type output struct{ io.Writer }

func (output) Close() error { return nil }
