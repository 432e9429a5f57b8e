package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

func newPlain(asked *[]call) *plain {
	return &plain{judge: judging(asked), session: "s", hosted: all, shell: true}
}

// TestChatPlain: a plain answer is turned into what its stream is turned into.
func TestChatPlain(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		sc := randomScene(r)
		message := members{"role": "assistant", "content": sc.text, "refusal": nil}
		var calls []any
		for _, c := range sc.calls {
			args := map[string]string{"custom": "input"}[c.kind]
			if args == "" {
				args = "arguments"
			}
			f := members{"name": c.name, args: c.args}
			if sc.legacy {
				message["function_call"] = f
			} else {
				calls = append(calls, members{"id": c.id, "type": c.kind, c.kind: f})
			}
		}
		if calls != nil {
			message["tool_calls"] = calls
		}
		body, err := json.Marshal(members{"id": "c", "object": "chat.completion", "x_unknown": 1, "choices": []any{
			members{"index": 0, "message": message, "finish_reason": sc.finish}}})
		require.NoError(t, err)
		var asked, same []call
		got, err := newPlain(&asked).chat(t.Context(), body)
		require.NoError(t, err, "seed %d: %s", seed, body)
		require.NotContains(t, string(got), "x_unknown")

		s := newChat(&same)
		var out [][]byte
		for _, d := range sc.deltas(r) {
			more, err := s.data(t.Context(), chunkOf(0, d, nil))
			require.NoError(t, err)
			out = append(out, more...)
		}
		more, err := s.data(t.Context(), chunkOf(0, members{}, sc.finish))
		require.NoError(t, err)
		want := assemble(t, append(out, more...))[0]
		require.Equal(t, same, asked)

		var v struct {
			Choices []struct {
				Message struct {
					Content      string
					FunctionCall *struct{ Name, Arguments string } `json:"function_call"`
					ToolCalls    []struct {
						ID, Type         string
						Function, Custom *struct{ Name, Arguments, Input string }
					} `json:"tool_calls"`
				}
				Finish string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal(got, &v))
		require.Len(t, v.Choices, 1)
		m := v.Choices[0].Message
		require.Equal(t, want.text, m.Content, "seed %d", seed)
		require.Equal(t, want.finish, v.Choices[0].Finish, "seed %d", seed)
		if m.FunctionCall != nil {
			require.Equal(t, *want.calls[0], proposed{"", "function_call", m.FunctionCall.Name,
				m.FunctionCall.Arguments})
			delete(want.calls, 0)
		}
		require.Len(t, m.ToolCalls, len(want.calls), "seed %d: %s", seed, got)
		for i, c := range m.ToolCalls {
			p := proposed{id: c.ID, kind: c.Type}
			if c.Function != nil {
				p.name, p.args = c.Function.Name, c.Function.Arguments
			} else {
				p.name, p.args = c.Custom.Name, c.Custom.Input
			}
			require.Equal(t, *want.calls[i], p)
		}
	}
}

// TestMessagesPlain: as a stream of the same answer.
func TestMessagesPlain(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 5))
		reason := []string{"tool_use", "end_turn", "max_tokens", "refusal"}[r.IntN(4)]
		var blocks []block
		var content []any
		for i := range r.IntN(6) {
			b := block{kind: []string{"text", "thinking", "tool_use", "tool_use"}[r.IntN(4)], text: "t"}
			switch b.kind {
			case "text":
				content = append(content, members{"type": "text", "text": b.text})
			case "thinking":
				content = append(content, members{"type": "thinking", "thinking": b.text, "signature": "sig"})
			default:
				b.text = ""
				b.call = proposed{id: fmt.Sprintf("toolu_%d", i), name: []string{"ok", "no"}[r.IntN(2)] + ".tool",
					args: []string{`{}`, `{"a":"é"}`}[r.IntN(2)]}
				content = append(content, members{"type": "tool_use", "id": b.call.id, "name": b.call.name,
					"input": json.RawMessage(b.call.args)})
			}
			blocks = append(blocks, b)
		}
		if content == nil {
			content = []any{}
		}
		body, err := json.Marshal(members{"type": "message", "role": "assistant", "content": content,
			"stop_reason": reason})
		require.NoError(t, err)
		var asked, same []call
		got, err := newPlain(&asked).messages(t.Context(), body)
		require.NoError(t, err, "seed %d", seed)
		s := newMessages(judging(&same), "s", nil, all, 1<<20)
		var out []frame
		for _, e := range stream(r, blocks, reason) {
			more, err := s.event(t.Context(), e)
			require.NoError(t, err)
			out = append(out, more...)
		}
		want, wantReason := accumulate(t, out)
		require.Equal(t, same, asked)
		var v struct {
			Content []struct {
				Type, Text, Thinking, ID, Name string
				Input                          json.RawMessage
			}
			Reason string `json:"stop_reason"`
		}
		require.NoError(t, json.Unmarshal(got, &v))
		require.Equal(t, wantReason, v.Reason)
		require.Len(t, v.Content, len(want), "seed %d: %s", seed, got)
		for i, c := range v.Content {
			if want[i].kind == "text" && strings.HasPrefix(want[i].text, "\n\n[helm]") {
				require.Equal(t, want[i].text, c.Text)
				continue
			}
			require.Equal(t, want[i], block{c.Type, c.Text + c.Thinking,
				proposed{id: c.ID, name: c.Name, args: string(c.Input)}}, "seed %d", seed)
		}
	}
}

