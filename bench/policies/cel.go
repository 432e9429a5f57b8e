package main

import (
	"encoding/json"
	"fmt"

	"cel.dev/cel-go/cel"
)

// celRules are an expression a tool: the denials, then the allowance. CEL has expressions and no
// policies, so the combination of rules is written out.
var celRules = map[string]string{
	"fs.read": `!(["/srv/secrets", "/srv/keys"].exists(d, args.path == d || args.path.startsWith(d + "/")))
		&& !(has(args.lines) && args.lines > 1000)
		&& caller.roles.exists(r, r in ["clerk", "dev"])
		&& ["/srv/data", "/srv/work"].exists(d, args.path == d || args.path.startsWith(d + "/"))`,
	"fs.write": `!(["/srv/secrets", "/srv/keys"].exists(d, args.path == d || args.path.startsWith(d + "/")))
		&& !args.path.endsWith(".sh")
		&& "dev" in caller.roles && (args.path == "/srv/work" || args.path.startsWith("/srv/work/"))`,
	"fs.delete": `!(has(args.recursive) && args.recursive)
		&& "maintainer" in caller.roles && (args.path == "/srv/work/tmp" || args.path.startsWith("/srv/work/tmp/"))`,
	"git.push": `!args.force && !(args.branch in ["main", "release"] && !("maintainer" in caller.roles))
		&& "dev" in caller.roles`,
	"web.get": `!args.host.endsWith(".internal") && caller.roles.exists(r, r in ["clerk", "dev"])
		&& args.host in ["docs.example", "go.dev", "news.example", "wiki.example"]`,
	"mail.send": `!(has(args.files) && args.files > 5) && caller.roles.exists(r, r in ["clerk", "support"])
		&& args.to.endsWith("@corp.example")`,
	"pay.send": `!(args.amount > 1000000) && !(args.amount > 100000 && !("treasurer" in caller.roles))
		&& args.to in [$PAYEES] && "clerk" in caller.roles && args.currency in ["EUR", "USD"]`,
	"pay.list": `!(args.last > 100) && caller.roles.exists(r, r in ["clerk", "auditor"])`,
	"db.query": `!(args.table in ["users", "tokens", "salaries"] && !("dba" in caller.roles))
		&& !(args.limit > 10000) && caller.roles.exists(r, r in ["analyst", "dba"])`,
	"db.update":    `!args.table.startsWith("audit_") && !(args.rows > 100) && "dba" in caller.roles`,
	"ticket.close": `has(args.reason) && "support" in caller.roles`,
	"profile.update": `!(args.field == "role" && !("hr" in caller.roles))
		&& !(args.user != caller.id && !("hr" in caller.roles))`,
}

// celEngine is a compiled, checked and optimised program for each tool.
type celEngine map[string]cel.Program

func newCELEnv(options ...cel.EnvOption) (*cel.Env, error) {
	return cel.NewEnv(append(options, cel.Variable("caller", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)))...)
}

func celProgram(env *cel.Env, text string) (cel.Program, error) {
	checked, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	return env.Program(checked, cel.EvalOptions(cel.OptOptimize))
}

func celOf(copies int) loader {
	return func() (engine, error) {
		env, err := newCELEnv()
		if err != nil {
			return nil, err
		}
		e := celEngine{}
		for n := range copies {
			for tool, text := range celRules {
				if e[tool+suffix(n)], err = celProgram(env, policyText(text)); err != nil {
					return nil, err
				}
			}
		}
		return e, nil
	}
}

func (e celEngine) eval(tool string, variables map[string]any) (bool, error) {
	program := e[tool]
	if program == nil {
		return false, nil
	}
	out, _, err := program.Eval(variables)
	if err != nil {
		return false, err
	}
	allowed, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the value is a %T", out.Value())
	}
	return allowed, nil
}

func (e celEngine) ready(c *call) (decide, error) {
	var args map[string]any
	if err := json.Unmarshal(c.args, &args); err != nil {
		return nil, err
	}
	// faster than an Activation
	variables := map[string]any{"caller": map[string]any{"id": c.caller.id, "roles": c.caller.roles}, "args": args}
	return func() (bool, error) { return e.eval(c.tool, variables) }, nil
}

func (e celEngine) fromText(c *call) (decide, error) {
	who := map[string]any{"id": c.caller.id, "roles": c.caller.roles}
	return func() (bool, error) {
		var args map[string]any
		if err := json.Unmarshal(c.args, &args); err != nil {
			return false, err
		}
		return e.eval(c.tool, map[string]any{"caller": who, "args": args})
	}, nil
}
