package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

//go:embed helm.yaml
var helmText string

// helm judges by a Policy of package guardian, without a kernel: nothing is signed or stored. As a
// kernel does, it parses arguments into memory that it reuses, so it is for one goroutine.
type helm struct {
	policy         *guardian.Policy
	tree           crypto.Tree
	scratch, spare []byte
}

func helmOf(copies int) loader {
	text, err := []byte(policyText(helmText)), error(nil)
	if copies > 1 {
		text, err = copied(text, copies)
	}
	return func() (engine, error) {
		if err != nil {
			return nil, err
		}
		doc, err := policy.Parse("helm.yaml", text)
		if err != nil {
			return nil, err
		}
		p, err := guardian.Compile(doc)
		return &helm{policy: p}, err
	}
}

// A bundle names the parts of a bundle that are copied, and the rest.
type bundle struct {
	Helm   string                     `json:"helm"`
	Layer  string                     `json:"layer"`
	Bundle json.RawMessage            `json:"bundle"`
	Lists  json.RawMessage            `json:"lists"`
	Tools  map[string]json.RawMessage `json:"tools"`
	Rules  []map[string]any           `json:"rules"`
}

// copied returns a bundle with so many copies of its tools and rules, as JSON.
func copied(text []byte, copies int) ([]byte, error) {
	doc, err := policy.Parse("helm.yaml", text)
	if err != nil {
		return nil, err
	}
	var b bundle
	if err := json.Unmarshal(doc.Canonical, &b); err != nil {
		return nil, err
	}
	tools, rules := b.Tools, b.Rules
	b.Tools, b.Rules = map[string]json.RawMessage{}, nil
	for n := range copies {
		for name, t := range tools {
			b.Tools[name+suffix(n)] = t
		}
		for _, r := range rules {
			rule := map[string]any{}
			for key, v := range r {
				if key == "id" || key == "allow" || key == "deny" {
					v = fmt.Sprint(v, suffix(n))
				}
				rule[key] = v
			}
			b.Rules = append(b.Rules, rule)
		}
	}
	return json.Marshal(b)
}

// inputs are made of a request as a kernel makes them before judging: the arguments parsed, and
// their hash.
func inputs(tree *crypto.Tree, scratch []byte, c *call) (contracts.Inputs, []byte, error) {
	form, err := tree.ParseArgs(scratch[:0], c.args)
	if err != nil {
		return contracts.Inputs{}, form, err
	}
	return contracts.Inputs{Tool: c.tool, Args: tree.Root(), ArgsHash: crypto.Sum(form),
		Caller:  contracts.Caller{ID: c.caller.id, Roles: c.caller.roles},
		Drivers: 1, Session: contracts.DefaultSession, Time: 1_800_000_000_000}, form, nil
}

// verdict counts as an error every denial that no rule made: by a schema, or because the call could
// not be judged.
func verdict(d *contracts.DecisionRecord) (bool, error) {
	switch d.Reason {
	case contracts.ReasonAllow:
		return d.Verdict == contracts.Allow, nil
	case contracts.ReasonPolicyViolation, contracts.ReasonNoPolicyDefined, contracts.ReasonToolNotFound:
		return false, nil
	}
	return false, fmt.Errorf("%v", d.Reason)
}

func (h *helm) ready(c *call) (decide, error) {
	in, _, err := inputs(new(crypto.Tree), nil, c)
	return func() (bool, error) {
		d, _ := h.policy.Judge(in, nil)
		return verdict(&d)
	}, err
}

func (h *helm) fromText(c *call) (decide, error) {
	return func() (bool, error) {
		in, form, err := inputs(&h.tree, h.scratch, c)
		if h.scratch = form; err != nil {
			return false, err
		}
		var filled bool
		if h.spare, filled = h.policy.AppendDefaults(h.spare[:0], c.tool, in.Args); filled {
			return false, errors.New("the tools have no defaults")
		}
		d, _ := h.policy.Judge(in, nil)
		return verdict(&d)
	}, nil
}
