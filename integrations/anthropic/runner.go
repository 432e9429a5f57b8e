package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/helmkernel/helm"
)

// tools are those of a runner.
type tools struct {
	kernel *helm.Kernel
	names  map[string]bool
	list   []sdk.BetaTool // with the absent one
	memory *memory
}

func guardAll(k *helm.Kernel, list []sdk.BetaTool) (*tools, error) {
	if k == nil {
		return nil, errors.New("anthropic: there is no kernel")
	}
	s := &tools{kernel: k, names: map[string]bool{}}
	for _, t := range list {
		g, err := s.guard(t)
		if err != nil {
			return nil, err
		}
		if s.names[g.name] {
			return nil, fmt.Errorf("anthropic: %s: two tools have this name", g.name)
		}
		s.names[g.name] = true
		s.list = append(s.list, g)
	}
	s.list = append(s.list, absent{k})
	return s, nil
}

// guard puts a tool under guard, if it is not.
func (s *tools) guard(t sdk.BetaTool) (*tool, error) {
	g, under := t.(*tool)
	if !under || g == nil {
		return guard(s.kernel, t)
	}
	if g.kernel != s.kernel {
		return nil, fmt.Errorf("anthropic: %s: it is under guard of another kernel", g.name)
	}
	return g, nil
}

// add puts tools under guard and has the runner take them, all or none.
func (s *tools) add(take func(...sdk.BetaTool), list []sdk.BetaTool) error {
	var all []sdk.BetaTool
	for _, t := range list {
		g, err := s.guard(t)
		if err != nil {
			return err
		}
		all = append(all, g)
	}
	for _, g := range all {
		s.names[g.Name()] = true
	}
	take(all...)
	return nil
}

// remove takes tools from the runner: calls of them are those of tools that it does not have.
func (s *tools) remove(names ...string) {
	for _, name := range names {
		delete(s.names, name)
	}
}

func namesOf(list []sdk.BetaTool) []string {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Name()
	}
	return names
}

// takenBy returns the names of definitions, in whose place no tool of the runner stays.
func takenBy(list []sdk.BetaToolUnionParam) (names []string) {
	for _, t := range list {
		var of struct {
			Name string `json:"name"` // that of a server tool is there in JSON alone
		}
		if b, err := json.Marshal(t); err == nil && json.Unmarshal(b, &of) == nil {
			names = append(names, of.Name)
		}
	}
	return names
}

// A ToolRunner is the SDK's tool runner, under guard. The methods that take steps, and those that
// add and remove tools, are its own. To take a step of the embedded runner, or to add or remove
// tools there or in Params, leaves calls without a receipt, and tools without guard. It is not safe
// for concurrent use, but its tools run at the same time.
type ToolRunner struct {
	*sdk.BetaToolRunner
	tools *tools
}

// NewToolRunner returns a runner over the tools, each of which it puts under guard if it is not. It
// returns the errors of [Tool], and one for two tools of one name, and for a tool under guard of
// another kernel.
func NewToolRunner(
	k *helm.Kernel, messages *sdk.BetaMessageService, list []sdk.BetaTool, params sdk.BetaToolRunnerParams,
	opts ...option.RequestOption,
) (*ToolRunner, error) {
	s, err := guardAll(k, list)
	if err != nil {
		return nil, err
	}
	r := &ToolRunner{messages.NewToolRunner(s.list, params, opts...), s}
	r.Params.Tools = r.Params.Tools[:len(s.list)-1] // without the absent one
	return r, nil
}

// AddTools is that of the SDK's runner. It puts tools under guard if they are not, and returns the
// errors of [Tool]; then no tool is added.
func (r *ToolRunner) AddTools(list ...sdk.BetaTool) error {
	return r.tools.add(r.BetaToolRunner.AddTools, list)
}

// AddToolParams is that of the SDK's runner. A tool that the model's provider runs is not
// governed; a call of any other one is denied, because there is nothing to run.
func (r *ToolRunner) AddToolParams(list ...sdk.BetaToolUnionParam) {
	r.tools.remove(takenBy(list)...)
	r.BetaToolRunner.AddToolParams(list...)
}

// RemoveTools is that of the SDK's runner. A call of a removed tool is denied as one of a tool that
// the runner does not have.
func (r *ToolRunner) RemoveTools(list ...sdk.BetaTool) { r.RemoveToolsByNames(namesOf(list)...) }

// RemoveToolsByNames is [ToolRunner.RemoveTools] by names.
func (r *ToolRunner) RemoveToolsByNames(names ...string) {
	r.tools.remove(names...)
	r.BetaToolRunner.RemoveToolsByNames(names...)
}

// NextMessage is that of the SDK's runner. If it returns an error, the calls that it has made are
// made: called again it presents the same results, and makes those that are left.
func (r *ToolRunner) NextMessage(ctx context.Context) (*sdk.BetaMessage, error) {
	before, n := r.LastMessage(), len(r.Params.Messages)
	defer r.tools.present(before, nil)()
	m, err := r.BetaToolRunner.NextMessage(r.tools.remember(ctx, before))
	if r.LastMessage() == before && err != nil {
		withdraw(&r.Params, n)
	}
	keep(&r.Params, m)
	return m, err
}

