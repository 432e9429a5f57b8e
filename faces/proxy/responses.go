package proxy

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// A responsesStream turns the events of a streamed response into those that the app gets. Items
// pass as they come, counted again; one that is a call is held until it is done, and judged then.
// Refusals come last, as one message: a reasoning item must stay next to the call that it led to.
type responsesStream struct {
	judge   judge
	session string
	pass    map[string]bool
	hosted  func(tool string) bool
	shell   bool // a shell_call is the app's to run
	most    int
	watch   watch

	items   map[int]*responseItem // by the index as it came
	calls   int
	begun   bool
	over    bool
	out     int            // items that the app got
	sent    map[int][]byte // by that index, as they were when they were done
	seq     int
	held    int
	rulings []ruling
	refused []byte
	removed int
}

// A responseItem is an item of a response.
type responseItem struct {
	kind   string
	id     string
	call   bool // it is held
	done   bool
	denied bool
	out    int           // its index for the app
	added  rawjson.Value // as it began
	args   bytes.Buffer  // what came of its arguments in fragments
	parts  bool          // there were fragments
}

func newResponses(j judge, session string, pass map[string]bool, hosted func(string) bool, shell bool,
	most int) *responsesStream {
	return &responsesStream{judge: j, session: session, pass: pass, hosted: hosted, shell: shell, most: most,
		items: map[int]*responseItem{}, sent: map[int][]byte{}}
}

func (s *responsesStream) holding() int { return s.held }

func (s *responsesStream) sequence() int { return s.seq }

func (s *responsesStream) end() error {
	if !s.over {
		return errOrder
	}
	return nil
}

// event takes one event, and returns those that the app gets now.
func (s *responsesStream) event(ctx context.Context, e frame) (out []frame, err error) {
	v, err := rawjson.Check(e.data)
	if err != nil {
		return nil, err
	}
	kind := v.Get("type").Text()
	if e.event != "" && e.event != kind || v.Kind() != rawjson.Object {
		return nil, errShape
	}
	if s.over {
		return nil, errOrder
	}
	switch kind {
	case "response.created", "response.queued", "response.in_progress":
		return s.opening(kind, v)
	case "response.completed", "response.incomplete", "response.failed":
		return s.finish(kind, v)
	case "response.output_item.added":
		return s.add(kind, v)
	case "response.output_item.done":
		return s.itemDone(ctx, kind, v)
	case "error":
		if v, err = responseError.clean(v, s.pass, &s.removed); err != nil {
			return nil, err
		}
		s.over = true
		return []frame{s.numbered(kind, v, 0)}, errUpstream
	}
	of, ok := responseEvents[kind]
	if !ok {
		return nil, errShape
	}
	return s.ofItem(kind, of, v)
}

// numbered returns an event with the next number, and if it is of an item its index.
func (s *responsesStream) numbered(kind string, v rawjson.Value, index int) frame {
	v = v.Edit(func(m rawjson.Member) []byte {
		switch m.Name {
		case "sequence_number":
			return strconv.AppendInt(nil, int64(s.seq), 10)
		case "output_index":
			return strconv.AppendInt(nil, int64(index), 10)
		}
		return m.Value.Raw()
	})
	s.seq++
	return frame{kind, v.Raw()}
}

var responseEnvelope = object([]string{"type", "sequence_number"}, map[string]*shape{"response": responseMembers})

func (s *responsesStream) opening(kind string, v rawjson.Value) ([]frame, error) {
	v, err := responseEnvelope.clean(v, s.pass, &s.removed)
	if err != nil {
		return nil, err
	}
	if len(s.items) > 0 || !emptyList(v.Get("response").Get("output")) {
		return nil, errShape
	}
	s.begun = true
	s.watch.begin(v.Get("response").Get("id").Text())
	return []frame{s.numbered(kind, v, 0)}, nil
}

var responseAdded = object([]string{"type", "sequence_number", "output_index", "item*"}, nil)

