package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// A reader of plain answers has what all three have in common.
type plain struct {
	judge   judge
	session string
	pass    map[string]bool
	hosted  func(tool string) bool
	shell   bool
	watch   watch

	rulings []ruling
	removed int
}

// read returns the object of an answer.
func (p *plain) read(body []byte) (rawjson.Value, error) {
	v, err := rawjson.Check(body)
	if err == nil && v.Kind() != rawjson.Object {
		err = errShape
	}
	return v, err
}

// judged has calls judged, in their order, and returns those that are released, and the refusals as
// one text.
func (p *plain) judged(ctx context.Context, calls []call) (rulings []ruling, refusals string) {
	for _, c := range calls {
		r := p.judge(ctx, c)
		p.rulings = append(p.rulings, r)
		rulings = append(rulings, r)
		if r.allowed {
			continue
		}
		if refusals != "" {
			refusals += "\n\n"
		}
		refusals += r.refusal
	}
	return rulings, refusals
}

// tell returns an answer with the member helm, if something was judged.
func (p *plain) tell(v rawjson.Value) []byte {
	if len(p.rulings) == 0 {
		return v.Raw()
	}
	return v.Edit(func(m rawjson.Member) []byte { return m.Value.Raw() }, helmMember(p.session, p.rulings)).Raw()
}

// after returns a text and then the refusals.
func after(text, refusals string) string {
	if text != "" {
		return text + "\n\n" + refusals
	}
	return refusals
}

// chat returns a plain chat completion as the app gets it.
func (p *plain) chat(ctx context.Context, body []byte) ([]byte, error) {
	v, err := p.read(body)
	if err != nil {
		return nil, err
	}
	for c := range v.Get("choices").Elements() {
		if c.Get("delta").Kind() != rawjson.Missing {
			return nil, errShape // a stream's
		}
	}
	if v, err = chatAnswer.clean(v, p.pass, &p.removed); err != nil {
		return nil, err
	}
	var choices [][]byte
	total := 0
	for c := range v.Get("choices").Elements() {
		calls, err := chatCalls(c.Get("message"))
		if err != nil {
			return nil, err
		}
		finish := c.Get("finish_reason")
		if known := cutShort[finish.Text()] || finishes[finish.Text()]; !known && (finish.Exists() || len(calls) > 0) {
			return nil, errShape
		}
		if total += len(calls); total > maxCalls {
			return nil, errTooMany
		}
		choices = append(choices, p.choice(ctx, c, calls).Raw())
	}
	if len(choices) == 0 {
		return nil, errShape
	}
	return p.tell(with(v, "choices", rawjson.List(choices).Raw())), nil
}

// chatCalls returns the calls of a message.
func chatCalls(m rawjson.Value) (calls []*chatHeld, err error) {
	if m.Kind() != rawjson.Object || m.Get("role").Exists() && m.Get("role").Text() != "assistant" {
		return nil, errShape
	}
	if list := m.Get("tool_calls"); list.Exists() {
		for e := range list.Elements() {
			h := &chatHeld{id: e.Get("id").Text(), kind: e.Get("type").Text(), first: e}
			function, custom := e.Get("function"), e.Get("custom")
			if h.kind == "" {
				h.kind = "function"
			}
			of, args := function, "arguments"
			if h.kind == "custom" {
				of, args = custom, "input"
			}
			switch {
			case h.kind != "function" && h.kind != "custom", function.Exists() == custom.Exists(),
				e.Get("id").Exists() && e.Get("id").Kind() != rawjson.String:
				return nil, errCall
			}
			if err := h.whole(of, args); err != nil {
				return nil, err
			}
			calls = append(calls, h)
		}
	}
	if f := m.Get("function_call"); f.Exists() {
		h := &chatHeld{kind: "function_call"}
		if err := h.whole(f, "arguments"); err != nil || len(calls) > 0 {
			return nil, errCall
		}
		calls = append(calls, h)
	}
	return calls, nil
}

// whole reads the name and the arguments of a call.
func (h *chatHeld) whole(of rawjson.Value, arguments string) error {
	args := of.Get(arguments)
	if h.name = of.Get("name").Text(); h.name == "" || args.Exists() && args.Kind() != rawjson.String || args.Halves() {
		return errCall
	}
	h.args.WriteString(args.Text())
	return nil
}

func (p *plain) choice(ctx context.Context, c rawjson.Value, held []*chatHeld) rawjson.Value {
	if len(held) == 0 {
		return c
	}
	finish := c.Get("finish_reason")
	var released [][]byte
	var function []byte
	refusals := ""
	if !cutShort[finish.Text()] {
		calls := make([]call, len(held))
		for i, h := range held {
			calls[i] = h.call()
		}
		var rulings []ruling
		rulings, refusals = p.judged(ctx, calls)
		for i, r := range rulings {
			switch {
			case !r.allowed:
			case held[i].kind == "function_call":
				function = held[i].named("arguments", r.args)
			default:
				released = append(released, held[i].object(r))
			}
		}
	}
	message := c.Get("message").Edit(func(m rawjson.Member) []byte {
		switch {
		case m.Name == "tool_calls" && len(released) > 0:
			return rawjson.List(released).Raw()
		case m.Name == "function_call" && function != nil:
			return function
		case m.Name == "tool_calls" || m.Name == "function_call":
			return nil
		}
		return m.Value.Raw()
	})
	if refusals != "" {
		message = set(message, "content", quote(after(message.Get("content").Text(), refusals)))
	}
	if len(released) == 0 && function == nil && !cutShort[finish.Text()] {
		c = set(c, "finish_reason", []byte(`"stop"`))
	}
	return with(c, "message", message.Raw())
}

