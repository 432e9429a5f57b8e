package state

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
)

// limit is for what is to happen at once: it is long because the machine may be busy.
const limit = time.Minute

// inTime fails a test whose f does not return.
func inTime(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s does not end", what)
	}
}

const victimDir = "STATE_TEST_VICTIM"

// TestVictim is a process that makes directories, asks, answers and calls until it is killed. It
// says each directory that it begins, and each round.
func TestVictim(t *testing.T) {
	dir := os.Getenv(victimDir)
	if dir == "" {
		t.Skip("it is for other tests to run, in a process of its own")
	}
	for n := 0; ; n++ {
		f := &fixture{t, filepath.Join(dir, fmt.Sprint(n)), map[string]crypto.PrivateKey{}}
		fmt.Printf("dir %s\n", f.dir)
		f.create()
		a := &asking{f, f.open(Options{Drivers: map[string]helm.Driver{"refund": driver(pay)}})}
		for i := range 6 {
			args := fmt.Sprintf(`{"sum":%d}`, i)
			nonce := a.ask(args)
			require.NoError(t, a.approves(nonce, "olga"))
			require.NoError(t, a.approves(nonce, "otto"))
			if i%2 == 0 {
				d, _ := a.call(clerk, "s", args)
				require.NoError(t, d.Err())
			}
			fmt.Println("round")
		}
		require.NoError(t, a.Close(ctx))
	}
}

// TestKilledAtAnyTime: wherever kill -9 comes, each directory is not begun, or it opens; no file in
// it is a part of one; its log verifies; and what was answered can still be used.
func TestKilledAtAnyTime(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		dir := t.TempDir()
		c := exec.Command(os.Args[0], "-test.run=^TestVictim$")
		c.Env = append(os.Environ(), victimDir+"="+dir)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		lines := bufio.NewScanner(out)
		for range 1 + n*n { // then at once, wherever it is
			require.True(t, lines.Scan(), "the other process ended: %v", lines.Err())
		}
		time.Sleep(time.Duration(n) * 700 * time.Microsecond)
		require.NoError(t, c.Process.Kill())
		c.Wait()
		list, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		for _, d := range list {
			f := &fixture{t, d, nil}
			if _, err := os.Lstat(f.path("state")); errors.Is(err, os.ErrNotExist) {
				continue
			}
			assert.Empty(t, Examine(ctx, f.path("helm.yaml")))
			s := f.open(Options{})
			all, err := s.Approvals().Pending(ctx)
			require.NoError(t, err)
			names, err := filepath.Glob(f.path("state/approvals/*"))
			require.NoError(t, err)
			files := 0
			for _, p := range all {
				files += 1 + len(p.Answers)
			}
			assert.Len(t, names, files, "something is left that is nobody's")
			require.NoError(t, s.Close(ctx))
			r := f.verify()
			assert.Equal(t, evidence.Logged, r.Level)
			assert.Empty(t, r.Open)
		}
	}
}

// TestAskedAtOnce: however many ask for one call at once, one request waits; and however many
// present its answers at once, the call runs once.
func TestAskedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ran atomic.Int64
	once := driver(func(ctx context.Context, c contracts.Call) (executor.Result, error) {
		ran.Add(1)
		return pay(ctx, c)
	})
	a := &asking{f, f.open(Options{Drivers: map[string]helm.Driver{"refund": once}})}
	var mu sync.Mutex
	nonces := map[string]bool{}
	atOnce := func(do func()) {
		var all sync.WaitGroup
		for range 8 {
			all.Add(1)
			go func() { defer all.Done(); do() }()
		}
		all.Wait()
	}
	atOnce(func() {
		d, _ := a.Kernel().Guard(ctx, helm.Intent{Tool: "refund", Args: []byte(`{}`), Caller: clerk, Session: "s"})
		nonce, err := a.Approvals().Ask(d.Pending, d.Args)
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		nonces[nonce] = true
	})
	require.Len(t, nonces, 1)
	var nonce string
	for nonce = range nonces {
	}
	var answered atomic.Int64
	atOnce(func() {
		if assert.NoError(t, a.approves(nonce, "olga")) && assert.NoError(t, a.approves(nonce, "otto")) {
			answered.Add(1)
		}
	})
	require.EqualValues(t, 8, answered.Load())
	assert.Len(t, a.get(nonce).Answers, 2, "an answer of one person counts once")
	atOnce(func() {
		list := a.Approvals().For(ctx, clerk, "s", "refund", []byte(`{}`), a.Kernel().Policy().Hash())
		a.Kernel().Guard(ctx, helm.Intent{Tool: "refund", Args: []byte(`{}`), Caller: clerk, Session: "s", Approvals: list})
	})
	assert.EqualValues(t, 1, ran.Load())
}

