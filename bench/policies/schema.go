package main

import (
	"encoding/json"
	"errors"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/jsonschema"
	"github.com/helmkernel/helm/policy"
)

const schemaName = "… its reading and schema alone"

// schemas do what no other row does: HELM's check of the arguments against the tool's schema and,
// from text, also strict parsing, the canonical form and its hash. The verdicts were computed
// before by the policy written by hand; only the rest is timed.
type schemas struct {
	of      map[string]*jsonschema.Schema
	hand    engine
	tree    crypto.Tree
	scratch []byte
}

func schemaOf(copies int) loader {
	return func() (engine, error) {
		doc, err := policy.Parse("helm.yaml", []byte(policyText(helmText)))
		if err != nil {
			return nil, err
		}
		var b bundle
		if err := json.Unmarshal(doc.Canonical, &b); err != nil {
			return nil, err
		}
		s := &schemas{of: map[string]*jsonschema.Schema{}}
		for name, text := range b.Tools {
			var tree crypto.Tree
			if err := tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: 16}); err != nil {
				return nil, err
			}
			schema, err := jsonschema.Compile(tree.Root().Get("input"), true)
			if err != nil {
				return nil, err
			}
			for n := range copies {
				s.of[name+suffix(n)] = schema
			}
		}
		s.hand, err = handwrittenOf(copies)()
		return s, err
	}
}

func (s *schemas) check(in *contracts.Inputs) error {
	if schema := s.of[in.Tool]; schema != nil {
		if v := schema.Validate(in.Args); v != nil {
			return errors.New("the arguments are not of the schema")
		}
	}
	return nil
}

func (s *schemas) ready(c *call) (decide, error) {
	answer, err := s.answer(c)
	if err != nil {
		return nil, err
	}
	in, _, err := inputs(new(crypto.Tree), nil, c)
	return func() (bool, error) { return answer, s.check(&in) }, err
}

func (s *schemas) fromText(c *call) (decide, error) {
	answer, err := s.answer(c)
	return func() (bool, error) {
		in, form, err := inputs(&s.tree, s.scratch, c)
		if s.scratch = form; err != nil {
			return false, err
		}
		return answer, s.check(&in)
	}, err
}

func (s *schemas) answer(c *call) (bool, error) {
	hand, err := s.hand.fromText(c)
	if err != nil {
		return false, err
	}
	return hand()
}
