// Package scripted is a model that plays a script, in place of Anthropic's API: an
// [http.RoundTripper] for the official SDK. It reaches no network.
package scripted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/anthropics/anthropic-sdk-go/option"
)

// A Call is a call that the model makes. In a stream Args may be anything; elsewhere what is no
// JSON is sent as a string.
type Call struct{ ID, Tool, Args, Toolset string }

// A Step is one message of the model.
type Step struct {
	Calls []Call
	Stop  string // stop reason; "": that of a message that is whole
	Fails bool   // the request fails
}

// A Told is what the model was told of a call.
type Told struct {
	Call  string
	Text  string // of blocks of text; other blocks as JSON
	Error bool   // is_error
}

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
		c.ID = cmp.Or(c.ID, fmt.Sprintf("toolu_%d", i+1))
		m.Steps = append(m.Steps, Step{Calls: []Call{c}})
	}
	return m
}

// Options are the options of a client that asks this model.
func (m *Model) Options() []option.RequestOption {
	return []option.RequestOption{option.WithBaseURL("http://127.0.0.1"), option.WithAPIKey("none"),
		option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: m})}
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

// Change has a function change the arguments of the next message, as a hook of the SDK would.
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
			Role    string
			Content json.RawMessage
		}
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
	if n := len(asked.Messages); n > 0 && !step.Fails {
		m.hear(asked.Messages[n-1].Content)
	}
	var b bytes.Buffer
	status, kind := http.StatusOK, "application/json"
	switch {
	case step.Fails:
		status = http.StatusInternalServerError
		b.WriteString(`{"type":"error","error":{"type":"api_error","message":"try again"}}`)
	case asked.Stream:
		kind = "text/event-stream"
		for _, e := range m.events(step) {
			text, err := json.Marshal(e)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e["type"], text)
		}
	default:
		m.message(&b, step)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Request: r,
		Body: io.NopCloser(&b), ContentLength: int64(b.Len())}, nil
}

// hear notes the results of calls.
func (m *Model) hear(content json.RawMessage) {
	var blocks []struct {
		Type    string
		ID      string `json:"tool_use_id"`
		IsError bool   `json:"is_error"`
		Content []json.RawMessage
	}
	if json.Unmarshal(content, &blocks) != nil {
		return
	}
	for _, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		told := Told{Call: b.ID, Error: b.IsError}
		for _, raw := range b.Content {
			var text struct{ Type, Text string }
			if json.Unmarshal(raw, &text) == nil && text.Type == "text" {
				told.Text += text.Text
			} else {
				told.Text += string(raw)
			}
		}
		m.told = append(m.told, told)
	}
}

func (s Step) stop() string {
	if s.Stop == "" && len(s.Calls) > 0 {
		return "tool_use"
	}
	return cmp.Or(s.Stop, "end_turn")
}

func (c Call) block(input json.RawMessage) object {
	b := object{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": input}
	if c.Toolset != "" {
		b["toolset_name"] = c.Toolset
	}
	return b
}

// message writes a message. The inputs stand there as they are: an encoder would change them.
func (m *Model) message(b *bytes.Buffer, s Step) {
	fmt.Fprintf(b, `{"id":"msg_%d","type":"message","role":"assistant","model":"scripted","stop_reason":%q,`+
		`"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1},"content":[`, m.at, s.stop())
	var blocks []string
	for _, c := range s.Calls {
		input := json.RawMessage(cmp.Or(c.Args, "{}"))
		if !json.Valid(input) {
			input = quoted(c.Args)
		}
		text := quoted(c.block(json.RawMessage(`"@"`)))
		blocks = append(blocks, strings.Replace(string(text), `"@"`, string(input), 1))
	}
	if len(s.Calls) == 0 {
		blocks = append(blocks, string(quoted(object{"type": "text", "text": m.Text})))
	}
	b.WriteString(strings.Join(blocks, ",") + "]}")
}

func quoted(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of strings
	}
	return b
}

// events is the same message as a stream, with inputs in pieces.
func (m *Model) events(s Step) []object {
	out := []object{{"type": "message_start", "message": object{"id": fmt.Sprintf("msg_%d", m.at), "type": "message",
		"role": "assistant", "model": "scripted", "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": 1, "output_tokens": 1}}}}
	block := func(at int, start object, deltas ...object) {
		out = append(out, object{"type": "content_block_start", "index": at, "content_block": start})
		for _, d := range deltas {
			out = append(out, object{"type": "content_block_delta", "index": at, "delta": d})
		}
		out = append(out, object{"type": "content_block_stop", "index": at})
	}
	for i, c := range s.Calls {
		var pieces []object
		for whole := []rune(c.Args); len(whole) > 0; {
			n := min(5, len(whole))
			pieces = append(pieces, object{"type": "input_json_delta", "partial_json": string(whole[:n])})
			whole = whole[n:]
		}
		block(i, c.block(json.RawMessage("{}")), pieces...)
	}
	if len(s.Calls) == 0 {
		block(0, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": m.Text})
	}
	return append(out, object{"type": "message_delta", "delta": object{"stop_reason": s.stop(), "stop_sequence": nil},
		"usage": object{"output_tokens": 1}}, object{"type": "message_stop"})
}
