// Package guardian judges tool calls: policy documents are compiled once by [Compile], and [Policy.Judge] says of each call whether it is
// admissible, why, and by which rule. Judging is pure. It reads no clock, no log and no file, and the same policy and inputs give the same
// record on any machine, whatever the order of documents, of keys and of roles. Whatever is unknown, missing, malformed or panics is DENY.
//
// A stack has three layers: bundles (P1) declare tools and say who may call them; floors (P0) say what no bundle can permit; overlays
// (P2) narrow the stack for one task. Only a bundle can allow, so neither of the others can widen it. There may be any number of each, 64
// in all. A bundle has an ordered list of rules about its own tools:
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
// Floors and overlays speak of the tools of all bundles, by name, by pattern, or by what they do:
//
//	{
//	  "helm": "policy/v1", "layer": "P0", "name": "acme", "version": 4, "labels": ["pii"],
//	  "profile": {"effects": ["read", "write"], "connectors": ["files"], "sandbox": {"write": "wasi"}},
//	  "ceilings": {"args": "64KiB", "depth": 8, "output": "4MiB", "timeout": "30s", "risk": "medium"},
//	  "rules": [{"id": "nights", "deny": {"effects": ["read"]}, "unless": {"time": "utc", "in": ["Mon-Fri 06:00-20:00"]}}]
//	}
//
//	{
//	  "helm": "policy/v1", "layer": "P2", "name": "task-4711", "expires": "2099-01-01T00:00:00Z", "for": {"session": "chat-1"},
//	  "only": ["fs.*"],
//	  "rules": [{"id": "drafts", "deny": "fs.read", "unless": {"arg": "/path", "within": "/srv/data/drafts"}}]
//	}
//
// # Order of judgement
//
// Conditions are judged in this order. The first that fails gives the reason, and the condition of the record.
//
//	0  arguments that are not strict JSON (ArgsForm "raw")       ERR_TOOL_ARGS_CANONICALIZATION_FAILED
//	   any other refusal at 0 is the kernel's own                [Policy.Refuse] records it
//	1  no bundle declares the tool                               DENY_TOOL_NOT_FOUND
//	   its effect is not among a floor's profile.effects         SIDE_EFFECT_NOT_PERMITTED
//	   its connector is not among a floor's profile.connectors   CONNECTOR_NOT_ALLOWED
//	   the driver does not declare the sandbox that the tool
//	   names, or that a floor demands for its effect             SANDBOX_VIOLATION
//	   no driver is bound, or none that declares the definition
//	   which the tool pins; or two are                           DRIVER_NOT_BOUND
//	2  canonical arguments over the lower of limits.args and
//	   ceilings.args, nested deeper than ceilings.depth, or not
//	   of input                                                  SCHEMA_VIOLATION
//	   an entry of scope is false, or errs                       DESTINATION_NOT_ALLOWED, rule P1:bundle:scope
//	3  of a budget that applies, the caller lacks what per names,
//	   or the cost is not a whole number from 0 on               BUDGET_ERROR, rule layer:name:id
//	   spent and cost together are over the limit                BUDGET_EXCEEDED, rule layer:name:id
//	4  of a requirement that applies, something is not there
//	   that is no approval                                       MISSING_REQUIREMENT, rule layer:name:id
//	5  inputs.time is not before the bundle's expires            POLICY_VIOLATION, rule P1:bundle:expires
//	   the first of the bundle's rules that matches denies       POLICY_VIOLATION, rule P1:bundle:id
//	   none matches                                              NO_POLICY_DEFINED
//	   then each overlay that is for the call, in stack order:
//	   a rule matches                                            POLICY_VIOLATION, rule P2:name:id
//	   the tool is not among only                                POLICY_VIOLATION, rule P2:name:only
//	   inputs.time is not before expires                         POLICY_VIOLATION, rule P2:name:expires
//	6  the grants presented do not open, are not for the caller,
//	   do not hold now or not so deep, or ask what cannot be
//	   asked of the tool                                         DELEGATION_INVALID
//	   one is not for the tool, or its when is false             DELEGATION_SCOPE_VIOLATION
//	8  each floor, in stack order:
//	   the tool's risk is over ceilings.risk, or the session
//	   has had ceilings.calls calls                              CEILING_VIOLATION, rule P0:name:ceilings
//	   a rule matches                                            CEILING_VIOLATION, rule P0:name:id
//	   the tool is not among only                                CEILING_VIOLATION, rule P0:name:only
//	   inputs.time is not before expires                         CEILING_VIOLATION, rule P0:name:expires
//	4  then, of a requirement that applies, an approval is not
//	   there, and of those presented
//	   one is none for this call                                 APPROVAL_INVALID, rule layer:name:id
//	   one is outside its time                                   APPROVAL_EXPIRED, rule layer:name:id
//	   none is at fault                                          APPROVAL_REQUIRED, rule layer:name:id, and what to ask
//	8  all hold                                                  ALLOW, rule P1:bundle:id, expires = time + the lower of
//	                                                             limits.timeout and ceilings.timeout
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
// # The past
//
// What a session has seen can be asked for, wherever a predicate may stand but inside every, some and count, where only calls may:
//
//	{"receipt": "bank.list", "same": {"/payee": "/to"}, "max_age": "30m"}
//	{"session": "calls", "of": "bank.pay", "lt": 5}
//
// The first is true if the latest EXECUTED receipt of the tool in the session is no older than max_age. With same it is the latest of a call that
// had, at each pointer on the left, the value that the present call has at the one on the right; a list names pointers that are the same
// in both. The value must be required here, or have a default; a call that lacked it there is not meant. The second compares how many
// calls of the tool, or of all, were allowed. Both err in the session of calls that name none, main. The first also errs where the arguments
// are not kept of a call that may be the one, and where one decision asks for receipts with more than 1 MiB of values together, or with one
// that is nested more than 61 deep.
//
// A bundle asks for receipts and calls of its own tools, a floor or overlay for those of all. [Policy.Decide] asks the past, a [Past], once
// for each tool and each values, and leaves the answers in the inputs; [Policy.Judge] reads them there. A [Session] is the past of one session.
//
// # Defaults
//
// A tool that names no risk has the risk low with effect read, medium with write, high with destructive. Limits are a timeout of 30s, an
// output of 1MiB and arguments of 1MiB. None is more than 10m, 16MiB and 1MiB: timeout: 1h loads, without an error, as 10m. A duration is a
// number of s, m, h or d, a size one of KiB or MiB.
//
// # Layers
//
// Depth counts objects and arrays, the root being 1. A ceiling may only be lower than what holds without one: args 1MiB, depth 64, output
// 16MiB, timeout 10m, risk high, any number of calls. calls counts those of all tools that a session was allowed; in the session of calls that
// name none, main, that errs. Two sandboxes that are demanded of one tool can never be met.
//
// An overlay is for a call if each of session, caller and tenant that its "for" names is the call's; for a call of nobody, a "for" that
// names a caller is not. One without "for" is for every call.
//
// A tool's connector is its bundle's name unless it names another. Data leave by a tool (egress) unless it is a read or says otherwise:
// {egress: true} selects those. A label of a tool must be declared under labels of some floor or bundle. labels and trusted say what becomes
// of a session that has read the tool's output; nothing here judges that, and predicates over it are refused.
//
// A tool may pin its definition: "definition": the SHA-256, 64 hexadecimal digits, of the canonical JSON of what its provider publishes of it; of
// an MCP tool the object with name, description, inputSchema and all else that tools/list gives. What that is now, the driver declares
// (executor.Defined); one that declares something else, or nothing, does not count in inputs.drivers.
//
// A predicate of a rule about several tools must be right for each: its pointers exist in all of their inputs. It needs absent if one of
// them lets the value be missing.
//
// # Budgets
//
// A document of any layer may have budgets, of which all that apply are charged, or none:
//
//	"budgets": [{"id": "money", "tools": ["bank.pay"], "limit": 500000, "per": "tenant", "window": "day",
//	             "cost": {"arg": "/amount", "scale": 2}, "refund": "error", "when": {"arg": "/to", "ne": "GB29NWBK60161331926819"}}]
//
// A cost is an integer from 1 on, or a number of the arguments, whose decimal text is moved by scale digits: 4.35 with scale 2 is 435, and
// 4.355 is an error. It must be required in the schema, or have a default. Of per all there is one balance, of caller, tenant, session and
// tool one each; the session of calls that name none, main, has none. Windows hour, day and month begin where the calendar says in UTC;
// session, which goes with per: session only, and total never end. With refund: error a charge is given back when the tool itself failed,
// and only then. A tool has at most eight budgets. The ids of a document's rules, requirements and budgets are all different.
//
// A balance is known by the budget's layer, document and id, whose it is, and its window. What is spent stays spent when a later version of
// the document has another limit, or a document of the same name is put into another stack; under another id or window, or by the names of
// another per, there is another balance, of which nothing is spent. So a change of scale, which counts the old balance in new units, belongs
// at the end of a window, and so does one of per where a caller may be named as a tenant is.
//
// What is spent is in a [Ledger]. [Policy.Decide] reads the balances there and leaves them in the inputs; [Policy.Judge] reads them from
// the inputs.
//
// # Requirements
//
// A document of any layer may say what must be there before a call. All requirements that apply must be met; one that has any is met by one of
// its needs, one that has all by all of them.
//
//	"requires": [{"id": "stranger", "tools": ["bank.pay"], "unless": {"arg": "/to", "in": {"list": "payees"}}, "any": [
//	  {"approval": {"roles": ["owner"], "quorum": 2, "ttl": "15m"}},
//	  {"attestation": {"type": "payee-check", "bind": {"iban": "/to"}, "max_age": "1h"}},
//	  {"receipt": "bank.list", "max_age": "30m"}
//	]}]
//
// A need is an approval, an attestation or a receipt, as above. An attestation counts that [registry.OpenAttestation] opens, of the type, made
// at most max_age before inputs.time and not after it, not at or past its own expires, for these arguments and this session if it names any,
// and with claims that are the values at the pointers of bind. It may count again and again.
//
// Receipts and attestations are judged at condition 4 as if every approval were there, those of any before its approvals, whatever their
// order: where one of them is there nobody is asked. Approvals are judged when all else allows the call, so that people are asked only
// where their answer decides. A presented envelope is an approval for the call if
//
//	[registry.OpenApproval] opens it
//	its request is for this tool, argsHash, declaration of the tool, policy, session and caller
//	and for roles and quorum of an approval that a requirement which applies names
//	its holder's key has a role of such an approval
//	it says yes, and nobody of those roles who was presented too has said no to a request of that nonce
//	no ALLOW of the session has used up a request of that nonce
//	the request holds no longer than the ttl of such an approval, 10m unless it names another
//	and inputs.time is neither before notBefore nor at or past expires: else it is outside its time
//
// It counts for each approval of which its holder has a role and the request keeps the ttl, whatever roles were asked. A quorum, 1
// unless another is named, is of people: holders of different names. The caller may be one of them: keys and callers are not compared.
// Nor does anybody look whether there are holders of a role; where there are none, nothing but another policy or another trust state helps.
// What is wrong with one envelope takes nothing from the others. The decision lists those that count for the requirements which needed them,
// an ALLOW uses their requests up, and attestations that counted.
// Where approvals lack, and nothing is wrong with those presented, the request of the first one that lacks, in stack order and of any
// its first, is pending: see [Why]. It begins at inputs.time, and its nonce is the beginning of the digest of the request with a nonce of
// zeros, so a replay asks for the same.
//
// # Delegation
//
// A call may be made under grants, the leaf first, each followed by its parent: [registry.OpenDelegation] verifies keys and links, and that
// none was revoked. The leaf must be for the caller; at inputs.time each grant must hold (from notBefore on, until before expires), and have
// a depth of at least the number of grants before it. Then each must be for the tool, and its when be true of the call.
//
// Condition 5 is judged for the root delegator, whatever the caller may himself: with the name and the roles of the root's key, and the
// caller's tenant. Keys and grants name no tenant: where one id is two callers in two tenants, the when has to name it. All else is judged for
// the caller: the when of each grant, requirements, budgets and floors. An overlay that is for the caller, or for the delegator of any of
// the grants, is for the call. Where the grants do not open nobody's rights are judged: of condition 5 there is the bundle's expires alone,
// then comes 6.
//
// A when is a predicate over arg, caller and time, read as that of a rule which allows, for the one tool that is called: what it must not
// say of it, it must not say. But absent and exists may stand where nothing is ever missing, for other tools of the grant may need them. It
// knows no lists. Its visits are those of the decision, and the patterns of all grants together have at most 10,000 steps, repetitions
// written out. A pattern is as many visits more as its steps times the KiB that it is tested on.
//
// # Documents
//
// [Compile] refuses with a [LoadError] what is misspelt, can never be meant, or widens what it seems to restrict. threat, facts,
// predicates over facts, sources, taint and labels, and whatever else of the format is not judged here are refused by name: they are
// never ignored.
//
// A rule or only that names a tool which no bundle of the stack declares, or a pattern or class that covers none, is refused, since it would
// sleep. A connector that no bundle has is not: a list of what is permitted sleeps closed, and one floor is for many stacks.
//
// A requirement that can never be met is refused, if it is of a tool that can be called: one that needs, so or so, the receipt of a tool
// that no rule allows, or that a rule without condition, a profile, a ceiling of risk, two sandboxes or an only keeps from every call, or of
// one that waits for the tool itself, under no condition. Overlays with a "for" are a condition, and so are those over a stack that was
// narrowed: its sessions may have had the calls before, by a wider stack.
//
// A rule that is provably dead is refused, in any layer: one that, for each of its tools, stands behind a rule of its document that matches, or
// errs, whenever it does. That is so if each conjunct of the earlier rule is implied by one of the later rule's. Conjuncts are the members
// of when, if it is an all, at any depth of all, else when itself, and {not: unless}. One implies another that has the same canonical text;
// or the same arg, caller id or tenant, without absent: true and fold: true unless the other has them, and operands such that
//
//	eq, in before eq, in           all of the later are among the earlier, lists by their members
//	lt le gt ge before each other  the later range lies in the earlier
//	lt le gt ge before eq, in      all of the later lie in the range
//	prefix before prefix           the later begins with the earlier
//	within before within           each of the later is, or is below, one of the earlier
//	cidr before cidr               each of the later lies in one of the earlier
//
// Of every other rule nothing is said: it may be dead all the same.
//
// One thing is not checked: format in a schema is an annotation, which no argument is checked against; use scope, or a rule with email,
// host, url or another operator.
//
// An expired document denies. That it is not taken into use when it has expired already, and that no version goes back, is for who uses the
// policy to see: [Policy.Expired] tells the one, [Policy.Record] the other, and a kernel of package helm refuses both.
//
// The PolicyHash is the SHA-256 of canonical {documents, engine}. Documents stand in the order of layers and names, but for overlays that
// [Policy.Narrow] adds, which stand at the end in the order of narrowing.
package guardian
