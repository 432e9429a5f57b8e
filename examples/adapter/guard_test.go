package adapter

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/helmtest"
)

func TestAdapterSuite(t *testing.T) {
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name:  "the framework of one page",
		Kinds: []string{"plain"},
		Turn:  turn,
		Lacks: map[string]string{
			"02-changed":  "it has no hooks",
			"03-defaults": "it has no hooks",
			"07-alias":    "it has no aliases",
			"08-streams":  "it has no streams",
			"15-ways":     "its loop alone calls tools",
			"18-late":     "an agent has the tools that it was made with",
		},
	})
}

// turn runs the framework's own loop, with a model that follows the script.
func turn(ctx context.Context, t helmtest.Turn) (a helmtest.Answer) {
	if t.Hook != nil || t.Alias != nil || t.Late != nil {
		return helmtest.Answer{Err: errors.ErrUnsupported}
	}
	var tools []Tool
	for _, x := range t.Tools {
		guarded, err := Guarded(t.Kernel, Tool{Name: x.Name, Call: x.Run})
		if err != nil {
			return helmtest.Answer{Err: err}
		}
		tools = append(tools, guarded)
	}
	step := 0
	model := func(results []Result) (calls []Call, answer string) {
		for _, r := range results {
			a.Shown = append(a.Shown, helmtest.Shown{Call: r.Call, Text: r.Text})
		}
		if step == len(t.Model) {
			return nil, t.Text
		}
		for _, c := range t.Model[step] {
			calls = append(calls, Call(c))
		}
		step++
		return calls, ""
	}
	a.Text, a.Err = New(model, Unknown(t.Kernel), tools...).Run(ctx)
	return a
}

func TestGuardedNeedsAll(t *testing.T) {
	_, err := Guarded(nil, Tool{Name: "find", Call: func(context.Context, []byte) (string, error) { return "", nil }})
	require.Error(t, err)
}
