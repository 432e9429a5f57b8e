package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// object is a JSON object.
type object = map[string]any

// A provider speaks the three APIs. It keeps no conversation but those that the responses API has
// it keep: which turn it is follows from the ids of the calls in a request, call_TURN_SERIAL. A
// history that the real APIs refuse it refuses, too.
type provider struct {
	url string

	mu        sync.Mutex
	serial    int
	responses map[string]kept   // by their ids
	items     map[string]object // of those responses, by their ids
	last      object            // the request before
}

// kept is a response that a later one may go on from.
type kept struct {
	calls []string // their ids
	turn  int
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{responses: map[string]kept{}, items: map[string]object{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", p.serve(p.chat))
	mux.HandleFunc("POST /v1/responses", p.serve(p.response))
	mux.HandleFunc("POST /v1/messages", p.serve(p.message))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// next returns a number that no other answer has.
func (p *provider) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	return p.serial
}

// A fault is why a request is refused.
type fault string

func (f fault) Error() string { return string(f) }

// An answer is what an API says in one turn, whole or as events.
type answer struct {
	whole  object
	events []event
}

// An event is one of a stream. name is empty in chat completions.
type event struct {
	name string
	data any
}

func (p *provider) serve(answers func(object) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request object
		if err == nil {
			err = json.Unmarshal(body, &request)
		}
		if err == nil && request["model"] == "broken" {
			err = fault("the model is out")
		}
		p.mu.Lock()
		p.last = request
		p.mu.Unlock()
		var a answer
		if err == nil {
			a, err = answers(request)
		}
		if err != nil {
			say(w, http.StatusBadRequest, object{"type": "error",
				"error": object{"type": "invalid_request_error", "message": err.Error(), "code": "refused", "param": nil}})
			return
		}
		if stream, _ := request["stream"].(bool); !stream {
			say(w, http.StatusOK, a.whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range a.events {
			data, err := json.Marshal(e.data)
			if err != nil {
				panic(err)
			}
			if e.name != "" {
				fmt.Fprintf(w, "event: %s\n", e.name)
			}
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		}
		if a.events[0].name == "" {
			fmt.Fprint(w, "data: [DONE]\n\n")
		}
	}
}

func say(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// objects returns the objects of a list.
func objects(v any) (list []object) {
	all, _ := v.([]any)
	for _, x := range all {
		if o, ok := x.(object); ok {
			list = append(list, o)
		}
	}
	return list
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// after returns the turn that follows a call.
func after(id string) (int, error) {
	parts := strings.Split(id, "_")
	if len(parts) != 3 || parts[0] != "call" {
		return 0, fault("no call of mine: " + id)
	}
	n, err := strconv.Atoi(parts[1])
	return n + 1, err
}

// ids returns the ids of the calls of a turn.
func (p *provider) ids(turn int, s step) (list []string) {
	for range s.calls {
		list = append(list, fmt.Sprintf("call_%d_%d", turn, p.next()))
	}
	return list
}

// offered refuses a call of a tool that was not offered.
func offered(s step, names []string) error {
	for _, c := range s.calls {
		if !slices.Contains(names, c.tool) {
			return fault("not offered: " + c.tool)
		}
	}
	return nil
}

// chat is chat completions.
func (p *provider) chat(request object) (answer, error) {
	turn, waits := 0, map[string]bool{}
	for _, m := range objects(request["messages"]) {
		if m["role"] == "tool" {
			id := text(m["tool_call_id"])
			if !waits[id] {
				return answer{}, fault("an output without its call: " + id)
			}
			delete(waits, id)
			continue
		}
		if len(waits) > 0 {
			return answer{}, fault("a call without its output")
		}
		for _, c := range objects(m["tool_calls"]) {
			n, err := after(text(c["id"]))
			if err != nil {
				return answer{}, err
			}
			turn, waits[text(c["id"])] = max(turn, n), true
		}
	}
	if len(waits) > 0 {
		return answer{}, fault("a call without its output")
	}
	s := at(text(request["model"]), turn)
	var names []string
	for _, tool := range objects(request["tools"]) {
		f, _ := tool["function"].(object)
		names = append(names, text(f["name"]))
	}
	if err := offered(s, names); err != nil {
		return answer{}, err
	}
	head := object{"id": fmt.Sprintf("chatcmpl-%d", p.next()), "created": 1_790_000_000, "model": request["model"],
		"service_tier": "default", "system_fingerprint": "fp_1"}
	usage := object{"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
	reason := "stop"
	message := object{"role": "assistant", "content": s.text, "refusal": nil, "annotations": []any{}}
	if s.text == "" {
		message["content"] = nil
	}
	var a answer
	chunk := func(delta object, finish any) {
		c := maps.Clone(head)
		c["object"] = "chat.completion.chunk"
		c["choices"] = []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
		c["usage"] = nil
		a.events = append(a.events, event{data: c})
	}
	chunk(object{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, piece := range fragments(s.text, 60) {
		chunk(object{"content": piece}, nil)
	}
	var calls []object
	for i, id := range p.ids(turn, s) {
		c := s.calls[i]
		calls = append(calls, object{"id": id, "type": "function", "function": object{"name": c.tool, "arguments": c.args}})
		chunk(object{"tool_calls": []object{{"index": i, "id": id, "type": "function",
			"function": object{"name": c.tool, "arguments": ""}}}}, nil)
		for _, piece := range fragments(c.args, 3) {
			chunk(object{"tool_calls": []object{{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
		reason = "tool_calls"
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	chunk(object{}, reason)
	if o, _ := request["stream_options"].(object); o["include_usage"] == true {
		last := maps.Clone(head)
		last["object"], last["choices"], last["usage"] = "chat.completion.chunk", []any{}, usage
		a.events = append(a.events, event{data: last})
	}
	a.whole = head
	a.whole["object"], a.whole["usage"] = "chat.completion", usage
	a.whole["choices"] = []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": reason}}
	return a, nil
}

// turn returns which turn of responses it is, or why the input is refused.
func (p *provider) turn(request object) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn, waits, reasons := 0, map[string]bool{}, false
	if id := text(request["previous_response_id"]); id != "" {
		before, ok := p.responses[id]
		if !ok {
			return 0, fault("no such response: " + id)
		}
		turn = before.turn
		for _, c := range before.calls {
			waits[c] = true
		}
	}
	for _, item := range objects(request["input"]) {
		if item["type"] == "item_reference" {
			whole, ok := p.items[text(item["id"])]
			if !ok {
				return 0, fault("no such item: " + text(item["id"]))
			}
			item = whole
		}
		kind := text(item["type"])
		if reasons && kind != "function_call" && kind != "message" && kind != "reasoning" && item["role"] != "assistant" {
			return 0, fault("a reasoning item without what followed it")
		}
		reasons = kind == "reasoning"
		switch id := text(item["call_id"]); kind {
		case "function_call":
			n, err := after(id)
			if err != nil {
				return 0, err
			}
			turn, waits[id] = max(turn, n), true
		case "function_call_output":
			if !waits[id] {
				return 0, fault("an output without its call: " + id)
			}
			delete(waits, id)
		}
	}
	if len(waits) > 0 {
		return 0, fault("a call without its output")
	}
	if reasons {
		return 0, fault("a reasoning item without what followed it")
	}
	return turn, nil
}

// response is the responses API.
func (p *provider) response(request object) (answer, error) {
	turn, err := p.turn(request)
	if err != nil {
		return answer{}, err
	}
	s := at(text(request["model"]), turn)
	var names []string
	for _, tool := range objects(request["tools"]) {
		names = append(names, text(tool["name"]))
	}
	if err := offered(s, names); err != nil {
		return answer{}, err
	}
	n := p.next()
	var output []object
	var a answer
	emit := func(name string, data object) {
		data["type"], data["sequence_number"] = name, len(a.events)
		a.events = append(a.events, event{name, data})
	}
	body := func(status string, output []object) object {
		r := object{"id": fmt.Sprintf("resp_%d", n), "object": "response", "created_at": 1_790_000_000, "status": status,
			"error": nil, "incomplete_details": nil, "instructions": nil, "max_output_tokens": nil, "metadata": object{},
			"model": request["model"], "output": output, "parallel_tool_calls": true, "previous_response_id": nil,
			"reasoning": object{"effort": nil, "summary": nil}, "store": true, "temperature": 1, "top_p": 1,
			"text": object{"format": object{"type": "text"}}, "tool_choice": "auto", "tools": []any{},
			"truncation": "disabled", "usage": nil, "user": nil}
		if output == nil {
			r["output"] = []any{}
		}
		if status == "completed" {
			r["usage"] = object{"input_tokens": 7, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 5,
				"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 12}
		}
		return r
	}
	emit("response.created", object{"response": body("in_progress", nil)})
	emit("response.in_progress", object{"response": body("in_progress", nil)})
	item := func(opening, whole object, between func(place object)) {
		i := len(output)
		emit("response.output_item.added", object{"output_index": i, "item": opening})
		between(object{"item_id": whole["id"], "output_index": i})
		emit("response.output_item.done", object{"output_index": i, "item": whole})
		output = append(output, whole)
	}
	with := func(place, more object) object {
		place = maps.Clone(place)
		maps.Copy(place, more)
		return place
	}
	if s.text != "" {
		id := fmt.Sprintf("msg_%d", n)
		part := object{"type": "output_text", "text": s.text, "annotations": []any{}, "logprobs": []any{}}
		empty := object{"type": "output_text", "text": "", "annotations": []any{}, "logprobs": []any{}}
		opening := object{"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []any{}}
		whole := object{"id": id, "type": "message", "status": "completed", "role": "assistant", "content": []object{part}}
		item(opening, whole, func(place object) {
			place["content_index"] = 0
			emit("response.content_part.added", with(place, object{"part": empty}))
			for _, piece := range fragments(s.text, 60) {
				emit("response.output_text.delta", with(place, object{"delta": piece, "logprobs": []any{}}))
			}
			emit("response.output_text.done", with(place, object{"text": s.text, "logprobs": []any{}}))
			emit("response.content_part.done", with(place, object{"part": part}))
		})
	}
	ids := p.ids(turn, s)
	for i, id := range ids {
		if i == 0 {
			r := object{"id": fmt.Sprintf("rs_%d", n), "type": "reasoning", "summary": []any{}, "encrypted_content": "AAAA"}
			item(r, r, func(object) {})
		}
		c := s.calls[i]
		opening := object{"id": "fc_" + id, "type": "function_call", "status": "in_progress", "call_id": id,
			"name": c.tool, "arguments": ""}
		whole := with(opening, object{"status": "completed", "arguments": c.args})
		item(opening, whole, func(place object) {
			for _, piece := range fragments(c.args, 3) {
				emit("response.function_call_arguments.delta", with(place, object{"delta": piece}))
			}
			emit("response.function_call_arguments.done", with(place, object{"name": c.tool, "arguments": c.args}))
		})
	}
	a.whole = body("completed", output)
	emit("response.completed", object{"response": a.whole})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.responses[text(a.whole["id"])] = kept{ids, turn + 1}
	for _, o := range output {
		p.items[text(o["id"])] = o
	}
	return a, nil
}

// message is the messages API.
func (p *provider) message(request object) (answer, error) {
	turn, waits := 0, map[string]bool{}
	for _, m := range objects(request["messages"]) {
		blocks := objects(m["content"])
		for _, b := range blocks {
			switch b["type"] {
			case "tool_result":
				id := text(b["tool_use_id"])
				if !waits[id] || m["role"] != "user" {
					return answer{}, fault("a result without its call: " + id)
				}
				delete(waits, id)
			case "text":
				if text(b["text"]) == "" {
					return answer{}, fault("an empty text")
				}
			}
		}
		if len(waits) > 0 {
			return answer{}, fault("a call without its result")
		}
		for _, b := range blocks {
			if b["type"] == "tool_use" {
				n, err := after(text(b["id"]))
				if err != nil {
					return answer{}, err
				}
				turn, waits[text(b["id"])] = max(turn, n), true
			}
		}
	}
	if len(waits) > 0 {
		return answer{}, fault("a call without its result")
	}
	s := at(text(request["model"]), turn)
	var names []string
	for _, tool := range objects(request["tools"]) {
		names = append(names, text(tool["name"]))
	}
	if err := offered(s, names); err != nil {
		return answer{}, err
	}
	var a answer
	emit := func(name string, data object) {
		data["type"] = name
		a.events = append(a.events, event{name, data})
	}
	whole := object{"id": fmt.Sprintf("msg_%d", p.next()), "type": "message", "role": "assistant", "model": request["model"],
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 7, "output_tokens": 1}}
	emit("message_start", object{"message": maps.Clone(whole)})
	emit("ping", object{})
	var content []object
	block := func(opening, whole object, deltas ...object) {
		i := len(content)
		emit("content_block_start", object{"index": i, "content_block": opening})
		for _, d := range deltas {
			emit("content_block_delta", object{"index": i, "delta": d})
		}
		emit("content_block_stop", object{"index": i})
		content = append(content, whole)
	}
	if s.text != "" {
		var deltas []object
		for _, piece := range fragments(s.text, 60) {
			deltas = append(deltas, object{"type": "text_delta", "text": piece})
		}
		block(object{"type": "text", "text": ""}, object{"type": "text", "text": s.text}, deltas...)
	}
	reason := "end_turn"
	for i, id := range p.ids(turn, s) {
		c := s.calls[i]
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		for _, piece := range fragments(c.args, 3) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
		}
		block(object{"type": "tool_use", "id": id, "name": c.tool, "input": object{}},
			object{"type": "tool_use", "id": id, "name": c.tool, "input": json.RawMessage(c.args)}, deltas...)
		reason = "tool_use"
	}
	emit("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": 5}})
	emit("message_stop", object{})
	whole["content"], whole["stop_reason"], whole["usage"] = content, reason, object{"input_tokens": 7, "output_tokens": 5}
	a.whole = whole
	return a, nil
}
