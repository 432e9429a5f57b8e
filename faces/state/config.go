package state

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/keyed"
	"github.com/helmkernel/helm/policy"
)

// A Config is what a file helm.yaml says. Paths in it are absolute.
type Config struct {
	File   string   // helm.yaml itself
	Dir    string   // the state directory
	Policy []string // files of the policy

	Listen  Listen
	Proxy   Proxy
	Servers []Server // MCP servers, by their names

	Cert, Key      string // files of a certificate and its key; both, or none
	Plain          bool   // insecure_plain_http: beyond loopback without TLS
	Hosts, Origins []string

	SessionHeaders  []string
	SessionRequired bool
	SessionIdle     time.Duration // after which a face closes a session for good; 0: the face's default

	ApprovalWait time.Duration // how long a call waits for a person; 0: the face's default
	Prefix       bool          // tools are named server__tool with one server, too
	Share        bool          // one connection to a server for all clients
	Govern       bool          // resources: govern
	Issuer       string        // mcp.issuer: the issuer of tokens, as clients are told

	Limits Limits
}

// Listen are the addresses of faces, host:port. An empty one is not said.
type Listen struct{ Proxy, API, MCP string }

// An Upstream is where a model is asked.
type Upstream struct {
	URL string
	Key Secret
}

// A Server is an MCP server: a command that is run, or a URL.
type Server struct {
	Name    string
	Command []string
	Env     []string // names of variables that the command gets too
	URL     string
	Key     Secret // for the URL
}

// A Proxy is what the proxy does.
type Proxy struct {
	Upstreams map[string]Upstream // chat, responses, messages
	OnDeny    string              // rewrite or 403; empty: the face's default
	Members   []string            // that are passed on though they are not known
	Headers   []string            // of requests that are passed on, besides those that are known
}

// Limits are bounds of faces; 0 is the face's default.
type Limits struct {
	Denials        int           // denied calls of a caller, a minute
	Drain          time.Duration // from SIGTERM to the end; 30 s if it is not said
	Body           int           // bytes of a request
	Requests       int           // at once
	CallerRequests int           // at once of one caller
	Sessions       int           // of the log, of one caller; more are ended for good
	MCPSessions    int           // clients at once
	MCPIdle        time.Duration // after which a client's session ends
}

// A Secret says where a secret is. It is in no configuration.
type Secret struct{ Env, File string }

// Read returns the secret, or an error that names the place of it. The zero Secret is "".
func (s Secret) Read() (string, error) {
	switch {
	case s.Env != "":
		v := os.Getenv(s.Env)
		if v == "" {
			return "", fmt.Errorf("the environment has no %s: set it, or name a file by key_file", s.Env)
		}
		return v, nil
	case s.File != "":
		b, err := readWhole(s.File, private, 64<<10)
		if err != nil {
			return "", err
		}
		v := strings.TrimSpace(string(b))
		if v == "" || strings.ContainsAny(v, "\r\n") {
			return "", faulty(s.File, "it is not one line", "write the secret into it, and nothing else", nil)
		}
		return v, nil
	}
	return "", nil
}

const maxConfig = 1 << 20

// ReadConfig reads a file helm.yaml, which is as strict as a policy. All that is wrong with it is
// in the error, each with file, line, column, and what to write instead. Whether the files that it
// names are there is for Open to say.
func ReadConfig(file string) (*Config, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	b, err := readWhole(file, regular, maxConfig)
	if err != nil {
		return nil, err
	}
	doc, err := policy.Parse(file, b)
	if err != nil {
		return nil, err
	}
	r := &configReader{Reader: keyed.Reader{Doc: doc}, dir: filepath.Dir(file), c: &Config{File: file}}
	var tree crypto.Tree
	if err := tree.Parse(doc.Canonical, crypto.Limits{Bytes: len(doc.Canonical), Depth: crypto.MaxDepth}); err != nil {
		return nil, err
	}
	r.read(keyed.Node{V: tree.Root()})
	if err := r.Err(); err != nil {
		return nil, err
	}
	return r.c, nil
}

