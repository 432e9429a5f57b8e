package proxy

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// A chatStream turns the chunks of a streamed chat completion into those that the app gets. Text
// passes at once, calls are held until their choice is finished, and then judged.
type chatStream struct {
	judge   judge
	session string
	pass    map[string]bool // members that pass though no table has them
	held    int             // bytes, and
	most    int             // how many may be

	choices map[int]*chatChoice
	calls   int
	rulings []ruling
	removed int
	ended   bool
}

// A chatChoice is one of the answers of a stream.
type chatChoice struct {
	done   bool
	spoken bool // text was passed
	calls  map[int]*chatHeld
	legacy *chatHeld
}

// A chatHeld is a call that is not whole yet.
type chatHeld struct {
	id, kind, name string
	args           bytes.Buffer
	first          rawjson.Value // the fragment that began it
}

// event takes one event, and returns those that the app gets now. Events of this API have no name.
func (s *chatStream) event(ctx context.Context, e frame) (out []frame, err error) {
	if e.event != "" {
		return nil, errShape
	}
	all, err := s.data(ctx, e.data)
	for _, data := range all {
		out = append(out, frame{data: data})
	}
	return out, err
}

func (s *chatStream) holding() int { return s.held }

func (s *chatStream) sequence() int { return 0 }

// data takes the data of one event, and returns that of those that the app gets now.
func (s *chatStream) data(ctx context.Context, data []byte) (out [][]byte, err error) {
	if s.ended {
		return nil, errOrder
	}
	if string(data) == "[DONE]" {
		s.ended = true
		for _, c := range s.choices {
			if !c.done {
				return nil, errOrder
			}
		}
		return [][]byte{data}, nil
	}
	chunk, err := rawjson.Check(data)
	if err != nil {
		return nil, err
	}
	if chunk.Kind() != rawjson.Object {
		return nil, errShape
	}
	for c := range chunk.Get("choices").Elements() {
		if c.Get("message").Kind() != rawjson.Missing {
			return nil, errShape // a plain answer's
		}
	}
	if chunk, err = chatChunk.clean(chunk, s.pass, &s.removed); err != nil {
		return nil, err
	}
	return s.chunk(ctx, chunk)
}

func (c *chatChoice) holds() bool { return c.legacy != nil || len(c.calls) > 0 }

// end returns an error if a stream that has ended was not whole.
func (s *chatStream) end() error {
	if !s.ended {
		return errOrder
	}
	for _, c := range s.choices {
		if !c.done {
			return errOrder
		}
	}
	return nil
}

