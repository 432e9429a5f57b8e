package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/helmtest"
	helmopenai "github.com/helmkernel/helm/integrations/openai"
	"github.com/helmkernel/helm/integrations/openai/internal/scripted"
)

// TestAdapterSuite: the attacks that every adapter is tried with, over each of the ways by which an
// answer comes. A hook is a middleware of the client, which changes an answer before it is decoded.
func TestAdapterSuite(t *testing.T) {
	t.Parallel()
	const none = "the client runs no tool, so it has no streams of tools"
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name:  "openai",
		Kinds: []string{"chat", "chat-stream", "responses", "responses-stream"},
		Ways:  []string{"parallel"},
		Turn:  turn,
		Lacks: map[string]string{"07-alias": "the client runs no tool, so it has no aliases of tools", "08-streams": none},
	})
}

// A talk is one turn, over one of the APIs.
type talk struct {
	ctx    context.Context
	turn   helmtest.Turn
	model  *scripted.Model
	client openai.Client
	tools  *helmopenai.Tools
}

func turn(ctx context.Context, t helmtest.Turn) (a helmtest.Answer) {
	if t.Repeat || t.Alias != nil {
		return helmtest.Answer{Err: errors.ErrUnsupported} // it repeats requests to the model alone
	}
	x := talk{ctx: ctx, turn: t, model: &scripted.Model{Text: t.Text}}
	kind := t.Tools[0].Kind
	for _, calls := range t.Model {
		step := scripted.Step{}
		for _, c := range calls {
			step.Calls = append(step.Calls, scripted.Call{ID: c.ID, Tool: c.Tool, Args: string(c.Args)})
		}
		x.model.Steps = append(x.model.Steps, step)
	}
	options := x.model.Options()
	if t.Hook != nil {
		options = append(options, option.WithHTTPClient(&http.Client{Transport: hooked{x.model, t.Hook}}))
	}
	x.client = openai.NewClient(options...)
	var list []helmopenai.Tool
	for _, s := range t.Tools {
		var schema shared.FunctionParameters
		if a.Err = json.Unmarshal(s.Schema, &schema); a.Err != nil {
			return a
		}
		list = append(list, helmopenai.Function(
			shared.FunctionDefinitionParam{Name: s.Name, Description: openai.String(s.Description), Parameters: schema},
			helm.Text(func(ctx context.Context, args json.RawMessage) (string, error) { return s.Run(ctx, args) })))
	}
	if x.tools, a.Err = helmopenai.NewTools(list...); a.Err != nil {
		return a
	}
	if t.Way == "parallel" || len(t.Model) > 0 && len(t.Model[0]) > 8 {
		x.tools = x.tools.Parallel(32)
	}
	x.tools = x.tools.Ask(func(d helm.Decision) { a.Pending = append(a.Pending, *d.Pending) })
	var answered int
	if strings.HasPrefix(kind, "chat") {
		a.Text, answered, a.Err = x.chat(kind == "chat-stream")
	} else {
		a.Text, answered, a.Err = x.responses(kind == "responses-stream")
	}
	for _, told := range x.model.Told() {
		a.Shown = append(a.Shown, helmtest.Shown{Call: told.Call, Text: told.Text})
	}
	if a.Err == nil && answered != len(a.Shown) {
		a.Err = fmt.Errorf("%d calls were answered, and the model was told of %d", answered, len(a.Shown))
	}
	return a
}

func (x *talk) chat(streamed bool) (text string, answered int, err error) {
	params := openai.ChatCompletionNewParams{Model: "scripted", Tools: x.tools.Chat(),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Go on.")}}
	for {
		var answer *openai.ChatCompletion
		if streamed {
			s, acc := x.client.Chat.Completions.NewStreaming(x.ctx, params), openai.ChatCompletionAccumulator{}
			for s.Next() {
				acc.AddChunk(s.Current())
			}
			answer, err = &acc.ChatCompletion, s.Err()
		} else {
			answer, err = x.client.Chat.Completions.New(x.ctx, params)
		}
		if err != nil {
			return "", answered, err
		}
		results := helmopenai.Run(x.ctx, x.turn.Kernel, x.tools, answer)
		if len(results) == 0 {
			return answer.Choices[0].Message.Content, answered, nil
		}
		answered += len(results)
		params.Messages = append(append(params.Messages, answer.Choices[0].Message.ToParam()), results...)
	}
}

func (x *talk) responses(streamed bool) (text string, answered int, err error) {
	params := responses.ResponseNewParams{Model: "scripted", Tools: x.tools.Responses(),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Go on.")}}
	for {
		var answer *responses.Response
		if streamed {
			s := x.client.Responses.NewStreaming(x.ctx, params)
			for s.Next() {
				if e, ok := s.Current().AsAny().(responses.ResponseCompletedEvent); ok {
					answer = &e.Response
				}
			}
			err = s.Err()
		} else {
			answer, err = x.client.Responses.New(x.ctx, params)
		}
		if err != nil {
			return "", answered, err
		}
		results := helmopenai.RunResponse(x.ctx, x.turn.Kernel, x.tools, answer)
		if len(results) == 0 {
			return answer.OutputText(), answered, nil
		}
		answered += len(results)
		params.PreviousResponseID = openai.String(answer.ID)
		params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: results}
	}
}

// hooked is a model whose answers a hook changes on their way.
type hooked struct {
	model *scripted.Model
	hook  func(args []byte) []byte
}

func (h hooked) RoundTrip(r *http.Request) (*http.Response, error) {
	h.model.Change(func(args string) string { return string(h.hook([]byte(args))) })
	return h.model.RoundTrip(r)
}

// TestStory: the pack of the suite's story is verified there; here a custom tool and a legacy call
// are in it, too.
func TestStory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.chat(d.ctx(), day)
	d.chat(d.ctx(), scripted.Step{Calls: []scripted.Call{{Tool: "look", Args: `{"at":"1"}`, Legacy: true}}})
	d.chat(d.ctx(), step(scripted.Call{ID: "z", Tool: "sql", Args: "update", Custom: true}))
	report := d.MustPass()
	assert.Equal(t, uint64(5), uint64(report.Allows))
	require.Zero(t, report.Replay.Differing+report.Replay.NotReplayable)
}
