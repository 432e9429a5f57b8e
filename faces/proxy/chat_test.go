package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// A scene is what a model says in one choice: text, and then calls.
type scene struct {
	text   string
	calls  []proposed
	finish string
	legacy bool
}

type proposed struct{ id, kind, name, args string }

// allows is the verdict of these tests.
func (p proposed) allows() bool { return strings.HasPrefix(p.name, "ok") }

// judging returns a judge that allows what begins with ok, and counts what it was asked.
func judging(asked *[]call) judge {
	return func(_ context.Context, c call) ruling {
		*asked = append(*asked, c)
		r := ruling{allowed: strings.HasPrefix(c.tool, "ok"), id: c.id, refusal: "[helm] no " + c.tool,
			member: []byte(`{}`)}
		if !isID(r.id) {
			r.id = newID()
		}
		if !r.allowed {
			return r
		}
		var v any
		if json.Unmarshal(c.args, &v) != nil {
			return ruling{refusal: "[helm] no JSON", member: []byte(`{}`)}
		}
		r.args, _ = json.Marshal(v) // canonical enough
		return r
	}
}

func newChat(asked *[]call) *chatStream {
	return &chatStream{judge: judging(asked), session: "s", most: 1 << 20, choices: map[int]*chatChoice{}}
}

// pieces cuts a text at random places between characters.
func pieces(r *rand.Rand, s string, most int) (list []string) {
	for len(s) > 0 {
		n := 1 + r.IntN(most)
		if n > len(s) {
			n = len(s)
		}
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		list, s = append(list, s[:n]), s[n:]
	}
	return list
}

func randomScene(r *rand.Rand) (s scene) {
	for range r.IntN(6) {
		s.text += []string{"héllo ", "😀", "\u2028", `"quote" `, "\n", "{", "tool_calls "}[r.IntN(7)]
	}
	s.legacy = r.IntN(8) == 0
	n := r.IntN(5)
	if s.legacy {
		n = min(n, 1)
	}
	for i := range n {
		p := proposed{fmt.Sprintf("call_%d_%d", i, r.IntN(1e6)), "function", []string{"ok", "no"}[r.IntN(2)] + ".tool",
			fmt.Sprintf(`{"a": %d, "t":"%s"}`, r.IntN(100), strings.Repeat("é😀x", r.IntN(9)))}
		switch r.IntN(6) {
		case 0:
			p.args = ""
		case 1:
			p.kind, p.args = "custom", "free \"text\" "+p.args
		case 2:
			p.args = `{"a":1,"a":2` // not JSON
		}
		if s.legacy {
			p.kind, p.id = "function_call", ""
		}
		s.calls = append(s.calls, p)
	}
	s.finish = []string{"stop", "tool_calls", "length", "content_filter"}[r.IntN(4)]
	return s
}

// deltas returns the deltas of a scene, in an order in which fragments of calls interleave.
func (s *scene) deltas(r *rand.Rand) (list []map[string]any) {
	most := []int{1, 3, 1000}[r.IntN(3)]
	for _, p := range pieces(r, s.text, most) {
		list = append(list, map[string]any{"content": p})
	}
	var queues [][]map[string]any
	for i, c := range s.calls {
		args := "arguments"
		if c.kind == "custom" {
			args = "input"
		}
		begun := false
		var q []map[string]any
		for _, p := range append([]string{""}, pieces(r, c.args, most)...) {
			f := map[string]any{args: p}
			if !begun {
				f["name"] = c.name
			}
			if s.legacy {
				q = append(q, map[string]any{"function_call": f})
			} else {
				e := map[string]any{"index": i, c.kind: f}
				if !begun {
					e["id"], e["type"] = c.id, c.kind
				}
				q = append(q, map[string]any{"tool_calls": []any{e}})
			}
			begun = true
		}
		queues = append(queues, q)
	}
	for len(queues) > 0 {
		i := r.IntN(len(queues))
		list = append(list, queues[i][0])
		if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
			queues = append(queues[:i], queues[i+1:]...)
		}
		if r.IntN(10) == 0 && s.text == "" {
			list = append(list, map[string]any{"content": nil})
		}
	}
	return list
}

func chunkOf(at int, delta map[string]any, finish any) []byte {
	b, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
		"choices": []any{map[string]any{"index": at, "delta": delta, "finish_reason": finish}}})
	return b
}

// A reply is what a strict client assembles of one choice.
type reply struct {
	text   string
	calls  map[int]*proposed
	finish string
}

