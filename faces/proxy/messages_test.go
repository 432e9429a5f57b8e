package proxy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// event returns an event of the messages API.
func event(kind string, members map[string]any) frame {
	members["type"] = kind
	b, _ := json.Marshal(members)
	return frame{kind, b}
}

// A block is one of an answer: text, thinking, or a call.
type block struct {
	kind, text string
	call       proposed
}

// stream returns the events of an answer.
func stream(r *rand.Rand, blocks []block, reason string) (list []frame) {
	list = append(list, event("message_start", map[string]any{"message": map[string]any{"id": "m", "type": "message",
		"role": "assistant", "model": "x", "content": []any{}, "stop_reason": nil,
		"usage": map[string]any{"input_tokens": 1}}}))
	most := []int{1, 4, 1000}[r.IntN(3)]
	for i, b := range blocks {
		delta := func(kind, member, text string) {
			for _, p := range pieces(r, text, most) {
				list = append(list, event("content_block_delta", map[string]any{"index": i,
					"delta": map[string]any{"type": kind, member: p}}))
			}
		}
		if r.IntN(4) == 0 {
			list = append(list, event("ping", map[string]any{}))
		}
		start := map[string]any{"type": b.kind}
		switch b.kind {
		case "text":
			start["text"] = ""
		case "thinking":
			start["thinking"], start["signature"] = "", ""
		case "tool_use":
			start["id"], start["name"], start["input"] = b.call.id, b.call.name, map[string]any{}
		}
		list = append(list, event("content_block_start", map[string]any{"index": i, "content_block": start}))
		switch b.kind {
		case "text":
			delta("text_delta", "text", b.text)
		case "thinking":
			delta("thinking_delta", "thinking", b.text)
			delta("signature_delta", "signature", "sig")
		case "tool_use":
			delta("input_json_delta", "partial_json", b.call.args)
		}
		list = append(list, event("content_block_stop", map[string]any{"index": i}))
	}
	return append(list, event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason,
		"stop_sequence": nil}, "usage": map[string]any{"output_tokens": 1}}), event("message_stop", map[string]any{}))
}

// accumulate reads an answer as a client library does, and is strict about its order.
func accumulate(t *testing.T, events []frame) (blocks []block, reason string) {
	t.Helper()
	open := false
	for _, e := range events {
		var v struct {
			Type  string
			Index int
			Block struct {
				Type, Text, Thinking, ID, Name string
				Input                          map[string]any
			} `json:"content_block"`
			Delta struct {
				Type, Text, Thinking, Signature string
				Partial                         string `json:"partial_json"`
				Reason                          string `json:"stop_reason"`
			}
		}
		require.NoError(t, json.Unmarshal(e.data, &v), "%s", e.data)
		require.Equal(t, e.event, v.Type)
		switch v.Type {
		case "content_block_start":
			require.True(t, !open && v.Index == len(blocks), "%s", e.data)
			require.Empty(t, v.Block.Input)
			open = true
			blocks = append(blocks, block{kind: v.Block.Type, text: v.Block.Text, call: proposed{id: v.Block.ID,
				name: v.Block.Name}})
		case "content_block_delta":
			require.True(t, open && v.Index == len(blocks)-1, "%s", e.data)
			b := &blocks[v.Index]
			b.text += v.Delta.Text + v.Delta.Thinking
			b.call.args += v.Delta.Partial
		case "content_block_stop":
			require.True(t, open && v.Index == len(blocks)-1)
			open = false
		case "message_delta":
			reason = v.Delta.Reason
		}
	}
	require.False(t, open)
	return blocks, reason
}

func all(string) bool { return true }

// TestMessagesStream: of random answers the app gets all that is no call as it came, then the
// refusals, then each allowed call once, with the arguments that were judged.
func TestMessagesStream(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		var blocks, want, released []block
		refusals, spoken := "", false
		reason := []string{"tool_use", "end_turn", "max_tokens", "refusal", "stop_sequence", "pause_turn"}[r.IntN(6)]
		for i := range r.IntN(7) {
			b := block{kind: []string{"text", "thinking", "tool_use", "tool_use"}[r.IntN(4)]}
			if b.kind != "tool_use" {
				b.text = strings.Repeat("é😀 x", r.IntN(5))
				want = append(want, b)
			}
			spoken = spoken || b.kind == "text"
			if b.kind == "tool_use" {
				b.call = proposed{id: fmt.Sprintf("toolu_%d", i), name: []string{"ok", "no"}[r.IntN(2)] + ".tool",
					args: []string{"", `{"a":1}`, `{"a": "é😀" }`}[r.IntN(3)]}
			}
			blocks = append(blocks, b)
		}
		for _, b := range blocks {
			switch {
			case b.kind != "tool_use", messageCut[reason]:
			case b.call.allows():
				if b.call.args == "" {
					b.call.args = "{}"
				}
				b.call.args = strings.ReplaceAll(b.call.args, " ", "")
				released = append(released, b)
			default:
				if refusals != "" || spoken {
					refusals += "\n\n"
				}
				refusals += "[helm] no " + b.call.name
			}
		}
		if refusals != "" {
			want = append(want, block{kind: "text", text: refusals})
		}
		want = append(want, released...)
		wantReason := reason
		if reason == "tool_use" && len(released) == 0 && refusals != "" {
			wantReason = "end_turn"
		}

		var asked []call
		s := newMessages(judging(&asked), "s", nil, all, 1<<20)
		var out []frame
		for _, e := range stream(r, blocks, reason) {
			more, err := s.event(t.Context(), e)
			require.NoError(t, err, "seed %d: %s", seed, e.data)
			for _, x := range more {
				require.True(t, !strings.Contains(string(x.data), "tool_use") || len(asked) > 0 ||
					!strings.Contains(string(x.data), "content_block"))
				require.NotContains(t, string(x.data), `"name":"no`)
			}
			out = append(out, more...)
		}
		require.NoError(t, s.end())
		got, gotReason := accumulate(t, out)
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, wantReason, gotReason, "seed %d", seed)
	}
}

