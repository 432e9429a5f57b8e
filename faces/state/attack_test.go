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
	"github.com/helmkernel/helm/faces/auth"
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
	for n := range 5 {
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
			time.Sleep(2 * time.Millisecond) // requests of one millisecond are one
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
	c, err := ReadConfig(writeConfig(t, head+"session_idle: 240h\nlimits: {sessions: 7}\nhosts: [helm.example, \"helm.example:8080\", \"[::1]:80\"]\n"))
	require.NoError(t, err)
	assert.Equal(t, 240*time.Hour, c.SessionIdle)
	assert.Equal(t, 7, c.Limits.Sessions)
}

const readerFile = "STATE_TEST_READER"

// TestReader is a process of a user who may not do all: it prints what Open, an answer, tokens and
// the doctor say.
func TestReader(t *testing.T) {
	file := os.Getenv(readerFile)
	if file == "" {
		t.Skip("it is for other tests to run, in a process of its own")
	}
	c, err := ReadConfig(file)
	require.NoError(t, err)
	s, err := Open(ctx, c, Options{})
	if err == nil {
		s.Close(ctx)
	}
	fmt.Printf("open: %v\n", err)
	err = EditTokens(c.Dir, func(l []auth.Token) ([]auth.Token, error) { return l, nil })
	fmt.Printf("tokens: %v\n", err)
	for _, found := range Examine(ctx, file) {
		fmt.Printf("doctor: %v\n", &found)
	}
}

// TestMayNotWrite: where the user of a process may not read or write, each error says where and
// what to do, the doctor finds it, and nothing is changed. Root may do all, so it is another user.
func TestMayNotWrite(t *testing.T) {
	t.Parallel()
	me, uid := os.Geteuid(), os.Geteuid()
	if me == 0 {
		uid = 65534
	}
	program := filepath.Join(publicDir(t), "state.test")
	if err := os.Link(os.Args[0], program); err != nil {
		b, err := os.ReadFile(os.Args[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(program, b, 0o755))
	}
	for name, c := range map[string]struct {
		bars func(f *fixture) error
		want []string
	}{
		"a new directory": {func(f *fixture) error {
			return errors.Join(os.RemoveAll(f.path("state/log")), os.Chmod(f.path("state"), 0o500))
		}, []string{"open: PATH/state/log: permission denied; run helm as", "tokens: PATH/state/", "doctor: PATH/state: permission denied"}},
		"the log": {func(f *fixture) error { return os.Chmod(f.path("state/log"), 0o500) },
			[]string{"doctor: PATH/state/log: permission denied; run helm as"}},
		"a file of the log": {func(f *fixture) error { return os.Chmod(f.path("state/log/00000001.log"), 0o400) },
			[]string{"open: PATH/state/log/00000001.log: permission denied; run helm as"}},
		"the key": {func(f *fixture) error { return os.Chmod(f.path("state/key.pem"), 0) },
			[]string{"open: PATH/state/key.pem: permission denied; run helm as", "doctor: PATH/state/key.pem: permission denied"}},
		"approvals": {func(f *fixture) error { return os.Chmod(f.path("state/approvals"), 0o500) },
			[]string{"doctor: PATH/state/approvals: permission denied; run helm as"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t, filepath.Join(publicDir(t), "d"), nil}
			require.NoError(t, Create(f.dir, CreateOptions{}))
			require.NoError(t, f.open(Options{}).Close(ctx))
			require.NoError(t, c.bars(f))
			t.Cleanup(func() {
				for _, dir := range []string{"state", "state/log", "state/approvals"} {
					os.Chmod(f.path(dir), 0o700)
				}
			})
			if me == 0 {
				require.NoError(t, filepath.WalkDir(f.path("state"), func(name string, _ os.DirEntry, err error) error {
					return errors.Join(err, os.Lchown(name, uid, uid))
				}))
			}
			before := map[string]string{}
			if me == 0 {
				before = f.snapshot()
				before[f.path("state/tokens.json")] = "[]\n" // what the edit makes, if it may
			}
			p := exec.Command(program, "-test.run=^TestReader$")
			p.Env = append(os.Environ(), readerFile+"="+f.path("helm.yaml"))
			p.Dir = f.dir
			if me == 0 {
				p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			}
			out, err := p.CombinedOutput()
			require.NoError(t, err, "%s", out)
			for _, want := range c.want {
				assert.Contains(t, string(out), strings.ReplaceAll(want, "PATH", f.dir))
			}
			if me == 0 && !strings.Contains(string(out), "open: <nil>") {
				for name, text := range f.snapshot() {
					assert.True(t, before[name] == text, "%s was changed", name)
				}
			}
		})
	}
}

// publicDir returns a directory that another user can reach, too.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "state-test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}
