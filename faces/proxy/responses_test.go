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

type members = map[string]any

// An item is one of a response: a message, reasoning, or a call.
type item struct {
	kind, text string
	call       proposed
	cut        bool // its arguments did not come whole
}

// object returns an item as it is when it is done.
func (x item) object(id string) members {
	status := "completed"
	if x.cut {
		status = "incomplete"
	}
	switch x.kind {
	case "message":
		return members{"type": "message", "id": id, "role": "assistant", "status": status,
			"content": []any{members{"type": "output_text", "text": x.text, "annotations": []any{}}}}
	case "reasoning":
		return members{"type": "reasoning", "id": id, "summary": []any{}, "encrypted_content": x.text}
	case "custom_tool_call":
		return members{"type": x.kind, "id": id, "call_id": x.call.id, "name": x.call.name, "input": x.call.args,
			"status": status}
	case "local_shell_call":
		return members{"type": x.kind, "id": id, "call_id": x.call.id, "action": members{"command": x.call.args},
			"status": status}
	case "mcp_approval_request":
		return members{"type": x.kind, "id": x.call.id, "name": x.call.name, "server_label": "ok",
			"arguments": x.call.args}
	}
	return members{"type": x.kind, "id": id, "call_id": x.call.id, "name": x.call.name, "arguments": x.call.args,
		"status": status}
}

// events returns those of a response, in which items may interleave.
func events(r *rand.Rand, items []item, finish string) (list []frame) {
	seq := 0
	add := func(kind string, m members) frame {
		m["sequence_number"] = seq
		seq++
		return event(kind, m)
	}
	whole := members{"id": "resp", "status": "in_progress", "output": []any{}}
	list = append(list, add("response.created", members{"response": whole}), add("response.in_progress",
		members{"response": whole}))
	most := []int{1, 4, 1000}[r.IntN(3)]
	var queues [][]func() frame
	for i, x := range items {
		id := fmt.Sprintf("item_%d", i)
		if x.kind == "mcp_approval_request" {
			id = x.call.id
		}
		done := x.object(id)
		begun := x.object(id)
		delete(begun, "content")
		for _, name := range []string{"arguments", "input"} {
			if _, ok := begun[name]; ok && x.kind != "mcp_approval_request" {
				begun[name] = ""
			}
		}
		q := []func() frame{func() frame {
			return add("response.output_item.added", members{"output_index": i, "item": begun})
		}}
		part := func(kind, member, text string) {
			for _, p := range pieces(r, text, most) {
				q = append(q, func() frame {
					return add(kind+".delta", members{"output_index": i, "item_id": id, "delta": p})
				})
			}
			q = append(q, func() frame {
				return add(kind+".done", members{"output_index": i, "item_id": id, member: text})
			})
		}
		switch x.kind {
		case "message":
			empty := members{"type": "output_text", "text": ""}
			q = append(q, func() frame {
				return add("response.content_part.added", members{"output_index": i, "item_id": id,
					"content_index": 0, "part": empty})
			})
			part("response.output_text", "text", x.text)
		case "function_call":
			part("response.function_call_arguments", "arguments", x.call.args)
		case "custom_tool_call":
			part("response.custom_tool_call_input", "input", x.call.args)
		}
		queues = append(queues, append(q, func() frame {
			return add("response.output_item.done", members{"output_index": i, "item": done})
		}))
	}
	first, begun := 0, map[int]bool{}
	for first < len(queues) { // an item begins after those before it have begun
		i := first + r.IntN(min(2, len(queues)-first))
		if len(queues[i]) == 0 || !begun[first] {
			i = first
		}
		if len(queues[i]) == 0 {
			first++
			continue
		}
		list = append(list, queues[i][0]())
		begun[i], queues[i] = true, queues[i][1:]
	}
	return append(list, add(finish, members{"response": members{"id": "resp", "status": "x",
		"output": []any{members{"type": "function_call", "name": "no.tool"}}}}))
}

