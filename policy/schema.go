package policy

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// Schema returns a JSON Schema, draft 7, of policy documents and of files of cases, for editors. It
// is made of the tables that the loaders read by. Every document that [Parse] and guardian.Compile
// take is valid by it, and every file that policytest.Load takes; one with a key that the loader
// does not know is not. The converse does not hold: whether tools, pointers and types fit only the
// loaders know.
func Schema() []byte {
	root := objectOf(
		pair{"$schema", textNode("http://json-schema.org/draft-07/schema#")},
		pair{"title", textNode("HELM policy document, or file of cases")},
		pair{"anyOf", listNode(ref("floor"), ref("bundle"), ref("overlay"), ref("cases"))},
		pair{"definitions", objectOf(definitions()...)},
	)
	return root.json(nil)
}

// A pair is a member of an object.
type pair struct {
	name  string
	value *node
}

func objectOf(members ...pair) *node {
	n := &node{kind: crypto.Object}
	for _, m := range members {
		n.kids = append(n.kids, kid{m.name, m.value})
	}
	return n
}

func count(n int) *node {
	return &node{kind: crypto.Number, scalar: strconv.AppendInt(nil, int64(n), 10)}
}

func ref(name string) *node { return objectOf(pair{"$ref", textNode("#/definitions/" + name)}) }

func typed(name string) *node { return objectOf(pair{"type", textNode(name)}) }

func anything() *node { return objectOf() }

func anyOf(schemas ...*node) *node { return objectOf(pair{"anyOf", listNode(schemas...)}) }

// words returns the schema of a string that is one of some words.
func words(of []string) *node {
	list := listNode()
	for _, w := range of {
		list.kids = append(list.kids, kid{"", textNode(w)})
	}
	return objectOf(pair{"enum", list})
}

func array(of *node) *node { return objectOf(pair{"type", textNode("array")}, pair{"items", of}) }

// anyNames returns the schema of an object with any names.
func anyNames(of *node) *node {
	return objectOf(pair{"type", textNode("object")}, pair{"additionalProperties", of})
}

func integer(least int) *node {
	return objectOf(pair{"type", textNode("integer")}, pair{"minimum", count(least)})
}

// object returns the schema of an object with the keys of a table of the loader. What a key takes
// is in forms; a key without a form takes anything.
func object(keys []string, forms map[string]*node, required ...string) *node {
	members := objectOf()
	for _, key := range keys {
		form := forms[key]
		if form == nil {
			form = anything()
		}
		members.kids = append(members.kids, kid{key, form})
	}
	n := anyNames(falseNode)
	n.set("properties", members)
	if len(required) > 0 {
		names := listNode()
		for _, r := range required {
			names.kids = append(names.kids, kid{"", textNode(r)})
		}
		n.set("required", names)
	}
	return n
}

// A shape is what an object of a document looks like: its keys by the loader's table, and what they
// take.
type shape struct {
	name     string
	keys     []string
	forms    map[string]*node
	required []string
}

func definitions() (list []pair) {
	for _, s := range slices.Concat(documentShapes(), partShapes(), predicateShapes(), caseShapes()) {
		list = append(list, pair{s.name, object(s.keys, s.forms, s.required...)})
	}
	duration := objectOf(pair{"type", textNode("string")}, pair{"pattern", textNode("^[0-9]+[smhd]$")})
	return append(list,
		pair{"names", anyOf(typed("string"), array(typed("string")))},
		pair{"selector", anyOf(ref("names"), ref("class"))},
		pair{"size", typed("string")}, pair{"duration", duration},
		pair{"lists", anyNames(array(anyOf(typed("string"), typed("number"))))},
		pair{"need", anyOf(
			object([]string{"approval"}, map[string]*node{"approval": ref("approval")}),
			object([]string{"attestation"}, map[string]*node{"attestation": ref("attestation")}), ref("receipt"))},
		pair{"fact", anyOf(typed("string"), ref("factAt"), ref("factCount"))},
		pair{"jsonSchema", jsonSchema()},
		pair{"predicates", array(ref("predicate"))},
		pair{"caseStep", caseStep()},
		pair{"set", anyOf(typed("string"), array(anyOf(typed("string"), typed("number"))), ref("listed"))},
	)
}

