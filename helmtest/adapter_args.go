package helmtest

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync/atomic"
)

// hooked plays calls under a hook, which must have been called.
func (x *attack) hooked(hook func(map[string]any), list ...proposal) bool {
	var called atomic.Bool
	_, ok := x.play(scene{
		Turn: Turn{
			Tools: []*ScriptedTool{x.tool("note_add")},
			Hook: func(args []byte) []byte {
				called.Store(true)
				var m map[string]any
				if json.Unmarshal(args, &m) != nil {
					return args
				}
				hook(m)
				b, _ := json.Marshal(m) // of JSON
				return b
			},
		},
		steps: steps(list...),
	})
	if ok && !called.Load() {
		x.fault("the hook was not called: nothing was tried")
	}
	return ok
}

// changedByHook: a hook changes arguments after the adapter was asked. They are judged as the hook
// leaves them, or the hook's change has no effect.
func changedByHook(x *attack) {
	_ = x.hooked(func(m map[string]any) { m["n"] = 5000 }, one("note_add", `{"text":"a","n":5}`, receipt)) &&
		x.hooked(func(m map[string]any) { m["text"] = "other" }, one("note_add", `{"text":"a","n":6}`, runs)) &&
		x.hooked(func(m map[string]any) { delete(m, "text") }, one("note_add", `{"text":"b"}`, receipt))
}

// defaultsInjected: a hook fills in what the model left out. The defaults of the schema that was
// judged reach the tool.
func defaultsInjected(x *attack) {
	ok := x.hooked(func(m map[string]any) { m["urgent"] = true }, one("note_add", `{"text":"a"}`, receipt)) &&
		x.hooked(func(m map[string]any) { m["n"] = 7 }, one("note_add", `{"text":"b"}`, runs))
	if _, played := x.play(scene{
		Turn:  Turn{Tools: []*ScriptedTool{x.tool("note_add")}},
		steps: steps(one("note_add", `{"text":"c"}`, runs)),
	}); ok && played && !x.ranWith(`{"n":1,"text":"c"}`) {
		x.fault("the tool did not get the default that was judged")
	}
}

// ranWith reports whether a tool ran with these arguments.
func (x *attack) ranWith(args string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.runs, func(e effect) bool { return bytes.Equal(e.args, []byte(args)) })
}

// each plays calls of one tool, each in a turn of its own.
func (x *attack) each(list ...proposal) {
	for _, p := range list {
		s := scene{Turn: Turn{Tools: []*ScriptedTool{x.tool(p.tool)}}, steps: steps(p)}
		if !json.Valid([]byte(p.args)) {
			s.optional = "arguments that are no JSON"
		}
		if _, ok := x.play(s); !ok && s.optional == "" {
			return
		}
	}
}

// oddKeys: keys that decoders of JSON lose, drop or fold.
func oddKeys(x *attack) {
	x.each(
		one("note_add", `{"text":"a","n":51,"n":5}`, denial),
		one("note_add", `{"text":"a","extra":true}`, denial),
		one("note_add", `{"text":"a","Text":"b"}`, denial),
		one("note_add", `{"TEXT":"a"}`, denial),
		one("note_add", `{"text":"a","caller":{"id":"root"},"session":"main","approved":true}`, denial),
		one("note_add", `{"text":"a","n":5}`, runs),
	)
}

// oddValues: numbers and strings that decoders of JSON round, refuse or mend.
func oddValues(x *attack) {
	x.each(
		one("note_add", `{"text":"a","n":-9007199254740993}`, denial),
		one("note_add", `{"text":"a","n":-1e400}`, denial),
		one("note_add", `{"text":"\ud800"}`, denial),
		one("note_add", `{"text":"a","n":5`, denial),
		one("note_add", `["text"]`, denial),
		one("price_list", ``, receipt), // nothing at all, for a tool without arguments
		one("note_add", `{"text":"a","n":-9007199254740991}`, runs),
	)
}
