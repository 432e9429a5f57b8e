package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

var casbinProbes = map[string]string{
	"limit":    `r.args.amount > 1000`,
	"fraction": `r.args.amount > 999.5`,
	"network":  `ipMatch(r.args.addr, "10.0.0.0/8")`,
	"unknown":  `exceeds(r.args.amount, 1000)`,
	"misspelt": `r.args.amuont > 1000`,
}

// casbinProber does as Casbin's README does: if res, _ := e.Enforce(…); res.
func casbinProber(rule string, _ bool) (func([]byte) answer, error) {
	e, err := newEnforcer(casbinModel, [][]string{{"pay.send", `g(r.sub, "clerk")`, "allow"},
		{"pay.send", casbinProbes[rule], "deny"}})
	return func(text []byte) answer {
		var args map[string]any
		if err := json.Unmarshal(text, &args); err != nil {
			return answer{unread: true, err: err}
		}
		res, err := e.Enforce(callers[0].id, "pay.send", args)
		return answer{allow: res, err: err}
	}, err
}

var opaProbes = map[string]string{
	"limit":    `input.args.amount > 1000`,
	"fraction": `input.args.amount > 999.5`,
	"network":  `net.cidr_contains("10.0.0.0/8", input.args.addr)`,
	"unknown":  `exceeds(input.args.amount, 1000)`,
	"misspelt": `input.args.amuont > 1000`,
}

const opaProbe = `package office

permit if {
	input.tool == "pay.send"
	"clerk" in input.caller.roles
}

deny if {
	input.tool == "pay.send"
	%s
}
`

// opaSchema is a schema of the input, by which OPA checks the rules when they are loaded.
var opaSchema = func() func(*rego.Rego) {
	words := map[string]any{"type": "string"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	}
	set := ast.NewSchemaSet()
	set.Put(ast.SchemaRootRef, object(map[string]any{
		"tool":   words,
		"caller": object(map[string]any{"id": words, "roles": map[string]any{"type": "array", "items": words}}),
		"args":   object(map[string]any{"amount": map[string]any{"type": "number"}, "addr": words}),
	}))
	return rego.Schemas(set)
}()

// opaProber does as OPA's page on integration does: an error is handled, else results.Allowed()
// decides.
func opaProber(options ...func(*rego.Rego)) func(rule string, optional bool) (func([]byte) answer, error) {
	return func(rule string, _ bool) (func([]byte) answer, error) {
		all := append([]func(*rego.Rego){rego.Query("data.office.allow"), rego.Module("verdict.rego", regoVerdict),
			rego.Module("bank.rego", fmt.Sprintf(opaProbe, opaProbes[rule]))}, options...)
		q, err := rego.New(all...).PrepareForEval(context.Background())
		o := opa{q}
		return func(text []byte) answer {
			args, err := ast.ValueFromReader(bytes.NewReader(text))
			if err != nil {
				return answer{unread: true, err: err}
			}
			allowed, err := o.allowed(o.input(ast.StringTerm("pay.send"), o.caller(&callers[0]), args))
			return answer{allow: allowed, err: err}
		}, err
	}
}

var celProbes = map[string]string{
	"limit":    `args.amount > 1000`,
	"fraction": `args.amount > 999.5`,
	"network":  `cidr("10.0.0.0/8").containsIP(args.addr)`,
	"unknown":  `args.amount.exceeds(1000)`,
	"misspelt": `args.amuont > 1000`,
}

// celProber does as all examples of CEL do: with an error there is no value.
func celProber(rule string, _ bool) (func([]byte) answer, error) {
	env, err := newCELEnv(ext.Network())
	if err != nil {
		return nil, err
	}
	program, err := celProgram(env, fmt.Sprintf(`!(%s) && "clerk" in caller.roles`, celProbes[rule]))
	return func(text []byte) answer {
		var args map[string]any
		if err := json.Unmarshal(text, &args); err != nil {
			return answer{unread: true, err: err}
		}
		allowed, err := celEngine{"pay.send": program}.eval("pay.send",
			map[string]any{"caller": map[string]any{"roles": callers[0].roles}, "args": args})
		return answer{allow: allowed, err: err}
	}, err
}

var celTypedProbes = map[string]string{
	"limit":    `args.amount > 1000.0`,
	"fraction": `args.amount > 999.5`,
	"network":  `cidr("10.0.0.0/8").containsIP(args.addr)`,
	"unknown":  `args.amount.exceeds(1000.0)`,
	"misspelt": `args.amuont > 1000.0`,
}

// A celPayment is the type of the arguments, for CEL's checker.
type celPayment struct {
	Amount float64 `json:"amount" cel:"amount"`
	Addr   string  `json:"addr" cel:"addr"`
}

// celTypedProber declares a Go type for the arguments, as the page of ext.NativeTypes does.
func celTypedProber(rule string, _ bool) (func([]byte) answer, error) {
	payment := reflect.TypeFor[celPayment]()
	of := payment.PkgPath() // "main", but not in a test
	env, err := cel.NewEnv(ext.Network(), ext.NativeTypes(payment, ext.ParseStructTags(true)),
		cel.Variable("caller", cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
		cel.Variable("args", cel.ObjectType(of[strings.LastIndexByte(of, '/')+1:]+"."+payment.Name())))
	if err != nil {
		return nil, err
	}
	program, err := celProgram(env, fmt.Sprintf(`!(%s) && "clerk" in caller.roles`, celTypedProbes[rule]))
	return func(text []byte) answer {
		var args celPayment
		if err := json.Unmarshal(text, &args); err != nil {
			return answer{unread: true, err: err}
		}
		allowed, err := celEngine{"pay.send": program}.eval("pay.send",
			map[string]any{"caller": map[string]any{"roles": callers[0].roles}, "args": args})
		return answer{allow: allowed, err: err}
	}, err
}
