package otel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	helmotel "github.com/helmkernel/helm/integrations/otel"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

func Example() {
	read := sdkmetric.NewManualReader() // a program has a periodic reader, and an exporter of spans
	traces, meters := sdktrace.NewTracerProvider(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(read))

	t, err := helmotel.New(helmotel.Options{TracerProvider: traces, MeterProvider: meters})
	if err != nil {
		log.Fatal(err)
	}
	pay, err := t.Driver(helm.Func(transfer)) // a driver in a sandbox is bound as it is
	if err != nil {
		log.Fatal(err)
	}
	k, err := helm.New(helm.Options{
		Policy: rules(), Key: key(), Store: proofgraph.NewMemory(),
		Drivers: map[string]helm.Driver{"pay": pay},
		Observe: t.Observe,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	http.Handle("/", t.Handler(agent(k)))

	for _, args := range []string{`{"cents": 900}`, `{"cents": 90000}`} {
		k.Guard(context.Background(), helm.Intent{Tool: "pay", Args: json.RawMessage(args)})
	}
	var told metricdata.ResourceMetrics
	if err := read.Collect(context.Background(), &told); err != nil {
		log.Fatal(err)
	}
	for _, m := range told.ScopeMetrics[0].Metrics {
		if decisions, ok := m.Data.(metricdata.Sum[int64]); ok {
			fmt.Println(m.Name, len(decisions.DataPoints))
		}
	}
	// Output:
	// helm.decisions 2
}

func transfer(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"ok": true}`), nil
}

// agent serves requests that make calls under their own context, which has the span.
func agent(k *helm.Kernel) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		k.Guard(r.Context(), helm.Intent{Tool: "pay", Args: json.RawMessage(`{"cents": 1}`)})
	})
}

func rules() *guardian.Policy {
	doc, err := policy.Parse("pay.yaml", []byte(`
helm: policy/v1
layer: P1
bundle: {name: pay, version: 1}
tools:
  pay: {effect: write, input: {type: object, required: [cents], properties: {cents: {type: integer, maximum: 1000}}}}
rules:
  - {id: all, allow: pay}
`))
	if err != nil {
		log.Fatal(err)
	}
	p, err := guardian.Compile(doc)
	if err != nil {
		log.Fatal(err)
	}
	return p
}

func key() crypto.PrivateKey {
	k, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	return k
}