// TestApprovedUnderAnotherPolicy: what was approved under one policy is not presented under the
// next, and is asked again.
func TestApprovedUnderAnotherPolicy(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	require.NoError(t, a.approves(nonce, "olga"))
	require.NoError(t, a.approves(nonce, "otto"))
	a.policy(3)
	require.NoError(t, a.Reload(ctx))
	d, list := a.call(clerk, "s", `{}`)
	assert.Empty(t, list)
	assert.ErrorIs(t, d.Err(), helm.ErrApprovalRequired)
	assert.NotEqual(t, nonce, a.ask(`{}`))
}

// TestRequestTakenAway: a request whose file was removed, or changed, is asked again: nobody
// is sent to a nonce that nobody can answer.
func TestRequestTakenAway(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(file string) error{
		"removed": os.Remove,
		"cut":     func(file string) error { return os.Truncate(file, 20) },
		"changed": func(file string) error {
			b, err := os.ReadFile(file)
			return errors.Join(err, os.WriteFile(file, []byte(strings.Replace(string(b), `"quorum":2`, `"quorum":1`, 1)), 0o600))
		},
		"a link": func(file string) error {
			return errors.Join(os.Rename(file, file+".moved"), os.Symlink(file+".moved", file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAsking(t)
			first := a.ask(`{}`)
			require.NoError(t, take(a.path("state/approvals/"+first+".json")))
			_, err := a.Approvals().Get(ctx, first)
			require.Error(t, err, "what nobody asked is shown")
			nonce := a.ask(`{}`)
			require.NotEqual(t, first, nonce)
			require.NoError(t, a.approves(nonce, "olga"))
			require.NoError(t, a.approves(nonce, "otto"))
			d, _ := a.call(clerk, "s", `{}`)
			require.NoError(t, d.Err())
		})
	}
}

// TestAnswerWithoutRequest: an answer that came while its request was removed does not stay.
func TestAnswerWithoutRequest(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	require.NoError(t, a.approves(nonce, "olga"))
	require.NoError(t, a.Close(ctx))
	require.NoError(t, os.Remove(a.path("state/approvals/"+nonce+".json")))
	require.NoError(t, a.open(Options{}).Close(ctx))
	names, err := os.ReadDir(a.path("state/approvals"))
	require.NoError(t, err)
	assert.Empty(t, names)
}

// TestPipes: a pipe in the place of a file is refused, and nobody waits for its other end.
func TestPipes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"helm.yaml", "policy.yaml", "state/key.pem", "state/trust.json", "state/tokens.json"} {
		f := newFixture(t)
		require.NoError(t, f.open(Options{}).Close(ctx))
		if err := os.Remove(f.path(name)); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		require.NoError(t, syscall.Mkfifo(f.path(name), 0o600))
		inTime(t, name, func() {
			c, err := ReadConfig(f.path("helm.yaml"))
			if err == nil {
				_, err = Open(ctx, c, Options{})
			}
			assert.ErrorContains(t, err, filepath.Base(name))
			assert.NotEmpty(t, Examine(ctx, f.path("helm.yaml")))
		})
	}
	a := newAsking(t)
	nonce := a.ask(`{}`)
	require.NoError(t, syscall.Mkfifo(a.path("state/approvals/"+strings.Repeat("0", 32)+".json"), 0o600))
	require.NoError(t, syscall.Mkfifo(a.path("state/approvals/"+nonce+"."+strings.Repeat("0", 64)+".json"), 0o600))
	inTime(t, "approvals", func() {
		require.NoError(t, a.approves(nonce, "olga"))
		require.NoError(t, a.approves(nonce, "otto"))
		d, _ := a.call(clerk, "s", `{}`)
		require.NoError(t, d.Err())
	})
}

// TestReloadAndClose: they may come at once; after Close nothing is taken.
func TestReloadAndClose(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open(Options{})
	inTime(t, "Close", func() {
		var all sync.WaitGroup
		for n := range 8 {
			all.Add(1)
			go func() {
				defer all.Done()
				if n%2 == 0 {
					s.Reload(ctx)
				} else {
					assert.NoError(t, s.Close(ctx))
				}
			}()
		}
		all.Wait()
	})
	f.policy(3)
	assert.Error(t, s.Reload(ctx))
	_, err := s.Approvals().Ask(request("bob", 1, `{}`), []byte(`{}`))
	assert.Error(t, err, "after the end another process may hold the directory")
	assert.Equal(t, evidence.Logged, f.verify().Level)
}

