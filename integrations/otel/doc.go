// Package otel tells OpenTelemetry what a kernel decides and how long its tools take:
//
//	t, err := helmotel.New(helmotel.Options{TracerProvider: traces, MeterProvider: meters})
//	pay, err := t.Driver(transfer)
//	k, err := helm.New(helm.Options{
//		Policy: p, Key: key, Store: store,
//		Drivers: map[string]helm.Driver{"pay": pay},
//		Observe: t.Observe,
//	})
//	http.Handle("/", t.Handler(agent))
//
// Observe puts an event on the span of the caller for each decision, counts it, and records the
// time of each run. There is a span of a run if and only if a driver ran: Driver begins it before
// the tool does, so that spans that the tool makes are below it, and for every other driver Observe
// makes it afterwards, as long as the run was. So a call that was denied is an event and no
// span. A driver in a sandbox cannot be wrapped; it is bound as it is, and Observe measures it.
//
// Handler is a server's span of each request, below the one of its client. A [Telemetry] is a
// state.Telemetry, too: the proxy, the gateway, and the desk of calls that are handed over tell it
// what an observer of the kernel does not hear.
//
// No argument and no output is in a span, an event or a metric, and neither is Event.Why, which may
// name a member of the arguments. Metrics have no ids, and a tool that the policy does
// not declare is "_other" in them. docs/telemetry.md lists all names, with what may change.
//
// Whatever a provider does, a call goes on: a panic of it is dropped, and its errors are its own.
// But it is called while the caller waits. A provider that exports in the background, as those of
// the SDK with a batch processor and a periodic reader do, takes the caller a few microseconds, and
// drops what it cannot export; one that exports at once holds up each call for as long as it
// takes. A panic of an exporter on a goroutine of the SDK's own is out of reach here.
package otel
