package log

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever is wrong with a call, no error, Why or event has anything of its arguments or its
// output.
func TestPrivacy(t *testing.T) {
	t.Parallel()
	const private = "PRIVATE"
	w := kerneltest.New(t)
	check := func(d helm.Decision, tool string) {
		t.Helper()
		if d.Err() == nil {
			t.Errorf("%s was allowed: nothing was checked", tool)
			return
		}
		for _, s := range []string{d.Why, d.Err().Error(), fmt.Sprintf("%+v", d.Err()), fmt.Sprint(w.Events)} {
			assert.NotContains(t, s, private, "%s %s", tool, d.Reason)
		}
	}
	for _, args := range []string{`PRIVATE`, `"PRIVATE"`, `{"PRIVATE":`, `{"PRIVATE":1,"PRIVATE":2}`,
		`{"PRIVATE":1,"private":2}`, `{"text":"PRIVATE`, `{"text":"\uPRIVATE"}`,
		`{"text":PRIVATE}`, `{"n":1PRIVATE}`, `{"PRIVATE member":1}`, `{"text":["PRIVATE"]}`, `{"n":"PRIVATE"}`,
		`{"text":"secret PRIVATE"}`, `{"text":{"PRIVATE":1}}`,
		`{"PRIVATE":9007199254740993}`, "{\"PRIVATE\xff\":1}", `{"text":"PRIVATE"} PRIVATE`} {
		d, _ := w.Call("echo", args)
		check(d, "echo")
	}
	for _, args := range []string{`{"path":"/etc/PRIVATE"}`, `{"path":"PRIVATE"}`, `{"path":"/srv/../PRIVATE"}`} {
		d, _ := w.Call("scoped", args)
		check(d, "scoped")
	}
	for _, output := range []string{`"PRIVATE"`, `{"ok":"PRIVATE"}`, `{"PRIVATE":1}`, `{"ok":true,"ok":"PRIVATE"}`,
		`PRIVATE`} {
		w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: []byte(output)}, nil
		}
		d, _ := w.Call("pinned", `{"text":"PRIVATE"}`)
		check(d, "pinned")
	}
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) { panic(struct{ s string }{private}) }
	d, _ := w.Call("pinned", `{"text":"PRIVATE"}`)
	check(d, "panic")
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{Output: []byte(private)}, errors.New(private)
	}
	d, _ = w.Call("pinned", `{}`)
	require.Error(t, d.Err(), "the tool's own error is the caller's, and no one else's")
	assert.Equal(t, private, d.Err().Error())
	assert.NotContains(t, fmt.Sprint(w.Events), private)
	w.Store.FailIn(2)
	w.Tool = kerneltest.ReturnsArgs
	d, _ = w.Call("echo", `{"text":"PRIVATE"}`)
	check(d, "not stored")
	assert.GreaterOrEqual(t, len(w.Events), 25)
}
