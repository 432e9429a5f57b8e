package proxy

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// A catalog says which tools some call may be allowed to, by the policy and for the caller.
type catalog interface {
	// callable reports whether it is, and which definition is pinned; the zero digest is none.
	callable(tool string) (pinned contracts.Digest, ok bool)

	// permit judges the use of a hosted tool in a request, with its entry as the arguments.
	permit(tool string, entry []byte) bool
}

// An offer is what a request offers to the model, as it is forwarded.
type offer struct {
	tools   map[string]contracts.Digest // by the policy's name, with the digest of the definition
	hosted  map[string]bool             // tools of the provider, without hosted.
	servers map[string]bool             // labels of MCP servers that the provider asks
	shell   bool                        // a shell of the app
	nested  bool                        // as chat has it: a function is a member of its entry
	removed []string                    // names of what was not forwarded
}

func newOffer() *offer {
	return &offer{tools: map[string]contracts.Digest{}, hosted: map[string]bool{},
		servers: map[string]bool{}}
}

var errTools = errors.New("tools are to be a list of objects")

// dated is the date, or the version of a type of tools.
var dated = regexp.MustCompile(`_(20[0-9]{6}|20[0-9]{2}_[0-9]{2}_[0-9]{2})$`)

// A tool is an entry of a list of tools.
type tool struct {
	entry      rawjson.Value
	name       string        // for the policy
	definition rawjson.Value // what the model is shown of it
	hosted     string        // the type, of one that the provider runs
	shell      bool
	unknown    bool
}

// readTool returns what an entry of a list of tools is. space is the namespace around it. nested
// says that the API has a function as a member of its entry: of others such a member is none that
// the model is shown.
func readTool(entry rawjson.Value, space string, nested bool) tool {
	t := tool{entry: entry, definition: entry}
	kind := entry.Get("type").Text()
	plainKind := dated.ReplaceAllString(kind, "")
	t.name = entry.Get("name").Text()
	client, isClient := clientTools[plainKind]
	switch {
	case entry.Kind() != rawjson.Object:
		t.unknown = true
	case nested && kind == "function" && entry.Get("function").Exists():
		t.definition = entry.Get("function")
		t.name = t.definition.Get("name").Text()
	case nested && kind == "custom" && entry.Get("custom").Exists():
		t.definition = entry.Get("custom")
		t.name = t.definition.Get("name").Text()
	case kind == "function", kind == "custom", kind == "" && entry.Get("input_schema").Exists():
		if space != "" {
			t.name = space + "." + t.name
		}
	case kind == "shell":
		if where := entry.Get("environment").Get("type").Text(); where == "local" || where == "" {
			t.name, t.shell = "shell", true
		} else {
			t.hosted = "shell"
		}
	case plainKind == "tool_search" && entry.Get("execution").Text() == "client":
		t.unknown = true
	case providerTools[plainKind]:
		t.hosted = plainKind
	case isClient && client != "":
		t.name = client
	case isClient, plainKind == "computer":
	default:
		t.unknown = true
	}
	t.unknown = t.unknown || !t.direct()
	return t
}

// direct reports whether a tool can be one that the app is to run when the model itself calls it.
func (t *tool) direct() bool {
	for c := range t.entry.Get("allowed_callers").Elements() {
		if c.Text() != "direct" {
			return false
		}
	}
	return !strings.HasPrefix(t.name, hostedPrefix)
}

// hostedPrefix begins the names for the policy of what the provider runs.
const hostedPrefix = "hosted."

// label is what the header Helm-Removed says of a tool.
func (t *tool) label() string {
	switch {
	case t.hosted != "":
		return "hosted." + t.hosted
	case t.name != "":
		return t.name
	}
	return t.entry.Get("type").Text()
}

// filter returns a list of tools without those that must not be forwarded. names are those of all
// lists of the request, since tools that share one are all removed.
func (o *offer) filter(list rawjson.Value, space string, names map[string]int, of catalog) (rawjson.Value, error) {
	if !list.Exists() {
		return list, nil
	}
	if list.Kind() != rawjson.Array {
		return list, errTools
	}
	var kept [][]byte
	all := true
	for entry := range list.Elements() {
		now, ok, err := o.entry(entry, space, names, of)
		if err != nil {
			return list, err
		}
		if ok {
			kept = append(kept, now.Raw())
		}
		all = all && ok && bytes.Equal(now.Raw(), entry.Raw())
	}
	if all {
		return list, nil
	}
	return rawjson.List(kept), nil
}