// gather reads a response as a client library does, and is strict about its order. It returns the
// items as they were done, and the output of the last event.
func gather(t *testing.T, list []frame) (items []members, output []any) {
	t.Helper()
	open := map[int]string{}
	args := map[int]string{}
	began := 0
	for n, e := range list {
		var v struct {
			Type     string
			Seq      int    `json:"sequence_number"`
			Index    *int   `json:"output_index"`
			ID       string `json:"item_id"`
			Item     members
			Delta    string
			Response struct{ Output []any }
		}
		require.NoError(t, json.Unmarshal(e.data, &v), "%s", e.data)
		require.Equal(t, e.event, v.Type)
		require.Equal(t, n, v.Seq)
		switch v.Type {
		case "response.output_item.added":
			require.Equal(t, began, *v.Index)
			began++
			open[*v.Index] = v.Item["id"].(string)
			items = append(items, nil)
		case "response.output_item.done":
			require.Equal(t, open[*v.Index], v.Item["id"])
			require.Nil(t, items[*v.Index])
			items[*v.Index] = v.Item
			if got, ok := args[*v.Index]; ok && v.Item["type"] == "function_call" {
				require.Equal(t, got, v.Item["arguments"])
			}
		case "response.completed", "response.incomplete", "response.failed":
			output = v.Response.Output
		default:
			if v.Index != nil {
				require.Equal(t, open[*v.Index], v.ID)
				args[*v.Index] += v.Delta
			}
		}
	}
	return items, output
}

// TestResponsesStream: of random responses the app gets all that is no call as it came, each
// allowed call once, in its place, with the arguments that were judged, and the refusals last.
func TestResponsesStream(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var items []item
		for i := range r.IntN(7) {
			x := item{kind: []string{"message", "reasoning", "function_call", "function_call", "custom_tool_call",
				"local_shell_call", "mcp_approval_request"}[r.IntN(7)]}
			x.text = strings.Repeat("é😀 x", 1+r.IntN(5))
			x.call = proposed{id: fmt.Sprintf("call_%d", i), name: []string{"ok", "no"}[r.IntN(2)] + ".tool",
				args: []string{"", `{"a":1}`, `{"a": "é😀" }`}[r.IntN(3)]}
			x.cut = r.IntN(6) == 0 && x.kind != "reasoning" && x.kind != "mcp_approval_request"
			items = append(items, x)
		}
		finish := []string{"response.completed", "response.incomplete", "response.failed"}[r.IntN(3)]
		var asked []call
		s := newResponses(judging(&asked), "s", nil, all, true, 1<<20)
		var out []frame
		for _, e := range events(r, items, finish) {
			more, err := s.event(t.Context(), e)
			require.NoError(t, err, "seed %d: %s", seed, e.data)
			for _, x := range more {
				if !strings.Contains(string(x.data), `"server_label":"ok"`) { // ok__no.tool is allowed
					require.NotContains(t, string(x.data), `"name":"no.tool"`, "seed %d", seed)
				}
			}
			out = append(out, more...)
		}
		require.NoError(t, s.end())
		got, output := gather(t, out)
		require.Len(t, output, len(got))
		refusals := 0
		want := map[string]item{}
		for i, x := range items {
			id := fmt.Sprintf("item_%d", i)
			if x.kind == "mcp_approval_request" {
				id = x.call.id
			}
			switch {
			case x.kind == "message" || x.kind == "reasoning":
				want[id] = x
			case x.cut:
			case x.kind == "local_shell_call": // allowed by its own name
				refusals++
			case x.kind == "mcp_approval_request" || x.call.allows():
				want[id] = x
			default:
				refusals++
			}
		}
		for i, x := range got {
			require.NotNil(t, x, "seed %d", seed)
			b1, _ := json.Marshal(x)
			b2, _ := json.Marshal(output[i])
			require.JSONEq(t, string(b1), string(b2))
			id := x["id"].(string)
			if strings.HasPrefix(id, "msg_helm_") {
				require.Equal(t, len(got)-1, i, "the refusals are last")
				text := x["content"].([]any)[0].(members)["text"].(string)
				require.Len(t, strings.Split(text, "\n\n"), refusals)
				refusals = 0
				continue
			}
			w, ok := want[id]
			require.True(t, ok, "seed %d: %s", seed, b1)
			delete(want, id)
			switch w.kind {
			case "function_call", "mcp_approval_request":
				args := strings.ReplaceAll(w.call.args, " ", "")
				if args == "" {
					args = "{}"
				}
				require.Equal(t, args, x["arguments"])
			case "custom_tool_call":
				require.Equal(t, w.call.args, x["input"])
			default:
				b2, _ = json.Marshal(w.object(id))
				require.JSONEq(t, string(b2), string(b1))
			}
		}
		require.Empty(t, want, "seed %d", seed)
		require.Zero(t, refusals, "seed %d", seed)
	}
}

