package policytest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// A Turn is what one message of a transcript says, or one call that it makes.
type Turn struct {
	Index int      // of the message or item in the transcript, from 0
	Role  string   // of the message: user, assistant, system or developer; of a call: assistant
	Texts []string // what the message says, apart from calls and results
	Call  *Call    // nil: it makes none
}

// A Call is one call of a tool as a transcript has it.
type Call struct {
	ID       string // "" in the oldest form of calls
	Tool     string
	Args     string // as the model wrote them, which need not be JSON; Anthropic: in canonical form
	Result   string // the texts of the recorded result
	Recorded bool   // there is a result
	Failed   bool   // the result says that the tool failed; only Anthropic records it
}

// Transcript reads the messages of an agent: as OpenAI has them for chat, the items of OpenAI's
// responses, or the messages of Anthropic; an array of them, or the request that has them as
// messages or input. It runs nothing and judges nothing.
//
// The form is told from the content of the messages, such as tool_calls, function_call or tool_use,
// never from their order or from a name. A transcript that mixes forms is an error with the index
// of the first message that does not fit those before it. So is a result of no call before it, a
// second result of a call, and what none of the forms has.
//
// Results are found by the id of their call, in any order after it. Texts of one part are one
// element of Texts; images, files and a model's reasoning are left out, and so are calls that the
// provider runs.
func Transcript(r io.Reader) ([]Turn, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTranscript+1))
	if err != nil {
		return nil, fmt.Errorf("policytest: the transcript cannot be read: %w", err)
	}
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: maxTranscript, Depth: crypto.MaxDepth}); err != nil {
		return nil, fmt.Errorf("policytest: the transcript is not strict JSON: %w", err)
	}
	list := tree.Root()
	for _, key := range []string{"messages", "input"} {
		if x := tree.Root().Get(key); x.Exists() {
			list = x
		}
	}
	if list.Kind() == crypto.String { // of a request for a response: the user's words
		return []Turn{{Role: "user", Texts: []string{list.Text()}}}, nil
	}
	if list.Kind() != crypto.Array || list.Len() == 0 {
		return nil, errors.New("policytest: no transcript: hand in an array of messages, or a request that has them")
	}
	t := reading{forms: chat | responses | anthropic}
	i := 0
	for m := range list.Elements() {
		if err := t.message(i, m); err != nil {
			return nil, fmt.Errorf("policytest: message %d: %w", i, err)
		}
		i++
	}
	return t.turns, nil
}

const maxTranscript = 64 << 20

// forms are those that messages may have: a set, since a plain text is one in all of them.
type forms uint8

const (
	chat forms = 1 << iota
	responses
	anthropic
)