// messages returns a plain answer of the messages API as the app gets it.
func (p *plain) messages(ctx context.Context, body []byte) ([]byte, error) {
	v, err := p.read(body)
	if err != nil {
		return nil, err
	}
	if v, err = messageOpening.clean(v, p.pass, &p.removed); err != nil {
		return nil, err
	}
	content := v.Get("content")
	reason := v.Get("stop_reason").Text()
	switch {
	case v.Get("type").Text() != "message", v.Get("role").Text() != "assistant", content.Kind() != rawjson.Array,
		!messageCut[reason] && !messageEnds[reason]:
		return nil, errShape
	}
	p.watch.begin(v.Get("id").Text())
	var blocks [][]byte
	var uses []*toolUse
	spoken := false
	for b := range content.Elements() {
		b, hosted, err := cleanBlock(b, p.pass, &p.removed)
		switch {
		case err != nil:
			return nil, err
		case hosted != "" && !p.hosted(hosted):
			return nil, errHosted
		}
		if hosted != "" {
			p.watch.run(hosted, b.Raw())
		}
		if b.Get("type").Text() != "tool_use" {
			spoken = spoken || b.Get("type").Text() == "text"
			blocks = append(blocks, b.Raw())
			continue
		}
		use, err := newToolUse(b)
		if err != nil {
			return nil, err
		}
		if uses = append(uses, use); len(uses) > maxCalls {
			return nil, errTooMany
		}
	}
	if len(uses) == 0 {
		return v.Raw(), nil
	}
	if messageCut[reason] {
		return with(v, "content", rawjson.List(blocks).Raw()).Raw(), nil
	}
	calls := make([]call, len(uses))
	for i, u := range uses {
		calls[i] = u.call()
	}
	rulings, refusals := p.judged(ctx, calls)
	if refusals != "" {
		if spoken {
			refusals = "\n\n" + refusals
		}
		blocks = append(blocks, append(append([]byte(`{"type":"text","text":`), quote(refusals)...), '}'))
	}
	released := false
	for i, r := range rulings {
		if r.allowed {
			released = true
			blocks = append(blocks, set(set(uses[i].block, "id", quote(r.id)), "input", r.args).Raw())
		}
	}
	v = with(v, "content", rawjson.List(blocks).Raw())
	if !released && reason == "tool_use" {
		v = with(v, "stop_reason", []byte(`"end_turn"`))
	}
	return p.tell(v), nil
}

// responses returns a plain response as the app gets it.
func (p *plain) responses(ctx context.Context, body []byte) ([]byte, error) {
	v, err := p.read(body)
	if err != nil {
		return nil, err
	}
	if v, err = responseMembers.clean(v, p.pass, &p.removed); err != nil {
		return nil, err
	}
	output := v.Get("output")
	if v.Get("object").Text() != "response" || output.Kind() != rawjson.Array {
		return nil, errShape
	}
	s := &responsesStream{pass: p.pass, hosted: p.hosted, shell: p.shell, watch: p.watch}
	p.watch.begin(v.Get("id").Text())
	cut := v.Get("status").Exists() && v.Get("status").Text() != "completed"
	var items [][]byte
	var calls []call
	var at []int // where the calls stand in items
	var held []rawjson.Value
	for item := range output.Elements() {
		item, err := s.cleanItem(item)
		if err != nil {
			return nil, err
		}
		kind := item.Get("type").Text()
		if !s.isCall(kind) {
			s.hosts(item)
			items = append(items, item.Raw())
			continue
		}
		if status := item.Get("status"); cut || status.Exists() && status.Text() != "completed" {
			items = append(items, nil) // cut short: nobody gets it
			continue
		}
		c, err := readCall(&responseItem{kind: kind, added: item}, item)
		if err != nil {
			return nil, err
		}
		if calls, at, held = append(calls, c), append(at, len(items)), append(held, item); len(calls) > maxCalls {
			return nil, errTooMany
		}
		items = append(items, nil)
	}
	p.removed += s.removed
	rulings, refusals := p.judged(ctx, calls)
	for i, r := range rulings {
		if r.allowed {
			items[at[i]] = withArguments(held[i], r.args).Raw()
		}
	}
	var kept [][]byte
	var last thought
	for _, item := range items {
		if item == nil {
			last.next(&p.watch, "call", "", true)
			continue
		}
		kept = append(kept, item)
		v, _ := rawjson.Check(item)
		last.next(&p.watch, v.Get("type").Text(), v.Get("id").Text(), false)
	}
	last.next(&p.watch, "", "", false)
	if refusals != "" {
		id := refusalID()
		p.watch.say(id, refusals)
		kept = append(kept, refusalItem(id, "completed", refusalPart(quote(refusals))))
	}
	return p.tell(with(v, "output", rawjson.List(kept).Raw())), nil
}

// withArguments returns the item of a call with the arguments that were judged.
func withArguments(item rawjson.Value, args []byte) rawjson.Value {
	kind := item.Get("type").Text()
	switch kind {
	case "function_call", "mcp_approval_request":
		args = quote(string(args))
	case "custom_tool_call":
		input, _ := rawjson.Check(args)
		args = quote(input.Get("input").Text())
	}
	return with(item, responseCalls[kind].arguments, args)
}

// refusalID returns the id of a message of HELM's own.
func refusalID() []byte {
	var b [8]byte
	rand.Read(b[:])
	return quote(ownItem + hex.EncodeToString(b[:]))
}

func refusalPart(text []byte) []byte {
	return bytes.Join([][]byte{[]byte(`{"type":"output_text","text":`), text, []byte(`,"annotations":[]}`)}, nil)
}

func refusalItem(id []byte, status string, content []byte) []byte {
	return []byte(strings.Join([]string{`{"type":"message","id":`, string(id), `,"role":"assistant","status":"`, status,
		`","content":[`, string(content), "]}"}, ""))
}
