package proxy

import (
	"fmt"
	"strings"

	"github.com/helmkernel/helm/faces/internal/callindex"
	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// An api is one of the three that the proxy speaks.
type api string

const (
	chatAPI      api = "chat"
	responsesAPI api = "responses"
	messagesAPI  api = "messages"
)

// A refusal is an answer of HELM's own to a request.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func bad(format string, args ...any) error { return &refusal{400, fmt.Sprintf(format, args...)} }

// A request is one that was read: what is forwarded of it, what it offers, and what it says became
// of calls.
type request struct {
	body     rawjson.Value // as it is forwarded
	stream   bool
	offer    *offer
	results  []result
	calls    map[string]string // tools of the history, by the id of their call
	order    []string          // ids, in the order of the history
	previous string            // previous_response_id
	compared string            // another response that it names
	words    string            // the text of the last message, if the user's role says it
	removed  []string          // members that were not forwarded
}

// A result is what a request says of a call.
type result struct {
	id     string
	name   string // of a legacy function, whose call has no id
	output []byte
	failed bool
	drop   bool // the app refused to run it
	agreed bool // the app lets the provider run it
}

// A reader reads requests of one API.
type reader struct {
	api  api
	of   catalog
	pass map[string]bool // members that are forwarded though no table has them

	// withheld says why a result must not reach the model: its tool pins an output that it does not
	// meet, or it is too long. It is empty if it may.
	withheld func(tool string, output []byte, failed bool) string

	tool   func(id string) string                 // of a call that was judged; empty: it is not known here
	orphan func(id string) bool                   // a reasoning item whose calls were all denied
	said   func(id string) string                 // the text of a message of HELM's own
	denied func(answer string) []callindex.Denied // the denied calls of an answer that the provider keeps

	r     *request
	names map[string]int  // of tools, in all lists
	seen  map[string]bool // calls that have a result
}

// read reads a request.
func (p *reader) read(body []byte) (_ *request, err error) {
	v, err := rawjson.Check(body)
	if err != nil {
		return nil, bad("the body: %v", err)
	}
	if v.Kind() != rawjson.Object {
		return nil, bad("the body is no object")
	}
	p.r = &request{offer: newOffer(), calls: map[string]string{}, stream: v.Get("stream").Is("true")}
	p.r.offer.nested = p.api == chatAPI
	p.names, p.seen = map[string]int{}, map[string]bool{}
	if err := p.refuse(v); err != nil {
		return nil, err
	}
	p.count(v)
	known := map[api]map[string]bool{chatAPI: chatRequest, responsesAPI: responsesRequest,
		messagesAPI: messagesRequest}[p.api]
	var fault error
	v = v.Edit(func(m rawjson.Member) []byte {
		now, err := m.Value, error(nil)
		switch {
		case !known[m.Name] && !p.pass[m.Name]:
			p.r.removed = append(p.r.removed, m.Name)
			return nil
		case m.Name == "tools":
			now, err = p.r.offer.filter(now, "", p.names, p.of)
		case m.Name == "functions":
			now, err = p.functions(now)
		case m.Name == "mcp_servers":
			now = p.servers(now)
		case m.Name == "web_search_options":
			now = p.hosted("web_search", now)
		case m.Name == "container" && now.Get("skills").Exists():
			now = p.hosted("code_execution", now)
		case m.Name == "messages":
			now, err = p.messages(now)
		case m.Name == "input":
			now, err = p.input(now)
		}
		if err != nil && fault == nil {
			fault = err
		}
		if m.Name != "messages" && m.Name != "input" && (now.Kind() == rawjson.Missing ||
			(m.Name == "tools" || m.Name == "functions" || m.Name == "mcp_servers") && now.Kind() == rawjson.Array &&
				empty(now)) {
			return nil
		}
		return now.Raw()
	})
	if fault != nil {
		if fault == errTools {
			fault = bad("tools: %v", errTools)
		}
		return nil, fault
	}
	if p.r.previous != "" && !v.Get("input").Exists() {
		if given := p.answered(); len(given) > 0 {
			v = set(v, "input", rawjson.List(given).Raw())
		}
	}
	p.r.removed = append(p.r.removed, p.r.offer.removed...)
	p.r.body, err = p.choose(v)
	return p.r, err
}

// refuse returns an error for what is not forwarded in any form.
func (p *reader) refuse(v rawjson.Value) error {
	switch {
	case v.Get("background").Exists() && !v.Get("background").Is("false"): // some take 1 for true
		return bad("background: a response that nobody reads now is not governed")
	case v.Get("prompt").Exists(), v.Get("conversation").Exists():
		return bad("prompt and conversation: what the provider keeps is not seen here")
	case p.api == chatAPI && v.Get("messages").Kind() != rawjson.Array,
		p.api == messagesAPI && v.Get("messages").Kind() != rawjson.Array:
		return bad("messages is to be a list")
	}
	if p.api == responsesAPI {
		p.r.previous = v.Get("previous_response_id").Text()
		p.r.compared = v.Get("prompt_cache_options").Get("comparison_response_id").Text()
	}
	return nil
}

// count counts the names of the tools of all lists.
func (p *reader) count(v rawjson.Value) {
	p.r.offer.count(v.Get("tools"), "", p.names)
	for f := range v.Get("functions").Elements() {
		p.names[f.Get("name").Text()]++
	}
	for m := range v.Get("messages").Elements() {
		p.r.offer.count(m.Get("tools"), "", p.names)
	}
	for e := range v.Get("input").Elements() {
		if e.Get("type").Text() != "mcp_list_tools" { // which tells what a server has
			p.r.offer.count(e.Get("tools"), "", p.names)
		}
	}
}

// hosted returns a member that lets the provider run something, or nothing.
func (p *reader) hosted(kind string, v rawjson.Value) rawjson.Value {
	t := tool{entry: v, hosted: kind}
	if v.Exists() && !p.r.offer.keeps(&t, p.names, p.of) {
		p.r.offer.removed = append(p.r.offer.removed, t.label())
		return rawjson.Value{}
	}
	return v
}

// servers returns the list of MCP servers that the provider asks.
func (p *reader) servers(list rawjson.Value) rawjson.Value {
	if list.Kind() != rawjson.Array {
		return p.hosted("mcp", list)
	}
	var kept [][]byte
	for e := range list.Elements() {
		if p.hosted("mcp", e).Exists() {
			kept = append(kept, e.Raw())
		}
	}
	return unlessSame(list, kept)
}

// functions returns the legacy list of functions.
func (p *reader) functions(list rawjson.Value) (rawjson.Value, error) {
	if list.Exists() && list.Kind() != rawjson.Array {
		return list, errTools
	}
	var kept [][]byte
	for f := range list.Elements() {
		t := tool{entry: f, definition: f, name: f.Get("name").Text()}
		if f.Kind() == rawjson.Object && t.direct() && p.r.offer.keeps(&t, p.names, p.of) {
			kept = append(kept, f.Raw())
			continue
		}
		p.r.offer.removed = append(p.r.offer.removed, t.label())
	}
	return rawjson.List(kept), nil
}

// choose returns a request whose tool_choice fits the tools that are left.
func (p *reader) choose(v rawjson.Value) (rawjson.Value, error) {
	left := v.Get("tools").Exists() || v.Get("functions").Exists()
	for _, member := range []string{"tool_choice", "function_call"} {
		c := v.Get(member)
		if !c.Exists() {
			continue
		}
		demands, names := demanded(c)
		for _, name := range names {
			if _, ok := p.r.offer.tools[name]; !ok && !p.r.offer.hosted[name] {
				return v, &refusal{403, member + " forces what may not be called"}
			}
		}
		if demands && !left {
			return v, &refusal{403, member + " demands a call, and no tool may be called"}
		}
	}
	if left {
		return v, nil
	}
	return v.Edit(func(m rawjson.Member) []byte {
		if m.Name == "tool_choice" || m.Name == "function_call" || m.Name == "parallel_tool_calls" {
			return nil // the APIs refuse them alone
		}
		return m.Value.Raw()
	}), nil
}

// demanded returns whether a choice demands a call, and of which tools.
func demanded(c rawjson.Value) (demands bool, names []string) {
	if c.Kind() == rawjson.String {
		word := c.Text()
		return word != "auto" && word != "none", nil
	}
	kind := c.Get("type").Text()
	switch kind {
	case "auto", "none":
		return false, nil
	case "any":
		return true, nil
	case "allowed_tools":
		of := c
		if inner := c.Get("allowed_tools"); inner.Exists() {
			of = inner
		}
		for e := range of.Get("tools").Elements() {
			_, more := demanded(e)
			names = append(names, more...)
		}
		return of.Get("mode").Text() == "required", names
	}
	name := c.Get("name").Text()
	for _, inner := range []string{"function", "custom"} {
		if of := c.Get(inner); of.Exists() {
			name = of.Get("name").Text()
		}
	}
	if name == "" || kind == "mcp" { // whose name is one of the server
		name = dated.ReplaceAllString(kind, "")
		if own := clientTools[name]; own != "" {
			name = own
		}
	}
	return true, []string{name}
}

// messages reads a list of messages, of chat or of the messages API.
func (p *reader) messages(list rawjson.Value) (rawjson.Value, error) {
	var all [][]byte
	n := 0
	for m := range list.Elements() {
		now, err := p.message(m, n)
		if err == nil {
			now, err = p.offered(now)
		}
		if err != nil {
			return list, err
		}
		all = append(all, now.Raw())
		n++
	}
	return unlessSame(list, all), nil
}

// offered returns a message or an item whose tools, if it has any, are those that may be offered.
func (p *reader) offered(v rawjson.Value) (rawjson.Value, error) {
	tools := v.Get("tools")
	if !tools.Exists() {
		return v, nil
	}
	tools, err := p.r.offer.filter(tools, "", p.names, p.of)
	return with(v, "tools", tools.Raw()), err
}

// unlessSame returns a list of values, or the list as it was if it has the same.
func unlessSame(list rawjson.Value, all [][]byte) rawjson.Value {
	i := 0
	for e := range list.Elements() {
		if i >= len(all) || string(all[i]) != string(e.Raw()) {
			return rawjson.List(all)
		}
		i++
	}
	if i != len(all) {
		return rawjson.List(all)
	}
	return list
}

func (p *reader) message(m rawjson.Value, n int) (rawjson.Value, error) {
	role := m.Get("role").Text()
	p.r.words = ""
	if p.api == messagesAPI {
		if !messagesRoles[role] {
			return m, bad("messages/%d: role %q is not known here", n, cut(role))
		}
		return p.blocks(m, n, role)
	}
	if !chatRoles[role] {
		return m, bad("messages/%d: role %q is not known here", n, cut(role))
	}
	switch role {
	case "user":
		p.r.words = text(m.Get("content"))
	case "assistant":
		for c := range m.Get("tool_calls").Elements() {
			name := c.Get("function").Get("name").Text()
			if custom := c.Get("custom"); custom.Exists() {
				name = custom.Get("name").Text()
			}
			p.call(c.Get("id").Text(), name)
		}
	case "tool", "function":
		return p.result(m, "content", result{id: m.Get("tool_call_id").Text(), name: m.Get("name").Text()},
			role == "function")
	}
	return m, nil
}

// call notes a call of the history.
func (p *reader) call(id, tool string) {
	if id == "" {
		return
	}
	if _, ok := p.r.calls[id]; !ok {
		p.r.order = append(p.r.order, id)
	}
	p.r.calls[id] = tool
}

// result notes a result, whose text is a member of v. It returns v as it is forwarded.
func (p *reader) result(v rawjson.Value, member string, r result, legacy bool) (rawjson.Value, error) {
	if legacy {
		r.id = ""
	} else if r.name = ""; r.id == "" {
		return v, bad("a result without the id of its call")
	}
	if !legacy {
		if p.seen[r.id] {
			return v, bad("two results for one call")
		}
		p.seen[r.id] = true
	}
	if member == "" { // whether the provider may run it
		p.r.results = append(p.r.results, r)
		return v, nil
	}
	r.output = outputOf(v.Get(member))
	p.r.results = append(p.r.results, r)
	name := r.name
	if !legacy {
		if p.tool != nil {
			name = p.tool(r.id)
		}
		if name == "" {
			name = p.r.calls[r.id]
		}
	}
	if why := p.withheld(name, r.output, r.failed); why != "" {
		return set(v, member, quote("[helm] output withheld: "+why)), nil
	}
	return v, nil
}

// outputOf returns the bytes of a result: of a text its bytes, of a list of one text that, else the
// JSON as it came.
func outputOf(v rawjson.Value) []byte {
	if v.Kind() == rawjson.Array {
		var only rawjson.Value
		n := 0
		for e := range v.Elements() {
			only = e
			n++
		}
		if kind := only.Get("type").Text(); n == 1 && (kind == "text" || kind == "input_text" ||
			kind == "output_text") {
			v = only.Get("text")
		}
	}
	switch {
	case !v.Exists():
		return []byte{}
	case v.Kind() == rawjson.String && !v.Halves():
		return []byte(v.Text())
	}
	return v.Raw()
}

// text returns the words of a content: a text, or the texts of its parts.
func text(content rawjson.Value) string {
	if content.Kind() == rawjson.String {
		return content.Text()
	}
	var parts []string
	for e := range content.Elements() {
		if kind := e.Get("type").Text(); kind == "text" || kind == "input_text" {
			parts = append(parts, e.Get("text").Text())
		}
	}
	return strings.Join(parts, "\n")
}

// cut cuts a word of a request for a message.
func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// blocks reads a message of the messages API.
func (p *reader) blocks(m rawjson.Value, n int, role string) (rawjson.Value, error) {
	content := m.Get("content")
	if content.Kind() != rawjson.Array {
		if role == "user" {
			p.r.words = content.Text()
		}
		return m, nil
	}
	var all [][]byte
	results := false
	for b := range content.Elements() {
		kind := b.Get("type").Text()
		if !messagesBlocks[kind] {
			return m, bad("messages/%d: a block of type %q is not known here", n, cut(kind))
		}
		switch kind {
		case "tool_use":
			p.call(b.Get("id").Text(), b.Get("name").Text())
		case "tool_result":
			results = true
			var err error
			b, err = p.result(b, "content", result{id: b.Get("tool_use_id").Text(),
				failed: b.Get("is_error").Is("true")}, false)
			if err != nil {
				return m, err
			}
		}
		all = append(all, b.Raw())
	}
	if role == "user" && !results {
		p.r.words = text(content)
	}
	return with(m, "content", unlessSame(content, all).Raw()), nil
}

// input reads the input of the responses API.
func (p *reader) input(v rawjson.Value) (rawjson.Value, error) {
	all := p.answered()
	if v.Kind() == rawjson.String {
		p.r.words = v.Text()
		if len(all) == 0 {
			return v, nil
		}
		message := append(append([]byte(`{"role":"user","content":`), v.Raw()...), '}')
		return rawjson.List(append(all, message)), nil
	}
	if v.Exists() && v.Kind() != rawjson.Array {
		return v, bad("input is to be a text or a list")
	}
	n := 0
	for item := range v.Elements() {
		now, err := p.item(item, n)
		if err != nil {
			return v, err
		}
		if now.Kind() != rawjson.Missing {
			all = append(all, now.Raw())
		}
		n++
	}
	return unlessSame(v, all), nil
}

// consent returns what an answer of the app to a request for approval says, and whether all that
// read it read that: some take 1 for true, or a name in other letter case for the name.
func consent(v rawjson.Value) (agreed, ok bool) {
	for m := range v.Members() {
		if f := folded(m.Name); f != m.Name && (f == "approve" || f == "approval_request_id" || f == "type") {
			return false, false
		}
	}
	agreed = v.Get("approve").Is("true")
	return agreed, agreed || v.Get("approve").Is("false")
}

// callNames are the tools of items that have no name of their own.
var callNames = map[string]string{"local_shell_call": "local_shell", "shell_call": "shell",
	"apply_patch_call": "apply_patch", "computer_call": "computer"}

func (p *reader) item(v rawjson.Value, n int) (rawjson.Value, error) {
	kind := v.Get("type").Text()
	if kind == "" && v.Get("role").Exists() {
		kind = "message"
	}
	p.r.words = ""
	if !responsesItems[kind] {
		return v, bad("input/%d: an item of type %q is not known here", n, cut(kind))
	}
	switch {
	case kind == "message":
		role := v.Get("role").Text()
		if !responsesRoles[role] {
			return v, bad("input/%d: role %q is not known here", n, cut(role))
		}
		if role == "user" {
			p.r.words = text(v.Get("content"))
		}
		return p.offered(v)
	case (kind == "reasoning" || kind == "item_reference") && p.orphan != nil && p.orphan(v.Get("id").Text()):
		return rawjson.Value{}, nil // the API refuses one that nothing follows
	case kind == "item_reference" && strings.HasPrefix(v.Get("id").Text(), ownItem):
		return p.spoken(v.Get("id").Text()), nil // the provider does not have it
	case kind == "function_call" || kind == "custom_tool_call":
		p.call(v.Get("call_id").Text(), spaced(v))
	case callNames[kind] != "":
		p.call(v.Get("call_id").Text(), callNames[kind])
	case kind == "mcp_approval_request":
		p.call(v.Get("id").Text(), v.Get("server_label").Text()+"__"+v.Get("name").Text())
	case strings.HasSuffix(kind, "_call_output"):
		id := v.Get("call_id").Text()
		if kind == "local_shell_call_output" && id == "" {
			id = v.Get("id").Text()
		}
		return p.result(v, "output", result{id: id}, false)
	case kind == "mcp_approval_response":
		agreed, ok := consent(v)
		if !ok {
			return v, bad("input/%d: approve is to be true or false", n)
		}
		r := result{id: v.Get("approval_request_id").Text(), agreed: agreed, drop: !agreed}
		return p.result(v, "", r, false)
	case kind == "additional_tools", kind == "tool_search_output":
		return p.offered(v)
	}
	return v, nil
}
