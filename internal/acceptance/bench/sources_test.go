//go:build unix

package bench

import (
	"context"
	"encoding/json"
	"fmt"
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
    input:
      type: object
      required: [to, ref]
      properties: {to: {type: string}, ref: {type: string}, note: {type: string}}
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

// BenchmarkFirstQuestion is the first call after a restart that asks for what 1,000 receipts of its
// session had as facts, which are read from files, and the call after it.
func BenchmarkFirstQuestion(b *testing.B) {
	const receipts = 1000
	ctx := context.Background()
	store, n := benchStore(b, b.TempDir()), 0
	drivers := map[string]helm.Driver{
		"list": helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			n++
			return fmt.Appendf(nil, `[{"open":true,"to":"SE35500000000549%08d"}]`, n), nil
		}),
		"pay": helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage("{}"), nil
		}),
	}
	policy := kerneltest.Compile(b, plainBank+askingRules)
	open := func() *helm.Kernel {
		k, err := helm.New(helm.Options{Policy: policy, Key: kerneltest.SeedKey(b, 1), Store: store, Drivers: drivers})
		require.NoError(b, err)
		return k
	}
	guard := func(k *helm.Kernel, tool, args string) time.Duration {
		begun := time.Now()
		if d, _ := k.Guard(ctx, helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: "s"}); d.Err() != nil {
			b.Fatal(d.Err())
		}
		return time.Since(begun)
	}
	k := open()
	require.NoError(b, k.UserMessage(ctx, "s", "Please pay invoice INV-4711."))
	for range receipts {
		guard(k, "list", `{}`)
	}
	require.NoError(b, k.Close())
	pay := fmt.Sprintf(`{"ref":"INV-4711","to":"SE35500000000549%08d"}`, receipts)
	var first, next []time.Duration
	for b.Loop() {
		k := open()
		first, next = append(first, guard(k, "pay", pay)), append(next, guard(k, "pay", pay))
		require.NoError(b, k.Close())
	}
	b.ReportMetric(float64(median(first).Microseconds())/1e3, "ms-first")
	b.ReportMetric(float64(median(next).Microseconds())/1e3, "ms-next")
}
