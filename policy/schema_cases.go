package policy

import (
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/grammar"
)

// caseShapes are files of cases, and their parts.
func caseShapes() []shape {
	str, strs := typed("string"), array(typed("string"))
	yes := onlyTrue()
	caller := anyOf(str, ref("caseCaller"))
	row := map[string]*node{
		"name": str, "call": str, "args": anything(), "raw": str, "caller": caller, "session": str,
		"after_refs": strs, "overlay": ref("names"), "approve": strs, "refuse": strs,
		"attest": array(ref("caseAttest")), "delegation": array(ref("caseGrant")), "idempotency": str,
		"driver": words(grammar.Drivers), "definition": str, "sandbox": str,
		"output": anything(), "error": str, "panic": yes, "lost": yes,
		"want": words(grammar.Verdicts), "reason": str, "rule": str, "why": str, "condition": integer(0),
		"pending": ref("casePending"), "charges": anyNames(integer(0)), "ran": integer(0),
		"before": array(ref("caseStep")), "skip": str, "freeze": yes, "close": yes, "each": array(ref("caseRow")),
		"transcript": str, "calls": anyNames(ref("caseWant")), "words": words(grammar.Words),
	}
	of := func(keys []string) map[string]*node {
		forms := map[string]*node{}
		for _, key := range keys {
			forms[key] = row[key]
		}
		return forms
	}
	return []shape{
		{"cases", grammar.Cases, map[string]*node{
			"helm": words(grammar.CaseFormats), "policy": strs, "time": str, "callers": anyNames(ref("caseCaller")),
			"keys": anyNames(ref("caseKey")), "tools": anyNames(ref("caseStub")),
			"cases": array(anyOf(ref("case"), ref("caseTranscript"))), "ignore": array(ref("caseIgnore")),
		}, []string{"helm", "policy", "cases"}},
		{"caseCaller", grammar.CaseCaller, map[string]*node{"id": str, "tenant": str, "roles": strs}, nil},
		{"caseKey", grammar.CaseKey,
			map[string]*node{"role": words(grammar.KeyRoles), "roles": strs}, []string{"role"}},
		{"caseStub", grammar.CaseStub, of(grammar.CaseStub), nil},
		{"caseWant", grammar.CaseWant, of(grammar.CaseWant), nil},
		{"casePending", grammar.CaseAsked, map[string]*node{"roles": strs, "quorum": integer(0)}, nil},
		{"caseAttest", grammar.CaseAttest,
			map[string]*node{"by": str, "type": str, "claims": typed("object")}, []string{"by", "type"}},
		{"caseGrant", grammar.CaseGrant, map[string]*node{
			"by": str, "to": caller, "only": strs, "when": anything(), "depth": integer(0),
		}, []string{"by", "to", "only"}},
		{"caseIgnore", grammar.CaseIgnore,
			map[string]*node{"at": str, "mutant": str, "why": str}, []string{"at", "why"}},
		{"caseCall", grammar.CaseCall, of(grammar.CaseCall), []string{"call"}},
		{"caseRow", grammar.CaseRow, of(grammar.CaseRow), nil},
		{"case", grammar.Case, of(grammar.Case), nil},
		{"caseTranscript", grammar.CaseTranscript, of(grammar.CaseTranscript), []string{"transcript"}},
	}
}

// onlyTrue is a flag: false is what there is without it.
func onlyTrue() *node {
	return objectOf(pair{"const", &node{kind: crypto.Bool, scalar: []byte("true")}})
}

// caseStep is a step before the call of a case.
func caseStep() *node {
	var steps []*node
	for _, does := range grammar.CaseSteps {
		if does == "call" {
			steps = append(steps, ref("caseCall"))
			continue
		}
		steps = append(steps, object([]string{does, "session"}, map[string]*node{
			"session": typed("string"), "user": typed("string"), "after": ref("duration"), "freeze": onlyTrue(),
			"close": onlyTrue(),
		}, does))
	}
	return anyOf(steps...)
}