type configReader struct {
	keyed.Reader
	dir string
	c   *Config
}

var configKeys = []string{"helm", "dir", "policy", "listen", "upstreams", "servers", "tls",
	"insecure_plain_http", "hosts", "origins", "session_headers", "session_required", "session_idle", "approval_wait",
	"on_deny", "pass_members", "pass_headers", "prefix", "share", "resources", "mcp", "limits"}

func (r *configReader) read(p keyed.Node) {
	if !r.Object(p, configKeys...) {
		return
	}
	c := r.c
	if h, ok := r.Need(p, "helm", "write helm: config/v1"); ok && r.Text(h) != "config/v1" && len(r.Faults) == 0 {
		r.Refuse(h.At, "not config/v1", "write helm: config/v1; another version needs another helm")
	}
	if d, ok := r.Need(p, "dir", "write dir: and the state directory, such as state"); ok {
		c.Dir = r.path(d)
	}
	if l, ok := r.Need(p, "policy", "write policy: and a list of files"); ok {
		for _, e := range r.List(l) {
			if file := r.path(e); file != "" && slices.Contains(c.Policy, file) {
				r.Refuse(e.At, "the file is named twice", "name it once")
			} else {
				c.Policy = append(c.Policy, file)
			}
		}
	}
	r.listen(p.Get("listen"))
	r.upstreams(p.Get("upstreams"))
	r.servers(p.Get("servers"))
	if t := p.Get("tls"); t.Exists() && r.Object(t, "cert", "key") {
		r.Need(t, "cert", "name the certificate's file")
		r.Need(t, "key", "name the file of its key")
		c.Cert, c.Key = r.path(t.Get("cert")), r.path(t.Get("key"))
	}
	c.Plain = r.Flag(p.Get("insecure_plain_http"))
	c.Hosts, c.Origins = r.hosts(p.Get("hosts")), r.origins(p.Get("origins"))
	c.SessionHeaders = r.headers(p.Get("session_headers"))
	c.SessionRequired = r.Flag(p.Get("session_required"))
	if x := p.Get("session_idle"); x.Exists() {
		c.SessionIdle = r.short(x, 365*24*time.Hour)
	}
	if x := p.Get("on_deny"); x.Exists() {
		if c.Proxy.OnDeny = r.Text(x); c.Proxy.OnDeny != "rewrite" && c.Proxy.OnDeny != "403" {
			r.Refuse(x.At, "neither rewrite nor 403", `write on_deny: rewrite, or on_deny: "403"`)
		}
	}
	c.Proxy.Members, c.Proxy.Headers = r.members(p.Get("pass_members")), r.headers(p.Get("pass_headers"))
	c.ApprovalWait = r.short(p.Get("approval_wait"), 5*time.Minute)
	c.Prefix, c.Share = r.Flag(p.Get("prefix")), r.Flag(p.Get("share"))
	if x := p.Get("resources"); x.Exists() {
		c.Govern = r.Text(x) == "govern"
		if !c.Govern {
			r.Refuse(x.At, "not govern", "write resources: govern, or remove it")
		}
	}
	if m := p.Get("mcp"); m.Exists() && r.Object(m, "issuer") {
		if i, ok := r.Need(m, "issuer", "write the URL of who gives out tokens"); ok {
			c.Issuer = r.url(i)
		}
	}
	r.limits(p.Get("limits"))
}

// path reads the name of a file, relative to the configuration.
func (r *configReader) path(p keyed.Node) string {
	s := r.Text(p)
	switch {
	case s == "":
		return ""
	case strings.ContainsRune(s, 0):
		r.Refuse(p.At, "a name with a NUL", "write a file name")
		return ""
	case filepath.IsAbs(s):
		return filepath.Clean(s)
	}
	return filepath.Join(r.dir, s)
}

