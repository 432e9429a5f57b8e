package state

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

var ctx = context.Background()

// payPolicy allows pay, and asks owner about refund.
const payPolicy = `helm: policy/v1
layer: P1
bundle: {name: none, version: %d}
tools:
  pay: {effect: write, input: {type: object, properties: {sum: {type: integer, default: 1}}}}
  refund: {effect: write, input: {type: object, properties: {sum: {type: integer, default: 1}}}}
rules: [{id: all, allow: [pay, refund]}]
requires: [{id: owner, tools: [refund], all: [{approval: {roles: [owner], quorum: 2, ttl: 10m}}]}]
`

// A fixture is a directory that Create made, with the policy above.
type fixture struct {
	*testing.T
	dir  string
	keys map[string]crypto.PrivateKey
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t, filepath.Join(t.TempDir(), "d"), map[string]crypto.PrivateKey{}}
	f.create()
	return f
}

// create makes the directory, with three people who may answer.
func (f *fixture) create() {
	f.Helper()
	var o CreateOptions
	for _, name := range []string{"olga", "otto", "ann"} {
		key, err := crypto.GenerateKey()
		require.NoError(f, err)
		f.keys[name] = key
		role := "owner"
		if name == "ann" {
			role = "auditor"
		}
		public, err := crypto.PublicOf(key)
		require.NoError(f, err)
		o.Keys = append(o.Keys, registry.Key{Name: name, Public: public, Role: registry.Approver, Roles: []string{role}})
	}
	require.NoError(f, Create(f.dir, o))
	f.policy(2)
}

func (f *fixture) policy(version int) {
	f.Helper()
	f.write("policy.yaml", fmt.Sprintf(payPolicy, version))
}

func (f *fixture) write(name, text string) {
	f.Helper()
	require.NoError(f, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) config() *Config {
	f.Helper()
	c, err := ReadConfig(f.path("helm.yaml"))
	require.NoError(f, err)
	return c
}

func (f *fixture) open(o Options) *State {
	f.Helper()
	s, err := Open(ctx, f.config(), o)
	require.NoError(f, err)
	f.Cleanup(func() { s.Close(ctx) })
	return s
}

func (f *fixture) verify() evidence.Report {
	f.Helper()
	trust, err := initialTrust(f.path("state"))
	require.NoError(f, err)
	store, err := filestore.OpenReadOnly(f.path("state/log"))
	require.NoError(f, err)
	defer store.Close()
	r, err := evidence.VerifyStore(ctx, store, evidence.Options{Trust: trust})
	require.NoError(f, err)
	return r
}

func pay(context.Context, contracts.Call) (executor.Result, error) {
	return executor.Result{Output: []byte(`"paid"`)}, nil
}

type driver func(context.Context, contracts.Call) (executor.Result, error)

func (d driver) Run(ctx context.Context, c contracts.Call) (executor.Result, error) { return d(ctx, c) }

// TestCreate: what init makes starts and denies everything.
func TestCreate(t *testing.T) {
	t.Parallel()
	f := &fixture{t, filepath.Join(t.TempDir(), "new", "d"), nil}
	require.NoError(t, Create(f.dir, CreateOptions{}))
	for name, mode := range map[string]os.FileMode{"state": 0o700, "state/key.pem": 0o600, "root.pem": 0o600, "state/approvals": 0o700} {
		info, err := os.Lstat(f.path(name))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), name)
	}
	s := f.open(Options{})
	d, r := s.Kernel().Guard(ctx, helm.Intent{Tool: "pay", Args: []byte(`{}`), Driver: driver(pay)})
	assert.ErrorIs(t, d.Err(), helm.ErrDenied)
	assert.NotZero(t, r.Index)
	assert.False(t, s.Tokens().Any())
	require.NoError(t, s.Close(ctx))
	assert.Equal(t, evidence.Logged, f.verify().Level)
	s = f.open(Options{}) // and again
	require.NoError(t, s.Close(ctx))
	names, err := os.ReadDir(f.dir)
	require.NoError(t, err)
	assert.Len(t, names, 4, "nothing unfinished is left")
}