// keep has the history repeat the inputs of a message as they were: the SDK decodes them, and some
// cannot be encoded again.
func keep(params *sdk.BetaToolRunnerParams, m *sdk.BetaMessage) {
	if m == nil || len(params.Messages) == 0 {
		return
	}
	last := params.Messages[len(params.Messages)-1]
	if last.Role != sdk.BetaMessageParamRoleAssistant || len(last.Content) != len(m.Content) {
		return
	}
	for i := range m.Content {
		if use := last.Content[i].OfToolUse; use != nil && json.Valid(m.Content[i].Input) {
			use.Input = m.Content[i].Input
		}
	}
}

// present packs the calls of a message for a step, and returns a function that puts the message
// back as it was.
func (s *tools) present(m *sdk.BetaMessage, partial map[int64][]byte) (restore func()) {
	if m == nil {
		return func() {}
	}
	content := m.Content
	m.Content = s.pack(content, partial)
	return func() { m.Content = content }
}

// RunToCompletion is that of the SDK's runner.
func (r *ToolRunner) RunToCompletion(ctx context.Context) (*sdk.BetaMessage, error) {
	for {
		m, err := r.NextMessage(ctx)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return r.LastMessage(), nil
		}
	}
}

// All is that of the SDK's runner.
func (r *ToolRunner) All(ctx context.Context) iter.Seq2[*sdk.BetaMessage, error] {
	return func(yield func(*sdk.BetaMessage, error) bool) {
		for {
			m, err := r.NextMessage(ctx)
			if m == nil {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

// A ToolRunnerStreaming is the SDK's streaming tool runner, under guard, as [ToolRunner] is.
type ToolRunnerStreaming struct {
	*sdk.BetaToolRunnerStreaming
	tools   *tools
	partial map[int64][]byte // inputs of the last message that came in pieces
}

// NewToolRunnerStreaming is [NewToolRunner] for streams of messages.
func NewToolRunnerStreaming(
	k *helm.Kernel, messages *sdk.BetaMessageService, list []sdk.BetaTool, params sdk.BetaToolRunnerParams,
	opts ...option.RequestOption,
) (*ToolRunnerStreaming, error) {
	s, err := guardAll(k, list)
	if err != nil {
		return nil, err
	}
	r := &ToolRunnerStreaming{messages.NewToolRunnerStreaming(s.list, params, opts...), s, nil}
	r.Params.Tools = r.Params.Tools[:len(s.list)-1]
	return r, nil
}

// AddTools is [ToolRunner.AddTools].
func (r *ToolRunnerStreaming) AddTools(list ...sdk.BetaTool) error {
	return r.tools.add(r.BetaToolRunnerStreaming.AddTools, list)
}

// AddToolParams is [ToolRunner.AddToolParams].
func (r *ToolRunnerStreaming) AddToolParams(list ...sdk.BetaToolUnionParam) {
	r.tools.remove(takenBy(list)...)
	r.BetaToolRunnerStreaming.AddToolParams(list...)
}

// RemoveTools is [ToolRunner.RemoveTools].
func (r *ToolRunnerStreaming) RemoveTools(list ...sdk.BetaTool) {
	r.RemoveToolsByNames(namesOf(list)...)
}

// RemoveToolsByNames is [ToolRunner.RemoveTools] by names.
func (r *ToolRunnerStreaming) RemoveToolsByNames(names ...string) {
	r.tools.remove(names...)
	r.BetaToolRunnerStreaming.RemoveToolsByNames(names...)
}

// NextStreaming is that of the SDK's runner. If the iterator is left before its end the message is
// not the runner's, and the next step asks for it again. See [ToolRunner.NextMessage].
func (r *ToolRunnerStreaming) NextStreaming(
	ctx context.Context,
) iter.Seq2[sdk.BetaRawMessageStreamEventUnion, error] {
	return func(yield func(sdk.BetaRawMessageStreamEventUnion, error) bool) {
		before, n := r.LastMessage(), len(r.Params.Messages)
		restore := r.tools.present(before, r.partial)
		partial := map[int64][]byte{}
		defer func() {
			restore()
			switch m := r.LastMessage(); {
			case m != before:
				r.partial = partial
				keep(&r.Params, m)
			case !r.IsCompleted():
				withdraw(&r.Params, n)
			}
		}()
		for e, err := range r.BetaToolRunnerStreaming.NextStreaming(r.tools.remember(ctx, before)) {
			if err == nil && e.Type == "content_block_delta" && e.Delta.Type == "input_json_delta" &&
				e.Delta.PartialJSON != "" {
				partial[e.Index] = append(partial[e.Index], e.Delta.PartialJSON...)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// AllStreaming is that of the SDK's runner.
func (r *ToolRunnerStreaming) AllStreaming(
	ctx context.Context,
) iter.Seq2[iter.Seq2[sdk.BetaRawMessageStreamEventUnion, error], error] {
	return func(yield func(iter.Seq2[sdk.BetaRawMessageStreamEventUnion, error], error) bool) {
		for !r.IsCompleted() {
			if !yield(r.NextStreaming(ctx), nil) {
				return
			}
		}
	}
}
