package helmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// A ScriptedTool is a tool of [AdapterSuite]. The adapter's test makes a tool of the framework from
// it, of the kind that it names, which calls Run or Stream once for each call. Its methods are safe
// for concurrent use by multiple goroutines. Only the suite makes one: the zero value panics.
type ScriptedTool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments: an object
	Kind        string          // one of Adapter.Kinds

	attack *attack
	body   func(ctx context.Context, run int, args []byte) iter.Seq2[string, error]
}

// Run runs the tool. args are the arguments that the framework handed to its tool, as JSON. It
// returns the output, or an error, or it panics, as the attack has it.
func (s *ScriptedTool) Run(ctx context.Context, args []byte) (string, error) {
	var all strings.Builder
	for chunk, err := range s.begin(ctx, args) {
		if err != nil {
			return "", err
		}
		all.WriteString(chunk)
	}
	return all.String(), nil
}

// Stream runs the tool, and returns its output in chunks. The run begins with Stream, which may
// panic; so call it in the function of the framework's tool. The chunks may be read on another
// goroutine. After an error there are no more.
func (s *ScriptedTool) Stream(ctx context.Context, args []byte) iter.Seq2[string, error] {
	s.attack.streams()
	return s.begin(ctx, args)
}

func (s *ScriptedTool) begin(ctx context.Context, args []byte) iter.Seq2[string, error] {
	run := s.attack.effect(ctx, s.Name, args)
	return s.body(ctx, run, args)
}

// answers returns a body that returns texts, which have the number of the run in place of %d.
func answers(texts ...string) func(context.Context, int, []byte) iter.Seq2[string, error] {
	return func(_ context.Context, run int, _ []byte) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, text := range texts {
				if !yield(strings.ReplaceAll(text, "%d", fmt.Sprint(run)), nil) {
					return
				}
			}
		}
	}
}

// plainAnswer is no canonical JSON, so that what was released differs from what the tool returned.
var plainAnswer = answers(`{"run":"run-%d", `, `"b":1,`, `"a":"<é & ü>"}`)

// fails returns a body that returns chunks and then an error.
func fails(err error, chunks ...string) func(context.Context, int, []byte) iter.Seq2[string, error] {
	return func(context.Context, int, []byte) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
			yield("", err)
		}
	}
}
