package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// schemas are the tools that the clients offer.
var schemas = map[string]map[string]any{
	"look": schema("at", "integer"),
	"mail": schema("to", "string"),
	"pay":  schema("sum", "integer"),
}

func schema(name, kind string) map[string]any {
	return object{"type": "object", "properties": object{name: object{"type": kind}}, "required": []string{name},
		"additionalProperties": false}
}

// run runs a call: its arguments are JSON.
func (r *result) run(t testing.TB, tool, args string) string {
	require.True(t, json.Valid([]byte(args)), "%s", args)
	r.Ran = append(r.Ran, tool+" "+args)
	return "ran " + tool
}

func openaiClient(j job) openai.Client {
	o := []option.RequestOption{option.WithBaseURL(j.URL + "/v1"), option.WithAPIKey("sk-none"), option.WithUnsafeAllowHTTP()}
	for name, value := range j.Header {
		o = append(o, option.WithHeader(name, value))
	}
	return openai.NewClient(o...)
}

// failed notes an error of the client.
func (r *result) failed(t testing.TB, err error) {
	var e *openai.Error
	require.True(t, errors.As(err, &e), "%v", err)
	r.Status, r.Message = e.StatusCode, e.Message
}

func openaiChat(t testing.TB, j job) (r result) {
	ctx, c := context.Background(), openaiClient(j)
	params := openai.ChatCompletionNewParams{Model: j.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Go on.")}}
	for name, s := range schemas {
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(
			shared.FunctionDefinitionParam{Name: name, Parameters: s}))
	}
	for {
		var message openai.ChatCompletionMessage
		if j.Stream {
			params.StreamOptions.IncludeUsage = openai.Bool(true)
			stream, acc := c.Chat.Completions.NewStreaming(ctx, params), openai.ChatCompletionAccumulator{}
			finished := 0
			for stream.Next() {
				require.True(t, acc.AddChunk(stream.Current()), "%s", stream.Current().RawJSON())
				if _, ok := acc.JustFinishedToolCall(); ok {
					finished++
				}
			}
			if err := stream.Err(); err != nil {
				r.failed(t, err)
				return r
			}
			require.Len(t, acc.Choices, 1)
			message = acc.Choices[0].Message
			assert.Equal(t, len(message.ToolCalls), finished, "the accumulator saw each call end")
			assert.Positive(t, acc.Usage.TotalTokens)
		} else {
			answer, err := c.Chat.Completions.New(ctx, params)
			if err != nil {
				r.failed(t, err)
				return r
			}
			require.Len(t, answer.Choices, 1)
			message = answer.Choices[0].Message
		}
		r.Text += message.Content
		params.Messages = append(params.Messages, message.ToParam())
		if len(message.ToolCalls) == 0 {
			return r
		}
		for _, call := range message.ToolCalls {
			f := call.Function // AsFunction reads the JSON, which the accumulator does not have
			params.Messages = append(params.Messages, openai.ToolMessage(r.run(t, f.Name, f.Arguments), call.ID))
		}
	}
}

// openaiResponses asks with the history, or has the provider keep it.
func openaiResponses(keeps bool) func(t testing.TB, j job) result {
	return func(t testing.TB, j job) (r result) {
		ctx, c := context.Background(), openaiClient(j)
		params := responses.ResponseNewParams{Model: j.Model, Store: openai.Bool(keeps)}
		input := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("Go on.", responses.EasyInputMessageRoleUser)}
		for name, s := range schemas {
			params.Tools = append(params.Tools, responses.ToolUnionParam{
				OfFunction: &responses.FunctionToolParam{Name: name, Parameters: s, Strict: openai.Bool(true)}})
		}
		for {
			params.Input.OfInputItemList = input
			var answer responses.Response
			if j.Stream {
				stream := c.Responses.NewStreaming(ctx, params)
				var deltas string
				for stream.Next() {
					switch e := stream.Current().AsAny().(type) {
					case responses.ResponseTextDeltaEvent:
						deltas += e.Delta
					case responses.ResponseCompletedEvent:
						answer = e.Response
					case responses.ResponseErrorEvent:
						require.Fail(t, e.Message)
					}
				}
				if err := stream.Err(); err != nil {
					r.failed(t, err)
					return r
				}
				require.NotEmpty(t, answer.ID, "the stream ends with the response")
				assert.Equal(t, answer.OutputText(), deltas)
			} else {
				a, err := c.Responses.New(ctx, params)
				if err != nil {
					r.failed(t, err)
					return r
				}
				answer = *a
			}
			r.Text += answer.OutputText()
			if keeps {
				params.PreviousResponseID, input = openai.String(answer.ID), nil
			}
			calls := 0
			for _, item := range answer.Output {
				if !keeps {
					input = append(input, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
				}
				if call, ok := item.AsAny().(responses.ResponseFunctionToolCall); ok {
					calls++
					output := r.run(t, call.Name, call.Arguments)
					input = append(input, functionOutput(call.CallID, output))
				}
			}
			if calls == 0 {
				return r
			}
		}
	}
}

func TestOpenAIGo(t *testing.T) {
	t.Parallel()
	for _, c := range []client{
		{"chat", true, true, openaiChat},
		{"responses", true, true, openaiResponses(false)},
		{"responses kept", true, true, openaiResponses(true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			drive(t, c)
		})
	}
}

func functionOutput(id, output string) responses.ResponseInputItemUnionParam {
	item, err := json.Marshal(object{"type": "function_call_output", "call_id": id, "output": output})
	if err != nil {
		panic(err)
	}
	return param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item))
}
