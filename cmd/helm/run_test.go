package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/faces/state"
)

// A runPage is what docs/run.md says.
type runPage struct {
	t    *testing.T
	text string
}

func readRunPage(t *testing.T) runPage {
	t.Helper()
	b, err := os.ReadFile("../../docs/run.md")
	require.NoError(t, err)
	return runPage{t, string(b)}
}

// blocks returns the blocks of a language.
func (p runPage) blocks(language string) (list []string) {
	p.t.Helper()
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)\n```\n").FindAllStringSubmatch(p.text, -1) {
		list = append(list, m[1])
	}
	require.NotEmpty(p.t, list, language)
	return list
}

// config reads the page's helm.yaml, as if it stood in /etc/helm.
func (p runPage) config() *state.Config {
	p.t.Helper()
	blocks := p.blocks("yaml")
	require.Len(p.t, blocks, 1)
	name := filepath.Join(p.t.TempDir(), "helm.yaml")
	require.NoError(p.t, os.WriteFile(name, []byte(blocks[0]), 0o600))
	c, err := state.ReadConfig(name)
	require.NoError(p.t, err)
	return c
}

// unit returns the values of the unit file, by key.
func (p runPage) unit() map[string]string {
	p.t.Helper()
	blocks := p.blocks("ini")
	require.Len(p.t, blocks, 1)
	values := map[string]string{}
	for line := range strings.Lines(blocks[0]) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			assert.Regexp(p.t, `^(\[[A-Z][a-z]+\])?$`, line)
			continue
		}
		assert.NotContains(p.t, values, key, "twice")
		values[key] = value
	}
	return values
}

// isCommand fails if words, without the first one, are no command that helm has, with its flags and
// as many arguments as it takes.
func isCommand(t *testing.T, words []string) {
	t.Helper()
	c, args, err := (&app{}).root().Find(words)
	require.NoError(t, err, words)
	require.NotNil(t, c.RunE, "%v: no command that does something", words)
	require.NoError(t, c.ParseFlags(args), words)
	require.NoError(t, c.ValidateArgs(c.Flags().Args()), words)
}

// TestRunCommands: each line of the page that calls helm calls a command that there is.
func TestRunCommands(t *testing.T) {
	t.Parallel()
	p := readRunPage(t)
	n := 0
	for _, block := range p.blocks("sh") {
		for line := range strings.Lines(block) {
			words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "sudo -u helm "))
			if len(words) > 0 && words[0] == "helm" {
				isCommand(t, words[1:])
				n++
			}
		}
	}
	assert.Equal(t, 4, n)
	for _, m := range regexp.MustCompile("`(?:helm |arguments )?(init /[^`]*)`").FindAllStringSubmatch(p.text, -1) {
		isCommand(t, strings.Fields(m[1]))
	}
}

// TestRunUnit: paths, limits and flags of the unit file are those of the configuration and of the
// command.
func TestRunUnit(t *testing.T) {
	t.Parallel()
	p := readRunPage(t)
	c, u := p.config(), p.unit()
	words := strings.Fields(u["ExecStart"])
	require.Equal(t, "/usr/local/bin/helm", words[0])
	isCommand(t, words[1:])
	assert.Equal(t, []string{"mcp", "serve", "--config", "/etc/helm/helm.yaml"}, words[1:])
	assert.Contains(t, p.text, "`/etc/helm/helm.yaml` is then this")
	assert.Equal(t, c.Dir, u["ReadWritePaths"], "dir is the only path that it writes")
	assert.Equal(t, "strict", u["ProtectSystem"])
	assert.Equal(t, "exec", u["Type"])
	assert.Equal(t, "/bin/kill -HUP $MAINPID", u["ExecReload"])
	assert.Equal(t, "mixed", u["KillMode"])
	assert.NotContains(t, []string{"", "root"}, u["User"])
	stop, err := time.ParseDuration(u["TimeoutStopSec"])
	require.NoError(t, err)
	require.NotZero(t, c.Limits.Drain)
	assert.GreaterOrEqual(t, stop, c.Limits.Drain+10*time.Second)
	const usual = 30 * time.Second // limits.timeout of a tool that says nothing
	assert.GreaterOrEqual(t, c.Limits.Drain, usual)
	if name, err := exec.LookPath("systemd-analyze"); err == nil {
		known := strings.ReplaceAll(p.blocks("ini")[0], "/usr/local/bin/helm", "/bin/true")
		file := filepath.Join(t.TempDir(), "helm.service")
		require.NoError(t, os.WriteFile(file, []byte(known+"\n"), 0o600))
		out, _ := exec.Command(name, "verify", file).CombinedOutput()
		assert.NotContains(t, string(out), "helm.service", "a key or value that systemd does not know")
	}
}

