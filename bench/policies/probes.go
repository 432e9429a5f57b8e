package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/open-policy-agent/opa/v1/rego"
)

// A probe is one call against a policy of two parts: clerks may pay, and one rule denies. The call
// should not go through: it is over the limit, or cannot be compared with it.
type probe struct {
	name     string
	rule     string // which rule denies
	args     string
	optional bool // if there is a schema, it lets the argument be missing
}

var probes = []probe{
	{name: "missing argument", rule: "limit", args: `{}`},
	{name: "missing, optional in a schema", rule: "limit", args: `{}`, optional: true},
	{name: "numeric string", rule: "limit", args: `{"amount":"5000"}`},
	{name: "function that fails", rule: "network", args: `{"addr":"10.0.0.999"}`},
	{name: "fraction, whole limit", rule: "limit", args: `{"amount":1000.5}`},
	{name: "integer, fractional limit", rule: "fraction", args: `{"amount":5000}`},
	{name: "unknown operator", rule: "unknown", args: `{"amount":5000}`},
	{name: "misspelt argument in the rule", rule: "misspelt", args: `{"amount":5000}`},
}

// controls are calls that each rule must deny and let pass, or the probes would show nothing. The
// other two rules can do neither.
var controls = map[string]struct{ denied, allowed string }{
	"limit":    {`{"amount":5000}`, `{"amount":10}`},
	"fraction": {`{"amount":1000}`, `{"amount":999}`},
	"network":  {`{"addr":"10.1.2.3"}`, `{"addr":"192.0.2.1"}`},
}

var ruleNames = []string{"limit", "network", "fraction", "unknown", "misspelt"}

// A prober has the rules in an engine's language, written as its documentation writes such rules.
type prober struct {
	name  string
	rules map[string]string
	load  func(rule string, optional bool) (ask func(args []byte) answer, err error)
}

var probers = []prober{
	{"HELM", helmProbes, helmProber},
	{"Cedar", cedarProbes, cedarProber},
	{"Cedar, validated (experimental)", cedarProbes, cedarValidated},
	{"Casbin", casbinProbes, casbinProber},
	{"OPA", opaProbes, opaProber()},
	{"OPA, strict builtin errors", opaProbes, opaProber(rego.StrictBuiltinErrors(true))},
	{"OPA, schema, strict", opaProbes, opaProber(rego.StrictBuiltinErrors(true), rego.Strict(true), opaSchema)},
	{"CEL", celProbes, celProber},
	{"CEL, typed", celTypedProbes, celTypedProber},
	{"Go, written by hand", goProbes, goProber},
}

// An answer is an engine's answer.
type answer struct {
	allow  bool   // the action of a caller who follows the engine's own example
	reason string // the engine's word for it, if it has one
	unread bool   // the arguments were refused before the policy saw them
	err    error  // with the verdict, or in its place
}

func (a answer) String() string {
	switch {
	case a.unread:
		return "DENY, arguments refused"
	case a.allow && a.err != nil:
		return "**ALLOW**, with an error"
	case a.allow:
		return "**ALLOW**"
	case a.err != nil:
		return "DENY, by its error"
	}
	return strings.TrimSpace("DENY " + a.reason)
}

// A finding is the result of one probe.
type finding struct {
	prober string
	probe  string
	cell   string
	said   error // the engine's own words
}

// ask puts a probe to an engine. If the engine takes the rule, the controls must come out, too.
func (p prober) ask(pr probe) (finding, error) {
	f := finding{prober: p.name, probe: pr.name}
	ask, err := p.load(pr.rule, pr.optional)
	if err != nil {
		f.cell, f.said = "refused at load", err
		return f, nil
	}
	if c, ok := controls[pr.rule]; ok {
		if a := ask([]byte(c.denied)); a.allow || a.err != nil {
			return f, fmt.Errorf("%s, %s: the rule does not deny what it is for: %v, %v", p.name, pr.rule, a, a.err)
		}
		if a := ask([]byte(c.allowed)); !a.allow || a.err != nil {
			return f, fmt.Errorf("%s, %s: what the rule does not speak of is not allowed: %v, %v", p.name, pr.rule, a,
				a.err)
		}
	}
	a := ask([]byte(pr.args))
	f.cell, f.said = a.String(), a.err
	return f, nil
}

// probeAll puts all probes to all engines.
func probeAll() (all [][]finding, err error) {
	for _, p := range probers {
		var own []finding
		for _, pr := range probes {
			f, err := p.ask(pr)
			if err != nil {
				return nil, err
			}
			own = append(own, f)
		}
		all = append(all, own)
	}
	return all, nil
}

// probeTable prints the answers of all engines, how the rules are written, and why engines refuse
// rules.
func probeTable(w io.Writer) error {
	all, err := probeAll()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("\n### A broad allow with a rule that denies\n\n| engine |")
	for _, pr := range probes {
		fmt.Fprintf(&b, " %s |", pr.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(probes)) + "\n")
	for i, p := range probers {
		fmt.Fprintf(&b, "| %s |", p.name)
		for _, f := range all[i] {
			fmt.Fprintf(&b, " %s |", f.cell)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nThe calls: ")
	for i, pr := range probes {
		fmt.Fprintf(&b, "%s%s `%s`", map[bool]string{true: "; "}[i > 0], pr.name, pr.args)
	}
	b.WriteString(".\n\n| the rule that denies |")
	for _, name := range ruleNames {
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(ruleNames)) + "\n")
	for _, p := range probers {
		fmt.Fprintf(&b, "| %s |", p.name)
		for _, name := range ruleNames {
			fmt.Fprintf(&b, " `%s` |", p.rules[name])
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nWhat they said:\n\n")
	for _, own := range all {
		for _, f := range own {
			if f.said != nil {
				line, _, _ := strings.Cut(strings.TrimSpace(f.said.Error()), "\n")
				fmt.Fprintf(&b, "- %s, %s: %s\n", f.prober, f.probe, line)
			}
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}
