//go:build unix

package bench

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/require"
)

// plainBank goes on with plainRules or with askingRules, which ask what the session knows: two
// sources, and a fact of an earlier receipt.
const (
	plainBank = `
helm: policy/v1
layer: P1
bundle: {name: bank, version: 1}
tools:
  list:
    effect: read
    trusted: true
    input: {type: object, properties: {}}
    output: {type: array, items: {type: object, properties: {to: {type: string}, open: {type: boolean}}}}
    facts: {payee: /*/to, open: /0/open}
    threat: {deny: none}
  pay:
    effect: write
    input: {type: object, required: [to, ref], properties: {to: {type: string}, ref: {type: string}, note: {type: string}}}
    threat: {deny: none}
rules:
`
	plainRules = `
  - {id: all, allow: [list, pay]}
`
	askingRules = `
  - {id: named, deny: pay, unless: {all: [{arg: /to, from: [user, "list#payee"]}, {arg: /ref, from: [user]}]}}
  - {id: all, allow: [list, pay]}
requires:
  - {id: open, tools: [pay], all: [{receipt: list, that: {fact: open, eq: true, absent: false}}]}
`
)

// BenchmarkSources is an allowed call that asks two sources and a fact of a receipt, and the same
// call under a policy that asks nothing, in turn.
func BenchmarkSources(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ctx := context.Background()
	tool := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`[{"open":true,"to":"SE3550000000054910000003"},{"to":"GB29NWBK60161331926819"}]`), nil
	})
	args := json.RawMessage(`{"note":"` + strings.Repeat("rent ", 160) +
		`","ref":"INV-4711","to":"GB29NWBK60161331926819"}`)
	kernel := func(rules string) func() time.Duration {
		k, err := helm.New(helm.Options{Policy: kerneltest.Compile(b, plainBank+rules),
			Key: kerneltest.SeedKey(b, 1), Store: proofgraph.NewMemory()})
		require.NoError(b, err)
		require.NoError(b, k.UserMessage(ctx, "s", "Please pay invoice INV-4711."))
		guard := func(in helm.Intent) time.Duration {
			in.Session, in.Driver = "s", tool
			begun := time.Now()
			if d, _ := k.Guard(ctx, in); d.Err() != nil {
				b.Fatal(d.Err())
			}
			return time.Since(begun)
		}
		guard(helm.Intent{Tool: "list", Args: json.RawMessage(`{}`)})
		return func() time.Duration { return guard(helm.Intent{Tool: "pay", Args: args}) }
	}
	plain, asking := kernel(plainRules), kernel(askingRules)
	var without, with []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		without, with = append(without, plain()), append(with, asking())
	}
	slices.Sort(without)
	slices.Sort(with)
	n := len(with) / 2
	b.ReportMetric(float64(with[n])/float64(without[n]), "x/without")
	b.ReportMetric(float64(with[0])/float64(without[0]), "min-x/without")
}
