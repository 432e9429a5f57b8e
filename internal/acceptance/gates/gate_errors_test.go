package gates

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
)

// At any condition: an error or a panic while a call is judged denies the call. A rule after the
// one that errs is never evaluated.

const erringBundle = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  fetch:
    effect: read
    input:
      type: object
      properties:
        url: {type: string, default: "https://good.example/"}
        when: {type: string, default: "2026-07-15T11:59:00Z"}
        tags: {type: array, items: {type: string}, default: []}
        cost: {type: number, default: 1}
rules:
  - {id: evil, deny: fetch, when: {arg: /url, url: "https://evil.example/"}}
  - {id: stale, deny: fetch, unless: {arg: /when, age_le: 1h}}
  - {id: tagged, deny: fetch, when: {some: /tags, that: {eq: forbidden}}}
  - {id: all, allow: fetch}
budgets:
  - {id: far, tools: fetch, limit: 1000, per: all, window: total, cost: 1, when: {arg: /url, host: "*.far.example"}}
`

const erringFloor = `
helm: policy/v1
layer: P0
name: acme
version: 1
rules:
  - {id: host, deny: fetch, when: {not: {any: [{arg: /cost, lt: 2}, {arg: /url, email: [corp.example]}]}}}
`

func gateErrors() gate {
	var broken atomic.Bool // the clock, during its attack
	stage := func(t *testing.T) *target {
		broken.Store(false)
		s := newTarget(t, helm.Intent{Tool: "fetch", Args: []byte(`{}`), Session: "s"},
			[]string{erringFloor, erringBundle}, func(o *helm.Options) {
				now := o.Now
				o.Now = func() time.Time {
					if broken.Load() {
						panic("the clock")
					}
					return now()
				}
			})
		s.good.Driver = s.World
		return s
	}
	const failed = contracts.ReasonFailClosedError
	errs := func(k kind, name string, text string) attack {
		return attack{kind: k, name: name, reason: failed, change: arguments(text)}
	}
	under := func(k kind, name string, ctx func() context.Context) attack {
		return attack{kind: k, name: name, reason: failed,
			do: func(s *target, in helm.Intent) answer { return answered(s.Kernel.Guard(ctx(), in)) }}
	}
	declares := func(name string, f func(s *target) executor.Driver) attack {
		return attack{kind: panicking, name: name, reason: failed, change: driver(f)}
	}
	return gate{name: "what errs", stage: stage, spared: map[kind]string{
		null:      "arguments that are null are SCHEMA_VIOLATION",
		retyped:   "arguments of another type are SCHEMA_VIOLATION",
		omitted:   "what may be missing has its answer in the rule: absent",
		elsewhere: "an error has no caller and no session",
	}, attacks: []attack{
		errs(emptied, "an address, in the condition of a budget", `{"url":""}`),
		errs(plain, "no address, in the condition of a budget", `{"url":"no host at all"}`),
		errs(plain, "an address that can be read in two ways, in a rule before an allow",
			`{"url":"https://good.example/a/%2e%2e/b"}`),
		errs(plain, "a user before the host", `{"url":"https://good.example@evil.example/"}`),
		errs(plain, "no time, under unless", `{"when":"yesterday"}`),
		errs(plain, "a mail address that is none, under not and any, in a floor", `{"cost":3}`),
		errs(oversize, "more to look at than a decision may", `{"tags":[`+strings.Repeat(`"a",`, 12_000)+`"a"]}`),
		under(plain, "a context that has ended", func() context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx
		}),
		under(panicking, "the context, at its first method", func() context.Context {
			return kerneltest.Hostile(context.Background(), 0)
		}),
		{kind: panicking, name: "the clock", reason: failed, do: func(s *target, in helm.Intent) answer {
			broken.Store(true)
			defer broken.Store(false)
			return s.guard(in)
		}},
		declares("the driver's sandbox",
			func(s *target) executor.Driver { return kerneltest.PanickingSandbox{Driver: s.World} }),
		declares("the driver's definition", func(s *target) executor.Driver {
			return define(s.World, func() contracts.Digest { panic("the provider is away") })
		}),
		declares("a driver that is a nil pointer", func(*target) executor.Driver { return (*defined)(nil) }),
		{kind: replayed, name: "a call whose permission cannot be stored", reason: failed, lost: true,
			do: func(s *target, in helm.Intent) answer {
				s.Store.FailIn(1)
				return s.guard(in)
			}},
		{kind: replayed, name: "a call whose permission cannot be signed", reason: failed, lost: true,
			do: func(s *target, in helm.Intent) answer {
				s.Key.FailIn(1)
				return s.guard(in)
			}},
		{kind: raced, name: "ten that all err", reason: failed, do: func(s *target, in helm.Intent) answer {
			return s.race(in, 10, 0, func(i int, in *helm.Intent) { in.Args = fmt.Appendf(nil, `{"url":"%d"}`, i) })
		}},
	}}
}
