//go:build unix

package bench

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/require"
)

// benchPolicy is of the size that is measured: a schema of seven properties, and three rules.
const benchPolicy = `
helm: policy/v1
layer: P1
bundle: {name: bench, version: 1}
tools:
  code.run:
    effect: write
    input:
      type: object
      required: [language, code]
      properties:
        language: {type: string, enum: [go, python, sh]}
        code: {type: string, maxLength: 4000}
        file: {type: string, pattern: "^[a-z0-9_.-]{1,64}$"}
        line: {type: integer, minimum: 1}
        timeout: {type: number, exclusiveMinimum: 0, maximum: 600}
        dry: {type: boolean}
        tags: {type: array, maxItems: 8, items: {type: string, maxLength: 32}}
rules:
  - {id: no-shell, deny: code.run, when: {arg: /language, eq: sh}}
  - {id: late, deny: code.run, when: {arg: /timeout, gt: 300, absent: false}}
  - {id: dev, allow: code.run, when: {caller: roles, has: dev}}
`

// benchArgs are 900 bytes of arguments, with code in a string.
func benchArgs(b testing.TB) json.RawMessage {
	code := strings.Repeat("for i := range 10 {\n\tfmt.Println(\"line\", i)\n}\n", 20)
	for n := len(code); ; n-- {
		raw, err := json.Marshal(map[string]any{"language": "go", "code": code[:n], "file": "main.go", "line": 12,
			"timeout": 30.5, "dry": false, "tags": []string{"a", "b"}})
		require.NoError(b, err)
		if len(raw) <= 900 {
			return raw
		}
	}
}

// ratio times one call and one raw signature of 256 bytes in turn, and reports medians and their
// ratio. GOMAXPROCS is 1: with more, waking an idle core for the driver's goroutine would be
// measured.
func ratio(b *testing.B, call func()) {
	b.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	key, msg := ed25519.NewKeyFromSeed(make([]byte, 32)), make([]byte, 256)
	var calls, signs []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		t0 := time.Now()
		call()
		t1 := time.Now()
		ed25519.Sign(key, msg)
		signs = append(signs, time.Since(t1))
		calls = append(calls, t1.Sub(t0))
	}
	slices.Sort(calls)
	slices.Sort(signs)
	c, s := calls[len(calls)/2], signs[len(signs)/2]
	b.ReportMetric(float64(c)/float64(s), "x/sign")
	b.ReportMetric(float64(calls[0])/float64(signs[0]), "min-x/sign")
	b.ReportMetric(float64(s.Nanoseconds()), "ns/sign")
}

func BenchmarkDeny(b *testing.B) {
	for _, x := range []struct {
		name string
		args json.RawMessage
	}{{"empty", json.RawMessage(`{}`)}, {"900B", benchArgs(b)}} {
		b.Run(x.name, func(b *testing.B) {
			k, ctx := benchKernelOn(b, proofgraph.NewMemory()), context.Background()
			ratio(b, func() {
				d, r := k.Guard(ctx, helm.Intent{Tool: "no.such.tool", Args: x.args, Caller: helm.Caller{ID: "ada"},
					Session: "bench"})
				if d.Reason != contracts.ReasonToolNotFound || r.Record.Outcome != contracts.Denied {
					b.Fatal(d.Err())
				}
			})
		})
	}
}

// benchBudget is charged by every call, and never spent.
const benchBudget = `
budgets:
  - {id: calls, tools: [code.run], limit: 1000000000, per: caller, window: day, cost: 1, refund: error}
`