// TestMessagesStreamFails: what a client may read as a call that was not judged ends the answer.
func TestMessagesStreamFails(t *testing.T) {
	t.Parallel()
	at := func(kind, text string) frame { return frame{kind, []byte(text)} }
	begin := at("message_start", `{"type":"message_start","message":{"role":"assistant","content":[]}}`)
	use := func(block string) frame {
		return at("content_block_start", `{"type":"content_block_start","index":0,"content_block":`+block+`}`)
	}
	part := func(index, delta string) frame {
		return at("content_block_delta", `{"type":"content_block_delta","index":`+index+`,"delta":`+delta+`}`)
	}
	began := use(`{"type":"tool_use","id":"a","name":"no","input":{}}`)
	given := use(`{"type":"tool_use","id":"a","name":"no","input":{"a":1}}`)
	text := use(`{"type":"text","text":""}`)
	stop := at("content_block_stop", `{"type":"content_block_stop","index":0}`)
	end := at("message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`)
	for name, events := range map[string][]frame{
		"an event of another type": {at("ping", `{"type":"message_stop"}`)},
		"no event":                 {at("", `{"type":"ping"}`)},
		"an unknown event":         {begin, at("tool", `{"type":"tool"}`)},
		"content in the opening event": {at("message_start",
			`{"type":"message_start","message":{"role":"assistant","content":[{"type":"tool_use"}]}}`)},
		"another role": {at("message_start",
			`{"type":"message_start","message":{"role":"user","content":[]}}`)},
		"an unknown block":       {begin, use(`{"type":"tool_call","id":"a"}`)},
		"a block without a type": {begin, use(`{"name":"no"}`)},
		"a hosted block": {begin,
			use(`{"type":"server_tool_use","id":"a","name":"web_search","input":{}}`)},
		"an unknown hosted tool": {begin, use(`{"type":"server_tool_use","id":"a","name":"shell","input":{}}`)},
		"a hosted result": {begin,
			use(`{"type":"web_search_tool_result","tool_use_id":"a","content":[]}`)},
		"a call of a program": {begin,
			use(`{"type":"tool_use","id":"a","name":"no","input":{},"caller":{"type":"code_execution_20250825"}}`)},
		"a caller that is a word": {begin,
			use(`{"type":"tool_use","id":"a","name":"no","input":{},"caller":"direct"}`)},
		"a call without a name":         {begin, use(`{"type":"tool_use","id":"a","input":{}}`)},
		"input that is text":            {begin, use(`{"type":"tool_use","id":"a","name":"no","input":"{}"}`)},
		"input at both places":          {begin, given, part("0", `{"type":"input_json_delta","partial_json":"{}"}`)},
		"a name in another letter case": {begin, use(`{"type":"tool_use","Name":"ok","id":"a","name":"no"}`)},
		"a name twice":                  {begin, use(`{"type":"tool_use","name":"ok","name":"no"}`)},
		"text in a call":                {begin, began, part("0", `{"type":"text_delta","text":"a"}`)},
		"an unknown delta":              {begin, text, part("0", `{"type":"tool_delta"}`)},
		"another index":                 {begin, text, part("1", `{"type":"text_delta","text":"a"}`)},
		"an index that is a fraction":   {begin, text, part("0.0", `{"type":"text_delta","text":"a"}`)},
		"half a character": {begin, began, part("0",
			`{"type":"input_json_delta","partial_json":"\ud83d"}`)},
		"blocks that interleave": {begin, began, at("content_block_start",
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`)},
		"an index that was left out": {begin, at("content_block_start",
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`)},
		"a block before the beginning": {text},
		"an end with a block open":     {begin, began, end},
		"an unknown reason": {begin, text, stop, at("message_delta",
			`{"type":"message_delta","delta":{"stop_reason":"tools"}}`)},
		"two ends":              {begin, end, end},
		"a block after the end": {begin, end, text},
		"a stop without an end": {begin, at("message_stop", `{"type":"message_stop"}`)},
		"more after it": {begin, end, at("message_stop", `{"type":"message_stop"}`), at("ping",
			`{"type":"ping"}`)},
		"an error": {begin, at("error", `{"type":"error","error":{"type":"overloaded_error"}}`)},
	} {
		var asked []call
		s := newMessages(judging(&asked), "s", nil, func(string) bool { return false }, 1<<20)
		var err error
		for _, e := range events {
			var more []frame
			more, err = s.event(t.Context(), e)
			for _, x := range more {
				assert.NotContains(t, string(x.data), `"no"`, name)
			}
			if err != nil {
				break
			}
		}
		assert.Error(t, err, name)
		assert.Empty(t, asked, name)
	}
}
