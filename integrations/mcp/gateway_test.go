package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// TestMain runs this binary as a server, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "as-server" {
		serve(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// A fake is a server that does what servers should not do. It writes its messages by hand.
type fake struct {
	mu     sync.Mutex
	dir    string // of files that tell the test what happened
	listed string // the entries
}

const entries = `{"name":"echo","inputSchema":{"type":"object"}},` +
	`{"name":"bad","inputSchema":{"type":"object"}},{"name":"hidden","inputSchema":{"type":"object"}},` +
	`{"name":"typed","inputSchema":{"type":"object"}}`

const payEntry = `{"name":"pay","inputSchema":{"type":"object"}}`

const pinnedEntry = `{"name":"pinned","description":"as pinned <&>","inputSchema":{"type":"object"},"x-n":1.50}`

func serve(args []string) {
	f := &fake{dir: args[0], listed: entries + "," + pinnedEntry + "," + payEntry}
	if len(args) > 1 {
		f.listed = args[1]
	}
	f.note("started", strconv.Itoa(os.Getpid()))
	f.note("env", strings.Join(os.Environ(), "\n"))
	in := bufio.NewReader(os.Stdin)
	for {
		text, err := in.ReadString('\n')
		if err != nil {
			return
		}
		f.note("in", text)
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
				Meta      struct {
					ProgressToken json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if json.Unmarshal([]byte(text), &m) != nil || m.ID == nil || m.Method == "" {
			continue
		}
		switch m.Method {
		case "initialize":
			f.result(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}`)
		case "tools/list":
			b, err := os.ReadFile(filepath.Join(f.dir, "list"))
			if err == nil {
				f.listed = string(b)
			}
			f.result(m.ID, `{"tools":[`+f.listed+`]}`)
		case "resources/list":
			f.result(m.ID, `{"resources":[{"uri":"a:1","name":"one","x-n":1.50},{"uri":"a:2","name":"two"},{"uri":"a:2","name":"eve"}]}`)
		case "resources/templates/list":
			f.result(m.ID, `{"resourceTemplates":[{"uriTemplate":"a:{n}","name":"any"}]}`)
		case "prompts/list":
			f.result(m.ID, `{"prompts":[{"name":"greet"}]}`)
		case "resources/read":
			f.result(m.ID, `{"contents":[{"uri":"a:1","text":"read"}]}`)
		case "prompts/get":
			f.result(m.ID, `{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}`)
		case "tools/call":
			go f.call(m.ID, m.Params.Arguments, m.Params.Meta.ProgressToken)
		default:
			f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		}
	}
}

func (f *fake) note(file, what string) {
	o, err := os.OpenFile(filepath.Join(f.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(o, strings.TrimSpace(what))
		o.Close()
	}
}

func (f *fake) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

func (f *fake) result(id json.RawMessage, result string) {
	f.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

const fine = `{"content":[{"type":"text","text":"fine"}]}`

// call does what the member "do" of the arguments says.
func (f *fake) call(id, args, token json.RawMessage) {
	var a struct {
		Do, Result string
	}
	json.Unmarshal(args, &a)
	switch a.Do {
	case "":
		f.result(id, fine)
	case "result":
		f.result(id, a.Result)
	case "error":
		f.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"SECRET words"}}`, id)
	case "die":
		os.Exit(3)
	case "answer and die":
		f.result(id, fine)
		os.Exit(3)
	case "hang":
	case "twice":
		f.result(id, fine)
		f.result(id, `{"content":[{"type":"text","text":"second"}]}`)
	case "other id":
		f.result(json.RawMessage("4711"), fine)
		f.result(json.RawMessage(`"`+string(id)+`"`), fine)
		f.result(json.RawMessage("null"), fine)
	case "100 MiB":
		f.mu.Lock()
		fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
		part := strings.Repeat("x", 1<<20)
		for range 100 {
			io.WriteString(os.Stdout, part)
		}
		fmt.Fprintf(os.Stdout, "\"}]}}\n")
		f.mu.Unlock()
	case "flood":
		for {
			f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"SECRET words"}}`)
		}
	case "words":
		f.say(`printed, and no message`)
		f.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"SECRET words"}}`)
		f.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"SECRET words"}}`, token)
		f.say(`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
		f.say(`{"jsonrpc":"2.0","id":"s2","method":"elicitation/create","params":{"message":"SECRET words"}}`)
		f.say(`{"jsonrpc":"2.0","id":"s3","method":"roots/list"}`)
		time.Sleep(300 * time.Millisecond)
		f.result(id, fine)
	case "grandchild":
		c := exec.Command("sleep", "1000")
		c.Stdout = os.Stdout // which it holds
		if c.Start() == nil {
			f.note("grandchild", strconv.Itoa(c.Process.Pid))
		}
		os.Exit(0)
	case "changed":
		f.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		f.result(id, fine)
	}
}

