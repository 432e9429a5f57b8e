package guardian

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

var (
	effects = []string{string(contracts.Read), string(contracts.Write), string(contracts.Destructive)}
	risks   = []string{string(contracts.Low), string(contracts.Medium), string(contracts.High)} // ascending
)

// readProfile reads what of the surface a floor permits. What it bars is known before any call, tool by tool.
func (l *loader) readProfile(p part) {
	if !l.object(p, []string{"effects", "connectors", "sandbox"}, nil) {
		return
	}
	if x := p.get("effects"); x.there() {
		permitted := l.words(x, 1, func(e part) { l.oneOf(e, effects...) })
		l.bar(contracts.ReasonSideEffectNotPermitted, "permits no tool of this effect", func(t *tool) bool { return permitted[string(t.effect)] })
	}
	if x := p.get("connectors"); x.there() {
		permitted := l.words(x, 1, func(e part) { l.word(e, contracts.IsID, "a connector: 1 to 64 of A-Z a-z 0-9 . _ -") })
		l.bar(contracts.ReasonConnectorNotAllowed, "permits no tool of this connector", func(t *tool) bool { return permitted[t.connector] })
	}
	if x := p.get("sandbox"); x.there() && l.object(x, effects, nil) {
		for _, effect := range effects {
			if e := x.get(effect); e.there() {
				if profile, ok := l.word(e, isProfile, "1 to 128 bytes without control characters"); ok {
					l.demand(effect, profile)
				}
			}
		}
	}
}

// bar bars the tools that are not permitted. Where a tool is barred twice, the reason is the first by the order of judgement.
func (l *loader) bar(reason contracts.ReasonCode, what string, permitted func(*tool) bool) {
	for _, name := range l.names {
		t := l.tools[name]
		if !permitted(t) && (t.barred == "" || reason == contracts.ReasonSideEffectNotPermitted && t.barred != reason) {
			t.barred, t.barrier = reason, "the profile of "+l.layer+":"+l.name+" "+what
		}
	}
}

// demand demands a sandbox for tools of an effect.
func (l *loader) demand(effect, profile string) {
	for _, name := range l.names {
		if t := l.tools[name]; string(t.effect) == effect && !slices.Contains(t.sandboxes, profile) {
			t.sandboxes = append(t.sandboxes, profile)
		}
	}
}

// readCeilings reads what no tool may exceed, whatever its bundle says. A ceiling may only be lower than what holds without one.
func (l *loader) readCeilings(p part) {
	if !l.object(p, []string{"args", "depth", "output", "timeout", "calls", "risk"}, nil) {
		return
	}
	most, depth, risk := mostLimits, maxArgsDepth, string(contracts.High)
	higher := func(key, usual string) {
		l.refuse(p.get(key).at, "higher than "+usual+", which holds without a ceiling", "write a lower one, or remove it")
	}
	l.duration(p.get("timeout"), &most.Timeout)
	l.size(p.get("output"), &most.Output)
	l.size(p.get("args"), &most.Args)
	if most.Timeout > mostLimits.Timeout {
		higher("timeout", "10m")
	}
	if most.Output > mostLimits.Output {
		higher("output", "16MiB")
	}
	if most.Args > mostLimits.Args {
		higher("args", "1MiB")
	}
	if x := p.get("depth"); x.there() {
		n, ok := x.v.Uint()
		if ok = ok && n > 0; !ok {
			l.refuse(x.at, "not a depth", "write an integer from 1 to "+strconv.Itoa(maxArgsDepth))
		} else if n > maxArgsDepth {
			higher("depth", strconv.Itoa(maxArgsDepth))
		} else {
			depth = int(n)
		}
	}
	if x := p.get("risk"); x.there() {
		risk, _ = l.oneOf(x, risks...)
	}
	if x := p.get("calls"); x.there() {
		var ok bool
		if l.terms.calls, ok = x.v.Uint(); !ok || l.terms.calls == 0 {
			l.refuse(x.at, "not a number of calls", "write an integer from 1 on: how many calls of a session are allowed, of all tools together")
		}
	}
	for _, name := range l.names {
		t := l.tools[name]
		if l.terms.calls > 0 {
			l.clause(t)
		}
		t.limits = t.limits.lower(most)
		if depth < maxArgsDepth && (t.depth == 0 || depth < t.depth) {
			t.depth = depth
		}
		if slices.Index(risks, string(t.risk)) > slices.Index(risks, risk) {
			l.clause(t).risky = true
		}
	}
}

const maxArgsDepth = 64 // of any arguments; the root is 1

// deeper tells whether objects and arrays are nested more than so deep.
func deeper(v crypto.Value, depth int) bool {
	if k := v.Kind(); k != crypto.Object && k != crypto.Array {
		return false
	}
	if depth == 0 {
		return true
	}
	for it := v.Iter(); it.Next(); {
		if deeper(it.Value(), depth-1) {
			return true
		}
	}
	return false
}
