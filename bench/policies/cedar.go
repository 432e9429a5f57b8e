package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
)

//go:embed tools.cedar
var cedarText string

// cedarEngine has the policies in one set, as Cedar's documentation has them, or in one set a tool,
// found by the tool's name: a set is searched from one end to the other.
type cedarEngine struct {
	all      *cedar.PolicySet
	byTool   map[string]*cedar.PolicySet
	entities cedar.EntityMap
}

func cedarOf(copies int) loader {
	var text strings.Builder
	for n := range copies {
		text.WriteString(renamed(policyText(cedarText), n))
	}
	return func() (engine, error) {
		all, err := cedar.NewPolicySetFromBytes("tools.cedar", []byte(text.String()))
		return &cedarEngine{all: all, entities: cedarEntities()}, err
	}
}

func cedarByToolOf(copies int) loader {
	texts := map[string]string{}
	for n := range copies {
		// the policies of one tool are together
		for own := range strings.SplitSeq(renamed(policyText(cedarText), n), "\n\n") {
			_, name, _ := strings.Cut(own, `Action::"`)
			name, _, _ = strings.Cut(name, `"`)
			texts[name] = own
		}
	}
	return func() (engine, error) {
		e := &cedarEngine{byTool: map[string]*cedar.PolicySet{}, entities: cedarEntities()}
		for name, text := range texts {
			var err error
			if e.byTool[name], err = cedar.NewPolicySetFromBytes(name, []byte(text)); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
}

// renamed returns the text of a policy for another copy of the tools, whose names are in quotes
// there.
func renamed(text string, copy int) string {
	if copy == 0 {
		return text
	}
	for _, t := range tools {
		text = strings.ReplaceAll(text, `"`+t.name+`"`, `"`+t.name+suffix(copy)+`"`)
	}
	return text
}

// cedarEntities are the callers, with their roles as parents.
func cedarEntities() cedar.EntityMap {
	m := cedar.EntityMap{}
	for _, c := range callers {
		var parents []cedar.EntityUID
		for _, r := range c.roles {
			role := cedar.NewEntityUID("Role", cedar.String(r))
			m[role] = cedar.Entity{UID: role}
			parents = append(parents, role)
		}
		user := cedar.NewEntityUID("User", cedar.String(c.id))
		m[user] = cedar.Entity{UID: user, Parents: cedar.NewEntityUIDSet(parents...),
			Attributes: cedar.NewRecord(cedar.RecordMap{"name": cedar.String(c.id)})}
	}
	return m
}

func (e *cedarEngine) request(c *call) cedar.Request {
	return cedar.Request{Principal: cedar.NewEntityUID("User", cedar.String(c.caller.id)),
		Action:   cedar.NewEntityUID("Action", cedar.String(c.tool)),
		Resource: cedar.NewEntityUID("Office", "main")}
}

func (e *cedarEngine) authorize(tool string, r cedar.Request) (bool, error) {
	set := e.all
	if e.byTool != nil {
		if set = e.byTool[tool]; set == nil {
			return false, nil
		}
	}
	decision, diagnostic := cedar.Authorize(set, e.entities, r)
	if len(diagnostic.Errors) > 0 {
		return decision == cedar.Allow, fmt.Errorf("%v", diagnostic.Errors[0].Message)
	}
	return decision == cedar.Allow, nil
}

func (e *cedarEngine) ready(c *call) (decide, error) {
	r := e.request(c)
	err := json.Unmarshal(c.args, &r.Context)
	return func() (bool, error) { return e.authorize(c.tool, r) }, err
}

func (e *cedarEngine) fromText(c *call) (decide, error) {
	r := e.request(c)
	return func() (bool, error) {
		if err := json.Unmarshal(c.args, &r.Context); err != nil {
			return false, err
		}
		return e.authorize(c.tool, r)
	}, nil
}
