package helm_test

import (
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// reasonsPolicy has what the policy of the other tests lacks: a rule that errs.
const reasonsPolicy = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  echo:
    effect: read
    input: {type: object, properties: {text: {type: string}, n: {type: number, default: 1}}}
    limits: {args: 1KiB}
  scoped:
    effect: read
    input: {type: object, properties: {path: {type: string}}}
    scope: [{arg: /path, within: [/srv], absent: false}]
  closed:
    effect: destructive
    input: {type: object}
rules:
  - {id: site, deny: echo, when: {arg: /text, url: "https://evil.example/", absent: false}}
  - {id: many, deny: echo, when: {arg: /n, gt: 9}}
  - {id: all, allow: [echo, scoped]}
`

// grant is the envelope of a grant, signed by nobody.
func grant() contracts.Envelope {
	payload := `{"_type":"https://in-toto.io/Statement/v1","predicate":{"key":"` + strings.Repeat("0a", 32) + `"},` +
		`"predicateType":"https://github.com/helmkernel/helm/delegation/v1","subject":[{"digest":{"sha256":"` + strings.Repeat("0b", 32) + `"},"name":"delegation"}]}`
	return crypto.AppendEnvelope(nil, contracts.PayloadType, []byte(payload), crypto.Sum(nil), make([]byte, 64))
}

// Every reason for which the guardian denies in this version, but DRIVER_NOT_BOUND of TestDriversBound, comes out of Guard, with a receipt and without a run; each call is admissible
// but for the one thing that it is about.
func TestReasons(t *testing.T) {
	w := newWorld(t, func(o *helm.Options) { o.Policy = compile(t, reasonsPolicy) })
	intents := map[contracts.ReasonCode][]func(in *helm.Intent){
		contracts.ReasonToolNotFound:          {func(in *helm.Intent) { in.Tool = "nobody" }, func(in *helm.Intent) { in.Tool = "Echo" }},
		contracts.ReasonSchemaViolation:       {args(`{"more":1}`), args(`{"text":1}`), args(`{"text":null}`), args(`{"n":"1"}`), args(`{"Text":"x"}`), args(`{"text":"` + strings.Repeat("x", 1024) + `"}`)},
		contracts.ReasonDestinationNotAllowed: {scoped(`{"path":"/etc/passwd"}`), scoped(`{"path":"/srv/../etc"}`), scoped(`{"path":"srv"}`), scoped(`{"path":"/srv-evil"}`), scoped(`{}`)},
		contracts.ReasonPolicyViolation:       {args(`{"n":10}`), args(`{"text":"https://evil.example/x"}`)},
		contracts.ReasonNoPolicyDefined:       {func(in *helm.Intent) { in.Tool, in.Args = "closed", []byte(`{}`) }},
		contracts.ReasonDelegationInvalid:     {func(in *helm.Intent) { in.Delegation = []contracts.Envelope{grant()} }},
		contracts.ReasonFailClosedError:       {args(`{"text":"no url"}`), args(`{"text":"https://user@good.example/"}`)},
	}
	if d, r := w.call("echo", `{"text":"https://good.example/"}`); d.Err() != nil || r.Output == nil {
		t.Fatalf("the call that the others depart from: %v", d.Err())
	}
	w.runs.Store(0)
	for reason, list := range intents {
		for _, change := range list {
			d, r := w.call("echo", `{"text":"https://good.example/"}`, change)
			w.mustBe(d, r, want{reason: reason, outcome: contracts.Denied, err: helm.ErrDenied})
			if d.Why == "" || r.Record.Decision.Condition != reason.Condition() && reason != contracts.ReasonFailClosedError {
				t.Errorf("%s: %q at condition %d", reason, d.Why, r.Record.Decision.Condition)
			}
		}
	}
	report := w.mustVerify()
	if report.Replay.Replayed < 20 || report.Replay.NotReplayable != 0 {
		t.Errorf("%+v", report.Replay)
	}
}

func args(text string) func(in *helm.Intent) {
	return func(in *helm.Intent) { in.Args = []byte(text) }
}

func scoped(text string) func(in *helm.Intent) {
	return func(in *helm.Intent) { in.Tool, in.Args = "scoped", []byte(text) }
}
