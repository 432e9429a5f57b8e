package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/faces/api"
	"github.com/helmkernel/helm/faces/proxy"
	"github.com/helmkernel/helm/faces/state"
)

// proxyAddress is where proxy listens if the configuration does not say.
const proxyAddress = "127.0.0.1:9090"

func proxied(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "proxy", Short: "put the kernel between an app and the API of a model", Args: arguments(cobra.NoArgs),
		Long: "Stand between an app and the upstreams of the configuration: the app's base URL is then\n" +
			"http://127.0.0.1:9090/v1, or the address listen: {proxy: …}. Calls of tools that a model proposes are\n" +
			"judged before the app sees them, in chat completions, responses and messages, streamed or not; the\n" +
			"app runs what was allowed, and its results are recorded. SIGHUP reads policy, tokens and certificate\n" +
			"again, and takes no policy that is faulty or older. SIGTERM ends it after the answers that run, within\n" +
			"the limit drain of the configuration; a second one ends it at once. See docs/proxy.md.",
	}
	file := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := state.ReadConfig(*file)
		if err != nil {
			return err
		}
		if len(conf.Proxy.Upstreams) == 0 {
			return fmt.Errorf("%s: it names no upstreams: write upstreams: and under chat, responses or messages "+
				`a url, such as "https://api.openai.com/v1"`, conf.File)
		}
		return hold(c.Context(), a, conf, overProxy)
	}
	return c
}

// overProxy serves apps until the context ends and what runs has ended.
func overProxy(ctx context.Context, a *app, h *held) error {
	p, err := h.proxy()
	if err != nil {
		return err
	}
	defer p.Close()
	reads, err := api.New(api.Options{Kernel: h.Kernel(), Store: h.Store(), Key: h.Key(), Auth: h.who, ReadOnly: true})
	if err != nil {
		return err
	}
	conf := h.Config()
	address := conf.Listen.Proxy
	if address == "" {
		address = proxyAddress
	}
	l, err := h.listens(ctx, address)
	if err != nil {
		return err
	}
	defer l.Close()
	in := routes{"/v1/": p, "/helm/messages": h.who.Messages(h.Kernel()), "/": reads}
	asks := state.AsksForSession(h.Kernel().Policy())
	fmt.Fprint(a.errs, banner(conf, mcpURL(conf, l.Addr().String()))+advice(conf, h.Tokens().Any(), asks))
	return h.overWeb(ctx, l, newDoor(h.lets(in), h.unwell))
}

// proxy returns the handler of the upstreams.
func (h *held) proxy() (*proxy.Proxy, error) {
	conf := h.Config()
	up := map[string]proxy.Upstream{}
	for name, u := range conf.Proxy.Upstreams {
		one := proxy.Upstream{URL: u.URL}
		if u.Key != (state.Secret{}) {
			if _, err := u.Key.Read(); err != nil {
				return nil, fmt.Errorf("the upstream of %s: %w", name, err)
			}
			one.Key = u.Key.Read
		}
		up[name] = one
	}
	return proxy.New(proxy.Options{
		Kernel: h.Kernel(), Desk: h.Desk(), Auth: h.who,
		Chat: up["chat"], Responses: up["responses"], Messages: up["messages"],
		OnDeny: conf.Proxy.OnDeny, Approvals: h.Approvals(), ApprovalWait: conf.ApprovalWait,
		Index: filepath.Join(conf.Dir, "calls.idx"), Idle: conf.SessionIdle,
		Members: conf.Proxy.Members, Headers: conf.Proxy.Headers, Telemetry: h.export.telemetry(),
	})
}

// proxyPaths are those of calls, by the upstream that answers.
var proxyPaths = []struct{ api, path string }{
	{"chat", "/v1/chat/completions"}, {"responses", "/v1/responses"}, {"messages", "/v1/messages"},
}

// banner says what is governed at an address, and what is not.
func banner(c *state.Config, base string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "helm proxy at %s\n\nGoverned: calls of tools in the answers to\n", base)
	for _, x := range proxyPaths {
		if u, ok := c.Proxy.Upstreams[x.api]; ok {
			fmt.Fprintf(&b, "  POST %-21s from %s\n", x.path, u.URL)
		}
	}
	b.WriteString("Not governed: what an app runs without asking a model here, calls that a model writes into\n" +
		"its text, and single uses of what the provider runs itself, permitted once in each request.\n")
	return b.String()
}

// advice says what the policy, and who asks, need of those who ask.
func advice(c *state.Config, tokens, asks bool) string {
	var b strings.Builder
	switch {
	case c.SessionRequired:
		headers := c.SessionHeaders
		if headers == nil {
			headers = []string{"Helm-Session"}
		}
		fmt.Fprintf(&b, "Each request names its session: by the header %s, or the calls that it is about.\n",
			strings.Join(slices.Clone(headers), ", or "))
	case asks:
		b.WriteString("The policy asks what a session had, and a request that names none may begin another: have\n" +
			"apps send the header Helm-Session, and write session_required: true.\n")
	}
	if !tokens {
		b.WriteString("There are no tokens: whoever can log in to this machine may ask.\n")
	}
	return b.String() + "\n"
}
