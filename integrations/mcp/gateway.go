package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/guardian"
)

// A Server is one that a [Gateway] stands before: a command, or the address of streamable HTTP.
type Server struct {
	Name    string   // [a-z0-9-]{1,32}
	Command []string // and its arguments
	Env     []string // names of variables that its process gets, besides PATH, HOME, LANG and TMPDIR
	Stderr  *os.File // of the process; nil: dropped

	URL string
	Key func() string // returns the token that is sent to URL; nil: none
}

// GatewayOptions configure a [Gateway].
type GatewayOptions struct {
	// Kernel judges the calls. It should have no drivers of its own (helm.Options.Drivers), because
	// a call of a tool that no server lists would reach them.
	Kernel  *helm.Kernel
	Servers []Server // none: there are no tools

	// Prefix names tools server__tool even if there is only one server.
	Prefix bool

	// Share has all clients use one connection to each server, and what it remembers.
	Share bool

	// Govern offers the servers' resources and prompts, too. To read a resource is a call of
	// server__resources/read with {uri}, and to get a prompt one of server__prompts/get with
	// {name, arguments}, whatever Prefix says. They are listed if the policy lets the caller call
	// it. A denial is an error of JSON-RPC, since their results have no form for one.
	Govern bool

	// Caller and Session are those of Run. Without a session each Run has one of its own.
	Caller  helm.Caller
	Session string

	// Approvals has the requests for approval that calls lack. The user of a client that offers
	// elicitation is told, and the call waits for an approver for ApprovalWait, 2 minutes if it is
	// zero. Nil: the denial names the request, and nobody is asked.
	Approvals    Approvals
	ApprovalWait time.Duration

	// ApprovalURL returns the page of a request. Nil: there is none.
	ApprovalURL func(nonce string) string

	// Limits says whether a caller may ask, and is told of each call that was denied. A call of one
	// who may not ask is not judged, and leaves no receipt. Use is called before a call is judged,
	// and done when it has ended, so that sessions that nobody uses are ended. Nil: all may, and
	// none is ended. *auth.Auth is one.
	Limits interface {
		MayAsk(helm.Caller) bool
		Denied(helm.Caller)
		Use(c helm.Caller, session string) (done func())
	}

	// Telemetry is told of each call, of how long its decision took, and of pinned tools that a
	// server lists otherwise. What it carries of a call's context goes to the server, as _meta.
	// Nil: nothing.
	Telemetry state.Telemetry

	Log *slog.Logger // nil: none
}

// A Gateway is an MCP server before others, whose tools it guards. What a client is shown, and may
// call, is what the policy lets the caller call, the servers list, and whose definition is the one
// that is pinned.
type Gateway struct {
	options GatewayOptions
	log     *slog.Logger
	tell    state.Telemetry
	shared  []*upstream
	now     func() time.Time

	mu      sync.Mutex
	closed  bool
	clients map[*client]bool
	own     []*upstream // to read lists for nobody's client; made when they are needed
}

const maxClients = 64

var serverName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// NewGateway returns a gateway. No server is started before a client needs it.
func NewGateway(o GatewayOptions) (*Gateway, error) {
	if o.Kernel == nil {
		return nil, errors.New("mcp: a gateway needs a kernel")
	}
	known := map[string]bool{}
	for _, s := range o.Servers {
		if err := s.check(); err != nil {
			return nil, err
		}
		if known[s.Name] {
			return nil, fmt.Errorf("mcp: two servers are named %s", s.Name)
		}
		known[s.Name] = true
	}
	g := &Gateway{options: o, log: o.Log, tell: state.Contained(o.Telemetry), now: time.Now,
		clients: map[*client]bool{}}
	g.options.Servers = slices.Clone(o.Servers)
	g.options.Prefix = o.Prefix || len(o.Servers) != 1
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if o.Share {
		g.shared = g.upstreams()
	}
	return g, nil
}

func (s Server) check() error {
	if !serverName.MatchString(s.Name) {
		return fmt.Errorf("mcp: the name of a server is [a-z0-9-]{1,32}, not %q", s.Name)
	}
	if (len(s.Command) > 0) == (s.URL != "") {
		return fmt.Errorf("mcp: server %s needs a command or a URL, and not both", s.Name)
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("mcp: the URL of server %s is none of http or https, without a password", s.Name)
		}
	}
	for _, name := range s.Env {
		if name == "" || strings.Contains(name, "=") || strings.HasPrefix(strings.ToUpper(name), "HELM_") {
			return fmt.Errorf("mcp: a variable of server %s has no name that may be passed on", s.Name)
		}
	}
	return nil
}