func (r *configReader) listen(p keyed.Node) {
	if !p.Exists() || !r.Object(p, "proxy", "api", "mcp") {
		return
	}
	l := &r.c.Listen
	l.Proxy, l.API, l.MCP = r.address(p.Get("proxy")), r.address(p.Get("api")), r.address(p.Get("mcp"))
}

func (r *configReader) address(p keyed.Node) string {
	s := r.Text(p)
	if s == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(s)
	n, perr := strconv.ParseUint(port, 10, 16)
	number := perr == nil && strconv.FormatUint(n, 10) == port
	if err != nil || !number || host == "" || strings.ContainsAny(host, " /@") {
		r.Refuse(p.At, "no address", `write host:port, such as "127.0.0.1:9090"`)
	}
	return s
}

func (r *configReader) upstreams(p keyed.Node) {
	kinds := []string{"chat", "responses", "messages"}
	if !p.Exists() || !r.Object(p, kinds...) {
		return
	}
	names, values := r.Members(p)
	for i, v := range values {
		if !slices.Contains(kinds, names[i]) || !r.Object(v, "url", "key_env", "key_file") {
			continue
		}
		var u Upstream
		if x, ok := r.Need(v, "url", "write the URL that paths are put after"); ok {
			u.URL = r.url(x)
		}
		u.Key = r.secret(v)
		if r.c.Proxy.Upstreams == nil {
			r.c.Proxy.Upstreams = map[string]Upstream{}
		}
		r.c.Proxy.Upstreams[names[i]] = u
	}
}

// url reads one that is https, or of this machine, and has neither user nor query nor fragment.
func (r *configReader) url(p keyed.Node) string {
	s := r.Text(p)
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(s, "?#"):
		r.Refuse(p.At, "no URL", `write it like "https://api.example/v1", without query and fragment`)
	case u.User != nil:
		r.Refuse(p.At, "a URL with a user", "name the secret by key_env or key_file")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		r.Refuse(p.At, "http beyond this machine", "write https")
	}
	return s
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *configReader) secret(p keyed.Node) Secret {
	s := Secret{r.variable(p.Get("key_env")), r.path(p.Get("key_file"))}
	if s.Env != "" && s.File != "" {
		r.Refuse(p.At, "key_env and key_file", "write one of them")
	}
	return s
}

// variable reads the name of an environment variable.
func (r *configReader) variable(p keyed.Node) string {
	s := r.Text(p)
	other := func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}
	if s != "" && (strings.ContainsFunc(s, other) || s[0] >= '0' && s[0] <= '9') {
		r.Refuse(p.At, "no name of a variable", "write its name alone; its value stands in no configuration")
		return ""
	}
	return s
}

// IsServer reports whether s is a name of an MCP server: [a-z0-9-]{1,32}.
func IsServer(s string) bool {
	other := func(c rune) bool { return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') }
	return s != "" && len(s) <= 32 && !strings.ContainsFunc(s, other)
}

func (r *configReader) servers(p keyed.Node) {
	names, values := r.Members(p)
	for i, v := range values {
		if !IsServer(names[i]) {
			r.Refuse(v.At, "no name of a server", "write 1 to 32 of a-z, 0-9 and -")
			continue
		}
		if !r.Object(v, "command", "env", "url", "key_env", "key_file") {
			continue
		}
		s := Server{Name: names[i], URL: r.url(v.Get("url")), Key: r.secret(v)}
		for _, e := range r.List(v.Get("command")) {
			if !r.Is(e, crypto.String) {
				continue
			}
			if strings.ContainsRune(e.V.Text(), 0) {
				r.Refuse(e.At, "a word with a NUL", "write it without")
			}
			s.Command = append(s.Command, e.V.Text())
		}
		for _, e := range r.List(v.Get("env")) {
			s.Env = append(s.Env, r.variable(e))
		}
		switch {
		case v.Get("command").Exists() == v.Get("url").Exists():
			r.Refuse(v.At, "a server has a command or a url", "write one of them")
		case s.URL != "" && v.Get("env").Exists():
			r.Refuse(v.Get("env").At, "env of a url", "remove it: no process is started")
		case len(s.Command) > 0 && s.Key != (Secret{}):
			r.Refuse(v.At, "a key of a command", "name a variable by env, which the command gets")
		case len(s.Command) > 0 && s.Command[0] == "":
			r.Refuse(v.Get("command").At, "no command", "write the program, then its arguments")
		}
		r.c.Servers = append(r.c.Servers, s)
	}
}

// hosts reads values of the header Host, each of which is one host.
func (r *configReader) hosts(p keyed.Node) []string {
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_'
	}
	list := r.Words(p)
	for i, s := range list {
		host, port := s, "1"
		if h, n, err := net.SplitHostPort(s); err == nil {
			host, port = h, n
		}
		n, err := strconv.ParseUint(port, 10, 16)
		address := net.ParseIP(strings.Trim(host, "[]")) != nil
		if s != "" && (err != nil || n == 0 || !address && (host == "" || strings.ContainsFunc(host, other))) {
			r.Refuse(p.At+"/"+strconv.Itoa(i), "no host", "write it exactly, like helm.example or helm.example:8080")
		}
	}
	return list
}