// documentShapes are documents of each layer.
func documentShapes() []shape {
	common := func(layer string) map[string]*node {
		return map[string]*node{
			"helm": words(grammar.Formats), "layer": words([]string{layer}),
			"name": typed("string"), "version": integer(1), "expires": typed("string"),
			"bundle": object(grammar.BundleName, map[string]*node{"name": typed("string"), "version": integer(1)},
				"name", "version"),
			"labels": array(typed("string")), "lists": ref("lists"), "for": ref("for"),
			"profile": ref("profile"), "ceilings": ref("ceilings"),
			"threat": object(grammar.Threat, threatForms(grammar.FloorExcept)),
			"condense": object(grammar.Condense,
				map[string]*node{"kept": words(grammar.Kept), "after": ref("duration")}, grammar.Condense...),
			"tools": anyNames(ref("tool")), "sandboxes": anyNames(ref("sandbox")),
			"rules": array(ref("rule")), "requires": array(ref("requirement")), "budgets": array(ref("budget")),
			"only": ref("names"),
		}
	}
	return []shape{
		{"floor", grammar.FloorKeys, common(grammar.Floor), []string{"helm", "layer", "name", "version"}},
		{"bundle", grammar.BundleKeys, common(grammar.Bundle), []string{"helm", "layer", "bundle", "tools", "rules"}},
		{"overlay", grammar.OverlayKeys, common(grammar.Overlay), []string{"helm", "layer", "name"}},
	}
}

func threatForms(except []string) map[string]*node {
	entry := map[string]*node{"arg": typed("string"), "signals": array(typed("string")), "tools": ref("selector")}
	return map[string]*node{
		"deny": words(grammar.Levels), "except": array(object(except, entry, "arg", "signals")),
		"outputs": anyNames(array(typed("string"))),
	}
}

// partShapes are parts of documents.
func partShapes() []shape {
	str, flag := typed("string"), typed("boolean")
	condition := func(more map[string]*node) map[string]*node {
		more["id"], more["when"], more["unless"] = str, ref("predicate"), ref("predicate")
		return more
	}
	scope := map[string]*node{"arg": str, "absent": flag, "in": ref("set")}
	for _, test := range grammar.ScopeTests {
		if scope[test] == nil {
			scope[test] = ref("names")
		}
	}
	return []shape{
		{"for", grammar.For, map[string]*node{"session": str, "caller": str, "tenant": str}, nil},
		{"profile", grammar.Profile, map[string]*node{
			"effects": array(words(grammar.Effects)), "connectors": array(str),
			"sandbox": object(grammar.Effects, map[string]*node{"read": str, "write": str, "destructive": str}),
		}, nil},
		{"sandbox", grammar.Sandbox, map[string]*node{
			"args": array(str), "clock": words(grammar.Clocks), "env": array(str), "files": anyNames(str),
			"gas": integer(1), "memory": ref("size"), "modules": array(str), "output": ref("size"),
			"random": words(grammar.Randoms),
		}, nil},
		{"ceilings", grammar.Ceilings, map[string]*node{
			"args": ref("size"), "depth": integer(1), "output": ref("size"), "timeout": ref("duration"),
			"calls": integer(1), "risk": words(grammar.Risks),
		}, nil},
		{"tool", grammar.Tool, map[string]*node{
			"effect": words(grammar.Effects), "risk": words(grammar.Risks), "connector": str, "egress": flag,
			"trusted": flag, "labels": array(str), "input": ref("jsonSchema"), "open": array(str),
			"output": ref("jsonSchema"), "facts": anyNames(ref("fact")), "scope": array(ref("scope")),
			"limits": ref("limits"), "sandbox": str, "definition": str,
			"threat": object(grammar.Threat, threatForms(grammar.ToolExcept)),
		}, []string{"effect", "input"}},
		{"limits", grammar.Limits,
			map[string]*node{"timeout": ref("duration"), "output": ref("size"), "args": ref("size")}, nil},
		{"scope", grammar.Scope, scope, []string{"arg"}},
		{"factAt", grammar.Fact, map[string]*node{"at": str, "text": flag, "trusted": flag}, []string{"at"}},
		{"factCount", grammar.CountedFact, map[string]*node{"count": str}, []string{"count"}},
		{"class", grammar.Class, map[string]*node{"effects": array(words(grammar.Effects)), "egress": flag}, nil},
		{"rule", grammar.Rule,
			condition(map[string]*node{"allow": ref("names"), "deny": ref("selector")}), []string{"id"}},
		{"requirement", grammar.Requirement, condition(map[string]*node{
			"tools": ref("selector"), "all": array(ref("need")), "any": array(ref("need"))}), []string{"id", "tools"}},
		{"approval", grammar.Approval,
			map[string]*node{"roles": array(str), "quorum": integer(1), "ttl": ref("duration")}, []string{"roles"}},
		{"attestation", grammar.Attestation,
			map[string]*node{"type": str, "bind": anyNames(str), "max_age": ref("duration")},
			[]string{"type", "max_age"}},
		{"budget", grammar.Budget, condition(map[string]*node{
			"tools": ref("selector"), "limit": integer(0), "per": words(grammar.Per), "window": words(grammar.Windows),
			"cost": anyOf(integer(1), ref("cost")), "refund": words(grammar.Refunds),
		}), []string{"id", "tools", "limit", "per", "window", "cost"}},
		{"cost", grammar.Cost, map[string]*node{"arg": str, "scale": integer(0)}, []string{"arg"}},
	}
}

