package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/graph"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const shop = `
helm: policy/v1
layer: P1
bundle: {name: shop, version: 1}
tools:
  search:  {effect: read, input: {type: object}}
  convert: {effect: read, input: {type: object}}
  quote:   {effect: read, input: {type: object}}
  pay:     {effect: destructive, input: {type: object}}
rules:
  - {id: all, allow: [search, convert, quote, pay]}
`

// One agent searches and asks for a quote, whose tool calls another tool. Another agent pays, after
// both. Why was that paid?
func Example() {
	ctx := context.Background()
	doc, err := policy.Parse("shop.yaml", []byte(shop))
	if err != nil {
		log.Fatal(err)
	}
	pol, err := guardian.Compile(doc)
	if err != nil {
		log.Fatal(err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	store := proofgraph.NewMemory()
	noon := func() time.Time { return time.Date(2026, 9, 21, 12, 0, 0, 0, time.UTC) }
	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: store, Now: noon})
	if err != nil {
		log.Fatal(err)
	}
	call := func(ctx context.Context, session, tool string, run helm.Func, after ...contracts.Ref) contracts.Ref {
		d, r := k.Guard(ctx, helm.Intent{Tool: tool, Args: json.RawMessage(`{}`), Session: session, After: after,
			Driver: run})
		if err := d.Err(); err != nil {
			log.Fatal(err)
		}
		return r.Ref()
	}
	done := func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }
	found := call(ctx, "buyer", "search", done)
	call(ctx, "buyer", "search", done) // of something else
	quoted := call(ctx, "buyer", "quote", func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		call(ctx, "rates", "convert", done) // inside the call
		return args, nil
	})
	call(ctx, "payer", "pay", done, found, quoted)

	g, err := graph.Read(ctx, store)
	if err != nil {
		log.Fatal(err)
	}
	payment, err := g.Find("payer/1") // its receipt
	if err != nil {
		log.Fatal(err)
	}
	quote, err := g.Find("buyer/4") // its decision
	if err != nil {
		log.Fatal(err)
	}
	causes := g.Ancestors(payment, graph.Causes)
	fmt.Println(causes.Len(), "entries led to the payment; it commits to", g.Ancestors(payment, graph.Links).Len(),
		"of", g.Size())
	fmt.Println("the quote came to", slices.Collect(g.Descendants(quote, graph.Causes).All()))
	fmt.Println("from the payment back to it:", slices.Collect(g.Path(payment, quote, graph.Causes).All()))
	if err := g.WriteDOT(ctx, os.Stdout, causes); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 6 entries led to the payment; it commits to 9 of 12
	// the quote came to [6 7 8 9 10 11]
	// from the payment back to it: [6 9 10 11]
	// // 6 of 12 entries: solid edges lead to causes, dotted ones along the chain of a session
	// digraph log {
	// 	rankdir=BT; node [shape=box];
	// 	e2 [group="buyer" label="2 decision\nbuyer/0\n2026-09-21T12:00:00.000Z\nsearch\nALLOW, low risk"];
	// 	e3 [group="buyer" label="3 receipt\nbuyer/1\n2026-09-21T12:00:00.000Z\nsearch\nEXECUTED"];
	// 	e3 -> e2 [label=prev];
	// 	e6 [group="buyer" label="6 decision\nbuyer/4\n2026-09-21T12:00:00.000Z\nquote\nALLOW, low risk"];
	// 	e9 [group="buyer" label="9 receipt\nbuyer/5\n2026-09-21T12:00:00.000Z\nquote\nEXECUTED"];
	// 	e9 -> e6 [label=prev];
	// 	e10 [group="payer" label="10 decision\npayer/0\n2026-09-21T12:00:00.000Z\npay\nALLOW, high risk"];
	// 	e10 -> e3 [label=parent];
	// 	e10 -> e9 [label=parent];
	// 	e11 [group="payer" label="11 receipt\npayer/1\n2026-09-21T12:00:00.000Z\npay\nEXECUTED"];
	// 	e11 -> e10 [label=prev];
	// }
}