// TestResponsesStreamFails: what a client may read as a call that was not judged ends the answer.
func TestResponsesStreamFails(t *testing.T) {
	t.Parallel()
	at := func(kind, rest string) frame { return frame{kind, []byte(`{"type":"` + kind + `"` + rest + `}`)} }
	begin := at("response.created", `,"response":{"output":[]}`)
	added := func(x string) frame { return at("response.output_item.added", `,"output_index":0,"item":`+x) }
	done := func(x string) frame { return at("response.output_item.done", `,"output_index":0,"item":`+x) }
	part := func(rest string) frame {
		return at("response.function_call_arguments.delta", `,"output_index":0,`+rest)
	}
	const fn = `{"type":"function_call","id":"a","call_id":"c","name":"no","arguments":""}`
	whole := strings.Replace(fn, `""`, `"{}"`, 1)
	const message = `{"type":"message","id":"a","role":"assistant","content":[]}`
	for name, events := range map[string][]frame{
		"output in the opening event": {at("response.created",
			`,"response":{"output":[{"type":"function_call","name":"no"}]}`)},
		"an item before the beginning": {added(message)},
		"an unknown event":             {begin, at("response.tool", ``)},
		"an event of another type": {begin, {"response.completed",
			[]byte(`{"type":"response.failed","response":{}}`)}},
		"an unknown item": {begin, added(`{"type":"tool_call","id":"a","name":"no"}`)},
		"a hosted item":   {begin, added(`{"type":"web_search_call","id":"a"}`)},
		"a container's shell": {begin,
			added(`{"type":"shell_call","id":"a","call_id":"c","action":{}}`)},
		"another role": {begin, added(strings.Replace(message, "assistant", "user", 1))},
		"content at the start of an item": {begin, added(strings.Replace(message, "[]",
			`[{"type":"output_text","text":"a"}]`, 1))},
		"an unknown part": {begin, added(message), at("response.content_part.added",
			`,"output_index":0,"item_id":"a","part":{"type":"tool"}`)},
		"an index that was left out": {begin, at("response.output_item.added", `,"output_index":1,"item":`+fn)},
		"an index twice":             {begin, added(fn), added(message)},
		"done before it began":       {begin, done(whole)},
		"done twice":                 {begin, added(message), done(message), done(message)},
		"done as something else":     {begin, added(message), done(whole)},
		"another id":                 {begin, added(fn), done(strings.Replace(whole, `"a"`, `"b"`, 1))},
		"another call id":            {begin, added(fn), done(strings.Replace(whole, `"c"`, `"d"`, 1))},
		"another name":               {begin, added(fn), done(strings.Replace(whole, `"no"`, `"ok"`, 1))},
		"no call id": {begin, added(`{"type":"function_call","id":"a","name":"no"}`),
			done(`{"type":"function_call","id":"a","name":"no","arguments":"{}"}`)},
		"arguments that are an object": {begin, added(fn), done(strings.Replace(fn, `""`, `{}`, 1))},
		"other arguments than the fragments": {begin, added(fn), part(`"item_id":"a","delta":"{\"a\":1}"`),
			done(whole)},
		"and than their end": {begin, added(fn), part(`"item_id":"a","delta":"{"`),
			at("response.function_call_arguments.done", `,"output_index":0,"item_id":"a","arguments":"{}"`)},
		"arguments at both places":  {begin, added(whole), part(`"item_id":"a","delta":"{}"`), done(whole)},
		"fragments of another item": {begin, added(fn), part(`"item_id":"b","delta":"{}"`)},
		"fragments of a message":    {begin, added(message), part(`"item_id":"a","delta":"{}"`)},
		"half a character":          {begin, added(fn), part(`"item_id":"a","delta":"\ud83d"`)},
		"a call of a program": {begin, added(fn), done(strings.Replace(whole, `"id"`,
			`"caller":{"type":"program"},"id"`, 1))},
		"another letter case": {begin, added(strings.Replace(fn, `"name"`, `"Name"`, 1))},
		"a name twice": {begin, added(strings.Replace(fn, `"name"`, `"name":"ok","n\u0061me"`,
			1))},
		"an end with an item open": {begin, added(fn), at("response.completed", `,"response":{}`)},
		"more after the end":       {begin, at("response.completed", `,"response":{}`), begin},
		"an error":                 {begin, at("error", `,"message":"x"`)},
		"several actions at once": {begin, added(`{"type":"computer_call","id":"a","call_id":"c"}`),
			done(`{"type":"computer_call","id":"a","call_id":"c","action":{},"actions":[{}]}`)},
	} {
		var asked []call
		s := newResponses(judging(&asked), "s", nil, func(string) bool { return false }, false, 1<<20)
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