func (g *Gateway) upstreams() (list []*upstream) {
	for _, s := range g.options.Servers {
		u := newUpstream(s, g.changed)
		u.now = func() time.Time { return g.now() }
		list = append(list, u)
	}
	return list
}

// changed logs the tools that are pinned and not as they were pinned, and has the clients list
// again.
func (g *Gateway) changed(u *upstream, was, is *listing) {
	if p := g.options.Kernel.Policy(); p != nil {
		g.warn(p, u.server, was, is)
	}
	if was == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.clients {
		if slices.Contains(c.upstreams, u) {
			c.tell()
		}
	}
}

// warn logs the pinned tools that a list has otherwise than the list before, or not at all.
func (g *Gateway) warn(p *guardian.Policy, s Server, was, is *listing) {
	if was == nil {
		was = &listing{}
	}
	for name, t := range is.tools {
		pin, pinned := p.Definition(g.name(s, name))
		if pinned && pin != t.digest && was.tools[name].digest != t.digest {
			g.log.Warn("the definition of a tool is not the pinned one: it is hidden", "tool", g.name(s, name),
				"pinned", pin.String(), "published", t.digest.String())
			g.tell.Tell(state.Fact{Kind: state.Drifted, Name: s.Name})
		}
	}
	for name := range was.tools {
		if _, pinned := p.Definition(g.name(s, name)); pinned && is.tools[name].entry == nil {
			g.log.Warn("a pinned tool is not listed any more, or cannot be read", "tool", g.name(s, name))
			g.tell.Tell(state.Fact{Kind: state.Drifted, Name: s.Name})
		}
	}
}

// Changed has all clients list again, as after helm.Kernel.Swap.
func (g *Gateway) Changed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.clients {
		c.tell()
	}
}

// name returns the name that a server's tool has here.
func (g *Gateway) name(s Server, own string) string {
	if g.options.Prefix {
		return s.Name + "__" + own
	}
	return own
}

var errFull = refusal(jsonrpc.CodeInternalError, "64 clients are connected, and no more may be")

// Run serves one client until it is gone, or the context ends: then no new call is taken, and it
// returns when those that run have ended, or are ended by Close.
func (g *Gateway) Run(ctx context.Context, t sdk.Transport) error {
	session := g.options.Session
	if session == "" {
		session = "mcp-" + strings.ToLower(rand.Text())
	}
	c, err := g.open(g.options.Caller, session, "")
	if err != nil {
		return err
	}
	defer c.close()
	d := &drained{Transport: t, still: make(chan struct{})}
	client, err := c.server.Connect(context.WithoutCancel(ctx), d, nil)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		d.drain(c.ctx.Done())
		_ = client.Close()
	})()
	if err = client.Wait(); ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Close ends all connections. When it returns no process of a server is left.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	clients := make([]*client, 0, len(g.clients))
	for c := range g.clients {
		clients = append(clients, c)
	}
	own := g.own
	g.mu.Unlock()
	for _, c := range clients {
		c.close()
	}
	closeAll(g.shared)
	closeAll(own)
	return nil
}

func closeAll(list []*upstream) {
	var all sync.WaitGroup
	for _, u := range list {
		all.Go(u.close)
	}
	all.Wait()
}

// A client is one session of a client, and its connections.
type client struct {
	gateway   *Gateway
	caller    helm.Caller
	session   string
	id        string // of the server's sessions
	server    *sdk.Server
	upstreams []*upstream
	ctx       context.Context
	end       context.CancelFunc
	once      sync.Once
}

// open returns a new session of a client, whose id the server's sessions have. Nothing is started
// yet.
func (g *Gateway) open(who helm.Caller, session, id string) (*client, error) {
	c := &client{gateway: g, caller: who, session: session, id: id, upstreams: g.shared}
	c.ctx, c.end = context.WithCancel(context.Background())
	offered := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}}
	if g.options.Govern {
		offered.Resources, offered.Prompts = &sdk.ResourceCapabilities{}, &sdk.PromptCapabilities{}
	}
	c.server = sdk.NewServer(&sdk.Implementation{Name: "helm", Version: "1"}, &sdk.ServerOptions{
		Capabilities: offered,
		GetSessionID: func() string { return id },
	})
	c.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			return c.handle(ctx, next, method, r)
		}
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(g.clients) >= maxClients {
		return nil, errFull
	}
	if c.upstreams == nil {
		c.upstreams = g.upstreams()
	}
	g.clients[c] = true
	return c, nil
}