// TestResponsesPlain: calls stay in their place, and refusals are the last item.
func TestResponsesPlain(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	body, err := json.Marshal(members{"object": "response", "id": "r", "status": "completed", "output": []any{
		item{kind: "reasoning", text: "why"}.object("a"),
		item{kind: "function_call", call: proposed{id: "c1", name: "ok.tool", args: ` {"a" : 1}`}}.object("b"),
		item{kind: "function_call", call: proposed{id: "c2", name: "no.tool", args: `{}`}}.object("c"),
		item{kind: "function_call", call: proposed{id: "c3", name: "ok.tool", args: `{`}, cut: true}.object("d"),
		item{kind: "custom_tool_call", call: proposed{id: "c4", name: "ok.tool", args: `free "text"`}}.object("e"),
		item{kind: "message", text: "hello"}.object("f"),
		item{kind: "local_shell_call", call: proposed{id: "c5", args: "rm"}}.object("g"),
	}})
	require.NoError(t, err)
	var asked []call
	got, err := newPlain(&asked).responses(t.Context(), body)
	require.NoError(t, err)
	var v struct {
		Output []struct {
			Type, ID, Arguments, Input string
			Content                    []struct{ Text string }
		}
		Helm struct{ Calls []any }
	}
	require.NoError(t, json.Unmarshal(got, &v))
	require.Len(t, v.Output, 5, "%s", got)
	assert.Equal(t, "a", v.Output[0].ID)
	assert.True(t, v.Output[1].ID == "b" && v.Output[1].Arguments == `{"a":1}`)
	assert.True(t, v.Output[2].ID == "e" && v.Output[2].Input == `free "text"`)
	assert.Equal(t, "f", v.Output[3].ID)
	assert.Equal(t, "[helm] no no.tool\n\n[helm] no local_shell", v.Output[4].Content[0].Text)
	assert.Len(t, v.Helm.Calls, 4)
	assert.NotContains(t, string(got), "no.tool\",")
}

// TestPlainFails: what a client may read as a call that was not judged ends the answer.
func TestPlainFails(t *testing.T) {
	t.Parallel()
	const toolCall = `{"id":"a","type":"function","function":{"name":"no","arguments":"{}"}}`
	chat := func(message string) string {
		return `{"choices":[{"index":0,"message":` + message + `,"finish_reason":"tool_calls"}]}`
	}
	messages := func(block string) string {
		return `{"type":"message","role":"assistant","content":[` + block + `],"stop_reason":"tool_use"}`
	}
	responses := func(item string) string { return `{"object":"response","output":[` + item + `]}` }
	for _, x := range []struct{ name, api, body string }{
		{"no object", "chat", `[]`},
		{"no choices", "chat", `{"choices":[]}`},
		{"a delta", "chat", `{"choices":[{"index":0,"delta":{"tool_calls":[` + toolCall + `]},"message":{}}]}`},
		{"a choice without a message", "chat", `{"choices":[{"index":0}]}`},
		{"a repeated name", "chat", chat(`{"content":"a","content":"b"}`)},
		{"another letter case", "chat", chat(`{"Tool_Calls":[` + toolCall + `]}`)},
		{"another role", "chat", chat(`{"role":"tool"}`)},
		{"two kinds", "chat",
			chat(`{"tool_calls":[{"id":"a","type":"function","function":{"name":"no"},"custom":{"name":"no"}}]}`)},
		{"an unknown kind", "chat", chat(`{"tool_calls":[{"id":"a","type":"shell","function":{"name":"no"}}]}`)},
		{"arguments that are an object", "chat",
			chat(`{"tool_calls":[{"id":"a","type":"function","function":{"name":"no","arguments":{}}}]}`)},
		{"legacy and new", "chat", chat(`{"function_call":{"name":"no"},"tool_calls":[` + toolCall + `]}`)},
		{"a call without a name", "chat",
			chat(`{"tool_calls":[{"id":"a","type":"function","function":{"arguments":"{}"}}]}`)},
		{"calls that are text", "chat", chat(`{"tool_calls":"no"}`)},
		{"an error with an answer", "messages", `{"type":"error","content":[]}`},
		{"an unknown block", "messages", messages(`{"type":"tool_call"}`)},
		{"a hosted block", "messages", messages(`{"type":"server_tool_use","name":"web_search","id":"a"}`)},
		{"a call of a program", "messages",
			messages(`{"type":"tool_use","id":"a","name":"no","input":{},"caller":{"type":"code"}}`)},
		{"another role", "messages", strings.Replace(messages(``), "assistant", "user", 1)},
		{"an unknown reason", "messages", strings.Replace(messages(``), "tool_use", "tools", 1)},
		{"input that is text", "messages", messages(`{"type":"tool_use","id":"a","name":"no","input":"{}"}`)},
		{"an unknown item", "responses", responses(`{"type":"tool_call","name":"no"}`)},
		{"a hosted item", "responses", responses(`{"type":"mcp_call","name":"no"}`)},
		{"no call id", "responses", responses(`{"type":"function_call","name":"no","arguments":"{}"}`)},
		{"no output", "responses", `{"object":"response"}`},
		{"no response", "responses", `{"object":"list","output":[]}`},
		{"an unknown part", "responses",
			responses(`{"type":"message","role":"assistant","content":[{"type":"tool"}]}`)},
	} {
		var asked []call
		p := newPlain(&asked)
		p.hosted = func(string) bool { return false }
		read := map[string]func(context.Context, []byte) ([]byte, error){"chat": p.chat, "messages": p.messages,
			"responses": p.responses}[x.api]
		got, err := read(t.Context(), []byte(x.body))
		assert.Error(t, err, "%s: %s", x.api, x.name)
		assert.Nil(t, got, x.name)
		assert.Empty(t, asked, x.name)
	}
}
