package state

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const wholeConfig = `helm: config/v1
dir: state
policy: [floor.yaml, /etc/bank.yaml]
listen: {proxy: "127.0.0.1:9090", api: "127.0.0.1:8080", mcp: "127.0.0.1:9191"}
upstreams:                                # chat has models and embeddings too
  chat:      {url: "https://api.openai.com/v1", key_env: OPENAI_API_KEY}
  responses: {url: "https://api.openai.com/v1", key_env: OPENAI_API_KEY}
  messages:  {url: "https://api.anthropic.com/v1", key_file: anthropic.key}
servers: {files: {command: [mcp-files, /srv/data], env: [TZ]}, crm: {url: "https://crm.example/mcp", key_env: CRM_TOKEN}}
session_required: true
on_deny: "403"
pass_members: [x_custom]
pass_headers: [X-Team]
limits: {denials: 120, drain: 30s}
tls: {cert: c.pem, key: k.pem}
insecure_plain_http: true
hosts: [helm.example]
origins: ["https://app.example"]
session_headers: [X-Session]
approval_wait: 2m
prefix: true
share: true
resources: govern
mcp: {issuer: "https://id.example"}
`

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "helm.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func TestConfig(t *testing.T) {
	t.Parallel()
	name := writeConfig(t, wholeConfig)
	at := func(s string) string { return filepath.Join(filepath.Dir(name), s) }
	c, err := ReadConfig(name)
	require.NoError(t, err)
	key := Secret{Env: "OPENAI_API_KEY"}
	assert.Equal(t, &Config{
		File: name, Dir: at("state"), Policy: []string{at("floor.yaml"), "/etc/bank.yaml"},
		Listen: Listen{"127.0.0.1:9090", "127.0.0.1:8080", "127.0.0.1:9191"},
		Proxy: Proxy{
			Upstreams: map[string]Upstream{
				"chat": {"https://api.openai.com/v1", key}, "responses": {"https://api.openai.com/v1", key},
				"messages": {"https://api.anthropic.com/v1", Secret{File: at("anthropic.key")}}},
			OnDeny: "403", Members: []string{"x_custom"}, Headers: []string{"X-Team"}},
		Servers: []Server{{Name: "crm", URL: "https://crm.example/mcp", Key: Secret{Env: "CRM_TOKEN"}},
			{Name: "files", Command: []string{"mcp-files", "/srv/data"}, Env: []string{"TZ"}}},
		Cert: at("c.pem"), Key: at("k.pem"), Plain: true, Hosts: []string{"helm.example"},
		Origins: []string{"https://app.example"}, SessionHeaders: []string{"X-Session"}, SessionRequired: true,
		ApprovalWait: 2 * time.Minute, Prefix: true, Share: true, Govern: true, Issuer: "https://id.example",
		Limits: Limits{Denials: 120, Drain: 30 * time.Second},
	}, c)
}

