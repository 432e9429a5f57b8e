package wrap

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// A policy whose tool deploys for real unless it is told not to.
const deployPolicy = `
helm: policy/v1
layer: P1
bundle: {name: ops, version: 1}
tools:
  deploy:
    effect: write
    input:
      type: object
      properties:
        app: {type: string, maxLength: 64}
        live: {type: boolean, default: true}
        at: {type: string}
        opts: {type: object, properties: {force: {type: boolean, default: true}, name: {type: string}}}
        steps: {type: array, items: {type: object, properties: {live: {type: boolean, default: true}}}}
  target:
    effect: write
    input:
      type: object
      properties:
        where: {type: string, default: everywhere}
        hosts: {type: array, items: {type: string}, default: [all]}
  open:
    effect: write
    input: {type: object, properties: {opts: {type: object, properties: {name: {type: string}}, default: {name: x}}}}
  count:
    effect: read
    input: {type: object, properties: {n: {type: integer, default: 0}}}
rules:
  - {id: all, allow: [deploy, target, open, count]}
`

// deployed wraps a function as the tool and calls it. It returns what the function got, if it ran.
func deployed[In any](t *testing.T, w *kerneltest.World, tool string, in In) (got *In, d *helm.Error) {
	t.Helper()
	run := helm.Wrap(w.Kernel, tool, func(_ context.Context, in In) (int, error) {
		w.Runs.Add(1)
		got = &in
		return 1, nil
	})
	_, err := run(helm.With(context.Background(), helm.Intent{Session: "s"}), in)
	if err != nil {
		require.ErrorAs(t, err, &d)
	}
	return got, d
}

// sends returns a call of [deployed] that must be denied.
func sends[In any](tool string, in In) func(*testing.T, *kerneltest.World) *helm.Error {
	return func(t *testing.T, w *kerneltest.World) *helm.Error {
		_, d := deployed(t, w, tool, in)
		return d
	}
}

func deployWorld(t *testing.T) *kerneltest.World {
	t.Helper()
	return kerneltest.New(t, func(o *helm.Options) {
		o.Policy, o.Drivers = kerneltest.Compile(t, deployPolicy), nil
	})
}

type opts struct {
	Force bool   `json:"force,omitempty"`
	Name  string `json:"name,omitempty"`
}

type step struct {
	Live bool `json:"live,omitempty"`
}

type base struct {
	App string `json:"app,omitempty"`
}

type stamped struct {
	time.Time
	DryRun bool `json:"dry_run"`
}

type lower struct {
	Dry bool `json:"-"`
}

