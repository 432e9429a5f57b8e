package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casbin/casbin/v3"
	"github.com/casbin/casbin/v3/model"
)

// Casbin's model with rules in the lines of the policy, which its documentation has for many
// attribute rules: eval() compiles each rule whenever it is evaluated. A deny line overrides.
const casbinModel = `
[request_definition]
r = sub, tool, args
[policy_definition]
p = tool, rule, eft
[role_definition]
g = _, _
g2 = _, _
[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))
[matchers]
m = r.tool == p.tool && eval(p.rule)
`

// The model without lines: the rules of one tool are the matcher, which an Enforcer compiles once.
const casbinByTool = `
[request_definition]
r = sub, args
[policy_definition]
p = sub, args
[role_definition]
g = _, _
g2 = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = `

type casbinRule struct{ tool, effect, rule string }

const casbinSecret = `r.args.path == "/srv/secrets" || keyMatch(r.args.path, "/srv/secrets/*") || r.args.path == ` +
	`"/srv/keys" || keyMatch(r.args.path, "/srv/keys/*")`

var casbinRules = []casbinRule{
	{"fs.read", "deny", casbinSecret},
	{"fs.read", "deny", `has(r.args, "lines") && r.args.lines > 1000`},
	{"fs.read", "allow",
		`(g(r.sub, "clerk") || g(r.sub, "dev")) && (r.args.path == "/srv/data" || keyMatch(r.args.path, ` +
			`"/srv/data/*") || r.args.path == "/srv/work" || keyMatch(r.args.path, "/srv/work/*"))`},
	{"fs.write", "deny", casbinSecret},
	{"fs.write", "deny", `r.args.path =~ "[.]sh$"`},
	{"fs.write", "allow", `g(r.sub, "dev") && (r.args.path == "/srv/work" || keyMatch(r.args.path, "/srv/work/*"))`},
	{"fs.delete", "deny", `has(r.args, "recursive") && r.args.recursive`},
	{"fs.delete", "allow",
		`g(r.sub, "maintainer") && (r.args.path == "/srv/work/tmp" || keyMatch(r.args.path, "/srv/work/tmp/*"))`},
	{"git.push", "deny", `r.args.force == true`},
	{"git.push", "deny", `r.args.branch in ("main", "release") && !g(r.sub, "maintainer")`},
	{"git.push", "allow", `g(r.sub, "dev")`},
	{"web.get", "deny", `r.args.host =~ "[.]internal$"`},
	{"web.get", "allow",
		`(g(r.sub, "clerk") || g(r.sub, "dev")) && r.args.host in ("docs.example", "go.dev", "news.example", ` +
			`"wiki.example")`},
	{"mail.send", "deny", `has(r.args, "files") && r.args.files > 5`},
	{"mail.send", "allow", `(g(r.sub, "clerk") || g(r.sub, "support")) && r.args.to =~ "@corp[.]example$"`},
	{"pay.send", "deny", `r.args.amount > 1000000`},
	{"pay.send", "deny", `r.args.amount > 100000 && !g(r.sub, "treasurer")`},
	{"pay.send", "deny", `!g2(r.args.to, "payee")`},
	{"pay.send", "allow", `g(r.sub, "clerk") && r.args.currency in ("EUR", "USD")`},
	{"pay.list", "deny", `r.args.last > 100`},
	{"pay.list", "allow", `g(r.sub, "clerk") || g(r.sub, "auditor")`},
	{"db.query", "deny", `r.args.table in ("users", "tokens", "salaries") && !g(r.sub, "dba")`},
	{"db.query", "deny", `r.args.limit > 10000`},
	{"db.query", "allow", `g(r.sub, "analyst") || g(r.sub, "dba")`},
	{"db.update", "deny", `r.args.table =~ "^audit_"`},
	{"db.update", "deny", `r.args.rows > 100`},
	{"db.update", "allow", `g(r.sub, "dba")`},
	{"ticket.close", "deny", `!has(r.args, "reason")`},
	{"ticket.close", "allow", `g(r.sub, "support")`},
	{"profile.update", "deny", `r.args.field == "role" && !g(r.sub, "hr")`},
	{"profile.update", "deny", `r.args.user != r.sub && !g(r.sub, "hr")`},
	{"profile.update", "allow", `true`},
}

// A casbinEngine has one Enforcer for all tools, under "", or one a tool.
type casbinEngine map[string]*casbin.Enforcer

// newEnforcer makes one with the callers' roles, the payees, and has, since an accessor of a
// missing argument is an error.
func newEnforcer(text string, rules [][]string) (*casbin.Enforcer, error) {
	m, err := model.NewModelFromString(text)
	if err != nil {
		return nil, err
	}
	e, err := casbin.NewEnforcer(m)
	if err != nil {
		return nil, err
	}
	e.AddFunction("has", func(args ...any) (any, error) {
		_, ok := args[0].(map[string]any)[args[1].(string)]
		return ok, nil
	})
	var roles [][]string
	for _, c := range callers {
		for _, r := range c.roles {
			roles = append(roles, []string{c.id, r})
		}
	}
	if len(rules) > 0 {
		if _, err := e.AddPolicies(rules); err != nil {
			return nil, err
		}
	}
	if _, err := e.AddGroupingPolicies(roles); err != nil {
		return nil, err
	}
	var known [][]string
	for _, p := range payees {
		known = append(known, []string{p, "payee"})
	}
	_, err = e.AddNamedGroupingPolicies("g2", known)
	return e, err
}

func casbinOf(copies int) loader {
	var lines [][]string
	for n := range copies {
		for _, r := range casbinRules {
			lines = append(lines, []string{r.tool + suffix(n), r.rule, r.effect})
		}
	}
	return func() (engine, error) {
		e, err := newEnforcer(casbinModel, lines)
		return casbinEngine{"": e}, err
	}
}

func casbinByToolOf(copies int) loader {
	matchers := map[string]string{}
	for _, t := range tools {
		var allow, deny []string
		for _, r := range casbinRules {
			switch rule := "(" + r.rule + ")"; {
			case r.tool == t.name && r.effect == "allow":
				allow = append(allow, rule)
			case r.tool == t.name:
				deny = append(deny, rule)
			}
		}
		for n := range copies {
			matchers[t.name+suffix(n)] = fmt.Sprintf("!(%s) && (%s)\n", strings.Join(deny, " || "),
				strings.Join(allow, " || "))
		}
	}
	return func() (engine, error) {
		engines := casbinEngine{}
		for tool, matcher := range matchers {
			e, err := newEnforcer(casbinByTool+matcher, nil)
			if err != nil {
				return nil, err
			}
			engines[tool] = e
		}
		return engines, nil
	}
}

func (e casbinEngine) enforce(c *call, args map[string]any) (bool, error) {
	if all := e[""]; all != nil {
		return all.Enforce(c.caller.id, c.tool, args)
	}
	if own := e[c.tool]; own != nil {
		return own.Enforce(c.caller.id, args)
	}
	return false, nil
}

func (e casbinEngine) ready(c *call) (decide, error) {
	var args map[string]any
	err := json.Unmarshal(c.args, &args)
	return func() (bool, error) { return e.enforce(c, args) }, err
}

func (e casbinEngine) fromText(c *call) (decide, error) {
	return func() (bool, error) {
		var args map[string]any
		if err := json.Unmarshal(c.args, &args); err != nil {
			return false, err
		}
		return e.enforce(c, args)
	}, nil
}