// entry returns an entry as it is forwarded, and whether it is.
func (o *offer) entry(e rawjson.Value, space string, names map[string]int, of catalog) (rawjson.Value, bool, error) {
	kind := e.Get("type").Text()
	switch plainKind := dated.ReplaceAllString(kind, ""); {
	case kind == "namespace":
		if space != "" {
			return e, false, nil // none inside another
		}
		tools, err := o.filter(e.Get("tools"), e.Get("name").Text(), names, of)
		if err != nil || empty(tools) {
			return e, false, err
		}
		return with(e, "tools", tools.Raw()), true, nil
	case toolsets[plainKind]:
		return e, o.toolset(e, names, of), nil
	}
	t := readTool(e, space, o.nested)
	ok := o.keeps(&t, names, of)
	if !ok {
		o.removed = append(o.removed, t.label())
	}
	return e, ok, nil
}

// keeps reports whether a tool is forwarded, and notes that it is.
func (o *offer) keeps(t *tool, names map[string]int, of catalog) bool {
	switch {
	case t.unknown:
		return false
	case t.hosted != "":
		ok := of.permit("hosted."+t.hosted, masked(t.entry))
		for _, kind := range []string{t.hosted, familyOf(t.hosted)} {
			o.hosted[kind] = o.hosted[kind] || ok
		}
		if label := t.entry.Get("server_label").Text(); t.hosted == "mcp" && ok && label != "" {
			o.servers[label] = true
		}
		return ok
	case names[t.name] != 1:
		return false
	}
	digest, err := contracts.DefinitionOf(t.definition.Raw())
	pinned, ok := of.callable(t.name)
	if err != nil || !ok || pinned != (contracts.Digest{}) && pinned != digest {
		return false
	}
	o.tools[t.name] = digest
	o.shell = o.shell || t.shell
	return true
}

// familyOf returns the name that items and blocks of an answer have for a type of hosted tools.
func familyOf(kind string) string {
	if f := families[kind]; f != "" {
		return f
	}
	return kind
}

// toolset reports whether a set of tools is forwarded: each enabled member must be callable.
func (o *offer) toolset(e rawjson.Value, names map[string]int, of catalog) bool {
	set := e.Get("name").Text()
	digest, err := contracts.DefinitionOf(e.Raw())
	found := map[string]contracts.Digest{}
	ok := err == nil && set != "" && !strings.HasPrefix(set+".", hostedPrefix) && e.Get("tools").Kind() == rawjson.Array
	for m := range e.Get("tools").Elements() {
		if m.Get("enabled").Is("false") {
			continue
		}
		name := set + "." + m.Get("name").Text()
		pinned, callable := of.callable(name)
		ok = ok && callable && names[name] == 1 && (pinned == (contracts.Digest{}) || pinned == digest)
		found[name] = digest
	}
	if !ok || len(found) == 0 {
		o.removed = append(o.removed, set)
		return false
	}
	for name, d := range found {
		o.tools[name] = d
	}
	return true
}

// secret are members of hosted tools that are keys.
var secret = words("authorization", "headers", "authorization_token", "token", "api_key")

// masked returns the entry of a hosted tool, in which true stands for what is secret.
func masked(v rawjson.Value) []byte {
	switch v.Kind() {
	case rawjson.Object:
		return v.Edit(func(m rawjson.Member) []byte {
			if secret[folded(m.Name)] {
				return []byte("true")
			}
			return masked(m.Value)
		}).Raw()
	case rawjson.Array:
		var all [][]byte
		for e := range v.Elements() {
			all = append(all, masked(e))
		}
		return rawjson.List(all).Raw()
	}
	return v.Raw()
}

// count adds the names of a list of tools.
func (o *offer) count(list rawjson.Value, space string, names map[string]int) {
	for e := range list.Elements() {
		kind := e.Get("type").Text()
		if kind == "namespace" {
			o.count(e.Get("tools"), e.Get("name").Text(), names)
			continue
		}
		if toolsets[dated.ReplaceAllString(kind, "")] {
			for m := range e.Get("tools").Elements() {
				if !m.Get("enabled").Is("false") {
					names[e.Get("name").Text()+"."+m.Get("name").Text()]++
				}
			}
			continue
		}
		if t := readTool(e, space, o.nested); t.hosted == "" && !t.unknown {
			names[t.name]++
		}
	}
}