// close ends the client's calls, and its connections.
func (c *client) close() {
	c.once.Do(func() {
		c.end()
		for s := range c.server.Sessions() {
			go s.Close() // which waits for its calls
		}
		if c.gateway.shared == nil {
			closeAll(c.upstreams)
		}
		c.gateway.mu.Lock()
		delete(c.gateway.clients, c)
		c.gateway.mu.Unlock()
	})
}

// tell has the client list again. The SDK tells it when a tool is added; this one is never listed.
func (c *client) tell() {
	c.server.AddTool(&sdk.Tool{Name: "helm", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, errDown })
}

// quiet are methods that reach no server.
var quiet = []string{"subscriptions/listen", "notifications/roots/list_changed"}

func (c *client) handle(
	ctx context.Context, next sdk.MethodHandler, method string, r sdk.Request,
) (sdk.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	switch q := r.(type) {
	case *sdk.CallToolRequest:
		return c.callTool(ctx, q)
	case *sdk.ListToolsRequest:
		return c.listTools(ctx, q)
	}
	if result, known, err := c.governed(ctx, r); known {
		return result, err
	}
	if slices.Contains(passed, method) || slices.Contains(quiet, method) {
		return next(ctx, method, r)
	}
	return nil, refusal(jsonrpc.CodeMethodNotFound, "not offered")
}

// A shown tool is an entry as clients get it.
type shown struct {
	name   string // that it has here
	raw    json.RawMessage
	digest contracts.Digest // of its definition
	tool   guardian.Tool
}

// visible returns the tools that the client is shown.
func (c *client) visible(ctx context.Context) ([]shown, error) {
	p := c.gateway.options.Kernel.Policy()
	if p == nil {
		return nil, refusal(jsonrpc.CodeInternalError, "there is no list of tools")
	}
	callable := map[string]guardian.Tool{}
	for _, t := range p.Callable(c.caller) {
		callable[t.Name] = t
	}
	lists := make([]*listing, len(c.upstreams))
	var all sync.WaitGroup
	for i, u := range c.upstreams {
		all.Go(func() { lists[i], _ = u.tools(ctx) })
	}
	all.Wait()
	list := []shown{}
	for i, l := range lists {
		if l == nil {
			continue
		}
		for _, own := range l.order {
			t, listed := l.tools[own]
			name := c.gateway.name(c.upstreams[i].server, own)
			declared, ok := callable[name]
			if !listed || !ok || c.gateway.reserved(name) {
				continue
			}
			if declared.Definition != (contracts.Digest{}) && declared.Definition != t.digest {
				continue
			}
			raw := json.RawMessage(t.entry)
			if name != own {
				members := make(map[string]json.RawMessage, len(t.members))
				for k, v := range t.members {
					members[k] = v
				}
				var err error
				if members["name"], err = encode(name); err != nil {
					return nil, err
				}
				if raw, err = encode(members); err != nil {
					return nil, err
				}
			}
			list = append(list, shown{name, raw, t.digest, declared})
		}
	}
	return list, nil
}

// A toolList goes to the client from the bytes that were hashed. It may be a list of other things.
type toolList struct {
	*sdk.ListToolsResult
	member string // that has the entries; "": tools
	tools  []json.RawMessage
	since  bool // 2026-07-28
}

func (l *toolList) MarshalJSON() ([]byte, error) {
	members := map[string]any{cmp.Or(l.member, "tools"): l.tools}
	if l.since {
		members["resultType"], members["ttlMs"], members["cacheScope"] = "complete", 0, "private"
	}
	if len(l.Meta) > 0 {
		members["_meta"] = l.Meta
	}
	return encode(members)
}

// stateless is the version of the protocol since which results say what they are.
const stateless = "2026-07-28"

// listTools answers with all tools in one page.
func (c *client) listTools(ctx context.Context, r *sdk.ListToolsRequest) (sdk.Result, error) {
	if r.Params != nil && r.Params.Cursor != "" {
		return nil, refusal(jsonrpc.CodeInvalidParams, "the list has one page")
	}
	list, err := c.visible(ctx)
	if err != nil {
		return nil, err
	}
	result := &toolList{ListToolsResult: &sdk.ListToolsResult{}, tools: []json.RawMessage{}}
	result.since = r.ProtocolVersion() >= stateless
	for _, t := range list {
		result.tools = append(result.tools, t.raw)
	}
	return result, nil
}

// find returns the connection that a tool is called over, and the server's own name of the tool.
func (c *client) find(name string) (u *upstream, own string) {
	if c.gateway.reserved(name) {
		return nil, ""
	}
	if !c.gateway.options.Prefix {
		return c.upstreams[0], name
	}
	server, own, _ := strings.Cut(name, "__")
	for _, u := range c.upstreams {
		if u.server.Name == server {
			return u, own
		}
	}
	return nil, ""
}

