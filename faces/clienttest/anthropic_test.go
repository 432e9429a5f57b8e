package clienttest

import (
	"context"
	"errors"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/require"
)

func anthropicMessages(t testing.TB, j job) (r result) {
	ctx := context.Background()
	o := []option.RequestOption{option.WithBaseURL(j.URL), option.WithAPIKey("sk-none")}
	for name, value := range j.Header {
		o = append(o, option.WithHeader(name, value))
	}
	c := anthropic.NewClient(o...)
	params := anthropic.MessageNewParams{Model: anthropic.Model(j.Model), MaxTokens: 1000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Go on."))}}
	for name, s := range schemas {
		params.Tools = append(params.Tools, anthropic.ToolUnionParamOfTool(
			anthropic.ToolInputSchemaParam{Properties: s["properties"], Required: s["required"].([]string)}, name))
	}
	failed := func(err error) result {
		var e *anthropic.Error
		require.True(t, errors.As(err, &e), "%v", err)
		r.Status, r.Message = e.StatusCode, e.Error()
		return r
	}
	for {
		var message anthropic.Message
		if j.Stream {
			stream := c.Messages.NewStreaming(ctx, params)
			for stream.Next() {
				require.NoError(t, message.Accumulate(stream.Current()))
			}
			if err := stream.Err(); err != nil {
				return failed(err)
			}
		} else {
			m, err := c.Messages.New(ctx, params)
			if err != nil {
				return failed(err)
			}
			message = *m
		}
		var results []anthropic.ContentBlockParamUnion
		for _, b := range message.Content {
			switch b := b.AsAny().(type) {
			case anthropic.TextBlock:
				r.Text += b.Text
			case anthropic.ToolUseBlock:
				results = append(results, anthropic.NewToolResultBlock(b.ID, r.run(t, b.Name, string(b.Input)), false))
			}
		}
		require.Equal(t, len(results) > 0, message.StopReason == anthropic.StopReasonToolUse, "%s", message.StopReason)
		params.Messages = append(params.Messages, message.ToParam())
		if results == nil {
			return r
		}
		params.Messages = append(params.Messages, anthropic.NewUserMessage(results...))
	}
}

func TestAnthropicGo(t *testing.T) {
	t.Parallel()
	drive(t, client{"messages", true, true, anthropicMessages})
}