// TestCreateReplacesNothing: whatever is there already stays, and nothing is added to it.
func TestCreateReplacesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"helm.yaml", "policy.yaml", "root.pem", "state"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600))
		err := Create(dir, CreateOptions{})
		require.ErrorContains(t, err, filepath.Join(dir, name)+": it is there already")
		names, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, names, 1)
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, "mine", string(b))
	}
	dir := t.TempDir()
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "state")))
	assert.ErrorContains(t, Create(dir, CreateOptions{}), "there already")
	assert.Error(t, Create(dir, CreateOptions{Threshold: 2}), "more than there are roots")
}

// TestCreateLeft: what a Create that was killed left, which may be a key, is named by the next one,
// which makes nothing then.
func TestCreateLeft(t *testing.T) {
	t.Parallel()
	left := map[string]func(dir string) error{
		"before the files": func(dir string) error { return os.Rename(filepath.Join(dir, "state"), filepath.Join(dir, ".new-ABC")) },
		"in a file": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "root.pem"), filepath.Join(dir, ".new-123")),
				os.RemoveAll(filepath.Join(dir, "state")))
		},
	}
	for name, kill := range left {
		dir := t.TempDir()
		require.NoError(t, Create(dir, CreateOptions{}))
		require.NoError(t, kill(dir))
		for _, file := range []string{"helm.yaml", "policy.yaml", "root.pem"} { // after some of them, then before all
			f := &fixture{t, dir, nil}
			was := f.snapshot()
			require.ErrorContains(t, Create(dir, CreateOptions{}),
				"left by an init that was killed, or that runs now: it may hold a key; if none runs, remove it", name)
			assert.Equal(t, was, f.snapshot(), name)
			require.NoError(t, os.RemoveAll(filepath.Join(dir, file)))
		}
		require.Error(t, Create(dir, CreateOptions{}), name)
		for _, e := range must(os.ReadDir(dir)) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
		require.NoError(t, Create(dir, CreateOptions{}), name)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestOneProcess: a second one is refused with the remedy, in this process and another.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open(Options{})
	_, err := Open(ctx, f.config(), Options{})
	require.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, "end that process, or give this one a directory of its own")
	require.NoError(t, s.Close(ctx))
	h := hold(f)
	_, err = Open(ctx, f.config(), Options{})
	require.ErrorIs(t, err, ErrInUse)
	assert.ErrorContains(t, err, fmt.Sprint("process ", h.Process.Pid))
	h.stop()
	f.open(Options{Wait: time.Minute})
}