// TestSecretsInWrongPlaces: what refuses a configuration does not say the secret that was written
// into it.
func TestSecretsInWrongPlaces(t *testing.T) {
	t.Parallel()
	const secret = "sk-live-0123456789"
	const head = "helm: config/v1\ndir: state\npolicy: [p.yaml]\n"
	for _, line := range []string{
		"upstreams: {chat: {url: \"https://a.example\", key_env: " + secret + "}}",
		"upstreams: {chat: {url: \"https://u:" + secret + "@a.example\"}}",
		"upstreams: {chat: {url: \"https://a.example/?k=" + secret + "\"}}",
		"upstreams: {chat: {url: \"http://a.example/" + secret + "\"}}",
		"upstreams: {chat: {url: \"https://a.example\", key: " + secret + "}}",
		"upstreams: {chat: " + secret + "}",
		"servers: {a: {command: [x], env: [TOKEN=" + secret + "]}}",
		"servers: {a: {command: " + secret + "}}",
		"listen: {mcp: \"" + secret + "\"}",
		"resources: " + secret,
		"session_required: " + secret,
		"limits: {denials: " + secret + "}",
		"mcp: {issuer: \"ftp://" + secret + "\"}",
		"origins: [\"" + secret + "\"]",
		"key: &a " + secret + "\nother: *a",
		"key: !x " + secret,
	} {
		name := writeConfig(t, head+line+"\n")
		_, err := ReadConfig(name)
		if assert.Error(t, err, line) {
			assert.NotContains(t, err.Error(), secret)
			assert.NotContains(t, fmt.Sprint(Examine(ctx, name)), secret)
			assert.Contains(t, err.Error(), name+":4:")
		}
	}
}

// TestConfigAttacked: what has no meaning in a configuration, or two, is refused in its place.
func TestConfigAttacked(t *testing.T) {
	t.Parallel()
	const head = "helm: config/v1\ndir: state\npolicy: [p.yaml]\n"
	for line, want := range map[string]string{
		"servers: {a: {command: [x], command: [y]}}":                 "4:",
		"servers: {a: {command: [x]}, a: {command: [y]}}":            "4:",
		"servers: {\"a\\u0000\": {command: [x]}}":                    "no name of a server",
		"servers: {а: {command: [x]}}":                               "no name of a server", // Cyrillic
		"servers: {a: {command: [\"x\\0y\"]}}":                       "NUL",
		"servers: {a: {command: [x, \"\\0\"]}}":                      "NUL",
		"servers: {a: {command: []}}":                                "4:",
		"x: &a 1\nhosts: [*a]":                                       "4:",
		"<<: {prefix: true}":                                         "4:",
		"prefix: !!bool true":                                        "4:",
		"--- \nprefix: true":                                         "4:",
		"prefix: null":                                               "4:",
		"prefix: \"true\"":                                           "4:",
		"hosts: [\"a b\"]":                                           "no host",
		"hosts: [\"https://a.example\"]":                             "no host",
		"hosts: [\"*\"]":                                             "no host",
		"hosts: [\"*.example\"]":                                     "no host",
		"session_headers: [\"a b\"]":                                 "no name of a header",
		"session_headers: [\"X-S:\"]":                                "no name of a header",
		"session_headers: [\"Authorization\"]":                       "a header that says something else",
		"session_idle: 0s":                                           "4:",
		"session_idle: 9000h":                                        "too long",
		"dir: \"a\\0\"":                                              "4:",
		"mcp: {issuer: \"https://a.example\", issuer: \"https://\"}": "4:",
	} {
		name := writeConfig(t, head+line+"\n")
		c, err := ReadConfig(name)
		if assert.ErrorContains(t, err, want, line) {
			assert.Contains(t, err.Error(), name+":")
		}
		assert.Nil(t, c, line)
	}
	c, err := ReadConfig(writeConfig(t, head+"session_idle: 240h\nhosts: [helm.example, \"helm.example:8080\", \"[::1]:80\"]\n"))
	require.NoError(t, err)
	assert.Equal(t, 240*time.Hour, c.SessionIdle)
}