// item reads an item of an event, cleaned, and its place.
func (s *responsesStream) item(v rawjson.Value) (clean, item rawjson.Value, at int, err error) {
	if clean, err = responseAdded.clean(v, s.pass, &s.removed); err != nil {
		return clean, item, 0, err
	}
	at, ok := integer(clean.Get("output_index"))
	if !ok || !s.begun {
		return clean, item, 0, errOrder
	}
	item, err = s.cleanItem(clean.Get("item"))
	return clean, item, at, err
}

// cleanItem returns an item without members that no table has. It refuses one of a type that no
// table has, and of what the provider ran without a permission.
func (s *responsesStream) cleanItem(item rawjson.Value) (rawjson.Value, error) {
	kind := item.Get("type").Text()
	of := responsePassed[kind]
	if c, ok := responseCalls[kind]; ok {
		of = c.of
	}
	tool := responseHosted[kind]
	if kind == "shell_call" && !s.shell {
		tool = "shell"
	}
	if tool != "" {
		if !s.hosted(tool) {
			return item, errHosted
		}
		of = responseHostedItem
	}
	if of == nil || item.Kind() != rawjson.Object {
		return item, errShape
	}
	if role := item.Get("role"); role.Exists() && role.Text() != "assistant" {
		return item, errShape
	}
	item, err := of.clean(item, s.pass, &s.removed)
	if err != nil {
		return item, err
	}
	if tool == "" {
		for part := range item.Get("content").Elements() {
			if !responseParts[part.Get("type").Text()] {
				return item, errShape
			}
		}
	}
	return item, nil
}

func (s *responsesStream) isCall(kind string) bool {
	_, ok := responseCalls[kind]
	return ok && (kind != "shell_call" || s.shell)
}

func (s *responsesStream) add(kind string, v rawjson.Value) ([]frame, error) {
	v, item, at, err := s.item(v)
	switch {
	case err != nil:
		return nil, err
	case s.items[at] != nil || at != len(s.items):
		return nil, errOrder
	}
	it := &responseItem{kind: item.Get("type").Text(), id: item.Get("id").Text()}
	if err := s.hold(perItem); err != nil {
		return nil, err
	}
	it.call = s.isCall(it.kind)
	s.items[at] = it
	if it.call {
		if s.calls++; s.calls > maxCalls {
			return nil, errTooMany
		}
		it.added = item.Clone()
		return nil, s.hold(len(item.Raw()))
	}
	if !emptyList(item.Get("content")) {
		return nil, errShape
	}
	it.out = s.out
	s.out++
	return []frame{s.numbered(kind, with(v, "item", item.Raw()), it.out)}, nil
}

func (s *responsesStream) hold(n int) error {
	if s.held += n; s.held > s.most {
		return errTooLong
	}
	return nil
}

// perItem is about what an item takes besides its text.
const perItem = 512

// keep keeps an item that the app got, for the end.
func (s *responsesStream) keep(at int, item rawjson.Value) error {
	s.sent[at] = item.Clone().Raw()
	return s.hold(len(item.Raw()))
}

// ofItem passes an event of an item that is open, or keeps what it says of the arguments of a call.
func (s *responsesStream) ofItem(kind string, of responseEvent, v rawjson.Value) ([]frame, error) {
	v, err := responseEventMembers.clean(v, s.pass, &s.removed)
	if err != nil {
		return nil, err
	}
	at, ok := integer(v.Get("output_index"))
	it := s.items[at]
	if !ok || it == nil || it.done || !slices.Contains(of.items, it.kind) {
		return nil, errOrder
	}
	if id := v.Get("item_id"); id.Exists() && id.Text() != it.id {
		return nil, errOrder
	}
	if of.part != "" {
		part := v.Get(of.part)
		if !responseParts[part.Get("type").Text()] {
			return nil, errShape
		}
		if part, err = responsePart.clean(part, s.pass, &s.removed); err != nil {
			return nil, err
		}
		v = with(v, of.part, part.Raw())
	}
	if !it.call {
		return []frame{s.numbered(kind, v, it.out)}, nil
	}
	if delta := v.Get("delta"); delta.Exists() {
		if delta.Kind() != rawjson.String || delta.Halves() {
			return nil, errCall
		}
		it.parts = true
		it.args.WriteString(delta.Text())
		return nil, s.hold(len(delta.Raw()))
	}
	for _, name := range []string{"arguments", "input"} { // the end of the fragments
		if whole := v.Get(name); whole.Exists() && whole.Text() != it.args.String() {
			return nil, errCall
		}
	}
	return nil, nil
}

