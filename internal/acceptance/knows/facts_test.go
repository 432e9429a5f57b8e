package knows

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Shop is a policy of tools that declare facts of their outputs.
const Shop = `
helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  orders:
    effect: read
    input: {type: object, properties: {q: {type: string}}}
    output: {type: array, items: {type: object, required: [id], properties: {
      id: {type: string}, total: {type: number}, note: {type: string}, paid: {type: [boolean, "null"]}}}}
    limits: {output: 1MiB, timeout: 1s}
    facts: {id: {at: /*/id, trusted: true}, total: /*/total, note: {at: /*/note, text: true}, paid: /*/paid, n: {count: ""}}
  ping:
    effect: read
    input: {type: object, properties: {}}
    output: {type: object}
    facts: {}
  chat:
    effect: read
    input: {type: object, properties: {}}
rules:
  - {id: all, allow: [orders, ping, chat]}
`

func newShop(t *testing.T, change ...func(*helm.Options)) *kerneltest.World {
	t.Helper()
	return kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, Shop)
		for _, tool := range []string{"orders", "ping", "chat"} {
			o.Drivers[tool] = o.Drivers["echo"]
		}
		for _, tool := range []string{"echo", "pinned", "slow", "scoped", "closed"} {
			delete(o.Drivers, tool)
		}
	}}, change...)...)
}

// factsOf returns the facts document that a receipt names, which the store keeps.
func factsOf(w *kerneltest.World, r helm.Receipt) string {
	w.T.Helper()
	if r.Record.FactsHash == nil {
		return ""
	}
	b, err := w.Store.Store.Blob(context.Background(), *r.Record.FactsHash)
	require.NoError(w.T, err)
	require.Equal(w.T, crypto.Sum(b), *r.Record.FactsHash)
	_, err = contracts.ParseFacts(b)
	require.NoError(w.T, err)
	return string(b)
}

// The receipt of a call that was executed names the document of its tool's facts, and the store
// keeps it, whatever else it keeps. No other receipt has one.
func TestFactsOfAnOutput(t *testing.T) {
	t.Parallel()
	const some = `[{"id":"x"}]`
	facts := func(ids, note string, n int) string {
		return fmt.Sprintf(`{"/*/id":%s,"/*/note":%s,"/*/paid":[],"/*/total":[],"count:":[%d]}`, ids, note, n)
	}
	list := func(of string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(of+",", n), ",") + "]" }
	note := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	returns := func(output string) kerneltest.Tool { return kerneltest.Returns(output, nil) }
	result := func(r executor.Result) kerneltest.Tool {
		return func(context.Context, contracts.Call) (executor.Result, error) { return r, nil }
	}
	for name, c := range map[string]struct {
		tool    string
		does    kerneltest.Tool
		outcome contracts.Outcome
		facts   string
	}{
		"of each type": {"orders", returns(
			`[ {"paid":true,"id":"A 1","total":1.50}, {"id":"\u0042","note":"hi","total":-0,"paid":null} ]`),
			contracts.Executed,
			`{"/*/id":["A 1","B"],"/*/note":["hi"],"/*/paid":[true],"/*/total":[1.5,0],"count:":[2]}`},
		"of nothing": {"orders", returns(`[]`), contracts.Executed, facts(`[]`, `[]`, 0)},
		"1,000 values": {"orders", returns(list(`{"id":"x"}`, 1000)), contracts.Executed,
			facts(list(`"x"`, 1000), `[]`, 1000)},
		"1,001 values": {"orders", returns(list(`{"id":"x"}`, 1001)), contracts.Executed,
			facts(`null`, `[]`, 1001)},
		"256 bytes": {"orders", returns(`[{"id":` + note(256) + `}]`), contracts.Executed,
			facts(`[`+note(256)+`]`, `[]`, 1)},
		"257 bytes": {"orders", returns(`[{"id":` + note(257) + `}]`), contracts.Executed,
			facts(`null`, `[]`, 1)},
		"64 KiB of text": {"orders", returns(`[{"id":"x","note":` + note(64<<10) + `}]`), contracts.Executed,
			facts(`["x"]`, `[`+note(64<<10)+`]`, 1)},
		"more of it": {"orders", returns(`[{"id":"x","note":` + note(64<<10+1) + `}]`), contracts.Executed,
			facts(`["x"]`, `null`, 1)},
		"none declared":   {"ping", returns(`{"id":"x"}`), contracts.Executed, `{}`},
		"not declared":    {"chat", returns(some), contracts.Executed, ""},
		"text":            {"chat", returns(`hello`), contracts.Executed, ""},
		"drift":           {"orders", returns(`[{"id":1}]`), contracts.Withheld, ""},
		"raw":             {"orders", result(executor.Result{Output: []byte(some), Raw: true}), contracts.Withheld, ""},
		"no output":       {"orders", returns(""), contracts.Withheld, ""},
		"over the limit":  {"orders", returns(list(`{"id":"x"}`, 100_000)), contracts.Withheld, ""},
		"of a failed one": {"orders", result(executor.Result{Output: []byte(some), Failed: true}), contracts.Failed, ""},
		"with an error":   {"orders", kerneltest.Returns(some, kerneltest.ErrTool), contracts.Failed, ""},
		"a panic": {"orders", func(context.Context, contracts.Call) (executor.Result, error) { panic("tool") },
			contracts.Failed, ""},
		"out of time": {"orders", func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
			<-ctx.Done()
			return executor.Result{Output: []byte(some)}, ctx.Err()
		}, contracts.Indeterminate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, keep := range []helm.Keep{{}, {DropInputs: true}, {Outputs: true}, {DropInputs: true, Outputs: true}} {
				for _, files := range []bool{false, true} {
					w := newShop(t, func(o *helm.Options) {
						o.Keep = keep
						if files {
							kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
						}
					})
					w.Tool = c.does
					_, r := w.Call(c.tool, `{}`)
					require.Equal(t, c.outcome, r.Record.Outcome)
					assert.Equal(t, c.facts, factsOf(w, r))
					assert.Equal(t, c.facts != "", r.Record.FactsHash != nil)
					w.MustVerify()
					if c.facts != "" && keep.Outputs && r.Record.OutputHash != nil {
						_, err := w.Store.Store.Blob(context.Background(), *r.Record.OutputHash)
						assert.NoError(t, err, "the output")
					}
					if name == "out of time" {
						return // once takes long enough
					}
				}
			}
		})
	}
}

// A document is durable no later than the receipt that names it: if it is not stored, nothing is
// released.
func TestFactsThatAreNotStored(t *testing.T) {
	t.Parallel()
	for how, f := range map[string]func(error) error{
		"writes nothing":          nil,
		"writes, reports failure": func(error) error { return kerneltest.ErrDisk },
	} {
		w := newShop(t)
		w.Tool = kerneltest.Returns(`[{"id":"x"}]`, nil)
		w.Store.OnFail = f
		w.Store.FailIn(2)
		w.MustCall(kerneltest.NotStored(), "orders", `{}`)
		w.MustCall(kerneltest.Sealed(), "orders", `{}`)
		w.Store.Heal()
		w.Open()
		for index, st := range w.Statements() {
			if st.Receipt == nil || st.Receipt.Decision != nil {
				continue
			}
			assert.Equal(t, how == "writes nothing", st.Receipt.FactsHash == nil, "%s: entry %d", how, index)
			if st.Receipt.FactsHash != nil {
				_, err := w.Store.Store.Blob(context.Background(), *st.Receipt.FactsHash)
				assert.NoError(t, err)
			}
		}
	}
}
