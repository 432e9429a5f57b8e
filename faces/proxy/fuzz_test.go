package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// onlyOK is a judge that allows the tool ok, with the arguments {"judged":1}.
func onlyOK(_ context.Context, c call) ruling {
	return ruling{allowed: c.tool == "ok", id: "call_ok", args: []byte(`{"judged":1}`), refusal: "no",
		member: []byte(`{}`)}
}

// fuzzed has a machine read a stream of any bytes. Whatever they are, and however leniently a
// client reads what comes out, a call in it is one that was allowed, with the
// arguments that were judged.
func fuzzed(t *testing.T, m machine, text []byte) {
	r := &frames{r: bufio.NewReaderSize(bytes.NewReader(text), 16), most: 1 << 16}
	for {
		e, err := r.next()
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF && err != errFrame && err != errTooLong {
				t.Fatal(err)
			}
			return
		}
		out, err := m.event(t.Context(), e)
		for _, x := range out {
			if string(x.data) == "[DONE]" || x.event == "error" || strings.Contains(string(x.data), `"error"`) {
				continue
			}
			var v any
			if json.Unmarshal(x.data, &v) != nil {
				t.Fatalf("no JSON: %q", x.data)
			}
			judged(t, lower(t, v, x.data), x.data)
		}
		if err != nil {
			return
		}
	}
}

// judged looks for calls anywhere in what a client gets, by names in any letter case.
func judged(t *testing.T, v any, whole []byte) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			judged(t, x, whole)
		}
	case map[string]any:
		names, types := v["name"], v["type"]
		for key, x := range v {
			switch f := folded(key); {
			case whatever[f] || f == "input" && types == "tool_use":
				continue
			case f == "tool_calls" || f == "function_call" || f == "tool_use":
				if key != f {
					t.Fatalf("%s in %s", key, whole)
				}
			}
			judged(t, x, whole)
		}
		kind, _ := types.(string)
		isCall := v["function"] != nil || kind == "tool_use" || kind == "function_call"
		if isCall && names != nil && names != "ok" {
			t.Fatalf("a call of %v in %s", names, whole)
		}
		if f, ok := v["function"].(map[string]any); ok && (f["name"] != "ok" || f["arguments"] != `{"judged":1}`) {
			t.Fatalf("a call of %v in %s", f, whole)
		}
	}
}

// lower returns a value as clients read it that do not look at the case of names. No two of them
// are the same then.
func lower(t *testing.T, v any, whole []byte) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = lower(t, v[i], whole)
		}
	case map[string]any:
		all := map[string]any{}
		for key, x := range v {
			f := folded(key)
			if _, twice := all[f]; twice && !whatever[f] {
				t.Fatalf("%s in two ways in %s", f, whole)
			}
			all[f] = x
			if !whatever[f] {
				all[f] = lower(t, x, whole)
			}
		}
		return all
	}
	return v
}

// whatever are members that pass whole: no client looks for a call there.
var whatever = words("usage", "logprobs", "annotations", "annotation", "metadata", "summary", "reasoning", "error",
	"instructions", "incomplete_details", "prompt", "tools", "tool_choice", "conversation", "billing", "moderation",
	"text", "citations", "citation", "container", "context_management", "stop_details", "audio", "caller")

func seeds(f *testing.F, of func(r *rand.Rand) []frame) {
	for seed := range uint64(8) {
		var b []byte
		for _, e := range of(rand.New(rand.NewPCG(seed, 9))) {
			b = appendFrame(b, e)
		}
		f.Add(bytes.ReplaceAll(b, []byte("ok.tool"), []byte("ok")))
	}
	f.Add([]byte(": comment\r\nid: 1\r\ndata: {\"a\":1}\r\n\r\n"))
}

func FuzzChat(f *testing.F) {
	seeds(f, func(r *rand.Rand) (list []frame) {
		s := randomScene(r)
		for _, d := range s.deltas(r) {
			list = append(list, frame{data: chunkOf(0, d, nil)})
		}
		return append(list, frame{data: chunkOf(0, members{}, s.finish)}, frame{data: []byte("[DONE]")})
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzed(t, &chatStream{judge: onlyOK, most: 1 << 16, choices: map[int]*chatChoice{}}, text)
	})
}

func FuzzMessages(f *testing.F) {
	seeds(f, func(r *rand.Rand) []frame {
		return stream(r, []block{{kind: "text", text: "a"}, {kind: "tool_use", call: proposed{id: "a", name: "no",
			args: "{}"}},
			{kind: "tool_use", call: proposed{id: "b", name: "ok", args: "{}"}}}, "tool_use")
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzed(t, newMessages(onlyOK, "s", nil, func(string) bool { return false }, 1<<16), text)
	})
}

func FuzzResponses(f *testing.F) {
	seeds(f, func(r *rand.Rand) []frame {
		return events(r, []item{{kind: "message", text: "a"}, {kind: "function_call", call: proposed{id: "a",
			name: "no", args: "{}"}},
			{kind: "function_call", call: proposed{id: "b", name: "ok", args: "{}"}}}, "response.completed")
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzed(t, newResponses(onlyOK, "s", nil, func(string) bool { return false }, false, 1<<16), text)
	})
}