// TestConfigRefused: what is not as it should be is refused with its place and a remedy.
func TestConfigRefused(t *testing.T) {
	t.Parallel()
	const head = "helm: config/v1\ndir: state\npolicy: [p.yaml]\n"
	for text, want := range map[string]string{
		"":                               "helm.yaml:",
		"dir: state\npolicy: [p.yaml]\n": "1:1: no helm; write helm: config/v1",
		"helm: config/v2\ndir: s\npolicy: [p.yaml]\n":                                       "1:7: /helm: not config/v1",
		"helm: config/v1\npolicy: [p.yaml]\n":                                               "no dir",
		"helm: config/v1\ndir: s\n":                                                         "no policy",
		"helm: config/v1\ndir: s\npolicy: []\n":                                             "3:9: /policy: an empty list",
		"helm: config/v1\ndir: s\npolicy: p.yaml\n":                                         "3:9: /policy: is string; write a list",
		"helm: config/v1\ndir: 7\npolicy: [p]\n":                                            "2:6: /dir: is",
		"helm: config/v1\ndir: s\npolicy: [p, ./p]\n":                                       "3:13: /policy/1: the file is named twice",
		head + "dir: other\n":                                                               "4:1:",
		head + "Dir: other\n":                                                               `4:6: /Dir: unknown key "Dir"; did you mean dir?`,
		head + "listn: {}\n":                                                                "did you mean listen?",
		head + "key: sk-secret\n":                                                           `unknown key "key"`,
		head + "listen: {mcp: 9191}\n":                                                      "4:15: /listen/mcp: is",
		head + "listen: {mcp: \":9191\"}\n":                                                 "no address; write host:port",
		head + "listen: {mcp: \"localhost:http\"}\n":                                        "no address",
		head + "listen: {mcp: \"localhost:70000\"}\n":                                       "no address",
		head + "listen: {web: \"localhost:70\"}\n":                                          `unknown key "web"`,
		head + "upstreams: {chat: {key_env: K}}\n":                                          "no url",
		head + "upstreams: {chat: {url: \"http://api.example\"}}\n":                         "http beyond this machine; write https",
		head + "upstreams: {chat: {url: \"https://u:p@api.example\"}}\n":                    "a URL with a user",
		head + "upstreams: {chat: {url: \"https://api.example?k=1\"}}\n":                    "no URL",
		head + "upstreams: {chat: {url: \"file:///etc/passwd\"}}\n":                         "no URL",
		head + "upstreams: {chat: {url: \"https://a.example\", key: K}}\n":                  `unknown key "key"`,
		head + "upstreams: {chat: {url: \"https://a.example\", key_env: K, key_file: f}}\n": "write one of them",
		head + "upstreams: {chat: {url: \"https://a.example\", key_env: \"sk-1\"}}\n":       "no name of a variable",
		head + "upstreams: {gemini: {url: \"https://a.example\"}}\n":                        `unknown key "gemini"`,
		head + "servers: {Files: {command: [x]}}\n":                                         "no name of a server; write 1 to 32 of a-z, 0-9 and -",
		head + "servers: {a__b: {command: [x]}}\n":                                          "no name of a server",
		head + "servers: {" + strings.Repeat("a", 33) + ": {command: [x]}}\n":               "no name of a server",
		head + "servers: {a: {}}\n":                                                         "a server has a command or a url",
		head + "servers: {a: {command: [x], url: \"https://a.example\"}}\n":                 "a server has a command or a url",
		head + "servers: {a: {command: x}}\n":                                               "is string; write a list",
		head + "servers: {a: {command: [x], key_env: K}}\n":                                 "a key of a command",
		head + "servers: {a: {command: [x], env: [\"A=b\"]}}\n":                             "no name of a variable",
		head + "servers: {a: {url: \"https://a.example\", env: [TZ]}}\n":                    "env of a url",
		head + "on_deny: 403\n":                                                             "4:10:",
		head + "on_deny: maybe\n":                                                           "neither rewrite nor 403",
		head + "pass_members: [Helm]\n":                                                     "HELM's own",
		head + "pass_headers: [Cookie]\n":                                                   "says something else",
		head + "session_required: yes\n":                                                    "4:19:",
		head + "session_required: false\n":                                                  "false, which holds without it",
		head + "origins: [\"*\"]\n":                                                         "no origin",
		head + "origins: [\"https://a.example/\"]\n":                                        "no origin",
		head + "limits: {drain: 30}\n":                                                      "is number; write it like 5s",
		head + "limits: {drain: 2d}\n":                                                      "too long",
		head + "limits: {denials: 0}\n":                                                     "0; write 1 or more",
		head + "limits: {denials: -1}\n":                                                    "no number that can be",
		head + "approval_wait: 6m\n":                                                        "too long",
		head + "resources: pass\n":                                                          "not govern",
		head + "tls: {cert: c.pem}\n":                                                       "no key",
	} {
		name := writeConfig(t, text)
		c, err := ReadConfig(name)
		if assert.ErrorContains(t, err, want, "%q", text) {
			assert.ErrorContains(t, err, name+":")
		}
		assert.Nil(t, c)
	}
	_, err := ReadConfig(filepath.Join(t.TempDir(), "none.yaml"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadConfig(t.TempDir())
	assert.ErrorContains(t, err, "no regular file")
	_, err = ReadConfig(writeConfig(t, head+strings.Repeat("#", maxConfig)))
	assert.ErrorContains(t, err, "longer than")
}

// TestConfigSaysAll: all faults are named at once, in the order of the file.
func TestConfigSaysAll(t *testing.T) {
	t.Parallel()
	_, err := ReadConfig(writeConfig(t, "helm: config/v1\nx: 1\ndir: s\npolicy: [p]\ny: 2\n"))
	require.Error(t, err)
	assert.Regexp(t, `(?s):2:\d+: /x: .*:5:\d+: /y: `, err.Error())
}

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	read := func(s Secret) (string, error) { return s.Read() }
	require.NoError(t, os.WriteFile(file, []byte("sk-1\n"), 0o600))
	v, err := read(Secret{File: file})
	require.NoError(t, err)
	assert.Equal(t, "sk-1", v)
	require.NoError(t, os.Chmod(file, 0o640))
	_, err = read(Secret{File: file})
	require.ErrorContains(t, err, "chmod 600")
	assert.NotContains(t, err.Error(), "sk-1")
	require.NoError(t, os.Chmod(file, 0o600))
	for _, text := range []string{"", "\n", "a\nb"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = read(Secret{File: file})
		assert.ErrorContains(t, err, "not one line")
	}
	t.Setenv("HELM_TEST_SECRET", "")
	_, err = read(Secret{Env: "HELM_TEST_SECRET"})
	assert.ErrorContains(t, err, "HELM_TEST_SECRET: set it")
	t.Setenv("HELM_TEST_SECRET", "sk-2")
	v, err = read(Secret{Env: "HELM_TEST_SECRET"})
	require.NoError(t, err)
	assert.Equal(t, "sk-2", v)
	assert.NotContains(t, fmt.Sprint(Secret{Env: "HELM_TEST_SECRET"}), "sk-2")
	v, err = read(Secret{})
	assert.True(t, v == "" && err == nil)
}