// chunk passes on what is no call, and what is judged now.
func (s *chatStream) chunk(ctx context.Context, chunk rawjson.Value) (out [][]byte, err error) {
	var rest, ends [][]byte // choices
	var after []func(chunk rawjson.Value) ([][]byte, error)
	for c := range chunk.Get("choices").Elements() {
		at, finish, left, err := s.choice(c)
		if err != nil {
			return nil, err
		}
		if finish.Kind() == rawjson.Missing || finish.Kind() == rawjson.Null {
			if left.Kind() != rawjson.Missing {
				rest = append(rest, left.Raw())
			}
			continue
		}
		choice := s.choices[at]
		choice.done = true
		if !choice.holds() {
			rest = append(rest, left.Raw())
			continue
		}
		// What is left of this chunk goes first, without its finish.
		if says(left) {
			rest = append(rest, left.Edit(func(m rawjson.Member) []byte {
				if m.Name == "finish_reason" {
					return []byte("null")
				}
				return m.Value.Raw()
			}).Raw())
		}
		ends = append(ends, left.Raw())
		after = append(after, func(chunk rawjson.Value) ([][]byte, error) {
			return s.finish(ctx, chunk, at, left, finish)
		})
	}
	none := chunk.Get("choices").Kind() != rawjson.Array || chunk.Get("choices").Raw()[0] == '[' &&
		empty(chunk.Get("choices"))
	usage := chunk.Get("usage").Exists()
	bare := chunk // of some chunks for one the last alone has the usage: some clients add it up
	if usage && len(ends) > 0 {
		bare = chunk.Edit(func(m rawjson.Member) []byte {
			if m.Name == "usage" {
				return nil
			}
			return m.Value.Raw()
		})
	}
	if len(rest) > 0 || none || usage && len(ends) == 0 {
		out = append(out, withChoices(bare, rest, none).Raw())
	}
	for i, f := range after {
		of := bare
		if i == len(after)-1 {
			of = chunk
		}
		more, err := f(of)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func empty(list rawjson.Value) bool {
	for range list.Elements() {
		return false
	}
	return true
}

// withChoices returns a chunk with other choices.
func withChoices(chunk rawjson.Value, choices [][]byte, same bool) rawjson.Value {
	if same {
		return chunk
	}
	return chunk.Edit(func(m rawjson.Member) []byte {
		if m.Name == "choices" {
			return rawjson.List(choices).Raw()
		}
		return m.Value.Raw()
	})
}

// spoken reports whether a choice has text.
func spoken(choice rawjson.Value) bool {
	d := choice.Get("delta")
	return d.Get("content").Text() != "" || d.Get("refusal").Text() != ""
}

// says reports whether a choice has something in its delta, such as a role.
func says(choice rawjson.Value) bool {
	for m := range choice.Get("delta").Members() {
		if m.Value.Exists() {
			return true
		}
	}
	return false
}

// choice takes the fragments of calls out of a choice. What is left is Missing if nothing is.
func (s *chatStream) choice(c rawjson.Value) (at int, finish, left rawjson.Value, err error) {
	at, ok := integer(c.Get("index"))
	if !ok {
		return 0, finish, left, errShape
	}
	choice := s.choices[at]
	switch {
	case choice == nil && len(s.choices) >= maxCalls:
		return 0, finish, left, errTooMany
	case choice == nil:
		choice = &chatChoice{calls: map[int]*chatHeld{}}
		s.choices[at] = choice
	case choice.done:
		return 0, finish, left, errOrder
	}
	finish = c.Get("finish_reason")
	if finish.Exists() && !cutShort[finish.Text()] && !finishes[finish.Text()] {
		return 0, finish, left, errShape
	}
	delta := c.Get("delta")
	if role := delta.Get("role"); role.Exists() && role.Text() != "assistant" {
		return 0, finish, left, errShape
	}
	choice.spoken = choice.spoken || spoken(c)
	cut := false
	if list := delta.Get("tool_calls"); list.Exists() {
		cut = true
		for e := range list.Elements() {
			if err := s.fragment(choice, e); err != nil {
				return 0, finish, left, err
			}
		}
	}
	if f := delta.Get("function_call"); f.Exists() {
		cut = true
		if choice.legacy == nil {
			if err := s.begin(); err != nil {
				return 0, finish, left, err
			}
			choice.legacy = &chatHeld{kind: "function_call"}
		}
		if err := s.add(choice.legacy, f, "arguments"); err != nil {
			return 0, finish, left, err
		}
	}
	if choice.legacy != nil && len(choice.calls) > 0 {
		return 0, finish, left, errCall
	}
	if !cut {
		return at, finish, c, nil
	}
	words := false
	left = c.Edit(func(m rawjson.Member) []byte {
		if m.Name != "delta" {
			return m.Value.Raw()
		}
		return m.Value.Edit(func(m rawjson.Member) []byte {
			if m.Name == "tool_calls" || m.Name == "function_call" {
				return nil
			}
			words = words || m.Value.Exists()
			return m.Value.Raw()
		}).Raw()
	})
	if !words && !finish.Exists() {
		left = rawjson.Value{}
	}
	return at, finish, left, nil
}

func (s *chatStream) hold(n int) error {
	if s.held += n; s.held > s.most {
		return errTooLong
	}
	return nil
}

func (s *chatStream) begin() error {
	if s.calls++; s.calls > maxCalls {
		return errTooMany
	}
	return nil
}

// fragment adds a part of a call to what is held of it.
func (s *chatStream) fragment(choice *chatChoice, e rawjson.Value) error {
	index := e.Get("index")
	at, ok := integer(index)
	if index.Is("-1") {
		at, ok = 0, true // some providers
	}
	if !ok || e.Kind() != rawjson.Object {
		return errCall
	}
	h := choice.calls[at]
	if h == nil {
		if err := s.begin(); err != nil {
			return err
		}
		h = &chatHeld{first: e.Clone()}
		choice.calls[at] = h
		if err := s.hold(len(e.Raw())); err != nil {
			return err
		}
	}
	for name, has := range map[string]*string{"id": &h.id, "type": &h.kind} {
		v := e.Get(name)
		switch text := v.Text(); {
		case !v.Exists() || v.Kind() == rawjson.String && text == "":
		case v.Kind() != rawjson.String || *has != "" && *has != text:
			return errCall
		case *has == "":
			*has = text
			if err := s.hold(len(text)); err != nil {
				return err
			}
		}
	}
	function, custom := e.Get("function"), e.Get("custom")
	switch {
	case function.Exists() && custom.Exists(), h.kind == "custom" && function.Exists(),
		h.kind == "function" && custom.Exists(), h.kind != "" && h.kind != "function" && h.kind != "custom":
		return errCall
	case function.Exists():
		h.kind = "function"
		return s.add(h, function, "arguments")
	case custom.Exists():
		h.kind = "custom"
		return s.add(h, custom, "input")
	}
	return nil
}

// add adds the name and a part of the arguments.
func (s *chatStream) add(h *chatHeld, v rawjson.Value, arguments string) error {
	name, args := v.Get("name"), v.Get(arguments)
	if name.Exists() && name.Kind() != rawjson.String || args.Exists() && args.Kind() != rawjson.String {
		return errCall
	}
	if text := name.Text(); text != "" {
		if h.name != "" && h.name != text {
			return errCall
		}
		h.name = text
		if err := s.hold(len(text)); err != nil {
			return err
		}
	}
	if args.Halves() {
		return errCall // fragments are cut between characters
	}
	h.args.WriteString(args.Text())
	return s.hold(len(args.Raw()))
}

// finish judges the calls of a choice, in their order, and returns the chunks that tell of it: one
// with the refusals as text, one for each allowed call, and the finish.
func (s *chatStream) finish(
	ctx context.Context, chunk rawjson.Value, at int, left, finish rawjson.Value,
) (out [][]byte, err error) {
	choice := s.choices[at]
	var refusals []byte
	var released [][]byte
	var rulings []ruling
	if !cutShort[finish.Text()] {
		held := make([]*chatHeld, 0, len(choice.calls)+1)
		for _, index := range slices.Sorted(maps.Keys(choice.calls)) {
			held = append(held, choice.calls[index])
		}
		if choice.legacy != nil {
			held = append(held, choice.legacy)
		}
		for _, h := range held {
			if h.name == "" || h.kind == "" {
				return nil, errCall
			}
		}
		for _, h := range held {
			r := s.judge(ctx, h.call())
			rulings = append(rulings, r)
			if !r.allowed {
				if len(refusals) > 0 || choice.spoken {
					refusals = append(refusals, "\n\n"...)
				}
				refusals = append(refusals, r.refusal...)
				continue
			}
			released = append(released, h.delta(r, len(released)))
		}
	}
	s.rulings = append(s.rulings, rulings...)
	one := func(delta []byte) []byte {
		c := append(strconv.AppendInt([]byte(`{"index":`), int64(at), 10), `,"delta":`...)
		c = append(append(c, delta...), `,"finish_reason":null}`...)
		return chunk.Edit(func(m rawjson.Member) []byte {
			switch m.Name {
			case "choices":
				return rawjson.List([][]byte{c}).Raw()
			case "usage":
				return nil
			}
			return m.Value.Raw()
		}).Raw()
	}
	if len(refusals) > 0 {
		out = append(out, one(append(append([]byte(`{"content":`), quote(string(refusals))...), '}')))
	}
	for _, delta := range released {
		out = append(out, one(delta))
	}
	reason := finish.Raw()
	if len(released) == 0 && !cutShort[finish.Text()] {
		reason = []byte(`"stop"`)
	}
	last := left.Edit(func(m rawjson.Member) []byte {
		switch m.Name {
		case "delta":
			return []byte("{}")
		case "finish_reason":
			return reason
		case "logprobs":
			return nil
		}
		return m.Value.Raw()
	})
	end := withChoices(chunk, [][]byte{last.Raw()}, false)
	if len(rulings) > 0 {
		end = end.Edit(func(m rawjson.Member) []byte { return m.Value.Raw() }, helmMember(s.session, rulings))
	}
	return append(out, end.Raw()), nil
}

// call returns the call that was held, whole.
func (h *chatHeld) call() call {
	c := call{id: h.id, legacy: h.kind == "function_call", tool: h.name, args: h.args.Bytes()}
	switch {
	case h.kind == "custom":
		c.args = append(append([]byte(`{"input":`), quote(h.args.String())...), '}')
	case len(c.args) == 0:
		c.args = []byte("{}")
	}
	return c
}

// named returns the name of a call and its arguments, as they were judged.
func (h *chatHeld) named(member string, args []byte) []byte {
	if h.kind == "custom" {
		input, _ := rawjson.Check(args)
		args = []byte(input.Get("input").Text())
	}
	b := append(append([]byte(`{"name":`), quote(h.name)...), `,"`...)
	b = append(append(b, member...), `":`...)
	return append(append(b, quote(string(args))...), '}')
}

// object returns a released call, with other members of it as they came.
func (h *chatHeld) object(r ruling) []byte {
	member := map[string]string{"function": "arguments", "custom": "input"}[h.kind]
	v := set(h.first, "id", quote(r.id))
	v = set(v, "type", quote(h.kind))
	return set(v, h.kind, h.named(member, r.args)).Raw()
}

// delta returns a released call as a delta, in one piece.
func (h *chatHeld) delta(r ruling, index int) []byte {
	if h.kind == "function_call" {
		return append(append([]byte(`{"function_call":`), h.named("arguments", r.args)...), '}')
	}
	v, _ := rawjson.Check(h.object(r))
	v = set(v, "index", strconv.AppendInt(nil, int64(index), 10))
	return append(append([]byte(`{"tool_calls":[`), v.Raw()...), "]}"...)
}
