package guardian_test

import (
	"fmt"
	"log"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

const files = `
helm: policy/v1
layer: P1
bundle: {name: files, version: 1}
tools:
  fs.read:
    effect: read
    input:
      type: object
      required: [path]
      properties: {path: {type: string}, lines: {type: integer, default: 100}}
    scope: [{arg: /path, within: [/srv]}]
rules:
  - {id: long, deny: fs.read, when: {arg: /lines, gt: 1000}}
  - {id: read, allow: fs.read, when: {caller: roles, has: clerk}}
`

// judge says what a policy makes of one call, as a kernel would ask it: with the defaults filled in
// and one driver bound.
func judge(p *guardian.Policy, tool, args string, roles ...string) (contracts.DecisionRecord, guardian.Why) {
	in := contracts.Inputs{
		Caller: contracts.Caller{ID: "ann", Roles: roles}, Drivers: 1, Tool: tool,
		Time: contracts.TimeOf(time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)),
	}
	var tree crypto.Tree
	canonical, err := tree.ParseArgs(nil, []byte(args))
	if err != nil {
		in.ArgsForm, in.ArgsHash = "raw", crypto.Sum([]byte(args))
		return p.Judge(in, nil)
	}
	if full, filled := p.AppendDefaults(nil, tool, tree.Root()); filled {
		if canonical, err = tree.ParseArgs(nil, full); err != nil {
			log.Fatal(err)
		}
	}
	in.Args, in.ArgsHash = tree.Root(), crypto.Sum(canonical)
	return p.Judge(in, nil)
}

// A policy is tested without a kernel: a table of calls, each with the reason and the rule that are
// expected.
func ExamplePolicy_Judge() {
	doc, err := policy.Parse("files.yaml", []byte(files))
	if err != nil {
		log.Fatal(err)
	}
	p, err := guardian.Compile(doc)
	if err != nil {
		log.Fatal(err)
	}
	for _, call := range []struct{ args, role string }{
		{`{"path": "/srv/a"}`, "clerk"},
		{`{"path": "/srv/a"}`, "guest"},
		{`{"path": "/srv/a", "lines": 5000}`, "clerk"},
		{`{"path": "/etc/passwd"}`, "clerk"},
		{`{"file": "/srv/a"}`, "clerk"},
		{`{"path": "/srv/a", "path": "/etc/passwd"}`, "clerk"},
	} {
		decision, why := judge(p, "fs.read", call.args, call.role)
		fmt.Printf("%s %q\n", decision.Reason, decision.Rule)
		if decision.Verdict == contracts.Deny {
			fmt.Println("\t" + why.String())
		}
	}
	// Output:
	// ALLOW "P1:files:read"
	// NO_POLICY_DEFINED ""
	// 	no rule matches the call
	// POLICY_VIOLATION "P1:files:long"
	// 	P1:files:long: the rule denies the call
	// DESTINATION_NOT_ALLOWED "P1:files:scope"
	// 	P1:files:scope: /path: not among the destinations of the tool's scope
	// SCHEMA_VIOLATION ""
	// 	additionalProperties: file is not allowed beside lines, path
	// ERR_TOOL_ARGS_CANONICALIZATION_FAILED ""
	// 	the arguments are not strict JSON
}

const floorText = `
helm: policy/v1
layer: P0
name: acme
version: 1
profile: {effects: [read]}
rules:
  - {id: nights, deny: {effects: [read]}, unless: {time: utc, in: ["Mon-Fri 08:00-18:00"]}}
`

const task = `
helm: policy/v1
layer: P2
name: tidy-up
rules:
  - {id: logs, deny: fs.read, unless: {arg: /path, within: /srv/log}}
`

// Clerks may read files. A caller without an id can borrow no rights, so the roles decide what is
// listed.
func ExamplePolicy_Callable() {
	doc, err := policy.Parse("files.yaml", []byte(files))
	if err != nil {
		log.Fatal(err)
	}
	p, err := guardian.Compile(doc)
	if err != nil {
		log.Fatal(err)
	}
	for _, role := range []string{"clerk", "guest"} {
		fmt.Println(role)
		for _, tool := range p.Callable(contracts.Caller{Roles: []string{role}}) {
			fmt.Println("\t" + tool.Name)
		}
	}
	// Output:
	// clerk
	// 	fs.read
	// guest
}

// A floor stands under every bundle; an overlay narrows what is there for one task. Neither can
// allow anything.
func ExamplePolicy_Narrow() {
	var docs []contracts.Document
	for _, text := range []string{files, floorText, task} {
		doc, err := policy.Parse("example.yaml", []byte(text))
		if err != nil {
			log.Fatal(err)
		}
		docs = append(docs, doc)
	}
	p, err := guardian.Compile(docs[0], docs[1])
	if err != nil {
		log.Fatal(err)
	}
	narrow, err := p.Narrow(docs[2])
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []*guardian.Policy{p, narrow} {
		decision, _ := judge(p, "fs.read", `{"path": "/srv/a"}`, "clerk")
		fmt.Println(decision.Verdict, decision.Reason, decision.Rule)
	}
	for _, d := range narrow.Record().Documents {
		fmt.Println(d.Layer, d.Name, d.Version)
	}
	// Output:
	// ALLOW ALLOW P1:files:read
	// DENY POLICY_VIOLATION P2:tidy-up:logs
	// P0 acme 1
	// P1 files 1
	// P2 tidy-up 1
}