const gatePolicy = `
helm: policy/v1
layer: P1
bundle: {name: gate, version: 1}
tools:
  PREecho: {effect: read, input: {type: object, properties: {do: {type: string}, result: {type: string}, n: {type: number}, text: {type: string}}}}
  PREbad: {effect: read, input: {type: object, properties: {do: {type: string}, result: {type: string}, n: {type: number}, text: {type: string}}}}
  PREtyped:
    effect: read
    input: {type: object, properties: {do: {type: string}, result: {type: string}, n: {type: number}, text: {type: string}}}
    output: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  PREpinned: {effect: read, input: {type: object}, definition: "DEFINITION"}
  PREhidden: {effect: read, input: {type: object}}
  PREgone: {effect: read, input: {type: object}}
  fake__resources/read: {effect: read, input: {type: object, properties: {uri: {type: string, enum: ["a:1"]}}}}
  fake__prompts/get:
    effect: read
    input:
      type: object
      properties: {name: {type: string}, arguments: {type: object, properties: {who: {type: string}}}}
  PREpay: {effect: read, input: {type: object, properties: {n: {type: number}}}}
rules:
  - {id: all, allow: [fake__resources/read, fake__prompts/get, PREecho, PREbad, PREtyped, PREpinned, PREgone, PREpay]}
requires:
  - {id: payments, tools: [PREpay], all: [{approval: {roles: [owner], ttl: 15m}}]}
`

// A gate is a gateway before fakes, its log and its clients.
type gate struct {
	*testing.T
	kernel  *helm.Kernel
	store   proofgraph.Store
	gateway *Gateway
	dir     string // of the first fake
	logged  *lines
}

type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(b) }
func (l *lines) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func gateKernel(t *testing.T, prefix string) (*helm.Kernel, proofgraph.Store) {
	t.Helper()
	pin, err := contracts.DefinitionOf([]byte(pinnedEntry))
	require.NoError(t, err)
	source := strings.NewReplacer("PRE", prefix, "DEFINITION", pin.String()).Replace(gatePolicy)
	doc, err := policy.Parse("gate.yaml", []byte(source))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.NewKeyFromSeed(make([]byte, 32))
	require.NoError(t, err)
	store := proofgraph.NewMemory()
	owner, err := crypto.NewKeyFromSeed([]byte(strings.Repeat("a", 32)))
	require.NoError(t, err)
	public, err := crypto.PublicOf(owner)
	require.NoError(t, err)
	trust, err := registry.New(0, registry.Key{Name: "ann", Public: public, Role: registry.Approver, Roles: []string{"owner"}})
	require.NoError(t, err)
	k, err := helm.New(helm.Options{Policy: p, Key: key, Origin: "gate", Store: store, Trust: trust})
	require.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	return k, store
}

func fakeServer(dir string, listed ...string) Server {
	exe, _ := os.Executable()
	return Server{Name: "fake", Command: append([]string{exe, "as-server", dir}, listed...)}
}

func newGate(t *testing.T, change func(*GatewayOptions)) *gate {
	t.Helper()
	g := &gate{T: t, dir: t.TempDir(), logged: &lines{}}
	o := GatewayOptions{Servers: []Server{fakeServer(g.dir)}}
	if change != nil {
		change(&o)
	}
	prefix := ""
	if o.Prefix || len(o.Servers) > 1 {
		prefix = "fake__"
	}
	g.kernel, g.store = gateKernel(t, prefix)
	o.Kernel = g.kernel
	if o.Log == nil {
		o.Log = textLog(g.logged)
	}
	var err error
	g.gateway, err = NewGateway(o)
	require.NoError(t, err)
	t.Cleanup(func() { g.gateway.Close() })
	return g
}

// connect connects a client.
func (g *gate) connect(o *sdk.ClientOptions) *sdk.ClientSession {
	g.Helper()
	return g.connectOver(o, func(t sdk.Transport) sdk.Transport { return t })
}

