package narrow

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type echoArgs struct {
	N float64 `json:"n"`
}

// A family is kernels over one log: a and n are narrowed from root, b from a. Each has an overlay
// of its own name. The stranger has another log.
type family struct {
	*kerneltest.World
	root, a, b, n, stranger *helm.Kernel
}

func newFamily(t *testing.T) *family {
	w := kerneltest.NewUnbound(t)
	f := &family{World: w, root: w.Kernel, a: w.Narrow(w.Kernel, kerneltest.Overlay(t, "a", 1, 5)),
		n: w.Narrow(w.Kernel, kerneltest.Overlay(t, "n", 1, 5)), stranger: kerneltest.NewUnbound(t).Kernel}
	f.b = w.Narrow(f.a, kerneltest.Overlay(t, "b", 1, 4))
	return f
}

// judge returns the name of the kernel whose policy judged, of a call that root alone allows.
func (f *family) judge(d helm.Decision) string {
	if err := d.Err(); err != nil {
		assert.ErrorIs(f.T, err, helm.ErrDenied)
	}
	if d.Reason == contracts.ReasonKernelSealed {
		return "nobody"
	}
	names := map[contracts.Digest]string{}
	for _, st := range f.Statements() {
		if st.Policy != nil {
			last := st.Policy.Documents[len(st.Policy.Documents)-1]
			names[st.Policy.Policy] = last.Name
		}
	}
	return names[d.Record.PolicyHash]
}

// Under a context, the kernel that is called, directly or by a wrapped function, is replaced by the
// one below it that the context is of, and by none other.
func TestContext(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	bg := context.Background()
	var none *helm.Kernel
	for _, c := range []struct {
		name   string
		ctx    context.Context
		called *helm.Kernel
		want   string
	}{
		{"no context", bg, f.root, "test"},
		{"no context, narrowed", bg, f.b, "b"},
		{"a child's", f.a.Context(bg), f.root, "a"},
		{"a grandchild's", f.b.Context(bg), f.root, "b"},
		{"a grandchild's, of the child", f.b.Context(bg), f.a, "b"},
		{"its own", f.a.Context(bg), f.a, "a"},
		{"its parent's", f.a.Context(bg), f.b, "b"},
		{"the root's", f.root.Context(bg), f.b, "b"},
		{"a sibling's", f.n.Context(bg), f.a, "a"},
		{"a sibling's, of the parent", f.n.Context(bg), f.root, "n"},
		{"of two siblings the inner", f.n.Context(f.a.Context(bg)), f.root, "n"},
		{"of two siblings the inner, other way round", f.a.Context(f.n.Context(bg)), f.root, "a"},
		{"of two siblings the ancestor's outer", f.n.Context(f.b.Context(bg)), f.a, "b"},
		{"of parent and child the child", f.a.Context(f.b.Context(bg)), f.root, "b"},
		{"of child and parent the child", f.b.Context(f.a.Context(bg)), f.root, "b"},
		{"the root's inside leads nowhere back", f.root.Context(f.b.Context(bg)), f.root, "b"},
		{"a sibling's between", f.a.Context(f.n.Context(f.b.Context(bg))), f.root, "b"},
		{"another log's", f.stranger.Context(bg), f.root, "test"},
		{"another log's, inside", f.stranger.Context(f.a.Context(bg)), f.root, "a"},
		{"another log's, outside", f.a.Context(f.stranger.Context(bg)), f.root, "a"},
		{"With over it", helm.With(f.a.Context(bg), helm.Intent{Session: "t"}), f.root, "a"},
		{"With under it", f.a.Context(helm.With(bg, helm.Intent{Session: "t"})), f.root, "a"},
		{"a value over it", context.WithValue(f.a.Context(bg), kerneltest.ErrTool, 1), f.root, "a"},
		{"without cancel", context.WithoutCancel(f.a.Context(bg)), f.root, "a"},
		{"nothing", none.Context(bg), f.root, "nobody"},
		{"nothing, narrowed", none.Context(bg), f.b, "nobody"},
		{"the zero kernel's", new(helm.Kernel).Context(bg), f.root, "nobody"},
		{"nothing inside", none.Context(f.a.Context(bg)), f.root, "nobody"},
		{"nothing outside", f.a.Context(none.Context(bg)), f.root, "nobody"},
		{"nothing below what is called", f.a.Context(none.Context(bg)), f.b, "nobody"},
	} {
		f.Runs.Store(0)
		in := helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":1}`), Session: "s", Driver: f.World}
		d, _ := c.called.Guard(c.ctx, in)
		got := f.judge(d)
		assert.Equal(t, c.want, got, c.name)
		assert.Equal(t, f.Runs.Load() == 0, c.want == "nobody", c.name)
		in.Args = json.RawMessage(`{"n":6}`) // more than any overlay permits
		d, _ = c.called.Guard(c.ctx, in)
		assert.Equal(t, c.want == "test", d.Allowed(), c.name)
		echo := helm.Wrap(c.called, "echo", func(_ context.Context, in echoArgs) (echoArgs, error) { return in, nil })
		n := 6.0
		if c.want == "b" { // more would be denied by the first overlay
			n = 5
		}
		_, err := echo(c.ctx, echoArgs{N: n})
		var refused *helm.Error
		if errors.As(err, &refused) == (c.want == "test") {
			t.Errorf("%s, wrapped: %v", c.name, err)
		} else if err != nil && c.want != "nobody" && !strings.HasPrefix(refused.Why, "P2:"+c.want+":few") {
			t.Errorf("%s, wrapped: %v, want %s", c.name, err, c.want)
		}
	}
	var nowhere context.Context
	d, _ := f.root.Guard(f.a.Context(nowhere), helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Driver: f.World})
	assert.Equal(t, "a", f.judge(d), "without a context")
	f.MustVerify()
}