func (c *client) callTool(ctx context.Context, r *sdk.CallToolRequest) (sdk.Result, error) {
	if r.Params == nil {
		return nil, refusal(jsonrpc.CodeInvalidParams, "no call of a tool")
	}
	ctx, done := c.gateway.tell.Call(ctx, c.traced(r))
	failure := "" // of the span
	defer func() { done(failure) }()
	limits := c.gateway.options.Limits
	if limits != nil && !limits.MayAsk(c.caller) {
		failure = refusedUnjudged
		c.gateway.tell.Tell(state.Fact{Kind: state.Refused, Name: refusedUnjudged})
		return denial("Too many calls were denied. Try again in a minute.", helm.Decision{})
	}
	how, finish := c.progress(ctx, r)
	defer finish()
	d, receipt, pinned := c.judge(ctx, r.Params.Name, r.Params.Arguments, how)
	if d.Pending != nil {
		again, asked, err := c.await(ctx, r, d.Pending.Nonce)
		if err != nil || asked != nil {
			return asked, err
		}
		if again {
			d, receipt, pinned = c.judge(ctx, r.Params.Name, r.Params.Arguments, how)
		}
	}
	if limits != nil && receipt.Record.Outcome == contracts.Denied {
		limits.Denied(c.caller)
	}
	if d.Reason != contracts.ReasonAllow {
		failure = string(d.Reason)
	}
	return told(d, receipt, pinned)
}

// call judges a call and runs it if it is allowed.
func (c *client) call(ctx context.Context, tool string, args json.RawMessage) (helm.Decision, helm.Receipt) {
	d, r, _ := c.judge(ctx, tool, args, nil)
	return d, r
}

// judge is call, with progress. It also reports whether the output is pinned, and is that alone.
func (c *client) judge(
	ctx context.Context, tool string, args json.RawMessage, how progress,
) (helm.Decision, helm.Receipt, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if len(args) == 0 {
		args = json.RawMessage("{}") // the protocol lets them out
	}
	return c.guard(ctx, tool, args, c.reach(ctx, tool, how, cancel))
}

// reach returns the driver of a call: of the server that has the tool now, or of none.
func (c *client) reach(ctx context.Context, tool string, how progress, cancel context.CancelFunc) *forward {
	f := &forward{tell: c.gateway.tell, how: how, cancel: cancel}
	if u, own := c.find(tool); u != nil {
		if l, err := u.tools(ctx); err == nil {
			if t, ok := l.tools[own]; ok {
				f.upstream, f.own, f.digest = u, own, t.digest
			}
		}
	}
	return f
}

// guard has the kernel judge a call, with the answers of approvers. Without an upstream it has no
// driver.
func (c *client) guard(
	ctx context.Context, tool string, args json.RawMessage, f *forward,
) (helm.Decision, helm.Receipt, bool) {
	k := c.gateway.options.Kernel
	if limits := c.gateway.options.Limits; limits != nil {
		defer limits.Use(c.caller, c.session)()
	}
	in := helm.Intent{Tool: tool, Args: args, Caller: c.caller, Session: c.session}
	if p := k.Policy(); p != nil {
		f.structured = p.HasOutput(tool) && f.method == ""
		if a := c.gateway.options.Approvals; a != nil {
			in.Approvals = a.For(ctx, c.caller, c.session, tool, args, p.Hash())
		}
	}
	if f.upstream != nil {
		in.Driver = c.gateway.spanned(f)
	}
	f.begin()
	d, r := k.Guard(ctx, in)
	f.judged()
	c.ask(&d)
	return d, r, f.structured
}

// progress returns what passes on how far the call is, in numbers and ten times a second, and what
// ends that, before the result goes out. Up to eight steps wait, and more are dropped.
func (c *client) progress(ctx context.Context, r *sdk.CallToolRequest) (how progress, finish func()) {
	token := r.Params.GetProgressToken()
	if token == nil || r.Session == nil {
		return nil, func() {}
	}
	type step struct{ done, total float64 }
	steps, end, ended := make(chan step, 8), make(chan struct{}), make(chan struct{})
	pass := func(s step) {
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: s.done, Total: s.total})
	}
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-steps:
				pass(s)
			case <-end:
				for range len(steps) {
					pass(<-steps)
				}
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-end:
			}
		}
	}()
	how = func(done, total float64) {
		select {
		case steps <- step{done, total}:
		default:
		}
	}
	return how, func() { close(end); <-ended }
}