func (g *gate) connectOver(o *sdk.ClientOptions, over func(sdk.Transport) sdk.Transport) *sdk.ClientSession {
	g.Helper()
	near, far := sdk.NewInMemoryTransports()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.gateway.Run(context.Background(), far)
	}()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "model", Version: "1"}, o).Connect(g.Context(), over(near), nil)
	require.NoError(g, err)
	g.Cleanup(func() { c.Close(); <-done })
	return c
}

func (g *gate) call(c *sdk.ClientSession, tool, args string) (*sdk.CallToolResult, string) {
	g.Helper()
	params := &sdk.CallToolParams{Name: tool}
	if args != "" {
		params.Arguments = json.RawMessage(args)
	}
	r, err := c.CallTool(g.Context(), params)
	require.NoError(g, err, "a denial is a result")
	require.Len(g, r.Content, 1)
	return r, r.Content[0].(*sdk.TextContent).Text
}

func (g *gate) receipts() []contracts.Receipt {
	g.Helper()
	return (&shop{T: g.T, kernel: g.kernel, store: g.store}).receipts()
}

func (g *gate) last() contracts.Receipt {
	g.Helper()
	all := g.receipts()
	require.NotEmpty(g, all)
	return all[len(all)-1]
}

func (g *gate) noted(file string) string {
	b, _ := os.ReadFile(filepath.Join(g.dir, file))
	return string(b)
}

func (g *gate) names(c *sdk.ClientSession) (list []string) {
	g.Helper()
	r, err := c.ListTools(g.Context(), nil)
	require.NoError(g, err)
	for _, t := range r.Tools {
		list = append(list, t.Name)
	}
	return list
}

// TestGateway: what is allowed goes to the server once, with the bytes that were judged; what is
// not, does not, and leaves a receipt.
func TestGateway(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	c := g.connect(nil)
	assert.Equal(t, []string{"echo", "bad", "typed", "pinned", "pay"}, g.names(c))
	r, said := g.call(c, "echo", " { \"text\":\"<&>\u2028\", \"n\":1.0 }")
	assert.True(t, !r.IsError && said == "fine")
	assert.Contains(t, g.noted("in"), "\"arguments\":{\"n\":1,\"text\":\"<&>\u2028\"}")
	g.call(c, "echo", "")
	assert.Contains(t, g.noted("in"), `"arguments":{},"name":"echo"`)
	_, said = g.call(c, "pinned", `{}`)
	assert.Equal(t, "fine", said)
	sent := strings.Count(g.noted("in"), "tools/call")
	require.Equal(t, 3, sent)
	for _, x := range []struct{ tool, args string }{
		{"hidden", `{}`},
		{"gone", `{}`},
		{"none", `{}`},
		{"fake__echo", `{}`},
		{"a b\x1b[2J", `{}`},
		{"bad", `{"text":"a","text":"b"}`},
		{"bad", `{"text":"a","Text":"b"}`},
		{"bad", `{"n":9007199254740993}`},
		{"bad", `{"unknown":1}`},
		{"bad", `null`},
		{"bad", `[]`},
	} {
		before := len(g.receipts())
		r, said := g.call(c, x.tool, x.args)
		assert.True(t, r.IsError && strings.Contains(said, " was denied: "), "%v: %s", x, said)
		verdict := r.Meta["helmkernel/verdict"].(map[string]any)
		assert.Equal(t, "DENY", verdict["verdict"])
		all := g.receipts()
		require.Len(t, all, before+1, "%v", x)
		assert.Equal(t, contracts.Denied, all[before].Outcome)
	}
	assert.Equal(t, sent, strings.Count(g.noted("in"), "tools/call"))
	for _, f := range []func() error{
		func() error {
			_, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet"})
			return err
		},
		func() error {
			_, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "file:///a"})
			return err
		},
		func() error { _, err := c.Complete(t.Context(), &sdk.CompleteParams{}); return err },
	} {
		assert.Error(t, f())
	}
	resources, err := c.ListResources(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, resources.Resources, "nothing is offered, and the list says so")
	prompts, err := c.ListPrompts(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, prompts.Prompts)
	for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
		assert.NotContains(t, g.noted("in"), method, "nor is the server asked")
	}
	require.NoError(t, c.Ping(t.Context(), nil))
}

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// soon waits for a condition, for long.
func soon(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}
