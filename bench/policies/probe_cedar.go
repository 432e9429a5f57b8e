package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

var cedarProbes = map[string]string{
	"limit":    `context.amount > 1000`,
	"fraction": `context.amount > 999.5`,
	"network":  `ip(context.addr).isInRange(ip("10.0.0.0/8"))`,
	"unknown":  `context.amount.exceeds(1000)`,
	"misspelt": `context.amuont > 1000`,
}

const cedarProbe = `permit (principal in Role::"clerk", action == Action::"pay.send", resource);
forbid (principal, action == Action::"pay.send", resource) when { %s };`

const cedarSchema = `entity Role;
entity User in [Role] { name: String };
entity Office;
action "pay.send" appliesTo { principal: User, resource: Office, context: { %s } };`

// cedarProber does as the quick start of cedar-go does: it uses the decision, and does not look at
// the diagnostic with the errors.
func cedarProber(rule string, _ bool) (func([]byte) answer, error) { return cedarChecked(rule, nil) }

// cedarValidated checks policies and requests against a schema, which cedar-go has in x/exp.
func cedarValidated(rule string, optional bool) (func([]byte) answer, error) {
	context := "amount: Long"
	if rule == "network" {
		context = "addr: String"
	}
	if optional {
		context = strings.Replace(context, ":", "?:", 1)
	}
	var s schema.Schema
	if err := s.UnmarshalCedar(fmt.Appendf(nil, cedarSchema, context)); err != nil {
		return nil, err
	}
	resolved, err := s.Resolve()
	if err != nil {
		return nil, err
	}
	return cedarChecked(rule, validate.New(resolved))
}

func cedarChecked(rule string, v *validate.Validator) (func([]byte) answer, error) {
	set, err := cedar.NewPolicySetFromBytes("bank.cedar", fmt.Appendf(nil, cedarProbe, cedarProbes[rule]))
	if err != nil {
		return nil, err
	}
	if v != nil {
		for id, p := range set.All() {
			if err := v.Policy(string(id), (*ast.Policy)(p.AST())); err != nil {
				return nil, err
			}
		}
	}
	e := &cedarEngine{entities: cedarEntities()}
	return func(args []byte) answer {
		r := e.request(&call{&callers[0], "pay.send", args})
		if err := json.Unmarshal(args, &r.Context); err != nil {
			return answer{unread: true, err: err}
		}
		if v != nil {
			if err := v.Request(r); err != nil {
				return answer{unread: true, err: err}
			}
		}
		decision, diagnostic := cedar.Authorize(set, e.entities, r)
		a := answer{allow: decision == cedar.Allow}
		for _, e := range diagnostic.Errors {
			a.err = errors.Join(a.err, errors.New(e.Message))
		}
		return a
	}, nil
}
