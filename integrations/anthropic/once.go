package anthropic

import (
	"context"
	"slices"
	"sync"

	sdk "github.com/anthropics/anthropic-sdk-go"
)

// The SDK's runner makes the calls of a message when the host asks for the next one. If that
// request fails and the host asks again, the runner makes them again. So what became of the calls
// of a message is remembered until there is another message.

// A memory has what became of the calls of a message, by their blocks.
type memory struct {
	of *sdk.BetaMessage

	mu   sync.Mutex
	made map[int]outcome
}

type outcome struct {
	content []sdk.BetaToolResultBlockParamContentUnion
	err     error
}

type memoryKey struct{}

// remember returns the context of a step that makes the calls of a message.
func (s *tools) remember(ctx context.Context, m *sdk.BetaMessage) context.Context {
	if s.memory == nil || s.memory.of != m {
		s.memory = &memory{of: m, made: map[int]outcome{}}
	}
	return context.WithValue(ctx, memoryKey{}, s.memory)
}

// once makes a call of a step, unless it was made in an earlier one. A call that was made on a
// context without a memory is one of a runner of the host.
func once(
	ctx context.Context, c packed, do func() ([]sdk.BetaToolResultBlockParamContentUnion, error),
) ([]sdk.BetaToolResultBlockParamContentUnion, error) {
	m, ok := ctx.Value(memoryKey{}).(*memory)
	if !ok {
		return do()
	}
	m.mu.Lock()
	before, made := m.made[c.at]
	m.mu.Unlock()
	if made {
		return before.content, before.err
	}
	content, err := do()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[c.at] = outcome{content, err}
	return content, err
}

// withdraw takes results out of the history that a step without an answer has put there, from n on:
// the next step puts them there again.
func withdraw(params *sdk.BetaToolRunnerParams, n int) {
	if n > len(params.Messages) {
		return
	}
	isResult := func(b sdk.BetaContentBlockParamUnion) bool { return b.OfToolResult != nil }
	added := slices.DeleteFunc(slices.Clone(params.Messages[n:]), func(m sdk.BetaMessageParam) bool {
		return slices.ContainsFunc(m.Content, isResult)
	})
	params.Messages = append(slices.Clip(params.Messages[:n]), added...)
}
