package main

import "fmt"

// A decide answers one call: whether it is allowed, and any error on the way, including one that
// the engine would pass over.
type decide func() (bool, error)

// An engine is a loaded policy.
type engine interface {
	ready(c *call) (decide, error)    // of arguments that are in the engine's own form already
	fromText(c *call) (decide, error) // of the JSON text of the arguments, which is read each time
}

// A loader makes an engine of a policy that is written already: parsed, compiled, checked.
type loader func() (engine, error)

// A row is one line of the table.
type row struct {
	name    string
	written func(copies int) loader // the policy's text, of so many copies of its tools
}

var rows = []row{
	{"Go, written by hand", handwrittenOf},
	{"HELM", helmOf},
	{schemaName, schemaOf},
	{"CEL, a program a tool", celOf},
	{"Cedar, one policy set", cedarOf},
	{"Cedar, a policy set a tool", cedarByToolOf},
	{"Casbin, rules by eval()", casbinOf},
	{"Casbin, a matcher a tool", casbinByToolOf},
	{"OPA, a prepared query", opaOf},
}

// A question is a call with the answer that all engines must return.
type question struct {
	decide
	call *call
	want bool
}

// fault returns what is wrong with an answer, or nil.
func (q *question) fault(got bool, err error) error {
	if err == nil && got != q.want {
		err = fmt.Errorf("allowed: %v, and by hand: %v", got, q.want)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", q.call, err)
	}
	return nil
}

// questions are the calls for one engine. The policy written by hand says how to answer them.
func questions(calls []call, copies int, of func(engine, *call) (decide, error), e engine) ([]question, error) {
	hand, err := handwrittenOf(copies)()
	if err != nil {
		return nil, err
	}
	var qs []question
	for i := range calls {
		c := &calls[i]
		byHand, err := hand.fromText(c)
		if err != nil {
			return nil, err
		}
		want, err := byHand()
		if err != nil {
			return nil, err
		}
		d, err := of(e, c)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", c, err)
		}
		q := question{d, c, want}
		if err := q.fault(q.decide()); err != nil {
			return nil, err
		}
		qs = append(qs, q)
	}
	return qs, nil
}
