// Package scripted is a model that plays a script, in place of OpenAI's API: an [http.RoundTripper]
// for the official client. It reaches no network.
package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/openai/openai-go/v3/option"
)

// A Call is a call that the model makes. Args are a text, and not always JSON.
type Call struct {
	ID, Tool, Args string

	Custom    bool   // of a custom tool
	Legacy    bool   // chat completions: a function_call, without an id
	Namespace string // responses
}

// A Step is one answer of the model.
type Step struct {
	Calls  []Call
	Finish string // finish reason or status; "": that of an answer that is whole
}

// A Told is what the model was told of a call.
type Told struct{ Call, Text string }

// A Model answers each request with the next step, and then with Text.
type Model struct {
	Steps []Step
	Text  string

	mu     sync.Mutex
	at     int
	told   []Told
	bodies [][]byte
}

// New returns a model that makes the calls, one at a time, and then says text.
func New(text string, calls ...Call) *Model {
	m := &Model{Text: text}
	for i, c := range calls {
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d", i+1)
		}
		m.Steps = append(m.Steps, Step{Calls: []Call{c}})
	}
	return m
}

// Options are the options of a client that asks this model.
func (m *Model) Options() []option.RequestOption {
	return []option.RequestOption{option.WithBaseURL("http://127.0.0.1/v1"), option.WithAPIKey("none"),
		option.WithMaxRetries(0), option.WithUnsafeAllowHTTP(), option.WithHTTPClient(&http.Client{Transport: m})}
}

// Told returns what the model was told so far, in order.
func (m *Model) Told() []Told {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Told(nil), m.told...)
}

// Asked returns the bodies of the requests so far.
func (m *Model) Asked() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([][]byte(nil), m.bodies...)
}

// Change has a function change the arguments of the next answer, as a hook of the client would.
func (m *Model) Change(f func(args string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at < len(m.Steps) {
		calls := m.Steps[m.at].Calls
		for i := range calls {
			calls[i].Args = f(calls[i].Args)
		}
	}
}

type object = map[string]any

// RoundTrip answers a request.
func (m *Model) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var asked struct {
		Stream   bool
		Messages []struct {
			Role, Name, Content string
			ToolCallID          string `json:"tool_call_id"`
		}
		Input json.RawMessage
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies = append(m.bodies, body)
	step := Step{}
	if m.at < len(m.Steps) {
		step = m.Steps[m.at]
	}
	m.at++
	id := fmt.Sprintf("answer_%d", m.at)
	var events []object
	switch {
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		for i := len(asked.Messages) - 1; i >= 0 && asked.Messages[i].Role != "assistant"; i-- {
			if x := asked.Messages[i]; x.Role == "tool" || x.Role == "function" {
				m.told = append(m.told, Told{x.ToolCallID + x.Name, x.Content})
			}
		}
		events = []object{m.chat(id, step)}
		if asked.Stream {
			events = m.chunks(id, step)
		}
	case strings.HasSuffix(r.URL.Path, "/responses"):
		var items []struct {
			Type   string
			CallID string `json:"call_id"`
			Output string
		}
		if json.Unmarshal(asked.Input, &items) == nil { // else it is a text
			for _, x := range items {
				if strings.HasSuffix(x.Type, "_call_output") {
					m.told = append(m.told, Told{x.CallID, x.Output})
				}
			}
		}
		events = m.response(id, step)
		if !asked.Stream {
			events = []object{events[len(events)-1]["response"].(object)}
		}
	default:
		return nil, errors.New("scripted: no such path")
	}
	return answer(r, events, asked.Stream)
}

func answer(r *http.Request, events []object, stream bool) (*http.Response, error) {
	var b bytes.Buffer
	kind := "application/json"
	if stream {
		kind = "text/event-stream"
	}
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if name, ok := e["type"].(string); ok && stream {
			fmt.Fprintf(&b, "event: %s\n", name)
		}
		if stream {
			fmt.Fprintf(&b, "data: %s\n\n", text)
		} else {
			b.Write(text)
		}
	}
	if stream {
		b.WriteString("data: [DONE]\n\n")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Request: r,
		Body: io.NopCloser(&b), ContentLength: int64(b.Len())}, nil
}

