package adk_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"

	"github.com/helmkernel/helm/integrations/adk/internal/script"
)

// mute is a tool that runs under a context that cannot ask, as that of a callback.
type mute struct{ function }

func (m mute) ProcessRequest(_ agent.Context, r *model.LLMRequest) error {
	if r.Tools == nil {
		r.Tools = map[string]any{}
	}
	r.Tools[m.Name()] = m
	return nil
}

func (m mute) Run(ctx agent.Context, args any) (map[string]any, error) {
	return m.function.Run(nobody{ctx}, args)
}

type nobody struct{ agent.Context }

func (nobody) RequestConfirmation(string, any) error { return errors.New("hunter2") }

// If ADK cannot ask the user, the model is told of the denial all the same, in the kernel's words.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pay := mute{w.guard(w.plain("pay"))[0].(function)}
	told := newChat(t, llmagent.Config{Tools: []tool.Tool{pay}}, nil,
		script.Call{Tool: "pay", Args: `{"text":"a"}`}).say(hello())
	assert.Len(t, told, 1)
	assert.Contains(t, told[0]["error"], "pay was denied: APPROVAL_REQUIRED. ")
	assert.Empty(t, w.effects())
	assert.Equal(t, []string{"pay APPROVAL_REQUIRED"}, w.seen())
}
