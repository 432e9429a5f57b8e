package proxy

import (
	"bytes"
	"context"
	"strconv"

	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// A messagesStream turns the events of a streamed answer of the messages API into those that the
// app gets. Blocks pass as they come, counted again; those of calls are held until the answer's
// last word, and then judged. Refusals come before the first allowed call, since the API refuses
// text after one.
type messagesStream struct {
	judge   judge
	session string
	pass    map[string]bool
	hosted  func(tool string) bool // was it permitted in the request?
	most    int                    // bytes that may be held
	watch   watch

	state   messagesState
	block   int      // the index of the block that is open, as it came
	blocks  int      // how many began, as they came
	out     int      // how many the app got
	open    *toolUse // the call whose block is open
	passed  string   // the type of the block that is open, of one that passes
	ran     string   // the tool of the provider that it is of
	calls   []*toolUse
	held    int
	spoken  bool
	rulings []ruling
	removed int
}

type messagesState byte

const (
	messagesBegin   messagesState = iota
	messagesBetween               // no block is open
	messagesInside                // one is
	messagesDelta                 // message_delta has come
	messagesOver
)

// A toolUse is a call of an answer.
type toolUse struct {
	block rawjson.Value // as it began
	id    string
	name  string
	given []byte // arguments at the start, if there were any
	args  bytes.Buffer
}

func newMessages(j judge, session string, pass map[string]bool, hosted func(string) bool, most int) *messagesStream {
	return &messagesStream{judge: j, session: session, pass: pass, hosted: hosted, most: most}
}

func (s *messagesStream) holding() int { return s.held }

func (s *messagesStream) sequence() int { return 0 }

// end returns an error if a stream that has ended was not whole.
func (s *messagesStream) end() error {
	if s.state != messagesOver {
		return errOrder
	}
	return nil
}

// event takes one event, and returns those that the app gets now.
func (s *messagesStream) event(ctx context.Context, e frame) (out []frame, err error) {
	v, err := rawjson.Check(e.data)
	if err != nil {
		return nil, err
	}
	kind := v.Get("type").Text()
	if e.event != kind {
		return nil, errShape
	}
	if kind == "error" { // the API's own, with which a stream ends
		if v, err = messageError.clean(v, s.pass, &s.removed); err != nil {
			return nil, err
		}
		s.state = messagesOver
		return []frame{{kind, v.Raw()}}, errUpstream
	}
	of := messageEvents[kind]
	if of == nil || s.state == messagesOver {
		return nil, errShape
	}
	if v, err = of.clean(v, s.pass, &s.removed); err != nil {
		return nil, err
	}
	pass := []frame{{kind, v.Raw()}}
	switch kind {
	case "ping":
		return pass, nil
	case "message_start":
		m := v.Get("message")
		if s.state != messagesBegin || !emptyList(m.Get("content")) || m.Get("role").Text() != "assistant" {
			return nil, errShape
		}
		s.state = messagesBetween
		s.watch.begin(m.Get("id").Text())
		return pass, nil
	case "content_block_start":
		return s.start(v)
	case "content_block_delta":
		return s.delta(v)
	case "content_block_stop":
		return s.stop(v)
	case "message_delta":
		return s.finish(ctx, v)
	}
	if s.state != messagesDelta { // message_stop
		return nil, errOrder
	}
	s.state = messagesOver
	return pass, nil
}

// emptyList reports whether v is a list of nothing, or not there.
func emptyList(v rawjson.Value) bool {
	return !v.Exists() || v.Kind() == rawjson.Array && empty(v)
}

// with returns an object in which one member is another.
func with(v rawjson.Value, name string, value []byte) rawjson.Value {
	return v.Edit(func(m rawjson.Member) []byte {
		if m.Name == name {
			return value
		}
		return m.Value.Raw()
	})
}

// set is with, for a member that may not be there.
func set(v rawjson.Value, name string, value []byte) rawjson.Value {
	if v.Get(name).Kind() != rawjson.Missing {
		return with(v, name, value)
	}
	return v.Edit(func(m rawjson.Member) []byte { return m.Value.Raw() }, append(append(quote(name), ':'), value...))
}

// cleanBlock returns a block of an answer, cleaned, and the kind of the hosted tool that it is of.
func cleanBlock(b rawjson.Value, pass map[string]bool, removed *int) (clean rawjson.Value, hosted string, err error) {
	kind := b.Get("type").Text()
	of := messageBlocks[kind]
	if tool, ok := hostedBlocks[kind]; ok {
		of, hosted = messageHosted, tool
		if kind == "server_tool_use" {
			if hosted = serverTools[b.Get("name").Text()]; hosted == "" {
				return b, "", errShape
			}
		}
	}
	if of == nil || b.Kind() != rawjson.Object {
		return b, "", errShape
	}
	clean, err = of.clean(b, pass, removed)
	return clean, hosted, err
}

func (s *messagesStream) start(v rawjson.Value) ([]frame, error) {
	at, ok := integer(v.Get("index"))
	if !ok || s.state != messagesBetween || at != s.blocks {
		return nil, errOrder
	}
	s.blocks++
	s.block, s.state = at, messagesInside
	b, hosted, err := cleanBlock(v.Get("content_block"), s.pass, &s.removed)
	switch {
	case err != nil:
		return nil, err
	case hosted != "" && !s.hosted(hosted):
		return nil, errHosted
	}
	if s.ran = hosted; hosted != "" {
		s.watch.run(hosted, b.Raw())
	}
	s.passed = b.Get("type").Text()
	if s.passed == "tool_use" {
		call, err := newToolUse(b.Clone())
		if err != nil {
			return nil, err
		}
		if s.open = call; len(s.calls) >= maxCalls {
			return nil, errTooMany
		}
		s.calls = append(s.calls, call)
		return nil, s.hold(len(b.Raw()))
	}
	s.spoken = s.spoken || s.passed == "text"
	v = with(with(v, "content_block", b.Raw()), "index", strconv.AppendInt(nil, int64(s.out), 10))
	s.out++
	return []frame{{"content_block_start", v.Raw()}}, nil
}

func (s *messagesStream) hold(n int) error {
	if s.held += n; s.held > s.most {
		return errTooLong
	}
	return nil
}

// newToolUse reads the block of a call. Only a call that the app is to run itself is one.
func newToolUse(b rawjson.Value) (*toolUse, error) {
	name, id, input, caller := b.Get("name"), b.Get("id"), b.Get("input"), b.Get("caller")
	switch {
	case name.Text() == "", id.Exists() && id.Kind() != rawjson.String,
		input.Exists() && input.Kind() != rawjson.Object,
		caller.Exists() && caller.Get("type").Text() != "direct":
		return nil, errCall
	}
	c := &toolUse{block: b, id: id.Text(), name: name.Text()}
	for range input.Members() {
		c.given = input.Raw()
		break
	}
	return c, nil
}

func (s *messagesStream) delta(v rawjson.Value) ([]frame, error) {
	at, ok := integer(v.Get("index"))
	if !ok || s.state != messagesInside || at != s.block {
		return nil, errOrder
	}
	d := v.Get("delta")
	kind := d.Get("type").Text()
	of := messageDeltas[kind]
	if of == nil || d.Kind() != rawjson.Object {
		return nil, errShape
	}
	d, err := of.clean(d, s.pass, &s.removed)
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		if s.ran != "" {
			s.watch.run(s.ran, d.Raw())
		}
		v = with(with(v, "delta", d.Raw()), "index", strconv.AppendInt(nil, int64(s.out-1), 10))
		return []frame{{"content_block_delta", v.Raw()}}, nil
	}
	part := d.Get("partial_json")
	switch {
	case kind != "input_json_delta", part.Kind() != rawjson.String, part.Halves():
		return nil, errCall
	case part.Text() != "" && s.open.given != nil:
		return nil, errCall // at both places
	}
	s.open.args.WriteString(part.Text())
	return nil, s.hold(len(part.Raw()))
}