// faults are what may be wrong with a directory, what is said, and in which file.
var faults = map[string]struct {
	breaks func(f *fixture)
	want   []string
}{
	"no directory":  {func(f *fixture) { f.must(os.RemoveAll(f.path("state"))) }, []string{"state: there is no such directory", "helm init"}},
	"loose":         {func(f *fixture) { f.must(os.Chmod(f.path("state"), 0o750)) }, []string{"others may look into it", "chmod 700"}},
	"a file":        {func(f *fixture) { f.must(os.RemoveAll(f.path("state"))); f.write("state", "x") }, []string{"no directory"}},
	"a link":        {func(f *fixture) { f.linked("state") }, []string{"state: a link"}},
	"no key":        {func(f *fixture) { f.must(os.Remove(f.path("state/key.pem"))) }, []string{"key.pem: it is missing", "put it back"}},
	"loose key":     {func(f *fixture) { f.must(os.Chmod(f.path("state/key.pem"), 0o640)) }, []string{"key.pem: others may read it", "chmod 600"}},
	"linked key":    {func(f *fixture) { f.linked("state/key.pem") }, []string{"key.pem: a link"}},
	"half a key":    {func(f *fixture) { f.must(os.Truncate(f.path("state/key.pem"), 40)) }, []string{"key.pem: no key, or a part of one"}},
	"another key":   {func(f *fixture) { f.other("state/key.pem") }, []string{"state:", "Key"}},
	"no trust":      {func(f *fixture) { f.must(os.Remove(f.path("state/trust.json"))) }, []string{"trust.json: it is missing", "put back"}},
	"linked trust":  {func(f *fixture) { f.linked("state/trust.json") }, []string{"trust.json: a link"}},
	"half a trust":  {func(f *fixture) { f.must(os.Truncate(f.path("state/trust.json"), 100)) }, []string{"trust.json: no trust state, or a part", "backup"}},
	"empty trust":   {func(f *fixture) { f.must(os.Truncate(f.path("state/trust.json"), 0)) }, []string{"trust.json: no trust state"}},
	"another trust": {func(f *fixture) { f.other("state/trust.json") }, []string{"trust.json: it does not belong to the log in", "put back its own"}},
	"linked log":    {func(f *fixture) { f.linked("state/log") }, []string{"log: no directory"}},
	"cut log":       {func(f *fixture) { f.must(os.Truncate(f.path("state/log/00000001.log"), 300)) }, []string{"00000001.log"}},
	"lost log":      {func(f *fixture) { f.must(os.Remove(f.path("state/log/00000001.log"))) }, []string{"00000001.log"}},
	"no policy":     {func(f *fixture) { f.must(os.Remove(f.path("policy.yaml"))) }, []string{"policy.yaml"}},
	"bad policy":    {func(f *fixture) { f.write("policy.yaml", "helm: policy/v1\nlayr: P1\n") }, []string{"policy.yaml:2:"}},
	"older policy":  {func(f *fixture) { f.policy(1) }, []string{"version"}},
	"bad tokens":    {func(f *fixture) { f.write("state/tokens.json", "[{") }, []string{"tokens.json"}},
	"loose tokens": {func(f *fixture) {
		f.write("state/tokens.json", "[]")
		f.must(os.Chmod(f.path("state/tokens.json"), 0o666))
	}, []string{"tokens.json: others may write it"}},
	"approvals file": {func(f *fixture) { f.must(os.RemoveAll(f.path("state/approvals"))); f.write("state/approvals", "") }, []string{"approvals: no directory"}},
	"approvals link": {func(f *fixture) { f.linked("state/approvals") }, []string{"approvals: a link"}},
}

func (f *fixture) must(err error) { f.Helper(); require.NoError(f, err) }

// linked moves a file away and puts a link to it in its place.
func (f *fixture) linked(name string) {
	f.Helper()
	f.must(os.Rename(f.path(name), f.path("moved")))
	f.must(os.Symlink(f.path("moved"), f.path(name)))
}

// other puts another directory's file in the place of one.
func (f *fixture) other(name string) {
	f.Helper()
	dir := f.TempDir()
	f.must(Create(dir, CreateOptions{}))
	f.must(os.Rename(filepath.Join(dir, name), f.path(name)))
}

// TestExamineLoose: what is inside is looked at though others may look at it too, and is named with
// that, without the names of packages.
func TestExamineLoose(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(f.open(Options{}).Close(ctx))
	f.write("state/trust.json", "{bad")
	f.write("state/tokens.json", "[{")
	f.write("state/approvals/x", "")
	f.must(os.Chmod(f.path("state"), 0o755))
	f.must(os.Chmod(f.path("state/approvals"), 0o755))
	text := fmt.Sprint(Examine(ctx, f.path("helm.yaml")))
	for _, want := range []string{
		"state others may look into it", "approvals others may look into it",
		"trust.json no trust state, or a part of one: not strict JSON: expected a key at byte 1",
		"tokens.json no tokens, or a part of them: not strict JSON: expected a key at byte",
		"approvals/x no request and no answer",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "crypto")
}

