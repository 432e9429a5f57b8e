package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

//go:embed tools.rego
var regoText string

//go:embed verdict.rego
var regoVerdict string

// opa is a prepared query for the verdict. The rules name their tool by an equation, by which OPA
// indexes them.
type opa struct{ query rego.PreparedEvalQuery }

func opaOf(copies int) loader {
	options := []func(*rego.Rego){rego.Query("data.office.allow"), rego.Module("verdict.rego", regoVerdict)}
	for n := range copies {
		options = append(options, rego.Module(fmt.Sprintf("tools%d.rego", n), renamed(policyText(regoText), n)))
	}
	return func() (engine, error) {
		q, err := rego.New(options...).PrepareForEval(context.Background())
		return opa{q}, err
	}
}

// input is the document that the rules see. Everything but the arguments may be made before.
func (o opa) input(tool, who *ast.Term, args ast.Value) ast.Value {
	return ast.NewObject(ast.Item(ast.StringTerm("tool"), tool), ast.Item(ast.StringTerm("caller"), who),
		ast.Item(ast.StringTerm("args"), ast.NewTerm(args)))
}

func (o opa) caller(c *caller) *ast.Term {
	var roles []*ast.Term
	for _, r := range c.roles {
		roles = append(roles, ast.StringTerm(r))
	}
	return ast.ObjectTerm(ast.Item(ast.StringTerm("id"), ast.StringTerm(c.id)),
		ast.Item(ast.StringTerm("roles"), ast.ArrayTerm(roles...)))
}

func (o opa) allowed(input ast.Value) (bool, error) {
	results, err := o.query.Eval(context.Background(), rego.EvalParsedInput(input))
	if err != nil {
		return false, err
	}
	if len(results) != 1 {
		return false, fmt.Errorf("%d results", len(results))
	}
	return results.Allowed(), nil
}

func (o opa) ready(c *call) (decide, error) {
	args, err := ast.ValueFromReader(bytes.NewReader(c.args))
	if err != nil {
		return nil, err
	}
	input := o.input(ast.StringTerm(c.tool), o.caller(c.caller), args)
	return func() (bool, error) { return o.allowed(input) }, nil
}

func (o opa) fromText(c *call) (decide, error) {
	tool, who := ast.StringTerm(c.tool), o.caller(c.caller)
	return func() (bool, error) {
		args, err := ast.ValueFromReader(bytes.NewReader(c.args))
		if err != nil {
			return false, err
		}
		return o.allowed(o.input(tool, who, args))
	}, nil
}