// itemDone passes an item that is done, or judges a call.
func (s *responsesStream) itemDone(ctx context.Context, kind string, v rawjson.Value) ([]frame, error) {
	v, item, at, err := s.item(v)
	it := s.items[at]
	switch {
	case err != nil:
		return nil, err
	case it == nil || it.done || item.Get("type").Text() != it.kind || item.Get("id").Text() != it.id:
		return nil, errOrder
	}
	it.done = true
	if !it.call {
		s.hosts(item)
		if err := s.keep(it.out, item); err != nil {
			return nil, err
		}
		return []frame{s.numbered(kind, with(v, "item", item.Raw()), it.out)}, nil
	}
	return s.judged(ctx, it, item)
}

// hosts tells of an item that is done if the provider ran it.
func (s *responsesStream) hosts(item rawjson.Value) {
	kind := item.Get("type").Text()
	tool := responseHosted[kind]
	if kind == "shell_call" {
		tool = "shell"
	}
	if tool == "" {
		return
	}
	s.watch.run(tool, item.Raw())
	if request := item.Get("approval_request_id").Text(); request != "" && s.watch.done != nil {
		s.watch.done(request, item.Raw())
	}
}

// readCall returns the call of an item.
func readCall(it *responseItem, item rawjson.Value) (c call, err error) {
	of := responseCalls[it.kind]
	args := item.Get(of.arguments)
	id := item.Get("call_id")
	if it.kind == "mcp_approval_request" {
		id = item.Get("id")
	}
	caller := item.Get("caller")
	switch {
	case of.text && args.Kind() != rawjson.String, !of.text && args.Kind() != rawjson.Object,
		of.text && args.Halves(), it.parts && args.Text() != it.args.String(), id.Kind() != rawjson.String,
		caller.Exists() && caller.Get("type").Text() != "direct":
		return c, errCall
	case it.added.Get("name").Text() != item.Get("name").Text(),
		it.added.Get("call_id").Text() != item.Get("call_id").Text():
		return c, errCall
	}
	if begun := it.added.Get(of.arguments); of.text && begun.Text() != "" && (it.parts || begun.Text() != args.Text()) {
		return c, errCall
	}
	c = call{id: id.Text(), fixed: true, kind: it.kind, tool: item.Get("name").Text(), args: args.Raw()}
	switch it.kind {
	case "function_call":
		if c.args = []byte(args.Text()); len(c.args) == 0 {
			c.args = []byte("{}")
		}
		c.tool = spaced(item)
	case "custom_tool_call":
		c.args = append(append([]byte(`{"input":`), quote(args.Text())...), '}')
		c.tool = spaced(item)
	case "mcp_approval_request":
		if c.args = []byte(args.Text()); len(c.args) == 0 {
			c.args = []byte("{}")
		}
		c.server = item.Get("server_label").Text()
		c.tool = c.server + "__" + c.tool
	case "computer_call":
		c.tool = "computer"
		if item.Get("actions").Exists() {
			return c, errCall // several at once have no call of their own
		}
	case "local_shell_call":
		c.tool = "local_shell"
	case "shell_call":
		c.tool = "shell"
	case "apply_patch_call":
		c.tool = "apply_patch"
	}
	if c.tool == "" {
		return c, errCall
	}
	return c, nil
}

// spaced returns the name of a tool, with that of its namespace.
func spaced(item rawjson.Value) string {
	if space := item.Get("namespace").Text(); space != "" {
		return space + "." + item.Get("name").Text()
	}
	return item.Get("name").Text()
}