// calls returns the tool calls and the legacy call of a step, as chat completions have them.
func (s Step) calls() (list []object, legacy object) {
	for i, c := range s.Calls {
		kind, of := "function", object{"name": c.Tool, "arguments": c.Args}
		switch {
		case c.Legacy:
			legacy = of
			continue
		case c.Custom:
			kind, of = "custom", object{"name": c.Tool, "input": c.Args}
		}
		list = append(list, object{"index": i, "id": c.ID, "type": kind, kind: of})
	}
	return list, legacy
}

func (s Step) finish() string {
	switch {
	case s.Finish != "":
		return s.Finish
	case len(s.Calls) == 0:
		return "stop"
	}
	return "tool_calls"
}

func (m *Model) chat(id string, s Step) object {
	message := object{"role": "assistant", "content": nil}
	list, legacy := s.calls()
	for _, c := range list {
		delete(c, "index")
	}
	if list != nil {
		message["tool_calls"] = list
	}
	if legacy != nil {
		message["function_call"] = legacy
	}
	if len(s.Calls) == 0 {
		message["content"] = m.Text
	}
	return object{"id": id, "object": "chat.completion", "created": 1, "model": "scripted",
		"choices": []object{{"index": 0, "finish_reason": s.finish(), "message": message}}}
}

// chunks is the same answer as a stream, with arguments in pieces.
func (m *Model) chunks(id string, s Step) (out []object) {
	add := func(delta object, finish any) {
		out = append(out, object{"id": id, "object": "chat.completion.chunk", "created": 1, "model": "scripted",
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	add(object{"role": "assistant", "content": ""}, nil)
	list, legacy := s.calls()
	if legacy != nil {
		add(object{"function_call": legacy}, nil)
	}
	for _, c := range list {
		of, ok := c["function"].(object)
		if !ok {
			add(object{"tool_calls": []object{c}}, nil)
			continue
		}
		whole := []rune(of["arguments"].(string))
		of["arguments"] = ""
		add(object{"tool_calls": []object{c}}, nil)
		for len(whole) > 0 {
			n := min(5, len(whole))
			piece := object{"index": c["index"], "function": object{"arguments": string(whole[:n])}}
			add(object{"tool_calls": []object{piece}}, nil)
			whole = whole[n:]
		}
	}
	if len(s.Calls) == 0 {
		add(object{"content": m.Text}, nil)
	}
	if s.Finish != "none" { // a stream that breaks
		add(object{}, s.finish())
	}
	return out
}

// response returns the events of a response, of which the last has all of it.
func (m *Model) response(id string, s Step) []object {
	status, last := "completed", "response.completed"
	if s.Finish != "" {
		status, last = s.Finish, "response."+s.Finish
	}
	items := []object{}
	for i, c := range s.Calls {
		item := object{"id": fmt.Sprintf("%s_%d", id, i), "call_id": c.ID, "name": c.Tool}
		if c.Custom {
			item["type"], item["input"] = "custom_tool_call", c.Args
		} else {
			item["type"], item["arguments"], item["status"] = "function_call", c.Args, "completed"
		}
		if c.Namespace != "" {
			item["namespace"] = c.Namespace
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		items = append(items, object{"id": "msg_" + id, "type": "message", "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": m.Text, "annotations": []object{}}}})
	}
	made := func(status string, output []object) object {
		return object{"id": id, "object": "response", "created_at": 1, "model": "scripted", "status": status,
			"output": output, "parallel_tool_calls": true, "tool_choice": "auto", "tools": []object{}}
	}
	events := []object{{"type": "response.created", "sequence_number": 0, "response": made("in_progress", []object{})}}
	for i, item := range items {
		events = append(events, object{"type": "response.output_item.done", "sequence_number": i + 1, "output_index": i,
			"item": item})
	}
	return append(events, object{"type": last, "sequence_number": len(items) + 1, "response": made(status, items)})
}