// TestFaults: each fault ends Open with what, where, what to do; and nothing is lost: mended, the
// directory opens, and its log is what it was.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := f.open(Options{Drivers: map[string]helm.Driver{"pay": driver(pay)}})
			d, _ := s.Kernel().Guard(ctx, helm.Intent{Tool: "pay", Args: []byte(`{}`)})
			require.NoError(t, d.Err())
			require.NoError(t, s.Close(ctx))
			kept := filepath.Join(t.TempDir(), "kept")
			require.NoError(t, os.CopyFS(kept, os.DirFS(f.dir)))
			config, secret := f.config(), f.secret()
			c.breaks(f)
			before := f.snapshot()
			_, err := Open(ctx, config, Options{})
			require.Error(t, err)
			for _, want := range c.want {
				assert.ErrorContains(t, err, want)
			}
			assert.NotContains(t, err.Error(), secret)
			assert.Equal(t, before, f.snapshot(), "something was changed")
			found := Examine(ctx, f.path("helm.yaml"))
			require.NotEmpty(t, found, "doctor finds nothing")
			text := fmt.Sprint(found)
			assert.NotContains(t, text, secret)
			assert.Contains(t, text, c.want[0][strings.LastIndexByte(c.want[0], ':')+1:])
			for _, x := range found {
				assert.NotEmpty(t, x.Where)
				assert.NotEmpty(t, x.What)
			}
			require.NoError(t, os.RemoveAll(f.dir))
			require.NoError(t, os.CopyFS(f.dir, os.DirFS(kept)))
			for _, dir := range []string{"state", "state/approvals", "state/log"} {
				require.NoError(t, os.Chmod(f.path(dir), 0o700))
			}
			for _, file := range []string{"state/key.pem"} {
				require.NoError(t, os.Chmod(f.path(file), 0o600))
			}
			assert.Empty(t, Examine(ctx, f.path("helm.yaml")))
			require.NoError(t, f.open(Options{}).Close(ctx))
			assert.Equal(t, evidence.Logged, f.verify().Level)
		})
	}
}

// secret returns what of the kernel's key nobody may print.
func (f *fixture) secret() string {
	f.Helper()
	b, err := os.ReadFile(f.path("state/key.pem"))
	f.must(err)
	return strings.Split(string(b), "\n")[1]
}

// snapshot returns all files and their bytes, but for the lock, which has a process number.
func (f *fixture) snapshot() map[string]string {
	f.Helper()
	all := map[string]string{}
	f.must(filepath.WalkDir(f.dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "lock" {
			return err
		}
		b, err := os.ReadFile(name)
		if e.Type()&os.ModeSymlink != 0 {
			b, err = []byte("link"), nil
		}
		all[name] = string(b)
		return err
	}))
	return all
}

// A holder is another process that holds the directory of a fixture.
type holder struct {
	*exec.Cmd
	in io.Closer
}

const holderConfig = "STATE_TEST_HOLDER"

// TestHolder is that process: it opens the directory, hands a call over, and waits.
func TestHolder(t *testing.T) {
	file := os.Getenv(holderConfig)
	if file == "" {
		t.Skip("it is for other tests to run, in a process of its own")
	}
	c, err := ReadConfig(file)
	require.NoError(t, err)
	s, err := Open(ctx, c, Options{})
	require.NoError(t, err)
	_, _, ticket := s.Desk().Begin(ctx, helm.Intent{Tool: "pay", Args: []byte(`{}`), Session: "held"}, contracts.Digest{})
	require.NotNil(t, ticket)
	os.Stdout.WriteString("held\n")
	io.Copy(io.Discard, os.Stdin)
	require.NoError(t, s.Close(ctx))
}

