package calls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The model is told what came of its call, and what it can do; never a cause or the text of a
// panic.
func TestForModel(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewUnbound(t)
	secret := errors.New("private")
	returns := func(r executor.Result, err error) helm.Driver {
		return driver(func(context.Context, contracts.Call) (executor.Result, error) { return r, err })
	}
	inner := driver(func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
		d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: []byte(`{}`), Driver: driver(
			func(context.Context, contracts.Call) (executor.Result, error) { panic("private") })})
		return executor.Result{}, d.Err()
	})
	for _, x := range []struct {
		name, tool, args string
		driver           helm.Driver
		text             string
		failed           bool
	}{
		{"released", "echo", `{}`, returns(executor.Result{Output: []byte(`{"b":1, "a":2}`)}, nil), `{"a":2,"b":1}`,
			false},
		{"text", "echo", `{}`, returns(executor.Result{Output: []byte("1.10"), Raw: true}, nil), "1.10", false},
		{"the empty text", "echo", `{}`, returns(executor.Result{Raw: true}, nil), "", false},
		{"failed", "echo", `{}`, returns(executor.Result{Output: []byte("no such file"), Failed: true}, nil),
			"no such file", true},
		{"the tool's own error", "echo", `{}`, returns(executor.Result{}, errors.New("no such file")), "no such file",
			true},
		{"an error without a text", "echo", `{}`, returns(executor.Result{}, errors.New("")),
			"echo has no result: TOOL_ERROR. The tool failed. Read its error before you try again. " +
				"(the tool returned an error, or called its output failed)", true},
		{"the error of a call inside", "echo", `{}`, inner,
			"helm: pinned: output withheld (TOOL_PANIC): the tool panicked, " +
				"ended its goroutine, or returned a value without a JSON form", true},
		{"a rule", "echo", `{"text":"a secret"}`, returns(executor.Result{}, nil),
			"echo was denied: POLICY_VIOLATION. A rule forbids this call. Do not try to get round it; find another way " +
				"or report this. (P1:test:no-secrets: the rule denies the call)", true},
		{"no such tool", "echo\n\n", `{}`, nil, "sha256:", true},
		{"not JSON", "echo", `{"private"`, returns(executor.Result{}, nil), "echo was denied: ERR_TOOL_ARGS", true},
		{"panic", "echo", `{}`,
			driver(func(context.Context, contracts.Call) (executor.Result, error) { panic(secret) }),
			"echo has no result: TOOL_PANIC. The tool crashed", true},
		{"too long", "echo", `{}`, returns(executor.Result{Output: make([]byte, 2000)}, nil),
			"echo has no result: ERR_COMPUTE_OUTPUT_EXHAUSTED. ", true},
	} {
		d, r := w.Kernel.Guard(context.Background(),
			helm.Intent{Tool: x.tool, Args: []byte(x.args), Session: "s", Driver: x.driver})
		text, failed := d.ForModel(r)
		assert.Equal(t, x.failed, failed, x.name)
		assert.NotContains(t, text, "private", x.name)
		assert.True(t, strings.HasPrefix(text, x.text), "%s: %q, want %q", x.name, text, x.text)
		if x.text == "" || strings.HasSuffix(x.text, ")") {
			assert.Equal(t, x.text, text, x.name)
		}
		again, failed := helm.Tool(w.Kernel, x.tool, x.driver)(
			helm.With(context.Background(), helm.Intent{Session: "s"}), []byte(x.args))
		assert.Equal(t, text, again, x.name)
		assert.Equal(t, x.failed, failed, x.name)
	}
	text, failed := helm.Decision{}.ForModel(helm.Receipt{Output: []byte("private")})
	assert.True(t, failed && strings.HasPrefix(text, "the call was denied: FAIL_CLOSED_ERROR. "), text)
	text, failed = helm.Tool(w.Kernel, "slow", nil)(context.Background(), nil)
	assert.True(t, text == `{}` && !failed, "no bytes are {}, and the driver is that of the options: %s", text)
	require.NoError(t, w.Kernel.Err())
	w.Close()
	require.Error(t, w.Kernel.Err())
	text, failed = helm.Tool(w.Kernel, "slow", nil)(context.Background(), nil)
	assert.True(t, failed && strings.HasPrefix(text, "slow was denied: KERNEL_SEALED. "), text)
	text, failed = helm.Tool(nil, "slow", nil)(context.Background(), nil)
	assert.True(t, failed && strings.HasSuffix(text, "(there is no kernel)"), text)
	require.Error(t, (*helm.Kernel)(nil).Err())
	require.Error(t, new(helm.Kernel).Err())
}

// A tool's own error may be of any length. The model is told at most 4 KiB of it, in whole
// characters; the caller gets it as it is.
func TestForModelIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 4 << 10
	w := kerneltest.NewUnbound(t)
	for name, x := range map[string]struct{ err, text string }{
		"as long as may be":     {strings.Repeat("x", limit), strings.Repeat("x", limit)},
		"one byte more":         {strings.Repeat("x", limit+1), strings.Repeat("x", limit-3) + "…"},
		"a megabyte":            {strings.Repeat("x", 1<<20), strings.Repeat("x", limit-3) + "…"},
		"cut inside a rune":     {strings.Repeat("x", limit-5) + "😀😀", strings.Repeat("x", limit-5) + "…"},
		"cut between two runes": {strings.Repeat("x", limit-7) + "😀😀", strings.Repeat("x", limit-7) + "😀…"},
		"not UTF-8":             {strings.Repeat("\xff", limit+1), "…"},
		"not UTF-8, but short":  {"\xff", "\xff"},
	} {
		failing := driver(func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{}, errors.New(x.err)
		})
		nested := driver(func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
			d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "pinned", Args: []byte(`{}`)}) // it has no driver
			return executor.Result{}, fmt.Errorf("%w: %s", d.Err(), x.err)
		})
		d, r := w.Call("echo", `{}`, kerneltest.WithDriver(failing))
		text, failed := d.ForModel(r)
		assert.True(t, failed && text == x.text, "%s: %d bytes, %.20q", name, len(text), text)
		assert.EqualError(t, d.Err(), x.err, name)
		d, r = w.Call("echo", `{}`, kerneltest.WithDriver(nested))
		text, failed = d.ForModel(r)
		assert.True(t, failed && len(text) < 200 && strings.HasPrefix(text, "helm: pinned: denied"), "%s: %.20q", name, text)
	}
	w.MustVerify()
}

type driver func(context.Context, contracts.Call) (executor.Result, error)

func (d driver) Run(ctx context.Context, c contracts.Call) (executor.Result, error) { return d(ctx, c) }

// A kernel that is sealed, and one that was narrowed and closed, say so.
func TestKernelErr(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	narrowed, err := w.Kernel.Narrow(kerneltest.Overlay(t, "task", 1, 5))
	require.NoError(t, err)
	require.NoError(t, narrowed.Err())
	require.NoError(t, narrowed.Close())
	require.Error(t, narrowed.Err())
	require.NoError(t, w.Kernel.Err())
	w.Store.FailIn(1)
	w.Call("echo", `{}`)
	require.Error(t, w.Kernel.Err())
	w.MustBeSealed()
}
