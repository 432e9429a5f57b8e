package sandbox

import (
	"context"
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// again is the call that tell makes, as a pack has it.
func again(wasm []byte, grants contracts.Sandbox) contracts.Rerunnable {
	return contracts.Rerunnable{Module: crypto.Sum(wasm), Bytes: wasm, Meter: 1, Grants: grants, Tool: "tool",
		Args: []byte("{}"), Decision: theDecision, Time: theTime}
}

// A run again ends as the first did: by each reason, in a Runtime that never saw the module.
func TestRerun(t *testing.T) {
	t.Parallel()
	r, other := newRoom(t), newRoom(t)
	rerun := other.Rerun(nil)
	for name, c := range map[string]struct {
		wasm   []byte
		grants contracts.Sandbox
	}{
		"ALLOW":  {clocks(5), contracts.Sandbox{Args: []string{"a"}}},
		"exit":   {prints(1, "x", i32(3), call(1)).bytes(), contracts.Sandbox{}},
		"trap":   {command(ops(unreachable)).bytes(), contracts.Sandbox{}},
		"GAS":    {command(forever()).bytes(), contracts.Sandbox{Gas: 12345}},
		"MEMORY": {command(forever(i32(1), grow, drop)).bytes(), contracts.Sandbox{Memory: 3}},
		"STACK":  {build{memory: 1, funcs: []fn{{code: call(0)}}}.bytes(), contracts.Sandbox{}},
		"OUTPUT": {prints(1, "12345").bytes(), contracts.Sandbox{Output: 4}},
	} {
		first := r.runs(c.wasm, c.grants)
		require.NotEmpty(t, first.reason, name)
		c.grants.Gas = first.gas // as evidence asks: with the recorded gas, and no more
		got, err := rerun(context.Background(), again(c.wasm, c.grants))
		require.NoError(t, err, name)
		assert.Equal(t, contracts.RerunResult{Output: got.Output, Gas: first.gas, Reason: first.reason, Held: true, Metered: true},
			got, name)
		assert.Equal(t, first.output, string(got.Output), name)
	}
	// Of what the output follows from, each changes it.
	wasm := clocks(0)
	want, err := rerun(context.Background(), again(wasm, contracts.Sandbox{}))
	require.NoError(t, err)
	for name, change := range map[string]func(*contracts.Rerunnable){
		"decision": func(c *contracts.Rerunnable) { c.Decision[0]++ },
		"time":     func(c *contracts.Rerunnable) { c.Time++ },
	} {
		c := again(wasm, contracts.Sandbox{})
		change(&c)
		got, err := rerun(context.Background(), c)
		require.NoError(t, err)
		assert.NotEqual(t, want.Output, got.Output, name)
	}
}

// What is not at hand, or of another meter, or not closed, is not run.
func TestRerunIsNotGuessed(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	tree := fstest.MapFS{"a": {Data: []byte("alpha")}}
	digest, err := TreeDigest(tree)
	require.NoError(t, err)
	wasm := r.script().open(3, "a", 0, 1<<1, 0).read(fdAt(0)).wasm()
	grants := contracts.Sandbox{Files: map[string]string{"/t": digest}}
	call := again(wasm, grants)
	run := func(c contracts.Rerunnable, modules [][]byte, trees ...fs.FS) contracts.RerunResult {
		got, err := r.Rerun(modules, trees...)(context.Background(), c)
		require.NoError(t, err)
		return got
	}
	got := run(call, nil, fstest.MapFS{}, tree, fstest.MapFS{"l": {Mode: fs.ModeSymlink}})
	require.True(t, got.Held && got.Metered && got.Reason == contracts.ReasonAllow, "%+v", got)
	assert.Contains(t, string(got.Output), "alpha")
	assert.Equal(t, contracts.RerunResult{Metered: true}, run(call, nil), "no tree")
	lacks := call
	lacks.Bytes = nil
	assert.Equal(t, contracts.RerunResult{Metered: true}, run(lacks, nil, tree), "no module")
	assert.Equal(t, got, run(lacks, [][]byte{nil, wasm}, tree), "the auditor's own module")
	other := again(prints(1, "own").bytes(), contracts.Sandbox{})
	own := other.Bytes
	other.Bytes = command(nil).bytes()
	assert.Equal(t, contracts.RerunResult{Metered: true}, run(other, nil), "bytes of another module")
	other.Bytes = own
	assert.Equal(t, "own", string(run(other, nil).Output))
	other = call
	other.Meter = 2
	assert.Equal(t, contracts.RerunResult{Held: true}, run(other, nil, tree), "another meter")
	for name, open := range map[string]contracts.Sandbox{
		"real clock": {Clock: "real"}, "real random": {Random: "real"}, "env": {Env: []string{"A"}},
		"read": {Files: map[string]string{"/d": "read"}}, "write": {Files: map[string]string{"/d": "write"}},
	} {
		c := again(wasm, open)
		assert.False(t, run(c, nil, tree).Held, name)
	}
	refused := again([]byte("no module"), contracts.Sandbox{})
	assert.Equal(t, contracts.RerunResult{Held: true, Metered: true, Reason: contracts.ReasonFailClosedError}, run(refused, nil))
}

// An auditor's context, or a closed Runtime, is an error and no result.
func TestRerunEnds(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rerun := r.Rerun(nil)
	for _, ctx := range []func() (context.Context, context.CancelFunc){
		func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), 1e7) },
		func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx, cancel
		},
	} {
		c, cancel := ctx()
		got, err := rerun(c, again(command(forever()).bytes(), contracts.Sandbox{Gas: 1e12}))
		cancel()
		assert.Equal(t, contracts.RerunResult{}, got)
		assert.ErrorIs(t, err, c.Err())
	}
	closed, err := New(Options{})
	require.NoError(t, err)
	rerun = closed.Rerun(nil)
	require.NoError(t, closed.Close(context.Background()))
	_, err = rerun(context.Background(), again(command(nil).bytes(), contracts.Sandbox{}))
	assert.ErrorIs(t, err, errClosed)
}

// A pack of many modules does not fill the memory with compiled code, and one that is running is
// not freed.
func TestRerunKeepsFew(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	rerun := r.Rerun(nil)
	stay := r.load(prints(1, "0").bytes(), contracts.Sandbox{}, Host{})
	var all sync.WaitGroup
	for g := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range 30 {
				s := string([]byte{'0' + byte((i+g*7)%30)})
				got, err := rerun(context.Background(), again(prints(1, s).bytes(), contracts.Sandbox{}))
				assert.NoError(t, err)
				assert.Equal(t, s, string(got.Output))
			}
		}()
	}
	all.Wait()
	assert.LessOrEqual(t, len(r.codes.codes), maxReruns+1)
	assert.Equal(t, "0", r.tell(context.Background(), stay, "").output)
}