// assemble reads chunks as a client library does.
func assemble(t *testing.T, chunks [][]byte) map[int]*reply {
	t.Helper()
	all := map[int]*reply{}
	for _, c := range chunks {
		if string(c) == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Index int
				Delta struct {
					Content      *string
					FunctionCall *struct{ Name, Arguments string } `json:"function_call"`
					ToolCalls    []struct {
						Index            int
						ID, Type         string
						Function, Custom *struct{ Name, Arguments, Input string }
					} `json:"tool_calls"`
				}
				Finish *string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal(c, &chunk), "%s", c)
		for _, x := range chunk.Choices {
			r := all[x.Index]
			if r == nil {
				r = &reply{calls: map[int]*proposed{}}
				all[x.Index] = r
			}
			require.Empty(t, r.finish, "%s", c)
			if x.Delta.Content != nil {
				r.text += *x.Delta.Content
			}
			if f := x.Delta.FunctionCall; f != nil {
				r.calls[0] = &proposed{"", "function_call", f.Name, f.Arguments}
			}
			for _, e := range x.Delta.ToolCalls {
				require.Equal(t, len(r.calls), e.Index, "%s", c)
				p := &proposed{id: e.ID, kind: e.Type}
				if e.Function != nil {
					p.name, p.args = e.Function.Name, e.Function.Arguments
				} else {
					p.name, p.args = e.Custom.Name, e.Custom.Input
				}
				r.calls[e.Index] = p
			}
			if x.Finish != nil {
				r.finish = *x.Finish
			}
		}
	}
	return all
}

// TestChatStream: of random streams the app gets all text as it came, each allowed call once,
// whole, with the arguments that were judged, and nothing of any other.
func TestChatStream(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		scenes := make([]scene, 1+r.IntN(4))
		var in [][]byte
		queues := map[int][]map[string]any{}
		for i := range scenes {
			scenes[i] = randomScene(r)
			queues[i] = scenes[i].deltas(r)
			if r.IntN(2) == 0 {
				queues[i] = append([]map[string]any{{"role": "assistant", "content": ""}}, queues[i]...)
			}
		}
		for len(queues) > 0 {
			i := r.IntN(len(scenes))
			q, ok := queues[i]
			switch {
			case !ok:
			case len(q) == 0:
				in = append(in, chunkOf(i, map[string]any{}, scenes[i].finish))
				delete(queues, i)
			case len(q) == 1 && r.IntN(4) == 0: // the last fragment with the finish
				in = append(in, chunkOf(i, q[0], scenes[i].finish))
				delete(queues, i)
			default:
				in = append(in, chunkOf(i, q[0], nil))
				queues[i] = q[1:]
			}
			if r.IntN(10) == 0 {
				in = append(in, []byte(`{"id":"c","choices":[],"usage":{"total_tokens":3}}`))
			}
		}
		in = append(in, []byte("[DONE]"))

		var asked []call
		s := newChat(&asked)
		var out [][]byte
		for _, data := range in {
			more, err := s.data(t.Context(), data)
			require.NoError(t, err, "seed %d: %s", seed, data)
			for _, b := range more { // whatever comes when, no call is in it that was not judged and allowed
				if strings.Contains(string(b), `"tool_calls":[`) || strings.Contains(string(b), `"function_call":{`) {
					require.NotContains(t, string(b), `"no.tool"`)
					require.NotEmpty(t, asked)
				}
			}
			out = append(out, more...)
		}
		require.NoError(t, s.end())
		got := assemble(t, out)
		for i, sc := range scenes {
			x := got[i]
			require.NotNil(t, x, "seed %d", seed)
			text, calls := sc.text, []proposed{}
			for _, c := range sc.calls {
				switch {
				case cutShort[sc.finish]:
				case c.allows() && (c.kind == "custom" || c.args == "" || json.Valid([]byte(c.args))):
					if c.kind != "custom" {
						var v any
						if c.args == "" {
							c.args = "{}"
						}
						require.NoError(t, json.Unmarshal([]byte(c.args), &v))
						b, _ := json.Marshal(v)
						c.args = string(b)
					}
					calls = append(calls, c)
				default:
					if text != "" {
						text += "\n\n"
					}
					if c.allows() {
						text += "[helm] no JSON"
					} else {
						text += "[helm] no " + c.name
					}
				}
			}
			finish := sc.finish
			if len(calls) == 0 && len(sc.calls) > 0 && !cutShort[finish] {
				finish = "stop"
			}
			require.Equal(t, text, x.text, "seed %d", seed)
			require.Equal(t, finish, x.finish, "seed %d", seed)
			require.Len(t, x.calls, len(calls), "seed %d", seed)
			for k, c := range calls {
				require.Equal(t, c, *x.calls[k], "seed %d", seed)
			}
		}
	}
}