// What the function would not get as it was passed never runs, and the denial names the field.
func TestWrapLosesNothing(t *testing.T) {
	t.Parallel()
	w := deployWorld(t)
	type nested struct {
		Live  *bool  `json:"live,omitempty"`
		Opts  *opts  `json:"opts,omitempty"`
		Steps []step `json:"steps,omitempty"`
	}
	type hidden struct {
		App string `json:"app"`
		dry bool
	}
	type one struct {
		Live *bool `json:"live,omitempty"`
		Skip bool  `json:"-"`
	}
	for _, x := range []struct {
		name, field string
		call        func(*testing.T, *kerneltest.World) *helm.Error
	}{
		{`tagged "-"`, "DryRun", sends("deploy", struct {
			App    string `json:"app"`
			DryRun bool   `json:"-"`
		}{"private", true})},
		{`tagged "-", and zero in this call`, "DryRun", sends("deploy", struct {
			App    string `json:"app"`
			DryRun bool   `json:"-"`
		}{App: "private"})},
		{"not exported", "dryRun", sends("deploy", struct {
			App    string `json:"app"`
			dryRun bool
		}{"private", true})},
		{"of an embedded struct", "hidden.dry", sends("deploy", struct{ hidden }{hidden{"private", true}})},
		{"below a slice of pointers", "Steps.Skip", sends("deploy", struct {
			Steps []*one `json:"steps"`
		}{[]*one{{Skip: true}}})},
		{"a function", "Confirm", sends("deploy", struct {
			App     string       `json:"app"`
			Confirm func() error `json:"confirm"`
		}{App: "private"})},
		{"a channel that is left out", "Done", sends("deploy", struct {
			App  string        `json:"app"`
			Done chan struct{} `json:"done,omitempty"`
		}{App: "private"})},
		{"two fields of one name", "App", sends("deploy", struct {
			base
			App string `json:"app,omitempty"`
		}{base{"private"}, "other"})},
		{"methods of an embedded field", "/at/DryRun", sends("deploy", struct {
			At   stamped `json:"at"`
			Live bool    `json:"live"`
		}{stamped{DryRun: true}, true})},
		{"held by an interface", "DryRun", sends[any]("deploy", struct {
			App    string `json:"app"`
			DryRun bool   `json:"-"`
		}{"private", true})},
		{"held by an interface in a map", "Dry", sends("deploy", map[string]any{"opts": []any{&lower{true}}[0]})},
		{"false, and omitempty", "/live", sends("deploy", struct {
			App  string `json:"app"`
			Live bool   `json:"live,omitempty"`
		}{App: "private"})},
		{"empty, and omitzero", "/where", sends("target", struct {
			Where string   `json:"where,omitzero"`
			Hosts []string `json:"hosts,omitempty"`
		}{})},
		{"zero, and omitempty, where the default is zero", "/n", sends("count", struct {
			N int `json:"n,omitempty"`
		}{})},
		{"no members, which is not nil", "/opts", sends("open", struct {
			Opts map[string]any `json:"opts,omitempty"`
		}{Opts: map[string]any{}})},
		{"no elements, which is not nil", "/hosts", sends("target", struct {
			Where *string  `json:"where,omitempty"`
			Hosts []string `json:"hosts,omitempty"`
		}{Hosts: []string{}})},
		{"false, in an object", "/opts/force", sends("deploy", nested{Opts: &opts{Name: "private"}})},
		{"false, in an element", "/steps/1/live", sends("deploy", nested{Steps: []step{{true}, {false}}})},
		{"text that is not UTF-8", "/opts/name", sends("deploy", nested{Opts: &opts{true, "private\xff"}})},
		{"text that is not UTF-8, in a map", "/*", sends("deploy", map[string]any{"app": "private\xff"})},
		{"the type lacks what the schema fills in", "/live", sends("deploy", base{"private"})},
	} {
		t.Run(x.name, func(t *testing.T) {
			before := w.Size()
			d := x.call(t, w)
			require.NotNil(t, d, "it ran")
			assert.ErrorIs(t, d, helm.ErrDenied)
			assert.Equal(t, contracts.ReasonSchemaViolation, d.Reason)
			assert.Contains(t, d.Why, x.field)
			assert.NotContains(t, d.Error(), "private")
			assert.Zero(t, w.Runs.Load(), "it ran")
			require.Equal(t, before+1, w.Size(), "one receipt")
			for i, st := range w.Statements() {
				if i == before {
					require.NotNil(t, st.Receipt)
					require.NotNil(t, st.Receipt.Decision)
					assert.Equal(t, contracts.ReasonIntentMalformed, st.Receipt.Decision.Reason, "of the record")
				}
			}
		})
	}
	w.MustVerify()
}

// What survives runs as before.
func TestWrapTakes(t *testing.T) {
	t.Parallel()
	w := deployWorld(t)
	type own struct {
		At   time.Time         `json:"at"`
		Live *bool             `json:"live,omitempty"`
		Opts map[string]string `json:"opts,omitempty"`
		_    int
	}
	got, d := deployed(t, w, "deploy", own{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	require.Nil(t, d)
	assert.True(t, *got.Live, "the default, where nil was passed")

	type target struct {
		Where string   `json:"where"`
		Hosts []string `json:"hosts,omitempty"`
	}
	to, d := deployed(t, w, "target", target{})
	require.Nil(t, d)
	assert.Equal(t, target{"", []string{"all"}}, *to, "what is always sent stays; nil may be a default")

	type same struct {
		Live bool `json:"live,omitempty"`
	}
	all, d := deployed(t, w, "deploy", same{true})
	require.Nil(t, d)
	assert.Equal(t, same{true}, *all)

	type number struct {
		N json.Number `json:"n"`
	}
	n, d := deployed(t, w, "count", number{"1e1"})
	require.Nil(t, d)
	assert.Equal(t, json.Number("10"), n.N)
	type whole struct{ time.Time }
	_, d = deployed(t, w, "deploy", struct {
		At   whole `json:"at"`
		Live *bool `json:"live,omitempty"`
	}{At: whole{time.Unix(1, 0)}})
	require.Nil(t, d)
	loose, d := deployed[any](t, w, "deploy", map[string]any{"app": "x", "steps": []any{map[string]any{"live": false}}})
	require.Nil(t, d)
	assert.Equal(t, map[string]any{"app": "x", "steps": []any{map[string]any{"live": false}}, "live": true}, *loose)
	w.MustVerify()
}

// What an earlier condition denies is denied by it.
func TestWrapDeniedEarlier(t *testing.T) {
	t.Parallel()
	w := deployWorld(t)
	type in struct {
		App    int  `json:"app"`
		DryRun bool `json:"-"`
	}
	_, d := deployed(t, w, "missing", in{1, true})
	require.NotNil(t, d)
	assert.Equal(t, contracts.ReasonToolNotFound, d.Reason)
	_, d = deployed(t, w, "deploy", in{1, true})
	require.NotNil(t, d)
	assert.Equal(t, contracts.ReasonSchemaViolation, d.Reason)
	assert.Contains(t, d.Why, "/app: type")
	w.MustVerify()
}
