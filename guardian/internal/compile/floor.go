package compile

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/grammar"
)

const maxArgsDepth = 64 // of any arguments; the root is 1

// A floor is a P0 document: what it says of tools is known before any call.
type floor struct{ *loader }

// readThreat reads which signals no call may have.
func (f floor) readThreat(p docValue) {
	all := make([]*program.Tool, len(f.catalog.names))
	for i, name := range f.catalog.names {
		all[i] = f.catalog.tools[name]
	}
	gateReader{f.catalog, f.name, all}.read(p)
}

// readProfile reads what of the surface of tools the floor permits.
func (f floor) readProfile(p docValue) {
	if !f.object(p, grammar.Profile) {
		return
	}
	if x := p.get("effects"); x.exists() {
		permitted := f.words(x, 1, func(e docValue) { f.oneOf(e, effects...) })
		f.exclude(contracts.ReasonSideEffectNotPermitted, "permits no tool of this effect",
			func(t *program.Tool) bool { return permitted[string(t.Effect)] })
	}
	if x := p.get("connectors"); x.exists() {
		permitted := f.words(x, 1, func(e docValue) { f.word(e, contracts.IsID, "a connector: "+formID) })
		f.exclude(contracts.ReasonConnectorNotAllowed, "permits no tool of this connector",
			func(t *program.Tool) bool { return permitted[t.Surface.Connector] })
	}
	if x := p.get("sandbox"); x.exists() && f.object(x, effects) {
		for _, effect := range effects {
			if e := x.get(effect); e.exists() {
				f.demand(effect, f.catalog.profiles.demanded(e))
			}
		}
	}
}

// demand demands a profile of the tools of an effect. Without one it was refused.
func (f floor) demand(effect string, d *program.Demand) {
	for _, name := range f.catalog.names {
		if t := f.catalog.tools[name]; d != nil && string(t.Effect) == effect {
			t.Driver.Demands = append(t.Driver.Demands, d)
		}
	}
}

// exclude excludes the tools that are not permitted. A tool that is excluded twice is excluded for
// the reason that is judged first.
func (f floor) exclude(reason contracts.ReasonCode, what string, permitted func(*program.Tool) bool) {
	for _, name := range f.catalog.names {
		t := f.catalog.tools[name]
		first := t.Excluded.Reason == "" ||
			reason == contracts.ReasonSideEffectNotPermitted && t.Excluded.Reason != reason
		if !permitted(t) && first {
			t.Excluded = program.Exclusion{Reason: reason,
				What: "the profile of " + f.layer + ":" + f.name + " " + what}
		}
	}
}

// readCeilings reads what no tool may exceed, whatever its bundle says. A ceiling may only be lower
// than what holds without one.
func (f floor) readCeilings(p docValue) {
	if !f.object(p, grammar.Ceilings) {
		return
	}
	most := reportedLimits
	f.duration(p.get("timeout"), &most.Timeout)
	f.size(p.get("output"), &most.Output)
	f.size(p.get("args"), &most.Args)
	if most.Timeout > reportedLimits.Timeout {
		f.higher(p.get("timeout"), "24h")
	}
	if most.Output > reportedLimits.Output {
		f.higher(p.get("output"), "16MiB")
	}
	if most.Args > reportedLimits.Args {
		f.higher(p.get("args"), "1MiB")
	}
	depth := maxArgsDepth
	if x := p.get("depth"); x.exists() {
		switch n, ok := x.v.Uint(); {
		case !ok || n == 0:
			f.refuse(x.at, "not a depth", "write an integer from 1 to "+strconv.Itoa(maxArgsDepth))
		case n > maxArgsDepth:
			f.higher(x, strconv.Itoa(maxArgsDepth))
		default:
			depth = int(n)
		}
	}
	risk := string(contracts.High)
	if x := p.get("risk"); x.exists() {
		risk, _ = f.oneOf(x, risks...)
		f.terms.Risks = true
	}
	if x := p.get("calls"); x.exists() {
		n, ok := x.v.Uint()
		f.terms.Calls = n
		if !ok || n == 0 {
			remedy := "write an integer from 1 on: how many calls of a session are allowed, of all tools together"
			f.refuse(x.at, "not a number of calls", remedy)
		}
	}
	for _, name := range f.catalog.names {
		t := f.catalog.tools[name]
		if f.terms.Calls > 0 {
			f.clause(t)
		}
		if most.Args < t.Limits.Args {
			t.ArgsBy = f.prefix
		}
		t.Limits = t.Limits.Lower(most)
		if depth < maxArgsDepth && (t.Depth == 0 || depth < t.Depth) {
			t.Depth, t.DepthBy = depth, f.prefix
		}
		if slices.Index(risks, string(t.Risk)) > slices.Index(risks, risk) {
			f.clause(t).Risky = true
		}
	}
}

// higher refuses a ceiling that is higher than what holds without one.
func (f floor) higher(p docValue, usual string) {
	f.refuse(p.at, "higher than "+usual+", which holds without a ceiling", "write a lower one, or remove it")
}