// headers reads names of headers that may name a session, or be passed on: not those that mean
// something else.
func (r *configReader) headers(p keyed.Node) []string {
	taken := []string{"authorization", "connection", "content-length", "content-type", "cookie", "helm-token",
		"helm-user", "host", "origin", "proxy-authorization", "transfer-encoding", "x-api-key"}
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	}
	list := r.Words(p)
	for i, s := range list {
		at := p.At + "/" + strconv.Itoa(i)
		if strings.ContainsFunc(s, other) {
			r.Refuse(at, "no name of a header", "write a name such as X-Session")
		} else if slices.Contains(taken, strings.ToLower(s)) {
			r.Refuse(at, "a header that says something else", "write a name such as X-Session")
		}
	}
	return list
}

// members reads names of members of JSON.
func (r *configReader) members(p keyed.Node) []string {
	list := r.Words(p)
	for i, s := range list {
		if strings.EqualFold(s, "helm") {
			r.Refuse(p.At+"/"+strconv.Itoa(i), "the member helm is HELM's own", "remove it")
		}
	}
	return list
}

func (r *configReader) origins(p keyed.Node) []string {
	list := r.Words(p)
	for i, s := range list {
		u, err := url.Parse(s)
		if s != "" && (err != nil || u.Scheme == "" || u.Host == "" || s != u.Scheme+"://"+u.Host) {
			r.Refuse(p.At+"/"+strconv.Itoa(i), "no origin", `write it exactly, like "https://app.example"`)
		}
	}
	return list
}

// written returns a duration of whole minutes as it is written in a configuration.
func written(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}

// short reads a duration up to most.
func (r *configReader) short(p keyed.Node, most time.Duration) time.Duration {
	d := r.Duration(p)
	if d > most {
		r.Refuse(p.At, "too long", "write "+written(most)+" or less")
	}
	return d
}

func (r *configReader) limits(p keyed.Node) {
	keys := []string{"denials", "drain", "body", "requests", "caller_requests", "sessions", "mcp_sessions", "mcp_idle"}
	if !p.Exists() || !r.Object(p, keys...) {
		return
	}
	l := &r.c.Limits
	for key, to := range map[string]*int{"denials": &l.Denials, "body": &l.Body, "requests": &l.Requests,
		"caller_requests": &l.CallerRequests, "sessions": &l.Sessions, "mcp_sessions": &l.MCPSessions} {
		x := p.Get(key)
		if !x.Exists() {
			continue
		}
		if n := r.Count(x, 1<<30); n > 0 {
			*to = int(n)
		} else if v, ok := x.V.Uint(); ok && v == 0 {
			r.Refuse(x.At, "0", "write 1 or more, or remove it")
		}
	}
	l.Drain, l.MCPIdle = r.short(p.Get("drain"), time.Hour), r.short(p.Get("mcp_idle"), 24*time.Hour)
}