// TestChatStreamFails: what a client may read as a call that was not judged ends the answer.
func TestChatStreamFails(t *testing.T) {
	t.Parallel()
	chunk := func(delta string) string {
		return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
	}
	fine := chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"no","arguments":"{}"}}]}`)
	const finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	for name, events := range map[string][]string{
		"a repeated name":     {`{"choices":[],"choices":[{"index":0,"delta":{}}]}`},
		"one that is escaped": {`{"choices":[],"choice\u0073":[]}`},
		"another letter case": {chunk(`{"Tool_calls":[]}`)},
		"the long s":          {chunk("{\"tool_call\u017f\":[]}")},
		"the Kelvin sign":     {strings.Replace(fine, `"arguments"`, "\"Arguments\"", 1)},
		"a message in a chunk": {`{"choices":[{"index":0,"message":{"tool_calls":[]},` +
			`"finish_reason":null}]}`},
		"another role":             {chunk(`{"role":"tool"}`)},
		"calls that are no list":   {chunk(`{"tool_calls":{"index":0}}`)},
		"a call that is no object": {chunk(`{"tool_calls":["no"]}`)},
		"arguments that are an object": {chunk(`{"tool_calls":[{"index":0,"function":{"name":"no",` +
			`"arguments":{}}}]}`)},
		"a name that is a number": {chunk(`{"tool_calls":[{"index":0,"function":{"name":1}}]}`)},
		"no index":                {chunk(`{"tool_calls":[{"id":"a","function":{"name":"no"}}]}`)},
		"index 1.0":               {chunk(`{"tool_calls":[{"index":1.0,"function":{"name":"no"}}]}`)},
		"index 2^31":              {chunk(`{"tool_calls":[{"index":2147483648,"function":{"name":"no"}}]}`)},
		"index 1e0":               {chunk(`{"tool_calls":[{"index":1e0,"function":{"name":"no"}}]}`)},
		"an id that changes": {fine,
			chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"arguments":""}}]}`)},
		"a name that changes": {fine, chunk(`{"tool_calls":[{"index":0,"function":{"name":"ok"}}]}`)},
		"a type that changes": {fine, chunk(`{"tool_calls":[{"index":0,"type":"custom"}]}`)},
		"two kinds": {fine,
			chunk(`{"tool_calls":[{"index":0,"custom":{"name":"no","input":""}}]}`)},
		"an unknown kind": {chunk(`{"tool_calls":[{"index":0,"type":"shell",` +
			`"function":{"name":"no"}}]}`)},
		"a call without a name":      {chunk(`{"tool_calls":[{"index":0,"type":"function"}]}`), finish},
		"legacy and new":             {fine, chunk(`{"function_call":{"name":"no","arguments":""}}`)},
		"a choice without an index":  {`{"choices":[{"delta":{"content":"a"}}]}`},
		"choices that are an object": {`{"choices":{"index":0}}`},
		"an unknown finish":          {`{"choices":[{"index":0,"delta":{},"finish_reason":"tools"}]}`},
		"a call after the finish":    {finish, fine},
		"DONE with a call held":      {fine, "[DONE]"},
		"more after DONE":            {finish, "[DONE]", "[DONE]"},
		"no object":                  {`[]`},
		"half a character in an argument": {chunk(`{"tool_calls":[{"index":0,"function":{"name":"no",` +
			`"arguments":"\ud83d"}}]}`)},
	} {
		var asked []call
		s := newChat(&asked)
		var err error
		var out [][]byte
		for _, e := range events {
			var more [][]byte
			if more, err = s.data(t.Context(), []byte(e)); err != nil {
				break
			}
			out = append(out, more...)
		}
		assert.Error(t, err, name)
		for _, r := range assemble(t, out) {
			assert.Empty(t, r.calls, name)
		}
	}
	var asked []call
	s := newChat(&asked)
	_, err := s.data(t.Context(), []byte(fine))
	require.NoError(t, err)
	assert.Error(t, s.end(), "a stream that ends without a finish")
	assert.Empty(t, asked)

	s = newChat(&asked)
	s.most = 10
	_, err = s.data(t.Context(),
		[]byte(chunk(`{"tool_calls":[{"index":0,"function":{"name":"no","arguments":"12345678901"}}]}`)))
	assert.ErrorIs(t, err, errTooLong)
	s = newChat(&asked)
	for i := range maxCalls + 1 {
		_, err = s.data(t.Context(),
			[]byte(chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"name":"no"}}]}`, i))))
	}
	assert.ErrorIs(t, err, errTooMany)
}

// TestChatUnknownMembers: what no table has is left out, unless it is to pass.
func TestChatUnknownMembers(t *testing.T) {
	t.Parallel()
	var asked []call
	s := newChat(&asked)
	s.pass = map[string]bool{"reasoning_content": true, "helm": true}
	out, err := s.data(t.Context(), []byte(`{"id":"a","x":{"tool_calls":[1]},"helm":{},"choices":[{"index":0,"delta":`+
		`{"content":"t","reasoning_content":"r","actions":[{"name":"no"}]},"finish_reason":null}]}`))
	require.NoError(t, err)
	assert.Equal(t,
		`{"id":"a","choices":[{"index":0,"delta":{"content":"t","reasoning_content":"r"},"finish_reason":null}]}`,
		string(out[0]))
	assert.Equal(t, 3, s.removed)
}