func hold(f *fixture) holder {
	f.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestHolder$")
	c.Env = append(os.Environ(), holderConfig+"="+f.path("helm.yaml"))
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	f.must(errors.Join(err1, err2, c.Start()))
	f.Cleanup(func() { c.Process.Kill(); c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.True(f, err == nil && line == "held\n", "the other process says %q, %v", line, err)
	return holder{c, in}
}

func (h holder) stop() { h.in.Close(); h.Wait() }

// TestKilled: after kill -9 the next start settles the call that was handed over, and what was half
// written is gone.
func TestKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := hold(f)
	h.Process.Kill()
	h.Wait()
	f.write("state/approvals/"+unfinished+"123", `{"half`)
	s := f.open(Options{})
	assert.NoFileExists(t, f.path("state/approvals/"+unfinished+"123"))
	require.NoError(t, s.Close(ctx))
	r := f.verify()
	assert.Equal(t, evidence.Logged, r.Level)
	assert.Empty(t, r.Open)
	assert.Contains(t, f.reasons(), contracts.ReasonOutcomeUnknown)
}

// reasons returns those of the receipts of the log.
func (f *fixture) reasons() (list []contracts.ReasonCode) {
	f.Helper()
	store, err := filestore.OpenReadOnly(f.path("state/log"))
	f.must(err)
	defer store.Close()
	n, err := store.Size(ctx)
	f.must(err)
	var r contracts.Reader
	for e, err := range store.Entries(ctx, 0, n) {
		f.must(err)
		sealed, err := r.Open(e)
		f.must(err)
		st, err := sealed.Statement()
		f.must(err)
		if st.Receipt != nil {
			list = append(list, st.Receipt.Reason)
		}
	}
	return list
}

// TestReload: a good policy is taken, a bad one and an older one are refused, and calls go on
// meanwhile, none denied.
func TestReload(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open(Options{Drivers: map[string]helm.Driver{"pay": driver(pay)}})
	var calls atomic.Int64
	run, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range 2 {
		all.Add(1)
		go func() {
			defer all.Done()
			for run.Err() == nil {
				d, _ := s.Kernel().Guard(ctx, helm.Intent{Tool: "pay", Args: []byte(`{}`)})
				if !assert.NoError(t, d.Err()) {
					return
				}
				calls.Add(1)
			}
		}()
	}
	more := func() {
		n := calls.Load()
		require.Eventually(t, func() bool { return calls.Load() > n+2 }, time.Minute, time.Millisecond)
	}
	more()
	first := s.Kernel().Policy().Hash()
	f.policy(3)
	require.NoError(t, s.Reload(ctx))
	third := s.Kernel().Policy().Hash()
	assert.NotEqual(t, first, third)
	more()
	f.write("policy.yaml", "helm: policy/v1\nlayer: P1\nno\n")
	require.ErrorContains(t, s.Reload(ctx), "policy.yaml:4:1: not YAML")
	more()
	f.policy(2)
	require.ErrorContains(t, s.Reload(ctx), "version")
	more()
	require.NoError(t, os.Remove(f.path("policy.yaml")))
	require.ErrorIs(t, s.Reload(ctx), os.ErrNotExist)
	assert.Equal(t, third, s.Kernel().Policy().Hash())
	more()
	f.policy(3)
	f.write("state/tokens.json", "{")
	require.ErrorContains(t, s.Reload(ctx), "no token is good")
	assert.True(t, s.Tokens().Any(), "nobody became anonymous")
	stop()
	all.Wait()
	require.NoError(t, s.Close(ctx))
	assert.Equal(t, evidence.Logged, f.verify().Level)
}

// TestClose: what is open at the desk is dropped, the checkpoint covers all, and it may be called
// again, and at once.
func TestClose(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.open(Options{})
	_, _, ticket := s.Desk().Begin(ctx, helm.Intent{Tool: "pay", Args: []byte(`{}`)}, contracts.Digest{})
	require.NotNil(t, ticket)
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			assert.NoError(t, s.Close(ctx))
		}()
	}
	all.Wait()
	require.NoError(t, s.Close(ctx))
	d, _, recorded := ticket.Settle(handoff.Outcome{Output: []byte(`1`)})
	assert.False(t, recorded)
	assert.Equal(t, contracts.ReasonToolCanceled, d.Reason)
	assert.Error(t, s.Kernel().Err())
	r := f.verify()
	assert.Equal(t, evidence.Logged, r.Level)
	assert.Zero(t, r.Behind, "the checkpoint is of all")
	f.open(Options{})
}

// TestCloseInTime: a tool that does not end does not keep the process; the next start settles it.
func TestCloseInTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	began, end := make(chan bool), make(chan bool)
	hang := driver(func(context.Context, contracts.Call) (executor.Result, error) {
		close(began)
		<-end
		return executor.Result{}, nil
	})
	s := f.open(Options{Drivers: map[string]helm.Driver{"pay": hang}})
	t.Cleanup(func() { close(end) })
	go s.Kernel().Guard(ctx, helm.Intent{Tool: "pay", Args: []byte(`{}`)})
	<-began
	over, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Close(over), context.Canceled)
	require.NoError(t, f.open(Options{}).Close(ctx))
	assert.Contains(t, f.reasons(), contracts.ReasonOutcomeUnknown)
}