// predicateShapes are predicates, and what they take. A predicate has the keys of all its forms:
// which of them go together the loader says.
func predicateShapes() []shape {
	str, flag := typed("string"), typed("boolean")
	scalar := anyOf(str, typed("number"), flag, ref("reference"))
	bound := anyOf(typed("number"), ref("reference"))
	forms := map[string]*node{
		"arg": str, "item": str, "fact": str, "caller": words([]string{"id", "tenant", "roles"}),
		"time": words([]string{"utc"}), "session": words(grammar.Sessions), "of": str,
		"all": ref("predicates"), "any": ref("predicates"), "not": ref("predicate"),
		"every": str, "some": str, "count": str, "that": ref("predicate"),
		"receipt": str, "same": anyOf(array(str), anyNames(str)), "max_age": ref("duration"),
		"absent": flag, "fold": flag,
		"eq": scalar, "ne": scalar, "lt": bound, "le": bound, "gt": bound, "ge": bound,
		"in": ref("set"), "not_in": ref("set"), "prefix": str, "suffix": str, "regex": str, "finds": str,
		"age_le": ref("duration"), "type": words(grammar.Types), "exists": flag, "has": str, "from": array(str),
	}
	for _, name := range []string{"within", "url", "host", "email", "cidr"} {
		forms[name] = ref("names")
	}
	receipt := map[string]*node{}
	for _, key := range grammar.Receipt {
		receipt[key] = forms[key]
	}
	return []shape{
		{"predicate", grammar.Predicate, forms, nil},
		{"receipt", grammar.Receipt, receipt, []string{"receipt"}},
		{"reference", slices.Concat(grammar.Reference, []string{"fact"}),
			map[string]*node{"arg": str, "caller": words([]string{"id", "tenant"}), "fact": str}, nil},
		{"listed", slices.Concat(grammar.List, []string{"fact"}),
			map[string]*node{"list": str, "fact": str}, nil},
	}
}

// jsonSchema returns the schema of the schemas that tools pin.
func jsonSchema() *node {
	schema, schemas := ref("jsonSchema"), array(ref("jsonSchema"))
	return object(jsonschema.Keywords, map[string]*node{
		"items": schema, "propertyNames": schema, "anyOf": schemas, "oneOf": schemas,
		"properties": anyNames(schema), "$defs": anyNames(schema),
		"additionalProperties": anyOf(typed("boolean"), schema),
	})
}