func (f forms) String() string {
	var names []string
	for i, name := range []string{"OpenAI chat", "OpenAI responses", "Anthropic"} {
		if f>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// parts are the types of content, with the forms that have them.
var parts = map[string]forms{
	"text": chat | anthropic, "image_url": chat, "input_audio": chat, "file": chat, "refusal": chat | responses,
	"input_text": responses, "output_text": responses, "input_image": responses, "input_file": responses,
	"image": anthropic, "document": anthropic, "search_result": anthropic, "thinking": anthropic,
	"redacted_thinking": anthropic, "tool_use": anthropic, "tool_result": anthropic, "server_tool_use": anthropic,
	"web_search_tool_result": anthropic, "web_fetch_tool_result": anthropic, "mcp_tool_use": anthropic,
	"mcp_tool_result": anthropic, "code_execution_tool_result": anthropic, "container_upload": anthropic,
}

// hosted are items of responses that say nothing and call no tool of the host.
var hosted = map[string]bool{
	"reasoning": true, "web_search_call": true, "file_search_call": true, "code_interpreter_call": true,
	"image_generation_call": true, "mcp_list_tools": true, "mcp_call": true, "mcp_approval_request": true,
	"mcp_approval_response": true, "item_reference": true, "compaction": true,
}

// A reading is a transcript that is being read.
type reading struct {
	forms forms // that fit all messages so far
	turns []Turn
	calls []*Call // without a result yet
}

// is notes that a message has one of some forms.
func (t *reading) is(of forms, because string) error {
	if t.forms&of == 0 {
		return fmt.Errorf("%s is of %s, and the messages before it are of %s: hand in transcripts of one form",
			because, of, t.forms)
	}
	t.forms &= of
	return nil
}

func (t *reading) message(i int, m crypto.Value) error {
	if m.Kind() != crypto.Object {
		return errors.New("a message is an object")
	}
	kind := m.Get("type")
	switch name := kind.Text(); {
	case !kind.Exists():
	case name == "message": // Anthropic's answers say so, too
		if err := t.is(responses|anthropic, "type message"); err != nil {
			return err
		}
	default:
		if err := t.is(responses, "type "+shown(name)); err != nil {
			return err
		}
		return t.item(i, name, m)
	}
	role := m.Get("role").Text()
	if of := rolesOf[role]; of == 0 {
		return errors.New("no role " + shown(role) + ": a message is of user, assistant, system, developer or tool")
	} else if err := t.is(of, "role "+role); err != nil {
		return err
	}
	for _, key := range []string{"tool_calls", "function_call", "tool_call_id", "refusal", "audio"} {
		if m.Get(key).Kind() != crypto.Missing {
			if err := t.is(chat, key); err != nil {
				return err
			}
		}
	}
	if role == "tool" || role == "function" {
		result, err := t.joined(m.Get("content"))
		if err != nil {
			return err
		}
		if role == "function" {
			return t.result(func(c *Call) bool { return c.ID == "" && c.Tool == m.Get("name").Text() }, result, false)
		}
		return t.resultOf(m.Get("tool_call_id"), result, false)
	}
	said := Turn{Index: i, Role: role}
	at := len(t.turns)
	if err := t.content(i, m.Get("content"), &said); err != nil {
		return err
	}
	if refusal := m.Get("refusal").Text(); refusal != "" {
		said.Texts = append(said.Texts, refusal)
	}
	if err := t.chatCalls(i, m); err != nil {
		return err
	}
	if len(said.Texts) > 0 { // before the calls of the message
		t.turns = append(t.turns[:at], append([]Turn{said}, t.turns[at:]...)...)
	}
	return nil
}

var rolesOf = map[string]forms{
	"user": chat | responses | anthropic, "assistant": chat | responses | anthropic,
	"system": chat | responses, "developer": chat | responses, "tool": chat, "function": chat,
}

// chatCalls reads the calls of a message of chat.
func (t *reading) chatCalls(i int, m crypto.Value) error {
	for c := range m.Get("tool_calls").Elements() {
		of, args := c.Get("function"), "arguments"
		switch c.Get("type").Text() {
		case "function", "":
		case "custom":
			of, args = c.Get("custom"), "input"
		default:
			return errors.New("a call of type " + shown(c.Get("type").Text()))
		}
		if err := t.call(i, c.Get("id"), of.Get("name"), of.Get(args)); err != nil {
			return err
		}
	}
	if old := m.Get("function_call"); old.Exists() {
		return t.call(i, crypto.Value{}, old.Get("name"), old.Get("arguments"))
	}
	return nil
}

// item reads an item of responses that is no message.
func (t *reading) item(i int, name string, m crypto.Value) error {
	switch name {
	case "function_call":
		return t.call(i, m.Get("call_id"), m.Get("name"), m.Get("arguments"))
	case "custom_tool_call":
		return t.call(i, m.Get("call_id"), m.Get("name"), m.Get("input"))
	case "function_call_output", "custom_tool_call_output":
		result, err := t.joined(m.Get("output"))
		if err != nil {
			return err
		}
		return t.resultOf(m.Get("call_id"), result, false)
	}
	if !hosted[name] {
		return errors.New("an item of type " + shown(name) + ", which is not known")
	}
	return nil
}

// content reads what a message says, and calls and results of Anthropic.
func (t *reading) content(i int, v crypto.Value, said *Turn) error {
	switch v.Kind() {
	case crypto.String:
		if s := v.Text(); s != "" {
			said.Texts = append(said.Texts, s)
		}
		return nil
	case crypto.Missing, crypto.Null:
		return nil
	case crypto.Array:
	default:
		return errors.New("content is a text, or a list of parts")
	}
	for p := range v.Elements() {
		name := p.Get("type").Text()
		if err := t.part(name); err != nil {
			return err
		}
		switch name {
		case "text", "input_text", "output_text":
			said.Texts = append(said.Texts, p.Get("text").Text())
		case "refusal":
			said.Texts = append(said.Texts, p.Get("refusal").Text())
		case "tool_use":
			input := p.Get("input")
			if input.Kind() != crypto.Object {
				return errors.New("the input of a tool_use is an object")
			}
			if err := t.begin(i, p.Get("id"), p.Get("name"), string(input.Append(nil))); err != nil {
				return err
			}
		case "tool_result":
			result, err := t.joined(p.Get("content"))
			if err == nil {
				err = t.resultOf(p.Get("tool_use_id"), result, p.Get("is_error").Bool())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// part notes the forms that have a type of content.
func (t *reading) part(name string) error {
	of := parts[name]
	if of == 0 {
		return errors.New("content of type " + shown(name) + ", which is not known")
	}
	return t.is(of, "content of type "+name)
}

// joined returns the texts of a result.
func (t *reading) joined(v crypto.Value) (string, error) {
	var result Turn
	switch v.Kind() {
	case crypto.String:
		return v.Text(), nil
	case crypto.Missing, crypto.Null:
		return "", nil
	case crypto.Array:
	default:
		return "", errors.New("a result is a text, or a list of parts")
	}
	for p := range v.Elements() {
		name := p.Get("type").Text()
		if err := t.part(name); err != nil {
			return "", err
		}
		if text := p.Get("text"); text.Exists() && strings.HasSuffix(name, "text") {
			result.Texts = append(result.Texts, text.Text())
		}
	}
	return strings.Join(result.Texts, ""), nil
}

// call begins a call whose arguments are a text.
func (t *reading) call(i int, id, name, args crypto.Value) error {
	if args.Kind() != crypto.String {
		return errors.New("the arguments of a call are a string of what the model wrote")
	}
	return t.begin(i, id, name, args.Text())
}

func (t *reading) begin(i int, id, name crypto.Value, args string) error {
	switch {
	case name.Text() == "":
		return errors.New("a call without the name of its tool")
	case id.Exists() && id.Text() == "":
		return errors.New("a call with an empty id")
	}
	c := &Call{ID: id.Text(), Tool: name.Text(), Args: args}
	for _, open := range t.calls {
		if c.ID != "" && open.ID == c.ID {
			return errors.New("a second call " + shown(c.ID) + " before the result of the first")
		}
	}
	t.calls = append(t.calls, c)
	t.turns = append(t.turns, Turn{Index: i, Role: "assistant", Call: c})
	return nil
}

func (t *reading) resultOf(id crypto.Value, result string, failed bool) error {
	if id.Text() == "" {
		return errors.New("a result without the id of its call")
	}
	return t.result(func(c *Call) bool { return c.ID == id.Text() }, result, failed)
}

// result joins a result to the call that it is of.
func (t *reading) result(of func(*Call) bool, result string, failed bool) error {
	for k, c := range t.calls {
		if of(c) {
			c.Result, c.Recorded, c.Failed = result, true, failed
			t.calls = append(t.calls[:k], t.calls[k+1:]...)
			return nil
		}
	}
	return errors.New("a result of no call before it, or a second one")
}

// shown returns a word of a transcript for messages, cut short.
func shown(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.QuoteToASCII(s)
}
