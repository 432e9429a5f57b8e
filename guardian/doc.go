// Package guardian judges tool calls: policy documents are compiled once by [Compile], and [Policy.Judge] says of each call whether it is
// admissible, why, and by which rule. Judging is pure. It reads no clock, no log and no file, and the same policy and inputs give the same
// record on any machine, whatever the order of documents, of keys and of roles. Whatever is unknown, missing, malformed or panics is DENY.
//
// A stack is one or more P1 bundles. A bundle declares tools and has an ordered list of rules about them:
//
//	{
//	  "helm": "policy/v1", "layer": "P1", "bundle": {"name": "files", "version": 3}, "expires": "2099-01-01T00:00:00Z",
//	  "lists": {"secrets": ["/srv/data/keys", "/srv/data/.env"]},
//	  "tools": {
//	    "fs.read": {
//	      "effect": "read",
//	      "input": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}},
//	      "scope": [{"arg": "/path", "within": ["/srv/data"]}],
//	      "limits": {"timeout": "5s"}
//	    }
//	  },
//	  "rules": [
//	    {"id": "secrets", "deny": "fs.*", "when": {"arg": "/path", "in": {"list": "secrets"}}},
//	    {"id": "long", "deny": "fs.read", "when": {"arg": "/lines", "gt": 1000, "absent": false}, "unless": {"caller": "roles", "has": "admin"}},
//	    {"id": "read", "allow": "fs.read", "when": {"any": [{"caller": "roles", "has": "clerk"}, {"caller": "roles", "has": "admin"}]}}
//	  ]
//	}
//
// # Order of judgement
//
// Conditions are judged in this order. The first that fails gives the reason, and the condition of the record.
//
//	0  arguments that are not strict JSON (ArgsForm "raw")       ERR_TOOL_ARGS_CANONICALIZATION_FAILED
//	   any other refusal at 0 is the kernel's own                [Policy.Refuse] records it
//	1  no bundle declares the tool                               DENY_TOOL_NOT_FOUND
//	   no driver is bound, or two are                            DRIVER_NOT_BOUND
//	2  canonical arguments over limits.args, or not of input     SCHEMA_VIOLATION
//	   an entry of scope is false, or errs                       DESTINATION_NOT_ALLOWED, rule P1:bundle:scope
//	5  inputs.time is not before the bundle's expires            POLICY_VIOLATION, rule P1:bundle:expires
//	   the first rule that matches denies                        POLICY_VIOLATION, rule P1:bundle:id
//	   none matches                                              NO_POLICY_DEFINED
//	6  a delegation is presented                                 DELEGATION_INVALID: none is supported
//	8  all hold                                                  ALLOW, rule P1:bundle:id, expires = time + limits.timeout
//	-  a predicate errs, or anything panics                      FAIL_CLOSED_ERROR, at the condition being judged
//
// A rule matches if its when holds and its unless does not. An error that is reached ends the judgement: it does not become true or
// false under not, any or all, so a broad allow behind a deny that cannot be evaluated never allows. Predicates are evaluated from left to
// right and stop as soon as they are decided. One decision makes at most 10,000 visits, a visit being one operator tested on one value,
// or a quantifier come to one array; beyond that it errs.
//
// # Values
//
// A value that the schema lets be missing or null needs absent, the answer of the test then; for a comparison with {arg} or {caller} it
// is the answer if either is missing. Where a default always fills the value in, absent may be left out. Numbers are compared as doubles,
// strings by bytes; fold: true makes letters of ASCII equal. regex is true if it matches the whole string, finds and the pattern of a
// schema if they match anywhere in it: those need ^ and $ to mean all of it. The table of all operators, with the values that each takes,
// is in docs/POLICY.md, section 2.
//
// What within, url, host, email, cidr and age_le cannot read is an error, not false. A url matches no location with a fragment, and none with a
// query unless the operand ends in a question mark; to deny a site use host. An operand of url without a final slash also means the path
// itself: https://a.example/x takes in /x and /x/y, https://a.example/x/ only the latter. Names whose last label is a number are IP
// addresses to some resolvers, so only plain ones like 10.0.0.1 are hosts. A quantifier with * in its pointer goes through all the arrays
// that it leads to; a missing one of them counts as an element for which that has the answer of absent.
//
// # Defaults
//
// A tool that names no risk has the risk low with effect read, medium with write, high with destructive. Limits are a timeout of 30s, an
// output of 1MiB and arguments of 1MiB. None is more than 10m, 16MiB and 1MiB: timeout: 1h loads, without an error, as 10m. A duration is a number of s, m, h or
// d, a size one of KiB or MiB.
//
// # Documents
//
// [Compile] refuses with a [LoadError] what is misspelt, can never be meant, or widens what it seems to restrict. Layers P0 and P2,
// requires, budgets, labels, facts and whatever else of the format is not judged here are refused by name: they are never ignored.
//
// Two things are not checked. A rule that can never matter loads without an error in this version: one behind a rule about the same tool
// that has no condition, or the same condition. And format in a schema is an annotation, which no argument is checked against: use scope,
// or a rule with email, host, url or another operator.
//
// The PolicyHash is the SHA-256 of canonical {documents, engine}. Documents stand in the order of their bundles' names.
package guardian