// TestRunContainer: the container file builds the command, and runs it as the unit file does, not
// as root, with the directory on its volume.
func TestRunContainer(t *testing.T) {
	t.Parallel()
	p := readRunPage(t)
	blocks := p.blocks("dockerfile")
	require.Len(t, blocks, 1)
	var entry, args []string
	said := map[string][]string{}
	for line := range strings.Lines(blocks[0]) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		said[key] = append(said[key], value)
	}
	require.Len(t, said["ENTRYPOINT"], 1)
	require.Len(t, said["CMD"], 1)
	require.NoError(t, json.Unmarshal([]byte(said["ENTRYPOINT"][0]), &entry))
	require.NoError(t, json.Unmarshal([]byte(said["CMD"][0]), &args))
	assert.Equal(t, p.unit()["ExecStart"], strings.Join(slices.Concat(entry, args), " "))
	isCommand(t, args)
	require.Len(t, said["FROM"], 2)
	assert.Equal(t, "scratch", said["FROM"][1])
	work, err := os.ReadFile("../../go.work")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(work))
	assert.Equal(t, "golang:"+version[1]+" AS build", said["FROM"][0])
	assert.Contains(t, said["COPY"], "--from=build /helm "+entry[0])
	assert.Contains(t, said["RUN"][0], "cd cmd/helm && CGO_ENABLED=0 go build")
	assert.Contains(t, said["RUN"][0], "-o /helm .")
	require.Len(t, said["USER"], 1)
	assert.Regexp(t, `^[1-9]\d+:[1-9]\d+$`, said["USER"][0])
	assert.Contains(t, said["COPY"], "--from=build --chown="+said["USER"][0]+" /volume/var/lib/ /var/lib/")
	require.Len(t, said["VOLUME"], 1)
	c := p.config()
	assert.True(t, strings.HasPrefix(c.Dir, said["VOLUME"][0]+"/"), "dir is on no volume")
	assert.Equal(t, []string{"SIGTERM"}, said["STOPSIGNAL"])
	for _, m := range regexp.MustCompile(`(?:--time|terminationGracePeriodSeconds:) (\d+)`).FindAllStringSubmatch(p.text, -1) {
		d, err := time.ParseDuration(m[1] + "s")
		require.NoError(t, err)
		assert.GreaterOrEqual(t, d, c.Limits.Drain+10*time.Second)
	}
}

// TestRunStarts: what the page makes, in the order of the page, is well, and its policy denies.
func TestRunStarts(t *testing.T) {
	t.Parallel()
	c := readRunPage(t).config()
	dir := t.TempDir()
	lib, etc := filepath.Join(dir, "lib"), filepath.Join(dir, "etc")
	require.NoError(t, os.Mkdir(lib, 0o700))
	require.NoError(t, os.Mkdir(etc, 0o755))
	var out, errs strings.Builder
	require.Equal(t, yes, run(t.Context(), []string{"init", lib}, strings.NewReader(""), &out, &errs), errs.String())
	require.NoError(t, os.Rename(filepath.Join(lib, "policy.yaml"), filepath.Join(etc, "policy.yaml")))
	text := strings.ReplaceAll(readRunPage(t).blocks("yaml")[0], "/var/lib/helm", lib)
	text = strings.ReplaceAll(text, c.Listen.MCP, "127.0.0.1:0")
	require.NoError(t, os.WriteFile(filepath.Join(etc, "helm.yaml"), []byte(text), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(lib, "crm.key"), []byte("key"), 0o600))
	assert.Equal(t, "state", filepath.Base(c.Dir), "the name that init gives it")
	file := filepath.Join(etc, "helm.yaml")
	for _, args := range [][]string{
		{"policy", "check", filepath.Join(etc, "policy.yaml")},
		{"doctor", "--config", file},
		{"token", "new", "agent", "--caller", "agent", "--scope", "call", "--config", file},
		{"doctor", "--config", file},
	} {
		errs.Reset()
		out.Reset()
		assert.Equal(t, yes, run(t.Context(), args, strings.NewReader(""), &out, &errs), "%v: %s%s", args, &out, &errs)
	}
	opened, err := state.ReadConfig(file)
	require.NoError(t, err)
	s, err := state.Open(t.Context(), opened, state.Options{})
	require.NoError(t, err)
	assert.True(t, s.Tokens().Any())
	require.NoError(t, s.Close(t.Context()))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said := &lockedText{}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"mcp", "serve", "--config", file}, strings.NewReader(""), io.Discard, said)
	}()
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "/mcp tokens=true") || len(ended) > 0 },
		time.Minute, time.Millisecond)
	require.Contains(t, said.String(), "url=http://127.0.0.1:")
	stop()
	select {
	case code := <-ended:
		assert.Equal(t, yes, code, said.String())
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

// A lockedText is written by one goroutine and read by another.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