// BenchmarkAllow is one caller, without and with a daily budget.
func BenchmarkAllow(b *testing.B) {
	for _, more := range []string{"", benchBudget} {
		b.Run(map[bool]string{false: "rules", true: "budget"}[more != ""], func(b *testing.B) {
			k, ctx, args := benchKernelOn(b, proofgraph.NewMemory(), more), context.Background(), benchArgs(b)
			in := helm.Intent{Tool: "code.run", Args: args, Caller: helm.Caller{ID: "ada", Roles: []string{"dev"}},
				Session: "bench"}
			ratio(b, func() {
				if d, r := k.Guard(ctx, in); d.Err() != nil || string(r.Output) != `{"exit":0}` ||
					(more == "") != (r.Record.Settled == nil) {
					b.Fatal(d.Err())
				}
			})
		})
	}
}

// BenchmarkGate is one caller, without a scan of the arguments and with the usual gate.
func BenchmarkGate(b *testing.B) {
	const ungated = "{helm: policy/v1, layer: P0, name: ungated, version: 1, threat: {deny: none}}"
	for name, docs := range map[string][]string{"none": {ungated, benchPolicy}, "usual": {benchPolicy}} {
		b.Run(name, func(b *testing.B) {
			c := newCaller(b, benchKernelOf(b, proofgraph.NewMemory(), docs...), 0, "bench", true)
			ratio(b, func() {
				if _, err := c.call(); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkAllowParallel has 64 callers in 64 sessions, and reports the processor time of a call.
// With a budget they share its balance.
func BenchmarkAllowParallel(b *testing.B) {
	for _, more := range []string{"", benchBudget} {
		b.Run(map[bool]string{false: "rules", true: "budget"}[more != ""], func(b *testing.B) {
			k := benchKernelOn(b, proofgraph.NewMemory(), more)
			var callers []caller
			for i := range 64 {
				callers = append(callers, newCaller(b, k, i, fmt.Sprint("bench-", i), true))
			}
			var used, signUsed time.Duration
			signed := 0
			b.ResetTimer()
			for done := 0; done < b.N; {
				n := min(64*16, b.N-done)
				before := cpu(b)
				if err := together(callers, n); err != nil {
					b.Fatal(err)
				}
				used, done, before = used+cpu(b)-before, done+n, cpu(b)
				signed += signAll(250)
				signUsed += cpu(b) - before
			}
			sign := float64(signUsed) / float64(signed)
			b.ReportMetric(float64(used)/float64(b.N)/sign, "cpu-x/sign")
			b.ReportMetric(sign, "ns-cpu/sign")
		})
	}
}

// hello embeds a kernel over the memory store.
const hello = `package main

import (
	"context"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

func main() {
	var policy guardian.Policy
	key, err := crypto.GenerateKey()
	if err != nil {
		panic(err)
	}
	k, err := helm.New(helm.Options{Policy: &policy, Key: key, Store: proofgraph.NewMemory()})
	if err != nil {
		panic(err)
	}
	k.Guard(context.Background(), helm.Intent{Tool: "hello"})
}
`

// BenchmarkFootprint reports the size of a stripped program that embeds HELM, the size of one that
// prints a line, and how many modules the first links.
func BenchmarkFootprint(b *testing.B) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		b.Fatal(err)
	}
	size := func(source string) (float64, int) {
		// inside the module, whose dependencies it has
		dir, err := os.MkdirTemp(filepath.Join(root, "testdata"), "footprint-")
		if err != nil {
			b.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
			b.Fatal(err)
		}
		bin := filepath.Join(b.TempDir(), "hello")
		if out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin,
			dir).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		info, err := os.Stat(bin)
		if err != nil {
			b.Fatal(err)
		}
		text, err := exec.Command("go", "version", "-m", bin).Output()
		if err != nil {
			b.Fatal(err)
		}
		return float64(info.Size()) / 1e6, strings.Count(string(text), "\tdep\t") + strings.Count(string(text),
			"\tmod\t")
	}
	for b.Loop() {
		ours, modules := size(hello)
		plain, _ := size("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n")
		b.ReportMetric(ours, "MB")
		b.ReportMetric(plain, "MB-plain")
		b.ReportMetric(float64(modules), "modules")
	}
}
