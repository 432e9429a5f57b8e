// Package guardian judges tool calls. [Compile] makes a [Policy] of documents, once, and
// [Policy.Judge] says of each call whether it is admissible, why, and by which rule.
//
// Judging is pure. It reads no clock, no log and no file, and the same policy and inputs return the
// same record on any machine, whatever the order of documents, of keys and of roles. Whatever is
// unknown, missing or malformed, and whatever panics, is DENY. What a verdict may depend on of
// earlier calls is read from the inputs. A kernel that does not have it yet calls [Policy.Decide],
// which asks a [past.Past]. [Policy.Explain] says what a judgement evaluated.
//
// A stack has three layers: floors (P0) say what no bundle can permit, bundles (P1) declare tools
// and say who may call them, and overlays (P2) narrow the stack for one task. Only a bundle can
// allow. A bundle has an ordered list of rules about its own tools:
//
//	{
//	  "helm": "policy/v1", "layer": "P1", "bundle": {"name": "files", "version": 3},
//	  "lists": {"secrets": ["/srv/data/keys", "/srv/data/.env"]},
//	  "tools": {
//	    "fs.read": {
//	      "effect": "read",
//	      "input": {"type": "object", "required": ["path"],
//	        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}},
//	      "scope": [{"arg": "/path", "within": ["/srv/data"]}],
//	      "limits": {"timeout": "5s"}
//	    }
//	  },
//	  "rules": [
//	    {"id": "secrets", "deny": "fs.*", "when": {"arg": "/path", "in": {"list": "secrets"}}},
//	    {"id": "long", "deny": "fs.read", "when": {"arg": "/lines", "gt": 1000, "absent": false}},
//	    {"id": "read", "allow": "fs.read", "when": {"caller": "roles", "has": "clerk"}}
//	  ]
//	}
//
// Floors and overlays speak of the tools of all bundles, by name, by pattern, or by what they do:
//
//	{
//	  "helm": "policy/v1", "layer": "P0", "name": "acme", "version": 4,
//	  "ceilings": {"args": "64KiB", "depth": 8, "timeout": "30s", "risk": "medium"},
//	  "rules": [{"id": "nights", "deny": {"effects": ["read"]},
//	    "unless": {"time": "utc", "in": ["Mon-Fri 06:00-20:00"]}}]
//	}
//
//	{
//	  "helm": "policy/v1", "layer": "P2", "name": "task-4711", "for": {"session": "chat-1"},
//	  "only": ["fs.*"],
//	  "rules": [{"id": "drafts", "deny": "fs.read",
//	    "unless": {"arg": "/path", "within": "/srv/data/drafts"}}]
//	}
//
// The specification is docs/POLICY.md: operators, documents, budgets, requirements, grants, the
// order of judgement, and what Compile refuses. A ceiling of calls and a predicate over the past
// err in main, the session of calls that name none.
//
// That no version goes back, and that an expired document is not taken into use, is for the caller
// to check, by [Policy.Record] and [Policy.Expired]; a kernel of package helm does.
package guardian