// The context of a closed kernel does not fall back to a wider one.
func TestContextOfClosedKernel(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	ctx := f.b.Context(f.a.Context(context.Background()))
	require.NoError(t, f.b.Close())
	before := f.Size()
	for _, k := range []*helm.Kernel{f.root, f.a, f.b} {
		d, r := k.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":1}`), Session: "s", Driver: f.World})
		f.MustBe(d, r, kerneltest.Sealed())
	}
	assert.Equal(t, before, f.Size(), "a closed kernel wrote")
	d, _ := f.n.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":1}`), Session: "s", Driver: f.World})
	assert.NoError(t, d.Err(), "a sibling")
}

// What a tool calls stays under the overlay of the tool's call, whichever kernel the tool uses:
// wrapped, direct, nested deeper, or from a goroutine that outlives the tool.
func TestContextOfDrivers(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	var left context.Context
	var echoed atomic.Int64
	echo := helm.Wrap(f.root, "echo", func(_ context.Context, in echoArgs) (echoArgs, error) {
		echoed.Add(1)
		return in, nil
	})
	type outcome struct {
		OK bool `json:"ok"`
	}
	inner := helm.Wrap(f.root, "pinned", func(ctx context.Context, _ struct{}) (outcome, error) {
		left = ctx
		if _, err := echo(ctx, echoArgs{N: 4}); err != nil {
			return outcome{}, err
		}
		for _, k := range []*helm.Kernel{f.root, f.a, f.b} {
			for _, ctx := range []context.Context{ctx, f.root.Context(ctx), f.a.Context(ctx),
				helm.With(ctx, helm.Intent{Tool: "echo"})} {
				// a would allow it
				d, _ := k.Guard(ctx, helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":5}`), Driver: f.World})
				assert.Equal(t, "P2:b:few", d.Record.Rule, "from inside: %s by", d.Reason)
			}
		}
		_, err := echo(ctx, echoArgs{N: 5})
		assert.ErrorIs(t, err, helm.ErrDenied, "wrapped, from inside")
		return outcome{true}, nil
	})
	f.Tool = func(ctx context.Context, call contracts.Call) (executor.Result, error) {
		_, err := inner(ctx, struct{}{})
		return executor.Result{}, err
	}
	d, _ := f.b.Guard(context.Background(), helm.Intent{Tool: "slow", Args: json.RawMessage(`{}`), Session: "s"})
	require.NoError(t, d.Err())
	require.Equal(t, int64(1), echoed.Load())
	late, _ := f.root.Guard(context.WithoutCancel(left), helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":5}`),
		Driver: f.World})
	assert.Equal(t, "P2:b:few", late.Record.Rule, "after the tool has ended")
	// as b
	d, _ = f.a.Guard(f.b.Context(context.Background()), helm.Intent{Tool: "slow", Args: json.RawMessage(`{}`),
		Session: "s"})
	assert.NoError(t, d.Err(), "called by context")
	assert.Equal(t, int64(2), echoed.Load())

	// A tool that root runs is under no overlay, and its own calls are under those that it chooses.
	f.Tool = func(ctx context.Context, call contracts.Call) (executor.Result, error) {
		_, err := echo(ctx, echoArgs{N: 6})
		assert.NoError(t, err, "under root")
		_, err = echo(f.n.Context(ctx), echoArgs{N: 6})
		assert.ErrorIs(t, err, helm.ErrDenied, "under n, from root's")
		return executor.Result{}, nil
	}
	d, _ = f.root.Guard(context.Background(), helm.Intent{Tool: "slow", Args: json.RawMessage(`{}`), Session: "s"})
	assert.NoError(t, d.Err())
	f.MustVerify()
}

// A context that panics does not say which kernel it is of; then nothing runs.
func TestContextPanics(t *testing.T) {
	t.Parallel()
	f := newFamily(t)
	ran := 0
	for n := range int64(12) {
		f.Runs.Store(0)
		touches := new(atomic.Int64)
		touches.Store(n)
		d, _ := f.root.Guard(kerneltest.HostileContext{Context: f.a.Context(context.Background()), Left: touches},
			helm.Intent{Tool: "echo", Args: json.RawMessage(`{"n":6}`), Session: "s", Driver: f.World})
		assert.False(t, d.Allowed(), "touch %d: ran outside the overlay", n)
		assert.Zero(t, f.Runs.Load(), "touch %d: ran outside the overlay", n)
		if f.judge(d) == "a" {
			ran++
		}
	}
	assert.NotZero(t, ran, "the panics missed one side")
	assert.NotEqual(t, 12, ran)
	f.MustVerify()
}