func (s *messagesStream) stop(v rawjson.Value) ([]frame, error) {
	at, ok := integer(v.Get("index"))
	if !ok || s.state != messagesInside || at != s.block {
		return nil, errOrder
	}
	s.state = messagesBetween
	if s.open != nil {
		s.open = nil
		return nil, nil
	}
	v = with(v, "index", strconv.AppendInt(nil, int64(s.out-1), 10))
	return []frame{{"content_block_stop", v.Raw()}}, nil
}

// finish judges the calls, in their order, and returns the events that tell of them.
func (s *messagesStream) finish(ctx context.Context, v rawjson.Value) (out []frame, err error) {
	reason := v.Get("delta").Get("stop_reason")
	cut := messageCut[reason.Text()]
	switch {
	case s.state == messagesInside && !cut, s.state == messagesBegin, s.state == messagesDelta:
		return nil, errOrder
	case !cut && !messageEnds[reason.Text()]:
		return nil, errShape
	}
	s.state = messagesDelta
	if cut || len(s.calls) == 0 {
		return []frame{{"message_delta", v.Raw()}}, nil
	}
	released, refusals := s.judged(ctx)
	block := func(start, delta []byte) {
		at := strconv.AppendInt(nil, int64(s.out), 10)
		s.out++
		frameOf := func(kind, member string, value []byte) {
			b := append(append([]byte(`{"type":"`), kind...), `","index":`...)
			b = append(b, at...)
			if member != "" {
				b = append(append(b, `,"`+member+`":`...), value...)
			}
			out = append(out, frame{kind, append(b, '}')})
		}
		frameOf("content_block_start", "content_block", start)
		frameOf("content_block_delta", "delta", delta)
		frameOf("content_block_stop", "", nil)
	}
	if refusals != "" {
		block([]byte(`{"type":"text","text":""}`),
			append(append([]byte(`{"type":"text_delta","text":`), quote(refusals)...), '}'))
	}
	for _, r := range released {
		block(set(r.start, "input", []byte("{}")).Raw(),
			append(append([]byte(`{"type":"input_json_delta","partial_json":`), quote(string(r.args))...), '}'))
	}
	if len(released) == 0 && reason.Text() == "tool_use" {
		v = with(v, "delta", with(v.Get("delta"), "stop_reason", []byte(`"end_turn"`)).Raw())
	}
	v = v.Edit(func(m rawjson.Member) []byte { return m.Value.Raw() }, helmMember(s.session, s.rulings))
	return append(out, frame{"message_delta", v.Raw()}), nil
}

// call returns the call, whole.
func (u *toolUse) call() call {
	args := u.args.Bytes()
	switch {
	case u.given != nil:
		args = u.given
	case len(args) == 0:
		args = []byte("{}")
	}
	return call{id: u.id, tool: u.name, args: args}
}

// A releasedUse is a call that was allowed: its block, with the id under which it goes, and what
// was judged.
type releasedUse struct {
	start rawjson.Value
	args  []byte
}

// judged has the calls judged, and returns those that were allowed, and the refusals as one text.
func (s *messagesStream) judged(ctx context.Context) (released []releasedUse, refusals string) {
	for _, c := range s.calls {
		r := s.judge(ctx, c.call())
		s.rulings = append(s.rulings, r)
		if r.allowed {
			released = append(released, releasedUse{set(c.block, "id", quote(r.id)), r.args})
			continue
		}
		if refusals != "" || s.spoken {
			refusals += "\n\n"
		}
		refusals += r.refusal
	}
	return released, refusals
}