// judged releases a call that is done and allowed, in its place, or keeps its refusal.
func (s *responsesStream) judged(ctx context.Context, it *responseItem, item rawjson.Value) (out []frame, err error) {
	if status := item.Get("status"); status.Exists() && status.Text() != "completed" {
		it.denied = true
		return nil, nil // cut short: it is not judged, and nobody gets it
	}
	c, err := readCall(it, item)
	if err != nil {
		return nil, err
	}
	r := s.judge(ctx, c)
	s.rulings = append(s.rulings, r)
	if !r.allowed {
		it.denied = true
		if len(s.refused) > 0 {
			s.refused = append(s.refused, "\n\n"...)
		}
		s.refused = append(s.refused, r.refusal...)
		return nil, nil
	}
	of, whole := responseCalls[it.kind], withArguments(item, r.args)
	args := whole.Get(of.arguments).Raw()
	fragments := map[string]string{"function_call": "response.function_call_arguments",
		"custom_tool_call": "response.custom_tool_call_input"}[it.kind]
	it.out = s.out
	s.out++
	began := whole
	if fragments != "" {
		began = with(whole, of.arguments, []byte(`""`))
	}
	if began.Get("status").Exists() {
		began = with(began, "status", []byte(`"in_progress"`))
	}
	out = append(out, s.made("response.output_item.added", it.out, "item", began.Raw()))
	if fragments != "" {
		id := append([]byte(nil), quote(it.id)...)
		out = append(out, s.made(fragments+".delta", it.out, "item_id", id, "delta", args),
			s.made(fragments+".done", it.out, "item_id", id, of.arguments, args))
	}
	if err := s.keep(it.out, whole); err != nil {
		return nil, err
	}
	return append(out, s.made("response.output_item.done", it.out, "item", whole.Raw())), nil
}

// made returns an event of an item that HELM makes, of names and values in turn.
func (s *responsesStream) made(kind string, index int, members ...any) frame {
	b := append(append([]byte(`{"type":"`), kind...), `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(s.seq), 10)
	b = strconv.AppendInt(append(b, `,"output_index":`...), int64(index), 10)
	for i := 0; i < len(members); i += 2 {
		b = append(append(append(b, ','), quote(members[i].(string))...), ':')
		b = append(b, members[i+1].([]byte)...)
	}
	s.seq++
	return frame{kind, append(b, '}')}
}

// finish tells the refusals, and then what became of the response, with what was sent of it.
func (s *responsesStream) finish(kind string, v rawjson.Value) (out []frame, err error) {
	if v, err = responseEnvelope.clean(v, s.pass, &s.removed); err != nil {
		return nil, err
	}
	if !s.begun || v.Get("response").Kind() != rawjson.Object {
		return nil, errOrder
	}
	for _, it := range s.items {
		if !it.done && kind == "response.completed" {
			return nil, errOrder
		}
	}
	s.over = true
	var last thought
	for _, at := range slices.Sorted(maps.Keys(s.items)) {
		it := s.items[at]
		last.next(&s.watch, it.kind, it.id, it.denied)
	}
	last.next(&s.watch, "", "", false)
	if len(s.refused) > 0 {
		out = s.refusal()
	}
	var output [][]byte
	for _, at := range slices.Sorted(maps.Keys(s.sent)) { // of one that was cut short an item may not be done
		output = append(output, s.sent[at])
	}
	response := set(v.Get("response"), "output", rawjson.List(output).Raw())
	if len(s.rulings) > 0 {
		response = response.Edit(func(m rawjson.Member) []byte { return m.Value.Raw() }, helmMember(s.session,
			s.rulings))
	}
	return append(out, s.numbered(kind, with(v, "response", response.Raw()), 0)), nil
}

// refusal returns the events of a message that tells what was denied.
func (s *responsesStream) refusal() []frame {
	id, text := refusalID(), quote(string(s.refused))
	s.watch.say(id, string(s.refused))
	zero := []byte("0")
	at := s.out
	s.out++
	whole := refusalItem(id, "completed", refusalPart(text))
	s.sent[at] = whole
	return []frame{
		s.made("response.output_item.added", at, "item", refusalItem(id, "in_progress", nil)),
		s.made("response.content_part.added", at, "item_id", id, "content_index", zero, "part",
			refusalPart([]byte(`""`))),
		s.made("response.output_text.delta", at, "item_id", id, "content_index", zero, "delta", text),
		s.made("response.output_text.done", at, "item_id", id, "content_index", zero, "text", text),
		s.made("response.content_part.done", at, "item_id", id, "content_index", zero, "part", refusalPart(text)),
		s.made("response.output_item.done", at, "item", whole),
	}
}
