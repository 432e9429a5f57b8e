package helm_test

import (
	"context"
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	good := func() helm.Options {
		return helm.Options{Policy: kerneltest.Compile(t, kerneltest.Policy), Key: kerneltest.SeedKey(t, 1),
			Store: proofgraph.NewMemory()}
	}
	k, err := helm.New(good())
	require.NoError(t, err)
	require.NoError(t, k.Close())
	cases := map[string]struct {
		change func(o *helm.Options)
		says   []string
	}{
		"zero":        {func(o *helm.Options) { *o = helm.Options{} }, []string{"Policy", "Key", "Store"}},
		"no policy":   {func(o *helm.Options) { o.Policy = nil }, []string{"missing Policy"}},
		"zero policy": {func(o *helm.Options) { o.Policy = new(guardian.Policy) }, []string{"Options.Policy"}},
		"KMS, no LogKey": {func(o *helm.Options) {
			o.Key = &kerneltest.FaultySigner{PrivateKey: kerneltest.SeedKey(t, 1)}
		}, []string{"LogKey"}},
		"not Ed25519":  {func(o *helm.Options) { o.Key = ec }, []string{"Options.Key", "ed25519"}},
		"LogKey = Key": {func(o *helm.Options) { o.LogKey = o.Key }, []string{"one role"}},
		"origin":       {func(o *helm.Options) { o.Origin = "a b" }, []string{"Options.Origin"}},
		"nil driver": {func(o *helm.Options) { o.Drivers = map[string]executor.Driver{"echo": helm.Func(nil)} },
			[]string{"Drivers", `"echo"`}},
		"misspelt driver": {func(o *helm.Options) {
			o.Drivers = map[string]executor.Driver{
				"ecko": helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
					return nil, nil
				}),
			}
		}, []string{"Drivers", `"ecko": the policy declares no such tool`}},
		"typed nil store": {func(o *helm.Options) { o.Store = (*proofgraph.Memory)(nil) }, []string{"missing Store"}},
		"panicking clock": {func(o *helm.Options) { o.Now = func() time.Time { panic("x") } }, []string{"Options.Now"}},
		"no randomness":   {func(o *helm.Options) { o.Rand = strings.NewReader("short") }, []string{"Options.Rand"}},
		"expired": {func(o *helm.Options) {
			o.Policy = kerneltest.Compile(t, strings.Replace(kerneltest.Policy, "layer: P1",
				"layer: P1\nexpires: \"2020-01-01T00:00:00Z\"", 1))
		}, []string{"test.yaml", "expire"}},
		"failing store": {func(o *helm.Options) {
			s := &kerneltest.FaultyStore{Store: o.Store}
			s.FailIn(1)
			o.Store = s
		}, []string{kerneltest.ErrDisk.Error()}},
	}
	for name, x := range cases {
		o := good()
		x.change(&o)
		k, err := helm.New(o)
		assert.Nil(t, k, name)
		for _, s := range x.says {
			assert.ErrorContains(t, err, s, name)
		}
	}
}

// A log is continued only with the options that it began with, and under no older policy.
func TestNewContinues(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Call("echo", `{}`)
	for name, change := range map[string]func(o *helm.Options){
		"another origin": func(o *helm.Options) { o.Origin = "elsewhere" },
		"another key":    func(o *helm.Options) { o.Key = kerneltest.SeedKey(t, 9) },
		"another log":    func(o *helm.Options) { o.LogKey = kerneltest.SeedKey(t, 9) },
	} {
		o, size := w.Options, w.Size()
		change(&o)
		k, err := helm.New(o)
		assert.Error(t, err, "%s: accepted", name)
		assert.Nil(t, k, "%s: accepted", name)
		assert.Equal(t, size, w.Size(), "%s: wrote to the log", name)
	}
	size := w.Size()
	w.Open()
	assert.Equal(t, size, w.Size(), "the same policy was entered again")
	w.Options.Policy = kerneltest.Compile(t, strings.Replace(kerneltest.Policy, "version: 1", "version: 2", 1))
	w.Open()
	assert.Equal(t, size+1, w.Size(), "entries for a new policy")
	w.Options.Policy = kerneltest.Compile(t, kerneltest.Policy)
	_, err := helm.New(w.Options)
	assert.ErrorContains(t, err, "goes back", "an older policy")
	w.Runs.Store(0)
	w.MustVerify()
}

func TestDropInputs(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.DropInputs = true })
	w.Call("echo", `{}`)
	w.Call("echo", `{"text":"secret"}`)
	report := w.MustVerify()
	assert.Equal(t, uint64(2), report.Replay.NotReplayable)
	assert.Zero(t, report.Replay.Replayed)
}

// An observer is told of every call, once, and of nothing in its arguments or its output.
func TestObserve(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{}, errors.New("private")
	}
	w.Call("echo", `{"text":"private"}`)
	w.Call("echo", `{"text":"private","more":1}`)
	for range 2 {
		w.Call("pinned", `{}`, kerneltest.WithKey("k"))
	}
	w.Call("nowhere", `{}`)
	w.Kernel.Close()
	w.Call("echo", `{}`)
	var reasons, rules []string
	var declared, ran []bool
	for _, e := range w.Events {
		declared, ran = append(declared, e.Declared), append(ran, e.Took > 0)
		reasons, rules = append(reasons, string(e.Reason)), append(rules, e.Rule)
		assert.NotContains(t, strings.Join([]string{e.Tool, e.Session, e.ID, e.Why}, " "), "private", "%+v", e)
		assert.Equal(t, e.Reason == contracts.ReasonKernelSealed, e.Err != nil)
		assert.Equal(t, len(reasons) == 4, e.Repeat)
	}
	assert.Equal(t, "TOOL_ERROR SCHEMA_VIOLATION TOOL_ERROR TOOL_ERROR DENY_TOOL_NOT_FOUND KERNEL_SEALED",
		strings.Join(reasons, " "))
	assert.Equal(t, []string{"P1:test:all", "", "P1:test:all", "P1:test:all", "", ""}, rules)
	assert.Equal(t, []bool{true, true, true, true, false, true}, declared)
	assert.Equal(t, []bool{true, false, true, false, false, false}, ran)
}

// The late end of an abandoned driver is dropped and shown.
func TestLateEnd(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	stop, heard := make(chan struct{}), make(chan helm.Event, 4)
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		<-stop
		return executor.Result{Output: []byte(`"late"`)}, nil
	}
	w.Options.Observe = func(_ context.Context, e helm.Event) { heard <- e }
	w.Open()
	d, _ := w.MustCall(kerneltest.Withheld(contracts.ReasonToolTimeout, contracts.Indeterminate), "slow", `{}`)
	size := w.Size()
	close(stop)
	for e := range heard {
		if e.Late {
			assert.Equal(t, d.Record.ID, e.ID, "%+v", e)
			break
		}
	}
	assert.Equal(t, size, w.Size(), "a late end was recorded")
	w.MustVerify()
}

var _ stdcrypto.Signer = (*kerneltest.FaultySigner)(nil)

// The parts of a kernel cannot be reached through it, to be replaced: no field of it, promoted ones
// included, has an exported name.
func TestKernelHasNoFields(t *testing.T) {
	t.Parallel()
	fields := reflect.VisibleFields(reflect.TypeFor[helm.Kernel]())
	for _, f := range fields {
		assert.False(t, f.IsExported(), "Kernel.%s", f.Name)
	}
	assert.NotEqual(t, 0, len(fields), "no fields were seen")
}
