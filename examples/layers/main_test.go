package main

import (
	"bytes"
	"context"
	"github.com/stretchr/testify/assert"
	"os"
	"testing"
)

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// Floor and bundle. A clerk:
	//   invoice.read {"number": "4711"}
	//     ALLOW ALLOW P1:billing:clerks
	//   invoice.credit {"number": "4711", "amount": 80}
	//     ALLOW ALLOW P1:billing:clerks
	//   invoice.credit {"number": "4711", "amount": 450}
	//     DENY CEILING_VIOLATION P0:acme:large
	//   invoice.credit {"number": "4711", "amount": 900}
	//     DENY POLICY_VIOLATION P1:billing:too-much
	//   invoice.delete {"number": "4711"}
	//     DENY SIDE_EFFECT_NOT_PERMITTED the profile of P0:acme permits no tool of this effect
	// A clerk who is a guest in the house:
	//   invoice.credit {"number": "4711", "amount": 80}
	//     DENY CEILING_VIOLATION P0:acme:guests
	// With the task's overlay over them:
	//   invoice.list {}
	//     DENY POLICY_VIOLATION P2:credit-4711:only
	//   invoice.credit {"number": "4712", "amount": 20}
	//     DENY POLICY_VIOLATION P2:credit-4711:this-one
	//   invoice.credit {"number": "4711", "amount": 20}
	//     ALLOW ALLOW P1:billing:clerks
	//   invoice.credit {"number": "4711", "amount": 20}
	//     DENY BUDGET_EXCEEDED P2:credit-4711:once
	// Version 2 of the bundle, for the task too:
	//   invoice.credit {"number": "4711", "amount": 80}
	//     DENY POLICY_VIOLATION P1:billing:too-much
	//   invoice.credit {"number": "4711", "amount": 80}
	//     DENY BUDGET_EXCEEDED P2:credit-4711:once
	// What is refused, with nothing changed:
	//   helm: swap: policy P1 billing: version 1 goes back: the log has had version 2
	//   helm: narrow: task.yaml:9:27: /rules/0/allow: allow in layer P2;
	//     allow it in a bundle: P2 can only deny
}

func TestArguments(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := start(t.Context(), []string{"-x"}, &out, &errs)
	assert.True(t, code == 2 && out.Len() == 0 && errs.Len() != 0, "exit status %d, %q, %q", code, &out, &errs)
}
